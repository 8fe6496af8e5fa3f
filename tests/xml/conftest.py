"""Small multi-label problems with structure: rows of a topic share words and labels."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp


def topics_problem(n, *, seed, n_features=60, n_labels=24, n_topics=6):
    """Features and labels: a row belongs to two topics, and each topic has its own words and labels."""
    rng = np.random.default_rng(seed)
    words = np.random.default_rng(1).random((n_topics, n_features)) < 0.15
    tags = np.random.default_rng(2).random((n_topics, n_labels)) < 0.15
    tags[np.arange(n_topics), np.arange(n_topics)] = True
    topic = rng.integers(0, n_topics, (n, 2))
    X = (rng.random((n, n_features)) < 0.03) + rng.random((n, n_features)) * (words[topic[:, 0]] | words[topic[:, 1]])
    Y = (tags[topic[:, 0]] | tags[topic[:, 1]]) & (rng.random((n, n_labels)) < 0.9)
    return sp.csr_array(X * (X > 0.3)), sp.csr_array(Y.astype(float))


@pytest.fixture(scope="session")
def problem():
    return (*topics_problem(240, seed=3), *topics_problem(60, seed=4))
