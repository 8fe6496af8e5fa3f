"""CSV text, line by line, with every failure a clear error that names the line."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path

from sparselens.data._locate import open_binary
from sparselens.recovery import CorruptFileError

_ROWS_AT_ONCE = 10_000


@contextmanager
def csv_rows(path: Path) -> Iterator[Iterator[tuple[int, list[str]]]]:
    """The lines of a CSV file as (line number, cells), with every failure a clear error."""
    with open_binary(path) as stream, io.TextIOWrapper(stream, encoding="utf-8-sig", newline="") as text:
        yield _csv_lines(text, path)


def _csv_lines(text: io.TextIOWrapper, path: Path) -> Iterator[tuple[int, list[str]]]:
    line = 0
    try:
        first = text.readline()
        if not first.strip():
            raise CorruptFileError(f"{path} is empty or starts with an empty line: a header line was expected.")
        delimiter = next((mark for mark in ",;\t" if mark in first), ",")
        reader = csv.reader(chain([first], text), delimiter=delimiter, strict=True)
        for cells in reader:
            line = reader.line_num
            if cells:
                yield line, cells
    except UnicodeDecodeError as error:
        raise CorruptFileError(f"{path}, after line {line}: not UTF-8 text ({error.reason}).") from None
    except csv.Error as error:
        raise CorruptFileError(f"{path}, after line {line}: not CSV ({error}).") from None


def table_blocks(
    lines: Iterator[tuple[int, list[str]]], width: int, path: Path
) -> Iterator[tuple[list[int], list[tuple[str, ...]]]]:
    """Line numbers and columns of some thousand rows at a time."""
    while block := list(islice(lines, _ROWS_AT_ONCE)):
        for line, cells in block:
            if len(cells) != width:
                raise CorruptFileError(
                    f"{path}, line {line}: {width} cells were expected, as in the first line, got {len(cells)}."
                )
        yield [line for line, _ in block], list(zip(*(cells for _, cells in block), strict=True))


def is_number(cell: str) -> bool:
    """Whether a cell holds a number."""
    try:
        float(cell)
    except ValueError:
        return False
    return True
