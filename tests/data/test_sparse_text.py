"""XMC and svmlight text: what is read, and that everything malformed is named with its line."""

import bz2
import gzip
import lzma

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from sparselens.data import read_matrix, read_svmlight, read_xmc, sparse_text
from sparselens.data._scan import scan
from sparselens.recovery import CorruptFileError, DataNotFoundError

OFFICIAL = "3 5 4\n0,3 0:1.5 4:2\n 1:1e-3\n2\n"


@pytest.fixture
def write(tmp_path):
    def write(content, name="rows.txt"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def same(X, Y):
    return X.shape == Y.shape and (X != Y).nnz == 0


def test_the_official_format_gives_features_and_labels(write):
    features, labels = read_xmc(write(OFFICIAL))
    np.testing.assert_array_equal(features.toarray(), [[1.5, 0, 0, 0, 2.0], [0, 1e-3, 0, 0, 0], [0, 0, 0, 0, 0]])
    np.testing.assert_array_equal(labels.toarray(), [[1, 0, 0, 1], [0, 0, 0, 0], [0, 0, 1, 0]])
    assert features.dtype == labels.dtype == np.float64


@pytest.mark.parametrize("header", ["2 6", "# 2, 6", "#2,6", "2, 6", "  2\t6 "])
def test_a_header_of_two_numbers_means_one_matrix_without_labels(write, header):
    features, labels = read_xmc(write(f"{header}\n 5:1 0:2\n\n"))
    assert labels is None
    np.testing.assert_array_equal(features.toarray(), [[2, 0, 0, 0, 0, 1], [0] * 6])


@pytest.mark.parametrize(
    "text",
    [
        OFFICIAL.replace("\n", "\r\n"),
        OFFICIAL.removesuffix("\n"),
        OFFICIAL + "\n\n\n",
        OFFICIAL.replace(" ", "  ").replace("3  5  4", "3 5 4"),
        OFFICIAL.replace(" 4:2", "\t4:2 "),
    ],
    ids=["crlf", "no last newline", "blank lines after the end", "double blanks", "tab and trailing blank"],
)
def test_harmless_variations_of_white_space_change_nothing(write, text):
    expected, variant = read_xmc(write(OFFICIAL)), read_xmc(write(text, "variant.txt"))
    assert same(expected[0], variant[0])
    assert same(expected[1], variant[1])


@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".xz", lzma.compress), (".bz2", bz2.compress)])
def test_compressed_text_reads_as_the_plain_one(write, suffix, pack):
    plain, packed = read_xmc(write(OFFICIAL)), read_xmc(write(pack(OFFICIAL.encode()), "rows.txt" + suffix))
    assert same(plain[0], packed[0])
    assert same(plain[1], packed[1])


