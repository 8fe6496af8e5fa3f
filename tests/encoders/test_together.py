"""Many trainings at once: each ends with what it gives alone, whatever the others do."""

from __future__ import annotations

import contextlib
import gc
import math
import weakref

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.base import clone

import sparselens as sl
from helpers import ENCODERS, sparse_rows
from sparselens import _closed_form, _closed_form_many, train_together
from sparselens._batches import SparseRows
from sparselens.encoders import together
from sparselens.encoders.together import fit_together
from sparselens.recovery import CheckpointError, TrainingDivergedError
from sparselens.train_together import Member, Stack
from sparselens.unroll import ISTANetwork, UnrolledNetwork, truncated_normal

TRAINED = ("l1ae", "istaae", "simple-ae", "deep-ae")
CPU = torch.device("cpu")


def encoders(name, **changes):
    """Three numbers of measurements, two seeds."""
    return [ENCODERS[name].make(m, seed).set_params(**changes) for m in (4, 9) for seed in (0, 1)]


def rows(seed):
    return sparse_rows(70, 30, 3, seed=seed), sparse_rows(20, 30, 3, seed=seed + 100)


@pytest.mark.parametrize("name", TRAINED)
def test_each_ends_with_what_it_gives_alone(name):
    together = encoders(name)
    data = [rows(seed) for seed in (0, 1, 2, 3)]
    alone = [clone(encoder).fit(X, X_valid=held_out) for encoder, (X, held_out) in zip(together, data, strict=True)]
    found = fit_together(together, [X for X, _ in data], X_valid=[held_out for _, held_out in data])
    assert found == together
    for encoder, other, (X, _) in zip(together, alone, data, strict=True):
        assert {"together": 4}.items() <= encoder.history_.items()
        assert {k: encoder.history_[k] for k in ("epoch", "n_epochs", "stopped_by")} == {
            k: other.history_[k] for k in ("epoch", "n_epochs", "stopped_by")
        }
        # the same sums in another order in float32; a sign of a number near zero may change
        np.testing.assert_allclose(encoder.history_["valid_loss"], other.history_["valid_loss"], rtol=2e-4)
        np.testing.assert_allclose(encoder.transform(X), other.transform(X), atol=2e-3)
        assert encoder.get_params() == other.get_params()
        assert encoder.training_data_ == other.training_data_
        assert set(encoder.tried_) == set(other.tried_)


@pytest.mark.parametrize("name", TRAINED)
def test_rows_that_all_share_are_split_by_each_seed(name):
    X, _ = rows(0)
    for encoder in fit_together(encoders(name), X):
        alone = clone(encoder).fit(X)
        np.testing.assert_allclose(encoder.history_["valid_loss"], alone.history_["valid_loss"], rtol=2e-4)


def test_each_stops_when_its_own_validation_says_so():
    X, held_out = rows(0)
    many = [sl.SimpleAE(m, max_epochs=60, validation_interval=1, patience=1, min_improvement=0.0, learning_rate=rate,
                        random_state=seed, batch_size=16, device="cpu")
            for rate in (1.0,) for m in (2, 5, 9, 14) for seed in (0, 1)]  # fmt: skip
    fit_together(many, X, X_valid=held_out)
    epochs = [encoder.history_["n_epochs"] for encoder in many]
    assert len(set(epochs)) > 2  # some left the stack while others went on
    for encoder in many:
        alone = clone(encoder).fit(X, X_valid=held_out)
        assert alone.history_["n_epochs"] == encoder.history_["n_epochs"]
        assert alone.history_["best_epoch"] == encoder.history_["best_epoch"]
        np.testing.assert_allclose(encoder.components_, alone.components_, atol=1e-5)


def test_what_an_optimiser_remembers_stays_with_its_network(monkeypatch):
    monkeypatch.setattr(train_together, "_LEAVE", 1.0)  # the stack shrinks with every network that ends
    X, held_out = rows(0)
    make = lambda m, seed: sl.DeepAE(  # noqa: E731
        m, n_hidden=12, max_epochs=40, validation_interval=2, patience=0, learning_rate=0.01, batch_size=16,
        random_state=seed, device="cpu",
    )  # fmt: skip
    many = fit_together([make(m, seed) for m in (2, 6) for seed in range(4)], X, X_valid=held_out)
    assert len({encoder.history_["n_epochs"] for encoder in many}) > 2
    for encoder in many:
        alone = clone(encoder).fit(X, X_valid=held_out)
        np.testing.assert_allclose(encoder.history_["valid_loss"], alone.history_["valid_loss"], rtol=1e-3)


