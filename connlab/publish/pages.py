"""The supplement as a page of its own, cut from the page that holds everything.

    one page with numbers and references resolved
        -> index.html        the paper
        -> supplement.html   what print leaves out, with its own contents

Cut after all is numbered, so that both pages and print number alike; a link to what
stands on the other page names that page.
"""

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
    r"(?:\s*<ul>.*?</ul>)?(?P<shut>\s*</li>)",
    re.DOTALL,
)
_TITLE = re.compile(r"<title>(.*?)</title>", re.DOTALL)


def split(page: str) -> dict[str, str]:
    """Return the paper and its supplement as HTML by the name of the file.

    ``page`` is HTML of the embedded renderer: contents in a ``nav``, the text in
    ``main``, the supplement last. Without a supplement the paper is alone.
    """
    body = _BODY.search(page)
    heading = _HEAD.search(body["body"]) if body else None
    entry = _ENTRY.search(page, 0, body.start("body")) if body else None
    if not heading or not entry:
        return {PAPER: page}
    before, after = page[: body.start("body")], page[body.end("body") :]
    text, more = body["body"][: heading.start()], body["body"][heading.start() :]
    contents = before[: entry.start()] + entry["link"] + entry["shut"]
    paper = contents + before[entry.end() :] + text + after
    supplement = _head(before, entry) + more + after
    return {
        PAPER: _point(paper, more, SUPPLEMENT),
        SUPPLEMENT: _point(supplement, text, PAPER),
    }


def _head(before: str, entry: re.Match) -> str:
    """Return what stands before the supplement, with the way back to the paper."""
    start = before.index("<ul>", before.index("<nav"))
    end = before.rindex("</ul>", 0, before.index("</nav>"))
    title, link = _TITLE.search(before)[1], f'<a href="{PAPER}">The paper</a>'
    contents = f"<ul>\n<li>{link}</li>\n{entry[0]}\n"
    head = before[:start] + contents + before[end:] + f"\n<header>\n<h1>{title}</h1>\n"
    head = head.replace(f"<title>{title}", f"<title>Supplement: {title}", 1)
    return f'{head}<p class="byline">Supplement · {link}</p>\n</header>\n'


def _point(page: str, other: str, name: str) -> str:
    """Let links to what stands on the other page name that page."""
    elsewhere = set(_ID.findall(other)) - set(_ID.findall(page))
    return _LINK.sub(
        lambda m: f'{m[1]}{name}#{m[2]}"' if m[2] in elsewhere else m[0], page
    )
