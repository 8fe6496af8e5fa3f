"""L1Decoder: every engine against an independent solver, the answers' invariances, and exact arithmetic."""

from __future__ import annotations

import itertools
import warnings
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import sparselens as sl
from awkward import KINDS
from helpers import gaussian, principal_directions, real_data, sparse_rows
from sparselens.certificate import Verifier, verify
from sparselens.decoders import _engine, _highs, _path_lazy, _path_problem, l1
from sparselens.decoders._engine import Candidates
from sparselens.decoders._highs import HighsEngine
from sparselens.decoders._path_lazy import LazyPathEngine
from sparselens.decoders._path_row import WIDTH
from sparselens.decoders._path_small import SmallPathEngine
from sparselens.decoders._simplex import DualSimplexEngine
from sparselens.decoders.l1 import L1Decoder
from sparselens.recovery import ConditionWarning, Status

ENGINES = {"small": SmallPathEngine, "lazy": LazyPathEngine}  # the torch engine has the same tests in its own file
SEEDS = range(3)  # 36 kinds x 3 seeds x 12 rows: about 1,300 linear programs for each engine


@cache
def highs(kind: str, seed: int):
    """What HiGHS proves of each row of a problem: optimal, infeasible, and the optimal value."""
    A, Y, positive = KINDS[kind](seed)
    return _judged(A, Y, positive, HighsEngine(A, positive=positive).solve(Y))


def _judged(A, Y, positive, found):
    verifier = Verifier(A, positive=positive)
    proof = verifier.optimal(Y, found.x, found.dual)
    infeasible = found.infeasible & ~proof.optimal & verifier.infeasible(Y, found.dual)
    return proof.optimal, infeasible, np.asarray(abs(found.x).sum(axis=1)).ravel()


# Here a path alone may miss a row, and the front hands it to the next solver: the other tests cover them.
HARD = ("condition 1e6", "column scales 1e-4 to 1e2", "column scales signed")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in HARD])
def test_whatever_highs_proves_a_path_alone_proves_too_and_they_agree(engine, kind):
    for seed in SEEDS:
        A, Y, positive = KINDS[kind](seed)
        _compare(kind, seed, *_judged(A, Y, positive, ENGINES[engine](A, positive=positive).solve(Y)))


@pytest.mark.parametrize("kind", KINDS)
def test_whatever_highs_proves_the_dual_simplex_method_proves_too_and_they_agree(kind):
    for seed in SEEDS:
        A, Y, positive = KINDS[kind](seed)
        _compare(kind, seed, *_judged(A, Y, positive, DualSimplexEngine(A, positive=positive).solve(Y)))


@pytest.mark.parametrize(("cached", "inner"), [(0, 192), (0, 16), (10**6, 192)], ids=["lazy", "nested", "small"])
@pytest.mark.parametrize("kind", KINDS)
def test_whatever_highs_proves_the_decoder_proves_too(cached, inner, kind, monkeypatch):
    monkeypatch.setattr(_engine, "_CACHED", cached)
    monkeypatch.setattr(_path_problem, "_INNER", inner)  # 16: as on a large matrix, a working set within another
    for seed in SEEDS:
        A, Y, positive = KINDS[kind](seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConditionWarning)  # one kind has a condition number of 1e6
            rec = L1Decoder(positive).bind(A).decode(Y)
        value = np.asarray(abs(rec.x).sum(axis=1)).ravel()
        _compare(kind, seed, rec.certified, rec.status == Status.INFEASIBLE, value)


def _compare(kind, seed, optimal, infeasible, value):
    optimal_highs, infeasible_highs, value_highs = highs(kind, seed)
    assert not (optimal_highs & ~optimal).any()
    assert not (infeasible_highs & ~infeasible).any()
    both = optimal & optimal_highs
    np.testing.assert_allclose(value[both], value_highs[both], rtol=1e-9)


