"""The report: what agrees and what does not is said, every figure shows, every link works."""

import html
import random
import re
import shutil
import subprocess

import pytest

from sparselens.experiments.compare import (
    AGREES,
    BETTER,
    DIFFERS,
    NOT_RUN,
    check_claim,
    not_run,
    rows_of,
    spectrum,
    summarise,
    unmeasured,
    verdict,
)
from sparselens.experiments.figures import curves, out_of_frame
from sparselens.experiments.findings import FINDINGS
from sparselens.experiments.paper import EXPERIMENTS, cells_of, find
from sparselens.experiments.report import build, to_html, to_markdown, with_rows
from sparselens.experiments.spec import Cell, Claim, Published

LABELS = [cell for cell in cells_of(find("table3")) if cell.data == "bibtex"]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def made_up(cell, **values):
    """A row of a cell with figures that were not measured."""
    figures = {"status": "done", "exact": 0.5, "exact_1e6": 0.5, "rmse": 0.4, "certified": 1.0, "n_rows": 100}
    facts = {"fit_seconds": 2.0, "hardware": "a machine", "sigma_max": 1.1, "sigma_min": 0.8}
    return cell.as_row() | figures | facts | values


@pytest.fixture(scope="module")
def rows():
    rng, rows = random.Random(0), []
    for cell in cells_of(find("all"), seeds=2):
        if cell.decoder.startswith("cosamp") and cell.data == "synthetic3":
            rows.append(cell.as_row() | {"status": "not applicable", "reason": "no model <is> known"})
        elif cell.decoder == "matrix":
            rows.append(
                made_up(cell, A=[[rng.gauss(0, 1.0 if j < 20 else 0.1) for j in range(100)] for _ in range(10)])
            )
        elif cell.encoder != "none" and cell.data != "wiki10-31k":
            exact = min(1.0, cell.m / 100 * rng.uniform(0.8, 1.0))
            rows.append(made_up(cell, exact=exact, rmse=1.0 - exact))
    return rows


@pytest.fixture(scope="module")
def sections(rows):
    return build([EXPERIMENTS[name] for name in ("table1", "fig3-left", "fig-toy", "table2-left")], rows)


@pytest.mark.parametrize(
    ("paper", "ours", "said"),
    [
        (0.357, 0.32, AGREES),
        (0.357, 0.2, BETTER),
        (0.357, 0.5, DIFFERS),
        (0.357, 1e-15, BETTER),
        (0.023, 1e-15, AGREES),
        (1.4e-15, 1e-16, AGREES),
        (1.4e-15, 0.01, DIFFERS),  # the paper has every row, ours has not
    ],
)
def test_a_verdict_follows_from_the_tolerance(paper, ours, said):
    cell = Cell("synthetic1", "l1ae", 10, "l1-pos")
    (summary,) = summarise([("ℓ1-AE", made_up(cell, rmse=ours))], "rmse").values()
    published = Published("synthetic1", "ℓ1-AE", 10, "rmse", paper)
    assert verdict(published, summary, 0.05) == said
    assert verdict(published, None, 0.05) == NOT_RUN


def test_mean_and_deviation_are_over_seeds():
    cells = [Cell("synthetic1", "l1ae", 10, "l1-pos", seed=seed) for seed in range(3)]
    found = [("a", made_up(cell, rmse=value)) for cell, value in zip(cells, (0.1, 0.2, 0.3), strict=True)]
    summary = summarise(found, "rmse")["synthetic1", "a", 10]
    assert summary.mean == pytest.approx(0.2)
    assert summary.sd == pytest.approx(0.1)
    assert summary.n_seeds == 3
    assert str(summary) == "0.200 ± 0.100"


def test_singular_values_are_averaged_over_m():
    cells = [Cell("amazon", "l1ae", m, "l1-pos") for m in (20, 40)]
    found = [("a", made_up(cell, sigma_max=value)) for cell, value in zip(cells, (1.0, 1.2), strict=True)]
    assert spectrum(found, "sigma_max")["amazon", "a", 0].mean == pytest.approx(1.1)


