"""The command line: what it says, and the status it ends with."""

import json
import os
import re
import shlex
import shutil
import subprocess
import tomllib
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from conftest import ROOT, connlab, lay, python

from connlab import __main__ as command
from connlab import drive, notebook, paper, profiles, publish, schema
from connlab.bench import command as benches
from connlab.claims import Claim, Judged
from connlab.claims.finding import Finding
from connlab.drive import outdated, progress, servers
from connlab.judge import judging

SMALL = profiles.Profile("small", "two studies", {"01-a": {}, "02-b": {}})


def cli(*words: str) -> int:
    return command.main(list(words))


def one_line(text: str) -> str:
    """Return the last line of an error, which says it all."""
    assert "Traceback" not in text
    return text.strip().splitlines()[-1]


# ---- commands ---------------------------------------------------------------


def test_help_names_every_command(capsys):
    assert cli("--help") == 0
    output = capsys.readouterr().out
    for name in command.cli.commands:
        assert f"\n  {name} " in output


@pytest.mark.parametrize("words", [[], ["hosts"]])
def test_what_a_command_does_fits_its_line(words, monkeypatch, capsys):
    """Most were cut in the middle of a sentence."""
    monkeypatch.setenv("COLUMNS", "80")
    assert cli(*words, "--help") == 0
    assert "..." not in capsys.readouterr().out.partition("Commands:")[2]


def test_a_python_that_nobody_set_up_is_told_how():
    done = python("-S", "-m", "connlab", "list")
    assert done.returncode == 1
    assert "`make setup`" in one_line(done.stderr)


def test_where_the_locale_is_not_utf_8_files_are_read_in_it_all_the_same():
    """With LC_ALL=de_DE, which is Latin-1, `doctor` could not print its arrows."""
    done = connlab("notebook", LC_ALL="C", PYTHONUTF8="0", PYTHONIOENCODING="")
    assert done.returncode == 0, done.stderr
    assert "15-winsock" in done.stdout


def test_the_installed_command_reads_them_so_too():
    """The one of environment.yml began in the locale's encoding, and stayed there."""
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    module, _, function = scripts["connlab"].partition(":")
    code = f"import sys; from {module} import {function}\nsys.exit({function}())"
    environ = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": ""}
    done = python("-c", code, "notebook", **environ)
    assert done.returncode == 0, done.stderr
    assert "15-winsock" in done.stdout


