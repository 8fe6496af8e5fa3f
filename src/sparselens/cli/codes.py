"""What the exit code of a command means, and how an error becomes one sentence for a person."""

from __future__ import annotations

import errno

DONE = 0
UNCERTIFIED = 1  # the work is done and written, but some rows carry no proof
BAD_INPUT = 2  # an argument, a file or a folder is not what it should be: the message says what to mend
FAILED = 3  # the input was right, but the work could not be finished
INTERRUPTED = 130  # Ctrl-C
TERMINATED = 143  # SIGTERM

MEANING = {
    DONE: "done; every decoded row is certified",
    UNCERTIFIED: "done and written, but some rows are not certified",
    BAD_INPUT: "bad input: an argument, a file or a folder is not what it should be; nothing was written",
    FAILED: "the work failed (disk full, training diverged, an error of ours)",
    INTERRUPTED: "interrupted (Ctrl-C); no half-written file is left",
    TERMINATED: "asked to end (SIGTERM); no half-written file is left",
}

_MACHINE = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ENOMEM, errno.EMFILE, errno.ENFILE}


class Interrupted(BaseException):
    """Ctrl-C or a request to end: not an `Exception`, so that nothing on the way takes it for a failure."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def code_of(error: Exception) -> int:
    """The exit code that an error ends a command with.

    Examples
    --------
    >>> code_of(ValueError("a")), code_of(OSError(errno.ENOSPC, "No space left")), code_of(KeyError("a"))
    (2, 3, 3)
    """
    from sparselens.recovery import CheckpointError, CorruptFileError, DataNotFoundError, SparselensError

    if isinstance(error, (CheckpointError, CorruptFileError, DataNotFoundError)):
        return BAD_INPUT
    if isinstance(error, SparselensError):
        return FAILED
    if isinstance(error, OSError):
        return FAILED if error.errno in _MACHINE else BAD_INPUT
    if isinstance(error, (UnicodeError, ValueError, TypeError)):
        return BAD_INPUT
    return FAILED


def cut_short(error: BaseException) -> bool:
    """Whether work was stopped or failed on its way, so that there may be something to go on from.

    Examples
    --------
    >>> cut_short(Interrupted(INTERRUPTED)), cut_short(OSError(errno.ENOSPC, "No space left")), cut_short(ValueError())
    (True, True, False)
    """
    return not isinstance(error, Exception) or code_of(error) == FAILED


def sentence_of(error: Exception) -> str:
    """What went wrong and what to do next, without a traceback.

    Examples
    --------
    >>> sentence_of(PermissionError(errno.EACCES, "Permission denied", "/data/a.npz"))
    '/data/a.npz: permission denied: choose a place that you may write to, or change its rights.'
    """
    if isinstance(error, MemoryError):
        return f"there is not enough memory ({error}): use fewer rows, fewer columns or fewer measurements."
    if isinstance(error, OSError) and error.errno is not None and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror.lower()}{_advice(error)}"
    if code_of(error) == BAD_INPUT or type(error).__module__.startswith("sparselens"):
        return str(error)
    return (
        f"{type(error).__name__}: {error}. This is an error of sparselens, not of yours: set SPARSELENS_DEBUG=1, run "
        "the command again and report what it prints."
    )


def _advice(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return ": make room and run the command again; what was written before is whole."
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return ": choose a place that you may write to, or change its rights."
    if error.errno == errno.ENOENT:
        return ": check the spelling of the path."
    return "."


def did_you_mean(word: str, known: list[str] | tuple[str, ...]) -> str:
    """The end of a message about a mistyped word: the closest known ones, or all of them.

    Examples
    --------
    >>> did_you_mean("gausian", ["gaussian", "pca"]), did_you_mean("x", ["gaussian", "pca"])
    ("did you mean 'gaussian'?", 'known are gaussian, pca.')
    """
    import difflib

    close = difflib.get_close_matches(word.lower(), known, n=3, cutoff=0.5)
    return f"did you mean {' or '.join(map(repr, close))}?" if close else f"known are {', '.join(known)}."
