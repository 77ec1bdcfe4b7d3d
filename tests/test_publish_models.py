"""Models explained by their own headers."""

import re

import publish_made as made
import pytest
from conftest import ROOT, lay

from connlab.publish import models

SOURCES = sorted((ROOT / "src_c").glob("**/models/*.c"))

TEXT = """/* made.c -- a model of a test.
 *
 *     here: accept -> read
 *                  -> answer
 *
 * Good: short, and
 *       over two lines.
 * Bad:  none_of it.
 * Look: nowhere.
 */
int x;
"""


def test_a_header_gives_arrows_and_both_sides():
    header = models.header(TEXT)
    assert header.arrows == ("here: accept -> read", "             -> answer")
    parts = {"Good": "short, and over two lines.", "Bad": "none_of it."}
    assert header.parts == parts | {"Look": "nowhere."}


@pytest.mark.parametrize("text", ["int x;", "/* x.c -- no arrow.\n */\n"])
def test_without_an_arrow_there_is_no_loop(text):
    assert models.header(text).arrows == ()


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: f"{p.parts[-3]}-{p.stem}")
def test_every_model_explains_itself(path):
    text = path.read_text()
    assert text.startswith(f"/* {path.name} -- ")
    header = models.header(text)
    assert {"Good", "Bad", "Look", "Needs", "Try"} <= set(header.parts)
    assert header.arrows
    assert all(len(line) <= 74 for line in header.arrows)


def test_a_row_of_a_model_is_called_like_its_file_and_like_no_other():
    """Else `server --list` shows a name twice, or a page of a model has no source.

    A quotation mark in a label would end the list's JSON.
    """
    text = (ROOT / "src_c" / "models.def").read_text()
    rows = re.findall(r'(?m)^MODEL\((\w+), +"(.+?)", +\w+, +"(.+?)", ', text)
    symbols, names, labels = zip(*rows, strict=True)
    files = [p.stem for p in (ROOT / "src_c" / "models").glob("*.c")]
    assert sorted(names) == sorted(files)
    assert [name.replace("-", "_") for name in names] == list(symbols)
    assert len(set(labels)) == len(labels)
    assert not any(set(label) & {'"', "\\"} for label in labels)


def test_a_link_to_a_model_says_whose_it_is(tmp_path):
    rows = [{"name": "made", "family": "threads", "label": "made up"}]
    links = {"made": "data/models/made.html"}
    text = models.write(rows, tmp_path / "paper", links).read_text()
    assert "[Numbers, limit and code of `made`](data/models/made.html)" in text


def test_a_model_of_a_reader_appears_with_its_arrow(tmp_path):
    lay(tmp_path, {"src_c/models/made.c": TEXT})
    rows = [
        {"name": "made", "family": "quantum", "label": "made up", "available": True},
        {"name": "gone", "family": "threads", "label": "gone", "available": False}
        | {"reason": "no kernel for it"},
    ]
    text = models.write(rows, tmp_path / "paper", {}).read_text()
    assert "here: accept -> read" in text
    page, print_ = text.split("#models(")
    assert page.index("## Threads") < page.index("## Quantum")
    assert print_.index("(`gone`), threads") < print_.index("(`made`), quantum")
    assert "here: accept → read → answer" in print_
    assert "->" not in print_
    assert "none\\_of it" in text
    assert rows[1]["reason"] in text
    assert "no arrow" not in text
    assert page.count("Its source is not among these.") == 1  # of a name of long ago
    lay(tmp_path, {"src_c/models/gone.c": "int x;\n"})
    assert "no arrow" in models.write(rows, tmp_path / "paper", {}).read_text()


def test_an_empty_registry_leaves_the_stub_to_others(tmp_path):
    assert models.write([], tmp_path, {}) is None


def test_a_loop_is_run_in():
    arrows = (
        "accept -> fork -> accept         child: read -> answer",
        "worker:   take -> read",
        "          -> answer",
    )
    assert models.run_in(arrows) == [
        "accept -> fork -> accept",
        "child: read -> answer",
        "worker: take -> read -> answer",
    ]


def test_print_has_a_cell_for_each_model(tmp_path):
    families = {"a": "threads", "b": "threads", "c": "readiness"}.items()
    rows = [{"name": name, "family": kind, "label": name} for name, kind in families]
    print_ = models.write(rows, tmp_path / "paper", {}).read_text().split("#models(")[1]
    code = [line for line in print_.splitlines() if line in ("[", "],", ")")]
    assert code == ["[", "],"] * 3 + [")"]


@pytest.mark.parametrize("to", ["html", "typst"])
def test_page_and_print_have_each_model_once(to, tmp_path):
    """Print's cells stood below the page's headings, and so twice on the page."""
    rows = [{"name": n, "family": "threads", "label": n} for n in ("a1", "b2")]
    text = models.write(rows, tmp_path / "paper", {}).read_text()
    lua = made.ROOT / "paper" / "_theme" / "embedded.lua"
    set_ = made.pandoc(text, "--from=markdown", f"--to={to}", f"--lua-filter={lua}")
    assert set_.count("is not among these") == len(rows)


LABELS = (
    ("epoll", "epoll, level-triggered"),
    ("uring", "io_uring, completions"),
    ("pool", "thread pool"),
    ("poll", "poll"),
    ("poll-groups", "threads of 63 with poll"),
    ("thread-pair", ""),
    ("sigio", "real-time signals"),
)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("epoll, level-triggered serves 13.", "`epoll` serves 13."),
        ("With io\\_uring, completions, 2 broke.", "With `uring`, 2 broke."),
        (
            "12 µs with poll and 9 with thread-pair.",
            "12 µs with `poll` and 9 with `thread-pair`.",
        ),
        ("9 with poll-groups", "9 with `poll-groups`"),
        ("threads of 63 with poll carried 10", "`poll-groups` carried 10"),
        ("a thread pools, with polling", "a thread pools, with polling"),
        ("most with select (Wine)", "most with select (Wine)"),
        ("select, real-time signals broke", "select, `sigio` broke"),
        ("a pool of 16, epoll", "a pool of 16, `epoll`"),
        ("with `poll`", "with `poll`"),
    ],
)
def test_sentences_call_models_by_their_names(text, named):
    rows = [{"name": name, "label": label} for name, label in LABELS]
    assert models.named(text, rows) == named
    assert models.named(text, []) == text
