"""The training loop on a task small enough to follow by hand, and on ℓ1-AE where that is the point."""

from __future__ import annotations

import json
import math
import os
import socket
import subprocess
import sys
from itertools import chain, pairwise
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from safetensors.numpy import load_file

from helpers import sparse_rows
from sparselens import train as loop
from sparselens._checkpoint import Checkpoint
from sparselens.encoders.autoencoders import DeepAE, SimpleAE
from sparselens.encoders.l1ae import L1AE
from sparselens.persist import load as load_model
from sparselens.recovery import CheckpointError, TrainingDivergedError
from sparselens.train import Event, Settings, Task, Team, choose_device, train


class Fit(Task):
    """Least squares: move a vector towards the mean of the rows of a table."""

    def __init__(self, *, n_rows: int = 10, scores: list[float] | None = None, optimizer: str = "sgd") -> None:
        self.table = torch.from_numpy(np.random.default_rng(0).standard_normal((n_rows, 3)))
        self.module = torch.nn.Module()
        self.module.w = torch.nn.Parameter(torch.zeros(3, dtype=torch.float64))
        self.n_rows = n_rows
        self.scores = scores
        self.kind = optimizer
        self.seen: list[list[list[int]]] = []
        self.rates: list[float] = []
        self.noise = 0.0
        self.name = "fit"

    def batches(self, order, bounds, generator):
        self.seen.append([order[a:b].tolist() for a, b in pairwise(bounds)])
        for a, b in pairwise(bounds):
            yield self.table[order[a:b]] + self.noise * torch.randn(b - a, 3, generator=generator)

    def loss(self, batch):
        return (self.module.w - batch).square().sum(1).mean()

    def validate(self):
        return self.scores.pop(0) if self.scores is not None else self.loss(self.table).item()

    def optimizer(self):
        if self.kind == "sgd":
            return torch.optim.SGD(self.module.parameters(), lr=0.1)
        return torch.optim.Adam(self.module.parameters(), lr=0.1)

    def rate(self, progress):
        self.rates.append(progress)
        return 1.0 - progress

    @property
    def identity(self):
        return {"name": self.name}


def weights(task: Fit) -> np.ndarray:
    return task.module.w.detach().numpy().copy()


# ---- the order of things ------------------------------------------------------------------------------------


def test_every_epoch_visits_every_row_once_and_keeps_the_last_partial_batch():
    task = Fit(n_rows=10)
    train(task, Settings(batch_size=4, max_epochs=3))
    assert [[len(batch) for batch in epoch] for epoch in task.seen] == [[4, 4, 2]] * 3
    assert all(sorted(chain(*epoch)) == list(range(10)) for epoch in task.seen)
    assert task.seen[0] != task.seen[1]


def test_the_same_seed_gives_the_same_bits_and_another_seed_another_order():
    first, again, other = Fit(), Fit(), Fit()
    train(first, Settings(batch_size=4, max_epochs=3, seed=1))
    train(again, Settings(batch_size=4, max_epochs=3, seed=1))
    train(other, Settings(batch_size=4, max_epochs=3, seed=2))
    np.testing.assert_array_equal(weights(first), weights(again))
    assert first.seen != other.seen


def test_training_does_not_touch_the_global_random_generators():
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    train(Fit(), Settings(batch_size=4, max_epochs=2))
    assert torch.equal(torch.rand(1), expected)


def test_the_learning_rate_follows_the_schedule_of_the_task():
    task = Fit(n_rows=8)
    train(task, Settings(batch_size=4, max_epochs=2))
    assert task.rates == [0.0, 0.25, 0.5, 0.75]


def test_the_gradient_is_clipped_where_asked():
    free, clipped = Fit(), Fit()
    free.table += 100
    clipped.table += 100
    train(free, Settings(batch_size=10, max_epochs=1))
    train(clipped, Settings(batch_size=10, max_epochs=1, clip_norm=1.0))
    assert np.linalg.norm(weights(clipped)) == pytest.approx(0.1, rel=1e-6)  # learning rate times the clipped norm
    assert np.linalg.norm(weights(free)) > 10


# ---- early stopping -----------------------------------------------------------------------------------------


def test_training_stops_after_more_than_patience_scores_without_a_new_best():
    history = train(Fit(scores=[3.0, 2.0, 2.5, 2.4, 2.3, 0.0]), Settings(validation_interval=2, patience=2))
    assert history.stopped_by == "patience"
    assert history.valid_loss == [3.0, 2.0, 2.5, 2.4, 2.3]
    assert history.epoch == [2, 4, 6, 8, 10]
    assert (history.best, history.best_epoch, history.n_epochs) == (2.0, 4, 10)


