"""A run to give to the project: nothing in it tells who measured, and it is whole."""

import gzip
import json
import re
import zipfile
from pathlib import Path

import publish_made as made
import pytest
from conftest import ROOT, lay

from connlab import __main__ as command
from connlab import schema
from connlab.publish import contributing, results

HOST, USER = "marigold.example.org", "ottilie"
TELLING = {
    "failed.txt": f"connect to marigold.example.org: refused by {USER}",
    "notebook.ipynb": json.dumps({"cells": [f"/home/{USER}/mine", "/Users/otto/x"]}),
    "progress.json": json.dumps({"host": "marigold", "by": USER, "of": "ottilies"}),
}
LEFT_OUT = ("figures/a.pdf", "latency/1.csv.gz", "notebook.failed.ipynb", "x.json.part")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home" / USER / "connlab"
    run = made.write_run(home / "runs")
    (home / "pyproject.toml").write_text("")
    for name, text in TELLING.items():
        (run / made.STUDY / name).write_text(text + f" in {home}/src_c")
    lay(run / made.STUDY, dict.fromkeys(LEFT_OUT, b"\xff"))
    monkeypatch.setenv("CONNLAB_HOME", str(home))
    monkeypatch.setenv("HOME", str(home.parent))
    monkeypatch.setattr(contributing.socket, "gethostname", lambda: HOST)
    monkeypatch.setattr(contributing.getpass, "getuser", lambda: USER)
    return run


def texts(packed: contributing.Contribution) -> dict[str, str]:
    """Return all files by name, packed trials as they were."""
    files = {}
    with zipfile.ZipFile(packed.path) as crate:
        for name in crate.namelist():
            data = crate.read(name)
            if name.endswith(".jsonl" + schema.PACKED):
                name, data = name.removesuffix(schema.PACKED), gzip.decompress(data)
            if not name.endswith("/"):
                files[name] = data.decode("utf-8", "replace")
    return files


def test_a_packed_run_is_packed_again_and_tells_no_more(folder):
    plain = folder / made.STUDY / schema.TRIALS
    first, *others = plain.read_text().splitlines()
    telling = json.loads(first) | {"commands": {"client": ["client", HOST]}}
    plain.write_text("\n".join([json.dumps(telling), *others, ""]))
    packed = gzip.compress(plain.read_bytes())
    plain.with_name(plain.name + schema.PACKED).write_bytes(packed)
    plain.unlink()
    files = texts(contributing.pack(made.RUN))
    assert not any(HOST in text for text in files.values())
    (packed,) = (files[name] for name in files if name.endswith(schema.TRIALS))
    assert len(packed.splitlines()) == 1 + len(others) > 1


def test_no_host_user_or_path_is_in_it(folder):
    packed = contributing.pack(made.RUN)
    everything = "\n".join(f"{n}\n{text}" for n, text in texts(packed).items())
    telling = (HOST, "marigold", f"/{USER}", "/home/", "/Users/", "otto/")
    assert [text for text in telling if text in everything] == []
    assert f"{USER} " not in everything
    assert f'"{USER}"' not in everything
    assert "ottilies" in everything, "only whole names are replaced"
    assert packed.replaced["the host's name"] == 1
    assert packed.replaced["the user's name"] == 3


def test_what_was_measured_is_in_it_as_it_is(folder):
    files = texts(contributing.pack(made.RUN))
    top = next(iter(files)).split("/")[0]
    for name in (schema.TRIALS, results.FILE):
        original = folder / made.STUDY / name
        assert files[f"{top}/{made.STUDY}/{name}"] == original.read_text()
    names = {name.removeprefix(f"{top}/{made.STUDY}/") for name in files}
    assert names.isdisjoint(LEFT_OUT)
    assert f"{top}/manifest.json" in files


def test_of_trials_that_are_there_twice_those_that_count_are_in_it(folder):
    """Unpacking that was cut short, or git, leaves older ones beside them."""
    plain = folder / made.STUDY / schema.TRIALS
    older = gzip.compress(b'{"key": "older"}\n')
    plain.with_name(plain.name + schema.PACKED).write_bytes(older)
    test_what_was_measured_is_in_it_as_it_is(folder)


def test_names_and_addresses_of_other_hosts_are_not_in_it(folder):
    away = {"bluebell": {"serves": True}, "thistle": {"serves": False}, "client": {}}
    manifest = json.loads((folder / "manifest.json").read_text()) | {"hosts": away}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    told = [
        {"server": {"ready": {"host": "192.0.2.7"}}, "reason": "host thistle: gone"},
        {"server": {"ready": {"host": "2001:db8::7"}}, "client": {"hosts": away}},
        {"server": {"ready": {"host": "127.0.0.1"}}},
    ]
    lines = "".join(f"{json.dumps(row)}\n" for row in told)
    (folder / made.STUDY / "recovery.jsonl").write_text(lines)
    everything = "\n".join(texts(contributing.pack(made.RUN)).values())
    for name in ("bluebell", "thistle", "192.0.2.7", "2001:db8::7"):
        assert name not in everything
    assert "127.0.0.1" in everything
    assert '"client": {' in everything, "a word of the data is no name"


