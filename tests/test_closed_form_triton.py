"""The kernels for GPUs against the batched closed form: on a GPU where there is one, by Triton's interpreter else.

The interpreter must be asked for before Triton is loaded: therefore this file also runs as a program.
"""

import json
import os
import subprocess
import sys
from importlib.util import find_spec

import pytest
import torch

from sparselens import _closed_form_many

# K, parts, rows, m, columns of a part, T, own B, final ReLU
CASES = {
    "one part": (2, 1, 7, 5, 24, 3, False, True),
    "parts": (2, 3, 9, 5, 24, 3, False, True),
    "a decoder of its own": (1, 2, 9, 4, 16, 2, True, False),
    "more rows than a tile": (1, 1, 300, 3, 16, 2, False, True),
    "more columns than a tile": (1, 2, 5, 4, 88, 2, False, True),
    "more measurements than a tile": (1, 1, 6, 140, 24, 2, False, True),
    "no blocks": (3, 1, 5, 4, 16, 0, True, True),
}


def differences(case, device, low):
    """The largest difference of each result from that of `_closed_form_many`, relative to its largest entry.

    The entries lie on a coarse grid, so that rounding turns no sign.
    """
    from sparselens import _closed_form_triton

    K, c, n, m, w, T, own, final_relu = case
    generator = torch.Generator().manual_seed(0)

    def whole(low, high, *shape):
        return torch.randint(low, high, shape, generator=generator).to(device, torch.float32)

    X, A = (whole(0, 5, K * c, n, w) == 0).float(), whole(-1, 2, K * c, m, w) / 8
    B = whole(-1, 2, K * c, m, w) / 8 if own else A
    steps = whole(1, 4, K, T) / 1024, 1 + whole(0, 2, K * c, T, w) / 64, whole(-1, 2, K * c, T, w) / 128
    expected = _flat(_closed_form_many, X, A, B, *steps, final_relu=final_relu)
    found = _flat(_closed_form_triton, X, A, B, *steps, final_relu=final_relu, low=low)
    assert all(value.any() for value in expected.values() if value.numel())
    return {
        name: float((found[name] - value).abs().max() / value.abs().max()) if value.numel() else 0.0
        for name, value in expected.items()
    }


def _flat(form, *arguments, final_relu, **options):
    loss, gradients = form.losses_and_gradients(*arguments, final_relu=final_relu, **options)
    return {"x": form.predict(*arguments, **options), "loss": loss} | gradients._asdict()


@pytest.fixture(scope="module")
def found():
    interpreted = {} if torch.cuda.is_available() else {"TRITON_INTERPRET": "1"}
    done = subprocess.run([sys.executable, __file__], env=os.environ | interpreted, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.skipif(find_spec("triton") is None, reason="needs Triton, which comes with torch for a GPU")
@pytest.mark.parametrize("name", CASES)
def test_the_kernels_give_what_the_closed_form_gives(name, found):
    for what, difference in found["differences"][name].items():
        assert difference < found["tolerance"], what


if __name__ == "__main__":
    on_gpu = torch.cuda.is_available()
    where = ("cuda", torch.float16) if on_gpu else ("cpu", torch.float32)
    results = {name: differences(case, *where) for name, case in CASES.items()}
    print(json.dumps({"differences": results, "tolerance": 1e-3 if on_gpu else 1e-5}))
