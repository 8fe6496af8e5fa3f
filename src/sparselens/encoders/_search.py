"""The search for a recipe of certificate training: try several briefly, train the better ones longer."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparselens._checkpoint import Checkpoint
from sparselens._random import derive_rng, derive_seed
from sparselens._validation import FloatArray
from sparselens.encoders._certificate_task import CertificateTask, Columns, Judge, Recipe, Score, decode_errors
from sparselens.encoders._supports import SupportSampler
from sparselens.metrics import EXACT
from sparselens.train import Event, Settings, train

# What is tried where the user leaves the choice open; no other number of the training depends on the data.
# Little exchange, with every measurement, serves one-hot data and an m near its limit; more exchange, with a fifth of
# the measurements left out of every step, labels and words where there is room; exchange of half of the columns data
# that is made of atoms. Parts of supports help where m is too small for many rows, and "ratio" on parts alone where it
# is too small for most.
RECIPES = (
    Recipe("log", 0.3, swap=0.05, uniform=1.0, learning_rate=0.03),
    Recipe("log", 0.3, swap=0.1, uniform=0.5, drop=0.2, learning_rate=0.03),
    Recipe("log", 0.3, swap=0.5, uniform=0.1),
    Recipe("log", 0.5, swap=0.5, uniform=0.1, thin=0.5, drop=0.2),
    Recipe("ratio", 0.6, swap=0.1, uniform=0.5, thin=1.0, drop=0.2),
)
RUNGS = ((1 / 16, 2), (1 / 8, 1), (1 / 4, 1), (1.0, 1))  # (part of max_steps, recipes that go on)
_N_VALIDATIONS = 4  # in the last rung
_SIGMAS = 2.0  # a difference below this many standard errors is noise
_SURE_SIGMAS = 4.0  # before structure is claimed: the best of many matrices on these rows is a little lucky on them
EARLY = "every validation row is proved to come back"
NO_GAIN = "a longer training brought no gain"


@dataclass(frozen=True)
class _Run:
    """A recipe on its way: its matrix, the score of that, and whether the last rung has brought a gain."""

    recipe: Recipe
    A: FloatArray
    score: Score
    gained: bool = True


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
        self._began = time.perf_counter()

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
        """Rung by rung: the better recipes go on, for longer, while that brings a gain beyond noise."""
        live = [_Run(recipe, self.start, self.gaussian) for recipe in recipes]
        sizes = [len(recipes), *(n_left for _, n_left in RUNGS[:-1])]
        self._planned = self.max_steps * sum(
            min(n, len(recipes)) * part for n, (part, _) in zip(sizes, RUNGS, strict=True)
        )
        for part, n_left in RUNGS:
            n_steps = max(1, round(part * self.max_steps))
            ended: list[_Run] = []
            for run in live:
                ended.append(self._train_recipe(sampler, run, n_steps, 1 if part < 1.0 else _N_VALIDATIONS))
                if self.stopped_by:
                    return
            live = sorted(ended, key=lambda run: run.score.total)[:n_left]
            if part < 1.0 and not any(run.gained for run in live):
                self.stopped_by = NO_GAIN
                return

    def _train_recipe(self, sampler: SupportSampler, run: _Run, n_steps: int, n_validations: int) -> _Run:
        n_validations = min(n_validations, n_steps)
        task = CertificateTask(
            Columns(run.A, self.judge.device),
            sampler,
            self.judge,
            run.recipe,
            n_rows=self.batch_size * -(-n_steps // n_validations),
            positive=self.positive,
            max_length=min(len(run.A), sampler.d - 1),
        )
        A, score = self._train(task, n_validations)
        return _Run(run.recipe, A, score, gained=gains(score, run.score))

    def _train(self, task: CertificateTask, n_validations: int) -> tuple[FloatArray, Score]:
        """Run the loop; keep the matrix if it is the best so far. Returns the matrix and its score."""
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
        figures = {"n_steps": n_steps, "exact": score.exact, "rmse": score.rmse, "proved": float(score.proved.mean())}
        figures["train_loss"] = history.train_loss[-1]
        self.tried.append(task.recipe.as_dict() | figures)
        if score.total < self.score.total or score.total == 0.0:  # where both bring back all, the trained one has slack
            self.score, self.A, self.recipe = score, A, task.recipe
        return A, score

    def _told(self, event: Event, steps: int) -> bool:
        done = min(1.0, (self.n_steps + event.epoch * steps) / self._planned)
        event = replace(event, progress=done, seconds=time.perf_counter() - self._began)
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
        why = f"it brings back {self.score.exact:.1%} of the validation rows, a Gaussian one {self.gaussian.exact:.1%}"
        if not self.tried:
            why = self.stopped_by
        if self.tried and self.gaussian.exact == self.score.exact == 1.0:
            return self.A, False, "no structure found: every validation row comes back from a Gaussian matrix too."
        if not self.tried or not (self.score.exact == 1.0 or beats(self.score.errors, self.gaussian.errors)):
            return self.start, False, f"no structure found, the Gaussian start is kept: {why}."
        rows = at_random_columns(self.judge.X, derive_rng(self.seed, role="columns"))
        shuffled = decode_errors(self.A, rows, positive=self.positive, device=self.judge.device)
        found = beats(self.score.errors, shuffled, sigmas=_SURE_SIGMAS)
        what = "structure found" if found else "no structure found, but a better matrix than a Gaussian one"
        return self.A, found, f"{what}: {why}; of rows with random columns {np.mean(shuffled <= EXACT):.1%}."


def gains(mine: Score, other: Score) -> bool:
    """Whether more rows come back, or nearer, or more of them are proved to: by more than noise."""
    proved = mine.proved.astype(float) - other.proved
    return beats(mine.errors, other.errors) or _above_noise(proved)


def _above_noise(gain: FloatArray, sigmas: float = _SIGMAS) -> bool:
    return len(gain) > 1 and bool(gain.sum() > sigmas * np.sqrt(np.sum((gain - gain.mean()) ** 2)))


def beats(mine: FloatArray, other: FloatArray, *, sigmas: float = _SIGMAS) -> bool:
    """Whether more rows come back, or the squared errors are smaller, by more than noise (row by row).

    Examples
    --------
    >>> beats(np.zeros(50), np.ones(50)), beats(np.ones(50), np.ones(50))
    (True, False)
    """
    mine, other = (np.where(errors <= EXACT, 0.0, errors) for errors in (mine, other))  # rounding is no difference
    both = (mine == 0.0).astype(float) - (other == 0.0), other**2 - mine**2
    return any(_above_noise(gain, sigmas) for gain in both)


def at_random_columns(X: sp.csr_array, rng: np.random.Generator) -> sp.csr_array:
    """Rows with the same values in columns drawn at random."""
    columns = [rng.choice(X.shape[1], count, replace=False) for count in np.diff(X.indptr)]
    indices = np.concatenate([*columns, np.zeros(0, dtype=np.int64)])
    out = sp.csr_array((X.data.copy(), indices, X.indptr.copy()), shape=X.shape)
    out.sort_indices()
    return out