@pytest.mark.parametrize("kind", ["gaussian", "gaussian signed", "column scales 1e-4 to 1e2", "condition 1e3"])
def test_the_forms_of_the_path_agree_where_the_answer_is_unique(kind):
    A, Y, positive = KINDS[kind](7)
    forms = [
        L1Decoder(positive, method="highs"),
        L1Decoder(positive, method="path"),
        L1Decoder(positive, device="cpu"),
    ]
    answers = [form.bind(A).decode(Y) for form in forms]
    unique = np.logical_and.reduce([rec.unique for rec in answers])
    assert unique.sum() >= 6
    for one, other in itertools.combinations(answers, 2):
        assert abs(one.x[unique] - other.x[unique]).max() <= 1e-10 * abs(one.x).max()


def test_the_lazy_path_is_used_for_large_matrices_and_agrees_with_the_small_one(monkeypatch):
    A = gaussian(30, 400, 0)
    Y = sparse_rows(50, 400, 6, 1) @ A.T
    small = L1Decoder().bind(A)
    monkeypatch.setattr(_engine, "_CACHED", 100)
    large = L1Decoder().bind(A)
    assert isinstance(small._engines_[0], SmallPathEngine)
    assert isinstance(large._engines_[0], LazyPathEngine)
    assert abs(small.decode(Y).x - large.decode(Y).x).max() <= 1e-10


# ---- invariances ---------------------------------------------------------------------------------------------


def problem(seed, *, signed=False, n=6, m=14, d=60, k=3):
    A = gaussian(m, d, seed)
    X = sparse_rows(n, d, k, seed + 1, signed=signed)
    return A, X, X @ A.T


seeds = st.integers(0, 2**20)


@given(seeds, st.booleans())
@settings(max_examples=25)
def test_multiplying_the_matrix_from_the_left_leaves_the_answer(seed, positive):
    A, _, Y = problem(seed, signed=not positive)
    M = np.linalg.qr(np.random.default_rng(seed).standard_normal((14, 14)))[0] * np.linspace(1.0, 5.0, 14)
    one, other = L1Decoder(positive).bind(A).decode(Y), L1Decoder(positive).bind(M @ A).decode(Y @ M.T)
    unique = one.unique & other.unique
    assert unique.sum() >= 4
    assert abs(one.x[unique] - other.x[unique]).max() <= 1e-10


@given(seeds, st.booleans())
@settings(max_examples=25)
def test_permuting_the_columns_permutes_the_answer(seed, positive):
    A, _, Y = problem(seed, signed=not positive)
    order = np.random.default_rng(seed).permutation(60)
    one, other = L1Decoder(positive).bind(A).decode(Y), L1Decoder(positive).bind(A[:, order]).decode(Y)
    unique = one.unique & other.unique
    assert unique.sum() >= 4
    assert abs(one.x[unique][:, order] - other.x[unique]).max() <= 1e-10


@given(seeds, st.sampled_from([1e-9, 1e-3, 7.0, 1e9]))
@settings(max_examples=25)
def test_scaling_the_measurements_scales_the_answer(seed, scale):
    A, _, Y = problem(seed)
    one, other = L1Decoder().bind(A).decode(Y), L1Decoder().bind(A).decode(scale * Y)
    assert (one.status == other.status).all()
    assert abs(one.x * scale - other.x).max() <= 1e-10 * scale


@given(seeds)
@settings(max_examples=15)
def test_a_row_decoded_alone_or_in_a_batch_agrees(seed):
    A, _, Y = problem(seed)
    decoder = L1Decoder().bind(A)
    together = decoder.decode(Y)
    for i in range(len(Y)):
        alone = decoder.decode(Y[i : i + 1])
        assert alone.status[0] == together.status[i]
        assert abs(alone.x - together.x[[i]]).max() <= 1e-12


def test_sparse_dense_and_float32_measurements_are_the_same_problem():
    A, _, Y = problem(0)
    Y32 = Y.astype(np.float32)
    decoder = L1Decoder().bind(A)
    assert abs(decoder.decode(sp.csr_array(Y)).x - decoder.decode(Y).x).max() == 0
    assert abs(decoder.decode(Y32).x - decoder.decode(Y32.astype(np.float64)).x).max() == 0
    assert decoder.decode(Y32).certified.all()  # another y, but an ℓ1 problem like any other


