"""The paper beside our stored rows, as one HTML page and as Markdown: what agrees, what differs, what is missing."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sparselens.experiments import figures, page
from sparselens.experiments.compare import (
    AGREES,
    BETTER,
    DIFFERS,
    NOT_RUN,
    Place,
    Summary,
    Tested,
    check_claim,
    not_run,
    number,
    own_rows,
    rows_of,
    spectrum,
    summarise,
    unmeasured,
    verdict,
)
from sparselens.experiments.findings import FINDINGS
from sparselens.experiments.paper import NAMES
from sparselens.experiments.spec import Experiment, Published
from sparselens.experiments.store import Row

_SIGNS = {AGREES: "✓ agrees", BETTER: "▲ better", DIFFERS: "✗ differs"}
TITLE = "The paper, reproduced"
LEAD = (
    "Tables and figures of “Learning a Compressed Sensing Measurement Matrix via Gradient Unrolling” (ICML 2019): "
    "the paper's values, ours, and where they differ. Certificate training, which the paper lacks, is the eleventh "
    "algorithm. Every figure of ours comes from stored rows; “exact” means ‖x − x̂‖ ≤ 1e-10, and every row that was "
    "decoded counts, also one that its decoder lost."
)
LEAD_QUICK = (
    "Tables and figures of “Learning a Compressed Sensing Measurement Matrix via Gradient Unrolling” (ICML 2019) in "
    "their quick forms: shorter trainings, fewer numbers of measurements, seeds and test rows than the paper has. They "
    "show the effects, not the figures: claims are tested, but figures of a quick form are not judged by the paper's; "
    "`sparselens reproduce` without `--quick` measures those that are."
)
_WHOSE = "What the project makes of the rows that are stored with it (`docs/paper.md`); other rows may say otherwise:"


@dataclass(frozen=True)
class Picture:
    """A figure: `draw(theme)` makes it."""

    name: str
    draw: Callable[[str], Any]
    caption: str


@dataclass(frozen=True)
class Table:
    """A table of texts; a folded one is shown when it is asked for."""

    header: list[str]
    lines: list[list[str]]
    caption: str = ""
    folded: bool = False


@dataclass
class Section:
    """What is said about one experiment, and the counts for the table of contents."""

    experiment: Experiment
    quick: bool = False
    blocks: list[str | Picture | Table | list[str]] = field(default_factory=list)
    verdicts: list[str] = field(default_factory=list)
    claims: list[bool] = field(default_factory=list)
    n_rows: int = 0
    keys: set[str] = field(default_factory=set)  # of its rows, also of those that failed or do not apply
    whole: bool = False  # every algorithm has rows on one of the data sets

    @property
    def judged(self) -> bool:
        """Whether figures are compared within the tolerance: not those of a quick form."""
        return not (self.quick and self.experiment.quick)


def build(experiments: Sequence[Experiment], rows: Sequence[Row], *, quick: bool = False) -> list[Section]:
    """A section for each experiment."""
    return [_section(experiment, rows, quick) for experiment in experiments]


def with_rows(sections: Sequence[Section], named: Sequence[str] = ()) -> list[Section]:
    """The sections that are named, and the others that have rows.

    Experiments share rows, so that a run of one leaves parts of others. One that is not named is left out where it
    lacks an algorithm on each of its data sets and all of its rows are shown without it.
    """
    shown = {one.experiment.id: one for one in sections if one.experiment.id in named or one.whole}
    for one in sorted(sections, key=lambda one: len(one.keys), reverse=True):
        if not one.keys <= {key for other in shown.values() for key in other.keys}:
            shown[one.experiment.id] = one
    return [one for one in sections if one.experiment.id in shown]


def _section(experiment: Experiment, rows: Sequence[Row], quick: bool) -> Section:
    section = Section(experiment, quick)
    own = own_rows(experiment, rows, quick=quick)
    rows = [row for _, row in own]
    section.keys = {row["key"] for _, row in own}
    tried = {(row["data"], label) for label, row in own}
    section.whole = any(
        all((grid.data, algorithm.label) in tried for algorithm in grid.algorithms)
        for grid in experiment.select(quick=quick)
    )
    found = rows_of(experiment, rows, quick=quick)
    section.n_rows = len(found)
    section.blocks.append(f"{'The paper shows' if experiment.in_paper else 'Not in the paper'}: {experiment.shows}.")
    if experiment.view == "curves":
        section.blocks += [_curves(experiment, rows, metric, quick) for metric in ("exact", "rmse") if found]
    if experiment.view == "toy" and any(row.get("A") for _, row in found):
        section.blocks.append(
            Picture(
                experiment.id,
                lambda theme: figures.toy(experiment, rows, quick=quick, theme=theme),
                "The matrix that ℓ1-AE learned (above) and the norms of its columns (below); the data has its nonzeros "
                "left of the dotted line.",
            )
        )
        section.blocks.append(_toy_share(found))
    if experiment.published:
        made = _sheet if experiment.view in ("facts", "params") else _comparison
        section.blocks += made(section, found)
        if experiment.why and section.judged:
            section.blocks.append(f"Tolerance {number(experiment.tolerance)}. {experiment.why}")
    untested = []
    for claim in experiment.claims:
        tested = check_claim(claim, found)
        if not tested.n_places:
            untested.append(f"“{claim.text}”")
            continue
        section.claims.append(tested.holds)
        section.blocks.append(_told(tested))
        if tested.exceptions:
            section.blocks.append(list(tested.exceptions))
    if untested:
        section.blocks.append(f"No rows to test what is claimed: {', '.join(untested)}.")
    if experiment.view in ("curves", "table", "toy"):
        section.blocks += _full_tables(experiment, found, quick)
    if experiment.view == "labels":
        section.blocks += _precision_tables(found)
    section.blocks += experiment.notes
    if experiment.id in FINDINGS and not quick:
        section.blocks += [_WHOSE, list(FINDINGS[experiment.id])]
    missing = [f"{reason} ({_counted(n, 'cell')})" for reason, n in unmeasured(experiment, rows, quick=quick)]
    if missing:
        section.blocks += ["Not measured:", missing]
    if left := not_run(experiment, rows, quick=quick):
        section.blocks.append(left)
    return section


def _told(tested: Tested) -> str:
    holds = tested.n_places - len(tested.exceptions)
    pairs = f"{_counted(tested.n_places, 'pair')} of data set and m"
    level = f" (at {tested.n_level} of them the best of the others is level)" if tested.n_level else ""
    return (
        f"{'✓' if tested.holds else '✗'} Claim “{tested.claim.text}”, within {tested.claim.slack:g}: "
        f"holds at {holds} of {pairs}{level}{', not at:' if tested.exceptions else '.'}"
    )


def _curves(experiment: Experiment, rows: Sequence[Row], metric: str, quick: bool) -> Picture:
    what = "rows recovered exactly" if metric == "exact" else "test RMSE"
    stars = "; stars: the paper" if metric == "rmse" and experiment.published else ""
    beyond = figures.out_of_frame(experiment, rows, metric, quick=quick)
    outside = f" Beyond the frame: {beyond}." if beyond else ""
    beside = " Points of algorithms with a single m stand side by side."
    beside = beside if figures.side_by_side(experiment, rows, metric, quick=quick) else ""
    unshown = " What estimates and is never exact is left out." if metric == "exact" and _estimates(experiment) else ""
    return Picture(
        f"{experiment.id}-{metric}",
        lambda theme: figures.curves(experiment, rows, metric, quick=quick, theme=theme),
        f"{experiment.title}: {what} over m; mean and standard deviation over seeds{stars}.{beside}{outside}{unshown}",
    )


def _estimates(experiment: Experiment) -> bool:
    """Whether a plot of exact rows leaves out some of its algorithms."""
    return not all(figures.shown(a.label, "exact") for grid in experiment.grids for a in grid.algorithms)


def _comparison(section: Section, found: list[tuple[str, Row]]) -> list[Any]:
    """The paper's values, ours, the difference, the verdict, and where ours come from.

    The paper's values that we have no row of stand in a table of their own.
    """
    experiment = section.experiment
    over_m = experiment.view == "spectrum"
    summaries: dict[str, dict[Place, Summary]] = {
        metric: (spectrum if over_m else summarise)(found, metric)
        for metric in dict.fromkeys(one.metric for one in experiment.published)
    }
    several = len(summaries) > 1
    lines, alone = [], []
    for one in experiment.published:
        ours = summaries[one.metric].get((one.data, one.algorithm, one.m))
        if ours is None:
            alone.append(one)
            continue
        said = verdict(one, ours, experiment.tolerance)
        if section.judged:
            section.verdicts.append(said)
        lines.append(
            [
                NAMES.get(one.data, one.data),
                *([one.metric] if several else []),
                one.algorithm,
                *([] if over_m or not one.m else [str(one.m)]),
                _printed(one),
                str(ours),
                _difference(ours.mean - one.value),
                *([_SIGNS[said]] if section.judged else []),
                str(ours.n_seeds),
                _where(ours),
            ]
        )
    header = ["data set", *(["figure"] if several else []), "algorithm"]
    header += [] if over_m or not experiment.published[0].m else ["m"]
    header += ["paper", "ours", "difference", *([""] if section.judged else []), "seeds", "trained on, seconds"]
    told: list[Any] = []
    if any("at once" in line[-1] for line in lines):
        told.append("“At once”: so many networks were trained in those seconds, this one among them.")
    return [*([Table(header, lines)] if lines else []), *told, *([_paper_alone(alone)] if alone else [])]


def _paper_alone(published: Sequence[Published]) -> Table:
    """What the paper prints where we have no row: a line an algorithm, a column a figure."""
    metrics = list(dict.fromkeys(one.metric for one in published))
    lines: dict[tuple[str, str, int], dict[str, str]] = {}
    for one in published:
        lines.setdefault((one.data, one.algorithm, one.m), {})[one.metric] = _printed(one)
    return Table(
        ["data set", "algorithm", "m", *metrics],
        [
            [NAMES.get(data, data), algorithm, str(m) if m else "", *(line.get(metric, "") for metric in metrics)]
            for (data, algorithm, m), line in lines.items()
        ],
        "What the paper prints and we have no row of",
        folded=True,
    )


def _sheet(section: Section, found: list[tuple[str, Row]]) -> list[Any]:
    """A line for each data set, a column for each figure: the paper's value, and ours where it is another one."""
    published = section.experiment.published
    metrics = list(dict.fromkeys(one.metric for one in published))
    lines: dict[str, list[str]] = {}
    for one in published:
        ours = summarise(found, one.metric).get((one.data, one.algorithm, one.m))
        said = verdict(one, ours, section.experiment.tolerance)
        section.verdicts.append(said)
        text = _paper(one.value)
        if ours is None:
            text += " –"
        elif said == AGREES:
            text += " ✓" if abs(ours.mean - one.value) < 0.005 else f" ✓ (ours {ours.mean:.4g})"
        else:
            text += f" ✗ (ours {ours.mean:,.0f})" if ours.mean >= 1000 else f" ✗ (ours {ours.mean:.4g})"
        lines.setdefault(one.data, [NAMES.get(one.data, one.data)]).append(text)
    return [Table(["data set", *(metric.replace("_", " ") for metric in metrics)], list(lines.values()))]


