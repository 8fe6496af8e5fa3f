"""The one training loop. Read it from top to bottom: `train` is the whole story, the rest are its parts.

What is trained is a `Task`: a module, its batches, a loss, a validation score, an optimiser. The loop knows nothing
else, so that another loss, another optimiser or validation by an exact decoder is another task, not another flag.

* Epoch e visits the rows in an order that depends on the seed and on e alone, and the last partial batch is kept.
* Every `validation_interval` epochs, and after the last one, whatever made it the last, the task is scored; the best
  weights are kept, and they are what is left in the module at the end. Training stops after more than `patience` scores
  without a new best.
* A loss or a score that is not a number ends training with an error that names remedies.
* With a checkpoint folder a killed run goes on where it was and ends with the same bits.
* Under ``torchrun`` each process takes its share of every batch, and gradients are summed: the same result as one
  process up to the order of the sums.
"""

from __future__ import annotations

import atexit
import math
import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any

import torch
import torch.distributed as dist

from sparselens._batches import cuts
from sparselens._checkpoint import Checkpoint
from sparselens._random import derive_seed
from sparselens._validation import check_choice, check_count, check_positive_float
from sparselens.recovery import TrainingDivergedError

Callback = Callable[["Event"], Any]  # called after every epoch; a true answer stops training


class Task:
    """What the loop trains. A subclass sets the attributes and writes `batches`, `loss` and `validate`.

    Attributes
    ----------
    module : torch.nn.Module
        Holds the parameters; its ``state_dict`` is what is kept as the best weights and in checkpoints.
    n_rows : int
        The number of training rows.
    remedies : str
        What the error says to do when training diverges.
    graphable : bool
        Whether `loss` and its gradient are a fixed sequence of kernels for batches of one shape, without a wait for
        the GPU, without random numbers and without a change of state: then a CUDA graph replays them. Batches must
        be `DenseBatch`.
    identity : dict, optional
        What must be equal for a checkpoint to be resumed: parameters and a checksum of the data, as JSON.
    """

    module: torch.nn.Module
    n_rows: int
    remedies = "lower the learning rate, or clip the gradient (clip_norm=1.0)"
    graphable = False
    identity: dict[str, Any] | None = None

    def batches(self, order: torch.Tensor, bounds: list[int], generator: torch.Generator) -> Iterable[Any]:
        """Yield the rows ``order[bounds[i]:bounds[i + 1]]`` for each i; draw from `generator` and nowhere else."""
        raise NotImplementedError

    def loss(self, batch: Any) -> torch.Tensor:
        """The mean loss of the rows of a batch, a tensor of one entry on which ``backward`` can be called."""
        raise NotImplementedError

    def validate(self) -> float:
        """How bad the module is now, on rows that are not trained on: lower is better."""
        raise NotImplementedError

    def optimizer(self) -> torch.optim.Optimizer:
        """The optimiser of the module's parameters."""
        raise NotImplementedError

    def rate(self, progress: float) -> float:
        """The factor of the learning rate after the fraction `progress` of all steps of `max_epochs` epochs."""
        return 1.0


@dataclass(frozen=True)
class Settings:
    """How long and in which order; checked on creation."""

    batch_size: int = 128
    max_epochs: int = 20_000
    validation_interval: int = 10
    patience: int = 5
    min_improvement: float = 0.0  # a score counts as a new best when it is lower by at least this much
    clip_norm: float | None = None  # the gradient is scaled down to this norm
    seed: int = 0
    matmul_precision: str = "highest"  # "high" allows TF32 on a GPU, "medium" bfloat16 on any device

    def __post_init__(self) -> None:
        for name in ("batch_size", "max_epochs", "validation_interval"):
            check_count(getattr(self, name), name)
        check_count(self.patience, "patience", minimum=0)
        check_positive_float(self.min_improvement, "min_improvement", allow_zero=True)
        if self.clip_norm is not None:
            check_positive_float(self.clip_norm, "clip_norm")
        check_choice(self.matmul_precision, "matmul_precision", ("highest", "high", "medium"))


