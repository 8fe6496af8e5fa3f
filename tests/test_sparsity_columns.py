"""`columns` and `keep` of a sparsity model say what its `support` says, without n x d arrays."""

from __future__ import annotations

import numpy as np
import pytest

from sparselens.sparsity import BlockSparse, OneHot, Sparse

MODELS = {
    "sparse-1": Sparse(1),
    "sparse-7": Sparse(7),
    "sparse-all": Sparse(40),
    "block": BlockSparse(2, 6),
    "one-hot": OneHot((1, 2, 20, 7)),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("order", [1, 2, 3])
def test_columns_keep_as_much_as_any_member_of_the_model(name, order):
    model, Z = MODELS[name], np.random.default_rng(order).standard_normal((9, 30))
    columns = model.columns(Z, order)
    assert all(len(set(row)) == columns.shape[1] for row in columns.tolist())
    kept = np.take_along_axis(Z, columns, axis=1)
    np.testing.assert_allclose((kept**2).sum(axis=1), (model.project(Z, order=order) ** 2).sum(axis=1))


@pytest.mark.parametrize("name", MODELS)
def test_keep_on_known_entries_is_the_projection_of_the_dense_row(name):
    model, rng = MODELS[name], np.random.default_rng(0)
    for t in (1, 4, 13, 30):
        columns = np.argsort(rng.random((20, 30)), axis=1)[:, :t]
        values = rng.standard_normal((20, t))
        dense = np.zeros((20, 30))
        np.put_along_axis(dense, columns, values, axis=1)
        kept = np.zeros_like(dense)
        np.put_along_axis(kept, columns, np.where(model.keep(columns, values, 30), values, 0.0), axis=1)
        np.testing.assert_array_equal(kept, model.project(dense))


def test_of_equal_entries_one_is_kept():
    assert OneHot((3,)).keep(np.array([[0, 1, 2]]), np.array([[1.0, -1.0, 1.0]]), 3).tolist() == [[True, False, False]]
    assert Sparse(2).support(np.ones((4, 9))).sum(axis=1).tolist() == [2, 2, 2, 2]
