"""The command line as a person meets it: in a process of its own."""

import json
import subprocess
import sys

import pytest
import scipy.sparse as sp

import sparselens


def sparselens_command(*arguments, **environment):
    import os

    return subprocess.run(
        [sys.executable, "-m", "sparselens", *map(str, arguments)],
        capture_output=True,
        text=True,
        env=os.environ | environment,
        check=False,
    )


def test_help_lists_every_command():
    result = sparselens_command("--help")
    assert result.returncode == 0
    for command in ("plan", "fit", "encode", "decode", "evaluate", "inspect", "data", "demo", "bench"):
        assert command in result.stdout


def test_version_is_the_version_of_the_package():
    assert sparselens_command("--version").stdout.strip() == f"sparselens {sparselens.__version__}"


def test_help_does_not_wait_for_torch_or_sklearn():
    code = "import sys, sparselens.cli.main; print([m for m in ('torch', 'sklearn', 'numba') if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_a_mistyped_command_is_bad_input():
    result = sparselens_command("dmo")
    assert result.returncode == 2
    assert "No such command 'dmo'" in result.stderr


def test_a_mistyped_data_set_names_the_closest_one_without_a_traceback():
    result = sparselens_command("data", "info", "synthetc1")
    assert result.returncode == 2
    assert "synthetic1" in result.stderr
    assert "Traceback" not in result.stderr


def test_debug_shows_the_traceback():
    assert "Traceback" in sparselens_command("data", "info", "synthetc1", SPARSELENS_DEBUG="1").stderr


def test_a_missing_data_file_says_which_file_to_put_where(tmp_path):
    result = sparselens_command("data", "info", "amazon", SPARSELENS_DATA=str(tmp_path))
    assert result.returncode == 2
    assert "amazon" in result.stderr
    assert str(tmp_path) in result.stderr


def test_the_list_of_data_sets_as_json_names_those_of_the_paper(tmp_path):
    result = sparselens_command("data", "list", "--json", SPARSELENS_DATA=str(tmp_path))
    listed = {entry["name"]: entry for entry in json.loads(result.stdout)}
    paper = {"toy", "synthetic1", "synthetic2", "synthetic3", "unstructured", "amazon", "rcv1", "wiki10-31k"}
    assert paper <= set(listed)
    assert listed["synthetic1"]["available"]
    assert not listed["amazon"]["available"]


def test_convert_writes_the_rows_of_a_part(tmp_path):
    out = tmp_path / "new" / "test.npz"
    result = sparselens_command("data", "convert", "toy", "--part", "test", "-o", out)
    assert result.returncode == 0, result.stderr
    written = sp.load_npz(out)
    expected = sparselens.load_dataset("toy").test
    assert (written != expected).nnz == 0
    assert [p.name for p in out.parent.iterdir()] == ["test.npz"]


def test_convert_reads_a_file(tmp_path):
    (tmp_path / "a.svm").write_text("1 1:0.5 3:2\n0 2:1\n")
    result = sparselens_command("data", "convert", tmp_path / "a.svm", "-o", tmp_path / "a.npz")
    assert result.returncode == 0, result.stderr
    assert sp.load_npz(tmp_path / "a.npz").nnz == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("toy", "-o", "a.csv"), r"does not end in .npz"),
        (("toy", "-o", "a.npz", "--part", "tst"), r"--part must be one of 'train', 'valid', 'test', 'all'"),
        (("nothing.npz", "-o", "a.npz"), r"nothing.npz"),
    ],
)
def test_convert_refuses_what_it_cannot_do(tmp_path, arguments, message):
    result = subprocess.run(
        [sys.executable, "-m", "sparselens", "data", "convert", *arguments],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert result.returncode == 2
    assert message in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_corrupt_file_is_named(tmp_path):
    (tmp_path / "bad.npz").write_bytes(b"this is no zip file")
    result = sparselens_command("data", "info", tmp_path / "bad.npz")
    assert result.returncode == 2
    assert "bad.npz" in result.stderr
    assert "Traceback" not in result.stderr
