"""Certificate training: learn the measurement matrix for the exact decoder itself."""

from __future__ import annotations

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
from sparselens.encoders._certificate_task import CertificateTask, Columns, Judge, Recipe, Score, decode_errors
from sparselens.encoders._supports import SupportSampler
from sparselens.encoders.base import LinearEncoder
from sparselens.encoders.random import gaussian_matrix
from sparselens.metrics import EXACT
from sparselens.train import Event, Settings, choose_device, train

# What is tried where the user leaves the choice open, the one that won most often first. No other number of the
# training depends on the data.
RECIPES = (
    Recipe("hinge", 0.3, 0.1, 0.5),
    Recipe("hinge", 0.3, 0.5, 0.1),
    Recipe("hinge", 0.3, 0.05, 1.0),
    Recipe("softmax", 0.05, 0.1, 0.5),
    Recipe("log", 0.3, 0.0, 0.0),
)
_RUNGS = ((1 / 8, 3), (1 / 4, 1), (1.0, 1))  # (part of max_steps, recipes that go on)
_MOST_VALID = 4096  # validation rows that are ever decoded
_SIGMAS = 2.0  # a difference below this many standard errors is noise
_N_VALIDATIONS = 8  # in the last rung
EARLY = "every validation row came back"


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
        training row uses are then served too.
    loss : "hinge", "log", "ratio", "softmax" or "auto"
        The loss ℓ above; ``log(1 + ℓ)`` or ``ℓ/(1 + ℓ)``, in which rows that m measurements cannot serve count less;
        a smooth maximum of a_jᵀu_S.
    max_steps : int
        Steps of the longest training; all recipes together take about twice as many.
    batch_size, learning_rate, clip_norm : int, float, float
        Supports of a step; Adam's largest rate; the largest norm of a gradient.
    n_validation : int
        Validation rows that are decoded for each score (up to 4,096 when all of these come back).
    validation_fraction : float
        The part of X that is held out where `fit` gets no ``X_valid``: a permutation seeded by `random_state`.
    device : "auto", "cpu", "cuda" or "cuda:N"
    random_state : int, optional
        The same seed, machine and number of threads give the same bits on a CPU.

    Attributes
    ----------
    components_ : float64 array of shape (m, d)
        A.
    recipe_ : dict
        The loss, margin, swap and uniform that were chosen.
    structure_found_ : bool
        Whether the matrix serves these rows better than a Gaussian one, and better than rows with as many nonzeros
        in random columns.
    report_ : str
        The same in a sentence.
    n_too_long_ : int
        Training rows with more than m nonzeros: nothing can recover them, and they are not trained on.
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
        loss: str = "auto",
        max_steps: int = 4000,
        batch_size: int = 256,
        learning_rate: float = 0.01,
        clip_norm: float = 1.0,
        n_validation: int = 512,
        validation_fraction: float = 0.2,
        device: str = "auto",
        random_state: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.positive = positive
        self.margin = margin
        self.swap = swap
        self.uniform = uniform
        self.loss = loss
        self.max_steps = max_steps
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.clip_norm = clip_norm
        self.n_validation = n_validation
        self.validation_fraction = validation_fraction
        self.device = device
        self.random_state = random_state

    @property
    def _nonnegative(self) -> bool:  # type: ignore[override]
        return bool(self.positive)

    def decoder(self) -> BaseDecoder:
        """ℓ1 minimisation, bound to `components_`; x ≥ 0 where `positive`."""
        from sparselens.decoders.l1 import L1Decoder

        check_is_fitted(self)
        return L1Decoder(positive=self.positive).bind(self.components_)

    # ---- fitting --------------------------------------------------------------------------------------------

    def _learn(
        self, X: sp.csr_array, X_valid: sp.csr_array | None, m: int, callback: Callable[..., Any] | None
    ) -> FloatArray:
        recipes = self._recipes()
        seed = derive_seed(self.random_state, role="training")
        device = choose_device(self.device)
        start = gaussian_matrix(m, X.shape[1], derive_rng(seed, role="A"))
        X, X_valid = self._split(X, X_valid, seed)
        self.n_too_long_ = int((np.diff(X.indptr) > m).sum())
        judge = Judge(
            X_valid, positive=self.positive, device=device, n_sample=check_count(self.n_validation, "n_validation")
        )
        search = _Search(self, judge, start, seed, callback)
        usable = _usable(X, m)
        if usable.shape[0]:
            search.run(SupportSampler(usable), recipes, m)
        self.history_, self.recipe_ = search.history(), search.best_recipe.as_dict()
        A = search.verdict(self, usable.shape[0])
        return A

    def _recipes(self) -> list[Recipe]:
        """What to try: the table, with what the user has fixed in the place of its values."""
        check_choice(self.positive, "positive", (True, False))
        fixed: dict[str, Any] = {}
        if self.loss != "auto":
            fixed["loss"] = check_choice(self.loss, "loss", (*LOSSES, "auto"))
        for name in ("margin", "swap", "uniform"):
            value = getattr(self, name)
            if isinstance(value, str):
                check_choice(value, name, ("auto",))
            else:
                fixed[name] = check_positive_float(value, name, allow_zero=name != "margin")
                if fixed[name] > 1:
                    raise ValueError(f"{name} must be at most 1, got {value}.")
        recipes = [r for r in RECIPES if r.loss == fixed.get("loss", r.loss)]
        return list(dict.fromkeys(replace(r, **fixed) for r in recipes))

    def _split(self, X: sp.csr_array, X_valid: sp.csr_array | None, seed: int) -> tuple[sp.csr_array, sp.csr_array]:
        """Training and validation rows; at most `_MOST_VALID` of the latter, in an order that the seed gives."""
        fraction = check_positive_float(self.validation_fraction, "validation_fraction")
        if fraction >= 1:
            raise ValueError(f"validation_fraction must be below 1, got {fraction}.")
        rng = derive_rng(seed, role="split")
        if X_valid is None:
            order = rng.permutation(X.shape[0])
            n_valid = max(1, round(fraction * len(order)))
            X, X_valid = (X[order[n_valid:]], X[order[:n_valid]]) if len(order) > n_valid else (X, X)
        else:
            X_valid = X_valid[rng.permutation(X_valid.shape[0])]
        return X, X_valid[:_MOST_VALID]


