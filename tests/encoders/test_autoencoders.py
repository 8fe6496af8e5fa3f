"""The two plain autoencoders of the paper."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import sparselens as sl
from helpers import FAST, sparse_rows
from sparselens.encoders.autoencoders import DeepAE, SimpleAE


def one_hot(n: int, d: int, seed: int) -> sp.csr_array:
    columns = np.random.default_rng(seed).integers(d, size=n)
    return sp.csr_array((np.ones(n), (np.arange(n), columns)), shape=(n, d))


def test_the_simple_autoencoder_decodes_by_one_layer():
    X = sparse_rows(60, 20, 3, seed=0)
    enc = SimpleAE(5, random_state=0, **FAST).fit(X)
    Y = enc.transform(X)
    expected = np.maximum(Y @ enc.weights_["B"].astype(np.float64), 0.0)
    np.testing.assert_allclose(enc.decoder_.decode(Y).x.toarray(), expected, atol=1e-14)
    assert set(enc.weights_) == {"B"}


def test_the_simple_autoencoder_learns():
    X = one_hot(300, 8, seed=0)
    enc = SimpleAE(4, max_epochs=200, learning_rate=0.5, random_state=0, device="cpu").fit(X)
    own = sl.metrics.rmse(X, enc.decoder_.decode(enc.transform(X)).x)
    assert own < 0.8  # predicting zeros gives 1


def test_the_deep_autoencoder_learns_what_one_hot_rows_are():
    X = one_hot(400, 8, seed=0)
    enc = DeepAE(6, n_hidden=64, max_epochs=60, learning_rate=0.003, batch_size=16, random_state=0, device="cpu").fit(X)
    assert sl.metrics.rmse(X, enc.inverse_transform(enc.transform(X))) < 0.1


def test_the_hidden_width_is_the_one_that_validates_best():
    X = one_hot(200, 10, seed=0)
    enc = DeepAE(3, n_hidden=[2, 16], max_epochs=40, learning_rate=0.01, random_state=0, device="cpu").fit(X)
    assert set(enc.tried_) == {"2", "16"}
    assert enc.tried_[str(enc.n_hidden_)] == min(enc.tried_.values())
    alone = DeepAE(3, n_hidden=enc.n_hidden_, max_epochs=40, learning_rate=0.01, random_state=0, device="cpu").fit(X)
    np.testing.assert_array_equal(alone.transform(X), enc.transform(X))


def test_the_deep_autoencoder_has_no_matrix_and_uses_its_own_network():
    X = sparse_rows(40, 12, 3, seed=0)
    enc = DeepAE(4, n_hidden=8, random_state=0, **FAST).fit(X)
    assert not hasattr(enc, "components_")
    rec = enc.decoder_.decode(enc.transform(X))
    assert (rec.status == sl.Status.ESTIMATE).all()
    assert np.isnan(rec.residual).all()
    np.testing.assert_array_equal(rec.x.toarray(), enc.inverse_transform(enc.transform(X)).toarray())


def test_the_validation_loss_of_the_deep_autoencoder_is_that_of_its_decoder():
    X, V = one_hot(60, 12, seed=0), one_hot(20, 12, seed=1)
    enc = DeepAE(4, n_hidden=8, random_state=0, **FAST).fit(X, X_valid=V)
    own = sl.metrics.rmse(V, enc.inverse_transform(enc.transform(V)))
    assert own**2 == pytest.approx(enc.history_["best"], rel=1e-4)  # float64 against float32


def test_a_model_of_each_comes_back_from_disk(tmp_path):
    X = sparse_rows(40, 12, 3, seed=0)
    for name, enc in {"simple": SimpleAE(4, random_state=0, **FAST), "deep": DeepAE(4, n_hidden=8, **FAST)}.items():
        Y = enc.fit(X).transform(X)
        again = sl.load(enc.save(tmp_path / name))
        np.testing.assert_array_equal(again.transform(X), Y)
        np.testing.assert_array_equal(again.decoder_.decode(Y).x.toarray(), enc.decoder_.decode(Y).x.toarray())


@pytest.mark.parametrize(
    ("n_hidden", "kind", "message"),
    [
        (0, ValueError, "n_hidden must be at least 1, got 0"),
        ((), ValueError, "n_hidden is empty"),
        (None, TypeError, "n_hidden must be a whole number, got None"),
        ((4, 2.5), TypeError, "n_hidden must be a whole number, got 2.5"),
    ],
)
def test_widths_that_make_no_sense_are_refused(n_hidden, kind, message):
    with pytest.raises(kind, match=message):
        DeepAE(2, n_hidden=n_hidden, **FAST).fit(sparse_rows(20, 6, 2, seed=0))