def test_a_label_named_twice_counts_once_and_a_feature_named_twice_is_summed(write):
    features, labels = read_xmc(write("1 3 3\n1,1 2:1 2:0.5 0:0\n"))
    np.testing.assert_array_equal(features.toarray(), [[0, 0, 1.5]])
    np.testing.assert_array_equal(labels.toarray(), [[0, 1, 0]])
    assert features.nnz == 1  # the stored zero is gone


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "rows.txt is empty: an XMC header"),
        ("0,3 0:1.5\n", "line 1: a header 'rows columns' or 'rows features labels' was expected, got '0,3 0:1.5'"),
        ("-3 5 4\n", "line 1: a header"),
        ("3.0 5 4\n", "line 1: a header"),
        ("3 1000000000000 4\n", "line 1: the header declares a size of 1,000,000,000,000"),
        ("1000000000000 5 4\n0 0:1\n", "line 1: the header declares a size of 1,000,000,000,000"),
        ("0 5 4\n", "line 1: the header declares a size of 0"),
        ("4 5 4\n0 0:1\n0 0:1\n", "declares 4 rows but 2 lines follow: was the file cut short"),
        ("1 5 4\n0 0:1\n\n0 0:1\n", "line 3: the header declares 1 rows but more follow"),
        ("1 5 4\n" + "\n" * 2000, "line 3: the header declares 1 rows but more follow"),
        ("2 5 4\n0 0:1\n4 1:1\n", "line 3: the label '4' is out of range: labels go from 0 to 3"),
        ("2 5 4\n0 0:1\n0 5:1\n", "line 3: the index '5' is out of range: columns go from 0 to 4"),
        ("1 5 4\n0 99999999999999999999999:1\n", "line 2: the index '99999999999999999999999' is out of range"),
        ("1 5 4\n99999999999999999999999 1:1\n", "line 2: the label '99999999999999999999999' is out of range"),
        ("1 5 4\n0 -1:1\n", "line 2: '-1:1' has a negative index"),
        ("1 5 4\n0 1:abc\n", "line 2: '1:abc' is not index:value"),
        ("1 5 4\n0 1.5:1\n", "line 2: '1.5:1' is not index:value"),
        ("1 5 4\n0 1:\n", "line 2: '1:' is not index:value"),
        ("1 5 4\n0 :1\n", "line 2: ':1' is not index:value"),
        ("1 5 4\n0 1:1:1\n", "line 2: '1:1:1' is not index:value"),
        ("1 5 4\n0 1:nan\n", "line 2: '1:nan' is not index:value, a whole number from 0 and a finite number"),
        ("1 5 4\n0 1:1e999\n", "line 2: '1:1e999' is not index:value"),
        ("1 5 4\n0 1:1_0\n", "line 2: '1:1_0' is not index:value"),
        ("1 5 4\n0 1:1-2 2:e\n", "line 2: '1:1-2' is not index:value"),
        ("1 5 4\n0, 1:1\n", "line 2: labels such as 3,17 were expected first, got '0,'"),
        ("1 5 4\na 1:1\n", "line 2: labels such as 3,17 were expected first, got 'a'"),
        ("1 5 4\n0 1\n", "line 2: '1' is not index:value"),
        ("1 5\n0 1:1\n", "line 2: '0' is not index:value.*a file with labels needs a header"),
        ("1 5 4\n\x00\x01\xff\n", "line 2: labels such as"),
    ],
)
def test_malformed_xmc_text_names_the_file_the_line_and_what_was_found(write, text, message, monkeypatch):
    path = write(text)
    with pytest.raises(CorruptFileError, match=message) as caught:
        read_xmc(path)
    assert str(path) in str(caught.value)
    monkeypatch.setattr(sparse_text, "_WORTH_COMPILING", 0)
    with pytest.raises(CorruptFileError, match=message):  # the scanner must not accept what the line parser refuses
        read_xmc(path)


def test_the_line_number_is_right_beyond_the_first_piece(write, monkeypatch):
    monkeypatch.setattr(sparse_text, "_CHUNK", 64)
    with pytest.raises(CorruptFileError, match="line 501: '7:x'"):
        read_xmc(write("1000 9 4\n" + "1 2:3\n" * 499 + "1 7:x\n" + "1 2:3\n" * 500))


def test_a_line_without_end_is_refused(write, monkeypatch):
    monkeypatch.setattr(sparse_text, "_LONGEST_LINE", 1000)
    monkeypatch.setattr(sparse_text, "_CHUNK", 256)
    with pytest.raises(CorruptFileError, match="a line of more than 1,000 bytes"):
        read_xmc(write("1 9 4\n" + "1" * 5000))


