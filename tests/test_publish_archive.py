"""The deposit: what is in it, what is refused, and that it stands on its own.

What an RO-Crate must say is checked against its specification, version 1.2: the
descriptor, the properties of the root, and that every file is described, once, and can
be reached from the root.
"""

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from urllib.parse import unquote

import publish_made as made
import pytest
import yaml
from conftest import ROOT, lay, ran

from connlab import __main__ as command
from connlab import paper, publish, schema
from connlab.publish import archive, rendering

FOLDER = f"runs/{made.RUN}/{made.STUDY}"
NOTEBOOK = f"notebooks/01-{made.STUDY}.ipynb"
SOURCES = {
    "src_c/server.c": "int main(void) { return 0; }\n",
    "src_c/fuzz/a corpus%20": b"\xff\x00",
    "connlab/__main__.py": "",
    NOTEBOOK: '{"cells": []}',
    "notebooks/profiles/quick.yaml": "about: quick\n",
    "paper/claims.yml": "[]\n",
    "runs/README.md": "# Runs\n",
    "tools/setup.sh": "#!/bin/sh\n",
}
NOT_SOURCES = {
    "build/server": b"\x7fELF",
    "connlab/__pycache__/x.pyc": b"",
    "paper/_generated/x.qmd": "",
    "runs/other/manifest.json": "{}",
}
METADATA = "ro-crate-metadata.json"
SPECIFICATION = "https://w3id.org/ro/crate/1.2"
COMPILER = "cc (Here) made of gcc 0.0"
PASSING = {f"{FOLDER}/notebook.partial.ipynb": "{}", f"{FOLDER}/x.json.part": "{"}


def executed(**parameters: object) -> str:
    """Return a notebook as papermill leaves it, without the cells."""
    papermill = {"parameters": {"run": made.RUN, "root": "runs", **parameters}}
    return json.dumps({"cells": [], "metadata": {"papermill": papermill}})


def set_paper(tree: Path, *, run: str = made.RUN) -> None:
    """Leave what rendering leaves, without rendering."""
    output = tree / archive.PAPER
    lay(output, {"index.html": f"<p>{run}</p>", "paper.pdf": b"%PDF-\xff"})
    pages = ("index.html", "paper.pdf")
    files = {name: rendering.digest(output / name) for name in pages}
    tables = [f"{made.STUDY}/{name}" for name in ("cells.csv", "ratios.csv")]
    numbers = {t: rendering.digest(tree / f"runs/{made.RUN}" / t) for t in tables}
    stamp = {"run": run, "renderer": "made-up 1.0", "files": files, "numbers": numbers}
    lay(output, {rendering.STAMP: json.dumps(stamp)})
    for name in ("manifest.json", f"{made.STUDY}/results.json"):
        lay(output, {f"data/{name}": (tree / f"runs/{made.RUN}" / name).read_bytes()})


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a project of few files with a made-up run and its paper."""
    tree = tmp_path_factory.mktemp("template") / "tree"
    run = made.write_run(tree / "runs", trials=3)
    manifest = made.manifest()
    manifest["studies"][made.STUDY] |= {
        "started_at": "2026-01-02T03:00:00.000+00:00",
        "stopping": {"seconds": 90.5},
    }
    manifest["compiler"] = {"compiler": "cc", "version": COMPILER}
    made.write_json(run / "manifest.json", manifest)
    lay(tree, SOURCES | NOT_SOURCES | PASSING)
    lay(tree, {f"{FOLDER}/notebook.ipynb": executed(trials=10)})
    for name in (".gitignore", "paper/.gitignore", "CITATION.cff", "LICENSE"):
        shutil.copy(ROOT / name, tree / name)
    set_paper(tree)
    return tree


@pytest.fixture
def tree(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a project outside of git, which is the project for this test."""
    tree = shutil.copytree(template, tmp_path / "tree")
    monkeypatch.setenv("CONNLAB_HOME", str(tree))
    return tree


def git(tree: Path, *words: str) -> str:
    who = ("-c", "user.name=x", "-c", "user.email=x@example.org")
    return subprocess.check_output(["git", "-C", str(tree), *who, *words], text=True)


def packed() -> zipfile.ZipFile:
    return zipfile.ZipFile(archive.pack(made.RUN).path)


def names_in(crate: zipfile.ZipFile) -> list[str]:
    return [name for name in crate.namelist() if not name.endswith("/")]


@pytest.fixture
def crate(tree: Path) -> zipfile.ZipFile:
    return packed()