def _counted(n: int, noun: str) -> str:
    return f"{n} {noun}{'s' if n > 1 else ''}"


def _printed(one: Published) -> str:
    return _paper(one.value) + (f" ± {number(one.sd)}" if one.sd is not None else "")


def _paper(value: float) -> str:
    return f"{value:.1e}" if 0 < abs(value) < 1e-3 else f"{value:,.10g}"


def _difference(value: float) -> str:
    return "0" if abs(value) < 1e-10 else f"{value:+.3f}" if abs(value) < 1000 else f"{value:+,.0f}"


def _where(ours: Summary) -> str:
    if ours.seconds is None:
        return ""
    places = {_kind(machine): None for machine in ours.hardware}
    seconds = f"{ours.seconds:,.0f}" if ours.seconds >= 1000 else f"{ours.seconds:.3g}"
    at_once = [f"{ours.n_together} at once"] if ours.n_together else []
    cut = [f"{ours.n_cut} cut"] if ours.n_cut else []
    return ", ".join([" and ".join(places), seconds, *at_once, *cut])


def _kind(machine: str) -> str:
    return "H200" if "H200" in machine else "GPU" if "NVIDIA" in machine else "CPU"


def _full_tables(experiment: Experiment, found: list[tuple[str, Row]], quick: bool) -> list[Any]:
    """Every measured figure: algorithms by m, a table for each data set."""
    out: list[Any] = []
    exact, rmse = summarise(found, "exact"), summarise(found, "rmse")
    for data in dict.fromkeys(place[0] for place in rmse):
        ms = sorted({m for name, _, m in rmse if name == data})
        grids = [grid for grid in experiment.select(quick=quick) if grid.data == data]
        measured = {label for name, label, _ in rmse if name == data}
        labels = [label for grid in grids for label in grid.labels().values() if label in measured]
        lines = []
        for label in labels:
            cells = []
            for m in ms:
                one = rmse.get((data, label, m))
                cells.append("" if one is None else f"{100 * exact[data, label, m].mean:.4g}% / {number(one.mean)}")
            lines.append([label, *cells])
        some = [one for place, one in rmse.items() if place[0] == data]
        seeds = sorted({one.n_seeds for one in some})
        rows = sorted({one.n_rows for one in some if one.n_rows})
        caption = (
            f"{NAMES.get(data, data)}: rows exact / RMSE; {_span(seeds)} seed{'s' if seeds != [1] else ''}, "
            f"{_span(rows)} test rows"
        )
        out.append(Table(["algorithm", *(f"m = {m}" for m in ms)], lines, caption, folded=True))
    return out


