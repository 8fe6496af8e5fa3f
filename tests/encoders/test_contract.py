"""What every encoder must do, whatever it learns. A new encoder joins helpers.ENCODERS and inherits all of this."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler

import sparselens as sl
from helpers import ENCODERS, EncoderCase, sparse_rows

D_COLUMNS, M_ROWS = 12, 6


@pytest.fixture(params=ENCODERS, scope="module")
def case(request) -> EncoderCase:
    return ENCODERS[request.param]


@pytest.fixture(scope="module")
def X() -> sp.csr_array:
    return sparse_rows(40, D_COLUMNS, 3, seed=1)


@pytest.fixture(scope="module")
def fitted(case, X):
    """One fitted encoder a case for the tests that only read it."""
    return case.make(M_ROWS, 0).fit(X)


def needs_matrix(case) -> None:
    if not case.linear:
        pytest.skip("a nonlinear encoder has no measurement matrix")


# ---- what comes out -----------------------------------------------------------------------------------------


def test_fit_returns_the_encoder_and_records_what_it_saw(case, X):
    enc = case.make(M_ROWS, 0)
    assert enc.fit(X) is enc
    assert enc.n_features_in_ == D_COLUMNS
    assert enc.positive_ is True
    assert enc.training_data_["n_rows"] == 40


def test_transform_gives_a_float64_row_of_m_measurements_for_each_row(fitted, X):
    Y = fitted.transform(X)
    assert Y.shape == (40, M_ROWS)
    assert Y.dtype == np.float64
    assert Y.flags.c_contiguous
    assert np.isfinite(Y).all()


def test_components_are_the_finite_float64_matrix_that_transform_multiplies_by(case, fitted, X):
    needs_matrix(case)
    A = fitted.components_
    assert A.shape == (M_ROWS, D_COLUMNS)
    assert A.dtype == np.float64
    # the two products add the same numbers in another order
    np.testing.assert_allclose(fitted.transform(X), X.toarray() @ A.T, rtol=1e-12, atol=1e-13)


def test_transform_is_linear(case, fitted, X):
    needs_matrix(case)
    left, right = X[:20], X[20:]
    expected = 2.0 * fitted.transform(left) + 3.0 * fitted.transform(right)
    np.testing.assert_allclose(fitted.transform(2.0 * left + 3.0 * right), expected, rtol=1e-12, atol=1e-12)


def test_inverse_transform_gives_csr_rows_of_the_width_that_fit_saw(fitted, X):
    X_hat = fitted.inverse_transform(fitted.transform(X))
    assert sp.issparse(X_hat)
    assert X_hat.format == "csr"
    assert X_hat.shape == X.shape


def test_one_nonzero_comes_back_exactly_from_enough_measurements(case):
    if not case.exact:
        pytest.skip("this encoder's own decoder estimates, or its matrix is no good for ℓ1 at this size")
    X = sp.csr_array(np.eye(D_COLUMNS))
    enc = case.make(10, 0).fit(X)
    np.testing.assert_allclose(enc.inverse_transform(enc.transform(X)).toarray(), X.toarray(), atol=1e-10)


def test_decoder_is_bound_to_the_fitted_matrix(case, fitted, X):
    needs_matrix(case)
    np.testing.assert_array_equal(fitted.decoder().A_, fitted.components_)
    assert len(fitted.decoder().decode(fitted.transform(X[:3]))) == 3


# ---- the same rows in another container ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "container",
    [np.asarray, sp.csr_matrix, sp.csc_array, sp.coo_array, lambda X: sp.csr_array(X).astype(np.float64)],
    ids=["dense", "csr_matrix", "csc", "coo", "csr_array"],
)
def test_rows_in_any_container_give_the_same_bits(case, fitted, X, container):
    other = container(X.toarray())
    np.testing.assert_array_equal(case.make(M_ROWS, 0).fit(other).transform(X), fitted.transform(X))
    np.testing.assert_array_equal(fitted.transform(other), fitted.transform(X))


@pytest.mark.parametrize("kind", [np.float32, np.int64, np.uint8, bool])
def test_numbers_of_every_kind_become_float64(case, kind):
    X = (sparse_rows(30, D_COLUMNS, 3, seed=2).toarray() > 0).astype(kind)
    enc = case.make(M_ROWS, 0).fit(X)
    np.testing.assert_array_equal(enc.transform(X), enc.transform(X.astype(np.float64)))


def awkward_csr(X: sp.csr_array) -> sp.csr_array:
    """The same rows with unsorted columns, entries split in two, and stored zeros."""
    rows = []
    for i in range(X.shape[0]):
        columns, values = X.indices[X.indptr[i] : X.indptr[i + 1]], X.data[X.indptr[i] : X.indptr[i + 1]]
        rows.append(
            (np.concatenate([columns[::-1], columns, [0]]), np.concatenate([values[::-1] / 2, values / 2, [0]]))
        )
    indptr = np.cumsum([0] + [len(columns) for columns, _ in rows])
    data, indices = np.concatenate([v for _, v in rows]), np.concatenate([c for c, _ in rows])
    return sp.csr_array((data, indices, indptr), shape=X.shape)


def test_unsorted_and_duplicate_entries_mean_their_sum(fitted, X):
    np.testing.assert_array_equal(fitted.transform(awkward_csr(X)), fitted.transform(X))


def test_input_is_never_modified(case, X):
    for rows in (awkward_csr(X), X.copy(), X.toarray()):
        parts = [rows] if isinstance(rows, np.ndarray) else [rows.data, rows.indices, rows.indptr]
        before = [part.copy() for part in parts]
        enc = case.make(M_ROWS, 0).fit(rows, X_valid=rows)
        Y = enc.transform(rows)
        enc.inverse_transform(Y)
        for part, copy in zip(parts, before, strict=True):
            np.testing.assert_array_equal(part, copy)


# ---- awkward but legal --------------------------------------------------------------------------------------


def test_a_row_without_nonzeros_measures_like_any_other(case, fitted):
    Y = fitted.transform(sp.csr_array((2, D_COLUMNS)))
    assert Y.shape == (2, M_ROWS)
    if case.linear:
        assert not Y.any()
        assert fitted.inverse_transform(Y).nnz == 0


def test_training_rows_may_lack_nonzeros(case, X):
    padded = sp.vstack([sp.csr_array((3, D_COLUMNS)), X], format="csr")
    assert np.isfinite(case.make(M_ROWS, 0).fit(padded).transform(padded)).all()


def test_one_row_is_enough_for_one_measurement(case):
    X = sp.csr_array([[0.0, 2.0, 0.0, 1.0]])
    assert case.make(1, 0).fit(X).transform(X).shape == (1, 1)


def test_a_row_measured_alone_or_in_a_batch_agrees(case, fitted, X):
    together = fitted.transform(X)
    alone = np.vstack([fitted.transform(X[[i]]) for i in range(5)])
    if case.linear:
        np.testing.assert_array_equal(alone, together[:5])
    else:  # a dense layer may add up a batch in another order
        np.testing.assert_allclose(alone, together[:5], rtol=1e-5, atol=1e-6)


# ---- seeds --------------------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_bits(case, fitted, X):
    np.testing.assert_array_equal(case.make(M_ROWS, 0).fit(X).transform(X), fitted.transform(X))
    np.testing.assert_array_equal(case.make(M_ROWS, 0).fit(X).fit(X).transform(X), fitted.transform(X))


def test_another_seed_gives_another_encoder_where_there_is_a_seed(case, fitted, X):
    again = case.make(M_ROWS, 1).fit(X).transform(X)
    assert case.seeded == (not np.array_equal(again, fitted.transform(X)))


def test_a_random_state_object_is_used_and_moves_on(case, X):
    if not case.seeded:
        pytest.skip("nothing random in it")
    state = np.random.RandomState(5)
    first, second = case.make(M_ROWS, state).fit(X), case.make(M_ROWS, state).fit(X)
    again = case.make(M_ROWS, np.random.RandomState(5)).fit(X)
    np.testing.assert_array_equal(first.transform(X), again.transform(X))
    assert not np.array_equal(first.transform(X), second.transform(X))


def test_no_seed_gives_a_new_encoder_each_time(case, X):
    if not case.seeded:
        pytest.skip("nothing random in it")
    first, second = case.make(M_ROWS, None).fit(X), case.make(M_ROWS, None).fit(X)
    assert not np.array_equal(first.transform(X), second.transform(X))


@pytest.mark.parametrize(("seed", "error"), [("0", TypeError), (-1, ValueError), (0.5, TypeError)])
def test_a_seed_that_is_no_seed_is_refused(case, X, seed, error):
    if not case.seeded:
        pytest.skip("nothing random in it")
    with pytest.raises(error, match="random_state must be"):
        case.make(M_ROWS, seed).fit(X)


# ---- scikit-learn -------------------------------------------------------------------------------------------


def test_clone_gives_an_unfitted_copy_with_the_same_parameters(fitted):
    copy = clone(fitted)
    assert copy.get_params() == fitted.get_params()
    assert not hasattr(copy, "n_features_in_")


def test_parameters_show_in_the_repr(fitted):
    assert repr(fitted).startswith(type(fitted).__name__ + "(")
    assert "n_components=6" in repr(fitted)


def test_it_works_in_a_pipeline_there_and_back(case, X):
    pipeline = make_pipeline(MaxAbsScaler(), case.make(M_ROWS, 0))
    Y = pipeline.fit_transform(X)
    assert Y.shape == (40, M_ROWS)
    assert pipeline.inverse_transform(Y).shape == X.shape
    np.testing.assert_array_equal(pipeline.transform(X), Y)


def test_feature_names_come_from_the_class_name(fitted):
    names = fitted.get_feature_names_out()
    assert list(names) == [f"{type(fitted).__name__.lower()}{i}" for i in range(M_ROWS)]


def test_set_output_gives_a_data_frame(case, X):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X.toarray(), columns=[f"c{j}" for j in range(D_COLUMNS)])
    enc = case.make(M_ROWS, 0).set_output(transform="pandas").fit(frame)
    Y = enc.transform(frame)
    assert isinstance(Y, pandas.DataFrame)
    assert list(Y.columns) == list(enc.get_feature_names_out())
    assert list(enc.feature_names_in_) == list(frame.columns)
    assert enc.inverse_transform(Y).shape == X.shape
    with pytest.raises(ValueError, match="feature names should match"):
        enc.transform(frame.rename(columns={"c0": "other"}))


# ---- what is refused ----------------------------------------------------------------------------------------


def test_an_unfitted_encoder_says_so(case, X):
    enc = case.make(M_ROWS, 0)
    for act in (lambda: enc.transform(X), lambda: enc.inverse_transform(np.zeros((1, M_ROWS))), enc.decoder):
        with pytest.raises(NotFittedError, match="is not fitted yet"):
            act()


def test_a_fit_that_fails_leaves_an_unfitted_encoder(case, X, tmp_path):
    enc = case.make(M_ROWS, 0).fit(X)
    enc.set_params(n_components=13)
    with pytest.raises(ValueError, match="n_components=13 exceeds"):
        enc.fit(X)
    with pytest.raises(NotFittedError, match="is not fitted yet"):
        enc.transform(X)
    with pytest.raises(ValueError, match="is not fitted yet: call fit before save"):
        enc.save(tmp_path / "model")


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_no_number_is_refused_with_its_row(case, fitted, X, bad):
    damaged = X.copy()
    damaged.data[damaged.indptr[7]] = bad
    for rows in (damaged, damaged.toarray()):
        with pytest.raises(ValueError, match="X holds NaN or infinity in row 7: remove or replace"):
            case.make(M_ROWS, 0).fit(rows)
        with pytest.raises(ValueError, match="X holds NaN or infinity in row 7"):
            fitted.transform(rows)
    with pytest.raises(ValueError, match="X_valid holds NaN or infinity in row 7"):
        case.make(M_ROWS, 0).fit(X, X_valid=damaged)


def test_negative_entries_are_refused_or_remembered(case, X):
    signed = X.copy()
    signed.data[signed.indptr[4]] = -1.0
    if case.nonnegative:
        with pytest.raises(ValueError, match=r"X holds negative values in row 4 \(smallest -1\)"):
            case.make(M_ROWS, 0).fit(signed)
    else:
        assert case.make(M_ROWS, 0).fit(signed).positive_ is False


@pytest.mark.parametrize(
    ("shape", "message"), [((0, D_COLUMNS), "0 sample"), ((3, 0), r"0 feature\(s\)")], ids=["no rows", "no columns"]
)
def test_an_empty_matrix_is_refused(case, shape, message):
    for rows in (np.zeros(shape), sp.csr_array(shape)):
        with pytest.raises(ValueError, match=message):
            case.make(M_ROWS, 0).fit(rows)


def test_a_callback_that_cannot_be_called_is_refused_before_the_work(case, X):
    with pytest.raises(TypeError, match="callback must be a function"):
        case.make(M_ROWS, 0).fit(X, callback=True)


def test_a_single_vector_is_refused_because_it_could_be_a_row_or_a_column(case, fitted):
    for act in (case.make(M_ROWS, 0).fit, fitted.transform):
        with pytest.raises(ValueError, match="Reshape your data"):
            act(np.ones(D_COLUMNS))


def test_other_columns_than_in_fit_are_refused(case, fitted, X):
    with pytest.raises(ValueError, match=r"X has 11 features, but .* is expecting 12 features"):
        fitted.transform(X[:, :11])
    with pytest.raises(ValueError, match="X_valid has 11 columns but 12 were expected"):
        case.make(M_ROWS, 0).fit(X, X_valid=X[:, :11])


def test_more_measurements_than_columns_are_refused(case, X):
    with pytest.raises(ValueError, match=r"n_components=13 exceeds the number of columns \(n_features=12\)"):
        case.make(13, 0).fit(X)


@pytest.mark.parametrize(
    ("n_components", "error", "message"),
    [
        (0, ValueError, "n_components must be at least 1, got 0"),
        (-3, ValueError, "n_components must be at least 1, got -3"),
        (2.0, TypeError, r"n_components must be a whole number, got 2.0 \(float\)"),
        (True, TypeError, "n_components must be a whole number, got True"),
        ("4", TypeError, "n_components must be a whole number, got '4'"),
        (None, TypeError, "n_components must be a whole number, got None"),
    ],
)
def test_a_number_of_measurements_that_is_no_count_is_refused(case, X, n_components, error, message):
    with pytest.raises(error, match=message):
        case.make(n_components, 0).fit(X)


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        (None, TypeError, "X must be a matrix of numbers, got None"),
        ("rows.npz", TypeError, "X must be a matrix of numbers, got the text 'rows.npz': read a file with read_matrix"),
        ({"a": 1}, TypeError, "X must be a matrix of numbers, got dict"),
        ([[1, 2], [3]], TypeError, "X must be a matrix of numbers, got list"),
        ([["a", "b"]], ValueError, r"X must hold real numbers, got dtype <U1: convert it first \(one-hot encode"),
        ([[1 + 2j]], ValueError, "X must hold real numbers, got complex numbers"),
        (sp.csr_array([[1 + 2j]]), ValueError, "X holds complex numbers"),
    ],
    ids=["none", "text", "dict", "ragged", "strings", "complex", "sparse complex"],
)
def test_what_is_no_matrix_of_numbers_is_refused(case, rows, error, message):
    with pytest.raises(error, match=message):
        case.make(1, 0).fit(rows)


def test_measurements_of_another_width_are_refused(fitted):
    with pytest.raises(ValueError, match="Y has 5 columns but A has 6 rows: encode with the encoder that supplied A"):
        fitted.inverse_transform(np.zeros((1, 5)))


def test_measurements_with_a_nan_are_refused_with_their_row(fitted):
    Y = np.zeros((4, M_ROWS))
    Y[2, 1] = np.nan
    with pytest.raises(ValueError, match="Y holds NaN or infinity in row 2"):
        fitted.inverse_transform(Y)


# ---- on disk ------------------------------------------------------------------------------------------------


def test_a_saved_encoder_comes_back_bit_for_bit(case, fitted, X, tmp_path):
    again = sl.load(fitted.save(tmp_path / "model"))
    assert type(again) is type(fitted)
    assert again.get_params() == fitted.get_params()
    np.testing.assert_array_equal(again.transform(X), fitted.transform(X))
    assert again.n_features_in_ == fitted.n_features_in_
    assert again.training_data_ == fitted.training_data_
    assert again.positive_ == fitted.positive_
    if case.linear:
        np.testing.assert_array_equal(again.components_, fitted.components_)
    Y = fitted.transform(X[:4])
    assert (again.inverse_transform(Y) != fitted.inverse_transform(Y)).nnz == 0
    assert clone(again).fit(X).transform(X).shape == (40, M_ROWS)


def test_an_unfitted_encoder_is_not_saved(case, tmp_path):
    with pytest.raises(ValueError, match="is not fitted yet: call fit before save"):
        case.make(M_ROWS, 0).save(tmp_path / "model")
    assert not (tmp_path / "model").exists()
