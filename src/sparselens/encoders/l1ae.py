"""ℓ1-AE, the paper's encoder, and the same idea with unrolled ISTA."""

from __future__ import annotations

import os
from typing import Any, Self

from sklearn.utils.validation import check_is_fitted
from torch import nn

from sparselens._random import derive_seed
from sparselens._validation import check_choice, check_count, check_positive_float
from sparselens.decoders.unrolled import UnrolledDecoder
from sparselens.encoders.autoencoders import TrainedEncoder, Variants
from sparselens.encoders.base import LinearEncoder
from sparselens.unroll import ISTANetwork, UnrolledNetwork, truncated_normal

# The paper's table of training parameters: depth, batch size, learning rate, N_max, N_validation, N_no-improve.
_COLUMNS = ("n_steps", "batch_size", "learning_rate", "max_epochs", "validation_interval", "patience")
PRESETS: dict[str, dict[str, Any]] = {
    name: dict(zip(_COLUMNS, row, strict=True))
    for name, row in {
        "toy": (10, 128, 0.01, 20_000, 10, 5),
        "synthetic1": (10, 128, 0.01, 20_000, 10, 5),
        "synthetic2": (5, 128, 0.01, 20_000, 10, 1),
        "synthetic3": (5, 128, 0.01, 20_000, 10, 1),
        "amazon": (60, 256, 0.01, 20_000, 1, 1),
        "wiki10-31k": (10, 256, 0.001, 5_000, 10, 1),
        "rcv1": (10, 256, 0.001, 1_000, 1, 50),
    }.items()
}