def test_the_best_weights_are_put_back():
    task = Fit(scores=[1.0, 5.0, 5.0])
    kept = []
    train(
        task,
        Settings(batch_size=4, max_epochs=3, validation_interval=1),
        callback=lambda event: kept.append(weights(task)) and None,
    )
    np.testing.assert_array_equal(weights(task), kept[0])
    assert not np.array_equal(kept[0], kept[2])


def test_an_improvement_smaller_than_asked_does_not_count():
    history = train(Fit(scores=[1.0, 0.9995, 0.9]), Settings(max_epochs=3, validation_interval=1, min_improvement=1e-3))
    assert history.best_epoch == 3
    history = train(Fit(scores=[1.0, 0.9995]), Settings(max_epochs=2, validation_interval=1, min_improvement=1e-3))
    assert (history.best, history.best_epoch) == (1.0, 1)


def test_the_last_epoch_is_validated_whatever_the_interval():
    history = train(Fit(), Settings(max_epochs=7, validation_interval=5))
    assert history.epoch == [5, 7]
    assert history.stopped_by == "max_epochs"


# ---- progress -----------------------------------------------------------------------------------------------


def test_the_callback_is_told_about_every_epoch():
    events: list[Event] = []
    train(Fit(), Settings(max_epochs=4, validation_interval=2), callback=events.append)
    assert [event.epoch for event in events] == [1, 2, 3, 4]
    assert [event.valid_loss is None for event in events] == [True, False, True, False]
    assert events[0].best == math.inf
    assert events[3].best == min(events[1].valid_loss, events[3].valid_loss)
    assert all(event.max_epochs == 4 and event.seconds >= 0 and math.isfinite(event.train_loss) for event in events)


def test_a_true_answer_of_the_callback_stops_training_with_the_best_weights():
    task = Fit()
    history = train(task, Settings(validation_interval=1), callback=lambda event: event.epoch == 3)
    assert (history.stopped_by, history.n_epochs) == ("callback", 3)
    assert task.loss(task.table).item() == history.best


def test_a_callback_that_stops_between_two_validations_keeps_what_was_learned():
    task = Fit()
    history = train(task, Settings(validation_interval=10), callback=lambda event: event.epoch == 3)
    assert (history.epoch, history.best_epoch, history.stopped_by) == ([3], 3, "callback")
    assert weights(task).any()
    assert task.loss(task.table).item() == history.best
    # where the last epochs brought nothing, the best weights are those of an earlier validation
    history = train(Fit(scores=[1.0, 2.0]), Settings(validation_interval=2), callback=lambda event: event.epoch == 3)
    assert (history.epoch, history.best_epoch) == ([2, 3], 2)


@pytest.mark.parametrize("encoder", [L1AE(4, n_steps="auto", max_steps=15, depth_tol=0.0), DeepAE(4, n_hidden=(2, 8))])
def test_the_callback_hears_of_the_whole_fit_where_several_networks_are_trained(encoder):
    events: list[Event] = []
    encoder.set_params(max_epochs=3, random_state=0, device="cpu")
    encoder.fit(sparse_rows(40, 12, 3, seed=0), callback=events.append)
    assert len(events) == 3 * len(encoder.tried_) > 3
    for parts in ([event.progress for event in events], [event.seconds for event in events]):
        assert parts == sorted(set(parts))
    assert events[-1].progress == 1.0 or len(encoder.tried_) < 3


# ---- divergence ---------------------------------------------------------------------------------------------


def test_a_loss_that_is_not_a_number_ends_training_with_a_remedy():
    task = Fit()
    task.table[3, 0] = math.inf
    with pytest.raises(TrainingDivergedError, match="training loss became inf in epoch 1: lower the learning rate"):
        train(task, Settings(batch_size=4))
    assert np.isfinite(weights(task)).all()


def test_a_score_that_is_not_a_number_ends_training():
    with pytest.raises(TrainingDivergedError, match="validation loss became nan in epoch 2"):
        train(Fit(scores=[1.0, math.nan]), Settings(validation_interval=1))