def _precision_tables(found: list[tuple[str, Row]]) -> list[Any]:
    """P@1 / P@3 / P@5 of each data set, algorithms by number of models."""
    out: list[Any] = []
    scores = [summarise(found, metric) for metric in ("p1", "p3", "p5")]
    for data in dict.fromkeys(place[0] for place in scores[0]):
        lines: dict[str, dict[str, str]] = {}
        for place in (p for p in scores[0] if p[0] == data):
            label, n_models = place[1].rsplit(", ", 1)
            lines.setdefault(label, {})[n_models] = " / ".join(f"{one[place].mean:.4f}" for one in scores)
        caption = f"{NAMES.get(data, data)}: P@1 / P@3 / P@5"
        sizes = ("1 model", "3 models", "5 models")
        rows = [[label, *(line.get(size, "") for size in sizes)] for label, line in sorted(lines.items())]
        out.append(Table(["algorithm", *sizes], rows, caption))
    return out


def _span(values: list[int]) -> str:
    if not values:
        return "no"
    return f"{values[0]:,}" if len(values) == 1 else f"{values[0]:,} to {values[-1]:,}"


def _toy_share(found: list[tuple[str, Row]]) -> str:
    A = next(row["A"] for _, row in found if row.get("A"))
    squares = [sum(line[j] ** 2 for line in A) for j in range(len(A[0]))]
    part = sum(squares[:20]) / sum(squares)
    return (
        f"The first 20 of 100 columns hold {part:.1%} of the matrix's squared entries (20% if it were spread evenly)."
    )


