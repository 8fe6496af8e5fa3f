"""The search for a recipe of certificate training: try several briefly, train the better ones longer."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparselens._checkpoint import Checkpoint
from sparselens._random import derive_rng, derive_seed
from sparselens._validation import FloatArray
from sparselens.encoders._certificate_task import CertificateTask, Columns, Judge, Recipe, decode_errors
from sparselens.encoders._supports import SupportSampler
from sparselens.metrics import EXACT
from sparselens.train import Event, Settings, train

# What is tried where the user leaves the choice open; no other number of the training depends on the data.
# Little exchange and a large margin serve one-hot data and labels, more exchange longer supports such as words, and
# exchange of half of the columns data that is made of atoms. Parts of supports help where m is too small for many rows,
# and "ratio" on parts alone where it is too small for most.
RECIPES = (
    Recipe("log", 0.5, swap=0.05, uniform=1.0, learning_rate=0.03),
    Recipe("log", 0.3, swap=0.1, uniform=0.5),
    Recipe("log", 0.3, swap=0.5, uniform=0.1),
    Recipe("log", 0.5, swap=0.5, uniform=0.1, thin=0.5),
    Recipe("ratio", 0.7, swap=0.1, uniform=0.5, thin=1.0),
)
RUNGS = ((1 / 8, 2), (1 / 4, 1), (1.0, 1))  # (part of max_steps, recipes that go on)
_N_VALIDATIONS = 4  # in the last rung
_FAR = 0.5  # unless the best score is below this part of the Gaussian one: then there is structure, and longer helps
_SIGMAS = 2.0  # a difference below this many standard errors is noise
EARLY = "every validation row came back"


class Search:
    """Successive halving over recipes, from one Gaussian start, judged by decoding validation rows.

    After `run`: `A`, `score` and `recipe` of the best matrix, and `history`.

    Parameters
    ----------
    judge : Judge
    start : float64 array of shape (m, d)
        The Gaussian matrix from which every recipe starts.
    positive : bool
    max_steps, batch_size, clip_norm :
        As in `CertificateEncoder`.
    seed : int
    callback : callable, optional
    checkpoint : path, optional
        Keeps the state of every training that has begun, a folder each; a search that was killed goes on from there.
    identity : dict, optional
        What must be equal for that: parameters and checksums of the rows, as JSON.
    """

    def __init__(
        self,
        judge: Judge,
        start: FloatArray,
        *,
        positive: bool,
        max_steps: int,
        batch_size: int,
        clip_norm: float,
        seed: int,
        callback: Callable[..., Any] | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        identity: dict[str, Any] | None = None,
    ) -> None:
        self.judge, self.start, self.positive = judge, start, positive
        self.checkpoint, self.identity = checkpoint, identity or {}
        self.max_steps, self.batch_size = max_steps, batch_size
        self.clip_norm, self.seed, self.callback = clip_norm, seed, callback
        self.gaussian = judge(start)
        self.A, self.score, self.recipe = start, self.gaussian, RECIPES[0]
        self.tried: list[dict[str, Any]] = []
        self.n_steps, self.stopped_by = 0, ""
        self._planned = 1.0  # steps of all rungs

    def run(self, X: sp.csr_array, recipes: list[Recipe]) -> None:
        """Train on the supports of the rows of X that m measurements can bring back."""
        m, d = self.start.shape
        counts = np.diff(X.indptr)
        usable = X[np.flatnonzero((counts > 0) & (counts <= m) & (counts < d))]
        self.recipe = recipes[0]
        if usable.shape[0] == 0:
            self.stopped_by = "no row has between 1 and n_components nonzeros"
            return
        self._halve(SupportSampler(usable), recipes)
        self.stopped_by = self.stopped_by or "max_steps"

    def _halve(self, sampler: SupportSampler, recipes: list[Recipe]) -> None:
        live = [(np.inf, recipe, self.start) for recipe in recipes]
        sizes = [len(recipes), *(n_left for _, n_left in RUNGS[:-1])]
        rungs = zip(sizes, RUNGS, strict=True)
        self._planned = sum(min(size, len(recipes)) * part for size, (part, n) in rungs if size > n or part == 1.0)
        self._planned *= self.max_steps
        for part, n_left in RUNGS:
            if len(live) <= n_left and part < 1.0:
                continue
            n_steps = max(1, round(part * self.max_steps))
            ended: list[tuple[float, Recipe, FloatArray]] = []
            for _, recipe, A in live:
                total, A = self._train_recipe(sampler, recipe, A, n_steps, 1 if part < 1.0 else _N_VALIDATIONS)
                ended.append((total, recipe, A))
                if self.stopped_by:
                    return
            live = sorted(ended, key=lambda one: one[0])[:n_left]

    def _train_recipe(
        self, sampler: SupportSampler, recipe: Recipe, A: FloatArray, n_steps: int, n_validations: int
    ) -> tuple[float, FloatArray]:
        n_validations = min(n_validations, n_steps)
        task = CertificateTask(
            Columns(A, self.judge.device),
            sampler,
            self.judge,
            recipe,
            n_rows=self.batch_size * -(-n_steps // n_validations),
            positive=self.positive,
            max_length=min(len(A), sampler.d - 1),
        )
        return self._train(task, n_validations)

    def _train(self, task: CertificateTask, n_validations: int) -> tuple[float, FloatArray]:
        """Run the loop; keep the matrix if it is the best so far. Returns its score and the matrix."""
        settings = Settings(
            batch_size=self.batch_size,
            max_epochs=n_validations,
            validation_interval=1,
            patience=n_validations,
            clip_norm=self.clip_norm,
            seed=derive_seed(self.seed, role="batches", step=self.n_steps),
        )
        steps = task.n_rows // self.batch_size  # of an epoch
        keep = None
        if self.checkpoint is not None:
            task.identity = self.identity | {"training": task.recipe.as_dict(), "stage": len(self.tried)}
            keep = Checkpoint(os.path.join(self.checkpoint, f"stage-{len(self.tried)}"))
        history = train(task, settings, callback=lambda event: self._told(event, steps), checkpoint=keep)
        n_steps = history.n_epochs * steps
        self.n_steps += n_steps
        A = task.module.matrix()
        # A stage that went on from a checkpoint has not seen all its scores.
        score = task.scores[history.best_epoch - 1] if len(task.scores) == history.n_epochs else self.judge(A)
        figures = {"n_steps": n_steps, "exact": score.exact, "rmse": score.rmse, "train_loss": history.train_loss[-1]}
        self.tried.append(task.recipe.as_dict() | figures)
        if score.total < self.score.total or score.total == 0.0:  # where both bring back all, the trained one has slack
            self.score, self.A, self.recipe = score, A, task.recipe
        return score.total, A

    def _told(self, event: Event, steps: int) -> bool:
        event = replace(event, progress=min(1.0, (self.n_steps + event.epoch * steps) / self._planned))
        if self.callback is not None and self.callback(event):
            self.stopped_by = "callback"
        elif event.best <= 0.0:
            self.stopped_by = EARLY
        return bool(self.stopped_by)

    @property
    def history(self) -> dict[str, Any]:
        """What was tried, how the validation rows came back, and why it ended."""
        return {
            "tried": self.tried,
            "gaussian": {"exact": self.gaussian.exact, "rmse": self.gaussian.rmse},
            "best": {"exact": self.score.exact, "rmse": self.score.rmse},
            "n_steps": self.n_steps,
            "stopped_by": self.stopped_by,
        }

    def verdict(self) -> tuple[FloatArray, bool, str]:
        """The matrix to keep, whether it has found structure, and the reason in a sentence."""
        n = min(len(self.gaussian.errors), len(self.score.errors))
        mine, gaussian = self.score.errors[:n], self.gaussian.errors[:n]
        why = f"it brings back {self.score.exact:.1%} of the validation rows, a Gaussian one {self.gaussian.exact:.1%}"
        if not self.tried:
            why = self.stopped_by
        if self.tried and self.gaussian.total == self.score.total == 0.0:
            return self.A, False, "no structure found: every validation row comes back from a Gaussian matrix too."
        if not self.tried or not beats(mine, gaussian):
            return self.start, False, f"no structure found, the Gaussian start is kept: {why}."
        rows = at_random_columns(self.judge.X[:n], derive_rng(self.seed, role="columns"))
        shuffled = decode_errors(self.A, rows, positive=self.positive, device=self.judge.device)
        found = beats(mine, shuffled)
        what = "structure found" if found else "no structure found, but a better matrix than a Gaussian one"
        return self.A, found, f"{what}: {why}; of rows with random columns {np.mean(shuffled <= EXACT):.1%}."


def beats(mine: FloatArray, other: FloatArray) -> bool:
    """Whether more rows come back, or the squared errors are smaller, by more than noise (row by row).

    Examples
    --------
    >>> beats(np.zeros(50), np.ones(50)), beats(np.ones(50), np.ones(50))
    (True, False)
    """
    for gain in ((mine <= EXACT).astype(float) - (other <= EXACT), other**2 - mine**2):
        if len(gain) > 1 and gain.sum() > _SIGMAS * np.sqrt(np.sum((gain - gain.mean()) ** 2)):
            return True
    return False


def at_random_columns(X: sp.csr_array, rng: np.random.Generator) -> sp.csr_array:
    """Rows with the same values in columns drawn at random."""
    columns = [rng.choice(X.shape[1], count, replace=False) for count in np.diff(X.indptr)]
    indices = np.concatenate([*columns, np.zeros(0, dtype=np.int64)])
    out = sp.csr_array((X.data.copy(), indices, X.indptr.copy()), shape=X.shape)
    out.sort_indices()
    return out
