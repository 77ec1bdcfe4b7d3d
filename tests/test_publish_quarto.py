"""Quarto asked for: what a fake one makes, and what becomes of each of its failures."""

import json
import os
import subprocess
import sys
from pathlib import Path

import publish_made as made
import pytest
from conftest import in_repository, is_running, ran, wait_for

import connlab.__main__ as command_line
from connlab import paper as papers
from connlab import publish
from connlab.publish import quarto, renderers, rendering

FAKE = made.ROOT / "tests" / "fakes" / "quarto.py"
BY_FAKE = "Set by the fake"
#: what the program printed, or what is wrong with what it left
FAILURES = {
    "package": "@preview/fontawesome:0.5.0: Dns",
    "late": "status 1: ERROR: Uncaught (in promise) BadResource",
    "crash": "SIGKILL",
    "nothing": "no index.html",
    "half": "no paper.pdf",
    "old": "1.3.450 is older than 1.6",
    "mute": "quarto --version says ''",
    "broken": "deno: cannot execute",
}


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """Put a fake quarto on the PATH; return how to say what it does."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "quarto"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{FAKE}" "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    monkeypatch.setenv("FAKE_QUARTO_CHILD", str(tmp_path / "child"))
    return lambda mode: monkeypatch.setenv("FAKE_QUARTO", mode)


@pytest.fixture
def project(tmp_path):
    """Give the sources of a paper, of which a rendering may change nothing."""
    made.write_run(tmp_path / "runs")
    paper = made.copy_paper(tmp_path)
    before = files_of(paper)
    yield paper
    assert files_of(paper) == before


def files_of(folder: Path) -> dict[str, bytes]:
    """Read everything that is not made by a rendering."""
    generated = ("_generated", "_output", "data", "_variables.yml")
    tops = [path for path in folder.iterdir() if path.name not in generated]
    paths = [path for top in tops for path in (top, *top.rglob("*")) if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def set_with_quarto(project):
    root = project.parent / "runs"
    return publish.render(made.RUN, root=root, paper=project, renderer="quarto")


def test_a_quarto_that_works_sets_the_paper(fake, project):
    fake("well")
    done = set_with_quarto(project)
    assert (done.renderer, done.instead, done.problems) == ("Quarto 1.7.32", "", ())
    assert BY_FAKE in done.html.read_text("utf-8")
    assert done.pdf.read_bytes().startswith(b"%PDF-")
    assert (done.html.parent / "data" / made.STUDY).is_dir()


@pytest.mark.parametrize("mode", sorted(FAILURES))
def test_each_way_to_fail_is_said_on_one_line(mode, fake, project):
    fake(mode)
    output = project / "_output"
    output.mkdir()
    reason = renderers.choose("quarto").instead
    if not reason:
        with pytest.raises(quarto.QuartoError) as raised:
            quarto.render(project, output)
        reason = str(raised.value)
    assert FAILURES[mode] in reason
    assert reason.isprintable()


@pytest.mark.parametrize("name", ["paper.pdf", "index.pdf"])
def test_a_file_that_an_earlier_quarto_left_is_not_taken_for_a_new_one(
    name, fake, tmp_path
):
    """Called by hand it leaves some between the sources, where git ignores them."""
    fake("half")
    paper = made.copy_paper(tmp_path)
    (paper / name).write_bytes(b"%PDF-1.7 of an earlier run")
    (paper / "_output").mkdir()
    with pytest.raises(quarto.QuartoError, match=FAILURES["half"]):
        quarto.render(paper, paper / "_output")


@pytest.mark.parametrize("mode", ["late", "old"])
def test_where_quarto_fails_the_embedded_renderer_sets_the_paper(mode, fake, project):
    fake(mode)
    done = set_with_quarto(project)
    assert FAILURES[mode] in done.instead
    assert "(pandoc" in done.renderer
    html = done.html.read_text("utf-8")
    assert done.renderer in html
    assert BY_FAKE not in html
    assert publish.check(done.html.parent) == []
    stamp = json.loads((done.html.parent / rendering.STAMP).read_text("utf-8"))
    assert (stamp["renderer"], stamp["instead"]) == (done.renderer, done.instead)


def test_a_quarto_that_hangs_is_ended_with_what_it_started(
    fake, tmp_path, project, monkeypatch
):
    """Its time is over once it has started something, however late that is."""
    fake("hang")
    started = tmp_path / "child"

    class Hanging(subprocess.Popen):
        def communicate(self, *words, **options):
            wait_for(lambda: started.exists() and started.read_text())
            return super().communicate(*words, **options)

    monkeypatch.setattr(quarto, "LIMIT_S", 0.25)
    monkeypatch.setattr(quarto.subprocess, "Popen", Hanging)
    (tmp_path / "out").mkdir()
    with pytest.raises(quarto.QuartoError, match=r"longer than 0\.25 s") as raised:
        quarto.render(project, tmp_path / "out")
    assert str(raised.value).isprintable()
    child = int(started.read_text())
    wait_for(lambda: not is_running(child), seconds=5)


def test_warnings_of_quarto_are_problems(fake, project):
    fake("fonts")
    done = set_with_quarto(project)
    assert done.instead == ""
    assert len(done.problems) == 2
    assert "Source Sans" in done.problems[0]


def test_the_embedded_renderer_is_the_default_beside_quarto(fake):
    fake("well")
    assert renderers.choose().name == "embedded"
    assert renderers.choose("quarto").name == "quarto"
    assert renderers.choose("embedded").name == "embedded"


def test_a_quarto_that_is_not_there_is_refused(monkeypatch):
    monkeypatch.setattr(quarto, "installed", lambda: None)
    with pytest.raises(ValueError, match="quarto.*PATH"):
        renderers.choose("quarto")


def test_the_command_says_that_another_renderer_stepped_in(
    fake, tmp_path, monkeypatch, capfd
):
    fake("well")
    done = rendering.Rendered(
        html=tmp_path / "index.html",
        pdf=tmp_path / "paper.pdf",
        renderer="the embedded renderer",
        seconds=1.0,
        instead="quarto render ended with status 1: no such font",
    )
    monkeypatch.setattr(papers, "judge", lambda run: "none")
    monkeypatch.setattr(publish, "render", lambda run, renderer: done)
    words = ["render", "--run", "reference", "--renderer", "quarto"]
    assert command_line.main(words) == command_line.NOT_AS_ASKED == 3
    printed = capfd.readouterr()
    assert done.instead in printed.err
    assert printed.out.rstrip().endswith("paper.pdf")


@pytest.mark.parametrize("command", ["render", "paper"])
def test_a_missing_quarto_is_refused_before_anything_is_done(command, monkeypatch):
    def never(*_, **__):
        pytest.fail("it began")

    monkeypatch.setattr(quarto, "installed", lambda: None)
    for name in ("judge", "build", "plan"):
        monkeypatch.setattr(papers, name, never)
    assert command_line.main([command, "--renderer", "quarto"]) == 2


LEFT_BEHIND = ("index.html", "index.pdf", "index.typ", "index_files/a", ".quarto/a")


@in_repository
@pytest.mark.parametrize("name", [*LEFT_BEHIND, "index.quarto_ipynb"])
def test_what_quarto_leaves_when_called_by_hand_is_ignored(name):
    assert ran("git", "check-ignore", "--quiet", f"paper/{name}").returncode == 0


def test_make_clean_removes_what_quarto_leaves():
    done = ran("make", "--dry-run", "--no-print-directory", "clean", check=True)
    names = {f"paper/{name.partition('/')[0]}" for name in LEFT_BEHIND}
    assert names <= set(done.stdout.split())
