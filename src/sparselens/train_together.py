"""Many trainings of one shape at once, each of them as `train` would do it alone.

One small network leaves most of a GPU idle. Here the parameters of K networks are stacked along a new first axis, a
step is one batched product for all of them, and everything else is kept apart: each network has its own rows, its own
order of them, its own early stop and its own best weights. Networks with fewer measurements are padded with rows of
zeros, which get a gradient of zero and stay what they are. A network that has finished leaves the stack.

The results are those of `train` up to the order of sums in float32. Not here: checkpoints, clipped gradients, several
processes, batch statistics.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.func import functional_call, grad_and_value, vmap

from sparselens._batches import DenseBatch, SparseRows, cuts
from sparselens._closed_form import Buffers
from sparselens._closed_form_many import iterate, losses_and_gradients
from sparselens.recovery import TrainingDivergedError
from sparselens.train import Callback, Event, History, Settings, epoch_order, matmul_precision
from sparselens.unroll import BATCH_SCALE, UnrolledNetwork

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
    """
    n_sets = 1 + max(member.data for member in members)
    n, n_held_out = rows.n_rows // n_sets, held_out.n_rows // n_sets
    stack = Stack([member.network for member in members], [member.penalty for member in members], rows.device)
    optimizer = _optimizer(method, stack, learning_rate)
    best = {name: value.clone() for name, value in stack.parameters.items()}
    n_bad = [0] * len(members)
    slots = list(range(len(members)))  # the member at each place of the stack
    running = set(slots)
    bounds = cuts(n, settings.batch_size)
    began, epoch = time.perf_counter(), 0

    def end(k: int, why: str) -> None:
        members[k].history.stopped_by = why
        members[k].seconds = time.perf_counter() - began
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
            best[name][kept] = value[better]
        return scores

    precision = settings.matmul_precision if rows.device.type == "cuda" else "highest"
    with matmul_precision(precision):
        while running:
            order = _orders([members[k] for k in slots], epoch, n, settings.batch_size)
            total = torch.zeros(len(slots), dtype=torch.float64, device=rows.device)
            for batch in rows.batches(order, [len(slots) * bound for bound in bounds]):
                X = batch.dense().view(len(slots), -1, rows.n_features)
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
                state = optimizer.state
                old = list(stack.parameters.values())
                stack.keep(places)
                optimizer = _optimizer(method, stack, learning_rate)
                _move_state(state, old, optimizer, list(stack.parameters.values()), places)
    for k, member in enumerate(members):
        if member.error is None:
            own = dict(member.network.named_parameters())
            with torch.no_grad():
                for name, value in own.items():
                    value.copy_(best[name][k][tuple(slice(length) for length in value.shape)])
        member.network.eval()


class Stack:
    """The parameters of several networks, one along the first axis, with their losses and gradients.

    Attributes
    ----------
    parameters : dict of tensors (K, ...)
    """

    def __init__(self, networks: Sequence[nn.Module], penalties: Sequence[float], device: torch.device) -> None:
        named = [dict(network.named_parameters()) for network in networks]
        self.parameters: Tensors = {
            name: _padded([one[name].detach() for one in named]).to(device).requires_grad_() for name in named[0]
        }
        self._template = copy.deepcopy(networks[0]).to(device)
        closed = isinstance(networks[0], UnrolledNetwork) and networks[0].has_closed_form
        self._form: _SignForm | _TracedForm = (_SignForm if closed else _TracedForm)(self._template)
        self._penalty = torch.tensor(penalties, dtype=torch.float32, device=device)
        self._m = torch.tensor([len(one["A"]) if "A" in one else 0 for one in named], device=device)
        self._recorded: dict[torch.Size, _Recorded] = {}

    def put_gradients(self, X: torch.Tensor) -> torch.Tensor:
        """Each network's loss on its batch of X (K, n, d), and the gradients where an optimiser finds them."""
        if X.device.type == "cuda":
            if X.shape not in self._recorded:
                self._recorded[X.shape] = _Recorded(self._losses_and_gradients, X)
            losses, gradients = self._recorded[X.shape](X)
        else:
            losses, gradients = self._losses_and_gradients(X)
        for name, value in self.parameters.items():
            value.grad = gradients[name]
        return losses

    def predict(self, X: torch.Tensor) -> torch.Tensor:
        """x̂ (K, n, d)."""
        with torch.no_grad():
            return self._form.predict(self.parameters, X)

    def keep(self, places: list[int]) -> None:
        """Go on with the networks at these places alone."""
        self._recorded.clear()
        self._form = type(self._form)(self._template)  # without the memory of the larger stack
        self.parameters = {name: value.detach()[places].requires_grad_() for name, value in self.parameters.items()}
        self._penalty, self._m = self._penalty[places], self._m[places]

    def _losses_and_gradients(self, X: torch.Tensor) -> tuple[torch.Tensor, Tensors]:
        losses, gradients = self._form.losses_and_gradients(self.parameters, X)
        if "A" in self.parameters:
            with torch.no_grad():
                A, weight = self.parameters["A"], self._penalty[:, None, None]
                own = torch.arange(A.shape[1], device=A.device) < self._m[:, None]  # not the padding
                excess = torch.bmm(A, A.mT) - torch.diag_embed(own.to(A.dtype))
                losses = losses + self._penalty * excess.square().sum((1, 2))
                gradients["A"] = gradients["A"] + 4.0 * weight * torch.bmm(excess, A)
        return losses, gradients


