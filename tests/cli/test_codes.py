"""What the exit codes mean, and what a person reads."""

from __future__ import annotations

import errno

import pytest

from sparselens.cli import codes
from sparselens.recovery import (
    CheckpointError,
    CorruptFileError,
    DataNotFoundError,
    NotBoundError,
    TrainingDivergedError,
)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ValueError("a"), 2),
        (TypeError("a"), 2),
        (FileNotFoundError(errno.ENOENT, "No such file", "a"), 2),
        (PermissionError(errno.EACCES, "Permission denied", "a"), 2),
        (CorruptFileError("a"), 2),
        (DataNotFoundError("a"), 2),
        (CheckpointError("a"), 2),
        (OSError(errno.ENOSPC, "No space left on device"), 3),
        (MemoryError(), 3),
        (TrainingDivergedError("a"), 3),
        (NotBoundError("a"), 3),
        (KeyError("a"), 3),
        (ZeroDivisionError("a"), 3),
    ],
)
def test_bad_input_is_told_from_a_failure(error, code):
    assert codes.code_of(error) == code


def test_every_code_has_a_meaning():
    assert set(codes.MEANING) == {
        codes.DONE, codes.UNCERTIFIED, codes.BAD_INPUT, codes.FAILED, codes.INTERRUPTED, codes.TERMINATED
    }  # fmt: skip


@pytest.mark.parametrize(
    ("error", "part"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "/x/y.npz"), "/x/y.npz: no space left on device: make room"),
        (OSError(errno.EROFS, "Read-only file system", "/x"), "/x: read-only file system: choose a place"),
        (FileNotFoundError(errno.ENOENT, "No such file or directory", "/x"), "check the spelling of the path"),
        (DataNotFoundError("put amazon there"), "put amazon there"),
        (TrainingDivergedError("lower the rate"), "lower the rate"),
        (MemoryError("12 GiB"), "not enough memory (12 GiB): use fewer rows"),
        (KeyError("a"), "KeyError: 'a'. This is an error of sparselens, not of yours: set SPARSELENS_DEBUG=1"),
    ],
)
def test_an_error_becomes_a_sentence_that_says_what_to_do(error, part):
    assert part in codes.sentence_of(error)
