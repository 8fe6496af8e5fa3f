"""`sparselens xml`: extreme multi-label learning, from a text file to ranked labels."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparselens.cli.options import AsJson
from sparselens.cli.sources import check_file, check_word, counted, open_model

if TYPE_CHECKING:
    import scipy.sparse as sp

app = typer.Typer(help="Extreme multi-label learning: train, rank labels, evaluate.", no_args_is_help=True)

METHODS = ("blend", "l1ae", "pca", "certificate", "sleec", "one-vs-all", "neighbors")

Data = Annotated[str, typer.Argument(metavar="DATA", help="XMC text, svmlight, an .npz of features, or a data set.")]
Labels = Annotated[Path | None, typer.Option("--labels", "-y", help="The labels beside an .npz of features.")]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="Folder that `xml train` wrote.")]


@app.command()
def train(
    source: Data,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the model.")],
    labels: Labels = None,
    method: Annotated[str, typer.Option("--method", help=f"One of {', '.join(METHODS)}.")] = "blend",
    m: Annotated[int | None, typer.Option("--components", "-m", min=1, help="Dimension of the embedding.")] = None,
    predictor: Annotated[
        str | None, typer.Option(help="Of an embedding: neighbors, decoder or average (the default).")
    ] = None,
    n_models: Annotated[int | None, typer.Option("--models", min=1, help="Models in the ensemble.")] = None,
    preset: Annotated[
        str | None, typer.Option(help="SLEEC's published settings: bibtex, delicious, eurlex-4k, wiki10-31k.")
    ] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="Epochs of ℓ1-AE at most; 100 if not given.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything that is drawn.")] = 0,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Folder for finished parts: a killed training goes on from them.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a model that is there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Learn to rank labels from features and write the model as a folder.

    Of a data set with a name the official training rows are used. The default blends one-vs-all ridge regression with
    neighbours; its weights are learned on held-out rows. The folder is written whole at the end, or not at all.

    Example: sparselens xml train train.txt -o model

    Example: sparselens xml train bibtex -o model --method sleec --preset bibtex
    """
    from sparselens.cli.fit import check_output, save_whole
    from sparselens.cli.progress import progress

    check_word(method, "--method", METHODS)
    classifier = _classifier(
        method, m=m, predictor=predictor, n_models=n_models, preset=preset, epochs=epochs, seed=seed
    )
    check_output(out, replace=overwrite)
    if checkpoint is not None:
        classifier.set_params(checkpoint=checkpoint)
    X, Y = _read(source, labels, part="train")
    start = time.perf_counter()
    with progress("training") as update:
        classifier.fit(X, Y, callback=update)
    classifier.set_params(checkpoint=None)
    save_whole(classifier, out, metrics={}, replace=overwrite)
    if as_json:
        sizes = {"n_rows": X.shape[0], "n_features": X.shape[1], "n_labels": Y.shape[1]}
        facts = {"model": str(out), "class": type(classifier).__name__, "seconds": time.perf_counter() - start}
        typer.echo(json.dumps(facts | sizes))
        return
    typer.echo(
        f"{out}: {type(classifier).__name__}, {counted(X.shape[0], 'row')}, {counted(X.shape[1], 'feature')}, "
        f"{counted(Y.shape[1], 'label')}, {time.perf_counter() - start:.1f} s"
    )


@app.command()
def predict(
    model: Model,
    source: Data,
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write: .npz (CSR of scores) or text.")],
    k: Annotated[int, typer.Option("-k", min=1, help="Labels a row.")] = 5,
    as_json: AsJson = False,
) -> None:
    """Rank the labels of each row and write the best k with their scores.

    Text holds a header 'rows labels' and a line 'label:score label:score' a row, the best first. Labels in DATA, if
    there are any, are not looked at. Of a data set with a name the official test rows are used.

    Example: sparselens xml predict model test.txt -o ranked.txt -k 5
    """
    import scipy.sparse as sp

    from sparselens._files import check_writable, written_whole
    from sparselens.cli.progress import progress
    from sparselens.data import write_ranking

    classifier = _open(model)
    check_writable(out.parent)
    X = _features(source, classifier.n_features_in_)
    with progress("ranking") as update:
        scores = classifier.predict_topk(X, k=k, callback=update)
    if out.suffix == ".npz":
        with written_whole(out) as draft:
            sp.save_npz(draft, scores)
    else:
        write_ranking(out, scores)
    k = min(k, classifier.n_labels_)
    if as_json:
        typer.echo(json.dumps({"path": str(out), "n_rows": X.shape[0], "k": k}))
        return
    typer.echo(f"{out}: {counted(X.shape[0], 'row')}, {counted(k, 'label')} each")


