"""Categories from CSV files."""

import gzip

import numpy as np
import pytest
from sklearn.preprocessing import OneHotEncoder

from sparselens.data import onehot as module
from sparselens.data import read_matrix, read_onehot_csv
from sparselens.recovery import CorruptFileError
from sparselens.sparsity import OneHot


@pytest.fixture
def write(tmp_path):
    def write(content, name="table.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def test_one_hot_encoding_agrees_with_scikit_learn(write, monkeypatch):
    monkeypatch.setattr(module, "_ROWS_AT_ONCE", 7)  # several blocks
    rng = np.random.default_rng(0)
    cells = rng.integers(-20, 200, (50, 3))
    path = write("a,b,c\n" + "\n".join(",".join(map(str, row)) for row in cells))
    table = read_onehot_csv(path)
    encoder = OneHotEncoder().fit(cells)
    np.testing.assert_array_equal(table.matrix.toarray(), encoder.transform(cells).toarray())
    assert table.groups == tuple(len(categories) for categories in encoder.categories_)
    assert abs(OneHot(table.groups).project(table.matrix) - table.matrix).max() == 0


def test_numbers_are_ordered_as_numbers_and_text_as_text(write):
    table = read_onehot_csv(write("n,t\n10,b\n9,a\n9,\n"))
    assert table.names.tolist() == ["n=9", "n=10", "t=", "t=a", "t=b"]


def test_chosen_columns_become_the_groups(write):
    table = read_onehot_csv(write("y,a,b\n1,u,v\n0,w,v\n"), columns=[2, 1])
    assert table.names.tolist() == ["b=v", "a=u", "a=w"]


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (b"a;b\nx;y\n", "t.csv"),
        (b"a\tb\nx\ty\n", "t.tsv"),
        (b"\xef\xbb\xbfa,b\r\nx,y\r\n", "t.csv"),
        (gzip.compress(b"a,b\nx,y\n"), "t.csv.gz"),
        (b'"a","b"\n"x","y"\n\n', "t.csv"),
    ],
    ids=["semicolons", "tabs", "byte order mark and crlf", "gzip", "quotes and a blank line"],
)
def test_common_variants_of_csv_are_read(write, content, name):
    assert read_onehot_csv(write(content, name)).names.tolist() == ["a=x", "b=y"]


@pytest.mark.parametrize(
    ("content", "message", "error"),
    [
        (b"", "is empty or starts with an empty line: a header line was expected", CorruptFileError),
        (b"a,b\n", "holds a header line and no rows: was it cut short", CorruptFileError),
        (b"1,2\n3,4\n", "line 1: the names of the columns were expected, got numbers: add a header line", ValueError),
        (b"a,b\nx,y\nx\n", "line 3: 2 cells were expected, as in the first line, got 1", CorruptFileError),
        (b'a,b\nx,y\n"x,y\n', "after line 2: not CSV", CorruptFileError),
        (b"a,b\nx,\xff\xfe\n", "not UTF-8 text", CorruptFileError),
        (b"a,b\nx," + b"y" * 200_000 + b"\n", r"after line 1: not CSV \(field larger", CorruptFileError),
    ],
)
def test_a_malformed_table_is_named_with_its_line(write, content, message, error):
    path = write(content)
    for reader in (read_onehot_csv, read_matrix):
        with pytest.raises(error, match=message) as caught:
            reader(path)
        assert str(path) in str(caught.value)


def test_columns_that_are_not_there_are_refused(write):
    path = write("a,b\nx,y\n")
    with pytest.raises(ValueError, match="has the columns 0 to 1, but columns="):
        read_onehot_csv(path, columns=[2])
    with pytest.raises(ValueError, match="has the columns 0 to 1, but columns="):
        read_onehot_csv(path, columns=[])
    with pytest.raises(ValueError, match="a column must be at least 0, got -1"):
        read_onehot_csv(path, columns=[-1])
    with pytest.raises(TypeError, match="a column must be a whole number, got 'a'"):
        read_onehot_csv(path, columns=["a"])