def test_help_imports_nothing_heavy():
    code = (
        "import sys; from connlab.__main__ import main; main(['--help']);"
        "print(sorted({'pandas', 'numpy', 'pydantic', 'papermill'} & set(sys.modules)))"
    )
    done = python("-c", code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"


TWO = "compare epoll poll"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("nope", "No such command 'nope'"),
        ("notebook 99", "no notebook '99'"),
        ("notebook 01 -p trils 3", "did you mean 'trials'"),
        ("notebook 01 -p trials many", "trials: 'many'"),
        ("notebook 01 -p trials", "requires 2 arguments"),
        ("notebook 01 -p run mine", "run: 'mine' .* --run"),
        ("notebook 01 -p accept [quite]", "accept: 'quite'; did you mean 'quiet'"),
        ("notebook 11 -p budget soon", "budget: 'soon'; allowed: 90, '90s'"),
        ("notebook 01 -p root /x", "root: '/x' "),
        ("paper --profile quik", "did you mean 'quick'"),
        ("paper --run ../mine", "'../mine'"),
        ("render --run /tmp/mine", "'/tmp/mine'"),
        ("evaluate --run ..", "'..'"),
        ("render --run never-measured", "never-measured"),
        ("words ../mine", "^connlab: run: '../mine'; allowed"),
        ("words never-measured", "no run 'never-measured' below runs/"),
        ("claims --run never-measured", "no run 'never-measured' below runs/"),
        ("archive --run never-measured", "never-measured"),
        ("contribute --run never-measured", "never-measured"),
        ("judge './mine 8080'", "{port}"),
        ("judge epol", "did you mean 'epoll'?"),
        (f"judge epoll --out {shlex.quote(__file__)}", "'--out': .* is a file"),
        ("judge nginx", "server nginx: workload echo; allowed: http"),
        ("bench epol", "did you mean 'epoll'"),
        ("hosts check /", "'FILE': File '/' is a directory"),
        (f"bench epoll --out {shlex.quote(__file__)}", "'--out': .* is a file"),
        ("bench --budget soon", "--budget: 'soon'; allowed"),
        ("bench --budget 0s", "--budget: '0s'; allowed: more than 0"),
        ("bench --until never", "--until: never; allowed"),
        ("bench --until 200%", "--until: 200%; allowed: above 0 and below 100 %"),
        ("compare epoll", "servers: 1; two are needed"),
        ("compare epoll epoll", "servers: epoll twice"),
        ("compare epoll iterative", "iterative .* --connections 1"),
        (f"{TWO} --until soon", "--until: soon; allowed"),
        (f"{TWO} --until 0", "--until: 0; allowed"),
        (f"{TWO} --budget 1s", "budget: 1 s; 3 servers need"),
        (f"{TWO} --budget later", "--budget: 'later'; allowed"),
        (f"{TWO} --connections 0", "connections: 0; allowed"),
        (f"{TWO} --connections 900000", "connections: 900000; allowed"),
        (f"{TWO} --workload ftp", "unknown workload 'ftp'"),
        (f"{TWO} --rate -1", "rate: -1; allowed"),
        (f"{TWO} --workers 0", "workers: 0; allowed: 1"),
        (f"{TWO} --processes -2", "processes: -2; allowed: 1"),
        (f"{TWO} --engine kqueue", "'kqueue' is not one of"),
        (f"{TWO} --seed -1", "--seed.* -1 is not in the range"),
        (f"{TWO} --seed {2**53}", f"--seed.* {2**53} is not in the range"),
        (f"{TWO} --requests-per-connection -1", "-1; allowed: 0"),
        (f"{TWO} --size 5 --workload work", "size: 5; allowed"),
        (f"{TWO} --delay 5x --workload work", "client: .*--delay 5x: want"),
        ("compare epoll poll:backlog=x", "server poll: .*--backlog x: want"),
        ("compare epoll poll:speed=9", "'speed=9'; allowed: NAME=VALUE of workers"),
    ],
)
def test_what_does_not_exist_ends_with_2_and_a_line(
    words, message, client_program, capsys
):
    assert cli(*shlex.split(words)) == 2
    assert re.search(message, one_line(capsys.readouterr().err))


@pytest.mark.parametrize("words", [["judge", "epoll"], ["bench", "epoll"]])
def test_where_nothing_can_be_kept_nothing_is_measured(
    words, monkeypatch, client_program, tmp_path, capsys
):
    """On a read-only file system both measured for minutes, and then failed."""
    measured = Mock(side_effect=AssertionError)
    monkeypatch.setattr(judging, "judge", measured)
    monkeypatch.setattr(benches, "run", measured)
    monkeypatch.setattr(os, "access", lambda path, _mode: path != tmp_path)
    assert cli(*words, "--out", str(tmp_path / "new" / "folder")) == 2
    message = f"folder; allowed: a folder that can be written, which {tmp_path} is not"
    assert message in one_line(capsys.readouterr().err)


def test_notebook_without_a_word_lists_the_questions(capsys):
    assert cli("notebook") == 0
    output = capsys.readouterr().out
    for path in notebook.every():
        assert path.stem in output
        assert notebook.title_of(path) in output


def test_list_names_each_model(server_program, capsys):
    assert cli("list") == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines() if line]
    registry = drive.registry()
    wanted = {row.name for row in (*registry.models, *registry.workloads)}
    assert wanted | servers.entries().keys() <= set(listed)