def test_l1ae_says_what_to_do_where_the_paper_s_parameters_diverge():
    # At d = 15,626, T = 10 and learning rate 0.01 the first loss is about d/(8T²) = 20.
    X = sparse_rows(128, 15_626, 9, seed=0)
    with pytest.raises(TrainingDivergedError, match=r"learning_rate \(now 0\.3\).*clip_norm=1\.0.*n_steps, now 10"):
        L1AE(5, n_steps=10, learning_rate=0.3, max_epochs=20, random_state=0, device="cpu", batch_size=32).fit(X)


# ---- checkpoints --------------------------------------------------------------------------------------------


class KilledError(Exception):
    pass


def kill_at(epoch: int):
    def callback(event: Event) -> None:
        if event.epoch == epoch:
            raise KilledError

    return callback


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_a_training_killed_and_resumed_ends_with_the_same_bits(tmp_path, optimizer):
    settings = Settings(batch_size=4, max_epochs=9, validation_interval=2)
    whole, first, second = (Fit(optimizer=optimizer) for _ in range(3))
    for task in (whole, first, second):
        task.noise = 0.1  # the task's own random numbers are resumed too
    expected = train(whole, settings)
    with pytest.raises(KilledError):
        train(first, settings, callback=kill_at(7), checkpoint=Checkpoint(tmp_path, seconds=0))
    resumed = train(second, settings, checkpoint=Checkpoint(tmp_path, seconds=0))
    assert len(second.seen) == 3  # epochs 7, 8 and 9: the checkpoint was written after epoch 6
    np.testing.assert_array_equal(weights(second), weights(whole))
    assert resumed == expected


def test_an_encoder_killed_and_resumed_is_the_same_encoder(tmp_path, monkeypatch):
    monkeypatch.setattr(Checkpoint.__init__, "__kwdefaults__", {"seconds": 0.0})
    X = sparse_rows(60, 30, 3, seed=0)
    settings = {"n_steps": 3, "max_epochs": 8, "validation_interval": 1, "batch_size": 16, "random_state": 0}
    expected = L1AE(5, **settings, device="cpu").fit(X)
    with pytest.raises(KilledError):
        L1AE(5, **settings, device="cpu", checkpoint=tmp_path).fit(X, callback=kill_at(5))
    resumed = L1AE(5, **settings, device="cpu", checkpoint=tmp_path).fit(X)
    np.testing.assert_array_equal(resumed.components_, expected.components_)
    for name, value in expected.weights_.items():
        np.testing.assert_array_equal(resumed.weights_[name], value)
    assert resumed.history_ == expected.history_


def test_a_finished_training_is_not_trained_again(tmp_path):
    settings = Settings(batch_size=4, max_epochs=3)
    first, again = Fit(), Fit()
    train(first, settings, checkpoint=Checkpoint(tmp_path))
    train(again, settings, checkpoint=Checkpoint(tmp_path))
    assert again.seen == []
    np.testing.assert_array_equal(weights(again), weights(first))


def test_a_checkpoint_is_safetensors_and_json_and_keeps_one_state(tmp_path):
    (tmp_path / ".state-0123.safetensors.abcd.tmp.safetensors").write_bytes(b"half of what a killed process wrote")
    train(Fit(), Settings(max_epochs=4, validation_interval=1), checkpoint=Checkpoint(tmp_path, seconds=0))
    names = sorted(path.name for path in tmp_path.iterdir())
    assert len(names) == 2
    assert names[0] == "checkpoint.json"
    state = json.loads((tmp_path / "checkpoint.json").read_text())
    assert set(load_file(tmp_path / state["tensors"])) == {"module.w", "best.w"}


def test_a_checkpoint_is_written_no_more_often_than_asked(tmp_path):
    task = Fit()
    with pytest.raises(KilledError):
        train(
            task,
            Settings(validation_interval=1),
            callback=kill_at(5),
            checkpoint=Checkpoint(tmp_path / "folder", seconds=3600),
        )
    assert not list((tmp_path / "folder").iterdir())


def test_numbers_of_numpy_are_parameters_like_any_other(tmp_path):
    X = sparse_rows(30, 12, 3, seed=0)
    common = {"max_epochs": 2, "device": "cpu", "checkpoint": tmp_path / "state"}
    L1AE(np.int64(4), n_steps=np.int64(2), beta=np.float32(1), random_state=np.int64(0), **common).fit(X)
    again = L1AE(4, n_steps=2, random_state=0, **common).fit(X)
    assert again.history_["n_epochs"] == 2
    assert load_model(again.save(tmp_path / "model")).checkpoint == str(tmp_path / "state")


