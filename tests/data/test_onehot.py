"""Categories from CSV files."""

import gzip

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.preprocessing import OneHotEncoder

from sparselens.data import csv_text, read_matrix, read_onehot_csv, write_onehot_csv
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
    monkeypatch.setattr(csv_text, "_ROWS_AT_ONCE", 7)  # several blocks
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


def test_another_table_gets_the_same_columns_whatever_order_it_has(write):
    fitted = read_onehot_csv(write("size,colour\n9,red\n10,blue\n11,red\n"))
    other = read_onehot_csv(write("colour,size\nblue,11\nblue,9\n", "other.csv"), categories=fitted.categories)
    assert (
        other.names.tolist() == fitted.names.tolist() == ["size=9", "size=10", "size=11", "colour=blue", "colour=red"]
    )
    assert other.matrix.toarray().tolist() == [[0, 0, 1, 1, 0], [1, 0, 0, 1, 0]]
    again = read_matrix(write("colour,size\nblue,11\n", "other.csv"), categories=fitted.categories)
    assert again.toarray().tolist() == [[0, 0, 1, 1, 0]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a,b\nx,y\nx,new\n", "line 3: b is 'new', a category that the model does not know: leave the row out"),
        ("a,c\nx,y\n", r"has the columns 'a', 'c', but 'a', 'b' were expected \(different: 'b', 'c'\)"),
        ("a,b,b\nx,y,y\n", r"different: 'b'\)"),
        ("a,b\n", "a header line and no rows"),
    ],
    ids=["category", "column", "column twice", "no rows"],
)
def test_a_table_that_does_not_fit_the_categories_is_refused_with_the_reason(write, content, message):
    with pytest.raises(ValueError, match=message):
        read_onehot_csv(write(content), categories={"a": ["x"], "b": ["y"]})


def test_two_columns_of_one_name_are_refused(write):
    with pytest.raises(ValueError, match="line 1: two columns are called 'a': rename one"):
        read_onehot_csv(write("a,a\nx,y\n"))


def test_a_table_written_from_its_rows_is_the_table_again(write, tmp_path):
    text = 'name,note\n"Doe, J.",\nMüller,"say ""hi"""\n'
    table = read_onehot_csv(write(text))
    blocks = [table.matrix[:1], table.matrix[1:]]
    assert write_onehot_csv(tmp_path / "again.csv", blocks, table.categories).all()
    assert (tmp_path / "again.csv").read_text(encoding="utf-8") == text


@pytest.mark.parametrize("row", [[0, 0, 1], [1, 1, 1], [1, 0, 0.9], [1, -1e-3, 1], [0, 0, 0]])
def test_a_row_that_is_no_row_of_categories_is_left_empty(tmp_path, row):
    rows = sp.csr_array(np.array([row, [0, 1 + 1e-9, 1 - 1e-9]], dtype=float))
    whole = write_onehot_csv(tmp_path / "t.csv", [rows], {"a": ["x", "y"], "b": ["z"]})
    assert whole.tolist() == [False, True]
    assert (tmp_path / "t.csv").read_text().splitlines() == ["a,b", ",", "y,z"]
