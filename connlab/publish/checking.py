"""Read the rendered paper back and list what a reader would stumble over.

The checks look at what was written, not at how: they hold for both renderers. Text is
searched for what an unresolved reference or variable leaves behind; pictures, links
and identifiers are followed; and nothing may be fetched from another host, also not by
a style sheet that stands in an address.
"""

import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from urllib.parse import unquote
from urllib.request import urlopen

from bs4 import BeautifulSoup, NavigableString, Tag

from connlab import schema
from connlab.publish import explorer
from connlab.publish.pages import SUPPLEMENT
from connlab.publish.renderers import PAGE, PRINT
from connlab.publish.rendering import STAMP, digest

LEFTOVERS = {
    r"\{\{<": "a short code was not expanded",
    r"\?@[\w-]+": "a cross-reference does not resolve",
    r"\?(?:var|include|meta|invalid)\b[: ]": "a variable or include does not resolve",
    r"\?\?+": "a reference does not resolve",
    r"\bNaN\b|\bnan\b": "a value is not a number",
    # A sentence may begin with "None of": then it stands first, and prose follows.
    r"\bNone(?=[,.;)\]]| [\[%]| (?:[nµm]?s|[KMGT]i?B|thousand|requests)\b)"
    r"|(?<=[a-z\d,=(\[] )None\b|(?<=[=(\[])None\b": "a value is missing",
    r"@(?:fig|tbl|sec)-[\w-]+": "a cross-reference was left as text",
}
_FETCHING = (
    (True, ("src", "srcset", "poster", "data")),
    (["image", "link", "use"], ("href", "xlink:href")),
)
"""Elements, True for any, and the attributes by which they fetch something."""
_ELSEWHERE = re.compile(r"^\s*(?:https?:)?//", re.IGNORECASE)
_CSS_FETCH = re.compile(
    r"(?:@import\s+|url\(\s*)['\"]?\s*(?:https?:)?//", re.IGNORECASE
)
_QUIET = {"script", "style", "code", "pre", "math", "annotation", "svg", "title"}
_NAMELESS = {"link", "script", "style"}  # Quarto gives several of them one identifier


def style_in(address: str) -> str:
    """Return the style sheet that a ``data:`` address holds; empty when it is none."""
    if not address.strip().lower().startswith("data:text/css"):
        return ""
    try:
        # nothing is fetched for a data: address
        with urlopen(address.strip()) as sheet:
            return sheet.read().decode("utf-8", "replace")
    except ValueError:  # it is no base64 after all
        return unquote(address)


class Page:
    """What the checks need to know of an HTML page."""

    def __init__(self, html: str) -> None:
        soup = BeautifulSoup(html, "html.parser")
        tags = soup.find_all
        self.text = "".join(_texts(soup))
        self.ids = Counter(t["id"] for t in tags(id=True) if t.name not in _NAMELESS)
        self.links = [tag["href"] for tag in tags("a", href=True) if tag["href"]]
        self.images = tags("img")
        self.fetched = [
            tag[attribute]
            for elements, attributes in _FETCHING
            for attribute in attributes
            for tag in tags(elements, attrs={attribute: True})
        ]
        self.styles = [
            *map(style_in, self.fetched),
            *(tag["style"] for tag in tags(style=True)),
            *(sheet.get_text() for sheet in tags("style")),
        ]
        self.captionless = list(_captionless(soup))
        # citeproc sets what the references lack as a bold key with a question mark
        cited = [key.get_text() for key in soup.select("[class*=citation] strong")]
        self.uncited = [key[:-1] for key in cited if key.endswith("?")]
        self.lang = soup.html.get("lang", "") if soup.html else ""
        titles = (title for title in tags("title") if not title.find_parent("svg"))
        self.title = next((title.get_text() for title in titles), "")


def _texts(tag: Tag) -> Iterator[str]:
    for child in tag.children:
        if isinstance(child, Tag):
            if child.name not in _QUIET:
                yield from _texts(child)
        elif type(child) is NavigableString:  # no comment, no doctype
            yield str(child)


def _captionless(soup: BeautifulSoup) -> Iterator[str]:
    for figure in soup.find_all("figure"):
        captions = figure.find_all(["figcaption", "caption"])
        if not any(c.find_parent("figure") is figure for c in captions):
            yield figure.get("id") or "figure"


def check(output: str | Path = "paper/_output") -> list[str]:
    """List what is wrong with a rendered paper, each with the file that has it.

    The text of the PDF is searched only where ``pdftotext`` is installed.
    """
    folder = schema.project_root() / output
    problems = [f"{name}: {text}" for name, text in _stamp(folder)]
    for name in (PAGE, SUPPLEMENT, explorer.PAGE):
        path = folder / name
        if path.is_file():
            texts = check_page(path.read_text("utf-8"), folder)
            problems += [f"{name}: {text}" for text in texts]
    for path in sorted(folder.glob("data/**/*.html")):
        name = path.relative_to(folder)
        page = Page(path.read_text("utf-8"))
        texts = [*leftovers(page.title), *_requests(page)]
        problems += [f"{name}: {text}" for text in texts]
    problems += [f"{PRINT}: {text}" for text in _print(folder / PRINT)]
    return problems