# ---- as a page, and as Markdown -----------------------------------------------------------------------------


def contents(sections: Sequence[Section]) -> Table:
    """One line for each experiment: how many figures agree (or are better), how many claims hold everywhere."""
    lines = []
    for section in sections:
        told = [verdict for verdict in section.verdicts if verdict != NOT_RUN]
        good, better = told.count(AGREES), told.count(BETTER)
        lines.append(
            [
                section.experiment.id,
                section.experiment.title,
                f"{good} of {len(told)}" + (f", {better} better" if better else "") if told else "",
                f"{sum(section.claims)} of {len(section.claims)}" if section.claims else "",
                str(section.n_rows),
            ]
        )
    return Table(["", "what", "figures that agree", "claims that hold", "cells measured"], lines)


def to_html(sections: Sequence[Section], *, title: str = TITLE, lead: str = LEAD) -> str:
    """One page that stands alone."""
    body = [_contents_html(sections)]
    for section in sections:
        body.append(page.heading(f"{section.experiment.id}: {section.experiment.title}", section.experiment.id))
        for block in section.blocks:
            if isinstance(block, str):
                body.append(page.paragraph(block))
            elif isinstance(block, Picture):
                body.append(page.figure(block.draw, block.caption, name=block.name))
            elif isinstance(block, Table):
                words = len(block.header) > 1 and block.header[1] == "algorithm"
                made = page.table(block.header, block.lines, good=lambda cell: "✗" in cell, words=words)
                if block.caption and not block.folded:
                    made = page.paragraph(f"{block.caption}:") + made
                elif block.folded:
                    made = f"<details><summary>{html.escape(block.caption)}</summary>{made}</details>"
                body.append(made)
            else:
                body.append(page.listing(block))
        body.append('<p><a href="#top">contents</a></p>')
    return page.page(title, lead, body)


