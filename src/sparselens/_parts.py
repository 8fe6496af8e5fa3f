"""Long outputs grow on disk beside their target, and take its name when they are whole.

The arrays of an unfinished output lie in a folder ``.NAME.parts`` beside it, each as a .npy file that rows are appended
to, with a small manifest that says how many rows are safely there. A killed run is taken up from the manifest; what
was written after it is cut off. The target itself appears by one rename.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import IO, Any, Self

import numpy as np

from sparselens._files import written_whole
from sparselens.recovery import OutputError

_FORMAT, _SCHEMA = "sparselens parts", 1
_HEADER = 128  # bytes of a .npy header with any shape that fits on a disk
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_SECONDS = 5.0  # between two checkpoints: what a kill may cost, beside the rows that are being worked on
_COPY = 1 << 22
_DATE = (1980, 1, 1, 0, 0, 0)  # of every member, so that the same arrays give the same bytes


class Parts:
    """The arrays of an output file while it is being made.

    Parameters
    ----------
    target : path
        The file to make.
    arrays : dict
        Name -> (dtype, row shape) of each array that grows; the row shape is () or (m,).
    job : dict
        What decides the content, as JSON: parts of another job are never continued.
    resume : bool
        Whether to go on with the parts of an earlier run, where there are any.

    Examples
    --------
    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp()) / "y.npy"
    >>> with Parts(target, {"Y": ("<f8", (2,))}, job={}, resume=False) as parts:
    ...     parts.append(1, {"Y": np.array([[1.0, 2.0]])}, {})
    ...     parts.become_npy("Y")
    >>> np.load(target)
    array([[1., 2.]])
    """

    def __init__(
        self,
        target: str | os.PathLike[str],
        arrays: Mapping[str, tuple[str, tuple[int, ...]]],
        *,
        job: Mapping[str, Any],
        resume: bool,
    ) -> None:
        self.target = Path(target)
        self.arrays = dict(arrays)
        self.job = json.loads(json.dumps(job))
        self.folder = self.target.parent / f".{self.target.name}.parts"
        # Rows, bytes of each array, and notes: one value, so that no interrupt sees half of it changed.
        self._state: tuple[int, dict[str, int], dict[str, Any]] = (0, dict.fromkeys(self.arrays, 0), {})
        self._files: dict[str, IO[bytes]] = {}
        self._safe_rows = 0
        self._last = -np.inf  # the first rows are made safe at once, so that anyone can see that rows are kept
        self._lock = self._take_folder()
        try:
            self._earlier(resume)
            for name, size in self._state[1].items():
                self._files[name] = self._open(name, size)
        except BaseException:
            self._close(remove=not (self.folder / "manifest.json").exists())
            raise

    # ---- rows -----------------------------------------------------------------------------------------------

    @property
    def n_rows(self) -> int:
        """Rows that are there already."""
        return self._state[0]

    @property
    def notes(self) -> dict[str, Any]:
        """What was noted with the last rows, as JSON."""
        return self._state[2]

    @property
    def n_kept(self) -> int:
        """Rows that a later run can go on from."""
        return self._safe_rows

    def append(self, n_rows: int, arrays: Mapping[str, np.ndarray], notes: Mapping[str, Any]) -> None:
        """Append what belongs to the next `n_rows` rows; `notes` is kept with them."""
        sizes = dict(self._state[1])
        with self._writing():
            for name, values in arrays.items():
                dtype, shape = self.arrays[name]
                block = np.ascontiguousarray(values, dtype=dtype).reshape(-1, *shape)
                self._files[name].write(block.data if block.size else b"")
                sizes[name] += block.nbytes
        self._state = (self.n_rows + n_rows, sizes, dict(notes))
        if time.monotonic() - self._last > _SECONDS:
            self.checkpoint()

    def checkpoint(self) -> None:
        """Make sure that the rows so far survive a kill and a power cut."""
        rows, sizes, notes = self._state
        with self._writing():
            for file in self._files.values():
                file.flush()
                os.fsync(file.fileno())
            manifest = {"format": _FORMAT, "schema": _SCHEMA, "job": self.job}
            manifest |= {"rows": rows, "bytes": sizes, "notes": notes}
            manifest["sha256"] = _checksum(manifest)
            with written_whole(self.folder / "manifest.json") as draft:
                draft.write_text(json.dumps(manifest), encoding="utf-8")
        self._safe_rows, self._last = rows, time.monotonic()

    def length(self, name: str) -> int:
        """Entries (or rows) of an array so far."""
        dtype, shape = self.arrays[name]
        return self._state[1][name] // (np.dtype(dtype).itemsize * int(np.prod(shape)))

    # ---- the end --------------------------------------------------------------------------------------------

    def become_npy(self, name: str) -> None:
        """Give the target's name to one of the arrays, as a .npy file."""
        with self._writing():
            self._write_headers()
            _to_disk(self.folder / f"{name}.npy")
            os.replace(self.folder / f"{name}.npy", self.target)
        self._done()

    def become_npz(self, small: Mapping[str, Any], *, compressed: tuple[str, ...] = ()) -> None:
        """Join all arrays, and some small ones, into an .npz file under the target's name.

        Members are stored as they are, so that they can be read in pieces; those in `compressed` are deflated.
        """
        draft = self.folder / "joined.npz"
        with self._writing():
            self._write_headers()
            with zipfile.ZipFile(draft, "w", allowZip64=True) as archive:
                for name, value in small.items():
                    with archive.open(zipfile.ZipInfo(f"{name}.npy", _DATE), "w") as member:
                        np.lib.format.write_array(member, np.asanyarray(value), allow_pickle=False)
                for name in self.arrays:
                    info = zipfile.ZipInfo(f"{name}.npy", _DATE)
                    info.compress_type = zipfile.ZIP_DEFLATED if name in compressed else zipfile.ZIP_STORED
                    info.file_size = (self.folder / f"{name}.npy").stat().st_size  # decides about zip64
                    with open(self.folder / f"{name}.npy", "rb") as part, archive.open(info, "w") as member:
                        shutil.copyfileobj(part, member, _COPY)
            _to_disk(draft)
            os.replace(draft, self.target)
        self._done()

    def become(self, write: Callable[[Path, dict[str, np.ndarray]], Any]) -> Any:
        """Let `write(draft, arrays)` make the target from the arrays that lie on the disk; return its answer."""
        draft = self.folder / f"joined{self.target.suffix}"
        with self._writing():
            self._write_headers()
            arrays = {
                name: np.load(self.folder / f"{name}.npy", mmap_mode="r" if size else None)  # nothing cannot be mapped
                for name, size in self._state[1].items()
            }
            answer = write(draft, arrays)
            del arrays
            _to_disk(draft)
            os.replace(draft, self.target)
        self._done()
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._close(remove=not self._keep())

    # ---- within ---------------------------------------------------------------------------------------------

    def _keep(self) -> bool:
        """Whether there is anything to go on from; the rows since the last checkpoint are made safe if they can be."""
        if self._files and self.n_rows > self._safe_rows:
            with suppress(OSError, OutputError):  # on a full disk what was safe before is safe still
                self.checkpoint()
        return self._safe_rows > 0

    def _take_folder(self) -> IO[bytes]:
        """Make the folder and lock it. The lock goes with the process, however it ends."""
        if self.target.is_dir():
            raise IsADirectoryError(f"{self.target} is a folder: name a file to write.")
        while True:
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                lock = open(self.folder / "lock", "ab")  # noqa: SIM115 - held until the parts are closed
            except PermissionError:
                raise PermissionError(
                    f"{self.target.parent} may not be written to: choose another folder, or change its permissions."
                ) from None
            except FileNotFoundError:
                continue  # the owner finished and removed the folder in between
            except NotADirectoryError:
                raise NotADirectoryError(f"{self.target.parent} is not a folder: choose another place.") from None
            except OSError as error:
                if error.errno == errno.EROFS:
                    raise PermissionError(
                        f"{self.target.parent} is on a read-only disk: choose another folder."
                    ) from None
                raise self._no_room(error) from None
            if not _try_lock(lock):
                lock.close()
                raise FileExistsError(f"another process is writing {self.target}: wait for it, or choose another name.")
            try:
                if os.path.samestat(os.fstat(lock.fileno()), os.stat(lock.name)):
                    return lock
            except FileNotFoundError:
                pass
            lock.close()

    def _earlier(self, resume: bool) -> None:
        """Take up what an earlier run left; what cannot be used is removed or refused."""
        path = self.folder / "manifest.json"
        sizes: dict[str, int] = {}
        if resume and path.exists():
            try:
                manifest = json.loads(path.read_bytes())
                if manifest["format"] != _FORMAT or manifest["schema"] != _SCHEMA:
                    raise ValueError("another version wrote it")
                if manifest.pop("sha256") != _checksum(manifest):
                    raise ValueError("its checksum does not match")
                job, rows, notes = manifest["job"], int(manifest["rows"]), dict(manifest["notes"])
                sizes = {name: int(manifest["bytes"][name]) for name in self.arrays}
                whole = all((self.folder / f"{n}.npy").stat().st_size >= size + _HEADER for n, size in sizes.items())
            except (ValueError, KeyError, TypeError, OSError) as error:
                raise ValueError(f"{path} is damaged ({error}): run again without resuming.") from None
            if job != self.job:
                different = sorted(key for key in job.keys() | self.job.keys() if job.get(key) != self.job.get(key))
                raise ValueError(
                    f"{self.folder} holds the beginning of another run (different: {', '.join(different)}): "
                    "run again without resuming, or with what that run was given."
                )
            if not whole:
                raise ValueError(f"{self.folder} lacks rows that its manifest promises: run again without resuming.")
            self._state, self._safe_rows = (rows, sizes, notes), rows
        keep = {"lock", "manifest.json", *(f"{name}.npy" for name in self.arrays)} if sizes else {"lock"}
        for entry in self.folder.iterdir():
            if entry.name not in keep:
                entry.unlink()

    def _open(self, name: str, size: int) -> IO[bytes]:
        path = self.folder / f"{name}.npy"
        with self._writing():
            file = open(path, "r+b" if path.exists() else "w+b", buffering=1 << 20)  # noqa: SIM115 - closed by _close
            file.truncate(_HEADER + size)
            file.seek(0, os.SEEK_END)
        return file

    def _write_headers(self) -> None:
        self.checkpoint()
        for name, (dtype, shape) in self.arrays.items():
            file, length = self._files[name], self.length(name)
            file.seek(0)
            file.write(_npy_header(dtype, (length, *shape)))
            file.close()
        self._files.clear()

    def _done(self) -> None:
        self._close(remove=True)

    def _close(self, *, remove: bool = False) -> None:
        for file in self._files.values():
            with suppress(OSError):  # what is in the buffer may not fit on the disk; the manifest does not count on it
                file.close()
        self._files.clear()
        if not self._lock.closed:
            if remove:
                shutil.rmtree(self.folder, ignore_errors=True)  # before the lock goes
            self._lock.close()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno in _NO_ROOM:
                raise self._no_room(error) from error
            raise

    def _no_room(self, error: OSError) -> OutputError:
        kept = f"; {self._safe_rows:,} rows are kept beside it: make room and run again with resume" * bool(
            self._safe_rows
        )
        return OutputError(f"{self.target} could not be written ({error.strerror or error}){kept}.")


def _checksum(manifest: Mapping[str, Any]) -> str:
    return sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def _to_disk(path: Path) -> None:
    with open(path, "rb") as file:
        os.fsync(file.fileno())


def _npy_header(dtype: str, shape: tuple[int, ...]) -> bytes:
    """The header of a .npy file, of always the same length."""
    text = repr({"descr": dtype, "fortran_order": False, "shape": shape}).encode("ascii")
    return b"\x93NUMPY\x01\x00" + (_HEADER - 10).to_bytes(2, "little") + text.ljust(_HEADER - 11) + b"\n"


def _try_lock(file: IO[bytes]) -> bool:
    """Lock a file for this process, or say that another one holds it."""
    try:
        import fcntl
    except ImportError:  # pragma: no cover - Windows
        import msvcrt

        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        except OSError:
            return False
        return True
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