def test_a_folder_that_cannot_hold_a_checkpoint_is_refused_before_training(tmp_path):
    (tmp_path / "file").write_text("taken")
    task = Fit()
    with pytest.raises(CheckpointError, match=r"file cannot hold a checkpoint .*: pass another folder"):
        train(task, Settings(max_epochs=1), checkpoint=Checkpoint(tmp_path / "file"))
    assert task.seen == []


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda state, tensors: tensors.write_bytes(tensors.read_bytes()[:-1]), "truncated or was edited"),
        (lambda state, tensors: tensors.write_bytes(b"\0" + tensors.read_bytes()[1:]), "truncated or was edited"),
        (lambda state, tensors: tensors.unlink(), "cannot be read"),
        (lambda state, tensors: state.write_text(state.read_text()[:-20]), "checkpoint.json is damaged"),
        (lambda state, tensors: state.write_text(state.read_text().replace("n_epochs", "n_epoch")), "was edited"),
        (lambda state, tensors: state.write_text(state.read_text().replace('"n_bad": 0', '"n_bad": 9')), "was edited"),
        (lambda state, tensors: state.write_text("{}"), "is not a checkpoint of sparselens"),
        (
            lambda state, tensors: state.write_text(json.dumps({"format": "sparselens training checkpoint"})),
            "entries are missing",
        ),
    ],
    ids=["truncated", "flipped", "missing", "half a json", "a name", "a number", "foreign json", "no entries"],
)
def test_a_damaged_checkpoint_is_refused_with_the_reason(tmp_path, damage, message):
    settings = Settings(max_epochs=2, validation_interval=1)
    train(Fit(), settings, checkpoint=Checkpoint(tmp_path))
    damage(tmp_path / "checkpoint.json", next(tmp_path.glob("*.safetensors")))
    with pytest.raises(CheckpointError, match=message):
        train(Fit(), settings, checkpoint=Checkpoint(tmp_path))


def test_a_checkpoint_of_other_parameters_is_refused(tmp_path):
    train(Fit(), Settings(max_epochs=2), checkpoint=Checkpoint(tmp_path))
    with pytest.raises(CheckpointError, match=r"settings\.max_epochs was 2 and is 3.*another folder"):
        train(Fit(), Settings(max_epochs=3), checkpoint=Checkpoint(tmp_path))
    other = Fit()
    other.name = "another fit"
    with pytest.raises(CheckpointError, match=r"task\.name was 'fit' and is 'another fit'"):
        train(other, Settings(max_epochs=2), checkpoint=Checkpoint(tmp_path))


def test_a_checkpoint_of_an_encoder_with_other_parameters_or_rows_is_refused(tmp_path):
    X = sparse_rows(40, 20, 3, seed=0)
    common = {"n_steps": 2, "max_epochs": 2, "batch_size": 16, "random_state": 0, "device": "cpu"}
    L1AE(4, **common, checkpoint=tmp_path).fit(X)
    with pytest.raises(CheckpointError, match=r"task\.params\.norm was 'affine' and is 'none'"):
        L1AE(4, **common, norm="none", checkpoint=tmp_path).fit(X)
    with pytest.raises(CheckpointError, match="training rows was"):
        L1AE(4, **common, checkpoint=tmp_path).fit(2 * X[:39])
    with pytest.raises(CheckpointError, match=r"settings\.seed was"):
        L1AE(4, **(common | {"random_state": 1}), checkpoint=tmp_path).fit(X)


def test_a_checkpoint_without_a_seed_is_refused(tmp_path):
    with pytest.raises(ValueError, match="random_state is None, but a training that is resumed"):
        SimpleAE(2, checkpoint=tmp_path, device="cpu").fit(sparse_rows(10, 5, 2, seed=0))


# ---- several processes --------------------------------------------------------------------------------------

SHARED = """
import os, sys
import numpy as np, scipy.sparse as sp, torch
from sparselens.encoders.certificate import CertificateEncoder
from sparselens.encoders.l1ae import L1AE
torch.set_num_threads(1)
folder, rank = sys.argv[1], os.environ["RANK"]
X = sp.load_npz(folder + "/rows.npz")
enc = L1AE(6, n_steps=4, max_epochs=8, validation_interval=2, batch_size=20, random_state=0, device="cpu")
enc.fit(X, callback=(lambda event: event.epoch == 7) if rank == "0" else None)
cert = CertificateEncoder(10, max_steps=32, batch_size=32, random_state=0, device="cpu").fit(X)
searched = [row["rmse"] for row in cert.history_["tried"]]
np.savez(folder + "/" + rank, A=enc.components_, valid=enc.history_["valid_loss"], searched=searched)
"""