def test_a_truncated_or_foreign_compressed_file_is_corrupt(write):
    rng = np.random.default_rng(0)
    text = "".join(f"{rng.integers(9)} 1:{rng.random()}\n" for _ in range(2000))
    for suffix, pack in ((".gz", gzip.compress), (".xz", lzma.compress), (".bz2", bz2.compress)):
        whole = pack(f"2000 9 9\n{text}".encode())
        with pytest.raises(CorruptFileError, match=r"is damaged|line|lines follow"):
            read_xmc(write(whole[: len(whole) // 2], "cut.txt" + suffix))
        with pytest.raises(CorruptFileError, match="is damaged"):
            read_xmc(write(b"no such container", "foreign.txt" + suffix))


def test_a_missing_file_a_folder_and_a_number_are_told_apart(tmp_path):
    for reader in (read_xmc, read_svmlight, read_matrix):
        with pytest.raises(DataNotFoundError, match=r"there is no file .*nowhere\.txt"):
            reader(tmp_path / "nowhere.txt")
        with pytest.raises(ValueError, match="is a folder: name one file in it"):
            reader(tmp_path)
        with pytest.raises(TypeError, match=r"path must be a path, got 3 \(int\)"):
            reader(3)


def test_svmlight_agrees_with_scikit_learn(tmp_path):
    rng = np.random.default_rng(0)
    X = sp.random_array((50, 30), density=0.2, rng=rng, format="csr")
    y = rng.standard_normal(50)
    for zero_based in (True, False):
        path = tmp_path / f"x{zero_based}.svm"
        dump_svmlight_file(X, y, str(path), zero_based=zero_based, comment="written by a test")
        features, labels = read_svmlight(path, n_features=30, zero_based=zero_based)
        expected, expected_labels = load_svmlight_file(path, n_features=30, zero_based=zero_based)
        assert same(features, sp.csr_array(expected))
        np.testing.assert_array_equal(labels, expected_labels)
        assert same(read_svmlight(path)[0][:, :29], features[:, :29])


def test_svmlight_counts_from_1_unless_index_0_occurs(write):
    assert read_svmlight(write("1 1:5 3:1\n"))[0].shape == (1, 3)
    assert read_svmlight(write("1 0:5 3:1\n"))[0].shape == (1, 4)
    with pytest.raises(CorruptFileError, match="holds the index 0 but zero_based=False"):
        read_svmlight(write("1 0:5 3:1\n"), zero_based=False)


def test_svmlight_passes_over_comments_blank_lines_and_qid(write):
    X, y = read_svmlight(write("# heading\n\n+1 qid:3 1:2 # why\n-1.5\n"))
    np.testing.assert_array_equal(X.toarray(), [[2], [0]])
    np.testing.assert_array_equal(y, [1, -1.5])


def test_svmlight_with_several_labels(write):
    X, Y = read_svmlight(write("3,1 1:2\n 2:1\n"), multilabel=True)
    np.testing.assert_array_equal(X.toarray(), [[2, 0], [0, 1]])
    np.testing.assert_array_equal(Y.toarray(), [[0, 1, 0, 1], [0, 0, 0, 0]])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no rows"),
        ("# nothing\n", "holds no rows"),
        ("1:2 3:4\n", "line 1: a label was expected first, got '1:2'"),
        ("1 1:2\nx 1:2\n", "line 2: a number was expected as the label, got 'x'"),
        ("1 1:2\n1 -2:2\n", "line 2: '-2:2' has a negative index"),
        ("1 1:2\n1 2:two\n", "line 2: '2:two' is not index:value"),
        ("1 99999999999:2\n", "line 1: the index '99999999999' is out of range"),
    ],
)
def test_malformed_svmlight_names_the_line(write, text, message, monkeypatch):
    path = write(text)
    with pytest.raises(CorruptFileError, match=message):
        read_svmlight(path)
    monkeypatch.setattr(sparse_text, "_WORTH_COMPILING", 0)
    with pytest.raises(CorruptFileError, match=message):
        read_svmlight(path)


def test_svmlight_arguments_are_checked(write):
    path = write("1 5:1\n")
    with pytest.raises(CorruptFileError, match="holds the index 5, which does not fit into n_features=3"):
        read_svmlight(path, n_features=3)
    with pytest.raises(ValueError, match="n_features must be at least 1, got 0"):
        read_svmlight(path, n_features=0)
    with pytest.raises(ValueError, match="zero_based must be one of True, False, 'auto'; got 'maybe'"):
        read_svmlight(path, zero_based="maybe")


def test_the_scanner_and_the_line_parser_agree_on_real_numbers(write, monkeypatch):
    rng = np.random.default_rng(2)
    values = np.concatenate([10.0 ** rng.uniform(-300, 300, 300), rng.random(300), rng.integers(0, 10**17, 300)])
    values *= rng.choice([-1, 1], len(values))
    forms = ("{!r}", "{:.3f}", "{:e}", "{:+.17g}", "{:.25f}")
    texts = [forms[i % 5].format(float(value)) for i, value in enumerate(values)]
    # Powers around 1e22, the last exact one: 3 x 1e23 is off by one bit when it is computed in floating point.
    texts += [f"{mantissa}e{power}" for power in (*range(-25, -20), *range(20, 26)) for mantissa in range(1, 200, 2)]
    lines = [f"{i % 7},3 {i}:{text}" for i, text in enumerate(texts)]
    path = write(f"{len(lines)} {len(lines)} 7\n" + "\n".join(lines))
    slow = read_xmc(path)
    monkeypatch.setattr(sparse_text, "_WORTH_COMPILING", 0)
    monkeypatch.setattr(sparse_text._Parser, "parse_lines", None)  # the scanner must manage alone
    fast = read_xmc(path)
    assert same(fast[0], slow[0])  # bit by bit: the nearest double is unique
    assert same(fast[1], slow[1])


# Mostly well-formed lines, so that the scanner accepts many, with a malformed token here and there.
_NUMBERS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr), st.sampled_from(["1", "+2.", ".5", "-0", "1e3", "2E-2"])
)
_PAIRS = st.builds("{}:{}".format, st.integers(0, 4), _NUMBERS)
_LABELS = {
    "pairs": st.just(""),
    "xmc": st.lists(st.integers(0, 3).map(str), max_size=3).map(",".join),
    "svmlight": st.sampled_from(["1", "+1", "-1", "2.5", "2286", "1e-3"]),
}
_ODD = st.one_of(
    st.sampled_from(["5:1", "4:", ":1", "1:1-2", "2:e", "1:2:3", "4,", "9", "#", "qid:1", "1:inf", "1:1_0", "1:0x1"]),
    st.text("0123456789:,.eE+-#", max_size=6),
)


