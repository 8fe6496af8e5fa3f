"""Bibtex, where its files are at hand: figures that a wrong classifier would not reach."""

import pytest

from helpers import real_data
from sparselens.data import load_dataset
from sparselens.metrics import precision_at_k
from sparselens.xml import RidgeOneVsAll


@pytest.mark.real_data
def test_one_vs_all_ranks_the_labels_of_bibtex():
    root = real_data("xmc/bibtex_labels_7395x159.npz", "xmc/bibtex_feats_7395x1836.npz")
    X, Y, X_test, Y_test = load_dataset("bibtex", random_state=0, root=root).official_split()
    scores = RidgeOneVsAll().fit(X, Y).predict_topk(X_test)
    assert precision_at_k(Y_test, scores, k=1) > 0.64
    assert precision_at_k(Y_test, scores, k=3) > 0.40
