"""connlab.drive.servers: entries, command lines, and how they are driven."""

import shlex
import shutil
from pathlib import Path
from typing import get_args
from unittest.mock import Mock

import pytest
from conftest import ROOT, shown
from drive_fakes import rows, trials_of

from connlab import __main__ as command
from connlab import schema
from connlab.compare import make_plan, measure
from connlab.compare.comparison import compare
from connlab.drive import programs, servers, turns
from connlab.drive.host import LocalHost, ProgramError
from connlab.drive.running import NotServing, running
from connlab.study import style
from tests.test_external import line

ENTRY = """
[mine]
label = "mine"
family = "readiness"
language = "C"
command = "{build}/mine --port {port}"
"""


# ---- what may stand in servers.toml ---------------------------------------------


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        (ENTRY + 'labl = "x"', ["mine: ", "'labl'", "'label'"]),
        (ENTRY.replace('label = "mine"', ""), ["mine: label "]),
        (ENTRY.replace("{port}", "8080"), ["mine: command ", "{port}"]),
        (ENTRY.replace("{build}", "{biuld}"), ["mine: ", "'biuld'", "'build'"]),
        (ENTRY + 'version = "{need1} -v"', ["version: ", "'need1'"]),
        (ENTRY + 'build = ["cc -o {port}"]', ["build: ", "'port'"]),
        (ENTRY.replace("readiness", "readyness"), ["family: 'readyness'"]),
        (ENTRY + 'workloads = ["ftp"]', ["mine: workloads.0: 'ftp'"]),
        (ENTRY + "warm_up = 61", ["mine: warm_up: 61", "60"]),
        (ENTRY + 'warm_up = "3s"', ["mine: warm_up: '3s'"]),
        (ENTRY + 'needs = [{any_of = ["x"], instal = "y"}]', ["'instal'", "'install'"]),
        (ENTRY.replace("command = ", "labl = "), ["mine: ", "'labl'"]),
        (ENTRY.replace("command", "version"), ["mine: command "]),
        (ENTRY + 'at = "host:1"', ["mine: command ", " at"]),
        (ENTRY.replace("command", "at"), ["at: ", "'{build}/mine --port {port}'"]),
        ("mine = 3", ["mine: ", "table"]),
        (ENTRY + 'workloads = "echo"', ["workloads: 'echo'; ", "a list"]),
        (ENTRY + 'needs = ["cc"]', ["mine: needs.0: 'cc'; ", "a table"]),
        # told without the file, and only once it was used: No closing quotation
        (ENTRY + 'version = "x \'x"', ["mine: version: ", "no closing quotation"]),
        (ENTRY + 'build = ["x \'x"]', ["mine: build: ", "no closing quotation"]),
        (ENTRY.replace("--", "'"), ["mine: command: ", "no closing quotation"]),
        (ENTRY + 'name = "other"', ["mine: unknown key 'name'"]),
        (ENTRY.replace("mine]", "'a:b']"), ["name 'a:b'; allowed: "]),
        (ENTRY.replace("mine]", "'../a']"), ["name '../a'; allowed: "]),
        ("[mine", ["servers.toml: "]),
    ],
)
def test_what_cannot_be_is_named_with_what_is_meant(text, facts):
    with pytest.raises(servers.ServersError) as error:
        servers.parse(text)
    assert [fact for fact in facts if fact not in str(error.value)] == []


def test_a_misspelt_port_is_one_error():
    with pytest.raises(servers.ServersError) as error:
        servers.parse(ENTRY.replace("{port}", "{Port}"))
    (line,) = str(error.value).splitlines()
    assert "did you mean 'port'?" in line


def test_all_that_is_wrong_is_said_at_once():
    other = ENTRY.replace("[mine]", "[other]").replace("{port}", "1")
    with pytest.raises(servers.ServersError) as error:
        servers.parse(ENTRY.replace("label", "labl") + other)
    lines = str(error.value).splitlines()
    assert any("mine" in line for line in lines)
    assert any("other" in line for line in lines)


def test_families_are_those_that_figures_have_a_colour_for():
    assert set(get_args(servers.Family)) == {*style.FAMILIES, servers.FAMILY}


@pytest.mark.parametrize(("status", "version"), [(0, "no 12"), (1, "")])
def test_what_a_version_command_says_as_it_fails_is_no_version(status, version):
    table = ENTRY + f"version = 'sh -c \"echo no 12; exit {status}\"'"
    assert servers.version_of(servers.parse(table)["mine"]) == version


def test_what_is_not_there_is_told_with_how_to_get_it():
    needs = 'needs = [{any_of = ["no-such-tool"], install = "apt install tool"}]'
    entry = servers.parse(ENTRY + needs)["mine"]
    (need,) = entry.lacks
    assert need.install == "apt install tool"
    assert "no-such-tool" in entry.reason
    assert need.install in entry.reason