@dataclass(frozen=True)
class Event:
    """What a callback is told after an epoch."""

    epoch: int  # epochs done
    max_epochs: int
    train_loss: float  # mean over the epoch
    valid_loss: float | None  # None where this epoch was not validated
    best: float  # lowest validation score so far; infinity before the first
    seconds: float  # since this process began the fit
    progress: float = 0.0  # the part of the whole fit that is done, at least: an early stop ends it sooner


@dataclass
class History:
    """The course of a training: one entry a validation, and how it ended."""

    epoch: list[int] = field(default_factory=list)
    train_loss: list[float] = field(default_factory=list)
    valid_loss: list[float] = field(default_factory=list)
    best: float = math.inf
    best_epoch: int = 0
    n_epochs: int = 0
    stopped_by: str = ""  # "patience", "max_epochs" or "callback"; in a stack "divergence" too

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def train(
    task: Task, settings: Settings, *, callback: Callback | None = None, checkpoint: Checkpoint | None = None
) -> History:
    """Train the task's module until validation stops improving; the module then holds its best weights.

    Parameters
    ----------
    task : Task
    settings : Settings
    callback : callable, optional
        Called with an `Event` after every epoch. A true answer stops training (the best weights are kept).
    checkpoint : Checkpoint, optional
        Where to keep the state, and where to go on from if there is one.

    Returns
    -------
    History
    """
    team = Team.from_environment()
    module, history = task.module, History()
    optimizer = task.optimizer()
    base_rates = [group["lr"] for group in optimizer.param_groups]
    best, n_bad = _copy(module), 0
    if checkpoint is not None:
        config = {"settings": asdict(settings), "task": task.identity or {}, "processes": team.size}
        resumed = checkpoint.read(config, module, optimizer)
        if resumed is not None:
            best, n_bad, history = resumed.best, resumed.n_bad, History(**resumed.history)
    gradient_of = _GraphedGradient(task) if _use_graph(task) else _gradient
    began, device = time.perf_counter(), next(module.parameters()).device
    n_batches = math.ceil(task.n_rows / settings.batch_size)
    precision = precision_on(device, settings)
    remedies = task.remedies
    if precision != "highest":
        remedies += ". Or multiply in full float32 (matmul_precision='highest')"

    def validate(train_loss: float) -> float:
        nonlocal best, n_bad
        module.eval()
        with torch.no_grad(), matmul_precision(precision):
            score = float(task.validate())
        _check_finite(score, "validation loss", history.n_epochs, remedies)
        history.epoch.append(history.n_epochs)
        history.train_loss.append(train_loss)
        history.valid_loss.append(score)
        n_bad += 1
        if score < history.best - (settings.min_improvement if math.isfinite(history.best) else 0.0):
            best, n_bad = _copy(module), 0
            history.best, history.best_epoch = score, history.n_epochs
        return score

    while not history.stopped_by:
        epoch = history.n_epochs
        module.train()
        order, generator = epoch_order(task.n_rows, settings.seed, epoch)
        local, bounds, shares = team.share(order, settings.batch_size)
        total = torch.zeros((), dtype=torch.float64, device=device)
        with matmul_precision(precision):
            for i, batch in enumerate(task.batches(local, bounds, generator)):
                rate = task.rate((epoch * n_batches + i) / (settings.max_epochs * n_batches))
                for group, base in zip(optimizer.param_groups, base_rates, strict=True):
                    group["lr"] = base * rate
                loss = gradient_of(task, batch, shares[i])
                team.add_up(module, loss)
                if settings.clip_norm is not None:
                    torch.nn.utils.clip_grad_norm_(module.parameters(), settings.clip_norm)
                if device.type == "cpu":  # a GPU is asked once an epoch, because asking means waiting
                    _check_finite(float(loss), "training loss", epoch + 1, remedies)
                optimizer.step()
                total += loss.detach() * (min(settings.batch_size, task.n_rows - i * settings.batch_size) / task.n_rows)
        train_loss = float(total)
        _check_finite(train_loss, "training loss", epoch + 1, remedies)
        history.n_epochs += 1

        score = None
        if history.n_epochs % settings.validation_interval == 0 or history.n_epochs == settings.max_epochs:
            score = validate(train_loss)
            if n_bad > settings.patience:
                history.stopped_by = "patience"
        if history.n_epochs == settings.max_epochs and not history.stopped_by:
            history.stopped_by = "max_epochs"
        seconds, part = time.perf_counter() - began, history.n_epochs / settings.max_epochs
        event = Event(history.n_epochs, settings.max_epochs, train_loss, score, history.best, seconds, part)
        # Every process asks: one that has no callback must not leave the others waiting.
        if team.any(callback is not None and bool(callback(event))) and not history.stopped_by:
            history.stopped_by = "callback"
            if score is None:
                validate(train_loss)
        if checkpoint is not None and score is not None and team.rank == 0 and history.stopped_by != "callback":
            checkpoint.write(config, module, optimizer, best, n_bad, history.as_dict(), final=bool(history.stopped_by))

    module.load_state_dict(best)
    module.eval()
    return history


