"""The README and the docs say what the stored rows say."""

import json
import runpy
from pathlib import Path

import stored_rows
import tables


def test_every_table_in_the_docs_is_what_the_stored_rows_give():
    for page in tables.PAGES:
        text = page.read_text(encoding="utf-8")
        assert tables.render(text) == text, f"{page.name} is stale: run python benchmarks/tables.py"


def test_a_changed_figure_is_noticed():
    text = "<!-- table: decode-gpu -->\nsomebody typed 0.1 s here\n<!-- end -->"
    assert "somebody" not in tables.render(text)


def test_every_stored_row_says_where_it_comes_from():
    files = sorted(stored_rows.RESULTS.glob("*.jsonl"))
    assert files
    for path in files:
        for line in path.read_text().splitlines():
            assert {"version", "commit", "hardware"} <= set(json.loads(line)), f"{path.name}: {line[:100]}"


def test_the_page_of_the_paper_says_what_the_stored_rows_say():
    paper = runpy.run_path(str(Path(__file__).parent.parent / "benchmarks" / "paper.py"))
    assert paper["PAGE"].read_text(encoding="utf-8") == paper["render"](), "stale: run python benchmarks/paper.py"


def test_a_stored_row_gives_way_to_more_test_rows_or_to_later_code():
    paper = runpy.run_path(str(Path(__file__).parent.parent / "benchmarks" / "paper.py"))
    ages = {"aaaaaaa": 1, "bbbbbbb": 2}

    def worth(n_rows, commit, status="done"):
        return paper["_worth"]({"status": status, "n_rows": n_rows, "commit": commit}, ages)

    assert worth(1000, "bbbbbbb") > worth(1000, "aaaaaaa") > worth(1000, "of-elsewhere")
    assert worth(2000, "aaaaaaa") > worth(1000, "bbbbbbb") > worth(1000, "bbbbbbb", status="failed")