def _usable(X: sp.csr_array, m: int) -> sp.csr_array:
    """Rows with at least one and at most m nonzeros, and a zero."""
    counts = np.diff(X.indptr)
    return X[np.flatnonzero((counts > 0) & (counts <= m) & (counts < X.shape[1]))]


class _Search:
    """Successive halving: train every recipe briefly, the better ones longer, the best to the end."""

    def __init__(
        self, enc: CertificateEncoder, judge: Judge, start: FloatArray, seed: int, callback: Callable[..., Any] | None
    ) -> None:
        self.enc, self.judge, self.start, self.seed, self.callback = enc, judge, start, seed, callback
        self.gaussian = judge(start)
        self.best, self.best_A, self.best_recipe = self.gaussian, start, RECIPES[0]
        self.tried: list[dict[str, Any]] = []
        self.n_steps, self.stopped_by = 0, ""

    def run(self, sampler: SupportSampler, recipes: list[Recipe], m: int) -> None:
        self.best_recipe = recipes[0]
        live = [(recipe, self.start) for recipe in recipes]
        max_steps = check_count(self.enc.max_steps, "max_steps")
        for part, n_left in _RUNGS:
            if len(live) <= n_left and part < 1.0:
                continue
            ended: list[tuple[float, int, Recipe, FloatArray]] = []
            for recipe, A in live:
                score, A = self._train(sampler, recipe, A, m, max(1, round(part * max_steps)), last=part == 1.0)
                ended.append((score.total, len(ended), recipe, A))
                if self.stopped_by:
                    return
            live = [(recipe, A) for _, _, recipe, A in sorted(ended, key=lambda one: one[:2])[:n_left]]
        self.stopped_by = "max_steps"

    def _train(
        self, sampler: SupportSampler, recipe: Recipe, A: FloatArray, m: int, n_steps: int, *, last: bool
    ) -> tuple[Score, FloatArray]:
        n_validations = min(_N_VALIDATIONS, n_steps) if last else 1
        device = self.judge.device
        batch_size = check_count(self.enc.batch_size, "batch_size")
        n_rows = batch_size * -(-n_steps // n_validations)
        task = CertificateTask(
            Columns(A, device),
            sampler,
            self.judge,
            recipe,
            n_rows=n_rows,
            learning_rate=check_positive_float(self.enc.learning_rate, "learning_rate"),
            positive=self.enc.positive,
            max_length=min(m, sampler.d - 1),
        )
        settings = Settings(
            batch_size=batch_size,
            max_epochs=n_validations,
            validation_interval=1,
            patience=n_validations,
            clip_norm=check_positive_float(self.enc.clip_norm, "clip_norm"),
            seed=derive_seed(self.seed, role="batches", step=self.n_steps),
        )
        history = train(task, settings, callback=self._told)
        self.n_steps += history.n_epochs * n_rows // batch_size
        score, A = task.scores[history.best_epoch - 1], task.module.matrix()
        self.tried.append(
            recipe.as_dict()
            | {"n_steps": history.n_epochs * n_rows // batch_size}
            | {"exact": score.exact, "rmse": score.rmse, "train_loss": history.train_loss[history.best_epoch - 1]}
        )
        if score.total < self.best.total:
            self.best, self.best_A, self.best_recipe = score, A, recipe
        return score, A

    def _told(self, event: Event) -> bool:
        if self.callback is not None and self.callback(event):
            self.stopped_by = "callback"
        elif event.best <= 0.0:
            self.stopped_by = EARLY
        return bool(self.stopped_by)

    def history(self) -> dict[str, Any]:
        return {
            "tried": self.tried,
            "gaussian": {"exact": self.gaussian.exact, "rmse": self.gaussian.rmse},
            "best": {"exact": self.best.exact, "rmse": self.best.rmse},
            "n_steps": self.n_steps,
            "stopped_by": self.stopped_by or "nothing to train on",
        }

    def verdict(self, enc: CertificateEncoder, n_usable: int) -> FloatArray:
        """The matrix to keep, and what is said about it (`structure_found_`, `report_`)."""
        n = min(len(self.gaussian.errors), len(self.best.errors))
        mine, gaussian = self.best.errors[:n], self.gaussian.errors[:n]
        if n_usable == 0:
            better, why = False, "no training row has between 1 and n_components nonzeros"
        else:
            better = _beats(mine, gaussian)
            why = (
                f"it brings back {self.best.exact:.1%} of the validation rows, a Gaussian one {self.gaussian.exact:.1%}"
            )
        if better:
            shuffled = decode_errors(
                self.best_A,
                _at_random_columns(self.judge.X[:n], derive_rng(self.seed, role="shuffle")),
                positive=enc.positive,
                device=self.judge.device,
            )
            enc.structure_found_ = _beats(mine, shuffled)
            found = "structure found" if enc.structure_found_ else "no structure found, but a better matrix"
            enc.report_ = f"{found}: {why}, and {np.mean(shuffled <= EXACT):.1%} of rows with random columns."
            return self.best_A
        enc.structure_found_ = False
        enc.report_ = f"no structure found, the Gaussian start is kept: {why}."
        return self.start


def _beats(mine: FloatArray, other: FloatArray) -> bool:
    """Whether more rows come back, or the squared errors are smaller, by more than noise (row by row)."""
    for gain in ((mine <= EXACT).astype(float) - (other <= EXACT), other**2 - mine**2):
        error = np.sqrt(np.sum((gain - gain.mean()) ** 2)) if len(gain) > 1 else np.inf
        if gain.sum() > _SIGMAS * error and gain.sum() > 0:
            return True
    return False


def _at_random_columns(X: sp.csr_array, rng: np.random.Generator) -> sp.csr_array:
    """Rows with the same values in columns drawn at random."""
    d, counts = X.shape[1], np.diff(X.indptr)
    columns = [rng.choice(d, count, replace=False) for count in counts]
    out = sp.csr_array(
        (X.data.copy(), np.concatenate([*columns, np.zeros(0, dtype=np.int64)]), X.indptr), shape=X.shape
    )
    out.sort_indices()
    return out
