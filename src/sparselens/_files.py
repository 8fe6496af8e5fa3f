"""Writing files so that nobody ever reads half of one."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; rename it into place when the block ends well, else remove it.

    Examples
    --------
    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp()) / "a.txt"
    >>> with written_whole(target) as draft:
    ...     _ = draft.write_text("whole")
    >>> target.read_text()
    'whole'
    """
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder: name a file to write.")
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = None
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp" + path.suffix)
        os.close(handle)
        draft = Path(name)
        yield draft
        draft.chmod(0o666 & ~_umask())
        with open(draft, "rb") as file:  # on the disk before it has the name, so that a power cut cannot leave it empty
            os.fsync(file.fileno())
        os.replace(draft, path)
    except OSError as error:
        if error.errno is not None and (draft is None or error.filename in (None, str(draft))):
            error.filename = str(path)  # the file that a person knows, not its draft
        raise
    finally:
        if draft is not None:
            draft.unlink(missing_ok=True)


def check_writable(folder: Path) -> None:
    """Make a folder, and raise an error that names it where no file can be made in it, before any work is done."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".writable."):
            pass
    except OSError as error:
        error.filename = str(folder)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
