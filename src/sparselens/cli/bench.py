"""`sparselens bench`: how fast decoding is on this machine, against scipy's HiGHS on the same programs."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from sparselens.cli.options import AsJson
from sparselens.cli.sources import check_nonnegative, open_source


def bench(
    source: Annotated[
        str | None, typer.Argument(metavar="DATA", help="Rows of your own; by default Synthetic1.")
    ] = None,
    m: Annotated[list[int] | None, typer.Option("--measurements", "-m", min=1, help="m; may be repeated.")] = None,
    rows: Annotated[int, typer.Option(min=1, help="Rows of a round.")] = 40,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds; the fastest of each solver counts.")] = 3,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the matrices and of the rows.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Time exact decoding on this machine against scipy's HiGHS: identical linear programs, one thread, in turns.

    Example: sparselens bench

    Example: sparselens bench rows.npz -m 60
    """
    from sparselens.cli.progress import progress
    from sparselens.experiments.bench import default_cases, run_bench

    if source is None:
        if m:
            raise ValueError("-m goes with DATA: name the rows to measure.")
        cases = default_cases(seed)
    else:
        if not m:
            raise ValueError("say how many measurements: sparselens bench DATA -m 60.")
        data = open_source(source)
        X = data.part("test" if data.dataset is not None else None)
        check_nonnegative(X, data.name, "this benchmark")
        cases = [(data.name, X, each) for each in m]
    for name, X, each in cases:
        if each > X.shape[1]:
            raise ValueError(f"m = {each} exceeds the {X.shape[1]:,} columns of {name}: ask for fewer.")
    with progress("bench") as update:
        table = run_bench(cases, rows=rows, rounds=rounds, random_state=seed, callback=update)
    if as_json:
        typer.echo(json.dumps(table))
        return
    typer.echo("                          sparselens        scipy HiGHS       times    exact (1e-10)")
    typer.echo("data, m                    ms a row           ms a row      faster    ours     HiGHS")
    for row in table:
        typer.echo(
            f"{row['data'] + ', m = ' + str(row['m']):<22}{row['ours_ms']:>13.3f}{row['highs_ms']:>19.2f}"
            f"{row['ratio']:>12.0f}{row['ours_exact']:>8.0%}{row['highs_exact']:>10.0%}"
        )
    certified = sum(row["certified"] * row["n_rows"] for row in table)
    total = sum(row["n_rows"] for row in table)
    typer.echo(f"One thread, {table[0]['n_rows']} rows, the fastest of {rounds} rounds in turns.")
    typer.echo(f"{round(certified)} of {total} of our answers carry a checked proof, which is part of our time.")
    if (first := max(row["compile_seconds"] for row in table)) > 1.0:
        typer.echo(f"Compiling and loading the solver took {first:.0f} s, once, and is left out.")
