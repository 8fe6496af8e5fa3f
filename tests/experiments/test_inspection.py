"""Figures of a matrix against their definitions."""

from __future__ import annotations

import numpy as np
import pytest

from helpers import gaussian
from sparselens.experiments import inspection, plots
from sparselens.experiments.inspection import matrix_facts, training_table


@pytest.mark.parametrize("shape", [(4, 9), (5, 60)])  # by the matrix itself, and by its small Gram matrix
def test_spectrum_norms_and_coherence_follow_their_definitions(shape):
    A = gaussian(*shape, seed=0)
    facts = matrix_facts(A)
    values = np.linalg.svd(A, compute_uv=False)
    np.testing.assert_allclose(facts["singular_values"], values, rtol=1e-8)
    assert facts["condition"] == pytest.approx(values[0] / values[-1])
    unit = A / np.linalg.norm(A, axis=0)
    cosines = np.abs(unit.T @ unit) - np.eye(shape[1])
    assert facts["coherence"] == pytest.approx(cosines.max(), abs=1e-6)  # float32
    assert facts["coherence"] >= facts["welch_bound"]
    assert facts["column_norms"]["largest"] == pytest.approx(np.linalg.norm(A, axis=0).max())


def test_an_orthogonal_frame_meets_the_welch_bound():
    angles = np.pi * np.arange(3) / 3  # three lines in the plane at equal angles
    facts = matrix_facts(np.array([np.cos(angles), np.sin(angles)]))
    assert facts["coherence"] == pytest.approx(facts["welch_bound"], abs=1e-6)


def test_of_many_columns_a_sample_is_compared(monkeypatch):
    monkeypatch.setattr(inspection, "_PRODUCTS", 1.0)
    A = gaussian(4, 300, seed=1)
    facts = matrix_facts(A)
    assert facts["coherence_columns"] == 256
    monkeypatch.undo()
    assert facts["coherence"] <= matrix_facts(A)["coherence"]


def test_a_column_of_zeros_is_counted():
    A = gaussian(3, 7, seed=0)
    A[:, 2] = 0.0
    facts = matrix_facts(A)
    assert facts["n_zero_columns"] == 1
    assert facts["column_norms"]["smallest"] == 0.0


def test_a_large_matrix_is_drawn_by_its_largest_entries():
    A = np.zeros((300, 1000))
    A[123, 456] = -3.0
    A[:, 0] = 1e-3
    facts = matrix_facts(A)
    heat = np.array(facts["heat"])
    assert heat.shape == (120, 400)
    assert heat.min() == -3.0
    assert len(facts["norms"]) == 400


def test_a_long_history_keeps_some_twenty_lines_and_the_last():
    epochs = list(range(1, 101))
    header, lines = training_table({"epoch": epochs, "train_loss": [0.5] * 100, "valid_loss": [0.25] * 100})
    assert header[0] == "epoch"
    assert len(lines) == 20
    assert lines[-1] == ["100", "0.5", "0.25"]
    assert training_table({}) == ([], [])


def test_counts_have_whole_numbers_on_their_axis():
    losses = {"epoch": [10, 20, 30], "train_loss": [3.0, 2.0, 1.0], "valid_loss": [3.0, 2.0, 1.5]}
    for drawn in (plots.spectrum({"singular_values": [1.0] * 20}), plots.training_curve(losses)):
        assert all(tick == round(tick) for tick in drawn.axes[0].get_xticks())


def test_a_recovery_curve_of_a_single_m_has_its_tick_alone():
    rows = [{"encoder": label, "m": 20, "exact": 0.5, "rmse": 0.3} for label in ("Gaussian", "PCA")]
    assert [axis.get_xticks().tolist() for axis in plots.recovery_curve(rows).axes] == [[20], [20]]


def test_the_legend_of_the_recovery_curve_covers_no_curve():
    rows = [{"encoder": name, "m": m, "exact": 0.5, "rmse": 0.5} for name in ("Certificate", "PCA") for m in (1, 2)]
    drawn = plots.recovery_curve(rows)
    assert [axis.get_legend() for axis in drawn.axes] == [None, None]
    assert [text.get_text() for text in drawn.legends[0].get_texts()] == ["Certificate", "PCA"]
