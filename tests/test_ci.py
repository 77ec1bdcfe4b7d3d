""".ci/run: what it does with a test that fails among others."""

import re
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT

#: the steps of CI, in whose place stands one that fails
FIRST, LAST = "step set-up make setup-test\n", "step reference-outputs outputs\n"
ALONE = "failed among others, passed alone: "


@pytest.fixture
def ci(tmp_path: Path):
    """Run CI with one step of tests; return its status, its words, what ran alone."""

    def run(printed: str, *, passes: int) -> tuple[int, str, list[str]]:
        text = (ROOT / ".ci" / "run").read_text("utf-8")
        before, rest = text.split(FIRST)
        after = rest.split(LAST)[1]
        program = tmp_path / ".ci" / "run"
        program.parent.mkdir()
        program.write_text(f"{before}tests test sh fails\n{after}", "utf-8")
        (tmp_path / "printed").write_text(printed, "utf-8")
        (tmp_path / "fails").write_text("cat printed; exit 1\n", "utf-8")
        python = tmp_path / ".venv" / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.write_text(
            f'#!/bin/sh\necho "$*" >>alone; [ $(wc -l <alone) -le {passes} ]\n', "utf-8"
        )
        python.chmod(0o755)
        done = subprocess.run(["bash", program], capture_output=True, text=True)
        alone = tmp_path / "alone"
        ran = alone.read_text("utf-8").splitlines() if alone.exists() else []
        return done.returncode, done.stdout, ran

    return run


def test_what_a_command_said_of_its_failure_is_told_again(ci):
    """Of a paper that could not be set only make's line was there at the end."""
    said = "problem: x\nconnlab: y\na.c:1:2: error: z\nmake: *** [render] Error 1\n"
    _, printed, _ = ci(f"quiet\n{said}", passes=0)
    assert f"errors:\n{said}---" in printed


def test_no_step_writes_over_the_log_of_another():
    """Both of the reference were called so, and what make render said was lost."""
    text = (ROOT / ".ci" / "run").read_text("utf-8")
    names = re.findall(r"^(?:step|tests) ([\w-]+) ", text, re.MULTILINE)
    assert len(names) > 5
    assert len(set(names)) == len(names)


def test_tests_look_at_a_run_that_a_step_before_them_made():
    text = (ROOT / ".ci" / "run").read_text("utf-8")
    before, _, run = text.partition("CONNLAB_SMOKE_RUN=")
    assert run.startswith("smoke make test MARKED=\n")
    assert "\nstep paper make paper PROFILE=smoke\n" in before


TWO = """FAILED tests/test_a.py::test_b[x-1]@group - AssertionError: 1 - 2
ERROR tests/client/test_c.py::test_d - OSError
FAILED tests/test_a.py::test_b[x-1]@group - AssertionError: 1 - 2
E  no more
"""
IDS = "-m pytest tests/client/test_c.py::test_d tests/test_a.py::test_b[x-1]"


def test_what_fails_among_others_and_passes_alone_three_times_is_named(ci):
    status, said, ran = ci(TWO, passes=3)
    assert status == 0
    assert ran == [IDS] * 3
    named = [line.removeprefix(ALONE) for line in said.splitlines() if ALONE in line]
    assert named == IDS.split()[2:]
    assert said.splitlines()[-1].endswith("; 0 failed")


@pytest.mark.parametrize("passes", [0, 1, 2])
def test_one_failure_more_fails_the_step(ci, passes):
    status, said, ran = ci(TWO, passes=passes)
    assert status == 1
    assert len(ran) == passes + 1
    assert ALONE not in said
    assert said.splitlines()[-1].endswith("1 failed: test")
    assert "ERROR tests/client/test_c.py::test_d" in said.partition("---")[2]


@pytest.mark.parametrize(
    ("printed", "again"),
    [
        ("".join(f"FAILED tests/t.py::test_{n} - x\n" for n in range(8)), 3),
        ("".join(f"FAILED tests/t.py::test_{n} - x\n" for n in range(9)), 0),
        ("make: *** [test] Error 2\n", 0),
        (f"{TWO}INTERNALERROR> OSError: no space\n", 0),
    ],
    ids=["eight", "nine", "make", "internal"],
)
def test_many_failures_and_those_of_pytest_itself_are_not_repeated(ci, printed, again):
    status, _, ran = ci(printed, passes=3)
    assert len(ran) == again
    assert status == (not again)


def test_an_address_in_an_id_stays(ci):
    printed = "FAILED tests/t.py::test_a[at:10.0.0.1/u@h/x]@group-two - E\n"
    _, _, ran = ci(printed, passes=3)
    assert ran[0] == "-m pytest tests/t.py::test_a[at:10.0.0.1/u@h/x]"
