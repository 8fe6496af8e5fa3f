"""Files that are written whole, and places that are tried before any work."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from sparselens._files import check_writable, written_whole


def test_a_full_disk_names_the_file_and_leaves_the_old_one(tmp_path):
    (tmp_path / "a.txt").write_text("old")

    def write(path):
        with written_whole(path) as draft:
            draft.write_text("ne")
            raise OSError(errno.ENOSPC, "No space left on device")  # as a write does, without a name

    with pytest.raises(OSError, match="No space left") as caught:
        write(tmp_path / "a.txt")
    assert caught.value.filename == str(tmp_path / "a.txt")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a.txt", "old")]


def test_an_error_of_another_file_keeps_its_name(tmp_path):
    with pytest.raises(FileNotFoundError) as caught, written_whole(tmp_path / "a.txt"):
        (tmp_path / "other.txt").read_text()
    assert caught.value.filename == str(tmp_path / "other.txt")


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="a folder in which nobody may write, not even root")
def test_a_place_that_cannot_be_written_is_named_as_a_person_typed_it():
    with pytest.raises(OSError, match=r"/proc/self/a\.txt") as caught, written_whole("/proc/self/a.txt"):
        pass
    assert caught.value.filename == "/proc/self/a.txt"
    with pytest.raises(OSError, match=r"'/proc/self'") as caught:
        check_writable(Path("/proc/self"))
    assert caught.value.filename == "/proc/self"


def test_a_place_that_can_be_written_is_made_and_left_empty(tmp_path):
    check_writable(tmp_path / "a" / "b")
    assert list((tmp_path / "a" / "b").iterdir()) == []
