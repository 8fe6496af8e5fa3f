"""Tables of whole files and commands: encoding, size, memory, several machines, what a user waits for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stored_rows import markdown, stored


def encode_speed() -> str:
    """The bare product, transform and encode_file."""
    lines = [
        [
            row["case"],
            f"{row['n']:,} x {row['d']:,}",
            *(f"{1e6 * row['seconds'][key] / row['n']:.2f}" for key in ("product", "transform", "encode_file")),
            *(f"{100 * row['speed_of_product'][key]:.0f}%" for key in ("transform", "encode_file")),
        ]
        for row in stored("encode", "case")
    ]
    header = ["case", "rows x columns", "product, µs a row", "`transform`", "`encode_file`"]
    return markdown([*header, "`transform`, speed of the product", "`encode_file`"], lines)


def lossless() -> str:
    """Lossless files against the usual ways to store the same rows."""
    lines = [
        [
            row["case"],
            f"{row['n']:,}",
            f"{row['measured']:,} / {row['kept']:,}",
            *(f"{row[key] / 1000:,.0f}" for key in ("bytes", "bytes_npz", "bytes_gzip", "bytes_dense")),
        ]
        for row in stored("lossless", "case")
    ]
    header = ["rows", "n", "measured / kept", "lossless file, kB", "compressed npz", "gzipped text", "dense float64"]
    return markdown(header, lines)


def scaling() -> str:
    """Time and memory of whole files over n, d and m."""
    rows = [row for row in stored("scaling", "case", "what") if row["case"] != "dask"]
    lines = []
    for letter in "ndm":
        for encoded in sorted((r for r in rows if r["case"][0] == letter and r["what"] == "encode"), key=_size):
            decoded = [r for r in rows if r["case"] == encoded["case"] and r["what"] == "decode"]
            if decoded:
                lines.append(
                    [
                        *(f"{encoded[key]:,}" for key in "ndm"),
                        *(f"{1e6 * row['cpu_s'] / row['n']:.1f}" for row in (encoded, decoded[0])),
                        *(f"{row['peak_mb']:,}" for row in (encoded, decoded[0])),
                        *(f"{size:,.0f}" for size in (encoded["in_mb"], encoded["out_mb"], decoded[0]["out_mb"])),
                        f"{decoded[0]['certified']:.4f} / {decoded[0]['exact']:.4f}",
                    ]
                )
    header = ["n", "d", "m", "encode, µs a row", "decode, µs a row", "encode, peak MB", "decode, peak MB"]
    return markdown([*header, "rows, MB", "measurements, MB", "decoded rows, MB", "certified / exact"], lines)


def _size(row: dict[str, Any]) -> tuple[int, int, int]:
    return row["n"], row["d"], row["m"]


def scaling_billion() -> str:
    """What the longest measured file means for a billion rows."""
    lines = []
    for what in ("encode", "decode"):
        rows = [r for r in stored("scaling", "case", "what") if r["what"] == what and r["case"].startswith("n")]
        for row in sorted(rows, key=_size)[-1:]:
            hours = row["cpu_s"] / row["n"] * 1e9 / 3600
            lines.append(
                [
                    what,
                    f"d = {row['d']:,}, m = {row['m']}, {row['k']} nonzeros a row, measured at n = {row['n']:,}",
                    f"{hours:,.2f}",
                    f"{hours / 16:,.2f}",
                    f"{row['in_mb'] / row['n'] * 1e9 / 1024:,.0f} → {row['out_mb'] / row['n'] * 1e9 / 1024:,.0f}",
                    f"{row['peak_mb']:,}",
                ]
            )
    header = ["", "problem", "core hours", "hours on 16 cores", "file sizes, GB", "peak MB a process"]
    return markdown(header, lines)


def dask() -> str:
    """One process, two processes, two Dask workers."""
    lines = [
        [
            row["what"],
            f"{row['cpu_s']:.1f}",
            f"{row['efficiency']:.2f}",
            f"{min(2.0, 2 * row['efficiency']):.2f}" if row["what"] != "one process" else "1",
            f"{row['speed']:.2f} ({min(row['speeds']):.2f} to {max(row['speeds']):.2f})",
        ]
        for row in stored("scaling", "case", "what")
        if row["case"] == "dask"
    ]
    header = ["", "core seconds", "efficiency", "times faster, at most", "times faster here, on the wall"]
    return markdown(header, lines)


def plans() -> str:
    """The answers of `sparselens plan`, and what they are worth on the untouched test rows."""
    lines = [
        [
            row["data"],
            f"{100 * row['target']:g}%",
            str(row["seed"]),
            str(row["learned"]),
            str(row["gaussian"]),
            f"{row['factor']:.2f}",
            f"{row['test_exact']:.2%} ({row['test_interval'][0]:.2%} to {row['test_interval'][1]:.2%})",
            str(row["n_trainings"]),
            f"{row['seconds']:,.0f}" if row["cpu_s"] is None else f"{row['seconds']:,.0f} ({row['cpu_s']:,.0f})",
            row["hardware"] if "NVIDIA" in row["hardware"] else "CPU",
        ]
        for row in stored("commands", "what", "data", "target", "seed", "hardware")
        if row["what"] == "plan"
    ]
    header = ["data set", "target", "seed", "learned m", "Gaussian m", "factor"]
    header += ["test rows exact at the learned m", "trainings", "seconds (CPU seconds)", "where"]
    return markdown(header, lines)


def first_value() -> str:
    """fit, encode, decode, evaluate: CPU seconds of each command, and what came back."""
    names = ("fit", "encode", "decode", "evaluate")
    lines = [
        [
            f"{row['data']}, m={row['m']}",
            *(f"{row['cpu_s'][name]:,.0f}" for name in names),
            f"{sum(row['cpu_s'].values()):,.0f}",
            f"{row['test_exact']:.2%}",
            f"{row['certified']:.2%}",
            str(row["threads"]),
        ]
        for row in stored("commands", "what", "data", "m", "seed", "hardware")
        if row["what"] == "first"
    ]
    header = ["case", *(f"{name} (CPU s)" for name in names), "together", "test rows exact", "certified", "threads"]
    return markdown(header, lines)


def reproduction() -> str:
    """Tables and figures of the paper, from nothing."""
    lines = [
        [
            f"`sparselens reproduce {row['data']} {row['options']}`",
            f"{row['cells']:,}",
            f"{row['seconds']:,.0f} ({row['cpu_s']:,.0f})",
            row["hardware"],
        ]
        for row in stored("commands", "what", "data", "options", "hardware")
        if row["what"] == "reproduce"
    ]
    return markdown(["command", "cells", "seconds (CPU seconds)", "where"], lines)


TABLES: dict[str, Callable[[], str]] = {
    "encode-speed": encode_speed,
    "lossless": lossless,
    "scaling": scaling,
    "scaling-billion": scaling_billion,
    "dask": dask,
    "plans": plans,
    "first-value": first_value,
    "reproduction": reproduction,
}