@pytest.mark.parametrize(
    "options",
    [
        {"tied": False, "orthogonality_penalty": 0.3},
        {"norm": "none", "step_rule": "free", "final_relu": False, "beta": 0.2},
        {"step_rule": "fixed", "beta": 0.5},
        {"nonlinearity": "tanh"},
        {"n_steps": 0},
    ],
)
def test_the_variants_of_the_network_go_together_too(options):
    X, held_out = rows(0)
    for encoder in fit_together(encoders("l1ae", **options), X, X_valid=held_out):
        alone = clone(encoder).fit(X, X_valid=held_out)
        # a sign of a number near zero may change, and moves a whole row
        np.testing.assert_allclose(encoder.history_["valid_loss"], alone.history_["valid_loss"], rtol=5e-3)


def test_a_penalty_is_each_ones_own():
    X, held_out = rows(0)
    weights = (0.0, 0.5, 5.0)
    many = [sl.L1AE(6, n_steps=2, max_epochs=8, beta=0.2, batch_size=16, orthogonality_penalty=weight, random_state=0,
                    device="cpu") for weight in weights]  # fmt: skip
    fit_together(many, X, X_valid=held_out)
    far = [np.linalg.norm(np.eye(6) - A @ A.T) for A in (encoder.components_ for encoder in many)]
    assert far[0] > far[1] > far[2]
    alone = clone(many[1]).fit(X, X_valid=held_out)
    np.testing.assert_allclose(many[1].components_, alone.components_, atol=1e-4)


def test_one_that_diverges_does_not_disturb_the_others():
    X, held_out = rows(0)
    many = encoders("l1ae", beta=0.2)
    many[2].set_params(orthogonality_penalty=1e30)
    with pytest.raises(TrainingDivergedError, match=r"1 of 4 trainings diverged \(encoders 2; the others are fitted\)"):
        fit_together(many, X, X_valid=held_out)
    assert not hasattr(many[2], "training_data_")
    for encoder in (many[0], many[1], many[3]):
        alone = clone(encoder).fit(X, X_valid=held_out)
        np.testing.assert_allclose(encoder.components_, alone.components_, atol=1e-3)


def test_a_callback_hears_of_all_and_ends_all():
    X, held_out = rows(0)
    events = []
    many = encoders("deep-ae", n_hidden=(4, 6), max_epochs=50, validation_interval=10)
    fit_together(many, X, X_valid=held_out, callback=lambda event: events.append(event) or len(events) == 3)
    assert [event.epoch for event in events] == [1, 2, 3]
    for encoder in many:
        assert (encoder.history_["stopped_by"], encoder.history_["epoch"]) == ("callback", [3])
        assert encoder.n_hidden_ == 4  # the second width was not begun
    events.clear()
    fit_together(encoders("deep-ae", n_hidden=(4, 6)), X, X_valid=held_out, callback=events.append)
    parts = [event.progress for event in events]
    assert parts == sorted(parts)
    assert parts[-1] == 1.0
    assert [event.seconds for event in events] == sorted(event.seconds for event in events)


@pytest.mark.parametrize("name", TRAINED)
@pytest.mark.parametrize("at", [1, 7, 12])
def test_a_stack_that_was_killed_goes_on_and_ends_with_the_same_bits(name, at, tmp_path, monkeypatch):
    monkeypatch.setattr(together, "_KEEP", 0.0)
    X, held_out = rows(0)
    options = {"max_epochs": 20, "validation_interval": 2, "patience": 1}
    if name == "deep-ae":
        options["n_hidden"] = (4, 6)
    whole = fit_together(encoders(name, **options), X, X_valid=held_out)

    def kill(event):
        events.append(event)
        if len(events) > at:
            raise KeyboardInterrupt

    for _ in range(3):  # killed again and again; the last time where it has ended already, perhaps
        events = []
        with contextlib.suppress(KeyboardInterrupt):
            fit_together(encoders(name, **options), X, X_valid=held_out, callback=kill, checkpoint=tmp_path)
    resumed = fit_together(encoders(name, **options), X, X_valid=held_out, checkpoint=tmp_path)
    for one, other in zip(whole, resumed, strict=True):
        np.testing.assert_array_equal(one.transform(X), other.transform(X))
        assert {**one.history_, "seconds": 0} == {**other.history_, "seconds": 0}
        assert one.tried_ == other.tried_


