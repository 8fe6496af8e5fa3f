"""ℓ1-AE and ISTA-AE: what they learn, their presets, their variants, their decoders."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import sparselens as sl
from helpers import gaussian, sparse_rows
from sparselens._validation import unit_rows
from sparselens.encoders.l1ae import ISTAAE, L1AE, PRESETS
from sparselens.recovery import TrainingDivergedError
from sparselens.unroll import UnrolledNetwork, truncated_normal

QUICK = {"n_steps": 3, "max_epochs": 4, "validation_interval": 2, "batch_size": 32, "random_state": 0, "device": "cpu"}


def block_rows(n: int, d: int, block: int, seed: int) -> sp.csr_array:
    """Rows with one block of nonzeros each: the paper's first synthetic set, smaller."""
    rng = np.random.default_rng(seed)
    X = np.zeros((n, d))
    for row, start in zip(X, rng.integers(d // block, size=n) * block, strict=True):
        row[start : start + block] = rng.uniform(0, 1, block)
    return unit_rows(sp.csr_array(X))


@pytest.fixture(scope="module")
def trained():
    X = block_rows(1500, 60, 3, seed=0)
    settings = {"max_epochs": 60, "learning_rate": 0.02, "batch_size": 64}
    return L1AE(7, n_steps=5, random_state=0, device="cpu", **settings).fit(X)


# ---- what is learned ----------------------------------------------------------------------------------------


def test_training_learns_the_structure_that_a_random_matrix_misses(trained):
    X = block_rows(200, 60, 3, seed=1)
    learned = sl.recovery_report(X, trained.decoder().decode(trained.transform(X)))
    drawn = gaussian(7, 60, seed=0)
    random = sl.recovery_report(X, sl.L1Decoder().bind(drawn).decode(X @ drawn.T))
    # measured: all rows against a fifth of them
    assert learned.exact > random.exact + 0.5
    assert learned.rmse < 0.5 * random.rmse


def test_the_loss_falls_and_the_best_weights_are_kept(trained):
    history = trained.history_
    assert history["best"] == min(history["valid_loss"])
    assert history["best"] < 0.5 * history["valid_loss"][0]


def test_columns_that_never_occur_stay_small():
    # the paper's toy example: A concentrates on the columns that carry data
    X = sp.hstack([sparse_rows(600, 10, 3, seed=0), sp.csr_array((600, 30))], format="csr")
    enc = L1AE(6, n_steps=5, max_epochs=60, learning_rate=0.05, random_state=0, device="cpu").fit(X)
    norms = np.linalg.norm(enc.components_, axis=0)
    assert norms[:10].mean() > 2 * norms[10:].mean()


def test_the_matrix_depends_on_directions_of_rows_alone_unless_told_otherwise():
    X = sparse_rows(50, 12, 3, seed=0)
    scaled = sp.csr_array(sp.diags_array(np.random.default_rng(0).uniform(0.5, 2, 50)) @ X)
    same = [L1AE(4, **QUICK).fit(rows).components_ for rows in (X, scaled)]
    np.testing.assert_allclose(*same, atol=1e-5)  # the scaling itself rounds, in float32
    other = [L1AE(4, normalize=False, **QUICK).fit(rows).components_ for rows in (X, scaled)]
    assert np.abs(other[0] - other[1]).max() > 1e-4


# ---- validation rows ----------------------------------------------------------------------------------------


def test_without_validation_rows_a_seeded_part_is_held_out():
    X = sparse_rows(50, 12, 3, seed=0)
    enc = L1AE(4, validation_fraction=0.3, **QUICK)
    train, valid = enc._split(X, None, seed=5)
    again = enc._split(X, None, seed=5)
    assert train.shape[0] == 35
    assert valid.shape[0] == 15
    assert (abs(train - again[0]) > 0).nnz == 0
    together = {row.tobytes() for row in sp.vstack([train, valid]).toarray()}
    assert together == {row.tobytes() for row in unit_rows(X).toarray()}


def test_given_validation_rows_every_row_is_trained_on():
    X, V = sparse_rows(50, 12, 3, seed=0), sparse_rows(20, 12, 3, seed=1)
    train, valid = L1AE(4)._split(X, V, seed=0)
    assert (train.shape[0], valid.shape[0]) == (50, 20)


def test_the_validation_loss_is_that_of_the_decoder(trained):
    X, V = sparse_rows(50, 12, 3, seed=0), unit_rows(sparse_rows(20, 12, 3, seed=1))
    enc = L1AE(4, **QUICK).fit(X, X_valid=V)
    own = sl.metrics.rmse(V, enc.decoder_.decode(enc.transform(V)).x)
    assert own**2 == pytest.approx(enc.history_["best"], rel=1e-4)  # float64 against float32


# ---- parameters ---------------------------------------------------------------------------------------------


def test_the_presets_are_the_paper_s_table():
    assert list(PRESETS) == ["toy", "synthetic1", "synthetic2", "synthetic3", "amazon", "wiki10-31k", "rcv1"]
    amazon = L1AE.preset("amazon", n_components=40)
    assert (amazon.n_steps, amazon.batch_size, amazon.learning_rate) == (60, 256, 0.01)
    assert (amazon.max_epochs, amazon.validation_interval, amazon.patience) == (20_000, 1, 1)
    assert L1AE.preset("rcv1", patience=7).patience == 7
    assert ISTAAE.preset("synthetic1").n_steps == 10


def test_a_preset_that_does_not_exist_is_refused_with_the_names():
    with pytest.raises(ValueError, match="no preset 'mnist': the names are toy, synthetic1"):
        L1AE.preset("mnist")
    with pytest.raises(TypeError, match="depth"):
        L1AE.preset("toy", depth=3)


@pytest.mark.parametrize(
    "options",
    [
        {"norm": "batch"},
        {"norm": "none"},
        {"nonlinearity": "tanh"},
        {"tied": False},
        {"final_relu": False},
        {"step_rule": "free"},
        {"step_rule": "fixed"},
        {"n_steps": 0},
        {"n_steps": "auto", "max_steps": 10},
        {"orthogonality_penalty": 0.1},
        {"clip_norm": 0.5},
        {"beta": 0.1},
    ],
    ids=lambda options: "-".join(f"{k}={v}" for k, v in options.items()),
)
def test_every_variant_of_the_paper_trains_saves_and_loads(options, tmp_path):
    X = sparse_rows(70, 12, 3, seed=0)
    plain = L1AE(4, **QUICK).fit(X)
    enc = L1AE(4, **(QUICK | options)).fit(X)
    assert np.isfinite(enc.components_).all()
    assert not np.array_equal(enc.components_, plain.components_)
    Y = enc.transform(X)
    again = sl.load(enc.save(tmp_path / "model"))
    np.testing.assert_array_equal(again.transform(X), Y)
    np.testing.assert_array_equal(again.decoder_.decode(Y).x.toarray(), enc.decoder_.decode(Y).x.toarray())


def test_the_penalty_pulls_the_singular_values_towards_one():
    X = sparse_rows(100, 12, 3, seed=0)
    free, pulled = (
        L1AE(4, orthogonality_penalty=penalty, **(QUICK | {"max_epochs": 100})).fit(X).components_
        for penalty in (0.0, 1.0)
    )
    off = [np.abs(np.linalg.svd(A, compute_uv=False) - 1).max() for A in (free, pulled)]
    assert off[1] < 0.1 < off[0]


def test_the_depth_search_stops_when_validation_stops_improving():
    X = block_rows(300, 40, 4, seed=0)
    common = QUICK | {"max_epochs": 10, "n_steps": "auto"}
    enc = L1AE(6, max_steps=20, **common).fit(X)
    losses = list(enc.tried_.values())
    assert [int(depth) for depth in enc.tried_] == list(range(5, 5 * len(losses) + 1, 5))
    assert losses[enc.n_steps_ // 5 - 1] == min(losses)
    falls = [b <= 0.99 * min(losses[: i + 1]) for i, b in enumerate(losses[1:])]
    assert all(falls[:-1])
    assert not falls[-1] or len(losses) == 4
    # a search that asks for the impossible stops at once; its answer is the depth trained alone
    strict = L1AE(6, max_steps=20, depth_tol=0.999, **common).fit(X)
    assert list(strict.tried_) == ["5", "10"]
    alone = L1AE(6, **(common | {"n_steps": strict.n_steps_})).fit(X)
    np.testing.assert_array_equal(strict.components_, alone.components_)


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"n_steps": "deep"}, ValueError, "n_steps must be one of 'auto'; got 'deep'"),
        ({"n_steps": 2.5}, TypeError, "n_steps must be a whole number, got 2.5"),
        ({"n_steps": "auto", "max_steps": 4}, ValueError, "max_steps must be at least 5, got 4"),
        ({"learning_rate": 0.0}, ValueError, "learning_rate must be a finite number above 0"),
        ({"validation_fraction": 1.0}, ValueError, "validation_fraction must be below 1"),
        ({"tied": "no"}, ValueError, "tied must be one of True, False"),
        ({"orthogonality_penalty": -1.0}, ValueError, "orthogonality_penalty must be"),
        ({"batch_size": 0}, ValueError, "batch_size must be at least 1"),
        ({"norm": "layer"}, ValueError, "norm must be one of"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(options, kind, message):
    with pytest.raises(kind, match=message):
        L1AE(4, **(QUICK | options)).fit(sparse_rows(20, 12, 3, seed=0))


def test_negative_rows_are_refused():
    with pytest.raises(ValueError, match="negative values in row"):
        L1AE(4, **QUICK).fit(sparse_rows(20, 12, 3, seed=0, signed=True))


# ---- the trained network as a decoder -----------------------------------------------------------------------


def test_the_default_decoder_is_l1_minimisation_and_the_network_is_there_too(trained):
    X = block_rows(20, 60, 3, seed=1)
    Y = trained.transform(X)
    assert isinstance(trained.decoder(), sl.L1Decoder)
    own = trained.decoder_.decode(Y)
    assert (own.status == sl.Status.ESTIMATE).all()
    net = UnrolledNetwork.from_weights(trained.components_, trained.weights_, n_steps=5)
    np.testing.assert_allclose(own.x.toarray(), net(torch.from_numpy(Y)).detach().numpy(), atol=1e-14)


def test_a_new_encoder_starts_at_the_truncated_normal_of_its_seed():
    X = sparse_rows(20, 12, 3, seed=0)
    enc = L1AE(4, **(QUICK | {"learning_rate": 1e-30})).fit(X)
    assert np.abs(enc.components_).max() <= 2 / np.sqrt(12) + 1e-7
    assert np.unique(enc.components_).size == 48
    assert truncated_normal((4, 12), seed=0).shape == enc.components_.shape


def test_ista_trains_and_its_network_decodes(tmp_path):
    X = block_rows(400, 40, 4, seed=0)
    enc = ISTAAE(8, n_steps=4, max_epochs=40, learning_rate=0.05, random_state=0, device="cpu").fit(X)
    assert enc.history_["valid_loss"][-1] < enc.history_["valid_loss"][0]
    Y = enc.transform(X[:10])
    again = sl.load(enc.save(tmp_path / "model"))
    np.testing.assert_array_equal(again.decoder_.decode(Y).x.toarray(), enc.decoder_.decode(Y).x.toarray())


@pytest.mark.parametrize("remedy", [{"learning_rate": 0.001}, {"clip_norm": 1.0}])
def test_the_remedies_for_divergence_work_where_training_diverges(remedy):
    # one-hot rows of 15,626 columns, as in the Amazon set: at T = 10 and learning rate 0.01 the first epoch diverges
    rng = np.random.default_rng(0)
    groups = [7518, 4243, 128, 177, 449, 343, 2358, 67, 343]
    starts = np.cumsum([0, *groups[:-1]])
    columns = np.column_stack([a + rng.integers(size, size=400) for a, size in zip(starts, groups, strict=True)])
    X = sp.csr_array((np.full(3600, 1 / 3), columns.ravel(), 9 * np.arange(401)), shape=(400, 15_626))
    common = {"n_steps": 10, "batch_size": 32, "max_epochs": 1, "random_state": 0, "device": "cpu"}
    with pytest.raises(TrainingDivergedError, match="training loss became"):
        L1AE(10, **common).fit(X)
    enc = L1AE(10, **(common | remedy)).fit(X)
    assert np.isfinite(enc.components_).all()
    assert enc.history_["train_loss"][0] < 2 * 15_626 / (8 * 10**2)  # where it starts


@pytest.mark.parametrize("remedy", [{"learning_rate": 0.003}, {"clip_norm": 1.0}, {"beta": 0.1}])
def test_where_m_is_not_far_below_d_the_remedies_are_others(remedy):
    X = np.random.default_rng(0).uniform(size=(600, 64)) * (np.random.default_rng(1).uniform(size=(600, 64)) < 0.5)
    common = {"max_epochs": 5, "random_state": 0, "device": "cpu"}
    with pytest.raises(TrainingDivergedError, match="a smaller beta"):
        L1AE(40, **common).fit(X)
    with pytest.raises(TrainingDivergedError):
        L1AE(40, n_steps=30, **common).fit(X)
    assert np.isfinite(L1AE(40, **common | remedy).fit(X).components_).all()
