"""Parameters: what a cell declares, and what is refused."""

import json
import re

import pytest

from connlab import parameters
from connlab.parameters import ParameterError

CELL = """\
run: str = "mine"                     # name of the run
models: list[str] = ["thread"]        # names from `server --list`
connections: list[int] = [1, 10]      # clients at once (1..100000)
trials: int = 5                       # blocks at least (1..1000)
max_trials: int | None = None         # blocks at most (1..1000)
duration: float = 1.0                 # seconds of a window (0.05..600)
budget: str | None = None             # time for it all, "10m"
kind: str = "sleep"                   # of the delay (one of: sleep, spin)
fresh: bool = False
accept: list[str] = []                # gates to overlook, like quiet
"""


@pytest.fixture
def notebook(tmp_path):
    path = tmp_path / "01-x.ipynb"
    source = CELL.splitlines(keepends=True)
    tagged = {"metadata": {"tags": ["parameters"]}, "source": source}
    title = {"cell_type": "markdown", "metadata": {}, "source": ["# Why?"]}
    cells = [title, {"cell_type": "code", **tagged}]
    path.write_text(json.dumps({"cells": cells, "nbformat": 4}))
    return path


def test_a_cell_declares_name_type_default_help_and_range(notebook):
    declared = parameters.declared(notebook)
    assert list(declared)[:3] == ["run", "models", "connections"]
    trials = declared["trials"]
    assert (trials.type, trials.default, trials.help) == ("int", 5, "blocks at least")
    assert (trials.low, trials.high) == (1, 1000)
    assert declared["kind"].choices == ("sleep", "spin")
    assert f"# {declared['budget'].help}\n" in CELL  # with its quotation marks
    assert declared["fresh"].help == ""
    assert declared["duration"].allowed == "float, 0.05..600"


def test_good_values_come_back_typed(notebook):
    options = {"duration": 2, "connections": [1, 5], "max_trials": None, "trials": 7}
    values = parameters.validate(notebook, options)
    assert values == options
    assert isinstance(values["duration"], float)
    assert parameters.validate(notebook, {}) == {}


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        ({"conections": [1]}, "'conections'; did you mean 'connections'"),
        ({"zzz": 1}, "'zzz'; there are: run, models"),
        ({"trials": "ten"}, "trials: 'ten'; allowed: int, 1..1000 (blocks at least)"),
        ({"trials": 0}, "trials: 0; allowed: int, 1..1000"),
        ({"trials": 2.5}, "trials: 2.5"),
        ({"trials": True}, "trials: True"),
        ({"models": "epoll"}, "models: 'epoll'; allowed: list[str]"),
        ({"connections": [1, 0]}, "connections: 0; allowed: list[int], 1..100000"),
        ({"connections": ["1"]}, "connections: ['1']"),
        ({"kind": "slep"}, "mean 'sleep'"),
        ({"fresh": 1}, "fresh: 1; allowed: bool"),
        ({"run": None}, "run: None; allowed: str"),
        ({"duration": float("nan")}, "duration"),
        ({"accept": ["quite"]}, "accept: 'quite'; did you mean 'quiet'? allowed: "),
        ({"budget": "5x"}, "budget: '5x'; allowed: 90, '90s', '10m', '1h30m'"),
        ({"budget": "0s"}, "budget: '0s'; allowed: more than 0 s"),
    ],
)
def test_bad_values_are_refused_by_name(notebook, options, facts):
    with pytest.raises(ParameterError, match=re.escape(facts)):
        parameters.validate(notebook, options)


def test_lists_and_numbers_may_come_as_text_the_way_papermill_hands_them_on(notebook):
    options = {"connections": "[1, 10]", "models": "[thread, epoll]", "trials": "7"}
    values = parameters.validate(notebook, options)
    assert list(values.values()) == [[1, 10], ["thread", "epoll"], 7]
    with pytest.raises(ParameterError, match="connections: 0"):
        parameters.validate(notebook, {"connections": "[0]"})
    with pytest.raises(ParameterError, match="connections"):
        parameters.validate(notebook, {"connections": "[1, "})
    assert parameters.validate(notebook, {"run": "7"}) == {"run": "7"}


@pytest.mark.parametrize(("given", "text"), [(90, "90"), (7.5, "7.5"), (1e5, "100000")])
def test_text_that_papermill_took_for_a_number_is_text(notebook, given, text):
    """An error about a budget allows 90, which as ``-p budget 90`` was refused."""
    assert parameters.validate(notebook, {"budget": given}) == {"budget": text}


def test_values_mean_what_they_look_like():
    texts = ["3", "0.5", "1e5", "[1, 1e3]", "[thread, epoll]", "true", "epoll", "[1"]
    values = [3, 0.5, 1e5, [1, 1e3], ["thread", "epoll"], True, "epoll", "[1"]
    assert list(map(parameters.plain, texts)) == values


def test_every_mistake_is_told_at_once(notebook):
    with pytest.raises(ParameterError) as error:
        parameters.validate(notebook, {"trials": 0, "model": ["x"]})
    assert len(str(error.value).splitlines()) == 2


def test_a_notebook_without_the_tag_is_an_error(tmp_path):
    path = tmp_path / "x.ipynb"
    path.write_text(json.dumps({"cells": []}))
    with pytest.raises(ParameterError, match="x.ipynb.*'parameters'"):
        parameters.declared(path)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"{}", b"\xff\xfe"],
    ids=["empty", "cut", "list", "no-cells", "no-text"],
)
def test_a_file_that_is_no_notebook_is_named(tmp_path, content):
    path = tmp_path / "x.ipynb"
    path.write_bytes(content)
    with pytest.raises(ParameterError, match="^x.ipynb: no notebook: "):
        parameters.declared(path)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        *((line, f"'{line}'.*declares") for line in ("n = 5", "n: int", "import os")),
        ("x: int = len('a')", "x: .*default"),
        ("x: int = (", r"^the parameters cell is no Python: .*line 1\)$"),
        ("x: itn = 5", "^x: type 'itn'; allowed: Literal, bool, int, float, str, "),
        ("x: int[3] = 5", r"^x: type 'int\[3\]'; allowed: "),
    ],
)
def test_a_parameters_cell_holds_declarations_of_plain_values_only(line, message):
    with pytest.raises(ParameterError, match=message):
        parameters.parse(line)


def _ran(*cells, **values):
    space: dict = {"In": ["", *cells]}
    for cell in cells:
        exec(cell, space)
    return space | values


def test_inside_a_notebook_defaults_pass_and_injected_values_are_taken():
    """And names of later cells do not matter."""
    parameters.check(_ran(CELL, "frame = 3\nratio = 2.0"))
    parameters.check(_ran(CELL, "# Parameters\nconnections = [7]\n"))
    space = _ran(CELL, "# Parameters\nconnections = '[7, 8]'\n")
    parameters.check(space)
    assert space["connections"] == [7, 8]


@pytest.mark.parametrize(
    ("cells", "values", "message"),
    [
        ([CELL, "# Parameters\ntrails = 9\n"], {}, "'trails'.* 'trials'"),
        ([CELL, "# Parameters\nconnections = [0]\n"], {}, "connections: 0"),
        ([CELL, CELL.replace(": list[str]", "")], {}, "'models = .*' declares no para"),
        ([CELL, "n: int = 3"], {"trials": 0}, "trials: 0"),  # n is of another cell
        ([], {}, "parameters cell"),  # it has not run
    ],
)
def test_inside_a_notebook_what_is_wrong_is_named(cells, values, message):
    with pytest.raises(ParameterError, match=message):
        parameters.check(_ran(*cells, **values))