@given(seeds, st.booleans())
@settings(max_examples=20)
def test_a_certified_answer_is_no_longer_than_the_truth(seed, positive):
    A, X, Y = problem(seed, signed=not positive, k=8)
    rec = L1Decoder(positive).bind(A).decode(Y)
    assert rec.certified.all()
    assert (abs(rec.x).sum(axis=1) <= abs(X).sum(axis=1) * (1 + 1e-9)).all()


# ---- exact arithmetic ----------------------------------------------------------------------------------------


def solve_exactly(A, y):
    """The smallest sum of a nonnegative rational solution of Ax = y over all bases; None where there is none."""
    m, d = len(A), len(A[0])
    best = None
    for size in range(m + 1):
        for columns in itertools.combinations(range(d), size):
            x = _rational_solution([[A[i][j] for j in columns] for i in range(m)], y)
            if x is not None and all(value >= 0 for value in x):
                best = sum(x) if best is None else min(best, sum(x))
    return best


def _rational_solution(B, y):
    """The only solution of Bx = y in rational numbers; None where there is none, or more than one."""
    rows = [[Fraction(v) for v in row] + [Fraction(t)] for row, t in zip(B, y, strict=True)]
    k = len(B[0])
    for column in range(k):
        pivot = next((r for r in range(column, len(rows)) if rows[r][column] != 0), None)
        if pivot is None:
            return None
        rows[column], rows[pivot] = rows[pivot], rows[column]
        lead = rows[column]
        for r in range(len(rows)):
            if r != column and rows[r][column] != 0:
                factor = rows[r][column] / lead[column]
                rows[r] = [a - factor * b for a, b in zip(rows[r], lead, strict=True)]
    if any(row[k] != 0 for row in rows[k:]):
        return None
    return [rows[c][k] / rows[c][c] for c in range(k)]


def test_tiny_problems_agree_with_rational_arithmetic():
    rng = np.random.default_rng(0)
    seen = {"optimal": 0, "infeasible": 0}
    for _ in range(120):
        m = int(rng.integers(1, 4))
        A = rng.integers(-3, 4, (m, int(rng.integers(m, 7))))
        y = rng.integers(-4, 5, m)
        exact = solve_exactly(A.tolist(), y.tolist())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConditionWarning)  # integers may be dependent
            rec = L1Decoder().bind(A.astype(float)).decode(y[None].astype(float))
        if exact is None:
            assert rec.status[0] == Status.INFEASIBLE
            seen["infeasible"] += 1
        else:
            assert rec.certified[0]
            assert abs(rec.x.sum() - float(exact)) <= 1e-10
            seen["optimal"] += 1
    assert min(seen.values()) >= 20  # both kinds were really met


# ---- the front -----------------------------------------------------------------------------------------------


def test_an_infeasible_row_comes_with_its_proof_and_without_an_answer():
    A = np.abs(gaussian(10, 40, 0))
    Y = np.vstack([-np.ones(10), A[:, 0]])
    rec = L1Decoder().bind(A).decode(Y)
    assert list(rec.status) == [Status.INFEASIBLE, Status.OPTIMAL_UNIQUE]
    r = rec.dual[0]
    assert (A.T @ r).max() <= 1e-9 * np.linalg.norm(r)
    assert Y[0] @ r > 0
    assert rec.x[[0]].nnz == 0


@pytest.mark.parametrize("power", [-1000, -600, 600, 1000])
def test_measurements_whose_squares_are_no_floats_are_decoded_like_others(power):
    A, X = gaussian(12, 30, seed=0), sparse_rows(20, 30, 3, seed=1)
    decoder = L1Decoder().bind(A)
    near, far = decoder.decode(X @ A.T), decoder.decode(np.ldexp(X @ A.T, power))
    np.testing.assert_array_equal(far.status, near.status)
    np.testing.assert_array_equal(np.ldexp(far.x.toarray(), -power), near.x.toarray())


