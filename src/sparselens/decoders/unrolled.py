"""The networks that encoders trained, as decoders: estimates, without a proof."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparselens._validation import FloatArray, check_choice
from sparselens.decoders.base import BaseDecoder
from sparselens.recovery import Recovery, Status


class UnrolledDecoder(BaseDecoder):
    """Estimate rows with a few unrolled steps of ℓ1 minimisation: the network that L1AE or ISTAAE trained.

    ``enc.decoder_`` is one, bound to ``enc.components_``. It was trained on rows of unit ℓ2 norm and its steps do not
    scale with the row: for rows of any other size, or for a proof, use `L1Decoder`.

    Parameters
    ----------
    weights : dict of arrays, optional
        The trained weights. Without them the steps are those of the plain algorithm with ``B = A``.
    algorithm : "subgradient" or "ista"
    n_steps : int
        The number T of unrolled steps.
    step_rule, norm, nonlinearity, final_relu :
        As in `L1AE`; ISTA uses `final_relu` alone.
    device : str, optional
        A torch device such as "cuda" on which the steps run, in float64.

    Examples
    --------
    >>> UnrolledDecoder(n_steps=2).bind([[1.0, 0.0, 0.0], [0.0, 0.6, 0.8]]).decode([[1.0, 0.0]]).x.toarray()
    array([[1., 0., 0.]])
    """

    def __init__(
        self,
        weights: Mapping[str, np.ndarray] | None = None,
        *,
        algorithm: str = "subgradient",
        n_steps: int = 10,
        step_rule: str = "beta/t",
        norm: str = "none",
        nonlinearity: str = "sign",
        final_relu: bool = True,
        device: str | None = None,
    ) -> None:
        self.weights = weights
        self.algorithm = algorithm
        self.n_steps = n_steps
        self.step_rule = step_rule
        self.norm = norm
        self.nonlinearity = nonlinearity
        self.final_relu = final_relu
        self.device = device

    def _prepare(self) -> None:
        import torch

        from sparselens.unroll import ISTANetwork, UnrolledNetwork

        check_choice(self.algorithm, "algorithm", ("subgradient", "ista"))
        options: dict[str, Any] = {"n_steps": self.n_steps, "final_relu": self.final_relu}
        kind: Any = ISTANetwork
        if self.algorithm == "subgradient":
            kind = UnrolledNetwork
            options |= {"step_rule": self.step_rule, "norm": self.norm, "nonlinearity": self.nonlinearity}
        if self.weights is None:
            self._network_ = kind(torch.from_numpy(self.A_.copy()), **options).eval().to(self.device or "cpu")
            return
        try:
            self._network_ = kind.from_weights(self.A_, self.weights, **options).to(self.device or "cpu")
        except RuntimeError as error:
            raise ValueError(
                f"the weights do not fit a matrix of shape {self.A_.shape} and these options: bind the matrix they "
                f"were trained with ({error})."
            ) from None

    def _decode_block(self, Y: FloatArray) -> Recovery:
        import torch

        with torch.no_grad():
            rows = torch.tensor(Y, device=self.device)  # a copy: Y may be read-only
            X = self._network_(rows).cpu().numpy()
        return self._estimate(Y, X, n_steps=self.n_steps)


class FeedForwardDecoder(BaseDecoder):
    """Estimate rows with the two decoding layers of a `DeepAE`: ``relu(relu(yV₁ᵀ + c₁)V₂ᵀ + c₂)``.

    There is no measurement matrix, so it is not bound, and `residual` is NaN.

    Parameters
    ----------
    layers : sequence of (V, c)
        Matrix (width out, width in) and offset (width out) of each layer.

    Examples
    --------
    >>> import numpy as np
    >>> layers = [(np.eye(2), np.zeros(2)), (np.ones((3, 2)), np.zeros(3))]
    >>> FeedForwardDecoder(layers).decode([[1.0, 2.0]]).x.toarray()
    array([[3., 3., 3.]])
    """

    def __init__(self, layers: Any) -> None:
        self.layers = layers

    def bind(self, A: Any) -> Any:
        raise TypeError("a FeedForwardDecoder has no measurement matrix: call decode(Y) as it is.")

    def _bound_matrix(self) -> FloatArray:
        # The base class reads nothing but its shape; a zero that is shown m·d times takes no memory.
        return np.broadcast_to(np.zeros(1), (self.layers[0][0].shape[1], self.layers[-1][0].shape[0]))

    def _decode_block(self, Y: FloatArray) -> Recovery:
        X = Y
        for V, c in self.layers:
            X = np.maximum(X @ np.asarray(V, dtype=np.float64).T + c, 0.0)
        n = len(Y)
        unknown = np.full(n, np.nan)
        status = np.full(n, Status.ESTIMATE, dtype=np.uint8)
        return Recovery(sp.csr_array(X), status, unknown, unknown.copy(), np.full(n, len(self.layers), dtype=np.int64))