def entities(crate: zipfile.ZipFile) -> dict[str, dict]:
    """Return the crate's entities by ``@id``; none may stand twice."""
    graph = json.loads(crate.read(METADATA))["@graph"]
    by_id = {entity["@id"]: entity for entity in graph}
    assert len(by_id) == len(graph)
    return by_id


@pytest.fixture
def by_id(crate: zipfile.ZipFile) -> dict[str, dict]:
    return entities(crate)


def references(value: object) -> list[str]:
    """Return every ``@id`` that an entity's properties refer to."""
    if isinstance(value, list):
        return [target for item in value for target in references(item)]
    return [value["@id"]] if isinstance(value, dict) else []


# ---- what is packed ----------------------------------------------------------


def wanted(tree: Path) -> set[str]:
    """Return what a deposit of `tree` holds, found in another way than by git."""
    paths = [*(tree / "runs" / made.RUN).rglob("*"), *(tree / "paper").rglob("*")]
    names = {p.relative_to(tree).as_posix() for p in paths if p.is_file()}
    top = {"CITATION.cff", "LICENSE", ".gitignore", METADATA}
    return {*SOURCES, *names, *top} - {*NOT_SOURCES, *PASSING}


def test_sources_run_and_paper_are_packed_and_nothing_else(tree, crate):
    assert sorted(names_in(crate)) == sorted(wanted(tree))
    for name in names_in(crate):
        if name != METADATA:
            assert crate.read(name) == (tree / name).read_bytes()


def test_in_a_repository_the_sources_are_what_git_tracks(tree):
    git(tree, "init", "--quiet")
    git(tree, "add", "--all")
    lay(tree, {"untracked.txt": "", "src_c/tracked.c": ""})
    git(tree, "add", "src_c/tracked.c")
    (tree / "tools/setup.sh").unlink()
    names = wanted(tree) - {"tools/setup.sh"} | {"src_c/tracked.c"}
    assert set(names_in(packed())) == names


def test_the_same_inputs_give_the_same_bytes_anywhere(tree, tmp_path, monkeypatch):
    first = archive.pack(made.RUN).path
    elsewhere = tmp_path / "else where"
    with zipfile.ZipFile(first) as crate:
        crate.extractall(elsewhere)
    os.utime(elsewhere / "LICENSE", (1e9, 1e9))
    (elsewhere / "LICENSE").chmod(0o600)
    monkeypatch.setenv("CONNLAB_HOME", str(elsewhere))
    again = archive.pack(made.RUN).path
    assert again != first
    assert again.read_bytes() == first.read_bytes()
    lay(elsewhere, {f"{FOLDER}/latency/x.csv.gz": b"\x1f\x8b"})
    assert archive.pack(made.RUN).path.read_bytes() != first.read_bytes()


def test_the_name_tells_run_and_day_and_scripts_may_be_started(crate):
    assert Path(crate.filename).name == f"connlab-{made.RUN}-{made.MADE_AT[:10]}.zip"
    modes = {i.filename: i.external_attr >> 16 & 0o777 for i in crate.infolist()}
    assert modes["tools/setup.sh"] == 0o755
    assert modes["LICENSE"] == 0o644


def test_nothing_names_the_folder_that_it_was_packed_in(tree, crate):
    assert crate.namelist()
    for name in crate.namelist():
        assert os.fsencode(tree) not in crate.read(name), name


# ---- what the metadata say ---------------------------------------------------


def test_the_crate_is_declared_as_the_specification_wants_it(crate, by_id):
    metadata = json.loads(crate.read(METADATA))
    assert metadata["@context"] == f"{SPECIFICATION}/context"
    descriptor = by_id[METADATA]
    assert descriptor["@type"] == "CreativeWork"
    assert descriptor["about"] == {"@id": "./"}
    assert descriptor["conformsTo"] == {"@id": SPECIFICATION}
    root = by_id["./"]
    assert root["@type"] == "Dataset"
    assert made.RUN in root["name"]
    assert "Imaginary CPU" in root["description"]
    assert root["datePublished"] == made.MADE_AT[:10]
    assert by_id[root["license"]["@id"]]["name"] == "MIT"
    assert by_id[root["license"]["@id"]]["description"]