@pytest.mark.parametrize(("wrote", "status"), [(True, 0), (False, 1)])
def test_a_study_without_results_or_without_an_entry_in_the_profile_is_told(
    wrote, status, tmp_path, monkeypatch, capsys
):
    executed = tmp_path / "runs" / "t" / "pools" / "notebook.ipynb"
    executed.parent.mkdir(parents=True)
    if wrote:
        (executed.parent / "results.json").touch()
    monkeypatch.setattr(notebook, "run", lambda *args, **words: executed)
    empty = profiles.Profile("smoke", "", {})
    monkeypatch.setattr(profiles, "load", lambda name: empty)
    assert cli("notebook", "pools", "--run", "t", "--profile", "smoke") == status
    said = capsys.readouterr()
    assert "profile smoke has no entry 03-pools" in said.err
    assert ("results: " in said.out) is wrote
    assert ("its sweep and load name 'pools'" in said.err) is not wrote


def test_without_a_name_it_is_the_newest_run_else_the_first_reference(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("CONNLAB_HOME", str(tmp_path))
    runs = tmp_path / "runs"
    for age, name in enumerate(["reference-b", "reference-a", "old", "older"]):
        results = runs / name / "load" / "results.json"
        results.parent.mkdir(parents=True)
        results.touch()
        os.utime(results, (1000 - age, 1000 - age))
    (runs / "reference").symlink_to("reference-a")
    assert command._name_or_newest(None, None, None) == "old"
    for name in ("old", "older"):
        shutil.rmtree(runs / name)
    assert command._name_or_newest(None, None, None) == "reference-a"


def test_a_run_that_lies_elsewhere_has_the_name_of_its_link(tmp_path, monkeypatch):
    """The name of the folder there was taken, and no such run found."""
    monkeypatch.setenv("CONNLAB_HOME", str(tmp_path))
    lay(tmp_path, {"disk/1/load/results.json": "", "runs/README.md": ""})
    (tmp_path / "runs" / "full").symlink_to(tmp_path / "disk" / "1")
    assert command._name_or_newest(None, None, None) == "full"
    assert command._name_or_newest(None, None, "full") == "full"


@pytest.mark.parametrize(
    ("error", "status", "goes_on"),
    [
        (KeyboardInterrupt(), 130, False),
        (notebook.Interrupted(), 130, True),  # its trials are kept
        (notebook.NotebookError("01-a: cell 3 (x): ValueError: y"), 1, False),
        (OSError(28, "No space left on device"), 1, False),
        (subprocess.CalledProcessError(2, ["make", "build"]), 1, False),
        (subprocess.TimeoutExpired(["perf", "--version"], 30.0), 1, False),
    ],
)
def test_failure_is_one_line_and_a_status(error, status, goes_on, monkeypatch, capsys):
    monkeypatch.setattr(paper, "build", Mock(side_effect=error))
    assert cli("build") == status
    text = one_line(said := capsys.readouterr().err)
    assert text == said.strip()
    assert text.startswith("connlab: stopped" if status == 130 else "connlab: ")
    assert ("goes on" in text) is goes_on


@pytest.mark.parametrize(
    ("write", "named"),
    [
        (lambda path: path.write_text("x"), "full"),
        (lambda path: path.write_bytes(b"x" * 100_000), "full"),
        (lambda path: schema.put(path.with_name("kept"), b"x"), "kept.part"),
    ],
)
def test_a_full_disk_is_told_with_the_file_that_was_written(
    write, named, tmp_path, monkeypatch, capsys
):
    for name in ("full", "kept.part"):
        (tmp_path / name).symlink_to("/dev/full")
    monkeypatch.setattr(paper, "build", lambda: write(tmp_path / "full"))
    assert cli("build") == 1
    said = "[Errno 28] No space left on device"
    text = one_line(capsys.readouterr().err)
    assert text == f"connlab: {said}: '{tmp_path / named}'"


def test_a_full_disk_behind_standard_output_is_told_without_a_name(monkeypatch, capsys):
    """It was told as of a file "None"."""
    full = OSError(28, "No space left on device")
    monkeypatch.setattr(paper, "build", Mock(side_effect=full))
    assert cli("build") == 1
    text = one_line(capsys.readouterr().err)
    assert text == "connlab: [Errno 28] No space left on device"


def judged_claims() -> tuple[Judged, ...]:
    given = {"id": "A1", "says": "Threads are slower", "conditions": "c", "here": "h"}
    claim = Claim(**given, source="s", likeness="high", untestable="no ARM")
    return (Judged(claim, Finding("not testable here", "no ARM")),)


COMMANDS = [
    (["doctor"], "connlab.drive.doctor", "two cores", 0, "two cores"),
    (["check-paper"], "connlab.publish.check", [], 0, "nothing is wrong"),
    (["check-paper"], "connlab.publish.check", ["a", "b"], 1, "paper has 2 problems"),
    (["lint-paper"], "connlab.publish.lint", [], 0, "nothing is fetched"),
    (["lint-paper"], "connlab.publish.lint", ["x: 5 ms"], 1, "problem: x: 5 ms"),
    (["claims", "--run", "reference"], "connlab.claims.judge_all", judged_claims(), 0,
     "We put 1 claim of earlier reports to 1 test: 1 is not testable here."),
    (["hosts", "lab", "--hosts", "4"], "connlab.hosts.lab.Lab.up", None, 0,
     "hosts.toml"),
    (["hosts", "lab-down"], "connlab.hosts.lab.Lab.down", None, 0, ""),
]  # fmt: skip


@pytest.mark.parametrize(("words", "called", "returns", "status", "said"), COMMANDS)
def test_a_command_prints_what_its_function_returns(
    words, called, returns, status, said, monkeypatch, capsys
):
    function = Mock(return_value=returns)
    monkeypatch.setattr(called, function)
    monkeypatch.setattr(publish, "advice", lambda: ["say it in fewer words"])
    assert cli(*words) == status
    assert function.call_count == 1
    out, err = capsys.readouterr()
    assert said in (err if status else out)
    assert ("advice: say it" in err) is (words == ["lint-paper"])
    if "--hosts" in words:
        assert function.call_args.args == (4,)


def test_what_a_claim_has_in_brackets_is_printed(monkeypatch, capsys):
    (row,) = judged_claims()
    claim = row.claim.model_copy(update={"says": "Threads [sic] are slower"})
    judged = Mock(return_value=(Judged(claim, row.finding),))
    monkeypatch.setattr("connlab.claims.judge_all", judged)
    assert cli("claims", "--run", "reference") == 0
    assert "[sic]" in capsys.readouterr().out


def test_certificates_go_to_the_folder_that_was_named(tmp_path, monkeypatch, capsys):
    making = Mock()
    monkeypatch.setattr("connlab.hosts.certificates.make", making)
    assert cli("hosts", "certificates", str(tmp_path)) == 0
    making.assert_called_once_with(tmp_path)
    assert list(tmp_path.iterdir())  # the settings of Dask
    assert f"{tmp_path}: end after " in capsys.readouterr().out


def test_list_as_json_is_what_the_server_prints(server_program, capsys):
    assert cli("list", "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    own = subprocess.run([server_program, "--list"], capture_output=True, check=True)
    rows = json.loads(own.stdout)
    for kind in ("models", "workloads"):
        assert [r["name"] for r in printed[kind]] == [r["name"] for r in rows[kind]]
    for row, given in zip(printed["models"], rows["models"], strict=True):
        assert row.items() >= given.items()


# ---- profiles ---------------------------------------------------------------


def test_each_profile_fits_the_notebooks():
    assert profiles.names() == ["smoke", "quick", "full"]
    for name in profiles.names():
        profile = profiles.load(name)
        assert list(profile.notebooks) == [p.stem for p in notebook.every()]
        assert paper.plan(profile).keys() == profile.notebooks.keys()


def test_profiles_cost_what_they_promise():
    costs = [sum(paper.plan(profiles.load(name)).values()) for name in profiles.names()]
    smoke, quick, full = (cost / 60 for cost in costs)
    assert smoke < 4
    assert smoke < quick < 12
    assert quick < full < 180


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("notebooks: {01-respons-time: {}}", "did you mean '01-response-time'"),
        ("notebooks: {01-response-time: [1]}", "names and values"),
        ("notebooks: [01-response-time]", "notebooks: names and values"),
        ("[01-response-time]", "bad.yaml: names and values"),
        ("notebooks: {1: {}}", "no notebook 1; "),
        ("seconds: {01-respons-time: 5}", "did you mean '01-response-time'"),
        ("seconds: {01-response-time: 1m}", "seconds: 01-response-time: '1m'; allowed"),
        ("seconds: {01-response-time: -5}", "01-response-time: -5; allowed: a number"),
        ("notebook: {01-response-time: {}}", "did you mean 'notebooks'"),
        ("notebooks: {", "bad.yaml"),
    ],
)
def test_a_bad_profile_is_named(tmp_path, monkeypatch, text, message):
    monkeypatch.setattr(notebook, "home", lambda: tmp_path)
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles/bad.yaml").write_text(text)
    (tmp_path / "01-response-time.ipynb").touch()
    with pytest.raises(profiles.ProfileError, match=message):
        profiles.load("bad")