def check_page(html: str, folder: Path) -> list[str]:
    """List what is wrong with a page that stands in ``folder``."""
    page = Page(html)
    twice = [(name, count) for name, count in page.ids.items() if count > 1]
    return [
        *leftovers(page.text),
        *(f"citation {name!r} is not in the references" for name in page.uncited),
        *([] if page.title.strip() else ["it has no title"]),
        *([] if page.lang else ["it does not say its language"]),
        *(f"identifier {name!r} stands {count} times" for name, count in twice),
        *(f"figure {name!r} has no caption" for name in page.captionless),
        *_images(page, folder),
        *_links(page, folder),
        *_requests(page),
    ]


def leftovers(text: str) -> Iterator[str]:
    """Find what unresolved names leave behind in running text."""
    for pattern, meaning in LEFTOVERS.items():
        for match in re.finditer(pattern, text):
            around = text[max(0, match.start() - 20) : match.end() + 20]
            yield f"{meaning}: …{' '.join(around.split())}…"


def _images(page: Page, folder: Path) -> Iterator[str]:
    for image in page.images:
        source = image.get("src") or ""
        name = source[:40] or "without source"
        if not (image.get("alt") or "").strip():
            yield f"image {name} has no alt text"
        if source.startswith("data:"):
            if len(source) < 100:
                yield f"image {name} is empty"
        elif not _ELSEWHERE.match(source) and not (folder / unquote(source)).is_file():
            yield f"image {name} does not exist"


def _links(page: Page, folder: Path) -> Iterator[str]:
    ids_in = cache(lambda path: Page(path.read_text("utf-8")).ids)
    for link in dict.fromkeys(page.links):
        target, _, anchor = link.partition("#")
        if not target and anchor and unquote(anchor) not in page.ids:
            yield f"link #{anchor} leads nowhere"
        local = target and not re.match(r"^[a-z][a-z0-9+.-]*:|^//", target)
        if not local:
            continue
        path = folder / unquote(target.partition("?")[0])
        if not path.exists():
            yield f"link {target} leads to no file"
        elif anchor and unquote(anchor) not in ids_in(path):
            yield f"link {link} leads nowhere"


def _requests(page: Page) -> Iterator[str]:
    for address in page.fetched:
        if _ELSEWHERE.match(address):
            yield f"it fetches {address[:80]} from another host"
    for style in page.styles:
        for match in _CSS_FETCH.finditer(style):
            yield f"its style fetches {style[match.start() : match.end() + 40]!r}"


def _stamp(folder: Path) -> Iterator[tuple[str, str]]:
    facts = schema.read_json(folder / STAMP) or {}
    if not facts:
        yield STAMP, "there is no record of the rendering; render again"
    files = facts.get("files") or {}
    for name in dict.fromkeys((PAGE, PRINT, *files)):
        found = digest(folder / name)
        if found is None:
            yield name, "it does not exist"
        elif found != files.get(name, found):
            yield name, "stale: it is not the file that the last rendering wrote"
    for text in facts.get("problems") or ():
        yield STAMP, f"the renderer said: {text}"


def _print(path: Path) -> Iterator[str]:
    if not path.is_file():
        return
    if not path.read_bytes().startswith(b"%PDF-"):
        yield "it is not a PDF"
        return
    if shutil.which("pdftotext"):
        yield from leftovers(_pdftotext(str(path)))
        yield from overfull(_pdftotext("-bbox", str(path)))


def _pdftotext(*arguments: str) -> str:
    command = ["pdftotext", "-q", *arguments, "-"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def overfull(boxes: str) -> Iterator[str]:
    """Find words that run out of the text block to either side.

    ``boxes`` is the output of ``pdftotext -bbox``: pages and words, places in points.
    """
    for number, page in enumerate(_PAGE.findall(boxes), 1):
        width = float(page[0])
        for x_min, x_max, word in _WORD.findall(page[1]):
            if float(x_min) < _MARGIN or float(x_max) > width - _MARGIN:
                yield f"page {number}: {word!r} runs into the margin"
                break


_PAGE = re.compile(r'<page width="([\d.]+)"[^>]*>(.*?)</page>', re.DOTALL)
_WORD = re.compile(r'<word xMin="([-\d.]+)"[^>]*xMax="([\d.]+)"[^>]*>(.*?)</word>')
_MARGIN = 57.0  # points: 20 mm of the 23 mm that the template leaves
