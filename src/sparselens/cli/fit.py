"""`sparselens fit`: learn a measurement matrix from a file and write it as a model folder."""

from __future__ import annotations

import errno
import json
import shutil
import tempfile
import time
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparselens.cli import codes
from sparselens.cli.options import AsJson, Data, Format
from sparselens.cli.sources import Source, check_word, counted, open_source

if TYPE_CHECKING:
    import scipy.sparse as sp

# What can be typed after --encoder -> the class, and parameters that differ from its defaults.
ENCODERS: dict[str, tuple[str, dict[str, Any]]] = {
    "certificate": ("CertificateEncoder", {}),
    "l1ae": ("L1AE", {}),
    "istaae": ("ISTAAE", {}),
    "simple-ae": ("SimpleAE", {}),
    "deep-ae": ("DeepAE", {}),
    "gaussian": ("GaussianEncoder", {}),
    "fourier": ("PartialFourierEncoder", {}),
    "lbcs": ("LBCSEncoder", {}),
    "lbcs-dct": ("LBCSEncoder", {"basis": "dct"}),
    "pca": ("PCAEncoder", {}),
}
_SHOWN_ROWS = 1024  # validation rows that are decoded at the end


def fit(
    source: Data,
    m: Annotated[int, typer.Option("--measurements", "-m", min=1, help="Measurements m: numbers a row is reduced to.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the model.")],
    encoder: Annotated[str, typer.Option("--encoder", "-e", help=f"One of {', '.join(ENCODERS)}.")] = "certificate",
    validation: Annotated[
        str | None, typer.Option(help="File with validation rows; by default a part of DATA.")
    ] = None,
    fraction: Annotated[
        float,
        typer.Option(
            "--validation-fraction", min=0.01, max=0.9, help="Part of a file's rows that is held out for validation."
        ),
    ] = 0.2,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the split, the start and the batches.")] = 0,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    setting: Annotated[
        list[str] | None, typer.Option("--set", help="A parameter of the encoder, NAME=VALUE; may be repeated.")
    ] = None,
    format_: Format = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where a killed fit was.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a model that is there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Learn m measurements from sparse rows and write them as a model folder.

    The default encoder trains on certificates of exact recovery and chooses its own settings on validation rows. A
    fit that was killed goes on with --resume. The folder is written whole at the end, or not at all.

    Example: sparselens fit amazon -m 60 -o model

    Example: sparselens fit rows.csv -m 40 -o model --encoder gaussian
    """
    from sparselens.cli.progress import progress, training

    start = time.perf_counter()
    check_word(encoder, "--encoder", list(ENCODERS))
    data = open_source(source, format=format_, seed=seed)
    check_output(out, replace=overwrite or resume)
    X, X_valid = data.split(seed=seed, fraction=fraction)
    if validation is not None:
        X, X_valid = (
            data.part("train" if data.dataset else None),
            open_source(validation, format=format_, categories=data.categories).part(None),
        )
    model = make_encoder(encoder, m, seed=seed, device=device, settings=setting or [], data=data, X=X)
    if resume and is_done(out, model, X, replace=overwrite):
        typer.echo(json.dumps({"model": str(out), "resumed": True}) if as_json else f"{out} is finished already.")
        return
    keep = checkpoint_of(out)
    if keep.exists() and not resume:
        shutil.rmtree(keep)
    if "checkpoint" in model.get_params():
        model.set_params(checkpoint=str(keep))
    try:
        with progress("fit") as update:
            model.fit(X, X_valid=X_valid, callback=training(update, text=f"m = {m}"))
        with progress("decode") as update:
            facts = {"data": data.name, "rows_sha256": _sha256(data), "seconds": time.perf_counter() - start}
            figures = _validation(model, X_valid, update)
        if "checkpoint" in model.get_params():
            model.set_params(checkpoint=None)
        if data.categories is not None:
            model.categories_ = data.categories  # so that other tables are encoded in the same way
        save_whole(model, out, metrics=facts | {"validation": figures}, replace=overwrite)
    except BaseException as error:
        if not any(path.is_file() for path in keep.rglob("*")):
            shutil.rmtree(keep, ignore_errors=True)
        elif codes.cut_short(error):
            typer.echo("sparselens: what was learned is kept: the same command with --resume goes on.", err=True)
        raise
    shutil.rmtree(keep, ignore_errors=True)
    _report(model, data, X, X_valid, out, figures, time.perf_counter() - start, as_json)


def make_encoder(
    name: str, m: int, *, seed: int, device: str, settings: list[str], data: Source, X: sp.csr_array
) -> Any:
    """The encoder that the options ask for, unfitted."""
    from importlib import import_module

    from sparselens.encoders.l1ae import PRESETS
    from sparselens.persist import CLASSES

    class_name, params = ENCODERS[name]
    cls = getattr(import_module(CLASSES[class_name]), class_name)
    known = cls().get_params()
    params = dict(params) | {"random_state": seed, "device": device}
    if "positive" in known and name == "certificate" and X.nnz and X.data.min() < 0:
        params["positive"] = False  # signed rows are told by themselves
    params = {key: value for key, value in params.items() if key in known}
    for text in settings:
        key, equals, value = text.partition("=")
        if not equals:
            raise ValueError(f"--set takes NAME=VALUE, got {text!r}.")
        if key not in known or key in ("n_components", "checkpoint"):
            choices = [p for p in known if p not in ("n_components", "checkpoint")]
            raise ValueError(f"{class_name} has no parameter {key!r}: {codes.did_you_mean(key, choices)}")
        params[key] = _value(value)
    if name in ("l1ae", "istaae") and data.name in PRESETS:
        return cls.preset(data.name, n_components=m, **params)
    return cls(m, **params)


def _value(text: str) -> Any:
    try:
        return json.loads(text.lower() if text in ("True", "False", "None") else text)
    except ValueError:
        return None if text == "None" else text


# ---- the folder ---------------------------------------------------------------------------------------------


def check_output(out: Path, *, replace: bool) -> None:
    """Refuse a folder that cannot be written before any work is done."""
    from sparselens._files import check_writable

    if out.exists() and not out.is_dir():
        raise FileExistsError(f"{out} is a file: name a folder for the model.")
    if out.is_dir() and any(out.iterdir()):
        if not (out / "manifest.json").exists():
            first = sorted(entry.name for entry in out.iterdir())[0]
            raise FileExistsError(f"{out} holds something else than a model ({first!r}): choose another folder.")
        if not replace:
            raise FileExistsError(f"{out} holds a model already: choose another folder, or replace it by --overwrite.")
    check_writable(out.parent)


def checkpoint_of(out: Path) -> Path:
    """Where an unfinished fit keeps its state: beside the model."""
    return out.parent / f"{out.name}.unfinished"


def is_done(out: Path, model: Any, X: sp.csr_array, *, replace: bool) -> bool:
    """Whether `out` holds the model that was asked for; another model there is refused."""
    from sparselens.persist import load, rows_checksum

    if not (out / "manifest.json").exists():
        return False
    there = load(out)
    ours = {key: value for key, value in model.get_params().items() if key not in ("checkpoint", "device")}
    theirs = {key: value for key, value in there.get_params().items() if key not in ("checkpoint", "device")}
    if type(there) is type(model) and ours == theirs and there.training_data_["sha256"] == rows_checksum(X):
        return True
    if not replace:
        raise FileExistsError(
            f"{out} holds a finished model of other parameters or rows: choose another folder, or replace it by "
            "--overwrite."
        )
    return False


def save_whole(model: Any, out: Path, *, metrics: dict[str, Any], replace: bool = False) -> None:
    """Write the model beside `out` and rename it into place; where --overwrite allows, replace the one that is there.

    A model that another process has written there meanwhile stays, and this one gets a name of its own.
    """
    if replace and out.is_dir() and any(out.iterdir()):
        model.save(out, metrics=metrics)  # the manifest is exchanged last, by one rename
        return
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as home:
        written = model.save(Path(home) / "model", metrics=metrics)
        if not _renamed(written, out):
            names = (out.with_name(f"{out.name}-{number}") for number in count(2))
            other = next(name for name in names if _renamed(written, name))
            raise FileExistsError(f"another process has written {out} meanwhile: this model is in {other}.")


def _renamed(folder: Path, name: Path) -> bool:
    """Give a folder its name, unless something is there already (an empty folder is nothing)."""
    try:
        folder.rename(name)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            return False
        raise
    return True


# ---- what is said ---------------------------------------------------------------------------------------------


def _sha256(data: Source) -> str | None:
    from sparselens.persist import rows_checksum

    return None if data.rows is None else rows_checksum(data.rows)


def _validation(model: Any, X_valid: sp.csr_array, update: Any) -> dict[str, Any]:
    """How the first validation rows come back, of those that were not trained on."""
    from sparselens._validation import unit_rows
    from sparselens.metrics import recovery_report

    unseen = getattr(model, "validation_rows_", None)
    rows = unit_rows((X_valid if unseen is None else X_valid[unseen])[:_SHOWN_ROWS])
    rec = model.decoder().decode(
        model.transform(rows), keep_dual=False, callback=lambda done, total: update(done, total, "validation rows")
    )
    return recovery_report(rows, rec).as_dict()


def _report(
    model: Any,
    data: Source,
    X: sp.csr_array,
    X_valid: sp.csr_array,
    out: Path,
    figures: dict[str, Any],
    seconds: float,
    as_json: bool,
) -> None:
    size = sum(file.stat().st_size for file in out.iterdir())
    report = getattr(model, "report_", None)
    if as_json:
        facts = {
            "model": str(out),
            "encoder": type(model).__name__,
            "n_measurements": model.n_components,
            "n_columns": X.shape[1],
            "n_rows": X.shape[0],
            "n_validation": X_valid.shape[0],
            "seconds": seconds,
            "bytes": size,
            "report": report,
            "validation": figures,
        }
        typer.echo(json.dumps(facts))
        return
    mean = X.nnz / X.shape[0]
    typer.echo(
        f"{data.name}: {counted(X.shape[0], 'training row')}, {counted(X_valid.shape[0], 'validation row')}, "
        f"{counted(X.shape[1], 'column')}, {mean:.3g} nonzeros a row"
    )
    typer.echo(f"{type(model).__name__}, m = {model.n_components}{': ' + report if report else ''}")
    typer.echo(
        f"Of {counted(figures['n_rows'], 'validation row')} {figures['exact']:.2%} came back exactly, "
        f"{figures['certified']:.2%} certified."
    )
    too_long = getattr(model, "n_too_long_", 0)
    if too_long:
        typer.echo(f"{counted(too_long, 'row')} with more than m nonzeros cannot come back: more measurements help.")
    typer.echo(f"Model: {out}  ({size / 1e6:.3g} MB, {seconds:.0f} s)")
