"""`sparselens reproduce` and `report`, as a person types them."""

import json

import pytest
from typer.testing import CliRunner

from sparselens.cli.main import app


def call(*words):
    done = CliRunner().invoke(app, [str(word) for word in words])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.output


def test_the_list_names_every_table_and_figure():
    output = call("reproduce", "--list")
    assert output.splitlines()[1].startswith("fig2 ")
    assert len(output.splitlines()) == 19


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("reproduced")
    output = call("reproduce", "fig-cosamp-pos", "--quick", "--m", "20,40", "--rows", 40, "--jobs", 1, "-o", out)
    assert "4 of 4 cells: 4 done." in output
    return out


def test_one_command_writes_rows_figures_and_a_page(folder):
    names = {path.name for path in folder.iterdir()}
    assert {"results.jsonl", "index.html", "report.md", "figures"} <= names
    figures = {path.name for path in (folder / "figures").iterdir()}
    assert figures == {f"fig-cosamp-pos-{m}.{kind}" for m in ("exact", "rmse") for kind in ("png", "svg")}
    rows = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
    assert {(row["m"], row["decoder"]) for row in rows} == {(m, d) for m in (20, 40) for d in ("cosamp", "cosamp-pos")}


def test_the_same_command_again_runs_nothing(folder):
    before = (folder / "results.jsonl").read_text()
    call("reproduce", "fig-cosamp-pos", "--quick", "--m", "20,40", "--rows", 40, "--no-page", "-o", folder)
    assert (folder / "results.jsonl").read_text() == before


def test_any_one_cell_is_run_again_from_its_key(folder, tmp_path):
    first = json.loads((folder / "results.jsonl").read_text().splitlines()[0])
    call("reproduce", first["key"], "--from", folder / "results.jsonl", "--jobs", 1, "-o", tmp_path)
    (again,) = (json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines())
    assert {k: v for k, v in again.items() if "seconds" not in k} == {
        k: v for k, v in first.items() if "seconds" not in k
    }


def test_report_reads_the_rows_of_a_folder(folder, tmp_path):
    output = call("report", folder, "--quick", "--only", "fig-cosamp-pos", "-o", tmp_path)
    assert output.strip() == f"Page: {tmp_path / 'index.html'}"
    assert "the step helps" in (tmp_path / "report.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("reproduce", "fig9"), "the paper has no 'fig9'"),
        (("reproduce", "fig2", "--m", "ten"), "--m must be whole numbers with commas"),
        (("reproduce", "fig2", "--data-sets", "nothing"), "no cell is left"),
        (("reproduce", "fig2", "--device", "gpu"), "device must be"),
        (("reproduce", "0123456789ab", "-o", "."), "there is no results.jsonl|has no row with the key"),
        (("report", "nowhere"), "there is no nowhere"),
    ],
)
def test_bad_input_is_one_clear_message(words, message):
    with pytest.raises((ValueError, OSError), match=message):
        call(*words)
