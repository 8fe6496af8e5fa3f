"""Certificate training: learn the measurement matrix for the exact decoder itself."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from sparselens._certificate_loss import LOSSES
from sparselens._random import derive_rng, derive_seed
from sparselens._validation import FloatArray, check_choice, check_count, check_positive_float
from sparselens.decoders.base import BaseDecoder
from sparselens.decoders.certify import Promise, certify
from sparselens.encoders._certificate_task import Judge, Recipe
from sparselens.encoders._search import RECIPES, Search
from sparselens.encoders.base import LinearEncoder, hold_out, training_identity
from sparselens.encoders.random import gaussian_matrix
from sparselens.train import check_seeded, choose_device


class CertificateEncoder(LinearEncoder):
    r"""Learn measurements so that a proof of exact recovery exists for the rows (certificate training).

    A row x ≥ 0 with support S is the only solution of ``min 1ᵀx s.t. Ax = y, x ≥ 0`` if and only if A_S has full
    column rank and some u has ``A_Sᵀu = 1`` and ``a_jᵀu < 1`` off the support. A is trained so that the shortest such
    candidate, ``u_S = A_S(A_SᵀA_S)⁻¹1``, satisfies it with a margin δ:

    .. math:: \min_A \; \text{mean over supports } S \text{ of } \sum_{j \notin S} \max(0, a_j^\top u_S - (1-\delta))^2

    Nothing is unrolled and no value of x matters, only supports. Supports are varied by exchanging columns, or sets of
    columns that occur together, between rows. Loss, margin and exchange are chosen by decoding validation rows with
    the exact decoder; a matrix that does no better than the Gaussian one it started from is not kept.

    Parameters
    ----------
    n_components : int
        The number m of measurements.
    positive : bool
        False takes signed rows: ``A_Sᵀu = sign(x_S)``, ``|a_jᵀu| < 1``, decoded by signed ℓ1 minimisation.
    margin : float or "auto"
        δ, between 0 and 1; the temperature where the loss is "softmax".
    swap : float or "auto"
        The probability that a part of a support is exchanged.
    uniform : float or "auto"
        The probability that it is exchanged for any column rather than for a part of another row: columns that no
        training row uses are then served better.
    thin : float or "auto"
        The probability that a support is thinned, so that A is trained on parts of rows too: for a small m, from which
        few rows can come back as a whole.
    drop : float or "auto"
        The probability that a measurement is left out of a step: what the others must do without it, they do for new
        rows too.
    loss : "hinge", "log", "ratio", "softmax" or "auto"
        The loss ℓ above; ``log(1 + ℓ)`` or ``ℓ/(1 + ℓ)``, in which rows that m measurements cannot serve count less;
        a smooth maximum of a_jᵀu_S.
    max_steps : int
        Steps of the longest training; all recipes together take at most twice as many.
    batch_size : int
        Supports of a step.
    learning_rate : float or "auto"
        The largest learning rate of Adam. A starts with entries of size 1/√m.
    clip_norm : float
        A longer gradient is cut to this norm.
    n_validation : int
        Validation rows that are decoded for each score. Where there are more of them, the others are trained on.
    validation_fraction : float
        The part of X that is held out where `fit` gets no ``X_valid``: a permutation seeded by `random_state`.
    device : "auto", "cpu", "cuda" or "cuda:N"
    checkpoint : path, optional
        A folder that keeps the state of the training: `fit` with the same parameters and rows goes on from there after
        a kill, and ends with the same bits.
    random_state : int, optional
        The same seed, machine and number of threads give the same bits on a CPU.

    Attributes
    ----------
    components_ : float64 array of shape (m, d)
        A.
    recipe_ : dict
        The loss, margin, swap, uniform, thin, drop and learning rate that were chosen.
    structure_found_ : bool
        Whether the matrix serves these rows better than a Gaussian one, and better than rows with as many nonzeros
        in random columns.
    report_ : str
        The same in a sentence.
    n_too_long_ : int
        Training rows with more than m nonzeros: nothing can recover them, and they are not trained on.
    validation_rows_ : int array or None
        Which rows of ``X_valid`` the scores decode; the others are trained on. None where `fit` got no ``X_valid``.
    history_ : dict
        ``tried``: what was trained, for how many steps, and how the validation rows came back; ``gaussian``: the
        same of the start; ``n_steps``; ``stopped_by``.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = np.kron(np.eye(10)[rng.integers(10, size=200)], np.ones(4)) * rng.uniform(0.1, 1, (200, 40))
    >>> enc = CertificateEncoder(n_components=4, max_steps=400, random_state=0, device="cpu").fit(X)
    >>> enc.structure_found_
    True
    >>> bool(abs(enc.inverse_transform(enc.transform(X)) - X).max() < 1e-10)  # 4 unknown values, 4 measurements
    True
    """

    def __init__(
        self,
        n_components: int = 2,
        *,
        positive: bool = True,
        margin: float | str = "auto",
        swap: float | str = "auto",
        uniform: float | str = "auto",
        thin: float | str = "auto",
        drop: float | str = "auto",
        loss: str = "auto",
        max_steps: int = 4000,
        batch_size: int = 256,
        learning_rate: float | str = "auto",
        clip_norm: float = 1.0,
        n_validation: int = 1024,
        validation_fraction: float = 0.2,
        device: str = "auto",
        checkpoint: str | os.PathLike[str] | None = None,
        random_state: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.positive = positive
        self.margin = margin
        self.swap = swap
        self.uniform = uniform
        self.thin = thin
        self.drop = drop
        self.loss = loss
        self.max_steps = max_steps
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.clip_norm = clip_norm
        self.n_validation = n_validation
        self.validation_fraction = validation_fraction
        self.device = device
        self.checkpoint = checkpoint
        self.random_state = random_state

    @property
    def _nonnegative(self) -> bool:  # type: ignore[override]
        return bool(self.positive)

    def decoder(self) -> BaseDecoder:
        """ℓ1 minimisation, bound to `components_`; x ≥ 0 where `positive`."""
        from sparselens.decoders.l1 import L1Decoder

        check_is_fitted(self)
        return L1Decoder(positive=self.positive).bind(self.components_)

    def certify(self, X: Any) -> Promise:
        """Say for each row whether the receiver will recover it exactly, and by what slack.

        Whoever encodes knows x: where the minimum-norm dual vector of its support is a certificate, or the linear
        program itself gives x back, the receiver's decoder will.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, d)

        Returns
        -------
        Promise
            ``exact``, ``slack`` and ``by`` ("certificate", "lp" or "no") of each row.
        """
        check_is_fitted(self)
        return certify(self.components_, self._check(X, reset=False), positive=self.positive)

    # ---- fitting --------------------------------------------------------------------------------------------

    def _learn(
        self, X: sp.csr_array, X_valid: sp.csr_array | None, m: int, callback: Callable[..., Any] | None
    ) -> FloatArray:
        recipes = self._recipes()
        check_seeded(self.random_state, self.checkpoint)
        seed = derive_seed(self.random_state, role="training")
        identity = None if self.checkpoint is None else training_identity(self, X, X_valid)
        X, X_valid = self._split(X, X_valid, seed)
        self.n_too_long_ = int((np.diff(X.indptr) > m).sum())
        search = Search(
            Judge(X_valid, positive=self.positive, device=choose_device(self.device)),
            gaussian_matrix(m, X.shape[1], derive_rng(seed, role="A")),
            positive=self.positive,
            max_steps=check_count(self.max_steps, "max_steps"),
            batch_size=check_count(self.batch_size, "batch_size"),
            clip_norm=check_positive_float(self.clip_norm, "clip_norm"),
            seed=seed,
            callback=callback,
            checkpoint=self.checkpoint,
            identity=identity,
        )
        search.run(X, recipes)
        self.history_, self.recipe_ = search.history, search.recipe.as_dict()
        A, self.structure_found_, self.report_ = search.verdict()
        return A

    def _recipes(self) -> list[Recipe]:
        """What to try: the table, with what the user has fixed in the place of its values."""
        check_choice(self.positive, "positive", (True, False))
        fixed: dict[str, Any] = {}
        if self.loss != "auto":
            fixed["loss"] = check_choice(self.loss, "loss", (*LOSSES, "auto"))
        for name in ("margin", "swap", "uniform", "thin", "drop", "learning_rate"):
            value = getattr(self, name)
            if isinstance(value, str):
                check_choice(value, name, ("auto",))
            else:
                fixed[name] = check_positive_float(value, name, allow_zero=name in ("swap", "uniform", "thin", "drop"))
                if fixed[name] > 1 and name != "learning_rate":
                    raise ValueError(f"{name} must be at most 1, got {value}.")
        recipes = [r for r in RECIPES if r.loss == fixed.get("loss", r.loss)] or list(RECIPES)
        return list(dict.fromkeys(replace(r, **fixed) for r in recipes))

    def _split(self, X: sp.csr_array, X_valid: sp.csr_array | None, seed: int) -> tuple[sp.csr_array, sp.csr_array]:
        """Training rows, and at most `n_validation` validation rows; the others of these are trained on too."""
        n_valid = check_count(self.n_validation, "n_validation")
        rng = derive_rng(seed, role="split")
        self.validation_rows_ = None
        if X_valid is not None:
            order = rng.permutation(X_valid.shape[0])
            self.validation_rows_ = np.sort(order[:n_valid])
            X_valid = X_valid[order]
        X, X_valid = hold_out(X, X_valid, fraction=self.validation_fraction, rng=rng)
        if X_valid.shape[0] > n_valid:
            X = sp.csr_array(sp.vstack([X, X_valid[n_valid:]], format="csr"))
        return X, X_valid[:n_valid]