def test_zero_measurements_give_zero():
    rec = L1Decoder().bind(gaussian(5, 20, 0)).decode(np.zeros((3, 5)))
    assert rec.x.nnz == 0
    assert rec.unique.all()


def test_a_small_entry_on_a_short_column_comes_back():
    A = np.array([[1.0, 0.0, 0.3], [0.0, 1e-3, 2e-4]])
    X = np.array([[1.0, 5e-9, 0.0]])
    rec = L1Decoder().bind(A).decode(X @ A.T)
    assert rec.unique[0]
    assert np.abs(rec.x.toarray() - X).max() <= 1e-13
    rec = L1Decoder().bind(A[:, [0, 1, 1, 2]]).decode(X @ A.T)
    assert rec.status[0] == Status.OPTIMAL_NOT_UNIQUE


@pytest.mark.parametrize("apart", [1e-4, 1e-6, 1e-8, 1e-9])
def test_what_is_called_unique_is_right_to_1e_10_where_columns_are_nearly_the_same(apart):
    for seed in range(20):
        rng = np.random.default_rng(seed)
        A = rng.standard_normal((6, 14))
        A[:, 1] = A[:, 0] + apart * rng.standard_normal(6)
        X = np.zeros((1, 14))
        X[0, [0, 1, 5]] = 0.6, 0.7, 0.5
        rec = L1Decoder().bind(A).decode(X @ A.T)
        shorter = X.sum() - rec.x.sum() > 1e-9  # then the truth is no solution
        assert shorter or not rec.unique[0] or np.abs(rec.x.toarray() - X).max() <= 1e-10


def test_columns_that_are_added_after_a_refinement_see_the_row_itself(monkeypatch):
    monkeypatch.setattr(_highs, "_START", 1)
    monkeypatch.setattr(l1, "_ALL_COLUMNS", 50)
    for seed in (7, 25, 27):  # in each of them one row was lost: refinement left its enlarged problem behind
        rng = np.random.default_rng(seed)
        A = np.abs(rng.standard_normal((12, 200))) + seed % 3
        X = (rng.random((10, 200)) < (4 + seed % 5) / 200) * 10 ** rng.uniform(-9, 0, (10, 200))
        assert L1Decoder(method="highs").bind(A).decode(X @ A.T).certified.all()


@pytest.mark.parametrize("apart", [5e-13, 9e-13])
def test_columns_that_are_parallel_but_for_rounding_cost_no_proof(apart):
    # a path that does without them may end with a dual vector that exceeds 1 on one of them, and is not believed
    for seed in range(6):
        rng = np.random.default_rng(seed)
        A = rng.standard_normal((10, 30)) * 10 ** rng.uniform(-5, 0, 30)
        off = rng.standard_normal((10, 30))
        A = np.hstack([A, A + apart * off * np.linalg.norm(A, axis=0) / np.linalg.norm(off, axis=0)])
        X = (rng.random((14, 60)) < 0.06) * rng.random((14, 60))
        assert L1Decoder().bind(A).decode(X @ A.T).certified.all()


def test_equal_columns_are_not_called_unique():
    A = gaussian(8, 15, 0)
    A = np.hstack([A, A])
    rec = L1Decoder().bind(A).decode(sparse_rows(6, 30, 2, 0) @ A.T)
    assert (rec.status == Status.OPTIMAL_NOT_UNIQUE).all()


@pytest.mark.parametrize("exponent", [7, 9])
def test_an_ill_conditioned_matrix_is_warned_of(exponent):
    U, _, V = np.linalg.svd(gaussian(10, 40, 0), full_matrices=False)
    with pytest.warns(ConditionWarning, match=r"condition number of A is .*beyond 1e6"):
        L1Decoder().bind((U * 10.0 ** np.linspace(0, -exponent, 10)) @ V)


def test_a_matrix_with_dependent_rows_is_not_warned_of():
    A = gaussian(8, 40, 0)
    rec = L1Decoder().bind(np.vstack([A, A[:3]])).decode(sparse_rows(5, 40, 2, 0) @ np.vstack([A, A[:3]]).T)
    assert rec.certified.all()


