"""No file breaks a reader or the loader: it is read, or refused with one clear error that names it.

The suite tries a few hundred inputs. ``make fuzz`` tries 10,000 for each test, more than 100,000 in all. Every input
has its own clock, and the nightly form a limit on memory: a hang or a blow-up is a failure.
"""

from __future__ import annotations

import bz2
import functools
import gzip
import hashlib
import io
import json
import lzma
import os
import signal
import tempfile
import zipfile
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import sparselens as sl
from helpers import sparse_rows
from sparselens import persist
from sparselens._parts import Parts
from sparselens.data import read_matrix, read_onehot_csv
from sparselens.data.lossless_rows import LosslessRows
from sparselens.data.rows import open_measurements, open_rows
from sparselens.filejobs import encode_file
from sparselens.recovery import SparselensError

NIGHTLY = settings().max_examples > 1000
X = sparse_rows(6, 5, 2, seed=0)
HOME = Path(tempfile.mkdtemp(prefix="sparselens-fuzz-"))


# ---- files that are right, to begin with ------------------------------------------------------------------------


def npz_members(**arrays) -> dict[str, bytes]:
    members = {}
    for name, array in arrays.items():
        stream = io.BytesIO()
        np.lib.format.write_array(stream, np.asarray(array), allow_pickle=False)
        members[f"{name}.npy"] = stream.getvalue()
    return members


def zipped(members: dict[str, bytes], compression=zipfile.ZIP_STORED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return stream.getvalue()


def saved(write, name) -> bytes:
    path = HOME / name
    write(path)
    return path.read_bytes()


CSR = npz_members(format=b"csr", shape=X.shape, data=X.data, indices=X.indices, indptr=X.indptr)
COO = npz_members(format=b"coo", shape=X.shape, data=X.data, row=X.tocoo().row, col=X.tocoo().col)
DENSE = npz_members(Y=X.toarray())
XMC = b"6 5 3\n0,1 0:1.5 2:1\n 1:2\n2 0:1\n1 4:1e-3\n\n0 3:2\n"
SVMLIGHT = b"+1 1:0.5 3:2\n-1 2:1 # a comment\n0.5 qid:3 4:1\n"
CSV = b"colour,size\nred,10\nblue,9\n,10\n"
ONE_MODEL = sl.GaussianEncoder(3, random_state=0).fit(X)
MODEL = {path.name: path.read_bytes() for path in ONE_MODEL.save(HOME / "model").iterdir()}
ENTROPY = st.lists(
    st.tuples(
        st.integers(0, 6),
        st.integers(0, 2**16),
        st.one_of(st.binary(min_size=1, max_size=8), st.sampled_from([b"\xff" * 8, bytes(8), b"\x7f" + b"\xff" * 7])),
    ),
    min_size=1,
    max_size=5,
)


def mutated(content: bytes, changes) -> bytes:
    """Content with bytes replaced, inserted, removed, repeated, moved or cut off."""
    out = bytearray(content)
    for kind, place, extra in changes:
        at = place % (len(out) + 1)
        if kind == 0:
            out[at : at + len(extra)] = extra
        elif kind == 1:
            out[at:at] = extra
        elif kind == 2:
            del out[at : at + len(extra)]
        elif kind == 3:
            out[at:at] = out[max(0, at - 8 * len(extra)) : at]
        elif kind == 4:
            del out[at:]
        elif kind == 5 and out:
            out[at % len(out)] ^= 1 << (extra[0] % 8)
        elif kind == 6:
            digits = str(int.from_bytes(extra, "little") if place % 2 else -(extra[0])).encode()
            out[at : at + 1] = digits
    return bytes(out)


# ---- what may happen --------------------------------------------------------------------------------------------


@contextmanager
def at_most(seconds=20, gigabytes=1.5):
    """A hang ends in an error, and in the nightly form so does a blow-up of memory."""

    def too_long(*_):
        raise AssertionError("this input takes too long")

    if os.name != "posix":
        yield
        return
    import resource

    before = signal.signal(signal.SIGALRM, too_long)
    limits = resource.getrlimit(resource.RLIMIT_AS)
    signal.alarm(seconds)
    if NIGHTLY:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + int(gigabytes * 2**30), limits[1]))
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        if NIGHTLY:
            resource.setrlimit(resource.RLIMIT_AS, limits)


