"""Outputs that grow beside their target: whole or not there, and never begun from nothing twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import zipfile

import numpy as np
import pytest

from sparselens import _parts
from sparselens._parts import Parts
from sparselens.recovery import OutputError

ARRAYS = {"Y": ("<f8", (3,)), "k": ("<i4", ())}


def rows(start, stop):
    values = np.arange(3.0 * start, 3.0 * stop).reshape(-1, 3)
    return {"Y": values, "k": np.arange(start, stop)}


def parts(target, *, resume=False, job=None):
    return Parts(target, ARRAYS, job={"a": 1} if job is None else job, resume=resume)


def write(target, *, stop_after=None, resume=False, n=10, step=2):
    """Ten rows in five steps; the run dies after some of them where asked."""
    with parts(target, resume=resume) as growing:
        for start in range(growing.n_rows, n, step):
            if start == stop_after:
                raise KeyboardInterrupt
            growing.append(step, rows(start, start + step), {"rows so far": start + step})
        growing.become_npz({"label": "text"})


def test_numpy_reads_what_was_joined(tmp_path):
    write(tmp_path / "y.npz")
    with np.load(tmp_path / "y.npz") as archive:
        np.testing.assert_array_equal(archive["Y"], np.arange(30.0).reshape(10, 3))
        np.testing.assert_array_equal(archive["k"], np.arange(10))
        assert archive["label"].item() == "text"
    assert os.listdir(tmp_path) == ["y.npz"]


def test_one_array_becomes_a_npy_file(tmp_path):
    with parts(tmp_path / "y.npy") as growing:
        growing.append(4, rows(0, 4), {})
        growing.become_npy("Y")
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy", mmap_mode="r"), np.arange(12.0).reshape(4, 3))
    assert os.listdir(tmp_path) == ["y.npy"]


def test_compressed_members_hold_the_same(tmp_path):
    with parts(tmp_path / "y.npz") as growing:
        growing.append(4, rows(0, 4), {})
        growing.become_npz({}, compressed=("k",))
    with zipfile.ZipFile(tmp_path / "y.npz") as archive:
        kinds = {info.filename: info.compress_type for info in archive.infolist()}
    assert kinds == {"Y.npy": zipfile.ZIP_STORED, "k.npy": zipfile.ZIP_DEFLATED}
    with np.load(tmp_path / "y.npz") as archive:
        np.testing.assert_array_equal(archive["k"], np.arange(4))


@pytest.mark.parametrize("stop_after", [2, 6, 8])
def test_a_resumed_output_is_the_same_file_byte_for_byte(tmp_path, stop_after):
    write(tmp_path / "whole.npz")
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "y.npz", stop_after=stop_after)
    assert os.listdir(tmp_path / ".y.npz.parts")
    assert not (tmp_path / "y.npz").exists()
    write(tmp_path / "y.npz", resume=True)
    assert (tmp_path / "y.npz").read_bytes() == (tmp_path / "whole.npz").read_bytes()


def test_rows_after_the_last_checkpoint_are_cut_off(tmp_path):
    with parts(tmp_path / "y.npz") as growing:
        growing.append(2, rows(0, 2), {"n": 2})
    with open(tmp_path / ".y.npz.parts" / "Y.npy", "ab") as file:
        file.write(b"half a row")  # as a kill in the middle of an append leaves it
    with parts(tmp_path / "y.npz", resume=True) as growing:
        assert (growing.n_rows, growing.notes) == (2, {"n": 2})
        growing.append(2, rows(2, 4), {})
        growing.become_npz({})
    with np.load(tmp_path / "y.npz") as archive:
        np.testing.assert_array_equal(archive["Y"], np.arange(12.0).reshape(4, 3))


def test_an_earlier_file_stays_until_the_new_one_is_whole(tmp_path):
    (tmp_path / "y.npz").write_text("the old one")
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "y.npz", stop_after=4)
    assert (tmp_path / "y.npz").read_text() == "the old one"


def test_a_run_without_a_finished_row_leaves_nothing(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "y.npz", stop_after=0)
    assert os.listdir(tmp_path) == []


def test_without_resume_a_run_begins_again(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "y.npz", stop_after=4)
    with parts(tmp_path / "y.npz") as growing:
        assert growing.n_rows == 0


def test_the_parts_of_another_job_are_refused_and_stay(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "y.npz", stop_after=4)
    with pytest.raises(ValueError, match=r"the beginning of another run \(different: a, b\): run again without"):
        parts(tmp_path / "y.npz", resume=True, job={"a": 2, "b": 1})
    with parts(tmp_path / "y.npz", resume=True) as growing:
        assert growing.n_rows == 4


@pytest.mark.parametrize("content", [b"", b"{}", b'{"format": "x"}', b"[]", b'{"format": "sparselens parts"}', b"\xff"])
def test_a_damaged_manifest_is_refused(tmp_path, content):
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "y.npz", stop_after=4)
    (tmp_path / ".y.npz.parts" / "manifest.json").write_bytes(content)
    with pytest.raises(ValueError, match=r"manifest\.json is damaged .*: run again without resuming"):
        parts(tmp_path / "y.npz", resume=True)
    write(tmp_path / "y.npz")


def test_missing_rows_are_noticed(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "y.npz", stop_after=4)
    os.truncate(tmp_path / ".y.npz.parts" / "Y.npy", 140)
    with pytest.raises(ValueError, match="lacks rows that its manifest promises"):
        parts(tmp_path / "y.npz", resume=True)


def test_two_writers_of_one_file_do_not_meet(tmp_path):
    with parts(tmp_path / "y.npz") as first:
        first.append(2, rows(0, 2), {})
        with pytest.raises(FileExistsError, match=r"another process is writing .*y\.npz: wait for it"):
            parts(tmp_path / "y.npz")
        first.become_npz({})
    write(tmp_path / "y.npz")
    assert os.listdir(tmp_path) == ["y.npz"]


def test_a_folder_as_the_target_is_refused(tmp_path):
    (tmp_path / "y.npz").mkdir()
    with pytest.raises(IsADirectoryError, match=r"y\.npz is a folder: name a file"):
        parts(tmp_path / "y.npz")


def test_a_file_as_the_folder_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"is not a folder|exists"):
        parts(tmp_path / "file" / "y.npz")


def test_a_folder_that_may_not_be_written_to_is_named(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(_parts.Path, "mkdir", refuse)
    with pytest.raises(PermissionError, match="may not be written to: choose another folder"):
        parts(tmp_path / "y.npz")


IN_A_PROCESS = """
import os, resource, signal, sys
sys.path.insert(0, {here!r})
import numpy as np
from sparselens import _parts
import test_parts
_parts._SECONDS = 0.0
target, how = sys.argv[1:]
if how == "full":
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
with _parts.Parts(target, test_parts.ARRAYS, job={{"a": 1}}, resume=False) as growing:
    for start in range(0, 100_000, 500):
        if how == "kill" and start == 3000:
            os.kill(os.getpid(), signal.SIGKILL)
        growing.append(500, test_parts.rows(start, start + 500), {{}})
    growing.become_npz({{}})