def test_a_stack_that_shrank_and_one_that_diverged_go_on_too(tmp_path, monkeypatch):
    monkeypatch.setattr(together, "_KEEP", 0.0)
    monkeypatch.setattr(train_together, "_LEAVE", 1.0)
    X, held_out = rows(0)

    def make():
        return [sl.DeepAE(m, n_hidden=12, max_epochs=40, validation_interval=2, patience=0, learning_rate=rate,
                          batch_size=16, random_state=seed, device="cpu")
                for rate in (0.01,) for m in (2, 6) for seed in range(4)]  # fmt: skip

    whole = fit_together(make(), X, X_valid=held_out)
    ends = sorted(encoder.history_["n_epochs"] for encoder in whole)
    assert ends[0] < ends[-1]

    def kill(event):
        if event.epoch == ends[-1] - 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit_together(make(), X, X_valid=held_out, callback=kill, checkpoint=tmp_path)
    epochs = []
    resumed = fit_together(
        make(), X, X_valid=held_out, callback=lambda event: epochs.append(event.epoch), checkpoint=tmp_path
    )
    assert epochs[0] > ends[0]  # not from the beginning
    for one, other in zip(whole, resumed, strict=True):
        np.testing.assert_array_equal(one.transform(X), other.transform(X))


def test_what_diverged_is_said_after_a_kill_too(tmp_path, monkeypatch):
    monkeypatch.setattr(together, "_KEEP", 0.0)
    X, held_out = rows(0)

    def make():
        many = encoders("l1ae", beta=0.2, max_epochs=6, validation_interval=1)
        many[2].set_params(orthogonality_penalty=1e30)
        return many

    def kill(event):
        if event.epoch == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit_together(make(), X, X_valid=held_out, callback=kill, checkpoint=tmp_path)
    with pytest.raises(TrainingDivergedError, match=r"1 of 4 trainings diverged \(encoders 2; the others are fitted\)"):
        fit_together(make(), X, X_valid=held_out, checkpoint=tmp_path)


def test_a_stack_of_other_encoders_is_not_taken_for_this_one(tmp_path):
    X, held_out = rows(0)
    fit_together(encoders("l1ae"), X, X_valid=held_out, checkpoint=tmp_path)
    with pytest.raises(CheckpointError, match="training with other parameters or data"):
        fit_together(encoders("l1ae", beta=0.3), X, X_valid=held_out, checkpoint=tmp_path)
    with pytest.raises(ValueError, match="random_state is None"):
        fit_together(encoders("l1ae", random_state=None), X, X_valid=held_out, checkpoint=tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"learning_rate": 0.0}, "learning_rate must be"),
        ({"orthogonality_penalty": -1.0}, "orthogonality_penalty must"),
    ],
)
def test_a_wrong_parameter_is_refused_as_in_fit(changes, message):
    X, held_out = rows(0)
    with pytest.raises(ValueError, match=message):
        fit_together(encoders("l1ae", **changes), X, X_valid=held_out)


def test_progress_never_goes_back_even_where_the_first_diverges(monkeypatch):
    X, held_out = rows(0)
    event_of, parts = train_together._event, []

    def diverging(members, *rest):
        members[0].error = TrainingDivergedError("as if")
        return event_of(members, *rest)

    monkeypatch.setattr(train_together, "_event", diverging)
    many = encoders("deep-ae", n_hidden=np.array([4, 6]), max_epochs=3, validation_interval=1)
    with pytest.raises(TrainingDivergedError):
        fit_together(many, X, X_valid=held_out, callback=lambda event: parts.append(event.progress))
    assert parts == sorted(parts)
    assert len(parts) == 6