def test_ten_thousand_rows_in_one_call():
    A = gaussian(12, 40, 0)
    X = sparse_rows(10_000, 40, 2, 1)
    calls = []
    rec = L1Decoder().bind(A).decode(X @ A.T, callback=lambda done, total: calls.append((done, total)))
    assert rec.certified.all()
    assert calls[-1] == (10_000, 10_000)
    exact = np.sqrt((rec.x - X).power(2).sum(axis=1)) <= 1e-10
    assert exact.mean() > 0.9


def test_processes_share_the_rows_and_keep_their_order():
    A = gaussian(15, 80, 0)
    Y = sparse_rows(60, 80, 4, 1) @ A.T
    Y[7] = np.nan
    calls = []
    one = L1Decoder().bind(A).decode(Y, on_invalid="status")
    two = L1Decoder(n_jobs=2).bind(A).decode(Y, on_invalid="status", callback=lambda *call: calls.append(call))
    assert (one.status == two.status).all()
    assert two.status[7] == Status.INVALID
    assert abs(one.x - two.x).max() <= 1e-12
    assert calls[-1] == (60, 60)
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)


def without_proof(solve):
    """The same answers, of which the first has lost its proof."""

    def careless(Y):
        candidates = solve(Y)
        candidates.dual[0] = 0.0
        return candidates

    return careless


def test_without_highspy_an_unproved_row_is_reported_and_not_lost(monkeypatch):
    monkeypatch.setattr(l1, "find_spec", lambda name: None)
    A = gaussian(10, 40, 0)
    X = sparse_rows(4, 40, 2, 0)
    decoder = L1Decoder().bind(A)
    for engine in decoder._engines_:
        monkeypatch.setattr(engine, "solve", without_proof(engine.solve))
    rec = decoder.decode(X @ A.T)
    assert list(rec.status) == [Status.UNCERTIFIED, *[Status.OPTIMAL_UNIQUE] * 3]
    assert "1 uncertified (largest gap" in rec.summary()
    assert abs(rec.x[[0]] - X[[0]]).max() <= 1e-10  # the best that was found is kept


def test_an_unproved_answer_is_not_replaced_by_a_worse_one(monkeypatch):
    A = gaussian(10, 40, 0)
    X = sparse_rows(3, 40, 2, 0)
    decoder = L1Decoder().bind(A)
    first, last = decoder._engines_[0], decoder._engines_[-1]
    monkeypatch.setattr(first, "solve", without_proof(first.solve))

    def nothing(Y):
        n = len(Y)
        return Candidates(
            x=sp.csr_array((n, 40)), dual=np.zeros((n, 10)), infeasible=np.zeros(n, bool), n_steps=np.zeros(n, int)
        )

    for engine in decoder._engines_[1:]:
        monkeypatch.setattr(engine, "solve", nothing)
    assert first is not last
    rec = decoder.decode(X @ A.T)
    assert rec.status[0] == Status.UNCERTIFIED
    assert abs(rec.x[[0]] - X[[0]]).max() <= 1e-10


def test_a_row_that_the_path_gets_wrong_is_mended_by_highs(monkeypatch):
    A = gaussian(10, 40, 0)
    X = sparse_rows(4, 40, 2, 0)
    decoder = L1Decoder().bind(A)
    found = decoder._engines_[0].solve

    def wrong(Y):
        candidates = found(Y)
        candidates.x.data[:] *= 1.01
        return candidates

    monkeypatch.setattr(decoder._engines_[0], "solve", wrong)
    rec = decoder.decode(X @ A.T)
    assert rec.unique.all()
    assert abs(rec.x - X).max() <= 1e-10


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "simplex"}, r"method must be one of 'auto', 'path', 'highs'; got 'simplex'"),
        ({"positive": "yes"}, r"positive must be one of True, False; got 'yes'"),
        ({"n_jobs": 0}, r"n_jobs must be at least 1, got 0"),
        ({"device": "cpu", "n_jobs": 2}, r"goes with neither method='highs' nor n_jobs"),
        ({"device": "cpu", "method": "highs"}, r"goes with neither method='highs' nor n_jobs"),
    ],
)
def test_a_wrong_parameter_is_refused_when_the_matrix_is_bound(options, message):
    with pytest.raises(ValueError, match=message):
        L1Decoder(**options).bind(gaussian(3, 6, 0))