"""


def in_a_process(target, how):
    code = IN_A_PROCESS.format(here=os.path.dirname(__file__))
    return subprocess.run([sys.executable, "-c", code, str(target), how], capture_output=True, text=True, check=False)


@pytest.mark.skipif(os.name != "posix", reason="limits and signals of a POSIX system")
def test_a_killed_process_leaves_its_rows_and_no_lock(tmp_path):
    result = in_a_process(tmp_path / "y.npz", "kill")
    assert result.returncode == -signal.SIGKILL
    assert not (tmp_path / "y.npz").exists()
    with parts(tmp_path / "y.npz", resume=True) as growing:
        assert growing.n_rows == 3000
        growing.become_npz({})
    with np.load(tmp_path / "y.npz") as archive:
        np.testing.assert_array_equal(archive["k"], np.arange(3000))


@pytest.mark.skipif(os.name != "posix", reason="limits and signals of a POSIX system")
def test_a_full_disk_keeps_what_was_safe_and_says_so(tmp_path):
    """A limit on the size of a file stands for the disk: both end a write with an error of the system."""
    result = in_a_process(tmp_path / "y.npz", "full")
    assert result.returncode == 1
    assert "OutputError" in result.stderr
    assert "2,000 rows are kept beside it: make room and run again with resume" in result.stderr
    with parts(tmp_path / "y.npz", resume=True) as growing:
        assert growing.n_rows == 2000
        growing.become_npz({})
    with np.load(tmp_path / "y.npz") as archive:
        np.testing.assert_array_equal(archive["Y"], np.arange(6000.0).reshape(2000, 3))


def test_no_room_for_the_joined_file_keeps_every_row(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(_parts.shutil, "copyfileobj", full)
        with pytest.raises(OutputError, match=r"No space left on device"):
            write(tmp_path / "y.npz")
    write(tmp_path / "y.npz", resume=True)
    with np.load(tmp_path / "y.npz") as archive:
        np.testing.assert_array_equal(archive["k"], np.arange(10))