def test_what_has_to_be_built_says_so_until_it_is(tmp_path):
    product = tmp_path / "mine"
    entry = servers.parse(ENTRY + f'product = "{product}"')["mine"]
    assert "make runtimes" in entry.reason
    product.touch()
    assert entry.reason is None


def test_the_entries_of_the_project_are_right_and_no_model_has_their_names(build_dir):
    models = {model.name: model for model in programs.models()}
    for name, entry in servers.entries().items():
        assert name not in models
        assert entry.nearest in models
        assert entry.family in {model.family for model in models.values()}
        assert entry.folder.is_dir() or "{project}" in entry.command


def test_a_version_may_be_of_any_encoding(tmp_path):
    tool = tmp_path / "tool"
    tool.write_bytes(b"#!/bin/sh\necho 'Gr\xfc\xdfe 7'\n")
    tool.chmod(0o755)
    entry = servers.parse(ENTRY + f'version = "{tool} --version"')["mine"]
    assert servers.version_of(entry).endswith("e 7")


def test_who_is_asked_for_a_version_leaves_nothing_where_connlab_runs(
    tmp_path, monkeypatch
):
    """Java does, given too little memory; a path that begins here is found still."""
    monkeypatch.chdir(tmp_path)
    tool = tmp_path / "tool"
    tool.write_text('#!/bin/sh\n: > hs_err_pid1.log\necho "tool 7 ${0%/*} $1"\n')
    tool.chmod(0o755)
    needs = 'needs = [{any_of = ["./tool"], at_least = 7, install = "x"}]'
    entry = servers.parse(ENTRY + f'version = "{{need1}} -v"\n{needs}')["mine"]
    assert servers.version_of(entry) == f"tool 7 {tmp_path} -v"
    assert list(tmp_path.iterdir()) == [tool]


@pytest.mark.parametrize(("build", "status"), [("false", 1), ("true", 0)])
def test_a_build_that_fails_is_an_error_where_it_was_asked_for(
    monkeypatch, tmp_path, capsys, build, status
):
    monkeypatch.setattr(schema, "project_root", lambda: tmp_path)
    entries = servers.parse(ENTRY + f'build = ["{build}"]')
    monkeypatch.setattr(servers, "entries", lambda: entries)
    assert command.main(["runtimes", "mine"]) == status
    said = capsys.readouterr().out
    assert said.startswith("mine ")
    assert ("left out: false: exit 1" in said) == bool(status)
    assert command.main(["runtimes"]) == 0


def test_a_build_that_fails_in_another_encoding_is_left_out_like_others(
    monkeypatch, tmp_path, capsys
):
    """As with LC_ALL=de_DE, which is Latin-1: no other server was built either."""
    tool = tmp_path / "tool"
    tool.write_bytes(b"#!/bin/sh\necho 'Gr\xfc\xdfe'\nexit 7\n")
    tool.chmod(0o755)
    monkeypatch.setattr(schema, "project_root", lambda: tmp_path)
    entries = servers.parse(ENTRY + f'build = ["{tool}"]')
    monkeypatch.setattr(servers, "entries", lambda: entries)
    assert command.main(["runtimes"]) == 0
    assert "exit 7\n  Gr" in capsys.readouterr().out


def test_a_folder_may_have_a_space_in_its_name(monkeypatch):
    monkeypatch.setattr(schema, "project_root", lambda: Path("/my things"))
    entry = servers.parse(ENTRY)["mine"]
    program = "/my things/build/runtimes/mine/mine"
    assert entry.words(entry.command, port=1) == [program, "--port", "1"]


# ---- what is made of a name -------------------------------------------------------


def test_a_command_line_is_taken_as_it_is(build_dir):
    built = programs.built()
    factors = {"model": "./mine 'a b' --port {port} -j {workers}", "workers": 3}
    words = servers.argv(built, factors)
    own = words[words.index("--") + 1 :]
    assert own == ["./mine", "a b", "--port", "{port}", "-j", "3"]
    assert servers.model(factors["model"]).label == "mine"


def test_a_server_with_a_contract_gets_no_words_but_its_own(build_dir, monkeypatch):
    """Those of build/external stood among them, where it had a -- of its own."""
    table = ENTRY.replace("{build}/mine --port", "runs --") + "contract = true"
    entries = servers.parse(table)
    monkeypatch.setattr(servers, "entries", lambda: entries)
    started = Mock(side_effect=ProgramError("no port"))
    monkeypatch.setattr(LocalHost, "start", started)
    with pytest.raises(NotServing, match="no port"), running("mine"):
        pass
    assert started.call_args.args == (["runs", "--", "0"],)


def test_a_model_is_started_as_ever(build_dir):
    built = programs.built()
    words = servers.argv(built, {"model": "epoll", "workload": "echo"})
    assert words == [*built.server, "epoll", "--workload", "echo"]
    assert servers.model("epoll") is None