@pytest.mark.real_data
def test_real_one_hot_rows_come_back_as_highs_says():
    from sparselens.data import load_dataset

    real_data("amazon_train.csv.gz")
    X = load_dataset("amazon").test[:12]
    A = gaussian(100, X.shape[1], 0)
    Y = X @ A.T
    rec = L1Decoder().bind(A).decode(Y)
    assert rec.certified.all()
    proof = verify(A, Y, rec.x, rec.dual)
    assert proof.optimal.all()
    reference = L1Decoder(method="highs").bind(A).decode(Y[:3])
    unique = rec.unique[:3] & reference.unique
    assert unique.any()
    assert abs(rec.x[:3][unique] - reference.x[unique]).max() <= 1e-10


def test_a_path_that_reaches_rounding_ends_there():
    """Block-sparse rows under principal components: λ fell to 1e-17, where a path never ended."""
    data = sl.load_dataset("synthetic2", random_state=0)
    encoder = sl.PCAEncoder(50).fit(data.train)
    Y = encoder.transform(data.test[220:240])
    unit = Y / np.linalg.norm(Y, axis=1, keepdims=True)
    for engine in ENGINES.values():
        paths = engine(encoder.components_, positive=True)
        for found in (paths.solve(unit), paths.patient().solve(unit)):
            assert found.n_steps.max() <= 30 * 50 + 300  # the largest number of steps of a patient engine
    assert L1Decoder().bind(encoder.components_).decode(Y).certified.all()