# ---- the parts ----------------------------------------------------------------------------------------------


class Team:
    """The processes that train together; one process is a team of one."""

    def __init__(self, rank: int = 0, size: int = 1) -> None:
        self.rank, self.size = rank, size

    @classmethod
    def from_environment(cls) -> Team:
        """Join the processes that ``torchrun`` started; a team of one otherwise."""
        size = int(os.environ.get("WORLD_SIZE", "1"))
        if size == 1 or "RANK" not in os.environ:
            return cls()
        if not dist.is_initialized():
            dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
            atexit.register(_leave_the_team)
        return cls(dist.get_rank(), dist.get_world_size())

    def share(self, order: torch.Tensor, batch_size: int) -> tuple[torch.Tensor, list[int], list[float]]:
        """This process's rows, where its batches begin and end in them, and its fraction of each batch."""
        bounds = cuts(len(order), batch_size)
        if self.size == 1:
            return order, bounds, [1.0] * (len(bounds) - 1)
        whole = [order[a:b] for a, b in pairwise(bounds)]
        parts = [torch.tensor_split(rows, self.size)[self.rank] for rows in whole]
        ends = torch.tensor([0] + [len(part) for part in parts]).cumsum(0).tolist()
        return torch.cat(parts), ends, [len(part) / len(rows) for part, rows in zip(parts, whole, strict=True)]

    def add_up(self, module: torch.nn.Module, loss: torch.Tensor) -> None:
        """Sum the gradients and the loss over the team, in one message."""
        if self.size == 1:
            return
        grads = [p.grad for p in module.parameters()]
        flat = torch.cat([loss.detach().reshape(1), *(g.reshape(-1) for g in grads)])
        dist.all_reduce(flat)
        loss.data.copy_(flat[0])
        start = 1
        for grad in grads:
            grad.copy_(flat[start : start + grad.numel()].view_as(grad))
            start += grad.numel()

    def any(self, answer: bool) -> bool:
        """Whether any process says yes, so that all of them stop together."""
        if self.size == 1:
            return answer
        answers = torch.tensor([float(answer)])
        if dist.get_backend() == "nccl":
            answers = answers.cuda()
        dist.all_reduce(answers)
        return bool(answers.item() > 0)


def _leave_the_team() -> None:
    """A process that ends while threads of gloo still run is aborted, now and then."""
    if dist.is_initialized():
        dist.destroy_process_group()


def check_seeded(random_state: Any, checkpoint: Any) -> None:
    """Refuse to resume or to share a training whose random numbers nobody could draw again."""
    if random_state is None and (checkpoint is not None or Team.from_environment().size > 1):
        raise ValueError(
            "random_state is None, but a training that is resumed or shared by several processes needs a seed: "
            "pass random_state=0 or any other whole number."
        )


def choose_device(device: str) -> torch.device:
    """The torch device for "auto", "cpu", "cuda" or "cuda:1"; under ``torchrun`` each process takes its own GPU."""
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        chosen: torch.device | None = torch.device(device)
    except (RuntimeError, TypeError):
        chosen = None
    if chosen is None or chosen.type not in ("cpu", "cuda"):
        raise ValueError(f"device must be 'auto', 'cpu', 'cuda' or 'cuda:N', got {device!r}.")
    if chosen.type == "cuda":
        if not torch.cuda.is_available():
            raise ValueError(f"device={device!r} but torch sees no GPU here: use device='auto' or 'cpu'.")
        if chosen.index is None:
            chosen = torch.device("cuda", int(os.environ.get("LOCAL_RANK", torch.cuda.current_device())))
        if chosen.index >= torch.cuda.device_count():
            raise ValueError(
                f"device='{chosen}' but torch sees only {torch.cuda.device_count()} GPU(s), from cuda:0 on."
            )
        torch.cuda.set_device(chosen)
    return chosen