def test_a_lesson_that_is_built_anew_is_another_server(build_dir, tmp_path):
    """Its trials are not those of before, though ``build/server`` is as it was."""
    server = shutil.copy(build_dir / "server", tmp_path)
    both = programs.Programs((str(server),), programs.built().client)
    lesson = tmp_path / "lessons" / "epoll"
    lesson.parent.mkdir()
    digests = set()
    for content in ("one", "another"):
        lesson.write_text(content)
        digests.add(servers.check("lessons/epoll", both).digest)
    assert len(digests) == 2


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("epol", "'epol'; did you mean 'epoll'?"),
        ("lessons/epol", "'lessons/epol'; did you mean 'lessons/epoll'?"),
        ("./mine 8080", "{port}"),
    ],
)
def test_a_server_that_nobody_knows(build_dir, name, message, capsys):
    with pytest.raises(ValueError, match="server") as error:
        servers.check(name, programs.built())
    assert message in str(error.value)
    assert command.main(["compare", "epoll", name]) == 2
    assert message in capsys.readouterr().err


def test_a_table_that_is_called_like_a_model_is_refused(build_dir, monkeypatch):
    entries = servers.parse(ENTRY.replace("[mine]", "[epoll]"))
    monkeypatch.setattr(servers, "entries", lambda: entries)
    with pytest.raises(
        ValueError, match="^servers.toml: epoll is a model's name; allowed"
    ):
        servers.check("epoll", programs.built())


def test_tables_are_given_by_name_and_a_wrong_name_is_told_with_the_nearest():
    assert [*servers.tables(["go", "node"])] == ["go", "node"]
    with pytest.raises(ValueError, match="'nod'; did you mean 'node'"):
        servers.tables(["go", "nod"])


# ---- driven as a model is ---------------------------------------------------------


@pytest.mark.parametrize("beside", [(), "server"])
def test_a_sweep_measures_it_and_names_what_goes_wrong(build_dir, tmp_path, beside):
    kinds = [line("good"), line("daemon"), line("ends")]
    trials = trials_of(tmp_path, kinds, beside=beside)
    for kind in ("good", "daemon"):
        trial = trials[line(kind)]
        assert trial.failure is None
        assert trial.client.window["requests"] > 0
        samples = trial.server.samples
        assert samples.cpu_user_s + samples.cpu_system_s > 0
        assert samples.pss_bytes > 1 << 20
        assert samples.context_switches_voluntary > 0
        assert trial.server.stats is None
        assert trial.binaries["external"]
    assert trials[line("ends")].failure.kind == "server-start"
    assert "database" in trials[line("ends")].failure.reason


def test_a_process_that_ends_before_the_client_looks_costs_no_set(
    build_dir, tmp_path, monkeypatch
):
    looked = []

    def once_late(served):
        looked.append(watched(served))
        return str(2**22 + 1) if len(looked) == 1 else looked[-1]

    watched = turns._watched_pids
    monkeypatch.setattr(turns, "_watched_pids", once_late)
    kinds = [line("good"), line("children")]
    for trial in trials_of(tmp_path, kinds, beside="model").values():
        assert trial.failure is None
        assert trial.client.window["requests"] > 0


def test_with_another_warm_up_it_is_another_server(monkeypatch):
    digests = set()
    for text in ("", "warm_up = 2", "warm_up = 3"):
        entries = servers.parse(ENTRY + text)
        monkeypatch.setattr(servers, "entries", lambda entries=entries: entries)
        digests.add(servers.model("mine").digest)
    assert len(digests) == 3


def test_what_is_measured_already_is_not_measured_again(build_dir, tmp_path):
    for _ in range(2):
        trials_of(tmp_path, [line("good")])
    assert len(rows(tmp_path)) == 1


@pytest.mark.long
@pytest.mark.serial
def test_the_same_program_under_two_names_compares_alike(build_dir):
    lesson = shlex.quote(str(ROOT / "build" / "lessons" / "epoll"))
    # Not through `env`: what else lies on a stack costs or saves 0.3 %.
    copy = [f"{lesson} {{port}}", f"{lesson}  {{port}}"]
    plan = make_plan(copy, connections=10, until=0.02, budget_s=40)
    # One interval in twenty misses the truth; three in a row do not.
    for _ in range(3):
        result = compare(plan, measure.sets(plan), show=lambda result: None)
        if result.ratios("cpu")[copy[1]].contains(1):
            return
    pytest.fail(f"three times apart: {result.ratios('cpu')[copy[1]]}")


def test_the_table_that_contributing_shows_can_be_read():
    (entry,) = servers.parse(shown("toml", "[zig]")).values()
    assert entry.nearest in {model.name for model in programs.models()}
