"""The paper's table runs whole on a small data set in the official format."""

import numpy as np
import pytest

import sparselens as sl
from sparselens.experiments.published import TABLE3
from sparselens.xml import paper_table


@pytest.fixture
def eurlex(tmp_path):
    rng = np.random.default_rng(0)
    (tmp_path / "eurlex-4k").mkdir()
    for part, n in (("train", 150), ("test", 30)):
        lines = [f"{n} 20 120"]
        for _ in range(n):
            topic = rng.integers(0, 5)
            own = ",".join(map(str, sorted({int(topic), int(5 + topic), int(rng.integers(10, 120))})))
            words = " ".join(f"{w}:1" for w in range(4 * topic, 4 * topic + 4))
            lines.append(f"{own} {words}")
        (tmp_path / "eurlex-4k" / f"{part}.txt").write_text("\n".join(lines) + "\n")
    return sl.load_dataset("eurlex-4k", root=tmp_path, verify=False)


def test_every_cell_of_the_paper_has_a_row(eurlex):
    rows = list(paper_table.measure(eurlex, n_models=(1, 3), max_epochs=2, device="cpu"))
    wanted = [label for label in paper_table.labels() if not label.endswith("5 models")]
    assert [row["label"] for row in rows] == wanted
    assert all(0 <= row["p1"] <= 1 for row in rows)
    assert rows[0]["p1"] > 0.9  # a topic has a label of its own: SLEEC must find it


def test_labels_are_those_of_the_published_values():
    assert {value.algorithm for value in TABLE3} == set(paper_table.labels())


def test_a_data_set_without_settings_is_refused():
    with pytest.raises(ValueError, match=r"data.name must be one of 'eurlex-4k'"):
        next(paper_table.measure(sl.load_dataset("toy")))
