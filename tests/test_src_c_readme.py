"""src_c/README.md names files, functions and folders that are there."""

import re

import pytest
from conftest import ROOT

SRC = ROOT / "src_c"
TEXT = (SRC / "README.md").read_text()
#: what a code span is, when it is a path: of a folder of src_c, or a file on top
FOLDERS = sorted(path.name for path in SRC.iterdir() if path.is_dir())
PATH = re.compile(rf"`((?:{'|'.join(FOLDERS)})/[\w./-]*|[\w-]+\.(?:def|h))`")


def test_every_path_exists():
    named = set(PATH.findall(TEXT)) - {"models/NAME.c"}
    assert len(named) > 50
    assert [name for name in sorted(named) if not (SRC / name).exists()] == []


STEPS = re.findall(r"\| `(\w+)` \| `([\w/.-]+\.[ch])` \|", TEXT)
STEPS += re.findall(r"`(\w+)` in `([\w/.-]+\.[ch])`", TEXT)


@pytest.mark.parametrize(("function", "file"), sorted(set(STEPS)))
def test_every_function_has_its_body_in_the_file_that_is_named(function, file):
    pattern = rf"^(?:[a-z][\w* ]*[ *])?{function}\([^;]*?\)\n{{"
    assert re.search(pattern, (SRC / file).read_text(), re.MULTILINE)


def test_the_life_of_a_request_is_told_from_accept_to_close():
    steps = [function for function, _ in STEPS]
    life = [steps.index(name) for name in ("net_accept", "echo_step", "conn_close")]
    assert life == sorted(life)


def test_every_call_of_a_connection_is_one():
    header = (SRC / "server" / "conn.h").read_text()
    called = set(re.findall(r"`(conn_\w+)\(\)`", TEXT))
    assert {"conn_received", "conn_sent", "conn_timed_out", "conn_failed"} <= called
    assert [name for name in sorted(called) if f"{name}(" not in header] == []


def test_every_model_has_its_place_in_the_order_to_read_in():
    """Four had none."""
    order = TEXT.partition("| read | to learn |")[2].partition("\n## ")[0]
    named = re.findall(r"`models/([\w-]+\.c)`", order)
    assert sorted(named) == sorted(p.name for p in SRC.glob("models/*.c"))


def test_every_folder_and_lesson_has_a_line():
    rows = re.findall(r"^\| `(\w+)/` \|", TEXT, re.MULTILINE)
    assert sorted(rows) == FOLDERS
    lessons = re.findall(r"^\| `lessons/([\w-]+\.c)` \|", TEXT, re.MULTILINE)
    assert sorted(lessons) == sorted(p.name for p in SRC.glob("lessons/*.c"))
