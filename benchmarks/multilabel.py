"""Extreme multi-label classifiers on the same splits: ours, SLEEC, omikuji, napkinXC and PECOS XR-Linear.

    python benchmarks/multilabel.py --data bibtex delicious rcv1-topics --splits 0 1 2
    python benchmarks/multilabel.py --data bibtex --methods sleec blend
    python benchmarks/multilabel.py --pecos .venv-pecos/bin/python    # XR-Linear has its own environment
    python benchmarks/multilabel.py --scale                           # a synthetic problem of Wiki10-31K's size

A split draws training and test rows of the official sizes. Each method runs alone in a
process with one thread, so that the peak of memory is its own. Rows are stored in results/xml.jsonl. ℓ1-AE's encoders
take long on a CPU: --encoders names a folder of trained ones (DATA-SPLIT-M-MODEL, as `encoder.save` writes them). The
models of an ensemble have seeds of their own, the first of five being the single one: one fit gives all sizes.
(The file is not called xml.py, which would hide Python's own package of that name from every script beside it.)
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "xml.jsonl"
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
PEERS = ("omikuji-parabel", "omikuji-bonsai", "napkinxc-plt", "napkinxc-plt-3", "xr-linear", "xr-linear-ova")
# SLEEC's published ridge and neighbours where there are any; RCV1 has none.
SLEEC = {"bibtex": ("bibtex", {}), "delicious": ("delicious", {}), "rcv1-topics": ("bibtex", {"C": 1.0})}


def l1ae(data: str, epochs: int) -> Any:
    """The label embedding of all ℓ1-AE rows."""
    import sparselens as sl

    m = {"rcv1-topics": 50}.get(data, 100)
    return sl.L1AE(
        n_components=m, n_steps=10, learning_rate=0.01, clip_norm=1.0, max_epochs=epochs, validation_interval=5,
        patience=5,
    )  # fmt: skip


PREDICTORS = ("neighbors", "decoder", "average")  # ℓ1-AE 1, 2 and 3


def make(method: str, data: str, split: int, epochs: int) -> Any:
    """One of our classifiers, unfitted; ℓ1-AE as an ensemble of five."""
    from sparselens import xml
    from sparselens.xml.sleec import PRESETS

    preset, overrides = SLEEC[data]
    n_neighbors = PRESETS[preset]["n_neighbors"]
    alpha = 1 / (2 * PRESETS[preset]["C"])
    ensemble = {"n_models": 5, "n_neighbors": n_neighbors, "random_state": split}
    makers: dict[str, Callable[[], Any]] = {
        "sleec": lambda: xml.SLEECClassifier.preset(preset, random_state=split, **overrides),
        "ridge one-vs-all": lambda: xml.RidgeOneVsAll(),
        "blend": lambda: xml.BlendClassifier(random_state=split),
        "l1ae paper": lambda: xml.EmbeddingClassifier.as_in_paper(l1ae(data, epochs), alpha=alpha, **ensemble),
        "l1ae": lambda: xml.EmbeddingClassifier(l1ae(data, epochs), **ensemble),
    }
    return makers[method]()


OURS = ("sleec", "ridge one-vs-all", "blend", "l1ae paper", "l1ae")


def run_ours(method: str, data: str, split: int, folder: Path, epochs: int, encoders: Path | None) -> None:
    """Fit, predict and save in this process; what `multilabel_peers.main` does for a peer."""
    import torch

    torch.set_num_threads(1)
    X, Y, X_test = (sp.csr_array(sp.load_npz(folder / f"{part}.npz")) for part in ("X.trn", "Y.trn", "X.tst"))
    model = make(method, data, split, epochs)
    embedders: list[float] = []
    if encoders is not None and method.startswith("l1ae"):
        embedders = _put_encoders(model, X, Y, encoders, f"{data}-{split}", folder / "parts")
    start = time.perf_counter()
    model.fit(X, Y)
    seconds = time.perf_counter() - start
    model.set_params(checkpoint=None)
    found = {}
    for name, ready in _variants(method, model):
        start = time.perf_counter()
        scores = ready.predict_topk(X_test, k=10)
        done = time.perf_counter()
        ready.save(folder / "model")
        sp.save_npz(folder / f"scores {len(found)}.npz", scores)
        found[name] = {
            "train_s": seconds + sum(embedders[: ready.n_models]) if embedders else seconds,
            "predict_s": done - start,
            "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
            "model_mb": sum(path.stat().st_size for path in (folder / "model").iterdir()) / 1e6,
        }
        if embedders:
            found[name]["embedder_s"] = sum(embedders[: ready.n_models])
        if hasattr(ready, "weights_"):
            found[name]["weights"] = ready.weights_
    (folder / "figures.json").write_text(json.dumps(found))


def _variants(method: str, model: Any) -> Iterator[tuple[str, Any]]:
    """The fitted model under its name; of ℓ1-AE the three predictors with the first one, three and five models."""
    if not method.startswith("l1ae"):
        yield method, model
        return
    parts, D = model.parts_, method.removeprefix("l1ae")
    for n_models in (1, 3, 5):
        for number, predictor in enumerate(PREDICTORS, 1):
            model.set_params(predictor=predictor, n_models=n_models)
            model.parts_ = parts[:n_models]
            yield f"l1ae-{number}{D}, {n_models}", model


def _put_encoders(model: Any, X: Any, Y: Any, encoders: Path, name: str, parts: Path) -> list[float]:
    """Put trained encoders where a resumed fit looks for them; return the seconds that each took."""
    import sparselens as sl
    from sparselens.persist import read_manifest
    from sparselens.xml._parts import Parts

    model.set_params(checkpoint=parts)
    kept = Parts(parts, model, model._scaled(sp.csr_array(X)), sp.csr_array(Y))
    seconds = []
    for number in range(model.n_models):
        folder = encoders / f"{name}-{model.embedder.n_components}-{number}"
        kept.get(f"embedder{number}", lambda folder=folder: sl.load(folder))
        seconds.append(float(read_manifest(folder)["metrics"]["seconds"]))
    return seconds


def measure(method: str, data: str, split: int, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Run one method on one split in a process of its own, and score what it ranked."""
    import sparselens as sl
    from facts import facts
    from sparselens._validation import unit_rows
    from sparselens.metrics import inverse_propensities, ranking_report

    X, Y, X_test, Y_test = sl.load_dataset(data, random_state=split).official_split()
    inverse = inverse_propensities(Y)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part, matrix in (("X.trn", unit_rows(X)), ("Y.trn", Y), ("X.tst", unit_rows(X_test))):
            sp.save_npz(folder / f"{part}.npz", sp.csr_matrix(matrix))
        if method in PEERS:
            python = options.pecos if method.startswith("xr-linear") else sys.executable
            command = [python, str(HERE / "multilabel_peers.py"), method, name]
        else:
            command = [
                sys.executable,
                __file__,
                "--one",
                method,
                "--data",
                data,
                "--splits",
                str(split),
                "--folder",
                name,
            ]
            command += ["--epochs", str(options.epochs)]
            command += ["--encoders", str(options.encoders)] if options.encoders else []
        ended = subprocess.run(command, env=os.environ | ONE_THREAD, capture_output=True, text=True, check=False)
        about = {"data": data, "split": split, "n_test": X_test.shape[0]}
        if ended.returncode:
            reason = (ended.stderr.strip().splitlines() or ["failed"])[-1][:200]
            return [about | {"method": method, "reason": reason} | facts()]
        rows = []
        for i, (variant, figures) in enumerate(json.loads((folder / "figures.json").read_text()).items()):
            scores = sp.csr_array(sp.load_npz(folder / f"scores {i}.npz"))
            ranked = ranking_report(Y_test, scores, inverse_propensity=inverse)
            rows.append(about | {"method": variant} | _rounded(ranked, 6) | _rounded(figures, 3) | facts())
        return rows