@pytest.mark.parametrize(
    ("given", "most"),
    [
        ({}, 5),
        ({"trials": 4}, 5),
        ({"trials": 10}, 10),
        ({"trials": 10, "max_trials": 20}, 20),
        ({"trials": "many"}, 5),
    ],
)
def test_more_trials_than_a_profile_allows_raise_its_limit(given, most):
    limited = {"trials": 3, "max_trials": 5}
    profile = profiles.Profile("p", "", {"01-a": limited, "02-b": {"trials": 3}})
    assert profile.parameters("01-a", given) == limited | given | {"max_trials": most}
    assert profile.parameters("02-b", given) == {"trials": 3} | given
    assert limited == {"trials": 3, "max_trials": 5}


# ---- paper ------------------------------------------------------------------


def test_a_notebook_takes_what_the_profile_states_else_its_budget():
    budgets = {"05-bulk": {"budget": "5m"}, "06-idle": {"budget": "9m"}, "07-uring": {}}
    profile = profiles.Profile("p", "", budgets, {"06-idle": 7.0})
    cost = paper.plan(profile)
    assert cost.pop("07-uring") < 60
    assert cost == {"05-bulk": 300 + paper._NOTEBOOK_S, "06-idle": 7}


def test_a_profile_that_a_notebook_refuses_is_named_before_anything_is_measured():
    profile = profiles.Profile("p", "", {"07-uring": {"trils": 3}}, {"07-uring": 7.0})
    with pytest.raises(ValueError, match="did you mean 'trials'"):
        paper.plan(profile)


