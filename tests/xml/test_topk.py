"""The k best labels of each row."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sparselens.xml._topk import ranked_rows, row_blocks, top_k


@given(
    scores=hnp.arrays(np.float64, st.tuples(st.integers(1, 6), st.integers(1, 9)), elements=st.integers(-2, 2)),
    k=st.integers(1, 10),
)
def test_the_answer_is_that_of_a_stable_sort_ties_included(scores, k):
    columns, values = top_k(scores, k)
    expected = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(columns, expected)
    np.testing.assert_array_equal(values, np.take_along_axis(scores, expected, axis=1))


def test_a_row_alone_or_in_a_block_agrees():
    scores = np.random.default_rng(0).integers(0, 4, (50, 30)).astype(float)
    together = top_k(scores, 5)[0]
    for i in range(50):
        np.testing.assert_array_equal(top_k(scores[i : i + 1], 5)[0][0], together[i])


def test_scores_of_zero_and_below_stay_stored():
    rows = ranked_rows(np.array([[3, 1]]), np.array([[0.0, -1.0]]), 5)
    assert rows.nnz == 2
    np.testing.assert_array_equal(rows.indices, [1, 3])
    np.testing.assert_array_equal(rows.data, [-1.0, 0.0])


@pytest.mark.parametrize(("n", "width"), [(0, 5), (1, 5), (100, 7), (10, 10**9)])
def test_blocks_cover_every_row_once(n, width):
    rows = [i for block in row_blocks(n, width, cells=50) for i in range(block.start, block.stop)]
    assert rows == list(range(n))
