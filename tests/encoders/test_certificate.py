"""Certificate training: what it reaches on small data, what it says when there is nothing to find, what it refuses."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

import sparselens as sl
from helpers import real_data, sparse_rows
from sparselens.encoders._certificate_task import CertificateTask, Columns, Judge, Recipe, Score, decode_errors
from sparselens.encoders._search import RECIPES, at_random_columns, beats, gains
from sparselens.encoders._supports import SupportSampler
from sparselens.encoders.certificate import CertificateEncoder
from sparselens.recovery import DataNotFoundError

torch = pytest.importorskip("torch")
CPU = torch.device("cpu")


def blocks(n, n_blocks, size, seed, signed=False):
    """Rows with one block of nonzeros each."""
    rng = np.random.default_rng(seed)
    values = rng.uniform(0.1, 1.0, (n, n_blocks * size))
    if signed:
        values *= rng.choice([-1.0, 1.0], values.shape)
    return sp.csr_array(np.kron(np.eye(n_blocks)[rng.integers(n_blocks, size=n)], np.ones(size)) * values)


@pytest.fixture(scope="module")
def fitted():
    return CertificateEncoder(5, max_steps=800, random_state=0, device="cpu").fit(blocks(400, 12, 5, seed=0))


# ---- what it reaches ----------------------------------------------------------------------------------------


def test_blocks_of_five_come_back_from_five_measurements(fitted):
    X = blocks(300, 12, 5, seed=1)
    assert sl.metrics.exact_fraction(X, fitted.inverse_transform(fitted.transform(X))) == 1.0
    assert fitted.structure_found_ is True
    assert fitted.report_.startswith("structure found: it brings back 100.0% of the validation rows")
    assert fitted.history_["stopped_by"] == "every validation row is proved to come back"
    assert fitted.history_["gaussian"]["exact"] < 0.5


def test_signed_rows_come_back_by_signed_decoding():
    X = blocks(600, 8, 3, seed=2, signed=True)
    enc = CertificateEncoder(8, positive=False, max_steps=400, random_state=0, device="cpu").fit(X[:400])
    assert enc.decoder().positive is False
    gaussian = sl.GaussianEncoder(8, random_state=0).fit(X)
    mine, other = (
        sl.metrics.exact_fraction(X[400:], e.inverse_transform(e.transform(X[400:]))) for e in (enc, gaussian)
    )
    assert mine > 0.95 > other + 0.3


def test_rows_that_use_columns_never_seen_in_training_come_back_too():
    rng = np.random.default_rng(3)
    seen = np.stack([rng.integers(0, 18, 500), 20 + rng.integers(0, 18, 500)], axis=1)
    X = sp.csr_array((np.ones(1000), seen.ravel(), np.arange(0, 1001, 2)), shape=(500, 40))
    fresh = sp.csr_array(np.eye(40)[[18, 19, 18, 19]] + np.eye(40)[[20, 25, 38, 39]])
    enc = CertificateEncoder(10, swap=0.2, uniform=1.0, random_state=0, device="cpu").fit(X)
    assert sl.metrics.exact_fraction(fresh, enc.inverse_transform(enc.transform(fresh))) == 1.0


def test_real_labels_come_back_more_often_than_from_gaussian_measurements():
    real_data("xmc/bibtex_labels_7395x159.npz", "xmc/bibtex_feats_7395x1836.npz")
    data = sl.load_dataset("bibtex", sizes=(3000, 300, 300))
    enc = CertificateEncoder(12, max_steps=300, random_state=0, device="cpu").fit(data.train, X_valid=data.valid)
    gaussian = sl.GaussianEncoder(12, random_state=0).fit(data.train)
    mine, other = (
        sl.metrics.exact_fraction(data.test, e.inverse_transform(e.transform(data.test))) for e in (enc, gaussian)
    )
    assert enc.structure_found_
    assert mine > other + 0.1
    promise = enc.certify(data.test)
    rec = sl.L1Decoder(method="highs").bind(enc.components_).decode(enc.transform(data.test))
    np.testing.assert_array_equal(promise.exact, sl.metrics.row_errors(data.test, rec.x) <= 1e-10)
    packed = sl.encode_lossless(enc, data.test)
    assert (sl.decode_lossless(packed) != data.test).nnz == 0  # labels of unit norm hold one value a row


# ---- what it promises ---------------------------------------------------------------------------------------


def test_a_promised_row_of_trained_measurements_comes_back_from_highs(fitted):
    X = sp.csr_array(sp.vstack([blocks(60, 12, 5, seed=4), sparse_rows(30, 60, 2, seed=5)]))
    promise = fitted.certify(X)
    rec = sl.L1Decoder(method="highs").bind(fitted.components_).decode(fitted.transform(X))
    error = np.abs((rec.x - X).toarray()).max(axis=1)
    assert promise.exact[:60].all()
    assert (error[promise.exact] <= 1e-10).all()
    assert (error[~promise.exact] > 1e-10).all()
    assert "will come back" in promise.summary()


@pytest.mark.parametrize("size", [1e-200, 1e-12, 1e12, 1e200])
def test_a_promise_does_not_depend_on_the_size_of_a_row(fitted, size):
    X = sparse_rows(40, 60, 3, seed=28)
    promise, other = fitted.certify(X), fitted.certify(size * X)
    assert 0 < promise.exact.sum() < 40
    np.testing.assert_array_equal(other.by, promise.by)


# Of each data set the number of measurements, enough for some rows, and the number of rows: HiGHS takes seconds a row
# where d is large.
PROMISED = {
    "toy": (20, 24),
    "synthetic1": (50, 24),
    "synthetic2": (50, 24),
    "synthetic3": (60, 24),
    "unstructured": (60, 24),
    "amazon": (100, 12),
    "eurlex-4k-labels": (40, 24),
    "delicious": (60, 24),
    "citeulike-a-tags": (120, 6),
    "bibtex": (12, 24),
    "wiki10-like-labels": (80, 12),
    "rcv1-mulan": (200, 3),
}


@pytest.mark.parametrize("name", PROMISED)
def test_a_promise_on_rows_of_every_data_set_is_kept_by_highs(name):
    m, n = PROMISED[name]
    try:
        data = sl.load_dataset(name)
    except DataNotFoundError as error:
        pytest.skip(f"{name} is not here: {str(error)[:80]}")
    d = data.test.shape[1]
    fixed = {"loss": "log", "margin": 0.3, "swap": 0.05, "uniform": 1.0, "thin": 0.0, "drop": 0.0}
    enc = CertificateEncoder(
        m, **fixed, max_steps=max(4, 100_000 // d), batch_size=64, n_validation=16, random_state=0, device="cpu"
    ).fit(data.train[:2000], X_valid=data.valid[:16])
    short = np.flatnonzero(np.diff(data.test.indptr) <= (m if d < 20_000 else m // 8))
    X = data.test[np.random.default_rng(0).choice(short, n, replace=False)]
    promise = enc.certify(X)
    rec = sl.L1Decoder(method="highs").bind(enc.components_).decode(enc.transform(X))
    assert promise.exact.any()
    np.testing.assert_array_equal(promise.exact, sl.metrics.row_errors(X, rec.x) <= 1e-10)


def test_a_file_of_rows_packs_without_loss(fitted):
    X = sp.csr_array(sp.vstack([blocks(50, 12, 5, seed=6), sparse_rows(5, 60, 9, seed=7)]))
    packed = sl.encode_lossless(fitted, X)
    assert len(packed.measured) >= 50
    assert np.abs((sl.decode_lossless(packed) - X).toarray()).max() <= 1e-10
    assert packed.ratio_sparse < 1.0  # five numbers in the place of five numbers and five places


# ---- when there is nothing to find --------------------------------------------------------------------------


def test_without_structure_it_says_so_and_is_no_worse_than_gaussian():
    X = sparse_rows(700, 60, 4, seed=8)
    enc = CertificateEncoder(16, max_steps=300, random_state=0, device="cpu").fit(X[:400])
    gaussian = sl.GaussianEncoder(16, random_state=0).fit(X)
    mine, other = (
        sl.metrics.exact_fraction(X[400:], e.inverse_transform(e.transform(X[400:]))) for e in (enc, gaussian)
    )
    assert enc.structure_found_ is False
    assert enc.report_.startswith("no structure found")
    assert mine > other - 3 * np.sqrt(0.25 / 300)


def test_where_a_gaussian_matrix_brings_back_everything_the_trained_one_is_kept_for_its_slack():
    X = sparse_rows(200, 20, 1, seed=19)
    enc = CertificateEncoder(15, max_steps=800, random_state=0, device="cpu").fit(X)
    assert enc.structure_found_ is False
    assert enc.report_ == "no structure found: every validation row comes back from a Gaussian matrix too."
    gaussian = sl.GaussianEncoder(15, random_state=0).fit(X)
    slack = sl.certificate.minimum_norm_dual(gaussian.components_, X)[1]
    assert enc.certify(X).slack.min() > slack.min()


@pytest.mark.parametrize(
    ("X", "m"),
    [
        (np.ones((20, 4)), 4),
        (np.ones((20, 4)), 2),
        (np.zeros((20, 4)), 2),
        (np.ones((5, 1)), 1),
    ],
    ids=["full rows", "full rows, too long", "empty rows", "one column"],
)
def test_rows_without_a_support_to_train_on_leave_the_gaussian_start(X, m):
    enc = CertificateEncoder(m, max_steps=8, random_state=0, device="cpu").fit(X)
    assert enc.structure_found_ is False
    assert "the Gaussian start is kept: no row has between 1 and n_components nonzeros" in enc.report_
    assert enc.history_["tried"] == []
    assert np.isfinite(enc.components_).all()


def test_rows_with_more_nonzeros_than_measurements_are_counted():
    X = sp.csr_array(sp.vstack([sparse_rows(40, 20, 2, seed=9), sparse_rows(10, 20, 7, seed=10)]))
    enc = CertificateEncoder(5, max_steps=8, random_state=0, device="cpu").fit(X, X_valid=X)
    assert enc.n_too_long_ == 10


def test_the_same_row_many_times_is_learned():
    X = np.tile([[0.0, 1.0, 2.0, 0.0, 0.0, 0.0, 0.0, 1.5]], (30, 1))
    enc = CertificateEncoder(3, max_steps=200, random_state=0, device="cpu").fit(X)
    np.testing.assert_allclose(enc.inverse_transform(enc.transform(X[:1])).toarray(), X[:1], atol=1e-10)


# ---- how it searches ----------------------------------------------------------------------------------------


def test_every_recipe_is_tried_and_the_history_says_what_came_of_it():
    X = sparse_rows(300, 40, 5, seed=11)
    enc = CertificateEncoder(12, max_steps=64, random_state=0, device="cpu").fit(X)
    first = enc.history_["tried"][: len(RECIPES)]
    assert [Recipe(**{k: row[k] for k in Recipe().as_dict()}) for row in first] == list(RECIPES)
    assert all(0 <= row["exact"] <= 1 and row["rmse"] >= 0 and row["n_steps"] == 4 for row in first)
    assert enc.history_["n_steps"] == sum(row["n_steps"] for row in enc.history_["tried"])


def test_what_the_user_fixes_is_not_searched():
    X = sparse_rows(200, 30, 3, seed=12)
    fixed = {"loss": "log", "margin": 0.4, "swap": 0.0, "uniform": 0.0, "thin": 0.5, "drop": 0.1, "learning_rate": 0.02}
    enc = CertificateEncoder(8, **fixed, max_steps=16, random_state=0, device="cpu").fit(X)
    assert [row for row in enc.history_["tried"] if not fixed.items() <= row.items()] == []
    assert enc.recipe_ == fixed


def test_training_on_parts_of_rows_brings_rows_nearer_that_are_too_long_to_come_back():
    data = sl.load_dataset("synthetic3", sizes=(1500, 200, 300))
    fixed = {"loss": "ratio", "margin": 0.7, "swap": 0.0, "max_steps": 150, "random_state": 0, "device": "cpu"}
    whole, parts = (
        sl.metrics.rmse(data.test, enc.inverse_transform(enc.transform(data.test)))
        for enc in (CertificateEncoder(10, thin=thin, **fixed).fit(data.train, X_valid=data.valid) for thin in (0, 1))
    )
    assert parts < 0.95 * whole


def test_a_callback_is_told_and_stops_the_search():
    events = []

    def stop_at_the_second(event):
        events.append(event)
        return len(events) == 2

    X = sparse_rows(200, 30, 6, seed=13)
    enc = CertificateEncoder(8, max_steps=64, random_state=0, device="cpu").fit(X, callback=stop_at_the_second)
    assert len(events) == 2
    assert enc.history_["stopped_by"] == "callback"
    assert len(enc.history_["tried"]) == 2


def test_given_validation_rows_are_used():
    X = sparse_rows(100, 30, 3, seed=14)
    hopeless = sparse_rows(50, 30, 9, seed=15)
    enc = CertificateEncoder(6, max_steps=16, random_state=0, device="cpu").fit(X, X_valid=hopeless)
    assert enc.history_["best"]["exact"] == 0.0


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"margin": "large"}, ValueError, "margin must be one of 'auto'; got 'large'"),
        ({"margin": 0.0}, ValueError, "margin must be a finite number above 0, got 0.0"),
        ({"margin": 1.5}, ValueError, "margin must be at most 1, got 1.5"),
        ({"swap": -0.1}, ValueError, "swap must be a finite number of at least 0, got -0.1"),
        ({"swap": None}, TypeError, "swap must be a number, got None"),
        ({"loss": "l2"}, ValueError, "loss must be one of 'hinge', 'log', 'ratio', 'softmax', 'auto'; got 'l2'"),
        ({"positive": 1}, ValueError, "positive must be one of True, False; got 1"),
        ({"learning_rate": 0.0}, ValueError, "learning_rate must be a finite number above 0, got 0.0"),
        ({"max_steps": 0}, ValueError, "max_steps must be at least 1, got 0"),
        ({"validation_fraction": 1.0}, ValueError, "validation_fraction must be below 1, got 1.0"),
        ({"device": "tpu9"}, ValueError, "device must be 'auto', 'cpu', 'cuda' or 'cuda:N', got 'tpu9'"),
    ],
)
def test_a_parameter_that_makes_no_sense_is_refused(params, error, message):
    with pytest.raises(error, match=message):
        CertificateEncoder(2, **({"device": "cpu"} | params)).fit(np.eye(6))


# ---- the parts ----------------------------------------------------------------------------------------------


def test_the_judge_agrees_with_decoding_every_row():
    A, X = np.random.default_rng(0).standard_normal((14, 40)), sparse_rows(120, 40, 5, seed=16)
    judge = Judge(X, positive=True, device=CPU)
    score = judge(A)
    errors = decode_errors(A, judge.X, positive=True, device=CPU)
    np.testing.assert_array_equal(score.errors <= 1e-10, errors <= 1e-10)
    np.testing.assert_allclose(score.errors, errors, atol=1e-10)
    assert 0.0 < score.proved.mean() < score.exact < 1.0


@pytest.mark.parametrize("value", [1e8, np.nan])
def test_an_answer_that_is_no_solution_counts_as_a_lost_row(value, monkeypatch):
    class Wild:
        def solve(self, Y):
            return SimpleNamespace(x=sp.csr_array(np.full((len(Y), 20), value)))

    monkeypatch.setattr("sparselens.encoders._certificate_task.solver", lambda *_: Wild())
    X = sparse_rows(5, 20, 2, seed=21)
    errors = decode_errors(np.random.default_rng(4).standard_normal((6, 20)), X, positive=True, device=CPU)
    np.testing.assert_allclose(errors, np.linalg.norm(X.toarray(), axis=1))


def test_a_score_is_zero_only_when_every_row_is_proved_to_come_back():
    proved = np.array([True, True, False])
    assert Score(np.array([0.0, 1e-12, 0.0]), np.ones(3, dtype=bool)).total == 0.0
    unproved, lost = Score(np.zeros(3), proved).total, Score(np.array([0.0, 0.0, 1e-9]), proved).total
    assert 0.0 < unproved < lost


def test_a_gain_may_be_a_proof():
    errors, proved = np.zeros(50), np.arange(50) < 20
    assert gains(Score(errors, proved), Score(errors, proved & False))
    assert not gains(Score(errors, proved), Score(errors, proved))
    assert gains(Score(errors, proved), Score(errors + 0.1, proved))


def test_measurements_are_left_out_of_a_step_and_supports_that_need_them_too():
    X = sp.csr_array(sp.vstack([sparse_rows(30, 40, 2, seed=22), sparse_rows(30, 40, 9, seed=23)]))
    task = CertificateTask(
        Columns(np.random.default_rng(5).standard_normal((10, 40)), CPU),
        SupportSampler(X),
        Judge(X, positive=True, device=CPU),
        Recipe(swap=0.0, drop=0.4),
        n_rows=240,
        positive=True,
        max_length=10,
    )
    batches = list(task.batches(torch.arange(240), [0, 60, 120, 180, 240], torch.Generator().manual_seed(0)))
    kept = [batch.measurements for batch in batches]
    assert len({tuple(k.tolist()) for k in kept}) == len(kept) == 4
    for batch in batches:
        assert all(int((part.signs != 0).sum(1).max()) <= len(batch.measurements) for part in batch.supports)
        task.module.zero_grad()
        task.loss(batch).backward()
        idle = np.setdiff1d(np.arange(10), batch.measurements)
        assert not task.module.columns.grad[:, idle].any()
        assert task.module.columns.grad[:, batch.measurements].any()


def test_validation_rows_that_are_not_decoded_are_trained_on():
    X, X_valid = sparse_rows(40, 30, 3, seed=24), sparse_rows(60, 30, 3, seed=25)
    enc = CertificateEncoder(6, n_validation=20, random_state=0)
    train, valid = enc._split(X, X_valid, seed=1)
    assert (train.shape[0], valid.shape[0]) == (80, 20)
    rows = np.sort(sp.vstack([train, valid]).toarray(), axis=0)
    np.testing.assert_array_equal(rows, np.sort(sp.vstack([X, X_valid]).toarray(), axis=0))
    np.testing.assert_array_equal(
        np.sort(valid.toarray(), axis=0), np.sort(X_valid[enc.validation_rows_].toarray(), axis=0)
    )
    assert enc._split(X, X_valid[:20], seed=1)[0].shape[0] == 40


def test_the_search_ends_when_longer_brings_nothing():
    X = sparse_rows(500, 30, 20, seed=26)  # far too long for 21 measurements
    enc = CertificateEncoder(21, max_steps=64, random_state=0, device="cpu").fit(X)
    assert enc.history_["stopped_by"] == "a longer training brought no gain"
    assert enc.history_["n_steps"] < 64


def test_a_trained_matrix_that_brings_back_every_row_is_kept_though_the_gaussian_one_loses_only_a_few():
    X = sparse_rows(600, 40, 3, seed=27)
    enc = CertificateEncoder(14, random_state=0, device="cpu").fit(X)
    assert 0.98 < enc.history_["gaussian"]["exact"] < 1.0 == enc.history_["best"]["exact"]
    assert enc.report_.startswith("no structure found, but a better matrix than a Gaussian one")


def test_a_difference_within_noise_is_no_victory():
    rng = np.random.default_rng(1)
    a, b = (rng.random((2, 400)) > 0.5).astype(float)
    assert not beats(a, b)
    assert beats(np.zeros(400), np.ones(400))
    assert not beats(np.zeros(400), np.full(400, 1e-15))


def test_rows_at_random_columns_keep_their_values():
    X = sparse_rows(30, 20, 4, seed=17)
    shuffled = at_random_columns(X, np.random.default_rng(0))
    assert (np.diff(shuffled.indptr) == 4).all()
    np.testing.assert_allclose(np.sort(shuffled.toarray()), np.sort(X.toarray()))
    assert (shuffled != X).nnz