@pytest.mark.parametrize(
    ("host", "told"),
    [
        ("bluebell", False),
        ("192.0.2.7", False),
        ("127.0.0.1", True),
        ("marigold", False),
    ],
)
def test_the_host_of_a_server_that_ran_already_is_not_in_it(folder, host, told):
    """As ``at:HOST:PORT`` it stands in the trials, the parameters and the results."""
    at = f"{host}:7000"
    plan = {"parameters": {"factors": {"model": [f"at:{at}"]}}}
    made.edit(folder / "manifest.json", studies={made.STUDY: plan})
    made.edit(folder / made.STUDY / results.FILE, findings=[f"{at} answers."])
    row = {"factors": {"model": f"at:{at}"}, "server": {"model": {"at": at}}}
    (folder / made.STUDY / "recovery.jsonl").write_text(f"{json.dumps(row)}\n")
    everything = "\n".join(texts(contributing.pack(made.RUN)).values())
    assert (host in everything) == told


@pytest.mark.parametrize("user", [USER, "jürgen", "o'neill"])
@pytest.mark.parametrize("dumped", [json.dumps, lambda x: json.dumps(x, indent=1)])
def test_names_in_text_of_many_lines_and_with_umlauts_are_not_in_it(
    folder, monkeypatch, user, dumped
):
    """JSON spells the end of a line \\n, whose letter was taken for one of the name."""
    monkeypatch.setattr(contributing.getpass, "getuser", lambda: user)
    project = folder.parents[1]
    said = f"gone\n{HOST}: refused\r\n{user}\t{project}/x\n/home/{user}/y"
    (folder / made.STUDY / "failed.json").write_text(dumped({"reason": said}))
    files = texts(contributing.pack(made.RUN))
    (text,) = (text for name, text in files.items() if name.endswith("/failed.json"))
    assert json.loads(text) == {"reason": "gone\nhost: refused\r\nuser\t./x\n~/y"}


@pytest.mark.parametrize("name", ["server", "client", "work", "redis", "http"])
def test_a_host_and_a_user_that_are_called_like_data_change_none(
    folder, monkeypatch, name
):
    monkeypatch.setattr(contributing.socket, "gethostname", lambda: name)
    monkeypatch.setattr(contributing.getpass, "getuser", lambda: name)
    test_what_was_measured_is_in_it_as_it_is(folder)


def test_a_short_name_changes_no_picture(folder, monkeypatch):
    """In the letters of a picture "jo" stands by chance, once or twice in a run."""
    monkeypatch.setattr(contributing.getpass, "getuser", lambda: "jo")
    picture = '"image/png": "iVBO/jo+Uq=="'
    path = folder / made.STUDY / "notebook.ipynb"
    path.write_text(f'{{"jo": 1, {picture}, "by": "jo"}}')
    files = texts(contributing.pack(made.RUN))
    (text,) = (text for name, text in files.items() if name.endswith(path.name))
    assert text == f'{{"user": 1, {picture}, "by": "user"}}'


def test_studies_that_a_run_never_began_are_told(folder, capsys):
    studies = ("01-response-time", "03-pools")
    lay(folder.parents[1], {f"notebooks/{name}.ipynb": "" for name in studies})
    assert command.main(["contribute", "--run", made.RUN]) == 0
    said = capsys.readouterr().out
    assert "as the run has none: pools\n" in said
    assert '"Give a run of your machine"' in said
    heading = "## Give a run of your machine\n"
    assert heading in (ROOT / "CONTRIBUTING.md").read_text()


def test_two_runs_of_a_machine_and_a_day_have_a_file_each(folder):
    made.write_run(folder.parent, name="again")
    made.write_run(folder.parent, name=USER)
    runs = (made.RUN, "again", USER)
    names = [contributing.pack(run).path.name for run in runs]
    assert len(set(names)) == 3
    assert names[1].endswith("-again.zip")
    assert names[2].endswith("-user.zip")


def refused(folder: Path, capsys: pytest.CaptureFixture) -> str:
    """Return the reason why the run is not packed."""
    assert command.main(["contribute", "--run", made.RUN]) == 1
    assert not list((folder.parents[1] / contributing.FOLDER).glob("*"))
    return capsys.readouterr().err


def test_a_run_without_results_is_refused(folder, capsys):
    (folder / made.STUDY / results.FILE).unlink()
    assert f"make paper RUN={made.RUN}" in refused(folder, capsys)


def test_results_of_other_trials_are_refused(folder, capsys):
    trials = folder / made.STUDY / schema.TRIALS
    made.append(trials, trials.read_text().splitlines()[-1] + "\n")
    assert f"make evaluate RUN={made.RUN}" in refused(folder, capsys)


def test_a_run_that_is_too_large_is_refused(folder, capsys, monkeypatch):
    monkeypatch.setattr(contributing, "SIZE_MOST", 100)
    assert re.search(r"0 MiB.*PROFILE", refused(folder, capsys))