def test_authors_and_citation_are_those_of_the_citation_file(tree):
    cff = (tree / "CITATION.cff").read_text()
    people = '  - {given-names: Ada, family-names: Love, orcid: "https://orcid.org/0"}'
    text = re.sub("^authors:\n", f"authors:\n{people}\n", cff, flags=re.M)
    lay(tree, {"CITATION.cff": text})
    by_id = entities(packed())
    root = by_id["./"]
    authors = [by_id[name] for name in references(root["author"])]
    assert [author["@type"] for author in authors] == ["Person", "Organization"]
    names = [author["name"] for author in authors]
    assert names == ["Ada Love", yaml.safe_load(cff)["authors"][0]["name"]]
    assert authors[0]["@id"] == "https://orcid.org/0"
    software = by_id["connlab/__main__.py"]
    assert software["name"] in cff
    assert software["author"] == root["author"]
    assert f"{', '.join(names)} (2026)" in root["creditText"]


def test_every_reference_leads_to_an_entity(by_id):
    for entity in by_id.values():
        for target in references(list(entity.values())):
            assert target in {*by_id, SPECIFICATION}, (entity["@id"], target)
        assert entity["@type"]
        assert entity["name"]
        assert re.fullmatch(r"[!-~]+", entity["@id"])  # a URI has no blank


def test_every_file_is_described_and_reached_from_the_root(crate, by_id):
    reached, queue = set(), ["./"]
    while queue:
        reached.add(name := queue.pop())
        queue += references(by_id[name].get("hasPart", []))
    files = {i: e for i, e in by_id.items() if "File" in e["@type"]}
    assert set(files) == {i for i in reached if not i.endswith("/")}
    names = {unquote(i): e for i, e in files.items()}
    assert set(names) == set(names_in(crate)) - {METADATA}
    for name, entity in names.items():
        data = crate.read(name)
        assert entity["contentSize"] == str(len(data))
        assert entity["sha256"] == hashlib.sha256(data).hexdigest()
    folders = [i for i in reached if i.endswith("/") and i != "./"]
    assert folders
    assert set(folders) <= set(crate.namelist())


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("src_c/server.c", "text/x-c"),
        ("src_c/fuzz/a%20corpus%2520", "application/octet-stream"),
        ("LICENSE", "text/plain"),
        ("paper/_output/paper.pdf", "application/pdf"),
        (f"{FOLDER}/trials.jsonl", "application/jsonl"),
    ],
)
def test_files_have_their_media_types(by_id, name, kind):
    assert by_id[name]["encodingFormat"] == kind


def test_a_study_is_an_action_of_its_notebook_on_the_machine(by_id):
    action = by_id[f"#study-{made.STUDY}"]
    assert action["@type"] == "CreateAction"
    assert action["name"] == made.results()["question"]
    assert references(action["instrument"]) == [NOTEBOOK, "#machine"]
    assert references(action["object"]) == ["src_c/"]
    results = references(action["result"])
    assert f"{FOLDER}/results.json" in results
    assert f"{FOLDER}/figures/response-time.svg" in results
    assert {f"{FOLDER}/cells.csv", f"{FOLDER}/ratios.csv"} <= set(results)
    assert action["startTime"] == "2026-01-02T03:00:00.000+00:00"
    assert action["endTime"] == "2026-01-02T03:01:30.500+00:00"
    assert action["actionStatus"]["@id"].endswith("CompletedActionStatus")
    assert action["@id"] in references(by_id["./"]["mentions"])


def test_a_failed_study_has_its_reason(tree):
    lay(tree, {f"runs/{made.RUN}/idle/failure.json": '{"reason": "no memory"}'})
    action = entities(packed())["#study-idle"]
    assert action["actionStatus"]["@id"].endswith("FailedActionStatus")
    assert action["error"] == "no memory"


def test_the_machine_and_the_versions_are_those_of_the_manifest(by_id):
    product = by_id["#machine"]
    assert product["@type"] == "IndividualProduct"
    properties = [by_id[i] for i in references(product["additionalProperty"])]
    values = {entity["name"]: entity["value"] for entity in properties}
    assert values["processor"] == "Imaginary CPU"
    assert values["git commit"] == made.manifest()["git"]["commit"]
    assert "python 3.11.0" in values["versions"]
    assert COMPILER in values["compiler and flags"]


def test_programs_are_in_a_language_that_has_an_address(by_id):
    (python,) = references(by_id[NOTEBOOK]["programmingLanguage"])
    assert by_id[python]["@type"] == "ComputerLanguage"
    assert by_id[python]["url"]


def test_the_paper_is_made_from_the_results(by_id):
    action = by_id["#paper"]
    files = ("results.json", "cells.csv", "ratios.csv")
    assert references(action["object"]) == [f"{FOLDER}/{name}" for name in files]
    pages = ["paper/_output/index.html", "paper/_output/paper.pdf"]
    assert references(action["result"]) == pages
    assert "made-up 1.0" in action["description"]


