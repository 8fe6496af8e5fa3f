"""The page of a plan: the verdict, the curve, its points, and the commands that follow."""

from __future__ import annotations

from sparselens.experiments import page
from sparselens.experiments.plan import GAUSSIAN, LEARNED, Plan
from sparselens.experiments.plots import plan_curve


def plan_page(plan: Plan, name: str) -> str:
    """A self-contained HTML page."""
    sizes, answers = plan.sizes, plan.answers
    body = [
        page.figure(
            lambda theme: plan_curve(plan.rows, plan.target, answers, theme=theme),
            f"{name}: held-out rows that come back exactly (error at most 1e-10 for rows of unit norm) over the number "
            f"of measurements, with 95% confidence intervals; the dashed line is the target of {100 * plan.target:g}%.",
        ),
        page.heading(f"Measurements for {100 * plan.target:g}%"),
        page.table(
            ["matrix", "m"],
            [
                ["learned (CertificateEncoder)", _number(answers[LEARNED])],
                ["random (Gaussian)", _number(answers[GAUSSIAN])],
                ["factor saved", f"{plan.factor:.2f}" if plan.factor else "–"],
            ],
        ),
        page.paragraph(
            f"{sizes['train']:,} rows were trained on, {sizes['valid']:,} chose the settings, {sizes['held_out']:,} "
            f"were held out and decided; {sizes['columns']:,} columns. An m suffices where the lower end of its 95% "
            "interval (Wilson) reaches the target."
        ),
        *(page.paragraph(note) for note in plan.notes),
        page.heading("Points"),
        page.table(*_points(plan)),
        page.heading("Next"),
        page.code(_next(plan, name)),
    ]
    lead = plan.verdict[0].upper() + plan.verdict[1:]
    return page.page(f"{name}: how many measurements?", lead, body)


def _number(m: int | None) -> str:
    return "not reached" if m is None else f"{m:,}"


def _points(plan: Plan) -> tuple[list[str], list[list[str]]]:
    header = ["matrix", "m", "rows", "exact", "95% interval", "RMSE", "certified", "seconds"]
    lines = [
        [
            "learned" if row["encoder"] == LEARNED else "Gaussian",
            f"{row['m']:,}",
            f"{row['n_rows']:,}",
            f"{row['exact']:.2%}",
            f"{row['low']:.2%} to {row['high']:.2%}",
            f"{row['rmse']:.3g}" if row["rmse"] > 1e-10 else "0",
            f"{row['certified']:.2%}",
            f"{row['seconds']:.1f}",
        ]
        for row in plan.rows
    ]
    return header, lines


def _next(plan: Plan, name: str) -> str:
    learned, gaussian = plan.answers[LEARNED], plan.answers[GAUSSIAN]
    if plan.structure and learned is not None:
        return f"sparselens fit {name} -m {learned} -o model\nsparselens encode model {name} -o y.npz"
    if gaussian is not None:
        return (
            f"sparselens fit {name} -m {gaussian} --encoder gaussian -o model\nsparselens encode model {name} -o y.npz"
        )
    return f"sparselens plan {name} --target {plan.target / 2:g}"
