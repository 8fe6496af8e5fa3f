"""Statuses that say what to do, and recoveries that can be cut, joined and summed up."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from helpers import sparse_rows
from sparselens import recovery
from sparselens.recovery import Recovery, SparselensError, Status


def make(status, *, dual: bool = True, seed: int = 0) -> Recovery:
    n = len(status)
    rng = np.random.default_rng(seed)
    return Recovery(
        x=sparse_rows(n, 8, 2, seed=seed) if n else sp.csr_array((0, 8)),
        status=np.array(status, dtype=np.uint8),
        residual=rng.random(n),
        gap=rng.random(n),
        n_steps=np.arange(n),
        dual=rng.random((n, 3)) if dual else None,
    )


# ---- statuses and errors ------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", Status)
def test_each_status_says_in_a_sentence_what_it_means_and_what_to_do(status):
    assert status.sentence[0].isupper()
    assert status.sentence.endswith(".")
    assert ":" in status.sentence or "Nothing to do" in status.sentence
    assert Status(int(status)) is status


def test_sentences_differ():
    assert len({status.sentence for status in Status}) == len(Status) == 6


def test_only_the_first_two_statuses_are_proofs_of_optimality():
    rec = make(list(Status))
    assert rec.certified.tolist() == [True, True, False, False, False, False]
    assert rec.unique.tolist() == [True, False, False, False, False, False]


def test_every_error_of_the_library_has_one_base_and_a_built_in_kind():
    kinds = {
        "NotBoundError": AttributeError,
        "DataNotFoundError": FileNotFoundError,
        "CorruptFileError": ValueError,
        "TrainingDivergedError": FloatingPointError,
        "CheckpointError": Exception,
    }
    for name, kind in kinds.items():
        error = getattr(recovery, name)
        assert issubclass(error, SparselensError)
        assert issubclass(error, kind)
        assert str(error("one sentence.")) == "one sentence."
    assert issubclass(recovery.ConditionWarning, UserWarning)


# ---- indexing -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rows",
    [
        slice(1, 4),
        slice(None, None, 2),
        [3, 0],
        np.array([4, 4]),
        np.array([True, False, True, False, False]),
        2,
        -1,
        np.int64(1),
        [],
        slice(0, 0),
    ],
    ids=repr,
)
def test_rows_can_be_taken_by_anything_that_indexes_an_array(rows):
    rec = make([0, 1, 2, 3, 4])
    part = rec[rows]
    which = np.atleast_1d(np.arange(5)[rows])
    assert len(part) == len(which)
    np.testing.assert_array_equal(part.x.toarray(), rec.x.toarray()[which])
    for name in ("status", "residual", "gap", "n_steps", "dual"):
        np.testing.assert_array_equal(getattr(part, name), getattr(rec, name)[which])


def test_a_recovery_without_duals_can_be_cut_too():
    assert make([0, 1, 2], dual=False)[1:].dual is None


def test_a_row_out_of_range_is_an_index_error():
    with pytest.raises(IndexError):
        make([0, 1])[2]


# ---- joining ------------------------------------------------------------------------------------------------


def test_parts_joined_give_the_whole():
    rec = make([0, 1, 2, 3, 4])
    again = Recovery.concatenate(rec[i : i + 2] for i in range(0, 5, 2))
    assert again.x.format == "csr"
    np.testing.assert_array_equal(again.x.toarray(), rec.x.toarray())
    for name in ("status", "residual", "gap", "n_steps", "dual"):
        np.testing.assert_array_equal(getattr(again, name), getattr(rec, name))


def test_one_part_is_returned_as_it_is_and_none_is_an_error():
    rec = make([0])
    assert Recovery.concatenate([rec]) is rec
    with pytest.raises(ValueError, match="there is nothing to concatenate: pass at least one Recovery"):
        Recovery.concatenate([])


def test_duals_are_kept_only_where_every_part_has_them():
    assert Recovery.concatenate([make([0]), make([1], dual=False)]).dual is None


def test_an_empty_part_changes_nothing():
    rec = make([0, 3])
    assert len(Recovery.concatenate([rec, make([])])) == 2


# ---- figures ------------------------------------------------------------------------------------------------


def test_counts_are_in_the_order_of_the_statuses_and_leave_zeros_out():
    assert make([4, 0, 4, 2]).counts() == {Status.OPTIMAL_UNIQUE: 1, Status.INFEASIBLE: 1, Status.ESTIMATE: 2}
    assert make([]).counts() == {}


def test_the_summary_names_every_kind_of_row():
    assert make([0]).summary() == "1 row: 1 certified (1 unique)."
    text = make([0, 1, 2, 5, 4, 4]).summary()
    assert text == "6 rows: 2 certified (1 unique), 1 infeasible, 2 estimate, 1 invalid."


def test_the_summary_gives_the_worst_figures_of_what_is_not_certified():
    rec = make([0, 3, 3])
    rec.gap[:] = [9.0, -2e-6, np.nan]
    rec.residual[:] = [9.0, 1e-3, 4e-4]
    text = "3 rows: 1 certified (1 unique), 2 uncertified (largest gap 2e-06, largest residual 1e-03)."
    assert rec.summary() == text


def test_the_summary_of_nothing_but_nan_does_not_warn():
    rec = make([3])
    rec.gap[:] = np.nan
    assert "largest gap 0e+00" in rec.summary()


@pytest.mark.parametrize("name", ["status", "residual", "gap", "n_steps", "dual"])
def test_parts_of_another_length_are_refused(name):
    rec = make([0, 1])
    values = {field: getattr(rec, field) for field in ("x", "status", "residual", "gap", "n_steps", "dual")}
    values[name] = values[name][:1]
    with pytest.raises(ValueError, match=rf"Recovery\.{name} has 1 entries but x has 2 rows"):
        Recovery(**values)


def test_a_recovery_cannot_be_changed_by_accident():
    with pytest.raises(AttributeError):
        make([0]).status = np.array([1])
