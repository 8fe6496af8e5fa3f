"""Projections are the best approximations, checked against every support there is."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sparselens.sparsity import BlockSparse, OneHot, Sparse, SparsityModel

numbers = st.integers(-4, 4).map(float) | st.floats(-3, 3)  # integers give ties


def supports(model, d: int) -> list[tuple[int, ...]]:
    """Every support that the model allows, written out."""
    if isinstance(model, Sparse):
        return list(combinations(range(d), min(model.k, d)))
    if isinstance(model, BlockSparse):
        blocks = [tuple(range(i, i + model.block_size)) for i in range(0, d, model.block_size)]
        return [sum(chosen, ()) for chosen in combinations(blocks, min(model.n_blocks, len(blocks)))]
    edges = np.cumsum((0, *model.groups))
    return list(product(*(range(edges[i], edges[i + 1]) for i in range(len(model.groups)))))


def best_error(z: np.ndarray, model, order: int) -> float:
    """The smallest squared distance to a sum of `order` vectors of the model, over all supports."""
    allowed = supports(model, len(z))
    unions = {frozenset(sum(chosen, ())) for chosen in product(allowed, repeat=order)}
    return min(float((np.delete(z, list(union)) ** 2).sum()) for union in unions)


cases = st.one_of(
    st.tuples(st.builds(Sparse, st.integers(1, 4)), st.integers(1, 6)),
    st.tuples(st.integers(1, 2), st.integers(1, 3), st.integers(1, 3)).map(
        lambda t: (BlockSparse(t[0], t[1]), t[1] * t[2])
    ),
    st.lists(st.integers(1, 3), min_size=1, max_size=3).map(lambda g: (OneHot(tuple(g)), sum(g))),
)
problems = cases.flatmap(
    lambda case: st.tuples(st.just(case[0]), hnp.arrays(float, (2, case[1]), elements=numbers), st.sampled_from([1, 2]))
)


@given(problems)
def test_a_projection_is_the_best_approximation_over_all_supports(problem):
    model, Z, order = problem
    P = model.project(Z, order=order)
    for z, p in zip(Z, P, strict=True):
        assert ((z - p) ** 2).sum() == pytest.approx(best_error(z, model, order), abs=1e-12)


@given(problems)
def test_a_projection_lies_in_the_model_and_keeps_the_values_of_its_support(problem):
    model, Z, order = problem
    P = model.project(Z, order=order)
    assert ((P == Z) | (P == 0)).all()
    unions = {frozenset(sum(chosen, ())) for chosen in product(supports(model, Z.shape[1]), repeat=order)}
    for p in P:
        assert any(set(np.flatnonzero(p)) <= union for union in unions)


@given(problems)
def test_projecting_twice_is_projecting_once(problem):
    model, Z, order = problem
    P = model.project(Z, order=order)
    np.testing.assert_array_equal(model.project(P, order=order), P)


@given(problems)
def test_sparse_and_dense_rows_project_alike(problem):
    model, Z, order = problem
    out = model.project(sp.csr_array(Z), order=order)
    assert sp.issparse(out)
    np.testing.assert_array_equal(out.toarray(), model.project(Z, order=order))


@pytest.mark.parametrize("model", [Sparse(2), BlockSparse(1, 2), OneHot((2, 4))])
def test_models_follow_the_protocol_and_compare_by_value(model):
    assert isinstance(model, SparsityModel)
    assert model == type(model)(**{name: getattr(model, name) for name in model.__dataclass_fields__})
    assert hash(model) == hash(type(model)(**{name: getattr(model, name) for name in model.__dataclass_fields__}))
    assert model.support(np.ones((3, 6))).dtype == bool


def test_of_equal_entries_one_is_taken_and_never_more():
    assert Sparse(2).support(np.ones((1, 5))).sum() == 2
    assert BlockSparse(1, 2).support(np.ones((1, 6))).sum() == 2
    assert OneHot((3, 3)).support(np.zeros((1, 6))).sum() == 2


def test_asking_for_more_than_there_is_keeps_everything():
    assert Sparse(9).support(np.ones((1, 5))).all()
    assert Sparse(3).support(np.ones((1, 5)), order=2).all()
    assert OneHot((2, 1)).support(np.ones((1, 3)), order=2).all()


def test_groups_may_come_as_a_list():
    assert OneHot([2, 3]) == OneHot((2, 3))


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: Sparse(0), ValueError, "k must be at least 1, got 0"),
        (lambda: Sparse(1.5), TypeError, "k must be a whole number, got 1.5"),
        (lambda: BlockSparse(0, 1), ValueError, "n_blocks must be at least 1, got 0"),
        (lambda: BlockSparse(1, 0), ValueError, "block_size must be at least 1, got 0"),
        (lambda: OneHot(()), ValueError, "groups is empty: name the size of at least one group"),
        (lambda: OneHot((2, 0)), ValueError, "a group's size must be at least 1, got 0"),
        (lambda: OneHot((2, "a")), TypeError, "a group's size must be a whole number, got 'a'"),
    ],
)
def test_a_model_that_allows_nothing_is_refused(build, error, message):
    with pytest.raises(error, match=message):
        build()


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (BlockSparse(1, 2), "Z has 5 columns, which blocks of 2 do not fill: choose another block_size"),
        (OneHot((2, 2)), "Z has 5 columns but the groups add up to 4: name every group once"),
    ],
)
def test_rows_that_do_not_fit_the_model_are_refused(model, message):
    with pytest.raises(ValueError, match=message):
        model.project(np.ones((1, 5)))


@pytest.mark.parametrize("model", [Sparse(1), BlockSparse(1, 1), OneHot((2,))])
def test_bad_rows_and_orders_are_refused(model):
    with pytest.raises(ValueError, match="Z holds NaN or infinity in row 1"):
        model.project([[1.0, 2.0], [np.nan, 1.0]])
    with pytest.raises(ValueError, match="order must be at least 1, got 0"):
        model.project([[1.0, 2.0]], order=0)
    with pytest.raises(ValueError, match="Z must be two-dimensional"):
        model.project([1.0, 2.0])