def test_seconds_that_several_trainings_shared_are_said_to_be_shared():
    experiment = EXPERIMENTS["table2-left"]
    cells = [cell for cell in cells_of([experiment], seeds=1) if cell.encoder == "l1ae"]
    alone = [made_up(cell) for cell in cells]
    shared = [row | {"together": 7, "stopped_by": "callback"} if row["m"] == 40 else row for row in alone]
    assert "at once" not in to_markdown(build([experiment], alone)).lower()
    text = to_markdown(build([experiment], shared))
    assert text.count("| CPU, 2, 7 at once, 1 cut |") == 2
    assert "so many networks were trained in those seconds" in text


def test_a_claim_is_tested_wherever_both_were_measured():
    cells = {m: Cell("synthetic1", "l1ae", m, "l1-pos") for m in (10, 20, 30)}
    found = [("a", made_up(cells[m], exact=exact)) for m, exact in ((10, 0.5), (20, 0.6), (30, 1.0))]
    found += [("b", made_up(cells[m], exact=exact)) for m, exact in ((10, 0.505), (20, 0.9))]
    tested = check_claim(Claim("a beats b", "a", ("b", "c")), found)
    assert (tested.n_places, tested.n_level, tested.holds) == (2, 1, False)
    assert tested.exceptions == ("synthetic1, m = 20: b 0.900, a 0.600",)


def test_of_two_runs_of_a_cell_the_one_with_more_rows_counts():
    cell = Cell("amazon", "gaussian", 40, "l1-pos")
    few = made_up(Cell("amazon", "gaussian", 40, "l1-pos", n_test=10), exact=0.1, n_rows=10)
    many = made_up(cell, exact=0.2, n_rows=6554)
    for order in ([few, many], [many, few]):
        ((_, row),) = rows_of(EXPERIMENTS["fig2"], order)
        assert row["exact"] == 0.2


def test_quick_rows_are_not_mixed_with_full_ones():
    quick = [cell for cell in cells_of(find("table2-left"), quick=True) if cell.encoder == "l1ae"]
    rows = [made_up(cell) for cell in quick]
    assert rows_of(EXPERIMENTS["table2-left"], rows) == []
    assert len(rows_of(EXPERIMENTS["table2-left"], rows, quick=True)) == len(quick)


def test_nothing_is_missing_in_silence(rows):
    said = dict(unmeasured(EXPERIMENTS["fig2"], rows))
    assert any(reason.startswith("not applicable: no model") for reason in said)
    assert not_run(EXPERIMENTS["fig2"], rows) == "Not run (1 cell): ℓ1-AE + ℓ1-min pos on wiki10-31k (m = 100)."


def test_what_was_not_run_is_one_line_that_names_algorithms_and_m():
    experiment = EXPERIMENTS["fig-cosamp-pos"]
    cells = cells_of([experiment], data=["synthetic1"], seeds=1)
    some = [made_up(cell) for cell in cells if cell.m > 20 or cell.decoder == "cosamp"]
    text = to_markdown(
        build([experiment], [*some, *(made_up(cell) for cell in cells_of([experiment], data=["amazon"]))])
    )
    both = "Gauss + CoSaMP pos, Gauss + CoSaMP on synthetic2 (m = 10, 20, 30, 40, 50, 60, 70)"
    assert f"\nNot run (16 cells): Gauss + CoSaMP pos on synthetic1 (m = 10, 20); {both}.\n" in text


def test_figures_of_quick_forms_are_not_judged_but_their_claims_are():
    chosen = [EXPERIMENTS[name] for name in ("fig2", "table-spectrum", "table1")]
    rows = [made_up(cell, dimension=1000.0) for cell in cells_of(chosen, quick=True)]
    quick = build(chosen, rows, quick=True)
    assert [len(section.verdicts) > 0 for section in quick] == [False, False, True]  # table 1 has one form alone
    assert quick[0].claims
    text = to_markdown(quick[:2])
    for sign in ("agrees", "differs", "▲", "Tolerance"):
        assert sign not in text
    assert "| Synthetic1 | ℓ1-AE | 10 | 0.465 | 0.400 | -0.065 | 1 | CPU, 2 |" in text


