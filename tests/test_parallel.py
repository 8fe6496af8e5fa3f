"""Blocks over processes and over Dask: in order, each once, whatever dies on the way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

import sparselens as sl
from helpers import sparse_rows
from sparselens import parallel
from sparselens.filejobs import decode_file, encode_file
from sparselens.parallel import call_in_worker, count_jobs, map_in_order
from sparselens.recovery import ClusterError, MissingLibraryError


def square(value):
    return value * value


def test_items_are_taken_as_they_are_needed():
    taken = []

    def items():
        for k in range(100):
            taken.append(k)
            yield k

    results = map_in_order(square, items(), n_jobs=1)
    assert [next(results) for _ in range(3)] == [0, 1, 4]
    assert taken == [0, 1, 2]


def test_processes_are_only_a_few_items_ahead():
    taken, lead = [], []

    def items():
        for k in range(60):
            taken.append(k)
            yield -k

    for k, result in enumerate(map_in_order(abs, items(), n_jobs=2)):
        assert result == k
        lead.append(len(taken) - k)
    assert len(lead) == 60
    assert max(lead) <= 12


@pytest.mark.skipif(os.name != "posix", reason="signals of a POSIX system")
def test_a_process_that_dies_is_reported():
    with pytest.raises(ClusterError, match="one of 2 processes was killed, most likely for want of memory"):
        list(map_in_order(eval, ["1", "__import__('os').kill(__import__('os').getpid(), 9)", "2"], n_jobs=2))


@pytest.mark.parametrize(("n_jobs", "expected"), [(None, 1), (1, 1), (3, 3), (-1, os.cpu_count())])
def test_jobs_are_counted_as_in_scikit_learn(n_jobs, expected):
    assert count_jobs(n_jobs) == expected


def test_an_engine_that_is_none_and_a_scheduler_that_nobody_asked_for_are_refused():
    with pytest.raises(ValueError, match="engine must be one of 'processes', 'dask'; got 'spark'"):
        map_in_order(square, [1], engine="spark")
    with pytest.raises(ValueError, match="belongs to engine='dask'"):
        map_in_order(square, [1], scheduler="tcp://localhost:1")
    with pytest.raises(ValueError, match="engine='dask' needs scheduler="):
        map_in_order(square, [1], engine="dask")


def test_dask_that_is_not_installed_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingLibraryError, match=r"pip install 'sparselens\[dask\]'"):
        map_in_order(square, [1], engine="dask", scheduler="tcp://localhost:1")


def test_a_function_is_made_once_for_a_key():
    made = []

    def make():
        made.append(1)
        return square

    assert [call_in_worker("a", make, k) for k in (2, 3)] == [4, 9]
    assert call_in_worker("b", make, 4) == 16
    assert len(made) == 2


# ---- a cluster of two workers -----------------------------------------------------------------------------------

X = sparse_rows(300, 30, 3, seed=0)


@pytest.fixture(scope="module")
def cluster():
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=50
    ) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def enc():
    return sl.GaussianEncoder(18, random_state=0).fit(X)


def test_a_killed_worker_costs_no_row(cluster, enc, tmp_path):
    encode_file(enc, X, tmp_path / "y.npz", block_rows=5)
    alone = decode_file(enc, tmp_path / "y.npz", tmp_path / "alone.npz", block_rows=5)
    dead = []

    def kill_one(done, total):
        if done >= 50 and not dead:
            dead.append(next(iter(cluster.workers.values())).process.pid)
            os.kill(dead[0], signal.SIGKILL)

    report = decode_file(
        enc,
        tmp_path / "y.npz",
        tmp_path / "dask.npz",
        block_rows=5,
        engine="dask",
        scheduler=cluster.scheduler_address,
        callback=kill_one,
    )
    assert dead
    assert report.n_certified == alone.n_certified == 300
    assert (tmp_path / "dask.npz").read_bytes() == (tmp_path / "alone.npz").read_bytes()


def test_encoding_over_dask_gives_the_same_bytes(cluster, enc, tmp_path):
    for name, options in (("a.npz", {}), ("b.npz", {"engine": "dask", "scheduler": cluster.scheduler_address})):
        encode_file(enc, X, tmp_path / name, block_rows=64, **options)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_an_error_in_a_worker_reaches_the_user_as_it_is(cluster, enc, tmp_path):
    Z = X.copy()
    Z.data[Z.indptr[250]] = np.nan
    with pytest.raises(ValueError, match="holds NaN or infinity in row 250"):
        encode_file(enc, Z, tmp_path / "y.npz", block_rows=64, engine="dask", scheduler=cluster.scheduler_address)


def test_a_scheduler_without_workers_is_said(monkeypatch):
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(parallel, "_PATIENCE", 1)
    with (
        distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=":0", silence_logs=50) as empty,
        pytest.raises(ClusterError, match="has no workers: start some with 'dask worker'"),
    ):
        list(map_in_order(square, [1], engine="dask", scheduler=empty.scheduler_address))


def test_no_scheduler_at_an_address_is_said(monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr(parallel, "_PATIENCE", 0.5)
    with pytest.raises(ClusterError, match=r"no Dask scheduler answers at tcp://127\.0\.0\.1:9 .*'dask scheduler'"):
        list(map_in_order(square, [1], engine="dask", scheduler="tcp://127.0.0.1:9"))


@pytest.mark.skipif(os.name != "posix", reason="signals of a POSIX system")
def test_processes_end_with_the_one_that_started_them_even_where_that_was_killed():
    code = (
        "import sparselens.parallel as p, sys; p._IDLE = 10_000; each = p.map_in_order(abs, [-1] * 100, n_jobs=2); "
        "print(next(each), flush=True); sys.stdin.read()"
    )
    running = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert running.stdout.readline() == b"1\n"
    running.kill()
    running.communicate(timeout=100)  # its processes have the same outputs: this returns when they have ended as well
    assert running.returncode == -signal.SIGKILL