def read_or_refused(read, path: Path) -> None:
    """`read` gives finite rows, or raises one error that names the file. MemoryError is no clear error."""
    refusal, result = None, None
    with at_most():
        try:
            result = read(path)
        except (ValueError, SparselensError) as error:
            refusal = str(error)
    assert refusal is None or path.name in refusal
    assert not sp.issparse(result) or np.isfinite(result.data).all()


def try_content(name: str, content: bytes, *readers) -> None:
    path = HOME / name
    path.write_bytes(content)
    for read in readers:
        read_or_refused(read, path)


def all_blocks(path):
    """As encode reads a file: in blocks, with the checks of a block."""
    rows = open_rows(path)
    if rows.shape[0] > 10_000_000:  # a believable file of that length takes its time
        return
    for _ in zip(rows.blocks(max(4, rows.shape[0] // 8)), range(10), strict=False):
        pass


def all_measurements(path):
    rows = open_measurements(path)
    for _ in zip(rows.blocks(max(4, rows.shape[0] // 8)), range(10), strict=False):
        pass


# ---- the tests --------------------------------------------------------------------------------------------------


@given(st.sampled_from(["csr", "coo", "dense"]), st.integers(0, 9), ENTROPY, st.booleans())
def test_npz_members_of_any_content(which, member, changes, compress):
    """The archive itself is right: its checksums do not help."""
    members = dict({"csr": CSR, "coo": COO, "dense": DENSE}[which])
    name = list(members)[member % len(members)]
    members[name] = mutated(members[name], changes)
    content = zipped(members, zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED)
    try_content("x.npz", content, read_matrix, all_blocks, all_measurements)


@given(st.sampled_from(["csr", "dense"]), ENTROPY)
def test_npz_archives_of_any_content(which, changes):
    try_content("x.npz", mutated(zipped({"csr": CSR, "dense": DENSE}[which]), changes), read_matrix, all_blocks)


@given(st.sampled_from(["f8", "f4", "i1", "b1"]), ENTROPY)
def test_npy_files_of_any_content(dtype, changes):
    content = npz_members(a=X.toarray().astype(dtype))["a.npy"]
    try_content("x.npy", mutated(content, changes), read_matrix, all_blocks, all_measurements)


@given(st.sampled_from([("x.xmc", XMC), ("x.svm", SVMLIGHT), ("x.csv", CSV), ("x.txt", XMC), ("x", SVMLIGHT)]), ENTROPY)
def test_text_of_any_content(file, changes):
    name, content = file
    readers = [read_matrix, all_blocks]
    if name == "x.csv":
        readers += [lambda path: read_onehot_csv(path).matrix, functools.partial(read_matrix, format="csv-numeric")]
    try_content(name, mutated(content, changes), *readers)


@given(
    st.sampled_from([(".gz", gzip.compress), (".xz", lzma.compress), (".bz2", bz2.compress)]), ENTROPY, st.booleans()
)
def test_compressed_text_of_any_content(packing, changes, outside):
    suffix, pack = packing
    content = mutated(pack(XMC), changes) if outside else pack(mutated(XMC, changes))
    try_content("x.xmc" + suffix, content, read_matrix, all_blocks)


@functools.cache
def mat_files() -> tuple[bytes, ...]:
    forms = ({"format": "4"}, {"format": "5"}, {"format": "5", "do_compression": True})
    dense = [saved(lambda p, f=f: scipy.io.savemat(p, {"X": X.toarray()}, **f), "right.mat") for f in forms]
    sparse = [saved(lambda p, f=f: scipy.io.savemat(p, {"X": sp.csc_array(X)}, **f), "right.mat") for f in forms]
    return (*dense, *sparse)


@given(st.integers(0, 5), ENTROPY)
def test_mat_files_of_any_content(which, changes):
    try_content("x.mat", mutated(mat_files()[which], changes), read_matrix)


@functools.cache
def h5ad_file() -> bytes:
    h5py = pytest.importorskip("h5py")
    with h5py.File(HOME / "right.h5ad", "w") as file:
        group = file.create_group("X")
        for name, array in (("data", X.data), ("indices", X.indices), ("indptr", X.indptr)):
            group[name] = array
        group.attrs["encoding-type"], group.attrs["shape"] = "csr_matrix", X.shape
    return (HOME / "right.h5ad").read_bytes()


@given(ENTROPY)
def test_h5ad_files_of_any_content(changes):
    try_content("x.h5ad", mutated(h5ad_file(), changes), read_matrix, all_blocks)


@functools.cache
def lossless_members() -> dict[str, bytes]:
    encode_file(ONE_MODEL, X, HOME / "lossless.npz", lossless=True)
    with zipfile.ZipFile(HOME / "lossless.npz") as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@given(st.integers(0, 20), ENTROPY)
def test_lossless_files_of_any_content(member, changes):
    members = dict(lossless_members())
    name = list(members)[member % len(members)]
    members[name] = mutated(members[name], changes)
    try_content("l.npz", zipped(members), lambda path: list(LosslessRows(path).blocks(4)))


def json_values():
    leaves = st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.sampled_from([10**400, 2**63, ""])
    )
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.dictionaries(st.sampled_from(["$float", "$tuple", "$names", "n_components", "a"]), inner, max_size=3),
        ),
        max_leaves=6,
    )


def try_model(files: dict[str, bytes]) -> None:
    folder = Path(tempfile.mkdtemp(dir=HOME))
    try:
        for name, content in files.items():
            (folder / name).write_bytes(content)
        read_or_refused(sl.load, folder)
    finally:
        for entry in folder.iterdir():
            entry.unlink()
        folder.rmdir()


@given(st.sampled_from(sorted(MODEL)), ENTROPY)
def test_model_files_of_any_content(name, changes):
    try_model(MODEL | {name: mutated(MODEL[name], changes)})


def manifest_paths(value, path=()):
    """Every place in the manifest where something can be replaced."""
    yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from manifest_paths(inner, (*path, key))


MANIFEST = json.loads(MODEL["manifest.json"])
PLACES = [path for path in manifest_paths(MANIFEST) if path]


@given(st.lists(st.tuples(st.sampled_from(PLACES), json_values()), min_size=1, max_size=3))
def test_manifests_that_somebody_wrote_with_the_right_checksum(changes):
    manifest = json.loads(MODEL["manifest.json"])
    for place, value in changes:
        inner = manifest
        for key in place[:-1]:
            inner = inner.get(key) if isinstance(inner, dict) else None
        if isinstance(inner, dict):
            inner[place[-1]] = value
    manifest["sha256"] = persist._checksum(manifest)
    try_model(MODEL | {"manifest.json": json.dumps(manifest).encode()})


@given(ENTROPY)
def test_arrays_that_somebody_wrote_with_the_right_checksum(changes):
    name = next(name for name in MODEL if name.startswith("arrays"))
    content = mutated(MODEL[name], changes)
    digest = hashlib.sha256(content).hexdigest()
    manifest = json.loads(MODEL["manifest.json"])
    manifest["arrays"] |= {"file": f"arrays-{digest[:16]}.safetensors", "sha256": digest}
    manifest["sha256"] = persist._checksum(manifest)
    try_model({"manifest.json": json.dumps(manifest).encode(), manifest["arrays"]["file"]: content})


@functools.cache
def parts_manifest() -> bytes:
    with Parts(HOME / "p.npz", {"a": ("<f8", ())}, job={"j": 1}, resume=False) as parts:
        parts.append(3, {"a": np.arange(3.0)}, {"n": 3})
    return (HOME / ".p.npz.parts" / "manifest.json").read_bytes()


@given(ENTROPY)
def test_parts_whose_manifest_holds_anything(changes):
    content = mutated(parts_manifest(), changes)
    (HOME / ".p.npz.parts").mkdir(exist_ok=True)
    (HOME / ".p.npz.parts" / "manifest.json").write_bytes(content)
    (HOME / ".p.npz.parts" / "a.npy").write_bytes(bytes(128 + 24))

    def take_up(path):
        with Parts(path, {"a": ("<f8", ())}, job={"j": 1}, resume=True) as parts:
            assert 0 <= parts.n_rows

    read_or_refused(take_up, HOME / "p.npz")


@pytest.fixture(autouse=True, scope="module")
def clean_up():
    yield
    import shutil

    shutil.rmtree(HOME, ignore_errors=True)