def test_an_experiment_is_shown_where_it_is_whole_or_has_rows_that_are_shown_nowhere_else():
    def shown(*cells, named=()):
        return [one.experiment.id for one in with_rows(build(find("all"), [made_up(cell) for cell in cells]), named)]

    def cells(name, **selection):
        return cells_of(find(name), seeds=1, data=["synthetic1"], **selection)

    assert shown(*cells("fig-cosamp-pos", m=[20])) == ["fig-cosamp-pos"]  # not fig2, which has one of the two
    assert shown(*cells("table2-left")) == ["table2-left", "table-spectrum"]  # nor here, where it has all three
    assert shown(*cells("table2-left"), *cells("fig2")) == ["fig2", "table2-left", "table-spectrum"]
    both = [*cells("fig-cosamp-pos", m=[20]), *cells("table2-right", m=[20])]
    assert "fig2" not in shown(*both)  # of which each has one of its rows
    gaussian = [cell for cell in cells("fig2") if cell.encoder == "gaussian"]
    assert shown(*gaussian, named=["fig2"]) == ["fig2"]
    assert shown(*gaussian, *cells_of(find("fig-toy")), named=["fig-toy"]) == ["fig2", "fig-toy"]
    assert shown(*gaussian, named=["fig-toy"]) == ["fig2", "fig-toy"]
    assert shown() == []


def test_curves_show_every_data_set_and_the_papers_values(rows):
    figure = curves(EXPERIMENTS["fig2"], rows, "rmse")
    assert [axis.get_title() for axis in figure.axes if axis.get_visible()][:3] == [
        "Synthetic1",
        "Synthetic2",
        "Synthetic3",
    ]
    stars = [line for line in figure.axes[0].lines if line.get_marker() == "*"]
    assert len(stars) == 7  # the second table, both decoders at m = 10, 30, 50, and m = 20


def test_points_of_a_single_m_stand_side_by_side_at_its_tick():
    experiment = EXPERIMENTS["fig3-right"]
    cells = cells_of([experiment])
    alone = [made_up(cell) for cell in cells if cell.m == 80]
    curve = [made_up(cell) for cell in cells if cell.m != 80 and not cell.params]
    (axis,) = curves(experiment, alone).axes
    assert axis.get_xticks().tolist() == [80]
    x = [line.get_xdata()[0] for line in axis.lines if line.get_marker() in "osD^v<>PXhdp*"]
    assert len(set(x)) == 6
    assert sum(x) / 6 == pytest.approx(80)
    text = "stand side by side"
    assert text in to_markdown(build([experiment], alone))
    assert text in to_markdown(build([experiment], alone + curve))
    assert text not in to_markdown(build([experiment], alone[:1] + curve))
    (axis,) = curves(experiment, alone + curve).axes
    assert all(tick == int(tick) for tick in axis.get_xticks())
    (drawn,) = (line for line in axis.lines if line.get_linestyle() == "-" and len(line.get_xdata()) == 6)
    assert drawn.get_xdata()[2] == 60  # a curve stays where it was


def test_rows_that_failed_are_told_whatever_their_m():
    cell = Cell("synthetic1", "gaussian", 33, "l1-pos", n_test=5)
    failed = cell.as_row() | {"status": "failed", "reason": "ValueError: no"}
    assert dict(unmeasured(EXPERIMENTS["fig2"], [failed]))["failed: ValueError: no"] == 1
    again = made_up(Cell("synthetic1", "gaussian", 33, "l1-pos"))
    assert "failed: ValueError: no" not in dict(unmeasured(EXPERIMENTS["fig2"], [failed, again]))


def test_what_the_project_found_is_said_to_be_of_its_rows_and_not_of_quick_ones(rows):
    assert set(FINDINGS) <= set(EXPERIMENTS)
    experiment, first = EXPERIMENTS["fig2"], FINDINGS["fig2"][0]
    text = to_markdown(build([experiment], rows))
    assert text.count("What the project makes of the rows that are stored with it") == 1
    assert f"- {first}" in text
    assert first not in to_markdown(build([experiment], rows, quick=True))


