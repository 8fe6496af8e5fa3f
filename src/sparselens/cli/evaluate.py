"""`sparselens evaluate`: how many rows of a file come back from a model's measurements."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparselens.cli import codes
from sparselens.cli.options import AsJson, Data, Format, Jobs, Model, Part
from sparselens.cli.sources import check_columns, check_word, counted, open_encoder, open_source

if TYPE_CHECKING:
    import scipy.sparse as sp

DECODERS = ("default", "l1", "l1-signed", "highs", "network", "nnls", "omp", "cosamp", "linear")
_CHUNK = 16_384  # rows whose measurements are held at once


def evaluate(
    model: Model,
    source: Data,
    part: Part = None,
    decoder: Annotated[str, typer.Option("--decoder", "-d", help=f"One of {', '.join(DECODERS)}.")] = "default",
    sparsity: Annotated[
        int | None, typer.Option(min=1, help="Nonzeros a row, for omp and cosamp; by default the most of any row.")
    ] = None,
    rows: Annotated[int | None, typer.Option(min=1, help="Decode the first rows only.")] = None,
    jobs: Jobs = 1,
    format_: Format = None,
    as_json: AsJson = False,
) -> None:
    """Encode rows, decode them, and say how many came back exactly.

    Errors are of rows scaled to unit norm, so that they are relative errors. The exit code is 1 where a decoder that
    proves its answers could not prove all of them.

    Example: sparselens evaluate model amazon --part test
    """
    from sparselens._validation import unit_rows
    from sparselens.cli.progress import progress
    from sparselens.decoders.l1 import L1Decoder

    check_word(decoder, "--decoder", DECODERS)
    encoder = open_encoder(model)
    data = open_source(source, format=format_, categories=getattr(encoder, "categories_", None))
    part = "test" if part is None and data.dataset is not None else part
    X = data.part(part)
    check_columns(encoder, X, data.name)
    seen = _seen(model, encoder, X)
    X = unit_rows(X[:rows] if rows is not None else X)
    bound = make_decoder(decoder, encoder, X, sparsity=sparsity, n_jobs=jobs)
    start = time.perf_counter()
    with progress("evaluate") as update:
        figures = measured(encoder, bound, X, update)
    figures["ms_per_row"] = 1e3 * (time.perf_counter() - start) / X.shape[0]
    figures |= {"model": str(model), "encoder": type(encoder).__name__, "decoder": type(bound).__name__}
    figures |= {"n_measurements": encoder.n_components, "data": data.name, "part": part, "seen_in_training": seen}
    typer.echo(json.dumps(figures) if as_json else _text(figures))
    if isinstance(bound, L1Decoder) and figures["certified"] < 1.0:
        raise typer.Exit(codes.UNCERTIFIED)


def make_decoder(name: str, encoder: Any, X: sp.csr_array, *, sparsity: int | None, n_jobs: int) -> Any:
    """The decoder that was asked for, bound to the model's matrix."""
    import numpy as np

    from sparselens.decoders.cosamp import CoSaMPDecoder
    from sparselens.decoders.l1 import L1Decoder
    from sparselens.decoders.linear import LinearDecoder
    from sparselens.decoders.nnls import NNLSDecoder
    from sparselens.decoders.omp import OMPDecoder
    from sparselens.sparsity import Sparse

    A = getattr(encoder, "components_", None)
    if name == "network" or A is None:
        if not hasattr(encoder, "decoder_") or (A is None and name not in ("default", "network")):
            what = "has no measurement matrix" if A is None else "has no network of its own"
            raise ValueError(f"{type(encoder).__name__} {what}: --decoder {name} does not go with it.")
        return encoder.decoder_
    positive = bool(getattr(encoder, "positive", encoder.positive_))
    k = sparsity or max(1, int(np.diff(X.indptr).max()))
    made = {
        "l1": lambda: L1Decoder(positive=True, n_jobs=n_jobs),
        "l1-signed": lambda: L1Decoder(positive=False, n_jobs=n_jobs),
        "highs": lambda: L1Decoder(positive=positive, method="highs", n_jobs=n_jobs),
        "nnls": lambda: NNLSDecoder(),
        "omp": lambda: OMPDecoder(k, positive=positive),
        "cosamp": lambda: CoSaMPDecoder(Sparse(k), positive=positive),
        "linear": lambda: LinearDecoder("pinv"),
    }
    if name == "default":
        name = "l1" if positive else "l1-signed"
    return made[name]().bind(A)


def measured(encoder: Any, decoder: Any, X: sp.csr_array, update: Any) -> dict[str, Any]:
    """The figures of a recovery, chunk by chunk: memory grows with the chunk."""
    import numpy as np

    from sparselens.metrics import recovery_report, wilson_interval

    n, parts = X.shape[0], []
    for start in range(0, n, _CHUNK):
        chunk = X[start : start + _CHUNK]
        rec = decoder.decode(
            encoder.transform(chunk), keep_dual=False, callback=lambda done, _, start=start: update(start + done, n, "")
        )
        parts.append(recovery_report(chunk, rec).as_dict())
    weights = np.array([part["n_rows"] for part in parts]) / n
    figures: dict[str, Any] = {
        key: float(weights @ [part[key] for part in parts]) for key in parts[0] if key not in ("n_rows", "rmse")
    }
    figures["rmse"] = float(np.sqrt(weights @ [part["rmse"] ** 2 for part in parts]))
    figures["n_rows"] = n
    figures["exact_interval"] = list(wilson_interval(round(figures["exact"] * n), n))
    return figures


def _seen(model: Path, encoder: Any, X: sp.csr_array) -> bool:
    """Whether the model was fitted on these very rows."""
    from sparselens.persist import read_manifest, rows_checksum

    sha256 = rows_checksum(X)
    return sha256 in (encoder.training_data_["sha256"], read_manifest(model).get("metrics", {}).get("rows_sha256"))


def _text(figures: dict[str, Any]) -> str:
    low, high = figures["exact_interval"]
    lines = [
        f"{figures['model']}: {figures['encoder']}, m = {figures['n_measurements']}, {figures['decoder']}",
        f"{figures['data']}{' ' + figures['part'] if figures['part'] else ''}: {counted(figures['n_rows'], 'row')}",
        f"  recovered exactly (1e-10)  {figures['exact']:8.2%}   95% interval {low:.2%} to {high:.2%}",
        f"  within 1e-6                {figures['exact_1e6']:8.2%}",
        f"  certified                  {figures['certified']:8.2%}   unique {figures['unique']:.2%}",
        f"  RMSE (rows of unit norm)   {figures['rmse']:8.3g}",
        f"  support F1                 {figures['support_f1']:8.4f}",
        f"  time                       {figures['ms_per_row']:8.3g} ms a row",
    ]
    if figures["seen_in_training"]:
        lines.append("These are the rows that the model was fitted on: other rows tell how it does on new ones.")
    return "\n".join(lines)
