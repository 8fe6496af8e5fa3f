"""Where the files of a data set lie, whether they are the right ones, and how they are opened."""

from __future__ import annotations

import bz2
import errno
import gzip
import hashlib
import lzma
import os
import sys
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast

from sparselens.recovery import CorruptFileError, DataNotFoundError

ENVIRONMENT_VARIABLE = "SPARSELENS_DATA"
COMPRESSED = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}
_CHUNK = 1 << 20


def data_root(root: str | os.PathLike[str] | None = None) -> Path:
    """The folder that real data sets are looked for in.

    It is `root` where given, else the environment variable SPARSELENS_DATA, else the user's cache folder
    (``~/.cache/sparselens`` on Linux, ``~/Library/Caches/sparselens`` on macOS, ``%LOCALAPPDATA%\\sparselens`` on
    Windows; XDG_CACHE_HOME is honoured). The folder need not exist.

    Examples
    --------
    >>> data_root("somewhere").name
    'somewhere'
    """
    if root is not None:
        return _as_path(root, "root").expanduser()
    if value := os.environ.get(ENVIRONMENT_VARIABLE):
        return Path(value).expanduser()
    if value := os.environ.get("XDG_CACHE_HOME"):
        return Path(value).expanduser() / "sparselens"
    if sys.platform == "darwin":  # pragma: no cover
        return Path.home() / "Library" / "Caches" / "sparselens"
    if os.name == "nt":  # pragma: no cover
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "sparselens"
    return Path.home() / ".cache" / "sparselens"


@dataclass(frozen=True)
class DataFile:
    """One file that a data set needs.

    Attributes
    ----------
    names : tuple of str
        The accepted places below the data root, the preferred one first. A text file may also end in
        ``.gz``, ``.xz`` or ``.bz2``.
    source : str
        Where people get it.
    sha256 : str or None
        Digest of the content, uncompressed where the file is compressed text; None where none is known.
    sha256_stored : dict
        Digests of the file as it is published, by its last suffix, where only such a one is known.
    """

    names: tuple[str, ...]
    source: str
    sha256: str | None = None
    sha256_stored: dict[str, str] = field(default_factory=dict)

    def find(self, root: Path) -> Path | None:
        """The first accepted place that holds a file, or None."""
        for name in self.names:
            for suffix in ("", *COMPRESSED):
                path = root / (name + suffix)
                if path.is_file():
                    return path
        return None

    def locate(self, root: Path, *, dataset: str, verify: bool = True) -> Path:
        """The file's path, checked against its digest, or an error that says what to put where."""
        path = self.find(root)
        if path is None:
            others = f" (also accepted: {', '.join(self.names[1:])})" if len(self.names) > 1 else ""
            raise DataNotFoundError(
                f"{dataset!r} needs the file {self.names[0]}{others}, which is not under {root}. Get it from "
                f"{self.source}. Put it there, or point the environment variable {ENVIRONMENT_VARIABLE} to the folder "
                "that holds it."
            )
        stored = self.sha256_stored.get(path.suffix)
        expected = stored or self.sha256
        if verify and expected is not None:
            found = sha256_of(path, unpack=stored is None)
            if found != expected:
                raise CorruptFileError(
                    f"{path} is not the file that {dataset!r} needs: expected sha256 {expected}, found {found}. "
                    f"Get it again from {self.source}, or pass verify=False to read it all the same."
                )
        return path


def sha256_of(path: Path, *, unpack: bool = True) -> str:
    """Digest of a file's content, by default uncompressed where its name says that it is compressed."""
    digest = hashlib.sha256()
    with open_binary(path) if unpack else path.open("rb") as stream:
        while block := stream.read(_CHUNK):
            digest.update(block)
    return digest.hexdigest()


@contextmanager
def open_binary(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a plain or compressed file for reading; every way in which that fails is a clear error."""
    path = existing_file(path)
    opener: Any = COMPRESSED.get(path.suffix.lower(), open)
    with readable(path), opener(path, "rb") as stream:
        yield cast("IO[bytes]", stream)


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn what damaged containers raise into a CorruptFileError that names the file."""
    try:
        yield
    except (EOFError, lzma.LZMAError, gzip.BadGzipFile, zlib.error, zipfile.BadZipFile) as error:
        raise CorruptFileError(
            f"{path} is damaged or cut short ({type(error).__name__}: {error}): download or write it again."
        ) from None
    except PermissionError:
        raise DataNotFoundError(f"{path} exists but may not be read: change its permissions.") from None
    except OSError as error:
        # bz2 reports a damaged stream as a bare OSError without a number; an archive that sends its reader to a place
        # before the file's beginning ends in EINVAL.
        if error.errno not in (None, errno.EINVAL):
            raise
        raise CorruptFileError(f"{path} is damaged ({error}): download or write it again.") from None


def existing_file(path: str | os.PathLike[str]) -> Path:
    """`path` as a Path to an existing file."""
    path = _as_path(path, "path").expanduser()
    if path.is_dir():
        raise ValueError(f"{path} is a folder: name one file in it.")
    if not path.exists():
        raise DataNotFoundError(f"there is no file {path}: check the spelling and the current folder ({Path.cwd()}).")
    if not path.is_file():
        raise ValueError(f"{path} is not a regular file: copy what it gives into a file first.")
    return path


def _as_path(path: Any, name: str) -> Path:
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"{name} must be a path, got {path!r} ({type(path).__name__}).")
    return Path(path)