def test_a_row_that_goes_back_again_and_again_stays_within_its_arrays(monkeypatch):
    # Each time, columns that leave the support join the working set: here 262 were written beyond its end.
    widest = []
    turn_rows = _path_lazy._turn_rows

    def watched(problem, rows, slots, P, results):
        stamp = turn_rows(problem, rows, slots, P, results)
        widest.append(rows.n[:, WIDTH].max() - rows.W.shape[1])
        return stamp

    monkeypatch.setattr(_path_lazy, "_turn_rows", watched)
    d, m, rng = 200, 100, np.random.default_rng(0)
    A = np.cos(np.pi * (np.arange(d) + 0.5) * np.arange(m)[:, None] / d)  # neighbours are nearly dependent
    X = np.zeros((100, d))
    for row in X:
        row[rng.choice(d, m // 2, replace=False)] = rng.random(m // 2)
    Y = X @ A.T
    engine = LazyPathEngine(A, positive=True, target=d)
    engine.problem = engine.problem._replace(inner=2, first_events=64)
    engine.solve(Y / np.linalg.norm(Y, axis=1, keepdims=True))
    assert max(widest) == 0  # full, as rows were before they went beyond it, and no fuller


@pytest.mark.parametrize("engine", [SmallPathEngine, LazyPathEngine])
def test_no_column_is_twice_in_a_support_even_where_a_row_is_given_up(engine):
    # Columns that had left more than once were candidates more than once: supports grew larger than the rank, and were
    # written into the answer of the next row.
    rng = np.random.default_rng(318)
    m, d = 20, 60
    apart = np.linspace(0, 1, m)[:, None] - np.linspace(0, 1, d)[None]
    A = np.exp(-((apart / rng.uniform(0.05, 0.4)) ** 2))
    X = np.zeros((6, d))
    for row in X:
        row[rng.choice(d, m // 2, replace=False)] = rng.random(m // 2)
    Y = X @ A.T
    path = engine(A, positive=True, target=d).patient()
    for most in (30, 60, 90, 120, 150):
        path.problem = path.problem._replace(inner=2, first_events=64, max_steps=most)
        found = path.solve(Y / np.linalg.norm(Y, axis=1, keepdims=True)).x
        assert found.indptr[-1] == len(found.indices) == len(found.data)
        for a, b in itertools.pairwise(found.indptr):
            assert len(set(found.indices[a:b])) == b - a <= path.problem.most


def test_what_an_engine_could_not_compute_is_uncertified_and_never_nan(monkeypatch):
    """Low frequencies of a DCT, whose neighbouring columns are nearly parallel, drove a path to NaN."""

    class Broken:
        def solve(self, Y):
            values = np.where(Y[:, 0] > 0.9, np.nan, 1.0)
            x = sp.csr_array((values, np.zeros(len(Y), dtype=int), np.arange(len(Y) + 1)), shape=(len(Y), 3))
            dual = np.tile([1.0, 0.0], (len(Y), 1))
            return Candidates(x, dual, infeasible=np.ones(len(Y), dtype=bool), n_steps=np.ones(len(Y), dtype=int))

    monkeypatch.setattr(L1Decoder, "_make_engines", lambda self: [Broken()])
    rec = L1Decoder().bind([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]]).decode([[1.0, 0.0], [0.5, 0.5]])
    assert np.isfinite(rec.x.data).all()
    assert np.isfinite(rec.dual).all()
    assert (rec.status == Status.UNCERTIFIED).all()
    np.testing.assert_allclose(rec.residual[0], 1.0)  # x = 0 is reported


@pytest.mark.parametrize("claimed", [True, False], ids=["claimed infeasible", "not claimed"])
def test_an_answer_that_is_worse_than_zero_is_reported_as_zero(monkeypatch, claimed):
    """Principal directions of one-hot rows drove a path to entries of 1e45, which nobody had proved."""

    class Wild:
        def solve(self, Y):
            x = sp.csr_array((np.array([1e45, 0.5]), [0, 1], [0, 1, 2]), shape=(2, 3))
            return Candidates(x, np.ones((2, 2)), np.full(2, claimed), n_steps=np.ones(2, dtype=int))

    monkeypatch.setattr(L1Decoder, "_make_engines", lambda self: [Wild()])
    rec = L1Decoder().bind([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]]).decode([[1.0, 0.0], [0.0, 1.0]])
    assert (rec.status == Status.UNCERTIFIED).all()
    assert rec.x.toarray().tolist() == [[0, 0, 0], [0, 0.5, 0]]  # the second is nearer to y than zero is
    np.testing.assert_allclose(rec.residual, [1.0, 0.5])


@pytest.mark.parametrize("method", ["path", "highs"])
def test_what_is_not_proved_is_nonnegative_and_near_y(method):
    # the lowest frequencies: neighbouring columns are nearly the same, and a basis of them has a condition of 1e15
    frequency, place = np.arange(20)[:, None], np.arange(200)[None]
    A = np.sqrt(2.0 / 200) * np.cos(np.pi * frequency * (2 * place + 1) / 400)
    X = sp.csr_array(np.random.default_rng(0).random((30, 200)) * (np.abs(place - 100) < 5))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConditionWarning)
        recovery = L1Decoder(method=method).bind(A).decode(X @ A.T)
    unproved = recovery.status == Status.UNCERTIFIED
    assert unproved.any()
    assert recovery.x.data.min() > 0
    assert recovery.residual.max() < 0.01
    # the first row of A is constant: every x ≥ 0 that fits is as long as the truth
    np.testing.assert_allclose(recovery.x.sum(axis=1), X.sum(axis=1), rtol=0.02)


def test_patience_proves_rows_of_columns_whose_lengths_differ_by_orders():
    """Principal directions of one-hot rows: rare values have columns 1e-5 times as long as frequent ones.

    In single precision, with M kept over hundreds of changes, the patient path proved 17 of these 40 rows.
    """
    A, Y = principal_directions(60, 40)
    found = LazyPathEngine(A, positive=True).patient().solve(Y)
    assert Verifier(A, positive=True).optimal(Y, found.x, found.dual).optimal.sum() >= 25