@st.composite
def _lines(draw, kind):
    lines = []
    for _ in range(draw(st.integers(0, 4))):
        tokens = [draw(_LABELS[kind]), *draw(st.lists(_PAIRS, max_size=4))]
        if draw(st.integers(0, 7)) == 0:
            tokens.insert(draw(st.integers(0, len(tokens))), draw(_ODD))
        lines.append(draw(st.sampled_from([" ", "  "])).join(tokens))
    return "".join(line + "\n" for line in lines).encode()


@pytest.mark.parametrize("kind", ["pairs", "xmc", "svmlight"])
def test_the_scanner_accepts_nothing_that_the_line_parser_refuses_or_reads_otherwise(kind):
    n_accepted = 0

    @settings(max_examples=200, deadline=None, database=None, derandomize=True)
    @given(_lines(kind))
    def check(piece):
        nonlocal n_accepted
        arrays = scan(piece, kind, 5, 4)
        if arrays is None:
            return
        n_accepted += len(piece) > 0
        fast = sparse_text._Piece(*arrays)
        fast = fast.without_blank_lines() if kind == "svmlight" else fast
        slow = sparse_text._Parser("a file", kind, 5, 4, skip_blank=kind == "svmlight").parse_lines(piece, 1)
        for name in ("counts", "indices", "values", "label_counts", "labels"):
            np.testing.assert_array_equal(getattr(fast, name), getattr(slow, name))

    check()
    assert n_accepted > 20  # else the property was hardly tried
