"""Every input error has its text, and every awkward matrix its meaning."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sparselens._validation import (
    as_numbers,
    canonical_csr,
    check_choice,
    check_count,
    check_finite_rows,
    check_measurement_matrix,
    check_measurements,
    check_n_components,
    check_positive_float,
    check_rows,
    row_norms,
    unit_rows,
)

# ---- rows ---------------------------------------------------------------------------------------------------


def test_rows_become_canonical_float64_csr():
    out = check_rows([[0, 1], [2, 0]])
    assert isinstance(out, sp.csr_array)
    assert out.dtype == np.float64
    assert out.has_canonical_format


@pytest.mark.parametrize("kind", [bool, np.int8, np.uint64, np.float16, np.float32, np.longdouble])
def test_integers_booleans_and_other_floats_are_numbers(kind):
    X = np.array([[0, 1], [1, 0]], dtype=kind)
    np.testing.assert_array_equal(check_rows(X).toarray(), [[0.0, 1.0], [1.0, 0.0]])
    if kind not in (np.float16, np.longdouble):  # scipy's sparse arrays do not hold these
        np.testing.assert_array_equal(check_rows(sp.csr_array(X)).toarray(), [[0.0, 1.0], [1.0, 0.0]])


def test_object_arrays_of_numbers_are_numbers():
    np.testing.assert_array_equal(check_rows(np.array([[1, 2.5]], dtype=object)).toarray(), [[1.0, 2.5]])


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "lil", "dok", "bsr", "dia"])
def test_any_sparse_format_is_read(form):
    X = sp.csr_array([[0.0, 1.0, 0.0], [2.0, 0.0, 3.0]])
    np.testing.assert_array_equal(check_rows(X.asformat(form)).toarray(), X.toarray())


def test_duplicates_are_summed_unsorted_sorted_and_zeros_dropped_on_a_copy():
    data, indices, indptr = np.array([1.0, 2.0, 3.0, 0.0]), np.array([2, 0, 2, 1]), np.array([0, 4])
    X = sp.csr_array((data, indices, indptr), shape=(1, 3))
    out = check_rows(X)
    assert out.indices.tolist() == [0, 2]
    assert out.data.tolist() == [2.0, 4.0]
    assert data.tolist() == [1.0, 2.0, 3.0, 0.0]
    assert indices.tolist() == [2, 0, 2, 1]
    assert X.nnz == 4


def test_a_canonical_matrix_is_copied_too():
    X = sp.csr_array([[1.0, 2.0]])
    out = check_rows(X)
    out.data[:] = 0.0
    assert X.data.tolist() == [1.0, 2.0]


def test_entries_that_cancel_are_no_entries():
    X = sp.csr_array((np.array([1.0, -1.0]), np.array([0, 0]), np.array([0, 2])), shape=(1, 2))
    assert canonical_csr(X).nnz == 0
    assert check_rows(X, nonnegative=True).nnz == 0


def test_rows_without_nonzeros_are_legal():
    assert check_rows(sp.csr_array((3, 2))).shape == (3, 2)
    assert check_rows(np.zeros((3, 2)), nonnegative=True).nnz == 0


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("container", [np.asarray, sp.csr_array, sp.csc_array])
def test_nan_and_infinity_are_named_with_their_rows(bad, container):
    X = np.zeros((6, 3))
    X[2, 1] = X[5, 0] = bad
    with pytest.raises(
        ValueError, match=r"^X holds NaN or infinity in rows 2, 5: remove or replace these values first.$"
    ):
        check_rows(container(X))


def test_at_most_three_rows_are_named():
    with pytest.raises(ValueError, match=r"in rows 0, 1, 2 and 1,997 more: remove"):
        check_rows(np.full((2000, 1), np.nan))


def test_negative_entries_are_named_with_their_rows_and_the_smallest():
    X = [[1.0, 0.0], [-0.25, 1.0], [0.0, -3.0]]
    with pytest.raises(
        ValueError, match=r"X holds negative values in rows 1, 2 \(smallest -3\) but must be nonnegative"
    ):
        check_rows(X, nonnegative=True)
    assert check_rows(X).shape == (3, 2)


def test_the_name_of_the_argument_is_in_the_error():
    with pytest.raises(ValueError, match=r"^X_valid holds NaN"):
        check_rows([[np.nan]], name="X_valid")


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
def test_an_empty_matrix_is_refused_with_its_shape(shape):
    for X in (np.zeros(shape), sp.csr_array(shape)):
        with pytest.raises(ValueError, match=rf"X is empty .*shape=\({shape[0]}, {shape[1]}\).*pass at least one row"):
            check_rows(X)


def test_no_rows_are_legal_where_the_caller_says_so():
    assert check_rows(np.zeros((0, 3)), min_rows=0).shape == (0, 3)


def test_another_number_of_columns_is_refused():
    with pytest.raises(
        ValueError, match="X has 2 columns but 3 were expected: pass rows with the same columns as in fit"
    ):
        check_rows([[1.0, 2.0]], n_features=3)


@pytest.mark.parametrize("ndim", [0, 1, 3])
def test_only_two_dimensions_make_a_matrix(ndim):
    message = rf"X must be two-dimensional \(samples in rows\), got {ndim} dimension\(s\): .*use X.reshape\(1, -1\)"
    with pytest.raises(ValueError, match=message):
        check_rows(np.ones((1,) * ndim))


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        (None, TypeError, "X must be a matrix of numbers, got None"),
        ("x.npz", TypeError, "got the text 'x.npz': read a file with read_matrix first"),
        (b"x", TypeError, "got the text b'x'"),
        ({"a": 1}, TypeError, "X must be a matrix of numbers, got dict"),
        ([[1.0], [1.0, 2.0]], TypeError, "X must be a matrix of numbers, got list"),
        (np.array([["a"]]), ValueError, r"X must hold real numbers, got dtype <U1: convert it first \(one-hot"),
        (np.array([["2020-01-01"]], dtype="M8[D]"), ValueError, "X must hold real numbers, got dtype datetime64"),
        (np.array([[1j]]), ValueError, "X must hold real numbers, got complex numbers: Complex data not supported"),
        (sp.csr_array([[1j]]), ValueError, "X holds complex numbers: Complex data not supported"),
    ],
)
def test_what_is_no_matrix_of_numbers_is_named(X, error, message):
    with pytest.raises(error, match=message):
        check_rows(X)
    with pytest.raises(error, match=message):
        as_numbers(X, "X")


@given(
    hnp.arrays(
        np.float64, hnp.array_shapes(min_dims=2, max_dims=2, max_side=5), elements=st.sampled_from([0.0, 1.0, -2.5])
    )
)
def test_checking_keeps_every_value(X):
    np.testing.assert_array_equal(check_rows(X).toarray(), X)
    np.testing.assert_array_equal(check_rows(sp.coo_array(X)).toarray(), X)


# ---- measurement matrices -----------------------------------------------------------------------------------


def test_a_measurement_matrix_is_a_contiguous_float64_copy():
    A = np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3))
    out = check_measurement_matrix(A)
    assert out.dtype == np.float64
    assert out.flags.c_contiguous
    out[0, 0] = 9.0
    assert A[0, 0] == 0.0
    np.testing.assert_array_equal(check_measurement_matrix(sp.csr_array([[0.0, 2.0]])), [[0.0, 2.0]])


@pytest.mark.parametrize(
    ("A", "message"),
    [
        (np.ones((3, 2)), "A has 3 rows and 2 columns: .*at most as many rows as columns; pass components_, not its"),
        (np.zeros((0, 3)), r"A is empty \(shape \(0, 3\)\): pass a matrix with rows and columns"),
        (np.ones(3), r"A must be two-dimensional"),
        ([[1.0, np.nan]], "A holds NaN or infinity in row 0: fit the encoder again, or read the matrix from an undam"),
        ([["a", "b"]], "A must hold real numbers"),
    ],
)
def test_a_matrix_that_cannot_measure_is_refused(A, message):
    with pytest.raises(ValueError, match=message):
        check_measurement_matrix(A)


def test_a_square_matrix_is_the_limit():
    assert check_measurement_matrix(np.eye(3)).shape == (3, 3)


# ---- measurements -------------------------------------------------------------------------------------------


def test_measurements_are_contiguous_float64_and_may_hold_nan():
    out = check_measurements([[1, 2], [3, 4]], 2)
    assert out.dtype == np.float64
    assert np.isnan(check_measurements([[np.nan, 1.0]], 2)[0, 0])
    assert check_measurements(np.zeros((0, 2)), 2).shape == (0, 2)


def test_measurements_of_another_width_are_refused():
    with pytest.raises(
        ValueError, match=r"^Y has 40 columns but A has 50 rows: encode with the encoder that supplied A.$"
    ):
        check_measurements(np.zeros((1, 40)), 50)


def test_rows_of_measurements_that_are_no_numbers_are_named():
    with pytest.raises(
        ValueError, match="Y holds NaN or infinity in row 1: mend the measurements, or pass on_invalid="
    ):
        check_finite_rows(np.array([[0.0], [np.inf]]))
    check_finite_rows(np.zeros((0, 2)))


# ---- single values ------------------------------------------------------------------------------------------


def test_the_number_of_measurements_is_at_most_the_number_of_columns():
    assert check_n_components(3, 3) == 3
    message = r"^n_components=4 exceeds the number of columns \(n_features=3\): ask for at most 3 measurements.$"
    with pytest.raises(ValueError, match=message):
        check_n_components(4, 3)


@pytest.mark.parametrize("value", [True, np.True_, 1.0, "1", None, [1]])
def test_a_count_is_a_whole_number(value):
    with pytest.raises(TypeError, match=r"k must be a whole number, got .* \(\w+\)\."):
        check_count(value, "k")


def test_a_count_has_a_smallest_value():
    assert check_count(np.int32(1), "k") == 1
    assert type(check_count(np.int32(1), "k")) is int
    assert check_count(0, "k", minimum=0) == 0
    with pytest.raises(ValueError, match=r"^k must be at least 1, got 0.$"):
        check_count(0, "k")


@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf])
def test_a_positive_number_is_finite_and_above_zero(value):
    with pytest.raises(ValueError, match="rate must be a finite number above 0, got"):
        check_positive_float(value, "rate")


def test_zero_is_allowed_where_the_caller_says_so():
    assert check_positive_float(0, "rate", allow_zero=True) == 0.0
    with pytest.raises(ValueError, match="rate must be a finite number of at least 0, got -1"):
        check_positive_float(-1, "rate", allow_zero=True)


@pytest.mark.parametrize("value", [True, "1", None])
def test_a_number_is_a_number(value):
    with pytest.raises(TypeError, match="rate must be a number, got"):
        check_positive_float(value, "rate")


def test_a_choice_is_one_of_the_choices():
    assert check_choice("a", "method", ("a", "b")) == "a"
    assert check_choice(True, "positive", (True, False)) is True
    with pytest.raises(ValueError, match=r"^method must be one of 'a', 'b'; got 'c'.$"):
        check_choice("c", "method", ("a", "b"))
    with pytest.raises(ValueError, match="positive must be one of True, False; got 1"):
        check_choice(1, "positive", (True, False))


# ---- unit rows ----------------------------------------------------------------------------------------------


def test_unit_rows_have_norm_one_and_empty_rows_stay():
    X = sp.csr_array([[3.0, 4.0], [0.0, 0.0], [0.0, -2.0]])
    out = unit_rows(X)
    np.testing.assert_allclose(out.toarray(), [[0.6, 0.8], [0.0, 0.0], [0.0, -1.0]])
    assert X.data.tolist() == [3.0, 4.0, -2.0]


@pytest.mark.parametrize("power", [-1000, -600, 600, 1000])
def test_unit_rows_and_norms_do_not_depend_on_the_size_of_a_row(power):
    X = sp.csr_array(np.vstack([np.random.default_rng(0).random((5, 4)), np.zeros(4)]))
    far = sp.csr_array((np.ldexp(X.data, power), X.indices, X.indptr), shape=X.shape)
    np.testing.assert_array_equal(unit_rows(far).toarray(), unit_rows(X).toarray())
    np.testing.assert_array_equal(row_norms(far), np.ldexp(row_norms(X), power))
    np.testing.assert_allclose(row_norms(X), np.linalg.norm(X.toarray(), axis=1), rtol=1e-15)


def test_good_csr_rows_are_handed_through_to_a_product_and_bad_ones_are_not():
    good = sp.csr_array((np.array([1.0, 2.0]), np.array([0, 1]), np.array([0, 1, 2])), shape=(2, 2))
    assert np.shares_memory(check_rows(good, canonical=False).data, good.data)
    rows = sp.csr_array((np.array([1.0, 2.0, 0.0]), np.array([1, 1, 0]), np.array([0, 2, 3])), shape=(2, 2))
    assert check_rows(rows, canonical=False).nnz == 1  # duplicates are summed
    assert check_rows(rows).nnz == 1
    huge = sp.csr_array(np.full((1, 3), 1e308))  # its sum is infinite, its entries are not
    np.testing.assert_array_equal(check_rows(huge, canonical=False).toarray(), huge.toarray())
    rows.data[1] = -0.5  # a negative duplicate whose sum is positive
    assert check_rows(rows, canonical=False, nonnegative=True).data.tolist() == [0.5]
    rows.data[1] = np.nan
    with pytest.raises(ValueError, match="X holds NaN or infinity in row 0"):
        check_rows(rows, canonical=False)
    with pytest.raises(ValueError, match="X holds NaN or infinity in row 40"):
        check_rows(rows, first_row=40)