@app.command()
def evaluate(
    model: Model,
    source: Data,
    labels: Labels = None,
    a: Annotated[float, typer.Option("--A", help="A of the propensity model.")] = 0.55,
    b: Annotated[float, typer.Option("--B", help="B of the propensity model.")] = 1.5,
    as_json: AsJson = False,
) -> None:
    """Print P@k, nDCG@k and PSP@k of a model, k = 1, 3, 5.

    Of a data set with a name the official test rows are used.

    Example: sparselens xml evaluate model test.txt
    """
    from sparselens.cli.progress import progress
    from sparselens.metrics import ranking_report

    classifier = _open(model)
    X, Y = _read(source, labels, part="test", n_features=classifier.n_features_in_, n_labels=classifier.n_labels_)
    inverse = classifier.inverse_propensities(A=a, B=b)
    with progress("ranking") as update:
        scores = classifier.predict_topk(X, k=5, callback=update)
    figures = ranking_report(Y, scores, inverse_propensity=inverse)
    if as_json:
        typer.echo(json.dumps({"n_rows": X.shape[0]} | figures))
        return
    typer.echo(f"{counted(X.shape[0], 'row')}, {int((Y.sum(axis=1) == 0).sum()):,} of them without labels")
    for name in ("P", "nDCG", "PSP"):
        typer.echo(f"{name + '@1/3/5':<11}" + "  ".join(f"{100 * figures[f'{name}@{k}']:6.2f}" for k in (1, 3, 5)))


def _classifier(
    method: str,
    *,
    m: int | None,
    predictor: str | None,
    n_models: int | None,
    preset: str | None,
    epochs: int | None,
    seed: int,
) -> Any:
    """The classifier of a name; an option that it does not know is refused, not ignored."""
    from sparselens.encoders.certificate import CertificateEncoder
    from sparselens.encoders.l1ae import L1AE
    from sparselens.encoders.spectral import PCAEncoder
    from sparselens.xml import BlendClassifier, EmbeddingClassifier, RidgeOneVsAll, SLEECClassifier

    given = {
        "--components": m,
        "--predictor": predictor,
        "--models": n_models,
        "--preset": preset,
        "--epochs": epochs,
    }
    known: dict[str, tuple[str, ...]] = {
        "sleec": ("--components", "--models", "--preset"),
        "l1ae": ("--components", "--predictor", "--models", "--epochs"),
        "certificate": ("--components", "--predictor", "--models"),
        "pca": ("--components", "--predictor"),
    }
    for option, value in given.items():
        if value is not None and option not in known.get(method, ()):
            raise ValueError(f"--method {method} takes no {option}: leave it out.")
    if method == "blend":
        return BlendClassifier(random_state=seed)
    if method == "one-vs-all":
        return RidgeOneVsAll()
    if method == "neighbors":
        return EmbeddingClassifier(None, predictor="neighbors")
    if method == "sleec":
        chosen = {"n_components": m, "n_models": n_models, "random_state": seed}
        chosen = {name: value for name, value in chosen.items() if value is not None}
        return SLEECClassifier(**chosen) if preset is None else SLEECClassifier.preset(preset, **chosen)
    size = m or 100
    embedders = {
        "l1ae": lambda: L1AE(n_components=size, clip_norm=1.0, max_epochs=epochs or 100, validation_interval=5),
        "certificate": lambda: CertificateEncoder(n_components=size),
        "pca": lambda: PCAEncoder(n_components=size),
    }
    return EmbeddingClassifier(
        embedders[method](), predictor=predictor or "average", n_models=n_models or 1, random_state=seed
    )


def _read(
    source: str, labels: Path | None, *, part: str, n_features: int | None = None, n_labels: int | None = None
) -> tuple[sp.csr_array, sp.csr_array]:
    from sparselens.data import read_multilabel

    named = _named(source)
    if named is None:
        return read_multilabel(source, labels, n_features=n_features, n_labels=n_labels)
    X, Y, X_test, Y_test = named
    return (X, Y) if part == "train" else (X_test, Y_test)


def _features(source: str, n_features: int) -> sp.csr_array:
    from sparselens.data.multilabel import read_features

    named = _named(source)
    return read_features(source, n_features=n_features) if named is None else named[2]


def _named(source: str) -> Any:
    """The official split of a data set where the text is the name of one, None where it is that of a file."""
    from sparselens.data import list_datasets, load_dataset

    if source not in {info.name for info in list_datasets()}:
        check_file(Path(source), named=True)
        return None
    data = load_dataset(source)
    if data.features is None:
        raise ValueError(f"the data set {source!r} has no features: name a multi-label set, or a file.")
    return data.official_split()


def _open(folder: Path) -> Any:
    from sparselens.xml.base import MultilabelClassifier

    model = open_model(folder)
    if not isinstance(model, MultilabelClassifier):
        raise ValueError(f"{folder} holds a {type(model).__name__}: pass a folder that `sparselens xml train` wrote.")
    return model
