"""Autoencoders on the one training loop: what they share, and the two plain ones of the paper."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from sklearn.utils.validation import check_is_fitted
from torch import nn

from sparselens._batches import Batch, SparseRows
from sparselens._checkpoint import Checkpoint
from sparselens._random import derive_rng, derive_seed
from sparselens._validation import FloatArray, check_choice, check_count, check_positive_float, unit_rows
from sparselens.decoders.base import BaseDecoder
from sparselens.decoders.unrolled import FeedForwardDecoder, UnrolledDecoder
from sparselens.encoders.base import BaseEncoder, LinearEncoder, hold_out, training_identity
from sparselens.train import Event, History, Settings, Task, check_seeded, choose_device, make_optimizer, train
from sparselens.unroll import UnrolledNetwork, truncated_normal


class Reconstruction(Task):
    """Train a network to give its input back: the mean of ‖x̂ − x‖² over rows.

    Parameters
    ----------
    module : network with ``loss(batch)`` and a forward pass that begins after `first_matrix`
    X, X_valid : SparseRows
    learning_rate : float
    method : class
        The optimiser.
    orthogonality_penalty : float
        λ in the additional term ``λ‖I − AAᵀ‖_F²``.
    """

    graphable = True

    def __init__(
        self,
        module: Any,
        X: SparseRows,
        X_valid: SparseRows,
        *,
        learning_rate: float,
        batch_size: int,
        method: type[torch.optim.Optimizer] = torch.optim.SGD,
        orthogonality_penalty: float = 0.0,
        identity: dict[str, Any] | None = None,
        remedies: str | None = None,
    ) -> None:
        self.module = module.to(X.device)
        self.X, self.X_valid, self.n_rows = X, X_valid, X.n_rows
        self.learning_rate = check_positive_float(learning_rate, "learning_rate")
        self.batch_size, self.method = batch_size, method
        self.orthogonality_penalty = check_positive_float(
            orthogonality_penalty, "orthogonality_penalty", allow_zero=True
        )
        self.identity = identity
        self.remedies = remedies or Task.remedies
        self.graphable = getattr(module, "norm", None) != "batch"  # running statistics are a state

    def batches(self, order: torch.Tensor, bounds: list[int], generator: torch.Generator) -> Iterable[Batch]:
        return self.X.batches(order, bounds)

    def loss(self, batch: Batch) -> torch.Tensor:
        loss = self.module.loss(batch)
        if self.orthogonality_penalty:
            A = self.module.A
            loss = loss + self.orthogonality_penalty * (torch.eye(len(A), device=A.device) - A @ A.t()).square().sum()
        return loss

    def validate(self) -> float:
        total = torch.zeros((), dtype=torch.float64, device=self.X_valid.device)
        for batch in self.X_valid.in_order(self.batch_size):
            total += batch.residual_(self.module(batch.measure(self.module.first_matrix)), False)
        return float(total) / self.X_valid.n_rows

    def optimizer(self) -> torch.optim.Optimizer:
        return make_optimizer(self.method, list(self.module.parameters()), self.learning_rate)


@dataclass(frozen=True)
class Variants:
    """The networks that an encoder trains: one, or several of which the one that validates best is kept."""

    make: Callable[[int], nn.Module]
    values: Sequence[int] = (0,)
    name: str = ""  # of what varies
    stop: Callable[[list[float]], bool] = lambda scores: False  # told the best scores so far


class Trained(NamedTuple):
    """A network after its training."""

    variant: int
    network: nn.Module
    history: History


class TrainedEncoder(BaseEncoder):
    """What the trained encoders share: a held-out part of the rows, seeds, settings, the call of the loop.

    A subclass writes `_variants`, the networks to train, and `_keep`, which takes over what was trained.

    Without ``X_valid`` a part of X is set aside for validation: the first ``validation_fraction · n`` rows (at least
    one) of a permutation that depends on `random_state` alone. With a single row, training and validation share it.
    """

    _nonnegative = True
    _method: type[torch.optim.Optimizer] = torch.optim.SGD  # plain SGD, as in the paper

    batch_size: int
    learning_rate: float
    max_epochs: int
    validation_interval: int
    patience: int
    min_improvement: float
    clip_norm: float | None
    validation_fraction: float
    normalize: bool
    device: str
    matmul_precision: str
    checkpoint: str | os.PathLike[str] | None
    random_state: int | None

    def _variants(self, m: int, d: int) -> Variants:
        """The networks to train."""
        raise NotImplementedError

    def _keep(self, variant: int, network: Any) -> None:
        """Set the fitted attributes from the trained network."""
        raise NotImplementedError

    def _fit(self, X: sp.csr_array, X_valid: sp.csr_array | None, m: int, callback: Callable[..., Any] | None) -> None:
        check_seeded(self.random_state, self.checkpoint)
        variants, seed = self._variants(m, X.shape[1]), self._seed()
        device = choose_device(self.device)
        settings = self._settings(seed)
        identity = training_identity(self, X, X_valid)
        X, X_valid = self._split(X, X_valid, seed)
        rows, held_out = SparseRows(X, device=device), SparseRows(X_valid, device=device)
        tried: list[Trained] = []
        began, costs = time.perf_counter(), [max(1, value) for value in variants.values]

        def told(event: Event) -> Any:
            """The callback hears of the whole fit."""
            i = len(tried)
            done = (sum(costs[:i]) + costs[i] * event.progress) / sum(costs)
            assert callback is not None
            return callback(replace(event, progress=done, seconds=time.perf_counter() - began))

        name = variants.name
        for value in variants.values:
            task = Reconstruction(
                variants.make(value),
                rows,
                held_out,
                learning_rate=self.learning_rate,
                batch_size=settings.batch_size,
                method=self._method,
                orthogonality_penalty=getattr(self, "orthogonality_penalty", 0.0),
                identity=identity | ({name: value} if name else {}),
                remedies=self._remedies(value),
            )
            keep = None
            if self.checkpoint is not None:
                keep = Checkpoint(os.path.join(self.checkpoint, f"{name}-{value}") if name else self.checkpoint)
            history = train(task, settings, callback=None if callback is None else told, checkpoint=keep)
            tried.append(Trained(value, task.module, history))
            if history.stopped_by == "callback" or variants.stop([one.history.best for one in tried]):
                break
        self._take(tried)

    def _settings(self, seed: int) -> Settings:
        return Settings(
            batch_size=self.batch_size,
            max_epochs=self.max_epochs,
            validation_interval=self.validation_interval,
            patience=self.patience,
            min_improvement=self.min_improvement,
            clip_norm=self.clip_norm,
            seed=seed,
            matmul_precision=self.matmul_precision,
        )

    def _take(self, tried: Sequence[Trained]) -> None:
        """Keep the network that validates best, and how each of them did."""
        best = min(tried, key=lambda one: one.history.best)
        self.history_ = best.history.as_dict()
        self.tried_ = {str(one.variant): one.history.best for one in tried}
        self._keep(best.variant, best.network)

    def _seed(self) -> int:
        return derive_seed(self.random_state, role="training")

    def _split(self, X: sp.csr_array, X_valid: sp.csr_array | None, seed: int) -> tuple[sp.csr_array, sp.csr_array]:
        """Training and validation rows, of unit norm where `normalize` asks for it."""
        check_choice(self.normalize, "normalize", (True, False))
        rng = derive_rng(seed, role="split")
        X, X_valid = hold_out(X, X_valid, fraction=self.validation_fraction, rng=rng)
        return (unit_rows(X), unit_rows(X_valid)) if self.normalize else (X, X_valid)

    def _remedies(self, variant: int) -> str:
        return f"lower learning_rate (now {self.learning_rate}), or clip the gradient with clip_norm=1.0"


class SimpleAE(TrainedEncoder, LinearEncoder):
    """Learn measurements with the plain autoencoder ``x̂ = relu(BᵀAx)``, both matrices trained.

    A baseline of the paper. `inverse_transform` decodes A's measurements by ℓ1 minimisation; ``decoder_`` is the
    trained ``relu(Bᵀy)``.

    Parameters
    ----------
    n_components : int
        The number m of measurements.
    batch_size, learning_rate, max_epochs, validation_interval, patience :
        As in `L1AE`.
    min_improvement : float
        A validation loss counts as better when it is lower by this much; 1e-3 as in the authors' code.
    clip_norm, validation_fraction, normalize, device, matmul_precision, checkpoint, random_state :
        As in `L1AE`.

    Attributes
    ----------
    components_ : float64 array of shape (m, d)
        A.
    weights_ : dict
        ``B``.
    history_ : dict
        The course of the training.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.eye(8)[np.arange(40) % 8]
    >>> enc = SimpleAE(n_components=3, max_epochs=20, random_state=0, device="cpu").fit(X)
    >>> enc.transform(X).shape
    (40, 3)
    """

    def __init__(
        self,
        n_components: int = 2,
        *,
        batch_size: int = 128,
        learning_rate: float = 0.01,
        max_epochs: int = 20_000,
        validation_interval: int = 10,
        patience: int = 5,
        min_improvement: float = 1e-3,
        clip_norm: float | None = None,
        validation_fraction: float = 0.2,
        normalize: bool = True,
        device: str = "auto",
        matmul_precision: str = "high",
        checkpoint: str | os.PathLike[str] | None = None,
        random_state: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.max_epochs = max_epochs
        self.validation_interval = validation_interval
        self.patience = patience
        self.min_improvement = min_improvement
        self.clip_norm = clip_norm
        self.validation_fraction = validation_fraction
        self.normalize = normalize
        self.device = device
        self.matmul_precision = matmul_precision
        self.checkpoint = checkpoint
        self.random_state = random_state

    def _variants(self, m: int, d: int) -> Variants:
        seed = self._seed()

        def make(_: int) -> nn.Module:
            A = truncated_normal((m, d), derive_seed(seed, role="A"))
            return UnrolledNetwork(A, n_steps=0, B=truncated_normal((m, d), derive_seed(seed, role="B")))

        return Variants(make)

    def _keep(self, variant: int, network: Any) -> None:
        self.weights_ = network.weights()
        self._set_matrix(network.A.detach().cpu().double().numpy())

    @property
    def decoder_(self) -> UnrolledDecoder:
        """The trained ``relu(Bᵀy)``, for rows of unit norm."""
        check_is_fitted(self)
        return UnrolledDecoder(self.weights_, n_steps=0).bind(self.components_)


class DeepNetwork(nn.Module):
    """Four layers with ReLU: d → h → m → h → d.

    Examples
    --------
    >>> DeepNetwork(20, 4, n_hidden=8, seed=0)(torch.ones(2, 8)).shape
    torch.Size([2, 20])
    """

    def __init__(self, d: int, m: int, *, n_hidden: int, seed: int) -> None:
        super().__init__()
        sizes = {"first": (d, n_hidden), "second": (n_hidden, m), "third": (m, n_hidden), "fourth": (n_hidden, d)}
        for name, (width_in, width_out) in sizes.items():
            layer = nn.Linear(width_in, width_out)
            rng = derive_rng(seed, role=name)
            # He's variance 2/fan-in keeps the size of a row through the ReLU layers.
            weight = rng.standard_normal((width_out, width_in)) * np.sqrt(2.0 / width_in)
            if name in ("second", "fourth"):
                # Nonnegative, so that no unit of the code and no column of the output starts dead: a column that is
                # negative for every row never learns. Divided again, because such sums do not cancel.
                weight = np.abs(weight) / np.sqrt(width_in)
            layer.weight.data.copy_(torch.from_numpy(weight))
            layer.bias.data.zero_()
            setattr(self, name, layer)

    @property
    def first_matrix(self) -> torch.Tensor:
        """The matrix that meets the sparse rows."""
        return self.first.weight

    def encode(self, first: torch.Tensor) -> torch.Tensor:
        """The code y (n, m) of rows whose product with the first matrix is `first` (n, h)."""
        return torch.relu(self.second(torch.relu(first + self.first.bias)))

    def decode(self, y: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.fourth(torch.relu(self.third(y))))

    def forward(self, first: torch.Tensor) -> torch.Tensor:
        return self.decode(self.encode(first))

    def loss(self, batch: Batch) -> torch.Tensor:
        return (self(batch.measure(self.first.weight)) - batch.dense()).square().sum(1).mean()


class DeepAE(TrainedEncoder):
    """Learn a code with a four-layer autoencoder, two ReLU layers each way: the paper's nonlinear baseline.

    It has no `components_`: its code is not linear, so that neither ℓ1 decoding nor certificates apply, and
    `inverse_transform` uses its own decoding layers. The paper does not say how it is trained; Adam at 1e-4
    is our choice: on Synthetic1 plain SGD at 0.1 and Adam at 1e-3 leave every output dead (a loss of 1, that of zeros),
    and SGD at 0.01 hardly moves in 60 epochs.

    Parameters
    ----------
    n_components : int
        The width m of the code.
    n_hidden : int or sequence of int
        The width of the first and third layers; of several, the one that validates best is kept.
    batch_size, learning_rate, max_epochs, validation_interval, patience, min_improvement, clip_norm,
    validation_fraction, normalize, device, matmul_precision, checkpoint, random_state :
        As in `L1AE`.

    Attributes
    ----------
    n_hidden_ : int
        The width that was kept.
    weights_ : dict
        Matrix and offset of each layer.
    tried_ : dict
        The best validation loss of each width.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.eye(8)[np.arange(40) % 8]
    >>> enc = DeepAE(n_components=3, n_hidden=6, max_epochs=20, random_state=0, device="cpu").fit(X)
    >>> enc.inverse_transform(enc.transform(X)).shape
    (40, 8)
    """

    _method = torch.optim.Adam

    def __init__(
        self,
        n_components: int = 2,
        *,
        n_hidden: int | Sequence[int] = (64, 256, 1024),
        batch_size: int = 128,
        learning_rate: float = 1e-4,
        max_epochs: int = 20_000,
        validation_interval: int = 10,
        patience: int = 5,
        min_improvement: float = 0.0,
        clip_norm: float | None = None,
        validation_fraction: float = 0.2,
        normalize: bool = True,
        device: str = "auto",
        matmul_precision: str = "high",
        checkpoint: str | os.PathLike[str] | None = None,
        random_state: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.n_hidden = n_hidden
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.max_epochs = max_epochs
        self.validation_interval = validation_interval
        self.patience = patience
        self.min_improvement = min_improvement
        self.clip_norm = clip_norm
        self.validation_fraction = validation_fraction
        self.normalize = normalize
        self.device = device
        self.matmul_precision = matmul_precision
        self.checkpoint = checkpoint
        self.random_state = random_state

    def _variants(self, m: int, d: int) -> Variants:
        widths = [check_count(width, "n_hidden") for width in np.atleast_1d(np.array(self.n_hidden, dtype=object))]
        if not widths:
            raise ValueError("n_hidden is empty: pass at least one width.")
        seed = derive_seed(self._seed(), role="network")
        return Variants(lambda width: DeepNetwork(d, m, n_hidden=width, seed=seed), widths, "n_hidden")

    def _keep(self, variant: int, network: Any) -> None:
        self.n_hidden_ = variant
        self.weights_ = {k: v.detach().cpu().double().numpy().copy() for k, v in network.state_dict().items()}

    def _encode(self, X: sp.csr_array) -> FloatArray:
        first, second = self._layers("first", "second")
        hidden = np.maximum(X @ first[0].T + first[1], 0.0)
        return np.maximum(hidden @ second[0].T + second[1], 0.0)

    def decoder(self) -> BaseDecoder:
        """The two decoding layers."""
        check_is_fitted(self)
        return FeedForwardDecoder(self._layers("third", "fourth"))

    @property
    def decoder_(self) -> BaseDecoder:
        """The same, under the name that the other autoencoders use."""
        return self.decoder()

    def _layers(self, *names: str) -> list[tuple[FloatArray, FloatArray]]:
        return [(self.weights_[f"{name}.weight"], self.weights_[f"{name}.bias"]) for name in names]

    @property
    def _n_features_out(self) -> int:
        return len(self.weights_["second.bias"])
