"""`sparselens reproduce` and `report`, as a person types them."""

import json

import pytest
from typer.testing import CliRunner

from sparselens.cli.cells import compared
from sparselens.cli.main import app


def call(*words):
    done = CliRunner().invoke(app, [str(word) for word in words])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.output


def test_the_list_names_every_table_and_figure():
    lines = call("reproduce", "--list").splitlines()
    assert lines[1].startswith("fig2 ")
    assert lines[-1] == "Run one of them: sparselens reproduce fig2 --quick"
    assert len(lines) == 1 + 20


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


def test_a_folder_of_several_commands_has_one_page_of_all(folder, tmp_path):
    (tmp_path / "results.jsonl").write_bytes((folder / "results.jsonl").read_bytes())
    words = ("--quick", "--encoders", "gaussian", "--rows", 20, "--jobs", 1, "-o", tmp_path)
    call("reproduce", "fig-toy", *words)
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert [line.split(":")[0] for line in text.splitlines() if line.startswith("## ")] == [
        "## fig-cosamp-pos",
        "## fig-toy",
    ]
    assert "Not run (4 cells): Gauss + CoSaMP pos, Gauss + CoSaMP on synthetic1 (m = 10, 30)." in text


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


def test_a_cell_that_is_run_again_stands_beside_its_stored_row(folder, tmp_path):
    rows = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
    keys = [row["key"] for row in rows[:2]]
    output = call("reproduce", ",".join(keys), "--from", folder / "results.jsonl", "--jobs", 1, "-o", tmp_path)
    for row in rows[:2]:
        assert f"{row['key']}: synthetic1, gaussian, m = {row['m']}, seed 0, {row['decoder']}: exact " in output
        assert f"rmse {row['rmse']:.6g} (stored: {row['rmse']:.6g})" in output


def test_a_key_is_run_again_where_its_row_is_stored_too(folder, tmp_path):
    path = tmp_path / "results.jsonl"
    path.write_text("".join((folder / "results.jsonl").read_text().splitlines(keepends=True)[:1]))
    key = json.loads(path.read_text())["key"]
    done = CliRunner().invoke(app, ["reproduce", f"{key},{key}", "--jobs", "1", "--json", "-o", str(tmp_path)])
    assert len(path.read_text().splitlines()) == 2
    found = json.loads(done.stdout)
    assert found["n_cells"] == 1
    stored, now = found["stored_and_now"][key]["rmse"]
    assert stored == now > 0


def test_figures_that_are_no_numbers_are_left_out_of_a_comparison(folder):
    row = json.loads((folder / "results.jsonl").read_text().splitlines()[0])
    told = compared(row | {"rmse": None}, row | {"exact": None})
    assert told.endswith(f"{row['decoder']}: certified {row['certified']:.6g} (stored: {row['certified']:.6g})")


