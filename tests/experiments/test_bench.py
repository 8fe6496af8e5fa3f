"""The benchmark solves the same programs with both solvers."""

from __future__ import annotations

import json

import numpy as np
import scipy.sparse as sp

from command_line import command
from helpers import gaussian, sparse_rows
from sparselens.decoders.l1 import L1Decoder
from sparselens.experiments.bench import highs_rows, run_bench


def test_both_solvers_find_the_same_rows():
    A = gaussian(12, 30, seed=0)
    X = sparse_rows(6, 30, 2, seed=1)
    Y = X @ A.T
    np.testing.assert_allclose(highs_rows(A, Y), L1Decoder().bind(A).decode(Y).x.toarray(), atol=1e-7)


def test_a_case_is_measured_with_its_truth():
    told = []
    table = run_bench(
        [("mine", sparse_rows(50, 30, 2, seed=0), 15)], rows=8, rounds=2, callback=lambda *what: told.append(what)
    )
    (row,) = table
    assert (row["data"], row["m"], row["d"], row["n_rows"]) == ("mine", 15, 30, 8)
    assert row["ours_exact"] > 0.5
    assert row["certified"] == 1.0
    assert row["ratio"] == row["highs_ms"] / row["ours_ms"]
    assert told[-1][:2] == (1.0, 1.0)


def test_the_command_takes_a_file_and_says_what_it_needs(tmp_path):
    sp.save_npz(tmp_path / "a.npz", sp.csr_matrix(sparse_rows(20, 30, 2, seed=0)))
    ended = command("bench", tmp_path / "a.npz", "-m", 10, "-m", 15, "--rows", 4, "--rounds", 1, "--json")
    assert ended.code == 0, ended.error
    assert [row["m"] for row in json.loads(ended.out)] == [10, 15]
    assert "a.npz, m = 10" in command("bench", tmp_path / "a.npz", "-m", 10, "--rows", 2, "--rounds", 1).out
    assert "say how many measurements" in command("bench", tmp_path / "a.npz").error
    assert "-m goes with DATA" in command("bench", "-m", 10).error
    assert "m = 31 exceeds the 30 columns of a.npz" in command("bench", tmp_path / "a.npz", "-m", 31).error
