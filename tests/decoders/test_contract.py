"""What every decoder must do, whatever it solves. A new decoder joins helpers.DECODERS and inherits all of this."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from helpers import DECODERS, ESTIMATING_DECODERS, EXACT_DECODERS, D, K, M, gaussian, sparse_rows
from sparselens.decoders.base import BaseDecoder
from sparselens.recovery import NotBoundError, Recovery, Status

N = 12
A = gaussian(M, D, seed=0)
X = sparse_rows(N, D, K, seed=1)
Y = X @ A.T


@pytest.fixture(params=DECODERS)
def decoder(request):
    return DECODERS[request.param]()


@pytest.fixture
def bound(decoder):
    return decoder.bind(A)


def close(left: Recovery, right: Recovery) -> None:
    """The same rows with the same verdicts; 1e-9 leaves room for sums in another order."""
    np.testing.assert_allclose(left.x.toarray(), right.x.toarray(), atol=1e-9)
    np.testing.assert_array_equal(left.status, right.status)
    np.testing.assert_allclose(left.residual, right.residual, atol=1e-9)


# ---- bind ---------------------------------------------------------------------------------------------------


def test_bind_returns_a_new_decoder_and_leaves_this_one_as_it_was(decoder):
    before = set(vars(decoder))
    bound = decoder.bind(A)
    assert bound is not decoder
    assert type(bound) is type(decoder)
    assert set(vars(decoder)) == before
    assert not hasattr(decoder, "A_")


def test_a_bound_decoder_can_be_bound_to_another_matrix(decoder, bound):
    other = gaussian(M - 2, D, seed=3)
    bound.decode(Y)  # fills whatever it keeps for A
    again = bound.bind(other)
    close(again.decode(X @ other.T), decoder.bind(other).decode(X @ other.T))
    close(bound.decode(Y), decoder.bind(A).decode(Y))


def test_the_matrix_is_copied_and_cannot_be_changed_through_the_decoder(decoder):
    mine = A.copy()
    bound = decoder.bind(mine)
    before = bound.decode(Y)
    mine[:] = 0.0
    close(bound.decode(Y), before)
    with pytest.raises(ValueError, match="read-only"):
        bound.A_[0, 0] = 1.0


def test_an_unbound_decoder_says_what_to_call(decoder):
    name = type(decoder).__name__
    with pytest.raises(NotBoundError, match=rf"this {name} has no measurement matrix yet: call decoder.bind\(A\)"):
        decoder.decode(Y)


@pytest.mark.parametrize(
    ("matrix", "error", "message"),
    [
        (A.T, ValueError, f"A has {D} rows and {M} columns: .*pass components_, not its transpose"),
        (np.zeros((0, 4)), ValueError, r"A is empty \(shape \(0, 4\)\)"),
        (np.zeros((0, 0)), ValueError, r"A is empty \(shape \(0, 0\)\)"),
        (np.ones(4), ValueError, r"A must be two-dimensional .*got 1 dimension"),
        (np.where(A == A[2, 5], np.nan, A), ValueError, "A holds NaN or infinity in row 2: fit the encoder again"),
        (None, TypeError, "A must be a matrix of numbers, got None"),
        ("A", TypeError, "A must be a matrix of numbers, got the text 'A'"),
    ],
    ids=["transpose", "no rows", "empty", "vector", "nan", "none", "text"],
)
def test_a_matrix_that_cannot_be_measured_with_is_refused(decoder, matrix, error, message):
    with pytest.raises(error, match=message):
        decoder.bind(matrix)


def test_the_matrix_may_be_sparse_or_float32_or_a_list(decoder):
    rough = A.astype(np.float32)
    expected = decoder.bind(rough.astype(np.float64)).decode(Y)
    for matrix in (rough, sp.csr_array(rough.astype(np.float64)), rough.tolist()):
        close(decoder.bind(matrix).decode(Y), expected)


# ---- decode -------------------------------------------------------------------------------------------------


def test_a_recovery_has_an_entry_for_each_row(bound):
    rec = bound.decode(Y)
    assert isinstance(rec, Recovery)
    assert rec.x.shape == (N, D)
    assert rec.x.format == "csr"
    assert rec.x.dtype == np.float64
    assert rec.x.has_canonical_format
    for part in (rec.status, rec.residual, rec.gap, rec.n_steps):
        assert part.shape == (N,)
    assert rec.status.dtype == np.uint8
    assert rec.n_steps.dtype.kind == "i"


def test_the_reported_residual_is_the_true_one(bound):
    rec = bound.decode(Y)
    truth = np.linalg.norm(rec.x @ A.T - Y, axis=1) / np.linalg.norm(Y, axis=1)
    np.testing.assert_allclose(rec.residual, truth, atol=1e-12)


def test_zero_measurements_give_zero(bound):
    rec = bound.decode(np.zeros((3, M)))
    assert rec.x.shape == (3, D)
    assert rec.x.count_nonzero() == 0
    assert (rec.residual == 0).all()


def test_a_zero_row_between_others_gives_zero_and_changes_nothing(bound):
    mixed = np.insert(Y, 2, 0.0, axis=0)
    rec = bound.decode(mixed)
    assert rec.x[[2]].count_nonzero() == 0
    close(rec[np.delete(np.arange(N + 1), 2)], bound.decode(Y))


def test_a_row_decoded_alone_or_in_a_batch_agrees(bound):
    together = bound.decode(Y)
    for i in range(N):
        close(bound.decode(Y[[i]]), together[i])


def test_the_order_of_the_rows_does_not_matter(bound):
    order = np.random.default_rng(0).permutation(N)
    close(bound.decode(Y[order]), bound.decode(Y)[order])


@pytest.mark.parametrize("name", EXACT_DECODERS)  # a trained network has no reason to
def test_scaling_the_measurements_scales_the_answer(name):
    bound = EXACT_DECODERS[name]().bind(A)
    for scale in (1e-9, 1e9):
        rec = bound.decode(scale * Y)
        np.testing.assert_allclose(rec.x.toarray() / scale, bound.decode(Y).x.toarray(), atol=1e-8)


@pytest.mark.parametrize(
    "container",
    [sp.csr_array, sp.csc_matrix, np.asfortranarray, lambda Y: Y.tolist(), lambda Y: Y[:, ::-1][:, ::-1]],
    ids=["csr", "csc", "fortran", "list", "view"],
)
def test_measurements_may_come_in_any_container(bound, container):
    close(bound.decode(container(Y)), bound.decode(Y))


def test_float32_measurements_are_decoded_in_float64(bound):
    rough = Y.astype(np.float32)
    rec = bound.decode(rough)
    assert rec.x.dtype == np.float64
    close(rec, bound.decode(rough.astype(np.float64)))


def test_measurements_are_not_modified(bound):
    before = Y.copy()
    bound.decode(Y)
    np.testing.assert_array_equal(Y, before)
    read_only = Y.copy()
    read_only.flags.writeable = False
    bound.decode(read_only)


def test_an_empty_batch_gives_an_empty_recovery(bound):
    rec = bound.decode(np.zeros((0, M)))
    assert len(rec) == 0
    assert rec.x.shape == (0, D)
    assert rec.summary() == "0 rows: 0 certified (0 unique)."


def test_decoding_twice_gives_the_same_bits(bound):
    first, second = bound.decode(Y), bound.decode(Y)
    np.testing.assert_array_equal(first.x.toarray(), second.x.toarray())
    np.testing.assert_array_equal(first.status, second.status)


@pytest.mark.parametrize("width", [M - 1, M + 1, D])
def test_measurements_of_another_width_are_refused(bound, width):
    with pytest.raises(ValueError, match=f"Y has {width} columns but A has {M} rows: encode with the encoder"):
        bound.decode(np.zeros((2, width)))


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        (np.zeros(M), ValueError, r"Y must be two-dimensional .*for one sample use Y.reshape\(1, -1\)"),
        (None, TypeError, "Y must be a matrix of numbers, got None"),
        ("y.npz", TypeError, "Y must be a matrix of numbers, got the text 'y.npz'"),
        (np.full((1, M), 1j), ValueError, "Y must hold real numbers, got complex numbers"),
        (np.full((1, M), "a"), ValueError, "Y must hold real numbers, got dtype <U1"),
    ],
    ids=["vector", "none", "text", "complex", "strings"],
)
def test_what_is_no_matrix_of_measurements_is_refused(bound, rows, error, message):
    with pytest.raises(error, match=message):
        bound.decode(rows)


# ---- rows that hold no numbers ------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_nan_or_an_infinity_is_refused_with_its_row_before_anything_is_solved(bound, bad):
    damaged = Y.copy()
    damaged[4, 2] = bad
    calls: list[tuple[int, int]] = []
    with pytest.raises(ValueError, match="Y holds NaN or infinity in row 4: mend the measurements, or pass on_invalid"):
        bound.decode(damaged, callback=lambda *call: calls.append(call))
    assert calls == []


def test_many_bad_rows_are_counted(bound):
    with pytest.raises(ValueError, match="in rows 0, 1, 2 and 9 more"):
        bound.decode(np.full((N, M), np.nan))


def test_on_invalid_status_marks_bad_rows_and_decodes_the_others(bound):
    damaged = Y.copy()
    damaged[[0, 4], [1, 2]] = np.nan, np.inf
    rec = bound.decode(damaged, on_invalid="status")
    assert rec.status[0] == rec.status[4] == Status.INVALID
    assert rec.x[[0, 4]].nnz == 0
    others = np.delete(np.arange(N), [0, 4])
    close(rec[others], bound.decode(Y)[others])
    assert (rec.counts()[Status.INVALID]) == 2


def test_a_batch_of_nothing_but_bad_rows_gets_its_statuses(bound):
    rec = bound.decode(np.full((3, M), np.nan), on_invalid="status")
    assert (rec.status == Status.INVALID).all()


def test_an_unknown_on_invalid_is_refused(bound):
    with pytest.raises(ValueError, match="on_invalid must be one of 'raise', 'status'; got 'drop'"):
        bound.decode(Y, on_invalid="drop")


# ---- progress, duals, streams -------------------------------------------------------------------------------


def test_the_callback_hears_of_progress_up_to_the_last_row(bound):
    calls: list[tuple[int, int]] = []
    bound._block_size = lambda: 5  # several blocks, and a partial one
    rec = bound.decode(Y, callback=lambda done, total: calls.append((done, total)))
    done = [call[0] for call in calls]
    assert done == sorted(set(done))
    assert calls[-1] == (N, N)
    assert {call[1] for call in calls} == {N}
    del bound._block_size
    close(rec, bound.decode(Y))


def test_without_duals_everything_else_is_the_same(bound):
    rec = bound.decode(Y, keep_dual=False)
    assert rec.dual is None
    close(rec, bound.decode(Y))


def test_a_stream_of_batches_is_decoded_one_by_one(bound):
    taken = []

    def batches():
        for start in (0, 5, 10):
            taken.append(start)
            yield Y[start : start + 5]

    stream = bound.decode_batches(batches(), keep_dual=False)
    first = next(stream)
    assert taken == [0]  # the next batch is not read before it is asked for
    close(Recovery.concatenate([first, *stream]), bound.decode(Y))


# ---- an estimator with parameters only ----------------------------------------------------------------------


def test_parameters_can_be_read_cloned_and_shown(decoder, bound):
    assert isinstance(decoder, BaseDecoder)
    copy = clone(bound)
    assert repr(copy) == repr(decoder)
    assert copy.get_params().keys() == decoder.get_params().keys()
    assert not hasattr(copy, "A_")
    assert repr(decoder).startswith(type(decoder).__name__ + "(")


# ---- what the two kinds claim -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", EXACT_DECODERS)
def test_an_exact_decoder_proves_and_recovers_these_rows(name):
    rec = EXACT_DECODERS[name]().bind(A).decode(Y)
    assert rec.unique.all(), rec.summary()
    np.testing.assert_allclose(rec.x.toarray(), X.toarray(), atol=1e-10)
    assert rec.dual is not None
    assert rec.dual.shape == (N, M)
    assert np.abs(rec.gap).max() <= 1e-9


@pytest.mark.parametrize("name", ESTIMATING_DECODERS)
def test_an_estimating_decoder_claims_no_proof(name):
    rec = ESTIMATING_DECODERS[name]().bind(A).decode(Y)
    assert (rec.status == Status.ESTIMATE).all()
    assert np.isnan(rec.gap).all()
    assert not rec.certified.any()


def test_no_decoder_is_in_both_lists():
    assert EXACT_DECODERS.keys().isdisjoint(ESTIMATING_DECODERS)