def make_optimizer(
    method: type[torch.optim.Optimizer], parameters: Sequence[torch.nn.Parameter | torch.Tensor], rate: float
) -> torch.optim.Optimizer:
    """The optimiser, SGD or Adam; on a GPU one kernel takes a whole step."""
    fused = {"fused": True} if parameters[0].device.type == "cuda" else {}
    return method(parameters, lr=rate, **fused)


def _gradient(task: Task, batch: Any, share: float) -> torch.Tensor:
    """Put the gradient of ``share · loss(batch)`` into the parameters and return that loss."""
    parameters = list(task.module.parameters())
    if share == 0.0:  # a last batch with fewer rows than processes
        for p in parameters:
            p.grad = torch.zeros_like(p)
        return torch.zeros((), dtype=parameters[0].dtype, device=parameters[0].device)
    loss = task.loss(batch)
    if share != 1.0:
        loss = loss * share
    for p in parameters:
        p.grad = None
    loss.backward()
    for p in parameters:
        if p.grad is None:  # a parameter that this loss does not use
            p.grad = torch.zeros_like(p)
    return loss.detach()


class _GraphedGradient:
    """`_gradient` for a GPU: the kernels of a full batch are recorded once and replayed, which saves their launches."""

    def __init__(self, task: Task) -> None:
        self._parameters = list(task.module.parameters())
        self._graph: torch.cuda.CUDAGraph | None = None

    def __call__(self, task: Task, batch: Any, share: float) -> torch.Tensor:
        if self._graph is None:
            self._record(task, batch)
        if share != 1.0 or batch.X.shape != self._batch.X.shape:
            return _gradient(task, batch, share)
        self._batch.X.copy_(batch.X)
        assert self._graph is not None
        self._graph.replay()
        for p, grad in zip(self._parameters, self._grads, strict=True):
            p.grad = grad
        return self._loss.detach()

    def _record(self, task: Task, batch: Any) -> None:
        self._batch = type(batch)(batch.X.clone())
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):  # memory is set aside and kernels are compiled before the recording
            for _ in range(3):
                torch.autograd.grad(task.loss(self._batch), self._parameters)
        torch.cuda.current_stream().wait_stream(side)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._loss = task.loss(self._batch)
            self._grads = torch.autograd.grad(self._loss, self._parameters)


def _use_graph(task: Task) -> bool:
    return task.graphable and next(task.module.parameters()).device.type == "cuda"


def epoch_order(n: int, seed: int, epoch: int) -> tuple[torch.Tensor, torch.Generator]:
    """A permutation of the rows and a generator for the task, both from the seed and the epoch alone.

    So a resumed run needs no state of a random generator.
    """
    order = torch.randperm(n, generator=torch.Generator().manual_seed(derive_seed(seed, role="order", epoch=epoch)))
    return order, torch.Generator().manual_seed(derive_seed(seed, role="batches", epoch=epoch))


def _check_finite(value: float, what: str, epoch: int, remedies: str) -> None:
    if not math.isfinite(value):
        raise TrainingDivergedError(f"the {what} became {value} in epoch {epoch}: {remedies}.")


def _copy(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in module.state_dict().items()}


def precision_on(device: torch.device, settings: Settings) -> str:
    """The precision of products on a device: "high", the default, is a matter of GPUs."""
    wanted = settings.matmul_precision
    return "highest" if wanted == "high" and device.type != "cuda" else wanted


class matmul_precision:  # noqa: N801  (used like a function)
    """torch's float32 matmul precision inside a with-block, and as it was after it."""

    def __init__(self, precision: str) -> None:
        self._precision = precision

    def __enter__(self) -> None:
        self._before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision(self._precision)

    def __exit__(self, *exception: Any) -> None:
        torch.set_float32_matmul_precision(self._before)
