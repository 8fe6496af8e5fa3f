"""scikit-learn's own checks of a transformer, on every encoder, without exceptions."""

from __future__ import annotations

from sklearn.utils.estimator_checks import parametrize_with_checks

from helpers import ENCODERS


@parametrize_with_checks([case.make(2, 0) for case in ENCODERS.values()])
def test_scikit_learn_accepts_it(estimator, check):
    check(estimator)