class L1AE(TrainedEncoder, LinearEncoder):
    """Learn the measurement matrix for ℓ1 decoding by unrolling projected-subgradient steps (ℓ1-AE).

    Trains ``min over A, β of the mean of ‖x − x̂‖²``, where ``x̂ = relu(x⁽ᵀ⁺¹⁾)``, ``x⁽¹⁾ = AᵀAx`` and each of T blocks
    is ``x⁽ᵗ⁺¹⁾ = x⁽ᵗ⁾ − (β/t)(I − AᵀA) sign(x⁽ᵗ⁾)`` followed by `norm`; by plain SGD, with early stopping. A starts as
    a normal draw of standard deviation 1/√d cut at two of them. `inverse_transform` decodes by ℓ1 minimisation with
    x ≥ 0; ``decoder_`` is the trained network.

    Parameters
    ----------
    n_components : int
        The number m of measurements.
    n_steps : int or "auto"
        The depth T. "auto" is the paper's search: T = 5, 10, ... up to `max_steps`, until the best validation loss
        falls by less than the fraction `depth_tol`. 0 leaves ``relu(AᵀAx)``.
    step_rule : "beta/t", "free" or "fixed"
        One trained β, T trained steps that start at β/t, or steps β/t that stay as they are. Trained ones count by
        their magnitude. On RCV1, with 47,236 columns, a small fixed β lets A learn at a rate a thousand times larger.
    norm : "affine", "batch" or "none"
        What ends a block. "affine", a trained γ∘x/√1.001 + b, is what the authors' code computes where the paper
        says batch normalisation; true batch statistics ("batch") do not train at the paper's learning rates.
    nonlinearity : "sign" or "tanh"
    tied : bool
        False trains a matrix B in the decoder in the place of Aᵀ.
    final_relu : bool
    orthogonality_penalty : float
        λ in an additional ``λ‖I − AAᵀ‖_F²``; the paper found that it degrades the result.
    beta : float
        Where β starts.
    batch_size, learning_rate, max_epochs : int, float, int
    validation_interval : int
        Validate every so many epochs, and after the last.
    patience : int
        Stop after more than this many validations without a new best; the best weights are kept (the authors'
        code keeps the last ones).
    min_improvement : float
        A validation loss counts as better when it is lower by this much.
    clip_norm : float, optional
        Scale the gradient down to this norm: a remedy where training diverges.
    max_steps, depth_tol : int, float
        For ``n_steps="auto"``.
    validation_fraction : float
        The part of X that is held out where `fit` gets no ``X_valid``: a permutation seeded by `random_state`.
    normalize : bool
        Train on rows of unit ℓ2 norm, as the paper does. A measures rows of any size.
    device : "auto", "cpu", "cuda" or "cuda:N"
        "auto" takes a GPU where there is one.
    matmul_precision : "high", "highest" or "medium"
        "high" lets a GPU multiply in TF32 while training, which halves the time of an epoch on RCV1; `fit_together`
        takes float16, which has as many digits. It agreed with full float32 where we trained both, but for one
        training that diverged with TF32 alone (Amazon, m = 20).
        A CPU trains in full float32 but with "medium", which lets it multiply in bfloat16 where it can.
        Encoding and decoding stay in float64.
    checkpoint : path, optional
        A folder to keep the state in; `fit` goes on from the state it finds there.
    random_state : int, optional
        The same seed, machine and number of threads give the same bits.

    Attributes
    ----------
    components_ : float64 array of shape (m, d)
        A.
    weights_ : dict of arrays
        What else was trained: β (``step``), γ (``scale``), b (``shift``), B.
    n_steps_ : int
        The depth T.
    history_ : dict
        Epochs, training and validation losses at each validation, ``best``, ``best_epoch``, ``stopped_by``.
    tried_ : dict
        The best validation loss of each depth tried.

    References
    ----------
    Wu et al., "Learning a Compressed Sensing Measurement Matrix via Gradient Unrolling", ICML 2019.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.eye(8)[np.arange(40) % 8]
    >>> enc = L1AE(n_components=4, n_steps=3, max_epochs=20, random_state=0, device="cpu").fit(X)
    >>> enc.components_.shape, enc.history_["n_epochs"]
    ((4, 8), 20)
    >>> L1AE.preset("amazon", n_components=40).n_steps
    60
    """

    def __init__(
        self,
        n_components: int = 2,
        *,
        n_steps: int | str = 10,
        step_rule: str = "beta/t",
        norm: str = "affine",
        nonlinearity: str = "sign",
        tied: bool = True,
        final_relu: bool = True,
        orthogonality_penalty: float = 0.0,
        beta: float = 1.0,
        batch_size: int = 128,
        learning_rate: float = 0.01,
        max_epochs: int = 20_000,
        validation_interval: int = 10,
        patience: int = 5,
        min_improvement: float = 0.0,
        clip_norm: float | None = None,
        max_steps: int = 60,
        depth_tol: float = 0.01,
        validation_fraction: float = 0.2,
        normalize: bool = True,
        device: str = "auto",
        matmul_precision: str = "high",
        checkpoint: str | os.PathLike[str] | None = None,
        random_state: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.n_steps = n_steps
        self.step_rule = step_rule
        self.norm = norm
        self.nonlinearity = nonlinearity
        self.tied = tied
        self.final_relu = final_relu
        self.orthogonality_penalty = orthogonality_penalty
        self.beta = beta
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.max_epochs = max_epochs
        self.validation_interval = validation_interval
        self.patience = patience
        self.min_improvement = min_improvement
        self.clip_norm = clip_norm
        self.max_steps = max_steps
        self.depth_tol = depth_tol
        self.validation_fraction = validation_fraction
        self.normalize = normalize
        self.device = device
        self.matmul_precision = matmul_precision
        self.checkpoint = checkpoint
        self.random_state = random_state

    @classmethod
    def preset(cls, name: str, **overrides: Any) -> Self:
        """The paper's training parameters for a data set, any of them overridden by keyword.

        Examples
        --------
        >>> L1AE.preset("synthetic1", n_components=20, n_steps=30)
        L1AE(n_components=20, n_steps=30)
        """
        return cls(**(_preset(name) | overrides))

    def _variants(self, m: int, d: int) -> Variants:
        check_choice(self.tied, "tied", (True, False))
        depths = _depths(self.n_steps, self.max_steps)
        tol = check_positive_float(self.depth_tol, "depth_tol", allow_zero=True)
        seed = self._seed()

        def make(depth: int) -> nn.Module:
            return UnrolledNetwork(
                truncated_normal((m, d), derive_seed(seed, role="A")),
                B=None if self.tied else truncated_normal((m, d), derive_seed(seed, role="B")),
                n_steps=depth,
                step_rule=self.step_rule,
                norm=self.norm,
                nonlinearity=self.nonlinearity,
                final_relu=self.final_relu,
                beta=self.beta,
            )

        def stop(scores: list[float]) -> bool:
            return len(scores) > 1 and scores[-1] > (1.0 - tol) * min(scores[:-1])

        return Variants(make, depths, "n_steps", stop)

    def _keep(self, variant: int, network: Any) -> None:
        self.n_steps_ = variant
        self.weights_ = network.weights()
        self._set_matrix(network.A.detach().cpu().double().numpy())

    @property
    def decoder_(self) -> UnrolledDecoder:
        """The trained network as a decoder, for rows of unit norm."""
        check_is_fitted(self)
        decoder = UnrolledDecoder(
            self.weights_,
            n_steps=self.n_steps_,
            step_rule=self.step_rule,
            norm=self.norm,
            nonlinearity=self.nonlinearity,
            final_relu=self.final_relu,
        )
        return decoder.bind(self.components_)

    def _remedies(self, variant: int) -> str:
        return (
            f"lower learning_rate (now {self.learning_rate}), or clip the gradient (clip_norm=1.0). Where d is large, "
            f"unroll more steps (n_steps, now {variant}; the first loss is about d/(8·n_steps²)); where m is not far "
            f"below d, a smaller beta (now {self.beta})"
        )


class ISTAAE(TrainedEncoder, LinearEncoder):
    """Learn a measurement matrix by unrolling ISTA steps for the LASSO (the paper's ISTA-AE, for comparison).

    ``x⁽ᵗ⁺¹⁾ = soft(x⁽ᵗ⁾ + ηₜ Aᵀ(y − Ax⁽ᵗ⁾), θₜ)`` from ``x⁽⁰⁾ = 0``, with trained A, ηₜ and θₜ and a ReLU at the end.
    The paper describes no more of it; these are our choices. `inverse_transform` decodes by ℓ1 minimisation.

    Parameters
    ----------
    n_components : int
        The number m of measurements.
    n_steps : int
        The depth T.
    step, threshold : float
        Where the steps and the thresholds start; a threshold counts by its magnitude.
    final_relu : bool
    batch_size, learning_rate, max_epochs, validation_interval, patience, min_improvement, clip_norm,
    validation_fraction, normalize, device, matmul_precision, checkpoint, random_state :
        As in `L1AE`.

    Attributes
    ----------
    components_ : float64 array of shape (m, d)
        A.
    weights_ : dict of arrays
        ``step`` and ``threshold``.
    history_ : dict
        The course of the training.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.eye(8)[np.arange(40) % 8]
    >>> ISTAAE(n_components=4, n_steps=3, max_epochs=20, random_state=0, device="cpu").fit(X).components_.shape
    (4, 8)
    """

    def __init__(
        self,
        n_components: int = 2,
        *,
        n_steps: int = 10,
        step: float = 1.0,
        threshold: float = 1e-3,
        final_relu: bool = True,
        batch_size: int = 128,
        learning_rate: float = 0.01,
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
        self.n_steps = n_steps
        self.step = step
        self.threshold = threshold
        self.final_relu = final_relu
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

    @classmethod
    def preset(cls, name: str, **overrides: Any) -> Self:
        """The paper's training parameters for a data set, any of them overridden by keyword."""
        return cls(**(_preset(name) | overrides))

    def _variants(self, m: int, d: int) -> Variants:
        seed = derive_seed(self._seed(), role="A")

        def make(_: int) -> nn.Module:
            A = truncated_normal((m, d), seed)
            return ISTANetwork(
                A, n_steps=self.n_steps, step=self.step, threshold=self.threshold, final_relu=self.final_relu
            )

        return Variants(make)

    def _keep(self, variant: int, network: Any) -> None:
        self.weights_ = network.weights()
        self._set_matrix(network.A.detach().cpu().double().numpy())

    @property
    def decoder_(self) -> UnrolledDecoder:
        """The trained network as a decoder, for rows of unit norm."""
        check_is_fitted(self)
        decoder = UnrolledDecoder(self.weights_, algorithm="ista", n_steps=self.n_steps, final_relu=self.final_relu)
        return decoder.bind(self.components_)


def _preset(name: str) -> dict[str, Any]:
    if name not in PRESETS:
        raise ValueError(f"there is no preset {name!r}: the names are {', '.join(PRESETS)}.")
    return PRESETS[name]


def _depths(n_steps: int | str, max_steps: int) -> list[int]:
    """The depths to try: the one asked for, or T = 5, 10, ..., `max_steps`."""
    if isinstance(n_steps, str):
        check_choice(n_steps, "n_steps", ("auto",))
        check_count(max_steps, "max_steps", minimum=5)
        return list(range(5, max_steps + 1, 5))
    return [check_count(n_steps, "n_steps", minimum=0)]