class _SignForm:
    """`UnrolledNetwork`s with signs, by their closed form."""

    def __init__(self, template: Any) -> None:
        self._template, self._buffers = template, Buffers()

    def losses_and_gradients(self, p: Tensors, X: torch.Tensor) -> tuple[torch.Tensor, Tensors]:
        losses, grads = losses_and_gradients(
            X, *self._arguments(p), final_relu=self._template.final_relu, buffers=self._buffers
        )
        out = {"A": grads.A, "B": grads.B} if "B" in p else {"A": grads.A + grads.B}
        if "step" in p:
            free = self._template.step_rule == "free"
            out["step"] = grads.alpha if free else (grads.alpha / self._template._index).sum(1, keepdim=True)
        if "scale" in p:
            out |= {"scale": grads.g * BATCH_SCALE, "shift": grads.b}
        return losses, out

    def predict(self, p: Tensors, X: torch.Tensor) -> torch.Tensor:
        x = iterate(torch.bmm(X, p["A"].mT), *self._arguments(p))
        return torch.relu_(x) if self._template.final_relu else x

    def _arguments(self, p: Tensors) -> tuple[torch.Tensor, ...]:
        """A, B, α, g and b of every network, without a history."""
        A, network = p["A"].detach(), self._template
        K, T, d = len(A), network.n_steps, A.shape[2]
        if not T:
            alpha = A.new_zeros(K, 0)
        else:
            alpha = p["step"].detach() / (1.0 if network.step_rule == "free" else network._index)
        g = p["scale"].detach() * BATCH_SCALE if "scale" in p else A.new_ones(K, T, d)
        b = p["shift"].detach() if "shift" in p else A.new_zeros(K, T, d)
        return A, p["B"].detach() if "B" in p else A, alpha, g, b


class _TracedForm:
    """Any network with ``loss(batch)``, through autograd."""

    def __init__(self, template: nn.Module) -> None:
        self._template = template
        self._loss, self._prediction = _Loss(template), _Prediction(template)

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
    """A function of batches of one shape, recorded once as a CUDA graph and replayed."""

    def __init__(self, function: Callable[[torch.Tensor], tuple[torch.Tensor, Tensors]], X: torch.Tensor) -> None:
        self._X = X.clone()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):  # memory is set aside and kernels are compiled before the recording
            for _ in range(3):
                function(self._X)
        torch.cuda.current_stream().wait_stream(side)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._out = function(self._X)

    def __call__(self, X: torch.Tensor) -> tuple[torch.Tensor, Tensors]:
        self._X.copy_(X)
        self._graph.replay()
        return self._out


def _padded(values: Sequence[torch.Tensor]) -> torch.Tensor:
    """Tensors of several shapes as one, with zeros behind what is short."""
    shape = [max(lengths) for lengths in zip(*(value.shape for value in values), strict=True)]
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
    K, d = len(data), held_out.n_features
    rows = torch.arange(n)
    order = torch.cat([(part + n * torch.tensor(data)[:, None]).reshape(-1) for part in rows.split(size)])
    total = torch.zeros(K, dtype=torch.float64, device=held_out.device)
    for batch in held_out.batches(order, [K * bound for bound in cuts(n, size)]):
        X = batch.dense().view(K, -1, d)
        total += (stack.predict(X) - X).square().sum((1, 2))
    return (total / n).tolist()


def _optimizer(method: type[torch.optim.Optimizer], stack: Stack, rate: float) -> torch.optim.Optimizer:
    return method(list(stack.parameters.values()), lr=rate)


def _move_state(
    state: Any,
    old: list[torch.Tensor],
    optimizer: torch.optim.Optimizer,
    new: list[torch.Tensor],
    places: list[int],
) -> None:
    """What an optimiser remembers of the networks that stay."""
    for before, after in zip(old, new, strict=True):
        if before in state:
            optimizer.state[after] = {
                name: value[places] if torch.is_tensor(value) and value.shape == before.shape else value
                for name, value in state[before].items()
            }


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