def test_networks_that_have_left_are_let_go_of(monkeypatch):
    left, alive, keep = [], [], Stack.keep

    def watched(stack, places):
        left.append(weakref.ref(stack.parameters["A"]))
        keep(stack, places)

    def look(event):
        gc.collect()
        alive.append(sum(ref() is not None for ref in left))

    monkeypatch.setattr(Stack, "keep", watched)
    monkeypatch.setattr(train_together, "_LEAVE", 1.0)
    many = [sl.SimpleAE(m, max_epochs=60, validation_interval=1, patience=1, min_improvement=0.0, learning_rate=1.0,
                        random_state=0, batch_size=16, device="cpu") for m in (2, 5, 9, 14)]  # fmt: skip
    fit_together(many, rows(0)[0], X_valid=rows(0)[1], callback=look)
    assert len(left) >= 2
    assert not any(alive)


def test_padding_stays_zero_and_changes_nothing():
    networks = [UnrolledNetwork(truncated_normal((m, 21), m), n_steps=3, beta=0.3) for m in (4, 5)]
    X = torch.rand(2, 6, 21)
    stack = Stack(networks, [0.0, 0.1], CPU)
    losses = stack.put_gradients(X)
    for k, network in enumerate(networks):
        m = len(network.A)
        loss = network.loss(_sparse(X[k]))
        A = network.A
        extra = 0.1 * (torch.eye(m) - A @ A.t()).square().sum() if k else 0.0
        (loss + extra).backward()
        torch.testing.assert_close(losses[k], (loss + extra).detach(), rtol=1e-5, atol=1e-5)
        gradient = stack.unpack(stack.parameters["A"].grad[k : k + 1])
        torch.testing.assert_close(gradient[:m], A.grad, rtol=1e-4, atol=1e-4)
        assert not gradient[m:].any()