def test_what_failed_is_said_with_its_reason_and_an_exit_code(tmp_path):
    words = ["reproduce", "fig-cosamp-pos", "--quick", "--m", "2000", "--rows", "5", "--jobs", "1", "-o", str(tmp_path)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 3
    assert "2 failed: ValueError: " in done.output
    assert "--retry measures again what failed" in done.output
    assert "failed: ValueError: " in (tmp_path / "report.md").read_text(encoding="utf-8")


def test_data_that_is_missing_is_said_with_its_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARSELENS_DATA", str(tmp_path / "none"))
    output = call("reproduce", "fig2-labels", "--quick", "--encoders", "gaussian", "--jobs", 1, "-o", tmp_path / "out")
    assert "4 missing: " in output
    assert f"the data folder is {tmp_path / 'none'} (SPARSELENS_DATA names another)" in output
    call("report", tmp_path / "out", "-o", tmp_path / "page")
    text = (tmp_path / "page" / "report.md").read_text(encoding="utf-8")
    assert "## fig2-labels: " in text  # nothing is missing in silence
    assert "- missing: " in text


def test_a_training_that_was_cut_is_said_and_trained_longer_on_request(tmp_path):
    words = ["reproduce", "fig-toy", "--quick", "--encoders", "l1ae", "--jobs", 1, "--no-page", "-o", tmp_path]
    output = call(*words, "--fit-seconds", 0.01)
    assert "2 of the rows are of trainings that --fit-seconds cut" in output
    assert "that --fit-seconds cut" in call(*words)
    assert "that --fit-seconds cut" not in call(*words, "--retry")


def test_seeds_repeat_a_quick_form_too(tmp_path):
    words = ("reproduce", "table-no-structure", "--quick", "--encoders", "gaussian", "--m", 30, "--seeds", 2)
    assert "2 of 2 cells: 2 done." in call(*words, "--rows", 20, "--jobs", 1, "--no-page", "-o", tmp_path)


def test_report_shows_the_form_and_the_experiments_that_the_rows_are_of(folder, tmp_path):
    call("report", folder, "-o", tmp_path)
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "in their quick forms" in text
    assert "## fig-cosamp-pos: " in text
    assert "## table1: " not in text
    call("report", folder, "--full", "-o", tmp_path)
    assert "in their quick forms" not in (tmp_path / "report.md").read_text(encoding="utf-8")


def test_report_reads_the_rows_of_a_folder(folder, tmp_path):
    output = call("report", folder, "--quick", "--only", "fig-cosamp-pos", "-o", tmp_path)
    assert output.strip() == f"Page: {tmp_path / 'index.html'}"
    assert "the step helps" in (tmp_path / "report.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("reproduce", "fig9"), "the paper has no 'fig9'"),
        (("reproduce", "fig2", "--m", "ten"), "--m must be whole numbers from 1 on with commas"),
        (("reproduce", "fig2", "--m", "10,0"), "--m must be whole numbers from 1 on with commas"),
        (("reproduce", "fig2", "--data-sets", "synthetc1"), "has the data set 'synthetc1': did you mean 'synthetic1'"),
        (("reproduce", "fig2", "--data-sets", "synthetic1,nothing"), "has the data set 'nothing': known are synth"),
        (
            ("reproduce", "fig2", "--quick", "--data-sets", "amazon"),
            "only the full form has 'amazon': leave out --quick",
        ),
        (("reproduce", "fig3-right", "--data-sets", "synthetic1"), "only the quick form has 'synthetic1': add --quick"),
        (("reproduce", "fig2", "--encoders", "l1-ae"), "no cell has the encoder 'l1-ae': did you mean 'l1ae'"),
        (("reproduce", "fig2", "--encoders", ""), "--encoders names nothing: known are gaussian"),
        (("reproduce", "fig2", "--data-sets", ","), "--data-sets names nothing: known are synthetic1"),
        (("reproduce", "fig2", "--quick", "--data-sets", "amazn"), "did you mean 'amazon'"),
        (("reproduce", "table2"), "did you mean table2-left or table2-right"),
        (("reproduce", "fig2", "--from", "rows.jsonl"), "--from is where the keys of rows are looked up"),
        (("reproduce", "fig2", "--fit-seconds", "-3"), "--fit-seconds must be more than 0, got -3"),
        (("reproduce", "0123456789ab", "fig2"), "a key says all of its cell: name keys alone"),
        (("reproduce", "0123456789ab", "--m", "10"), "a key says all of its cell: name keys alone"),
        (
            ("reproduce", "0123456789ab", "--from", "nowhere"),
            "there is no nowhere, where the rows of keys are looked up",
        ),
        (("reproduce", "fig2", "--device", "gpu"), "device must be"),
        (("reproduce", "0123456789ab", "-o", "."), "there is no results.jsonl, where the rows of keys are looked up"),
        (("report", "nowhere"), "there is no nowhere"),
        (("report", "tests"), "tests: no row that `sparselens reproduce` wrote is there"),
    ],
)
def test_bad_input_is_one_clear_message(words, message):
    with pytest.raises((ValueError, OSError), match=message):
        call(*words)
