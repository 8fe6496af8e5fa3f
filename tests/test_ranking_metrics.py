"""P@k, nDCG@k and PSP@k: by hand, against napkinXC, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from sparselens.metrics import inverse_propensities, ndcg_at_k, precision_at_k, psp_at_k, ranking_report


def test_they_agree_with_napkinxc_on_random_cases():
    theirs = pytest.importorskip("napkinxc.metrics", reason="napkinxc is in the bench extra")
    rng = np.random.default_rng(0)
    for _ in range(40):
        n, n_labels = rng.integers(1, 30), rng.integers(5, 20)
        Y = (rng.random((n, n_labels)) < rng.choice([0.05, 0.2, 0.6])).astype(float)
        scores = rng.standard_normal((n, n_labels))
        Y_train = sp.csr_matrix((rng.random((50, n_labels)) < 0.2).astype(float))
        inverse = inverse_propensities(Y_train, A=0.5, B=0.4)
        np.testing.assert_allclose(inverse, theirs.Jain_et_al_inverse_propensity(Y_train, A=0.5, B=0.4))
        truth = [np.flatnonzero(row).tolist() for row in Y]
        ranked = np.argsort(-scores, axis=1).tolist()
        ks = range(1, 6)
        np.testing.assert_allclose([precision_at_k(Y, scores, k=k) for k in ks], theirs.precision_at_k(truth, ranked))
        np.testing.assert_allclose([ndcg_at_k(Y, scores, k=k) for k in ks], theirs.ndcg_at_k(truth, ranked))
        if Y.any():  # napkinXC divides by zero where nothing is true
            np.testing.assert_allclose(
                [psp_at_k(Y, scores, inverse, k=k) for k in ks], theirs.psprecision_at_k(truth, ranked, inverse)
            )


def slow_scores(Y, scores, stored, inverse, k):
    """P@k, nDCG@k and PSP@k by their definitions, one row and one rank at a time."""
    precision, ndcg, gained, best = [], [], 0.0, 0.0
    for truth, row, there in zip(Y, scores, stored, strict=True):
        candidates = sorted((j for j in range(len(row)) if there[j]), key=lambda j: (-row[j], j))[:k]
        hits = [rank for rank, label in enumerate(candidates) if truth[label]]
        precision.append(len(hits) / k)
        ideal = sum(1 / np.log2(rank + 2) for rank in range(min(k, int(truth.sum()))))
        ndcg.append(sum(1 / np.log2(rank + 2) for rank in hits) / ideal if ideal else 0.0)
        gained += sum(inverse[candidates[rank]] for rank in hits)
        best += sum(sorted(inverse[truth > 0], reverse=True)[:k])
    return np.mean(precision), np.mean(ndcg), gained / best if best else 0.0


def test_they_agree_with_their_definitions_on_odd_cases():
    """Ties, rows without labels, rows with few or no candidates, stored zeros, k beyond the number of labels."""
    rng = np.random.default_rng(5)
    for _ in range(60):
        n, n_labels = rng.integers(1, 12), rng.integers(1, 9)
        Y = (rng.random((n, n_labels)) < rng.choice([0.0, 0.15, 0.7])).astype(float)
        scores = rng.integers(-2, 3, (n, n_labels)).astype(float)  # many ties, and zeros
        stored = rng.random((n, n_labels)) < rng.choice([0.3, 1.0])
        inverse = inverse_propensities((rng.random((40, n_labels)) < 0.2).astype(float))
        rows, columns = np.nonzero(stored)
        sparse = sp.csr_array((scores[rows, columns], columns, np.r_[0, stored.sum(axis=1).cumsum()]), shape=Y.shape)
        for k in (1, 3, 5, n_labels, n_labels + 4):
            found = precision_at_k(Y, sparse, k=k), ndcg_at_k(Y, sparse, k=k), psp_at_k(Y, sparse, inverse, k=k)
            np.testing.assert_allclose(found, slow_scores(Y, scores, stored, inverse, k), atol=1e-12)


def test_a_short_list_of_candidates_is_divided_by_k_all_the_same():
    scores = sp.csr_array(([0.5], ([0], [1])), shape=(1, 3))
    assert precision_at_k([[0, 1, 1]], scores, k=2) == 0.5


def test_a_stored_zero_is_a_candidate_and_an_absent_one_is_not():
    scores = sp.csr_array((np.array([0.0, -1.0]), np.array([1, 2]), np.array([0, 2])), shape=(1, 3))
    assert precision_at_k([[0, 1, 0]], scores, k=1) == 1.0
    assert precision_at_k([[1, 0, 0]], scores, k=3) == 0.0


def test_of_equal_scores_the_smaller_label_comes_first():
    assert precision_at_k([[0, 1, 0]], [[0.5, 0.5, 0.5]], k=1) == 0.0
    assert precision_at_k([[0, 1, 0]], [[0.5, 0.5, 0.5]], k=2) == 0.5


def test_rows_without_true_labels_count_as_zero():
    assert precision_at_k([[1, 0], [0, 0]], [[1.0, 0.0], [1.0, 0.0]], k=1) == 0.5
    assert ndcg_at_k([[1, 0], [0, 0]], [[1.0, 0.0], [1.0, 0.0]], k=1) == 0.5
    assert psp_at_k([[0, 0]], [[1.0, 0.0]], [2.0, 2.0], k=1) == 0.0


def test_a_perfect_ranking_has_the_best_score():
    rng = np.random.default_rng(1)
    Y = (rng.random((20, 9)) < 0.5).astype(float)
    Y[:, :5] = 1.0
    inverse = inverse_propensities(Y)
    assert set(ranking_report(Y, Y * inverse, inverse_propensity=inverse).values()) == {1.0}


def test_values_of_true_labels_do_not_matter():
    scores = np.random.default_rng(2).random((5, 8))
    Y = (np.random.default_rng(3).random((5, 8)) < 0.3).astype(float)
    assert precision_at_k(7.5 * Y, scores, k=3) == precision_at_k(Y, scores, k=3)


def test_bad_input_is_named():
    with pytest.raises(ValueError, match=r"Y_true has the shape \(1, 2\) but scores have \(1, 3\)"):
        precision_at_k([[1, 0]], [[1.0, 0.0, 0.0]])
    with pytest.raises(ValueError, match="scores hold NaN or infinity"):
        precision_at_k([[1, 0]], [[np.nan, 0.0]])
    with pytest.raises(ValueError, match="k must be at least 1"):
        ndcg_at_k([[1, 0]], [[1.0, 0.0]], k=0)
    with pytest.raises(ValueError, match=r"inverse_propensity has the shape \(3,\) but Y_true has 2 labels"):
        psp_at_k([[1, 0]], [[1.0, 0.0]], [1.0, 1.0, 1.0])
