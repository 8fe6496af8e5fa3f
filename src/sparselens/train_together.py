"""Many trainings of one shape at once, each of them as `train` would do it alone.

One small network leaves most of a GPU idle. Here the parameters of K networks are stacked along a new first axis, a
step is one batched product for all of them, and everything else is kept apart: each network has its own rows, its own
order of them, its own early stop and its own best weights. Networks with fewer measurements are padded with rows of
zeros, which get a gradient of zero and stay what they are. A network that has finished leaves the stack.

The results are those of `train` up to rounding: sums in another order, and on a GPU that runs our kernels products in
float16 where `train` has TF32. With a checkpoint folder a killed run goes on where it was and ends with the same bits.
Not here: clipped gradients, several processes, batch statistics.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import nn
from torch.func import functional_call, grad_and_value, vmap

from sparselens import _closed_form_many
from sparselens._batches import DenseBatch, SparseRows, cuts
from sparselens._checkpoint import Checkpoint
from sparselens._closed_form import Buffers, has_triton
from sparselens._closed_form_many import cut, joined
from sparselens.recovery import TrainingDivergedError
from sparselens.train import (
    Callback,
    Event,
    History,
    Settings,
    epoch_order,
    make_optimizer,
    matmul_precision,
    precision_on,
)
from sparselens.unroll import BATCH_SCALE, UnrolledNetwork, direction

_TILES = 264  # of 128 rows and columns, that keep a GPU of 132 processors busy
_NARROWEST = 1024  # columns of a part
_RANGE = 2.0**-8, 2.0**8  # of the largest entry of the rows with which float16 neither overflows nor loses digits
_ALIGNED = 8  # float16 numbers in 16 bytes: other rows multiply at a fraction of the speed
_LINES = 64  # columns of float16 in 128 bytes, which memory gives at once
_LEAVE = 0.7  # the stack is made smaller when so many of its networks, or fewer, are still trained
Tensors = dict[str, torch.Tensor]


@dataclass
class Member:
    """One training of the stack, and how it went.

    Attributes
    ----------
    network : module
        Ends with its best weights.
    seed : int
        Of the order of the rows.
    data : int
        Which of the sets of rows it is trained on.
    penalty : float
        λ in an additional ``λ‖I − AAᵀ‖_F²``.
    seconds : float
        From the beginning to the end of this training.
    error : TrainingDivergedError or None
        Why the training failed; the others of the stack go on.
    """

    network: nn.Module
    seed: int = 0
    data: int = 0
    penalty: float = 0.0
    history: History = field(default_factory=History)
    seconds: float = 0.0
    error: TrainingDivergedError | None = None

    def as_dict(self) -> dict[str, Any]:
        """How it went, for a checkpoint."""
        error = None if self.error is None else str(self.error)
        return {"history": asdict(self.history), "seconds": self.seconds, "error": error}

    def restore(self, kept: dict[str, Any]) -> None:
        """Take over what `as_dict` gave."""
        self.history, self.seconds = History(**kept["history"]), kept["seconds"]
        self.error = None if kept["error"] is None else TrainingDivergedError(kept["error"])


def train_together(
    members: Sequence[Member],
    rows: SparseRows,
    held_out: SparseRows,
    settings: Settings,
    *,
    learning_rate: float,
    method: type[torch.optim.Optimizer] = torch.optim.SGD,
    remedies: str = "lower the learning rate",
    callback: Callback | None = None,
    checkpoint: Checkpoint | None = None,
    identity: dict[str, Any] | None = None,
) -> None:
    """Train every member's network until its own validation loss stops improving; it then holds its best weights.

    Parameters
    ----------
    members : sequence of Member
        Networks of one class and depth; what differs in shape is padded.
    rows, held_out : SparseRows
        The sets of rows for training and for validation, one below the other, all of one size.
    settings : Settings
        What is common; the seed is each member's own.
    callback : callable, optional
        Called with an `Event` after every epoch: means over the members, and the part of them that has finished. A
        true answer ends all of them with their best weights.
    checkpoint : Checkpoint, optional
        Where to keep the state, and where to go on from if there is one.
    identity : dict, optional
        What must be equal for a checkpoint to be resumed, as JSON.
    """
    n_sets = 1 + max(member.data for member in members)
    n, n_held_out = rows.n_rows // n_sets, held_out.n_rows // n_sets
    stack = Stack(
        [member.network for member in members],
        [member.penalty for member in members],
        rows.device,
        half=settings.matmul_precision != "highest" and _RANGE[0] <= rows.largest() <= _RANGE[1],
    )
    optimizer = _optimizer(method, stack, learning_rate)
    best = {name: value.detach().clone() for name, value in stack.parameters.items()}
    n_bad = [0] * len(members)
    slots = list(range(len(members)))  # the member at each place of the stack
    running = set(slots)
    bounds = cuts(n, settings.batch_size)
    began, before, epoch = time.perf_counter(), 0.0, 0
    if checkpoint is not None:
        config = {"settings": asdict(settings), "networks": identity or {}, "parts": stack.parts}
        kept = checkpoint.read(config, stack, optimizer)
        if kept is not None:
            best, state = kept.best, kept.history
            epoch, before, n_bad, slots = state["epoch"], state["seconds"], state["n_bad"], state["slots"]
            running = set(state["running"])
            optimizer = _with_state(_optimizer(method, stack, learning_rate), optimizer.state_dict())
            for member, one in zip(members, state["members"], strict=True):
                member.restore(one)

    def end(k: int, why: str) -> None:
        members[k].history.stopped_by = why
        members[k].seconds = before + time.perf_counter() - began
        running.discard(k)

    def diverged(k: int, what: str, value: float) -> None:
        members[k].error = TrainingDivergedError(f"the {what} became {value} in epoch {epoch}: {remedies}.")
        end(k, "divergence")

    def validate(train_loss: list[float]) -> list[float]:
        scores = _scores(stack, [members[k].data for k in slots], held_out, n_held_out, settings.batch_size)
        better = []
        for place, k in enumerate(slots):
            if k not in running:
                continue
            history, score = members[k].history, scores[place]
            if not math.isfinite(score):
                diverged(k, "validation loss", score)
                continue
            history.epoch.append(epoch)
            history.train_loss.append(train_loss[place])
            history.valid_loss.append(score)
            n_bad[k] += 1
            if score < history.best - (settings.min_improvement if math.isfinite(history.best) else 0.0):
                n_bad[k], history.best, history.best_epoch = 0, score, epoch
                better.append(place)
        kept = [slots[place] for place in better]
        for name, value in stack.parameters.items():
            best[name][kept] = value.detach()[better]
        return scores

    with matmul_precision(precision_on(rows.device, settings)):
        while running:
            order = _orders([members[k] for k in slots], epoch, n, settings.batch_size)
            total = torch.zeros(len(slots), dtype=torch.float64, device=rows.device)
            for batch in rows.batches(order, [len(slots) * bound for bound in bounds], stack.zeros):
                X = batch.dense()
                X = X.view(len(slots), -1, X.shape[1])
                total += stack.put_gradients(X) * (X.shape[1] / n)
                optimizer.step()
            epoch += 1
            train_loss = total.tolist()
            for place, k in enumerate(slots):
                if k in running:
                    members[k].history.n_epochs = epoch
                    if not math.isfinite(train_loss[place]):
                        diverged(k, "training loss", train_loss[place])
            scores = None
            if epoch % settings.validation_interval == 0 or epoch == settings.max_epochs:
                scores = validate(train_loss)
                for k in [k for k in running if n_bad[k] > settings.patience]:
                    end(k, "patience")
            if epoch == settings.max_epochs:
                for k in list(running):
                    end(k, "max_epochs")
            if callback is not None and callback(
                _event(members, slots, running, settings, train_loss, scores, epoch, time.perf_counter() - began)
            ):
                if scores is None:
                    validate(train_loss)
                for k in list(running):
                    end(k, "callback")
            if running and len(running) <= _LEAVE * len(slots):
                places = [place for place, k in enumerate(slots) if k in running]
                slots = [slots[place] for place in places]
                optimizer = _go_on_with(places, stack, optimizer, lambda: _optimizer(method, stack, learning_rate))
            stopped = any(member.history.stopped_by == "callback" for member in members)
            if checkpoint is not None and scores is not None and not stopped:
                state = {
                    "best": math.inf,  # of no single network
                    "epoch": epoch,
                    "seconds": before + time.perf_counter() - began,
                    "n_bad": n_bad,
                    "slots": slots,
                    "running": sorted(running),
                    "members": [member.as_dict() for member in members],
                }
                checkpoint.write(config, stack, optimizer, best, 0, state, final=not running)
    for k, member in enumerate(members):
        if member.error is None:
            own = dict(member.network.named_parameters())
            with torch.no_grad():
                for name, value in own.items():
                    value.copy_(stack.unpack(best[name][k : k + 1])[tuple(slice(length) for length in value.shape)])
        member.network.eval()


class Stack:
    """The parameters of several networks, one along the first axis, with their losses and gradients.

    Attributes
    ----------
    parameters : dict of tensors (K, ...)
        What differs in shape is padded with zeros; the form of the network says how they lie in memory.
    parts : int
        Into how many parts the columns are cut.
    """

    def __init__(
        self,
        networks: Sequence[nn.Module],
        penalties: Sequence[float],
        device: torch.device,
        *,
        half: bool = False,
        parts: int | None = None,
    ) -> None:
        named = [dict(network.named_parameters()) for network in networks]
        template = copy.deepcopy(networks[0]).to(device)
        if isinstance(template, UnrolledNetwork) and template.has_closed_form:
            m = max(len(one["A"]) for one in named)
            self._form: _SignForm | _TracedForm = _SignForm(template, len(networks), m, device, half, parts)
        else:
            self._form = _TracedForm(template)
        self.parameters: Tensors = {}
        for name in named[0]:
            values = [one[name].detach() for one in named]
            value = _padded(values, _ALIGNED if name in ("A", "B") else 1).to(device)
            self.parameters[name] = self._form.pack(value).requires_grad_()
        self._penalty = torch.tensor(penalties, dtype=torch.float32, device=device)
        self._penalised = any(penalties)
        self._m = torch.tensor([len(one["A"]) if "A" in one else 0 for one in named], device=device)
        self._inputs: dict[int, torch.Tensor] = {}  # where batches of n rows lie for what was recorded
        self._recorded: dict[tuple[str, int], _Recorded] = {}

    @property
    def parts(self) -> int:
        return self._form.parts

    def zeros(self, n_rows: int) -> torch.Tensor:
        """Where the next batches of all networks are written: zeros of shape (n_rows, columns)."""
        n = n_rows // len(self._penalty)
        if n in self._inputs and self._form.parts == 1:
            return self._inputs[n].zero_().view(n_rows, -1)
        return torch.zeros(n_rows, self._form.columns, device=self._penalty.device)

    def put_gradients(self, X: torch.Tensor) -> torch.Tensor:
        """Each network's loss on its batch of X (K, n, columns), and the gradients where an optimiser finds them."""
        losses, gradients = self._apply(self._losses_and_gradients, X)
        for name, value in self.parameters.items():
            value.grad = gradients[name]
        return losses

    def predict(self, X: torch.Tensor) -> torch.Tensor:
        """x̂ (K, n, columns)."""
        return joined(self._apply(self._predict, X), self._form.parts)

    def keep(self, places: list[int]) -> None:
        """Go on with the networks at these places alone."""
        self._recorded.clear()
        self._inputs.clear()
        self._form.forget()
        self.parameters = {name: value.detach()[places].requires_grad_() for name, value in self.parameters.items()}
        self._penalty, self._m = self._penalty[places], self._m[places]

    def state_dict(self) -> Tensors:
        """What a checkpoint keeps."""
        own = {name: value.detach() for name, value in self.parameters.items()}
        return own | {"penalty": self._penalty, "rows": self._m}

    def load_state_dict(self, state: Tensors) -> None:
        """Go on with the networks of a checkpoint, which may be fewer."""
        for name, value in self.state_dict().items():
            if name not in state or state[name].shape[1:] != value.shape[1:]:
                raise ValueError(f"{name} has another shape")
        self._recorded.clear()
        self._inputs.clear()
        self._form.forget()
        self.parameters = {name: state[name].clone().requires_grad_() for name in self.parameters}
        self._penalty, self._m = state["penalty"], state["rows"]

    def unpack(self, value: torch.Tensor) -> torch.Tensor:
        """The parameters of one network (1, ...), as it has them but for the padding."""
        return self._form.unpack(value)[0]

    def _apply(self, function: Callable[[torch.Tensor], Any], X: torch.Tensor) -> Any:
        """The function of a batch X (K, n, columns); on a GPU it is recorded once and replayed."""
        if X.device.type != "cuda":
            return function(cut(X, self._form.parts))
        (K, n, columns), c = X.shape, self._form.parts
        if n not in self._inputs:
            self._inputs[n] = X.new_empty(K * c, n, columns // c)
        if X.data_ptr() != self._inputs[n].data_ptr():  # not written there
            self._inputs[n].view(K, c, n, -1).copy_(X.view(K, n, c, -1).transpose(1, 2))
        key = function.__name__, n
        if key not in self._recorded:
            self._recorded[key] = _Recorded(function, self._inputs[n])
        return self._recorded[key]()

    @torch.no_grad()
    def _predict(self, X: torch.Tensor) -> torch.Tensor:
        return self._form.predict(self.parameters, X)

    def _losses_and_gradients(self, X: torch.Tensor) -> tuple[torch.Tensor, Tensors]:
        losses, gradients = self._form.losses_and_gradients(self.parameters, X)
        if self._penalised:
            with torch.no_grad():
                A = self.parameters["A"].detach()
                A, c = A.reshape(-1, *A.shape[-2:]), self._form.parts
                own = torch.arange(A.shape[1], device=A.device) < self._m[:, None]  # not the padding
                gram = torch.bmm(A, A.mT).view(-1, c, A.shape[1], A.shape[1]).sum(1)
                excess = gram - torch.diag_embed(own.to(A.dtype))
                losses = losses + self._penalty * excess.square().sum((1, 2))
                weighted = (4.0 * self._penalty[:, None, None] * excess).repeat_interleave(c, 0)
                gradients["A"] = gradients["A"] + torch.bmm(weighted, A).view_as(gradients["A"])
        return losses, gradients


class _SignForm:
    """`UnrolledNetwork`s with signs, by their closed form; matrices lie as (K, parts, rows, columns of a part)."""

    def __init__(self, template: Any, K: int, m: int, device: torch.device, half: bool, parts: int | None) -> None:
        self._template = template
        self._buffers = Buffers()  # recorded functions write to them: full batches come first, so that none is replaced
        d = template.A.shape[1]
        on_gpu = device.type == "cuda"
        self._closed_form: Any = _closed_form_many
        if half and _has_kernels(device):
            from sparselens import _closed_form_triton

            self._closed_form = _closed_form_triton
        # Products of tall matrices leave most of a GPU idle where they have few tiles.
        tiles = K * -(-m // 128)
        self.parts = parts or (max(1, min(-(-_TILES // tiles), d // _NARROWEST)) if on_gpu else 1)
        multiple = self.parts * (_LINES if on_gpu else 1)
        self.columns = -(-d // multiple) * multiple

    def pack(self, value: torch.Tensor) -> torch.Tensor:
        if value.ndim < 3:
            return value
        K, r, d = value.shape
        full = value.new_zeros(K, r, self.columns)
        full[:, :, :d] = value
        return cut(full, self.parts).reshape(K, self.parts, r, -1)

    def unpack(self, value: torch.Tensor) -> torch.Tensor:
        return value if value.ndim < 3 else joined(value.flatten(0, 1), self.parts)

    def losses_and_gradients(self, p: Tensors, X: torch.Tensor) -> tuple[torch.Tensor, Tensors]:
        losses, grads = self._closed_form.losses_and_gradients(
            X, *self._arguments(p), final_relu=self._template.final_relu, buffers=self._buffers
        )
        out = {"A": grads.A, "B": grads.B} if "B" in p else {"A": grads.A + grads.B}
        if "step" in p:
            free = self._template.step_rule == "free"
            by_step = grads.alpha if free else (grads.alpha / self._template._index).sum(1, keepdim=True)
            out["step"] = by_step * direction(p["step"].detach())
        if "scale" in p:
            out |= {"scale": grads.g * BATCH_SCALE, "shift": grads.b}
        return losses, {name: value.view_as(p[name]) for name, value in out.items()}

    def predict(self, p: Tensors, X: torch.Tensor) -> torch.Tensor:
        x = self._closed_form.predict(X, *self._arguments(p))
        return torch.relu_(x) if self._template.final_relu else x

    def forget(self) -> None:
        """Give back the memory of the larger stack."""
        self._buffers = Buffers()

    def _arguments(self, p: Tensors) -> tuple[torch.Tensor, ...]:
        """A, B, α, g and b of every network, without a history."""
        network = self._template
        A = p["A"].detach().flatten(0, 1)
        T = network.n_steps
        if not T:
            alpha = A.new_zeros(len(p["A"]), 0)
        else:
            step = p["step"].detach() if "step" in p else network.step.expand(len(p["A"]), 1)
            alpha = step * direction(step) / (1.0 if network.step_rule == "free" else network._index)
        g = p["scale"].detach().flatten(0, 1) * BATCH_SCALE if "scale" in p else A.new_ones(len(A), T, A.shape[2])
        b = p["shift"].detach().flatten(0, 1) if "shift" in p else A.new_zeros(len(A), T, A.shape[2])
        return A, p["B"].detach().flatten(0, 1) if "B" in p else A, alpha, g, b


def _has_kernels(device: torch.device) -> bool:
    """Whether `_closed_form_triton` runs there: tensor cores with 100 kB at hand, and products of torch 2.8."""
    if device.type != "cuda" or torch.version.hip is not None or not has_triton():
        return False
    new = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 8)
    return new and torch.cuda.get_device_capability(device) >= (8, 0)


class _TracedForm:
    """Any network with ``loss(batch)``, through autograd."""

    parts = 1

    def __init__(self, template: Any) -> None:
        self.columns = template.first_matrix.shape[1]
        self._loss, self._prediction = _Loss(template), _Prediction(template)

    def pack(self, value: torch.Tensor) -> torch.Tensor:
        return value

    def unpack(self, value: torch.Tensor) -> torch.Tensor:
        return value

    def forget(self) -> None:
        pass

    def losses_and_gradients(self, p: Tensors, X: torch.Tensor) -> tuple[torch.Tensor, Tensors]:
        def loss(one: Tensors, rows: torch.Tensor) -> torch.Tensor:
            return functional_call(self._loss, {f"network.{k}": v for k, v in one.items()}, (rows,))

        gradients, losses = vmap(grad_and_value(loss))({k: v.detach() for k, v in p.items()}, X)
        return losses, gradients

    def predict(self, p: Tensors, X: torch.Tensor) -> torch.Tensor:
        def prediction(one: Tensors, rows: torch.Tensor) -> torch.Tensor:
            return functional_call(self._prediction, {f"network.{k}": v for k, v in one.items()}, (rows,))

        return vmap(prediction)(p, X)


class _Loss(nn.Module):
    def __init__(self, network: Any) -> None:
        super().__init__()
        self.network = network

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        return self.network.loss(DenseBatch(X))


class _Prediction(nn.Module):
    def __init__(self, network: Any) -> None:
        super().__init__()
        self.network = network

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        return self.network(X @ self.network.first_matrix.t())


class _Recorded:
    """A function of what lies in X, recorded once as a CUDA graph and replayed.

    Whoever records keeps X, and all that the function writes to, for as long as it is replayed.
    """

    def __init__(self, function: Callable[[torch.Tensor], Any], X: torch.Tensor) -> None:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):  # memory is set aside and kernels are compiled before the recording
            for _ in range(3):
                function(X)
        torch.cuda.current_stream().wait_stream(side)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._out = function(X)

    def __call__(self) -> Any:
        self._graph.replay()
        return self._out


def _padded(values: Sequence[torch.Tensor], multiple: int = 1) -> torch.Tensor:
    """Tensors of several shapes as one, with zeros behind what is short; the rows fill up a multiple."""
    shape = [max(lengths) for lengths in zip(*(value.shape for value in values), strict=True)]
    shape[0] = -(-shape[0] // multiple) * multiple
    out = values[0].new_zeros(len(values), *shape)
    for k, value in enumerate(values):
        out[(k, *(slice(length) for length in value.shape))] = value
    return out


def _orders(members: Sequence[Member], epoch: int, n: int, size: int) -> torch.Tensor:
    """The rows of an epoch, batch by batch, every member's after the other's, each in the order that it has alone."""
    known: dict[int, torch.Tensor] = {}
    for member in members:
        if member.seed not in known:
            known[member.seed] = epoch_order(n, member.seed, epoch)[0]
    orders = torch.stack([known[member.seed] + n * member.data for member in members])
    return torch.cat([part.reshape(-1) for part in orders.split(size, dim=1)])


def _scores(stack: Stack, data: list[int], held_out: SparseRows, n: int, size: int) -> list[float]:
    """The mean of ‖x̂ − x‖² over the held-out rows of each network."""
    K = len(data)
    rows = torch.arange(n)
    order = torch.cat([(part + n * torch.tensor(data)[:, None]).reshape(-1) for part in rows.split(size)])
    total = torch.zeros(K, dtype=torch.float64, device=held_out.device)
    for batch in held_out.batches(order, [K * bound for bound in cuts(n, size)], stack.zeros):
        X = batch.dense()
        X = X.view(K, -1, X.shape[1])
        total += (stack.predict(X) - X).square().sum((1, 2))
    return (total / n).tolist()


def _optimizer(method: type[torch.optim.Optimizer], stack: Stack, rate: float) -> torch.optim.Optimizer:
    return make_optimizer(method, list(stack.parameters.values()), rate)


def _with_state(optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> torch.optim.Optimizer:
    optimizer.load_state_dict(state)
    return optimizer


def _go_on_with(
    places: list[int], stack: Stack, optimizer: torch.optim.Optimizer, make: Callable[[], torch.optim.Optimizer]
) -> torch.optim.Optimizer:
    """Make the stack smaller; the optimiser of what is left, with what it remembers of those networks."""
    state = optimizer.state_dict()
    for one, before in zip(state["state"].values(), stack.parameters.values(), strict=False):  # SGD remembers nothing
        for name, value in one.items():
            if torch.is_tensor(value) and value.shape == before.shape:
                one[name] = value[places]
    stack.keep(places)
    return _with_state(make(), state)


def _event(
    members: Sequence[Member],
    slots: list[int],
    running: set[int],
    settings: Settings,
    train_loss: list[float],
    scores: list[float] | None,
    epoch: int,
    seconds: float,
) -> Event:
    def mean(values: list[float]) -> float:
        finite = [value for value in values if math.isfinite(value)]
        return sum(finite) / len(finite) if finite else math.inf

    progress = max(1.0 - len(running) / len(members), epoch / settings.max_epochs)
    return Event(
        epoch,
        settings.max_epochs,
        mean(train_loss),
        None if scores is None else mean(scores),
        mean([members[k].history.best for k in slots]),
        seconds,
        progress,
    )