def run_two_processes(folder: Path) -> list[dict[str, np.ndarray]]:
    """What ``torchrun --nproc-per-node 2`` does, with its environment."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    running = []
    source = os.pathsep.join([str(Path(loop.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    for rank in ("0", "1"):
        env = os.environ | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
        env |= {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": "2", "PYTHONPATH": source}
        command = [sys.executable, "-c", SHARED, str(folder)]
        running.append(subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True))
    for process in running:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
    return [dict(np.load(folder / f"{rank}.npz")) for rank in range(2)]


def test_two_processes_train_the_encoder_that_one_does(tmp_path):
    # 49 training rows in batches of 20: the last batch of 9 is shared 5 to 4. The sums are the same up to their order
    # in float32 (6e-8); a few dozen steps let that grow to about 1e-6, far below 1e-4, while a lost share or a wrong
    # weight would show at 1e-2.
    X = sparse_rows(61, 30, 3, seed=0)
    sp.save_npz(tmp_path / "rows.npz", X)
    enc = L1AE(6, n_steps=4, max_epochs=8, validation_interval=2, batch_size=20, random_state=0, device="cpu")
    enc.fit(X, callback=lambda event: event.epoch == 7)  # in the second process nobody asks for an end
    two = run_two_processes(tmp_path)
    np.testing.assert_array_equal(two[0]["A"], two[1]["A"])
    np.testing.assert_array_equal(two[0]["searched"], two[1]["searched"])  # so that both search alike
    assert len(set(two[0]["searched"])) > 3
    assert len(two[0]["valid"]) == 4
    np.testing.assert_allclose(two[0]["A"], enc.components_, atol=1e-4)
    np.testing.assert_allclose(two[0]["valid"], enc.history_["valid_loss"], rtol=1e-4)


def test_the_shares_of_a_team_cover_every_batch_once():
    order = torch.arange(11)
    parts = [Team(rank, 3).share(order, 5) for rank in range(3)]
    for i, expected in enumerate([5, 5, 1]):
        rows = [local[bounds[i] : bounds[i + 1]].tolist() for local, bounds, _ in parts]
        assert len(list(chain(*rows))) == len(set(chain(*rows))) == expected
        assert sum(shares[i] for _, _, shares in parts) == pytest.approx(1.0)


# ---- settings and devices -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size must be at least 1, got 0"),
        ({"patience": -1}, "patience must be at least 0"),
        ({"clip_norm": 0.0}, "clip_norm must be a finite number above 0"),
        ({"matmul_precision": "low"}, "matmul_precision must be one of 'highest', 'high', 'medium'"),
    ],
)
def test_settings_that_make_no_sense_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Settings(**options)


@pytest.mark.parametrize(("asked", "on_a_cpu"), [("high", "highest"), ("medium", "medium")])
def test_the_matmul_precision_is_as_before_after_training(asked, on_a_cpu):
    before = torch.get_float32_matmul_precision()
    inside, task = set(), Fit()
    loss = task.loss
    task.loss = lambda batch: inside.add(torch.get_float32_matmul_precision()) or loss(batch)
    train(task, Settings(max_epochs=1, matmul_precision=asked))
    assert inside == {on_a_cpu}
    assert torch.get_float32_matmul_precision() == before


def test_a_device_that_is_not_there_is_refused():
    for device in ("abacus", "meta", "mps", None):
        with pytest.raises(ValueError, match=f"device must be 'auto', 'cpu', 'cuda' or 'cuda:N', got {device!r}"):
            choose_device(device)
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match="torch sees no GPU here"):
            choose_device("cuda")
        assert choose_device("auto").type == "cpu"


def test_a_gpu_that_is_not_there_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(ValueError, match=r"device='cuda:7' but torch sees only 2 GPU\(s\), from cuda:0 on"):
        choose_device("cuda:7")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.filterwarnings("default")  # of the compiler's own
def test_a_gpu_trains_the_encoder_that_a_cpu_does():
    X = sparse_rows(200, 40, 3, seed=0)
    settings = {"n_steps": 4, "max_epochs": 3, "validation_interval": 1, "batch_size": 32, "random_state": 0}
    cpu = L1AE(6, **settings, device="cpu").fit(X)
    gpu = L1AE(6, **settings, device="cuda").fit(X)
    # the same sums in another order in float32; see the test with two processes
    np.testing.assert_allclose(gpu.components_, cpu.components_, atol=1e-4)
