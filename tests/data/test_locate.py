"""Where files are looked for, and what is said when they are missing or wrong."""

import gzip
import hashlib
import os
from pathlib import Path

import pytest

from sparselens.data import data_root, load_dataset
from sparselens.data._locate import DataFile, open_binary, sha256_of
from sparselens.recovery import CorruptFileError, DataNotFoundError

CONTENT = b"a,b\n1,2\n"
DIGEST = hashlib.sha256(CONTENT).hexdigest()
FILE = DataFile(("set/a.csv", "a.csv"), "https://example.org/a.csv", DIGEST)


def test_the_root_is_the_argument_then_the_environment_then_the_cache_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("SPARSELENS_DATA", str(tmp_path / "env"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert data_root(tmp_path) == tmp_path
    assert data_root() == tmp_path / "env"
    monkeypatch.delenv("SPARSELENS_DATA")
    assert data_root() == tmp_path / "cache" / "sparselens"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert tmp_path in data_root().parents
    assert data_root("~/data") == Path(os.path.expanduser("~/data"))
    with pytest.raises(TypeError, match=r"root must be a path, got 3 \(int\)"):
        data_root(3)


@pytest.mark.parametrize(
    ("name", "content"), [("set/a.csv", CONTENT), ("a.csv", CONTENT), ("a.csv.gz", gzip.compress(CONTENT))]
)
def test_a_file_is_found_in_each_accepted_place_plain_or_compressed(tmp_path, name, content):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    assert FILE.locate(tmp_path, dataset="letters") == path
    with open_binary(path) as stream:
        assert stream.read() == CONTENT


def test_a_missing_file_is_named_with_the_place_and_the_source(tmp_path):
    with pytest.raises(DataNotFoundError) as caught:
        FILE.locate(tmp_path, dataset="letters")
    for part in (
        "'letters' needs the file set/a.csv",
        "a.csv",
        str(tmp_path),
        "https://example.org",
        "SPARSELENS_DATA",
    ):
        assert part in str(caught.value)
    assert isinstance(caught.value, FileNotFoundError)


def test_a_wrong_file_is_refused_with_both_digests_and_read_when_asked(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"other")
    with pytest.raises(CorruptFileError, match=f"expected sha256 {DIGEST}, found {sha256_of(path)}") as caught:
        FILE.locate(tmp_path, dataset="letters")
    assert "verify=False" in str(caught.value)
    assert FILE.locate(tmp_path, dataset="letters", verify=False) == path


def test_a_digest_of_the_published_archive_is_checked_where_it_is_the_known_one(tmp_path):
    packed = gzip.compress(CONTENT, mtime=0)
    file = DataFile(("a.csv",), "nowhere", sha256_stored={".gz": hashlib.sha256(packed).hexdigest()})
    (tmp_path / "a.csv.gz").write_bytes(packed)
    assert file.locate(tmp_path, dataset="letters").name == "a.csv.gz"
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"other"))
    with pytest.raises(CorruptFileError, match="expected sha256"):
        file.locate(tmp_path, dataset="letters")


def test_a_truncated_download_is_damaged_not_missing(tmp_path):
    (tmp_path / "amazon_train.csv.gz").write_bytes(gzip.compress(CONTENT * 100)[:-20])
    with pytest.raises(CorruptFileError, match="is damaged or cut short"):
        load_dataset("amazon", root=tmp_path)
