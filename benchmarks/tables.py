"""Write the measured tables into the README and the docs, from the stored rows and from nothing else.

    python benchmarks/tables.py            # rewrite the parts between <!-- table: NAME --> and <!-- end -->
    python benchmarks/tables.py --check    # exit with 1 where a file does not say what the stored rows say

Of several runs of one case the last stored one counts. Each `tables_*.py` has the tables of one subject.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

import tables_decode
import tables_files
import tables_multilabel
import tables_training

ROOT = Path(__file__).parent.parent
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
TABLES = tables_decode.TABLES | tables_files.TABLES | tables_multilabel.TABLES | tables_training.TABLES
_PART = re.compile(r"(<!-- table: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def render(text: str) -> str:
    """The text with every table written anew."""
    return _PART.sub(lambda part: part[1] + TABLES[part[2]]() + part[3], text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    stale = []
    for page in PAGES:
        old = page.read_text(encoding="utf-8")
        new = render(old)
        if new != old:
            stale.append(page.name)
            if not check:
                page.write_text(new, encoding="utf-8")
    print(("stale: " if check else "written: ") + (", ".join(stale) or "nothing"))
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
