"""Set-up for every test: one thread, and random draws that are the same on every run."""

from __future__ import annotations

import os
import sys

import pytest
from hypothesis import HealthCheck, settings

# Before numpy or torch is imported. Two busy processes with OpenMP threads that spin are far slower than one thread.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

# No deadline: a shared machine may be slow. Derandomised: a failure in one run is a failure in every run.
settings.register_profile(
    "suite", deadline=None, derandomize=True, max_examples=50, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("nightly", deadline=None, max_examples=20_000)
settings.register_profile(  # 12 tests of readers and loaders: more than 100,000 inputs in all
    "fuzz", deadline=None, max_examples=10_000, suppress_health_check=[HealthCheck.too_slow], database=None
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Give torch one thread where a test module has imported it; elsewhere OMP_NUM_THREADS does."""
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)
