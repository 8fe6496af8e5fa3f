"""The encoders and decoders of the experiments by name, with the parameters that each data set asks for."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from sparselens.data import Dataset
from sparselens.experiments.spec import Algorithm
from sparselens.persist import CLASSES

# Data sets -> the line of the paper's table of training parameters that serves them.
PRESET_OF = {
    "toy": "toy",
    "synthetic1": "synthetic1",
    "synthetic2": "synthetic2",
    "synthetic3": "synthetic3",
    "unstructured": "synthetic1",  # the paper names no parameters for it
    "amazon": "amazon",
    "rcv1": "rcv1",
    "rcv1-mulan": "rcv1",
    # Labels too, but of no more columns than the generated sets, whose learning rate they take.
    "bibtex": "synthetic1",
    "delicious": "synthetic1",
}
_LABELS = "wiki10-31k"  # every other set is a matrix of labels, as the paper's Wiki10-31K is
_LEAST_PATIENCE = {"amazon": 20}
_LEAST_INTERVAL = {"simple": 10}  # epochs between validations
_LARGE = 20_000  # columns from which on ℓ1 decoding pays on a GPU
_WIDE = 5_000  # columns from which on a trained network decodes on a GPU

# Labels of the paper's figure 2, and what they are.
L1AE_OWN = Algorithm("ℓ1-AE", "l1ae", "own")
L1AE_L1 = Algorithm("ℓ1-AE + ℓ1-min pos", "l1ae", "l1-pos")
GAUSS_L1 = Algorithm("Gauss + ℓ1-min pos", "gaussian", "l1-pos")
GAUSS_COSAMP = Algorithm("Gauss + CoSaMP pos", "gaussian", "cosamp-pos")
PCA = Algorithm("PCA", "pca", "transpose")
PCA_L1 = Algorithm("PCA + ℓ1-min pos", "pca", "l1-pos")
SIMPLE = Algorithm("simple AE", "simple", "own")
SIMPLE_L1 = Algorithm("simple AE + ℓ1-min pos", "simple", "l1-pos")
LBCS_L1 = Algorithm("LBCS + ℓ1-min pos", "lbcs", "l1-pos")
DEEP = Algorithm("4-layer AE", "deep", "own")
CERTIFICATE = Algorithm("Certificate + ℓ1-min pos", "certificate", "l1-pos")
# The encoders that need no training come first: a run that is cut short has the most of them.
THE_TEN = (
    GAUSS_L1, GAUSS_COSAMP, L1AE_OWN, L1AE_L1, PCA, PCA_L1, LBCS_L1, SIMPLE, SIMPLE_L1, DEEP,
)  # fmt: skip
# Of the others.
# With tens of thousands of columns the gradient by β forbids a rate at which A learns: here β stays, and A has its own.
_FIXED = (
    ("beta", 0.002),
    ("learning_rate", 1.0),
    ("matmul_precision", "medium"),
    ("max_epochs", 2),
    ("norm", "none"),
    ("step_rule", "fixed"),
)
L1AE_FIXED_OWN = Algorithm("ℓ1-AE (fixed steps)", "l1ae", "own", _FIXED)
L1AE_FIXED_L1 = Algorithm("ℓ1-AE (fixed steps) + ℓ1-min pos", "l1ae", "l1-pos", _FIXED)
FOURIER_L1 = Algorithm("Fourier + ℓ1-min pos", "fourier", "l1-pos")
FOURIER_COSAMP = Algorithm("Fourier + CoSaMP pos", "fourier", "cosamp-pos")
L1AE_COSAMP = Algorithm("ℓ1-AE + CoSaMP pos", "l1ae", "cosamp-pos")
LBCS_COSAMP = Algorithm("LBCS + CoSaMP pos", "lbcs", "cosamp-pos")
CERTIFICATE_COSAMP = Algorithm("Certificate + CoSaMP pos", "certificate", "cosamp-pos")
GAUSS_COSAMP_SIGNED = Algorithm("Gauss + CoSaMP", "gaussian", "cosamp")
L1AE_L1_SIGNED = Algorithm("ℓ1-AE + ℓ1-min", "l1ae", "l1")
GAUSS_L1_SIGNED = Algorithm("Gauss + ℓ1-min", "gaussian", "l1")
CERTIFICATE_L1_SIGNED = Algorithm("Certificate + ℓ1-min", "certificate", "l1")
LBCS_LINEAR = Algorithm("LBCS + linear", "lbcs", "linear")
_DCT = (("basis", "dct"),)
LBCS_DCT_L1 = Algorithm("LBCS (DCT) + ℓ1-min pos", "lbcs", "l1-pos", _DCT)
LBCS_DCT_LINEAR = Algorithm("LBCS (DCT) + linear", "lbcs", "linear", _DCT)
ISTA_OWN = Algorithm("ISTA-AE", "ista", "own")
ISTA_L1 = Algorithm("ISTA-AE + ℓ1-min pos", "ista", "l1-pos")


# Name -> class, and which of the paper's training parameters it takes.
_SHARED = ("batch_size", "max_epochs", "validation_interval")
ENCODERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "gaussian": ("GaussianEncoder", ()),
    "fourier": ("PartialFourierEncoder", ()),
    "pca": ("PCAEncoder", ()),
    "lbcs": ("LBCSEncoder", ()),
    "l1ae": ("L1AE", ("n_steps", "learning_rate", "patience", *_SHARED)),
    "ista": ("ISTAAE", ("n_steps", "learning_rate", "patience", *_SHARED)),
    "simple": ("SimpleAE", _SHARED),
    "deep": ("DeepAE", _SHARED),
    "certificate": ("CertificateEncoder", ()),
}
TRAINED = {"l1ae", "ista", "simple", "deep", "certificate"}


def make_encoder(name: str, data: str, m: int, *, seed: int, device: str, params: dict[str, Any]) -> Any:
    """An unfitted encoder with the paper's parameters for the data set, any of them overridden by `params`.

    The simple AE asks for an improvement of 1e-3 in each of a few validations. Where the paper validates after every
    epoch (Amazon, RCV1) that ended it after seven, before it had learned anything: it is validated every 10, as on
    the other sets.

    Examples
    --------
    >>> make_encoder("l1ae", "amazon", 40, seed=0, device="cpu", params={}).patience
    20
    >>> make_encoder("lbcs", "toy", 10, seed=0, device="cpu", params={"basis": "dct"})
    LBCSEncoder(basis='dct', n_components=10, random_state=0)
    """
    class_name, taken = ENCODERS[name]
    cls = getattr(import_module(CLASSES[class_name]), class_name)
    offered = {"n_components": m, "random_state": seed, "device": device}
    accepted = cls().get_params()
    chosen = {key: value for key, value in offered.items() if key in accepted}
    from_paper = {key: preset(data)[key] for key in taken}
    if name in _LEAST_INTERVAL:
        from_paper["validation_interval"] = max(from_paper["validation_interval"], _LEAST_INTERVAL[name])
    return cls(**chosen | from_paper | params)


def preset(data: str) -> dict[str, Any]:
    """The paper's training parameters for a data set.

    On Amazon a patience of 20 in the place of 1: validated after every epoch, trainings stop on noise (with 1 one of
    m = 40 after five epochs, with 5 one of m = 20 after ten, which had gone on for 140 in another run), and going back
    to the best weights makes waiting cost nothing but time.
    """
    from sparselens.encoders.l1ae import PRESETS

    chosen = dict(PRESETS[PRESET_OF.get(data, _LABELS)])
    chosen["patience"] = max(chosen["patience"], _LEAST_PATIENCE.get(data, 0))
    return chosen


def make_decoder(name: str, encoder: Any, data: Dataset, *, device: str) -> Any:
    """A decoder bound to what the encoder learned."""
    if name == "own":
        decoder = encoder.decoder_
        if device.startswith("cuda") and data.n_features >= _WIDE and "device" in decoder.get_params(deep=False):
            decoder = decoder.set_params(device=device).bind(encoder.components_)
        return decoder
    return DECODERS[name](data, device).bind(encoder.components_)


def why_not(decoder: str, data: Dataset) -> str | None:
    """The reason for which a decoder does not apply to a data set, or None."""
    if decoder.startswith("cosamp") and data.sparsity is None:
        return f"model-based CoSaMP needs a model of the supports, and none is known for {data.name}"
    return None


def _l1(positive: bool) -> Callable[[Dataset, str], Any]:
    def make(data: Dataset, device: str) -> Any:
        from sparselens.decoders.l1 import L1Decoder

        on_gpu = device.startswith("cuda") and data.n_features >= _LARGE
        return L1Decoder(positive, device=device if on_gpu else None)

    return make


def _cosamp(positive: bool) -> Callable[[Dataset, str], Any]:
    def make(data: Dataset, device: str) -> Any:
        from sparselens.decoders.cosamp import CoSaMPDecoder

        assert data.sparsity is not None  # `why_not` has said so
        return CoSaMPDecoder(data.sparsity, positive=positive)

    return make


def _linear(method: str) -> Callable[[Dataset, str], Any]:
    def make(data: Dataset, device: str) -> Any:
        from sparselens.decoders.linear import LinearDecoder

        return LinearDecoder(method)

    return make


DECODERS: dict[str, Callable[[Dataset, str], Any]] = {
    "l1-pos": _l1(True),
    "l1": _l1(False),
    "cosamp-pos": _cosamp(True),
    "cosamp": _cosamp(False),
    "transpose": _linear("transpose"),
    "linear": _linear("pinv"),
}