def _contents_html(sections: Sequence[Section]) -> str:
    made = contents(sections)
    text = page.table(made.header, made.lines, words=True)
    for section in sections:
        name = html.escape(section.experiment.id)
        text = text.replace(f"<td>{name}</td>", f'<td><a href="#{name}">{name}</a></td>', 1)
    return f'<div id="top">{text}</div>'


def to_markdown(sections: Sequence[Section], *, images: str = "figures", title: str = TITLE, lead: str = LEAD) -> str:
    """The same as Markdown; pictures are linked as ``images/NAME.png``."""
    made = contents(sections)
    links = [[f"[{line[0]}](#{_slug(f'{line[0]}: {line[1]}')})", *line[1:]] for line in made.lines]
    parts = [f"# {title}", lead, _markdown_table(made.header, links)]
    for section in sections:
        parts.append(f"## {section.experiment.id}: {section.experiment.title}")
        for block in section.blocks:
            if isinstance(block, str):
                parts.append(block)
            elif isinstance(block, Picture):
                parts.append(f"![{block.caption}]({images}/{block.name}.png)\n\n*{block.caption}*")
            elif isinstance(block, Table):
                parts.append(
                    (f"{block.caption}:\n\n" if block.caption else "") + _markdown_table(block.header, block.lines)
                )
            else:
                parts.append("\n".join(f"- {item}" for item in block))
    return "\n\n".join(parts) + "\n"


def _slug(title: str) -> str:
    """The anchor that GitHub and MyST give a heading."""
    kept = "".join(c for c in title.lower() if c.isalnum() or c in " -_")
    return kept.replace(" ", "-")


def _markdown_table(header: list[str], lines: list[list[str]]) -> str:
    escaped = [[cell.replace("|", "\\|") for cell in line] for line in [header, ["---"] * len(header), *lines]]
    return "\n".join("| " + " | ".join(line) + " |" for line in escaped)


def pictures(sections: Sequence[Section]) -> list[Picture]:
    """All pictures of the sections."""
    return [block for section in sections for block in section.blocks if isinstance(block, Picture)]
