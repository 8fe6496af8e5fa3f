"""The table of results: whole after any kill, and readable by anyone."""

import json

import pytest

from sparselens.experiments.spec import Cell
from sparselens.experiments.store import DONE, FAILED, MISSING, Store, read_rows, table


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "deep" / "results.jsonl")


def test_of_several_rows_with_one_key_the_last_counts(store):
    for value in (1, 2):
        store.append({"key": "a", "status": DONE, "value": value})
    store.append({"key": "b", "status": DONE, "value": 3})
    assert [row["value"] for row in store.rows()] == [2, 3]
    assert len(store.path.read_text().splitlines()) == 3


def test_a_line_cut_at_any_byte_is_neither_read_nor_in_the_way(store):
    store.append({"key": "a", "status": DONE, "text": "ℓ1"})
    whole = store.path.read_bytes()
    line = json.dumps({"key": "b", "status": DONE, "text": "ℓ1"}, ensure_ascii=False).encode() + b"\n"
    for cut in range(len(line)):
        store.path.write_bytes(whole + line[:cut])
        assert [row["key"] for row in store.rows()] == ["a"]
        store.append({"key": "c", "status": DONE})
        assert [row["key"] for row in store.rows()] == ["a", "c"]
        assert len(store.path.read_bytes().splitlines()) == 2


def test_a_store_that_is_one_unfinished_line_begins_anew(store):
    store.path.parent.mkdir()
    store.path.write_bytes(b'{"key": "a"')
    store.append({"key": "b", "status": DONE})
    assert [row["key"] for row in store.rows()] == ["b"]


def test_a_finished_line_that_is_not_json_is_an_error_that_says_which(store):
    store.append({"key": "a", "status": DONE})
    with store.path.open("a") as file:
        file.write("not json\n")
    with pytest.raises(ValueError, match=r"line 2 of .*results\.jsonl is not JSON: remove that line"):
        store.rows()


def test_missing_data_is_tried_again_and_failures_on_request(store):
    for key, status in (("a", DONE), ("b", FAILED), ("c", MISSING)):
        store.append({"key": key, "status": status})
    assert store.finished() == {"a", "b"}
    assert store.finished(retry=True) == {"a"}


def test_a_training_that_was_cut_is_done_again_on_request_where_it_would_be_longer_now(store):
    store.append({"key": "a", "status": DONE, "stopped_by": "callback", "fit_seconds": 10.0})
    store.append({"key": "b", "status": DONE, "stopped_by": "patience", "fit_seconds": 10.0})
    assert store.finished() == {"a", "b"}
    assert store.finished(retry=True) == {"b"}
    assert store.finished(retry=True, fit_seconds=20.0) == {"b"}
    assert store.finished(retry=True, fit_seconds=5.0) == {"a", "b"}


def test_a_row_that_is_of_no_cell_is_refused_by_name(store):
    store.append({"key": "a", "status": DONE})
    with pytest.raises(ValueError, match=r"the row a of .* has no data, encoder, m, .*: remove that line"):
        read_rows([store.path])


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"status": "donne"}, "status 'donne' is none of done, not applicable, failed, missing"),
        ({"status": FAILED}, "it is failed, but gives no reason"),
        ({"params": []}, r"params is \[\]"),
        ({"m": "ten"}, "m is 'ten'"),
        ({"exact": 97}, "exact is 97"),
        ({"rmse": float("nan")}, "rmse is nan"),
    ],
)
def test_a_row_that_somebody_has_damaged_is_refused_with_what_is_wrong(store, changed, told):
    row = Cell("toy", "gaussian", 10, "l1-pos").as_row() | {"status": DONE, "exact": 0.97} | changed
    store.path.parent.mkdir()
    store.path.write_text(json.dumps(row) + "\n")
    with pytest.raises(ValueError, match=rf"the row {row['key']} of .* is damaged \({told}\): remove that line"):
        read_rows([store.path])


def test_a_line_that_is_no_row_is_refused_with_its_number(store):
    store.path.parent.mkdir()
    store.path.write_text('{"key": "a"}\n[1, 2]\n')
    with pytest.raises(ValueError, match=r"line 2 of .*results\.jsonl is no row: remove that line"):
        store.rows()


def test_a_row_that_json_cannot_say_is_refused_and_nothing_is_written(store):
    store.append({"key": "a", "status": DONE})
    with pytest.raises(ValueError, match="not JSON compliant"):
        store.append({"key": "b", "value": float("nan")})
    assert len(store.path.read_text().splitlines()) == 1


def test_the_table_leaves_out_what_a_clock_gives():
    rows = [{"key": "b", "fit_seconds": 1.0, "exact": 0.5}, {"key": "a", "decode_seconds": 2.0, "exact": 1.0}]
    assert table(rows) == [{"key": "a", "exact": 1.0}, {"key": "b", "exact": 0.5}]


def test_a_folder_stands_for_every_file_of_rows_in_it(store):
    cells = [Cell("toy", "gaussian", m, "l1") for m in (10, 20)]
    store.append(cells[0].as_row() | {"status": DONE})
    Store(store.path.with_name("more.jsonl")).append(cells[1].as_row() | {"status": DONE})
    assert {row["key"] for row in read_rows([store.path.parent])} == {cell.key for cell in cells}
    with pytest.raises(FileNotFoundError, match=r"there is no .*nowhere: name a results file"):
        read_rows([store.path.parent / "nowhere"])