@pytest.mark.parametrize(
    ("taken", "pace", "left"),
    [
        ({}, 1, 30),
        ({"build": 50, "01-a": 80}, 2, 20),
        ({"01-a": 0.1}, 1, 20),  # its trials were there
    ],
)
def test_what_is_left_of_a_paper_follows_the_pace_of_a_slow_machine(taken, pace, left):
    cost = {"01-a": 10.0, "02-b": 20.0}
    assert paper.left_s(cost, taken) == pace * (left + paper._PAGES_S)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(3.4, "3.4 s"), (89.4, "89 s"), (185, "3 min 5 s"), (7500, "2 h 5 min")],
)
def test_durations_read_well(seconds, text):
    assert progress.duration_text(seconds) == text


@pytest.fixture
def staged(monkeypatch, tmp_path) -> list[str]:
    """Replace the phases of a paper by notes of what was called, in order."""
    calls: list[str] = []
    pages = {"html": ROOT / "index.html", "pdf": ROOT / "paper.pdf", "supplement": None}
    nothing = dict.fromkeys(
        ["missing", "stale", "unused", "unknown", "instead", "problems"], ()
    )
    rendered = SimpleNamespace(renderer="none", seconds=0.0, **pages, **nothing)

    def run(nb: str, **_: object) -> None:
        calls.append(nb)
        if nb == "01-a":
            raise notebook.NotebookError("01-a: cell 1 (1/0): ZeroDivisionError")

    monkeypatch.setattr(paper, "project_root", lambda: tmp_path)
    monkeypatch.setattr(profiles, "load", lambda name: SMALL)
    monkeypatch.setattr(paper, "plan", lambda profile: {"01-a": 1.0, "02-b": 2.0})
    monkeypatch.setattr(paper, "build", lambda: calls.append("build"))
    monkeypatch.setattr(notebook, "run", run)
    monkeypatch.setattr(outdated, "changes", lambda folder: None)
    monkeypatch.setattr(paper, "judge", lambda r: calls.append("judge") or r)
    monkeypatch.setattr(publish, "render", lambda r, **_: calls.append(r) or rendered)
    monkeypatch.setattr(publish, "check", lambda: calls.append("check") or [])
    return calls


