"""How many measurements do these rows need, and is learning worth it? A curve over m, an answer, a verdict."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparselens._random import derive_rng
from sparselens._validation import check_count, check_positive_float, check_rows, unit_rows
from sparselens.experiments.survey import GAUSSIAN, LEARNED, Progress, Survey
from sparselens.metrics import wilson_interval

MOST_MEASUREMENTS = 2000  # beyond this m a plan takes hours
_STEEPNESS = 6.0  # rows lost fall about like m to the power of minus this (Amazon, 40 to 60 measurements)
_LEAP = 0.55  # the next m, as a part, where every held-out row came back
_FIRST = 0.5  # the first m of the learned matrix, as a part of what a Gaussian one needs
_INFORMATIVE = (0.05, 0.95)  # exact rows of the Gaussian matrix between which a comparison tells something
_SIGMAS = 3.0  # a lead below this many standard errors is noise; several m are compared, hence more than 2


@dataclass(frozen=True)
class Plan:
    """The answer to "how many measurements?", with the curve that it was read from.

    Attributes
    ----------
    target : float
        The part of the rows that is to come back exactly.
    answers : dict
        "Gaussian" and "Certificate" -> the smallest m tried at which the target is reached on held-out rows with 95%
        confidence (Wilson's lower bound), or None where no m tried does.
    factor : float or None
        How many times fewer measurements the learned matrix needs.
    structure : bool
        Whether learning beats a Gaussian matrix beyond noise because of a structure in the rows.
    verdict : str
        The same in a sentence.
    rows : list of dict
        The curve, ordered by encoder and m: ``encoder, m, n_rows, exact, low, high`` (the 95% interval), ``rmse,
        certified, seconds``; for the learned matrix also ``recipe``, ``structure_found``, and ``learned_only`` and
        ``gaussian_only``: rows that come back from one of the two matrices of this m alone.
    sizes : dict
        ``train``, ``valid`` and ``held_out`` rows, ``columns``.
    max_measurements : int
        The largest m that may be tried.
    models : dict
        m -> the folder of the model that was trained, where a folder was given.
    notes : list of str
        What limits the answer.
    """

    target: float
    answers: dict[str, int | None]
    factor: float | None
    structure: bool
    verdict: str
    rows: list[dict[str, Any]]
    sizes: dict[str, int]
    max_measurements: int
    models: dict[int, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Everything as plain data, for JSON."""
        return asdict(self)

    def summary(self) -> str:
        """A few lines for people."""
        saved = f", {self.factor:.2f} times as many" if self.factor not in (None, 1.0) else ""
        lines = [
            f"For {100 * self.target:g}% of the rows to come back exactly:",
            f"  learned matrix   {self._needed(LEARNED)}",
            f"  Gaussian matrix  {self._needed(GAUSSIAN)}{saved}",
            f"Verdict: {self.verdict}",
            *self.notes,
        ]
        return "\n".join(lines)

    def _needed(self, encoder: str) -> str:
        m = self.answers[encoder]
        if m is not None:
            return f"{m:,} measurement{'s' if m != 1 else ''}"
        tried = [row["m"] for row in self.rows if row["encoder"] == encoder]
        return f"more than {max(tried, default=self.max_measurements):,} measurements"


def plan(
    X: Any,
    *,
    target: float = 0.99,
    X_valid: Any = None,
    X_held_out: Any = None,
    max_measurements: int | None = None,
    precision: float = 0.04,
    max_rows: int = 4000,
    max_steps: int | None = None,
    device: str = "auto",
    n_jobs: int | None = None,
    random_state: int = 0,
    folder: str | os.PathLike[str] | None = None,
    callback: Progress | None = None,
) -> Plan:
    """Say how many measurements sparse rows need, and whether learning them is worth it.

    A Gaussian matrix is measured first: matrices of different m are the first rows of one, so that a row which comes
    back at some m does at every larger one, and bisection is exact. Then `CertificateEncoder` is trained from half of
    what the Gaussian needs, and then where the lost rows, extrapolated, would be as few as the target allows; the
    recipe that the first training finds serves the later ones.

    Parameters
    ----------
    X : array or sparse matrix of shape (n, d)
        Nonnegative rows. Without `X_valid` and `X_held_out` a seeded 20% each is split off.
    target : float
        The part of held-out rows that must come back exactly (‖x̂ − x‖ ≤ 1e-10 for rows of unit norm).
    X_valid : array or sparse matrix, optional
        Rows on which a training chooses its recipe.
    X_held_out : array or sparse matrix, optional
        Rows that no training sees; the curve is measured on them.
    max_measurements : int, optional
        The largest m to try; by default d, at most 2,000.
    precision : float
        The search ends when an m that fails and one that suffices differ by at most this part (or by 1).
    max_rows : int
        Held-out rows to decode at most for each point.
    max_steps : int, optional
        Steps of a training; by default those of `CertificateEncoder`.
    device : str
        Where to train.
    n_jobs : int, optional
        Processes that decode.
    random_state : int
    folder : path, optional
        Keeps every point and every model: a plan that was killed goes on from there. Points that are there already,
        of the same rows, seed and steps, are not measured again, whatever the target.
    callback : callable, optional
        Called as ``callback(part_done, 1.0, text)``.

    Returns
    -------
    Plan

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = np.kron(np.eye(12)[rng.integers(12, size=1500)], np.ones(4)) * rng.uniform(0.1, 1, (1500, 48))
    >>> answer = plan(X, target=0.98, max_steps=300, device="cpu")
    >>> answer.structure, answer.answers["Certificate"] < answer.answers["Gaussian"]
    (True, True)
    """
    target = check_positive_float(target, "target")
    if target >= 1.0:
        raise ValueError(
            f"target must be below 1, got {target}: no number of rows can confirm that every row comes back."
        )
    precision = check_positive_float(precision, "precision", allow_zero=True)
    seed = check_count(random_state, "random_state", minimum=0)
    train, valid, held_out = _split(X, X_valid, X_held_out, seed, check_count(max_rows, "max_rows"))
    d = train.shape[1]
    most = check_count(max_measurements, "max_measurements") if max_measurements is not None else MOST_MEASUREMENTS
    survey = Survey(
        train,
        valid,
        held_out,
        seed=seed,
        max_steps=max_steps,
        device=device,
        n_jobs=n_jobs,
        folder=None if folder is None else Path(folder),
        callback=callback,
    )
    low = _fewest_possible(held_out, target)
    gaussian = _search_gaussian(survey, target, low, min(most, d), precision)
    learned = _search_learned(survey, target, low, gaussian or min(most, d), precision)
    return _answer(survey, target, gaussian, learned, min(most, d))


# ---- the search over m ------------------------------------------------------------------------------------------


def _search_gaussian(survey: Survey, target: float, low: int, most: int, precision: float) -> int | None:
    """The smallest m at which the Gaussian matrix reaches the target, by doubling and bisection."""

    def reaches(m: int) -> bool:
        return survey.reached(survey.gaussian(m, target), target)

    if low > most:
        return None
    fails, m = low - 1, low
    while not reaches(m):
        fails = m
        if m == most:
            return None
        m = min(2 * m, most)
    return _bisect(reaches, fails, m, precision)


def _search_learned(survey: Survey, target: float, low: int, most: int, precision: float) -> int | None:
    """The smallest m at which a trained matrix reaches the target, from half of what a Gaussian one needs.

    A training costs minutes, so the next m is where the lost rows, extrapolated, would be as few as the target allows.
    """
    if low > most:
        return None
    allowed = _losses_allowed(survey.held_out.shape[0], target)
    fails: dict[str, Any] | None = None
    passes: dict[str, Any] | None = None
    m = min(max(low, round(_FIRST * most)), most)
    while True:
        survey.expect(_trainings_left(fails, passes))
        point = survey.learned(m)
        if survey.reached(point, target):
            passes = point
            if m == low:
                return m
        else:
            fails = point
            if m == most or _tells_nothing(point, survey.points[GAUSSIAN, m]):
                return None if passes is None else passes["m"]
        if fails and passes and passes["m"] - fails["m"] <= max(1.0, precision * passes["m"]):
            return passes["m"]
        m = _next_m(fails, passes, allowed, low, most, precision)


def _next_m(
    fails: dict[str, Any] | None, passes: dict[str, Any] | None, allowed: float, low: int, most: int, precision: float
) -> int:
    """Where to look next: above the largest m that fails, below the smallest that passes."""
    step = 1.0 + precision
    if passes is None:
        assert fails is not None
        guess = fails["m"] * max(step, (_lost(fails) / allowed) ** (1.0 / _STEEPNESS))
        m = max(fails["m"] + 1, round(guess))
        return most if m * step >= most else m
    if fails is None:
        part = _LEAP if passes["exact"] == 1.0 else (_lost(passes) / allowed) ** (1.0 / _STEEPNESS)
        return max(low, min(passes["m"] - 1, round(passes["m"] * min(max(part, _LEAP), 1.0 / step))))
    width = math.log(passes["m"] / fails["m"])
    drop = math.log(_lost(fails) / _lost(passes))
    where = math.log(_lost(fails) / allowed) / drop if drop > 0 else 0.5
    guess = fails["m"] * math.exp(width * min(max(where, 0.2), 0.8))  # not too near an end, or it takes many steps
    return int(min(max(round(guess), fails["m"] + 1), passes["m"] - 1))


def _lost(point: dict[str, Any]) -> float:
    """The part of the rows that does not come back, half a row at least."""
    return max(1.0 - point["exact"], 0.5 / point["n_rows"])


def _losses_allowed(n: int, target: float) -> float:
    """The largest part of n rows that may be lost for the target to be reached with confidence."""
    enough = wilson_interval(n, n)[0] >= target
    lost = max(
        (k for k in range(n + 1) if (wilson_interval(n - k, n)[0] if enough else 1 - k / n) >= target), default=0
    )
    return max(lost, 0.5) / n


def _trainings_left(fails: dict[str, Any] | None, passes: dict[str, Any] | None) -> float:
    """A guess for the bar: few once the answer lies between two points."""
    return 2.0 if fails and passes else 3.0


def _tells_nothing(learned: dict[str, Any], gaussian: dict[str, Any]) -> bool:
    """Whether learning was compared where a Gaussian matrix neither fails nor suffices, and is no better."""
    low, high = _INFORMATIVE
    return low <= gaussian["exact"] <= high and not _beats(learned)


def _beats(learned: dict[str, Any]) -> bool:
    """Whether more rows come back than from the Gaussian matrix of the same m, by more than noise (McNemar)."""
    more, fewer = learned["learned_only"], learned["gaussian_only"]
    return bool(more - fewer > _SIGMAS * math.sqrt(more + fewer))


def _bisect(reaches: Callable[[int], bool], fails: int, passes: int, precision: float) -> int:
    """The smallest m known to reach the target; `fails` does not, `passes` does."""
    while passes - fails > max(1.0, precision * passes):
        middle = round(math.sqrt(max(fails, 1) * passes))
        middle = min(max(middle, fails + 1), passes - 1)
        if reaches(middle):
            passes = middle
        else:
            fails = middle
    return passes


# ---- the answer -------------------------------------------------------------------------------------------------


def _answer(survey: Survey, target: float, gaussian: int | None, learned: int | None, most: int) -> Plan:
    points = [survey.points[key] for key in sorted(survey.points)]
    trained = [point for point in points if point["encoder"] == LEARNED]
    better = any(_beats(point) for point in trained)
    structure = better and any(point["structure_found"] for point in trained)
    factor = gaussian / learned if gaussian and learned else None
    return Plan(
        target=target,
        answers={GAUSSIAN: gaussian, LEARNED: learned},
        factor=factor,
        structure=structure,
        verdict=_verdict(structure, better, gaussian, learned, factor),
        rows=points,
        sizes={
            "train": survey.train.shape[0],
            "valid": survey.valid.shape[0],
            "held_out": survey.held_out.shape[0],
            "columns": survey.train.shape[1],
        },
        max_measurements=most,
        models=dict(sorted(survey.models.items())),
        notes=_notes(survey, target, gaussian, learned, most),
    )


def _verdict(structure: bool, better: bool, gaussian: int | None, learned: int | None, factor: float | None) -> str:
    if structure:
        if factor is not None:
            return f"structure found; learning is worth it: {learned} measurements do what {gaussian} random ones do."
        return "structure found; learning is worth it: more rows come back from as many measurements."
    if better:
        saved = f" (a factor of {factor:.2f})" if factor else ""
        return (
            f"no structure found: the learned matrix is better than a Gaussian one{saved}, but it is as good for rows "
            "with random columns."
        )
    return "no structure found: learning does not beat a Gaussian matrix beyond noise. Use GaussianEncoder."


def _notes(survey: Survey, target: float, gaussian: int | None, learned: int | None, most: int) -> list[str]:
    n, notes = survey.held_out.shape[0], []
    best = wilson_interval(n, n)[0]
    if best < target:
        notes.append(
            f"{n:,} held-out rows are too few to confirm {100 * target:g}% (were all to come back, the 95% interval "
            f"would begin at {best:.2%}): the answer is what was seen, without confidence. More rows help."
        )
    too_long = int((np.diff(survey.held_out.indptr) > most).sum())
    if too_long:
        notes.append(f"{too_long:,} held-out rows have more than {most:,} nonzeros and cannot come back.")
    if gaussian is None:
        notes.append(
            f"With a Gaussian matrix the target was not reached up to m = {most:,}, the largest that was tried."
        )
    elif learned is None:
        notes.append("Training ended where it was no better than a Gaussian matrix.")
    return notes


def _fewest_possible(X: sp.csr_array, target: float) -> int:
    """The smallest m that could do: a row with more than m nonzeros is not the only solution of its problem."""
    counts = np.sort(np.diff(X.indptr))
    return max(1, int(counts[min(len(counts), math.ceil(target * len(counts))) - 1]))


def _split(
    X: Any, X_valid: Any, X_held_out: Any, seed: int, max_rows: int
) -> tuple[sp.csr_array, sp.csr_array, sp.csr_array]:
    """Training, validation and held-out rows of unit norm; what is not given is split off X."""
    rows = check_rows(X, nonnegative=True)
    d = rows.shape[1]
    given = {
        name: None if part is None else check_rows(part, name=name, nonnegative=True, n_features=d)
        for name, part in (("X_valid", X_valid), ("X_held_out", X_held_out))
    }
    order = derive_rng(seed, role="plan, split").permutation(rows.shape[0])
    fifth = rows.shape[0] // 5
    parts = []
    for part in given.values():
        if part is None:
            if fifth < 1:
                raise ValueError(f"X has {rows.shape[0]} rows, too few to hold some of them out: pass at least 5.")
            order, mine = order[fifth:], order[:fifth]
            part = rows[mine]
        parts.append(part)
    valid, held_out = parts
    return unit_rows(rows[np.sort(order)]), unit_rows(valid), unit_rows(held_out[:max_rows])