def test_runs_that_the_paper_prints_and_the_deposit_lacks_are_named(tree):
    assert "not here" not in entities(packed())["#paper"]["description"]
    made.edit(tree / archive.PAPER / rendering.STAMP, beside=["reference-a", "b"])
    told = "numbers of reference-a and b too, which are not here."
    assert told in entities(packed())["#paper"]["description"]


# ---- what is refused ---------------------------------------------------------


NOT_WHOLE = {
    "no paper": (f"{archive.PAPER}/{rendering.STAMP}", None, "make render RUN=made-up"),
    "a touched page": (f"{archive.PAPER}/index.html", "<p>better</p>", "index.html"),
    "newer results": (
        f"{FOLDER}/results.json",
        json.dumps(made.results() | {"answer": "Another."}),
        "older.*results.json",
    ),
    "newer numbers": (f"{FOLDER}/cells.csv", "study,metric\n", made.RUN),
    "no results": (f"{FOLDER}/results.json", None, "make paper"),
    "a path in a notebook": (
        f"{FOLDER}/notebook.ipynb",
        executed().replace("[]", '["{tree}/runs"]'),
        "notebook.ipynb",
    ),
    "a path that begins a line": (
        f"{FOLDER}/failure.json",
        json.dumps({"reason": "gone:\n{tree}/runs"}),
        "failure.json",
    ),
    "a path of another machine": (
        f"{FOLDER}/notebook.ipynb",
        executed().replace('{"param', '{"input_path": "/data/x", "param'),
        "notebook.ipynb",
    ),
}


def refused(tree: Path, capsys: pytest.CaptureFixture) -> str:
    """Return why nothing is packed."""
    assert command.main(["archive", "--run", made.RUN]) == 1
    assert not list(tree.rglob("*.zip*"))
    return capsys.readouterr().err


@pytest.mark.parametrize("name", NOT_WHOLE)
def test_what_is_not_whole_is_refused(tree, name, capsys):
    file, text, pattern = NOT_WHOLE[name]
    (tree / file).unlink(missing_ok=True)
    if text is not None:
        lay(tree, {file: text.replace("{tree}", str(tree))})
    assert re.search(pattern, refused(tree, capsys))


def test_the_paper_of_another_run_is_refused(tree, capsys):
    set_paper(tree, run="other")
    assert "'other'" in refused(tree, capsys)


def test_without_git_nothing_is_packed(tree, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(archive.ArchiveError, match="git.*missing"):
        archive.pack(made.RUN)


def test_the_command_prints_where_the_file_is(tree, capsys):
    assert command.main(["archive"]) == 0  # the newest run
    size, name = capsys.readouterr().out.splitlines()[:2]
    assert re.match(r"\d+ files, \d+\.\d MiB", size)
    assert zipfile.is_zipfile(schema.project_root() / name)


# ---- it stands on its own ----------------------------------------------------


@pytest.mark.long
def test_the_paper_can_be_set_from_the_deposit_and_changes_nothing_in_git(tmp_path):
    """One of the whole project, which has the made-up run as its reference."""
    tree, unpacked = tmp_path / "tree", tmp_path / "unpacked"
    lay(tree, {n: (ROOT / n).read_bytes() for n in archive.sources(ROOT, run="none")})
    made.write_run(tree / "runs").rename(tree / "runs/reference")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CONNLAB_HOME", str(tree))
        paper.judge("reference")
        publish.render("reference")
        deposit = archive.pack("reference")
    with zipfile.ZipFile(deposit.path) as crate:
        crate.extractall(unpacked)
    output = unpacked / archive.PAPER
    before = (output / "index.html").read_bytes()
    git(unpacked, "init", "--quiet")
    git(unpacked, "add", "--all")
    git(unpacked, "commit", "--quiet", "--message", "all")
    assert "runs/reference/claims/results.json" in git(unpacked, "ls-files")
    shutil.rmtree(output)
    python = f"PY={shlex.quote(sys.executable)}"  # and no set-up of its own
    words = ["make", "-o", "setup", "render", "RUN=reference", python]
    env = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    done = ran(*words, cwd=unpacked, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    assert git(unpacked, "status", "--porcelain") == ""
    assert (output / "index.html").read_bytes() == before
    assert (output / "paper.pdf").read_bytes().startswith(b"%PDF-")
