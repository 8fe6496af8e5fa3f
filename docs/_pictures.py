"""The pictures of the page "The idea", drawn by code when the site is built, for light and for dark pages."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from sparselens.experiments.plots import THEMES, themed

BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#8A8A8A"


def measuring(plt: Any, ink: str) -> Any:
    """Y = X Aᵀ for one row: a long sparse vector, a wide matrix, a few numbers."""
    rng = np.random.default_rng(3)
    A, x = rng.standard_normal((12, 60)), np.zeros(60)
    x[[8, 9, 10, 37]] = (0.9, 0.5, 0.7, 0.6)
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(9, 2.6), width_ratios=(1, 8, 4.2), layout="constrained")
    options = {"cmap": "RdBu_r", "vmin": -2.5, "vmax": 2.5, "interpolation": "nearest"}
    left.imshow((A @ x)[:, None], **options)
    left.set(title="y = Ax", ylabel="12 numbers")
    middle.imshow(A, aspect="auto", **options)
    middle.set(title="A: 12 x 60, the same for every row", xlabel="60 columns")
    right.bar(np.arange(60), x, color=BLUE, width=1.2)
    right.set(title="x: 60 entries, 4 not zero", xlabel="column")
    for axis in (left, middle, right):
        axis.grid(False)
        axis.set(xticks=[], yticks=[])
    return figure


def touching(plt: Any, ink: str) -> Any:
    """The certificate in the plane: m = 2, the columns are points, u is a line."""
    angles = np.deg2rad([12, 62, 100, 150, 200, 255, 300, 335])
    good = np.column_stack([np.cos(angles), np.sin(angles)]) * np.array([1, 1, 0.55, 0.8, 0.9, 0.7, 0.8, 0.6])[:, None]
    bad = good.copy()
    bad[2] = 0.95 * np.array([np.cos(np.deg2rad(38)), np.sin(np.deg2rad(38))]) * 1.15
    figure, axes = plt.subplots(1, 2, figsize=(9, 4.3), layout="constrained", sharex=True, sharey=True)
    titles = ("a proof: the line touches S, all others lie below", "no proof: a column lies beyond the line")
    for axis, columns, title in zip(axes, (good, bad), titles, strict=True):
        u = np.linalg.solve(columns[:2], np.ones(2))
        y = 0.45 * columns[0] + 0.4 * columns[1]
        t = np.linspace(-0.9, 1.5, 2)
        on_line = u / (u @ u) + np.outer(t - 0.2, [-u[1], u[0]]) / np.linalg.norm(u)
        axis.plot(*on_line.T, color=ORANGE, linewidth=1.5)
        axis.text(on_line[0, 0] - 0.05, on_line[0, 1], "$a^\\top u = 1$", color=ORANGE, ha="right", va="center")
        for j, a in enumerate(columns):
            colour = BLUE if j < 2 else GREY
            if a @ u > 1 + 1e-9:
                colour = ORANGE
            axis.annotate("", a, (0, 0), arrowprops={"arrowstyle": "-|>", "color": colour, "linewidth": 1.4})
        axis.plot(*y, "*", color=ink, markersize=11)
        axis.text(y[0] + 0.05, y[1] - 0.09, "y", color=ink)
        axis.text(columns[0, 0] + 0.05, columns[0, 1], "$a_1$", color=BLUE)
        axis.text(columns[1, 0] + 0.02, columns[1, 1] + 0.06, "$a_2$", color=BLUE)
        axis.set(title=title, aspect="equal", xlim=(-1.15, 1.6), ylim=(-0.95, 1.35), xticks=[], yticks=[])
        axis.grid(False)
        axis.spines[:].set_visible(False)
    return figure


@cache
def errors_of_steps() -> dict[str, list[float]]:
    """RMSE after each projected subgradient step from the shortest solution, for two matrices with 20 rows."""
    import sparselens as sl

    data = sl.load_dataset("synthetic1", random_state=0)
    x = data.test[:200].toarray()
    encoders = {
        "Gaussian, m = 20": sl.GaussianEncoder(20, random_state=0),
        "learned, m = 20": sl.CertificateEncoder(20, max_steps=200, device="cpu", random_state=0),
    }
    errors: dict[str, list[float]] = {label: [] for label in encoders}
    for label, encoder in encoders.items():
        A = encoder.fit(data.train, X_valid=data.valid).components_
        Q = np.linalg.qr(A.T)[0]  # an orthonormal basis of the measured directions
        iterate = x @ Q @ Q.T
        for t in range(1, 101):
            errors[label].append(float(np.sqrt(np.mean(((np.maximum(iterate, 0) - x) ** 2).sum(axis=1)))))
            sign = np.sign(iterate)
            iterate = iterate - (0.03 / t) * (sign - sign @ Q @ Q.T)
    return errors


def steps(plt: Any, ink: str) -> Any:
    """The first steps of ℓ1 minimisation, with a random and with a learned matrix."""
    figure, axis = plt.subplots(figsize=(7, 3.4), layout="constrained")
    for (label, errors), colour, marker in zip(errors_of_steps().items(), (GREY, BLUE), "^o", strict=True):
        axis.plot(np.arange(1, 101), errors, color=colour, marker=marker, markevery=(0, 10), label=label)
    axis.set(xlabel="projected subgradient steps", ylabel="RMSE", ylim=(0, None))
    axis.legend()
    return figure


PICTURES: dict[str, Callable[[Any, str], Any]] = {"measuring": measuring, "touching": touching, "steps": steps}


def draw_all(app: Any) -> None:
    folder = Path(app.srcdir) / "pictures"
    folder.mkdir(exist_ok=True)
    for name, draw in PICTURES.items():
        for theme, ink in THEMES.items():
            path = folder / f"{name}-{theme}.svg"
            if path.exists() and path.stat().st_mtime > Path(__file__).stat().st_mtime:
                continue
            with themed(theme) as plt:
                figure = draw(plt, ink)
                figure.savefig(path, transparent=True, metadata={"Date": None})
                plt.close(figure)


def setup(app: Any) -> dict[str, bool]:
    app.connect("builder-inited", draw_all)
    return {"parallel_read_safe": True}