def _rounded(figures: dict[str, Any], digits: int) -> dict[str, Any]:
    return {key: round(value, digits) if isinstance(value, float) else value for key, value in figures.items()}


def scale(method: str) -> dict[str, Any]:
    """A synthetic problem of Wiki10-31K's size: seconds, memory, and P@1 beside that of the most frequent label."""
    import torch

    from facts import facts
    from sparselens import PCAEncoder, xml
    from sparselens.metrics import precision_at_k

    torch.set_num_threads(1)
    X, Y = wiki10_like(14146 + 6616, seed=0)
    X_test, Y_test = X[14146:], Y[14146:]
    X, Y = X[:14146], Y[:14146]
    models = {
        "sleec": lambda: xml.SLEECClassifier.preset("wiki10-31k", random_state=0),
        "embedding": lambda: xml.EmbeddingClassifier(PCAEncoder(n_components=75), n_neighbors=11, alpha=5.0),
    }
    start = time.perf_counter()
    model = models[method]().fit(X, Y)
    trained = time.perf_counter()
    scores = model.predict_topk(X_test, k=5)
    done = time.perf_counter()
    popular = int(np.argmax(np.bincount(Y.indices, minlength=Y.shape[1])))
    return {
        "case": "wiki10-31k size",
        "method": method,
        "train_s": round(trained - start, 1),
        "predict_s": round(done - trained, 1),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "P@1": round(precision_at_k(Y_test, scores, k=1), 4),
        "P@1 of the most frequent label": round(float(Y_test[:, [popular]].sum() / Y_test.shape[0]), 4),
        **facts(),
    }


