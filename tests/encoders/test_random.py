"""Gaussian and partial Fourier matrices: the entries are what the paper says."""

from __future__ import annotations

import numpy as np
import pytest

from sparselens.encoders.random import GaussianEncoder, PartialFourierEncoder, partial_fourier_matrix


def fit(encoder, d: int):
    return encoder.fit(np.ones((1, d))).components_


@pytest.mark.parametrize("m", [10, 40])
def test_gaussian_entries_have_mean_zero_and_variance_one_over_m(m):
    A = fit(GaussianEncoder(m, random_state=3), 2000)
    # the mean of md entries has a standard deviation of 1/(m √d); five of them, and the same for the variance
    assert abs(A.mean()) < 5 / (m * np.sqrt(2000))
    assert A.var() * m == pytest.approx(1.0, abs=5 * np.sqrt(2 / A.size))
    assert abs(np.mean((A * np.sqrt(m)) ** 4) - 3) < 5 * np.sqrt(96 / A.size)


def test_a_gaussian_matrix_does_not_depend_on_the_values_of_the_data():
    ones, others = np.ones((2, 30)), np.random.default_rng(0).random((5, 30))
    first, second = GaussianEncoder(4, random_state=1).fit(ones), GaussianEncoder(4, random_state=1).fit(others)
    np.testing.assert_array_equal(first.components_, second.components_)


def dft_rows(d: int) -> np.ndarray:
    return np.fft.fft(np.eye(d))


@pytest.mark.parametrize(("m", "d"), [(2, 5), (8, 12), (12, 12), (6, 101)])
def test_partial_fourier_rows_are_the_cosines_and_sines_of_rows_of_the_dft(m, d):
    A = fit(PartialFourierEncoder(m, random_state=0), d)
    F = dft_rows(d) / np.sqrt(m / 2)
    half = m // 2
    for cosine, sine in zip(A[:half], A[half:], strict=True):
        errors = np.abs(F.real - cosine).max(axis=1) + np.abs(-F.imag - sine).max(axis=1)
        assert errors.min() < 1e-12


def test_for_odd_m_the_last_frequency_gives_its_cosine_alone():
    A = fit(PartialFourierEncoder(7, random_state=2), 50)
    assert A.shape == (7, 50)
    scale = 1 / np.sqrt(7 / 2)
    np.testing.assert_allclose(np.hypot(A[:3], A[4:]), scale, rtol=1e-12)
    assert A[3, 0] == pytest.approx(scale)


def test_one_fourier_measurement_is_one_cosine():
    A = fit(PartialFourierEncoder(1, random_state=2), 50)
    assert A.shape == (1, 50)
    assert A[0, 0] == pytest.approx(np.sqrt(2))


def test_frequencies_are_drawn_with_replacement_over_the_whole_range():
    class Recorder:
        def integers(self, high, size):
            self.asked = (high, size)
            return np.array([0, 3, 3])

    rng = Recorder()
    A = partial_fourier_matrix(6, 10, rng)
    assert rng.asked == (10, 3)
    np.testing.assert_array_equal(A[1], A[2])
    assert not A[3].any()  # the sine of frequency 0


def test_fourier_angles_stay_accurate_at_large_d():
    d = 47_236
    A = partial_fourier_matrix(2, d, np.random.default_rng(4))
    f = np.random.default_rng(4).integers(d, size=1)[0]
    j = d - 1  # the angle of f(d − 1) equals that of −f
    assert A[0, j] == pytest.approx(np.cos(2 * np.pi * int(f) / d), abs=1e-15)
    assert A[1, j] == pytest.approx(-np.sin(2 * np.pi * int(f) / d), abs=1e-15)