@pytest.mark.parametrize("step_rule", ["beta/t", "free"])
def test_a_step_size_that_has_passed_zero_counts_by_its_magnitude_in_a_stack_too(step_rule):
    networks = [UnrolledNetwork(truncated_normal((4, 21), k), n_steps=3, beta=0.3, step_rule=step_rule) for k in (0, 1)]
    with torch.no_grad():
        networks[1].step.neg_()
    X = torch.rand(2, 6, 21)
    stack = Stack(networks, [0.0, 0.0], CPU)
    losses = stack.put_gradients(X)
    for k, network in enumerate(networks):
        loss = network.loss(_sparse(X[k]))
        loss.backward()
        torch.testing.assert_close(losses[k], loss.detach(), rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(stack.parameters["step"].grad[k], network.step.grad, rtol=1e-4, atol=1e-4)


def _sparse(X):
    (batch,) = SparseRows(sp.csr_array(X.numpy())).in_order(len(X))
    return batch


@pytest.mark.parametrize("final_relu", [True, False])
@pytest.mark.parametrize("T", [0, 1, 4])
def test_the_stacked_closed_form_is_the_single_one_of_each_network(T, final_relu):
    K, n, m, d = 3, 7, 5, 20
    generator = torch.Generator().manual_seed(T)
    draw = lambda *shape: torch.randn(*shape, generator=generator)  # noqa: E731
    X, A, B = draw(K, n, d).relu(), draw(K, m, d) / math.sqrt(d), draw(K, m, d) / math.sqrt(d)
    alpha, g, b = draw(K, T).abs(), draw(K, T, d).abs() + 0.5, 0.1 * draw(K, T, d)
    losses, found = _closed_form_many.losses_and_gradients(X, A, B, alpha, g, b, final_relu=final_relu)
    for k in range(K):
        loss, expected = _closed_form.loss_and_gradients(
            _sparse(X[k]), A[k], B[k], alpha[k], g[k], b[k], final_relu=final_relu
        )
        torch.testing.assert_close(losses[k], loss, rtol=1e-4, atol=1e-4)
        for name in expected._fields:
            torch.testing.assert_close(getattr(found, name)[k], getattr(expected, name), rtol=1e-3, atol=1e-3)


def test_columns_cut_into_parts_give_the_same_gradients():
    networks = [UnrolledNetwork(truncated_normal((m, 22), m), n_steps=3, beta=0.3) for m in (4, 5)]
    X = torch.rand(2, 6, 22)
    whole, cut = Stack(networks, [0.1, 0.0], CPU), Stack(networks, [0.1, 0.0], CPU, parts=4)
    padded = torch.zeros(2, 6, 24)
    padded[:, :, :22] = X
    torch.testing.assert_close(cut.put_gradients(padded), whole.put_gradients(X))
    torch.testing.assert_close(cut.predict(padded)[:, :, :22], whole.predict(X), rtol=1e-4, atol=1e-5)
    for name, value in whole.parameters.items():
        for k in range(2):
            one = whole.unpack(value.grad[k : k + 1])
            other = cut.unpack(cut.parameters[name].grad[k : k + 1])
            if one.ndim > 1:
                assert not other[:, 22:].any()
                other = other[:, :22]
            torch.testing.assert_close(other, one, rtol=1e-4, atol=1e-5)


def test_cut_and_joined_are_inverse():
    value = torch.arange(24.0).view(2, 2, 6)
    parts = _closed_form_many.cut(value, 3)
    assert parts.shape == (6, 2, 2)
    assert parts[1].tolist() == value[0, :, 2:4].tolist()
    assert torch.equal(_closed_form_many.joined(parts, 3), value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: [], "there is no encoder to fit"),
        (lambda: [sl.L1AE(4)] * 2, "an encoder is in the list twice"),
        (
            lambda: [sl.GaussianEncoder(4)],
            "GaussianEncoder is not trained by gradient steps on a network. Fit it alone",
        ),
        (lambda: [sl.L1AE(4, checkpoint="x")], "checkpoint is set"),
        (lambda: [sl.L1AE(4, clip_norm=1.0)], "clip_norm is set"),
        (lambda: [sl.L1AE(4, norm="batch")], "norm='batch' keeps statistics"),
        (lambda: [sl.L1AE(4, n_steps="auto")], "n_steps='auto' trains one depth after the other"),
        (lambda: [sl.L1AE(4), sl.SimpleAE(4)], "must be of one class, got L1AE and SimpleAE"),
        (
            lambda: [sl.L1AE(4), sl.L1AE(4, n_steps=5)],
            "may differ in n_components, random_state, orthogonality_penalty",
        ),
    ],
)
def test_encoders_that_do_not_go_together_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        fit_together(make(), rows(0)[0])


def test_rows_that_do_not_go_together_are_refused():
    X, held_out = rows(0)
    with pytest.raises(ValueError, match="X is a list of 3 matrices for 4 encoders"):
        fit_together(encoders("l1ae"), [X, X, X])
    with pytest.raises(ValueError, match=r"rows of one shape: X has \(69, 30\) after \(70, 30\)"):
        fit_together(encoders("l1ae"), [X, X, X, X[1:]], X_valid=held_out)


def test_a_member_keeps_its_best_weights():
    X, held_out = (SparseRows(part) for part in rows(0))
    member = Member(ISTANetwork(truncated_normal((5, 30), 0), n_steps=2))
    settings = sl.train.Settings(batch_size=16, max_epochs=6, validation_interval=1, patience=100)
    train_together.train_together([member], X, held_out, settings, learning_rate=2.0)
    history = member.history
    assert history.best == min(history.valid_loss)
    total = sum(
        float((member.network(batch.dense() @ member.network.A.t()) - batch.dense()).detach().square().sum())
        for batch in held_out.in_order(16)
    )
    assert total / held_out.n_rows == pytest.approx(history.best, rel=1e-4)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.filterwarnings("default")  # of the compiler's own
@pytest.mark.parametrize("name", TRAINED)
def test_a_gpu_trains_together_what_it_trains_alone(name):
    X, held_out = rows(0)
    for encoder in fit_together(encoders(name, device="cuda"), X, X_valid=held_out):
        alone = clone(encoder).fit(X, X_valid=held_out)
        # float16 and TF32 products have ten bits of mantissa each
        np.testing.assert_allclose(encoder.history_["valid_loss"], alone.history_["valid_loss"], rtol=0.05)
