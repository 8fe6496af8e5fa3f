"""Bars for people, nothing for files."""

from __future__ import annotations

import io
from types import SimpleNamespace

import rich.console

from sparselens.cli.progress import progress, training


def test_nothing_is_drawn_where_the_output_is_no_terminal(capsys):
    with progress("fit") as update:
        update(1, 2, "half")
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""


def test_a_terminal_sees_the_title_the_part_and_the_time_left(monkeypatch):
    screen = io.StringIO()
    console = rich.console.Console(file=screen, force_terminal=True, width=100)
    monkeypatch.setattr(rich.console, "Console", lambda **_: console)
    clock = iter([0.0, 30.0, 60.0, 90.0])
    monkeypatch.setattr("sparselens.cli.progress.time", SimpleNamespace(monotonic=lambda: next(clock)))
    with progress("fit") as update:
        update(0.25, 1.0, "m = 4")
    drawn = screen.getvalue()
    assert "fit  m = 4" in drawn
    assert "25%" in drawn
    assert "1:30 left" in drawn  # 30 seconds for a quarter


def test_the_time_left_is_left_out_on_request(monkeypatch):
    screen = io.StringIO()
    console = rich.console.Console(file=screen, force_terminal=True, width=100)
    monkeypatch.setattr(rich.console, "Console", lambda **_: console)
    with progress("reproduce", timed=False) as update:
        update(1, 4, "toy")
    assert "reproduce  toy" in screen.getvalue()
    assert "left" not in screen.getvalue()


def test_a_training_tells_its_best_score_and_its_part():
    told = []
    callback = training(lambda *what: told.append(what), text="m = 4")
    assert callback(SimpleNamespace(best=float("inf"), progress=0.1)) is None
    callback(SimpleNamespace(best=0.25, progress=0.5))
    callback(SimpleNamespace(best=0.5, progress=0.6))  # the next of several trainings
    callback(3, 10)
    assert told == [
        (0.1, 1.0, "m = 4"),
        (0.5, 1.0, "m = 4, best score 0.25"),
        (0.6, 1.0, "m = 4, best score 0.25"),
        (3, 10, "m = 4"),
    ]
