"""Self-contained HTML pages: no script, no request, readable at phone width, in light and dark."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Sequence
from typing import Any

from sparselens.experiments.plots import svg

_CSS = """
:root { color-scheme: light dark;
  --ink: #1f2328; --ground: #ffffff; --soft: #57606a; --line: #d0d7de; --card: #f6f8fa; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6edf3; --ground: #0d1117; --soft: #9198a1; --line: #30363d; --card: #161b22; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2rem 1rem 4rem; max-width: 62rem; color: var(--ink); background: var(--ground);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
h1, p, li { overflow-wrap: anywhere; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .4rem; }
h2 { font-size: 1.25rem; margin: 2.2rem 0 .5rem; }
p.lead { font-size: 1.1rem; color: var(--soft); margin-top: 0; }
/* What is wider than a phone scrolls in its box; a shadow stands at the side where there is more. */
figure, .scroll, pre { --under: var(--card); overflow-x: auto; background:
  linear-gradient(90deg, var(--under) 40%, transparent) left / 3rem 100% no-repeat local,
  linear-gradient(270deg, var(--under) 40%, transparent) right / 3rem 100% no-repeat local,
  linear-gradient(90deg, rgb(128 128 128 / .5), transparent) left / .9rem 100% no-repeat scroll,
  linear-gradient(270deg, rgb(128 128 128 / .5), transparent) right / .9rem 100% no-repeat scroll, var(--under); }
.scroll { --under: var(--ground); }
figure { margin: 1rem 0; padding: .8rem; border: 1px solid var(--line); border-radius: 8px; }
figure svg { width: 100%; height: auto; min-width: 30rem; display: block; }
figcaption { color: var(--soft); font-size: .9rem; margin-top: .5rem; }
.only-dark { display: none; }
@media (prefers-color-scheme: dark) { .only-dark { display: block; } .only-light { display: none; } }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: .92rem; }
th, td { padding: .35rem .4rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
table.words td:nth-child(2), table.words th:nth-child(2) { text-align: left; white-space: normal; }
th { color: var(--soft); font-weight: 600; }
td.good { font-weight: 700; }
table.facts td { text-align: left; white-space: normal; vertical-align: top; }
table.facts td:first-child { color: var(--soft); width: 10rem; }
a { color: inherit; }
details { margin: .6rem 0; }
summary { cursor: pointer; color: var(--soft); }
code, pre { font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: .9em; }
pre { border: 1px solid var(--line); border-radius: 8px; padding: .8rem; }
"""


def page(title: str, lead: str, body: Sequence[str]) -> str:
    """A whole page; `body` holds finished HTML."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<link rel="icon" href="data:,"><title>{html.escape(title)}</title><style>{_CSS}</style></head><body>'
        f'<h1>{html.escape(title)}</h1><p class="lead">{_inline(lead)}</p>' + "\n".join(body) + "</body></html>\n"
    )


def heading(text: str, anchor: str = "") -> str:
    return f'<h2 id="{html.escape(anchor)}">{html.escape(text)}</h2>' if anchor else f"<h2>{html.escape(text)}</h2>"


def paragraph(text: str) -> str:
    return f"<p>{_inline(text)}</p>"


def listing(items: Sequence[str]) -> str:
    return "<ul>" + "".join(f"<li>{_inline(item)}</li>" for item in items) + "</ul>"


def _inline(text: str) -> str:
    """Text whose `code` between backticks is set as such."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text))


def code(text: str) -> str:
    return f"<pre><code>{html.escape(text)}</code></pre>"


def figure(draw: Callable[[str], Any], caption: str, *, name: str = "") -> str:
    """A plot, drawn once for a light and once for a dark page: `draw(theme)` returns a matplotlib figure.

    A page with several figures gives each a `name` of its own.
    """
    # All drawings stand in one page, so their ids must differ.
    light = _renamed(svg(draw("light")), f"{name}-") if name else svg(draw("light"))
    dark = _renamed(svg(draw("dark")), f"dark-{name}-" if name else "dark-")
    return (
        f'<figure role="img" aria-label="{html.escape(caption)}"><div class="only-light">{light}</div>'
        f'<div class="only-dark">{dark}</div><figcaption>{html.escape(caption)}</figcaption></figure>'
    )


def facts(pairs: Sequence[tuple[str, str]]) -> str:
    """Names and values, one pair a line; long values wrap."""
    lines = "".join(f"<tr><td>{html.escape(name)}</td><td>{html.escape(value)}</td></tr>" for name, value in pairs)
    return f'<table class="facts"><tbody>{lines}</tbody></table>'


def _renamed(drawing: str, prefix: str) -> str:
    for before in ('id="', "url(#", 'href="#'):
        drawing = drawing.replace(before, before + prefix)
    return drawing


def table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    good: Callable[[str], bool] | None = None,
    words: bool = False,
) -> str:
    """A table of texts; cells for which `good` is true are set in bold; `words`: the second column holds text."""
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in header)
    lines = []
    for row in rows:
        cells = "".join(
            f'<td class="good">{html.escape(cell)}</td>' if good and good(cell) else f"<td>{html.escape(cell)}</td>"
            for cell in row
        )
        lines.append(f"<tr>{cells}</tr>")
    kind = ' class="words"' if words else ""
    return (
        f'<div class="scroll"><table{kind}><thead><tr>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table></div>'
    )