def wiki10_like(n: int, *, seed: int) -> tuple[sp.csr_array, sp.csr_array]:
    """101,938 features (690 a row) and 30,938 labels (18.6 a row): rows of a few of 300 topics, with long tails."""
    rng = np.random.default_rng(seed)
    n_topics, p, n_labels = 300, 101_938, 30_938
    word_rank, label_rank = (rng.permutation(size) for size in (p, n_labels))
    topic_words = [rng.choice(p, 1500, replace=False) for _ in range(n_topics)]
    topic_labels = [label_rank[np.unique((n_labels * rng.random(14) ** 2).astype(int))] for _ in range(n_topics)]
    rows_x, rows_y = [], []
    for _ in range(n):
        topics = rng.integers(0, n_topics, 2)
        common = word_rank[(p * rng.random(390) ** 3).astype(int)]
        own_words = [rng.choice(topic_words[t], 170, replace=False) for t in topics]
        rows_x.append(np.unique(np.concatenate([common, *own_words])))
        own = np.concatenate([topic_labels[t] for t in topics])
        rare = label_rank[(n_labels * rng.random(4) ** 2).astype(int)]
        rows_y.append(np.unique(np.concatenate([rng.choice(own, 15, replace=True), rare])))
    return _rows(rows_x, p, rng), _rows(rows_y, n_labels, None)


def _rows(rows: list[np.ndarray], width: int, rng: np.random.Generator | None) -> sp.csr_array:
    indptr = np.cumsum([0, *map(len, rows)])
    data = np.ones(indptr[-1]) if rng is None else rng.random(indptr[-1])
    return sp.csr_array((data, np.concatenate(rows).astype(np.int32), indptr), shape=(len(rows), width))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=["bibtex", "delicious", "rcv1-topics"])
    parser.add_argument("--splits", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--methods", nargs="+", default=[*OURS, *PEERS])
    parser.add_argument("--epochs", type=int, default=100, help="of ℓ1-AE at most")
    parser.add_argument("--encoders", type=Path, help="folder of trained ℓ1-AE encoders")
    parser.add_argument("--pecos", default=sys.executable, help="a Python that has libpecos")
    parser.add_argument("--scale", nargs="*", help="sleec, embedding")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        run_ours(options.one, options.data[0], options.splits[0], options.folder, options.epochs, options.encoders)
        return
    if options.scale is not None:
        for method in options.scale or ["embedding", "sleec"]:
            _store(scale(method))
        return
    for data in options.data:
        for split in options.splits:
            for method in options.methods:
                for row in measure(method, data, split, options):
                    _store(row)


def _store(row: dict[str, Any]) -> None:
    print(json.dumps(row), flush=True)
    with RESULTS.open("a", encoding="utf-8") as out:
        out.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
