"""A killed certificate training goes on where it was, and tells how far it is."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from helpers import sparse_rows
from sparselens.encoders.certificate import CertificateEncoder
from sparselens.recovery import CheckpointError

SETTINGS = {"max_steps": 64, "batch_size": 32, "device": "cpu", "random_state": 0}


def pairs_of_blocks(n, seed=0):
    """Rows with two of twelve blocks of three columns: every rung of a short search brings a gain."""
    rng = np.random.default_rng(seed)
    on = np.zeros((n, 12))
    np.put_along_axis(on, rng.permuted(np.tile(np.arange(12), (n, 1)), axis=1)[:, :2], 1.0, axis=1)
    return sp.csr_array(np.kron(on, np.ones(3)) * rng.uniform(0.1, 1.0, (n, 36)))


class KilledError(Exception):
    """Stands for a kill."""


def kill_at(n):
    events = []

    def told(event):
        events.append(event)
        if len(events) == n:
            raise KilledError

    return told


@pytest.mark.parametrize("n", [3, 6, 8, 10])  # in the first rung, ..., in the last one
def test_a_killed_search_goes_on_and_ends_with_the_same_bits(tmp_path, n):
    X = pairs_of_blocks(400)
    whole = CertificateEncoder(10, **SETTINGS).fit(X)
    with pytest.raises(KilledError):
        CertificateEncoder(10, checkpoint=tmp_path, **SETTINGS).fit(X, callback=kill_at(n))
    told = []
    resumed = CertificateEncoder(10, checkpoint=tmp_path, **SETTINGS).fit(X, callback=told.append)
    np.testing.assert_array_equal(resumed.components_, whole.components_)
    assert resumed.history_ == whole.history_
    assert resumed.report_ == whole.report_
    everything = []
    CertificateEncoder(10, **SETTINGS).fit(X, callback=everything.append)
    assert len(told) < len(everything)  # what was done before the kill was not done again


def test_a_checkpoint_of_other_rows_or_parameters_is_refused(tmp_path):
    X = sparse_rows(120, 30, 4, seed=0)
    CertificateEncoder(8, checkpoint=tmp_path, **SETTINGS).fit(X)
    with pytest.raises(CheckpointError, match=r"other parameters or data \(task.training rows was"):
        CertificateEncoder(8, checkpoint=tmp_path, **SETTINGS).fit(sparse_rows(120, 30, 4, seed=1))
    with pytest.raises(CheckpointError, match=r"task\.params\.clip_norm was 1\.0 and is 2\.0"):
        CertificateEncoder(8, clip_norm=2.0, checkpoint=tmp_path, **SETTINGS).fit(X)
    with pytest.raises(CheckpointError, match=r"settings\.seed was"):
        CertificateEncoder(8, checkpoint=tmp_path, **(SETTINGS | {"random_state": 1})).fit(X)


def test_a_checkpoint_needs_a_seed(tmp_path):
    with pytest.raises(ValueError, match="random_state is None, but a training that is resumed"):
        CertificateEncoder(8, checkpoint=tmp_path).fit(sparse_rows(20, 30, 4, seed=0))


def test_the_part_that_is_done_grows_to_one():
    events = []
    CertificateEncoder(10, **SETTINGS).fit(pairs_of_blocks(400), callback=events.append)
    assert [event.seconds for event in events] == sorted({event.seconds for event in events})
    parts = [event.progress for event in events]
    assert parts == sorted(parts)
    assert 0 < parts[0] < 0.1
    assert parts[-1] == 1.0