def test_what_lies_beyond_the_frame_is_in_the_caption():
    rows = [made_up(Cell("synthetic1", "pca", 70, "l1-pos"), rmse=2.08)]
    assert out_of_frame(EXPERIMENTS["fig2"], rows, "rmse") == "PCA + ℓ1-min pos (up to 2.1, Synthetic1)"
    assert out_of_frame(EXPERIMENTS["fig2"], rows, "exact") == ""
    assert "Beyond the frame: PCA + ℓ1-min pos (up to 2.1, Synthetic1)." in to_markdown(
        build([EXPERIMENTS["fig2"]], rows)
    )


def test_the_papers_values_are_shown_where_we_have_no_row():
    (section,) = build([EXPERIMENTS["table3"]], [])
    text = to_html([section])
    assert "What the paper prints and we have no row of" in text
    first = next(one for one in EXPERIMENTS["table3"].published if one.data == "eurlex-4k")
    assert f"<td>EURLex-4K</td><td>{first.algorithm}</td><td>{first.m}</td><td>{first.value:g}</td>" in text


def test_the_tables_of_labels_name_their_data_set(rows):
    text = to_html(build([EXPERIMENTS["table3"]], [made_up(cell, p1=0.5, p3=0.4, p5=0.3) for cell in LABELS]))
    assert "<p>Bibtex: P@1 / P@3 / P@5:</p>" in text


def test_code_in_a_note_is_set_as_code(rows):
    text = to_html(build([EXPERIMENTS["table3"]], rows))
    assert "<code>EmbeddingClassifier.as_in_paper</code>" in text
    assert "`" not in re.sub(r"<svg.*?</svg>", "", text, flags=re.S)


def test_disagreement_is_marked(sections):
    text = to_markdown(sections)
    assert "✗ differs" in text
    assert "| Synthetic1 | ℓ1-AE | 10 | 0.465 |" in text


def test_every_link_of_the_markdown_has_a_heading(sections):
    text = to_markdown(sections)
    slugs = {
        "".join(c for c in line[3:].lower() if c.isalnum() or c in " -_").replace(" ", "-")
        for line in text.splitlines()
        if line.startswith("## ")
    }
    links = re.findall(r"\]\(#([^)]+)\)", text)
    assert len(links) == len(sections)
    assert set(links) <= slugs


def test_the_page_stands_alone_and_escapes_what_it_says(sections):
    text = to_html(sections)
    assert not re.search(r"(src|href)=\"(?!#|data:)", text)
    assert "<script" not in text
    assert text.count("<figure") == 3
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'<a href="#([^"]+)"', text)) <= set(ids)


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
def test_in_a_browser_every_figure_shows_and_every_link_leads_somewhere(sections, tmp_path):
    probe = """<script>
      const seen = [...document.querySelectorAll('figure svg')].map(s => s.getBoundingClientRect());
      const links = [...document.querySelectorAll('a[href^="#"]')];
      document.title = JSON.stringify({
        shown: seen.filter(r => r.width > 200 && r.height > 100).length, drawn: seen.length,
        links: links.length, dead: links.filter(a => !document.getElementById(a.hash.slice(1))).length,
        wide: document.documentElement.scrollWidth - document.documentElement.clientWidth });
    </script></body>"""
    file = tmp_path / "index.html"
    file.write_text(to_html(sections).replace("</body>", probe), encoding="utf-8")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
    options += [f"--user-data-dir={tmp_path / 'profile'}", "--window-size=1000,900", "--dump-dom"]
    done = subprocess.run([CHROMIUM, *options, file.as_uri()], capture_output=True, text=True, timeout=120, check=True)
    title = html.unescape(re.search(r"<title>(.*?)</title>", done.stdout)[1])
    # a drawing for a light and one for a dark page: one of the two shows
    assert title == '{"shown":3,"drawn":6,"links":8,"dead":0,"wide":0}'
