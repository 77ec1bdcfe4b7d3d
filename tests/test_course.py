"""docs/course.md: every command in it runs, and makes the figure that it names."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, linked

from connlab import notebook, parameters, profiles

TEXT = (ROOT / "docs" / "course.md").read_text()
PARTS = re.split(r"^#+ (?=\d+\. |For teachers)", TEXT, flags=re.MULTILINE)[1:]


def commands(exercise: str) -> list[str]:
    blocks = re.findall(r"```sh\n(.*?)```", exercise, re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


def test_there_are_ten_exercises_of_one_kind():
    exercises = PARTS[:-1]
    assert [int(text.split(".")[0]) for text in exercises] == list(range(1, 11))
    for exercise in exercises:
        assert commands(exercise)
        assert all(f"**{word}.**" in exercise for word in ("Predict", "Explain"))
        assert len(re.findall(r"^Figure: `[^`]+`$", exercise, re.MULTILINE)) == 1


def test_where_intervals_are_asked_for_there_are_some():
    """From four trials on; at a breaking point and in a stall nobody reads them."""
    for exercise in PARTS[:-1]:
        number = int(exercise.split(".")[0])
        trials = [int(n) for n in re.findall(r"-p trials (\d+)`?", exercise)]
        assert number in (1, 3, 9) or min(trials, default=4) >= 4, exercise


def test_what_a_text_says_of_a_command_is_what_the_profile_gives_it():
    """It told of ten users when the profile had five."""
    quick = profiles.load("quick")
    stall = notebook.find("09")
    stated = {name: p.default for name, p in parameters.declared(stall).items()}
    given = stated | quick.parameters(stall)
    users, think_ms = re.search(r"has (\w+) users.* again ([\d.]+) ms", TEXT).groups()
    assert users == {5: "five", 10: "ten"}[given["connections"]]
    assert float(think_ms) == 1000 * given["connections"] / given["rate"]
    limits = quick.parameters(notebook.find("02"))
    assert f"a process have {limits['descriptors']} descriptors" in TEXT


@pytest.fixture
def clone(tmp_path, build_dir) -> Path:
    """A folder in which a student stands: all that the project has but its runs."""
    return linked(tmp_path, but=("runs", "judged", ".git"))


@pytest.mark.long
@pytest.mark.sweeps
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "exercise", PARTS[::-1], ids=lambda exercise: exercise.split("\n")[0][:30]
)
def test_its_commands_run_and_make_the_figure(exercise, clone):
    figures = re.findall(r"^Figure: `([^`]+)`$", exercise, re.MULTILINE)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    kept = {"env": os.environ | {"PATH": path}, "capture_output": True, "text": True}
    for line in commands(exercise):
        if "connlab notebook" in line:  # whatever other programs do meanwhile
            line += " -p accept '[quiet]'"
        done = subprocess.run(line, shell=True, cwd=clone, **kept)
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
    for name in figures:
        figure = clone / name
        assert figure.exists(), sorted(p.name for p in figure.parent.glob("*"))
        assert figure.stat().st_size > 0
