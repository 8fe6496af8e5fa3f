"""The peers of `benchmarks/multilabel.py`: each trains on the same rows and hands back the top labels of the test rows.

    python benchmarks/multilabel_peers.py NAME FOLDER

FOLDER holds X.trn.npz, Y.trn.npz and X.tst.npz (features of unit ℓ2 norm); the scores and figures.json are written
there. It runs alone in a process, so that the peak of memory is the peer's own, and it imports nothing of sparselens:
PECOS needs a virtual environment of its own (numpy 1.26, scipy 1.13, `pip install --no-deps libpecos==1.2.8`).
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

TOP = 10
Prediction = Callable[[Any], list[list[tuple[int, float]]]]


def omikuji(X: Any, Y: Any, folder: Path, *, bonsai: bool) -> Prediction:
    """Omikuji, three trees: balanced 2-means as Parabel, or 100 unbalanced clusters in a shallow tree as Bonsai."""
    import omikuji as package

    text = folder / "train.txt"
    write_xmc(text, X, Y)
    options = package.Model.default_hyper_param()
    if bonsai:  # the settings that its README names for Bonsai
        options.cluster_balanced = False
        options.cluster_k = 100
        options.min_branch_size = 100
        options.max_depth = 3
    model = package.Model.train_on_data(str(text), options, n_threads=1)
    model.save(str(folder / "model"))
    model.init_prediction_thread_pool(1)

    def predict(X: Any) -> list[list[tuple[int, float]]]:
        pairs = (zip(X.indices[a:b].tolist(), X.data[a:b].tolist(), strict=True) for a, b in spans(X))
        return [model.predict(list(row), beam_size=10, top_k=TOP) for row in pairs]

    return predict


def napkinxc(X: Any, Y: Any, folder: Path, *, ensemble: int) -> Prediction:
    """napkinXC's probabilistic label tree with its defaults."""
    from napkinxc.models import PLT

    labels = [Y.indices[a:b].tolist() for a, b in spans(Y)]
    model = PLT(str(folder / "model"), ensemble=ensemble, seed=0, threads=1)
    model.fit(sp.csr_matrix(X), labels)
    return lambda X: model.predict_proba(sp.csr_matrix(X), top_k=TOP)


def xr_linear(X: Any, Y: Any, folder: Path, *, one_vs_all: bool) -> Prediction:
    """PECOS XR-Linear with its defaults (a tree of 16 branches over PIFA embeddings), or its one-vs-all mode."""
    from pecos.utils import smat_util
    from pecos.xmc import Indexer, LabelEmbeddingFactory
    from pecos.xmc.xlinear import XLinearModel

    X, Y = sp.csr_matrix(X, dtype=np.float32), sp.csc_matrix(Y, dtype=np.float32)
    X.sort_indices()
    chain = None
    if not one_vs_all:
        embedding = LabelEmbeddingFactory.create(sp.csr_matrix(Y), X, method="pifa")
        chain = Indexer.gen(embedding, threads=1)
    model = XLinearModel.train(X, Y, C=chain, threads=1)
    model.save(str(folder / "model"))

    def predict(X: Any) -> list[list[tuple[int, float]]]:
        X = sp.csr_matrix(X, dtype=np.float32)
        X.sort_indices()
        scores = model.predict(X, only_topk=TOP, threads=1)
        scores = smat_util.sorted_csr(scores)
        return [list(zip(scores.indices[a:b], scores.data[a:b], strict=True)) for a, b in spans(scores)]

    return predict


PEERS: dict[str, Callable[[Any, Any, Path], Prediction]] = {
    "omikuji-parabel": lambda X, Y, folder: omikuji(X, Y, folder, bonsai=False),
    "omikuji-bonsai": lambda X, Y, folder: omikuji(X, Y, folder, bonsai=True),
    "napkinxc-plt": lambda X, Y, folder: napkinxc(X, Y, folder, ensemble=1),
    "napkinxc-plt-3": lambda X, Y, folder: napkinxc(X, Y, folder, ensemble=3),
    "xr-linear": lambda X, Y, folder: xr_linear(X, Y, folder, one_vs_all=False),
    "xr-linear-ova": lambda X, Y, folder: xr_linear(X, Y, folder, one_vs_all=True),
}


def spans(X: Any) -> list[tuple[int, int]]:
    """Where each row of a CSR matrix starts and ends."""
    return list(zip(X.indptr[:-1].tolist(), X.indptr[1:].tolist(), strict=True))


def write_xmc(path: Path, X: Any, Y: Any) -> None:
    """Features and labels as XMC text, the only format that omikuji reads."""
    with path.open("w", encoding="ascii") as out:
        out.write(f"{X.shape[0]} {X.shape[1]} {Y.shape[1]}\n")
        for (a, b), (c, d) in zip(spans(X), spans(Y), strict=True):
            features = " ".join(f"{i}:{v:.7g}" for i, v in zip(X.indices[a:b], X.data[a:b], strict=True))
            out.write(f"{','.join(map(str, Y.indices[c:d]))} {features}\n")


def main(name: str, folder: Path) -> None:
    """Train, predict, and write what was found and what it cost."""
    X, Y, X_test = (sp.csr_matrix(sp.load_npz(folder / f"{part}.npz")) for part in ("X.trn", "Y.trn", "X.tst"))
    start = time.perf_counter()
    predict = PEERS[name](X, Y, folder)
    trained = time.perf_counter()
    rows = predict(X_test)
    done = time.perf_counter()
    indptr = np.cumsum([0, *map(len, rows)])
    found = [pair for row in rows for pair in row]
    indices = np.array([int(label) for label, _ in found], dtype=np.int32)
    values = np.array([float(score) for _, score in found])
    # A peer may give a label a score of 0: the offset keeps it stored and leaves the order as it is.
    values += 1.0 - min(values.min(), 0.0)
    sp.save_npz(folder / "scores 0.npz", sp.csr_matrix((values, indices, indptr), shape=(len(rows), Y.shape[1])))
    stored = sum(path.stat().st_size for path in (folder / "model").rglob("*") if path.is_file())
    figures = {
        "train_s": trained - start,
        "predict_s": done - trained,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "model_mb": stored / 1e6,
    }
    (folder / "figures.json").write_text(json.dumps({name: figures}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
