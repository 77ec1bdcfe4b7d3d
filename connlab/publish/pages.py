"""The supplement as a page of its own, cut from the page that holds everything.

    one page with numbers and references resolved
        -> index.html        the paper
        -> supplement.html   what print leaves out, with its own contents

Cut after all is numbered, so that both pages and print number alike; a link to what
stands on the other page names that page.
"""

from __future__ import annotations

import html
import re

PAPER = "index.html"
SUPPLEMENT = "supplement.html"
SECTION = "sec-supplement"

_ID = re.compile(r'\sid="([^"]+)"')
_LINK = re.compile(r'(<a\b[^>]*?\shref=")#([^"]+)"')
_BODY = re.compile(r"(?P<open><main\b[^>]*>)(?P<body>.*)(?P<shut></main>)", re.DOTALL)
_HEAD = re.compile(rf'<h\d\b[^>]*\bid="{SECTION}"')
_ENTRY = re.compile(
    rf'(?P<link><li><a\s[^>]*href="#{SECTION}".*?</a>)'
    r"(?P<parts>\s*<ul>.*?</ul>)?(?P<shut>\s*</li>)",
    re.DOTALL,
)
_TITLE = re.compile(r"<title>(.*?)</title>", re.DOTALL)


def split(page: str) -> dict[str, str]:
    """Give the supplement of a page a page of its own.

    Parameters
    ----------
    page : str
        HTML of the embedded renderer: contents in a ``nav``, the text in ``main``,
        the supplement last.

    Returns
    -------
    dict
        HTML by the name of its file; the paper alone where it has no supplement.
    """
    found = _BODY.search(page)
    at = _HEAD.search(found["body"]) if found else None
    if not found or not at:
        return {PAPER: page}
    before, after = page[: found.start("body")], page[found.end("body") :]
    text, more = found["body"][: at.start()], found["body"][at.start() :]
    entry = _ENTRY.search(before)
    if not entry:
        return {PAPER: page}
    paper = _without_parts(before, entry) + text + after
    supplement = _head(before, entry) + _way_back(page) + more + after
    return {
        PAPER: _point(paper, more, SUPPLEMENT),
        SUPPLEMENT: _point(supplement, text, PAPER),
    }


def _without_parts(before: str, entry: re.Match) -> str:
    """Leave the supplement in the contents, but not its parts."""
    start, end = entry.span()
    return before[:start] + entry["link"] + entry["shut"] + before[end:]


def _head(before: str, entry: re.Match) -> str:
    """Set contents that list the supplement alone, below a link to the paper."""
    nav = before.index("<ul>", before.index("<nav"))
    shut = before.rindex("</ul>", 0, before.index("</nav>"))
    back = f'<li><a href="{PAPER}">The paper</a></li>\n'
    made = before[:nav] + "<ul>\n" + back + entry[0] + "\n" + before[shut:]
    return _TITLE.sub(lambda m: f"<title>Supplement: {m[1]}</title>", made)


def _way_back(page: str) -> str:
    title = _TITLE.search(page)
    name = title[1] if title else html.escape(PAPER)
    link = f'<a href="{PAPER}">The paper</a>'
    return (
        f"\n<header>\n<h1>{name}</h1>\n"
        f'<p class="byline">Supplement · {link}</p>\n</header>\n'
    )


def _point(page: str, other: str, name: str) -> str:
    """Let links to what stands in the other part name its page."""
    elsewhere = set(_ID.findall(other)) - set(_ID.findall(page))

    def point(match: re.Match) -> str:
        if match[2] not in elsewhere:
            return match[0]
        return f'{match[1]}{name}#{match[2]}"'

    return _LINK.sub(point, page)