def test_a_failed_study_does_not_stop_the_others(staged, capsys):
    assert cli("paper", "--profile", "small") == 1
    assert staged == ["build", "01-a", "02-b", "judge", "small", "check"]
    out, err = capsys.readouterr()
    assert "2 notebooks, about" in out
    assert "02-b, about 2 s; " in out
    assert out.splitlines()[-2:] == ["index.html", "paper.pdf"]
    assert one_line(err) == "studies failed: 01-a"


def test_a_study_that_is_left_out_is_not_waited_for(staged, monkeypatch, capsys):
    why = {"01-a": "not over several hosts"}
    monkeypatch.setattr(notebook, "left_out", lambda stem, **_: why.get(stem))
    assert cli("paper", "--profile", "small") == 0
    assert staged[:2] == ["build", "02-b"]
    out = capsys.readouterr().out
    assert "01-a: not over several hosts" in out
    assert f"1 notebook, about {2 + paper._PAGES_S:g} s" in out
    assert f"02-b, about 2 s; {2 + paper._PAGES_S:g} s left of all" in out


def test_a_paper_that_is_interrupted_begins_nothing_more(staged, monkeypatch, capsys):
    interrupted = Mock(side_effect=notebook.Interrupted)
    monkeypatch.setattr(notebook, "run", interrupted)
    assert cli("paper", "--profile", "small") == 130
    assert staged == ["build"]
    assert [call.args for call in interrupted.mock_calls] == [("01-a",)]
    assert "stopped; " in one_line(capsys.readouterr().err)


def test_two_papers_of_a_project_are_not_measured_at_once(staged, capsys):
    """Each would find the other's trials there, spoilt by its own."""
    with paper._alone():
        assert cli("paper", "--profile", "small") == 1
    assert staged == []
    assert "another paper" in one_line(capsys.readouterr().err)
    cli("paper", "--profile", "small")
    assert staged


def test_an_unsound_paper_is_a_failure(staged, monkeypatch, capsys):
    monkeypatch.setattr(notebook, "run", lambda nb, **_: None)
    monkeypatch.setattr(publish, "check", lambda: ["paper.pdf: it does not exist"])
    assert cli("paper", "--profile", "small") == 1
    assert "paper.pdf: it does not exist" in capsys.readouterr().err


def test_a_run_of_other_programs_is_kept_and_all_measured_anew(
    staged, monkeypatch, capsys
):
    monkeypatch.setattr(outdated, "changes", lambda folder: "binaries")
    monkeypatch.setattr(outdated, "rename_run", lambda folder: folder / "kept-2026")
    assert cli("paper", "--profile", "small") == 1
    said = capsys.readouterr().out
    assert "measured with other binaries; it is kept as kept-2026" in said
    assert staged[:3] == ["build", "01-a", "02-b"]


def test_a_reference_of_other_programs_is_left_alone(staged, monkeypatch, capsys):
    monkeypatch.setattr(outdated, "changes", lambda folder: "binaries, kernel")
    moved = Mock()
    monkeypatch.setattr(outdated, "rename_run", moved)
    assert cli("paper", "--profile", "small", "--run", "reference") == 2
    said = one_line(capsys.readouterr().err)
    assert "is a reference, which was measured with other binaries, kernel" in said
    assert staged == ["build"]
    assert not moved.called
