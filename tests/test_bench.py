"""connlab.bench: what is compared, targets, and one small run of real programs."""

import io
import itertools
import json
import math
import re
from types import SimpleNamespace
from unittest.mock import Mock

import pandas as pd
import pytest
from drive_fakes import models
from rich.console import Console

from connlab import __main__ as command
from connlab import intervals
from connlab.bench import clients, parts, targets
from connlab.bench import command as benches
from connlab.bench.parts import BASE, DEARER, SLOWED, Part
from connlab.bench.targets import Target
from connlab.compare import make_plan, plan, screen
from connlab.compare.comparison import Comparison
from connlab.drive import idle_memory, strace, turns
from connlab.drive.host import ProgramError
from connlab.study.interval import Interval

pytestmark = pytest.mark.usefixtures("client_program")


def interval(lo: float, hi: float) -> Interval:
    return Interval(math.sqrt(lo * hi), lo, hi, 8, 0.95, "made")


# ---- what is compared ---------------------------------------------------------


def names(part: Part) -> list[str]:
    return [server.name for server in part.plan.servers]


def compared_parts(*names: str, lessons: bool = False) -> dict[str, Part]:
    return parts.parts(models(*names), lessons=lessons, until=0.02, seed=1)


def test_every_model_that_serves_many_is_compared():
    compared = compared_parts("iterative", "epoll", "uring", "poll")
    assert names(compared["models"]) == [BASE, "poll", "uring", f"{BASE} again"]
    assert names(compared["many"]) == [BASE, "uring", f"{BASE} again"]
    assert compared["many"].plan.client["connections"] == parts.MANY
    with_floor = [name for name, part in compared.items() if part.with_floor]
    assert with_floor == ["models", "many"]


def test_one_model_alone_is_compared_with_itself_at_a_known_cost():
    compared = compared_parts("epoll")
    control = compared.pop("control")
    assert names(control) == [SLOWED, DEARER, f"{SLOWED} again"]
    assert control.plan.client["spin"] == "always"
    for part in compared.values():
        assert names(part) == [BASE, DEARER, f"{BASE} again"]


def test_client_and_server_meet_on_one_core_where_their_costs_are_compared():
    for name, part in compared_parts("epoll").items():
        sets = part.plan.cores
        assert (sets.server == sets.client) == name.startswith("one core")


def test_a_model_is_held_against_its_lesson_and_lessons_against_each_other():
    lessons = compared_parts("epoll", "poll", "pool", lessons=True)["lessons"]
    assert lessons.plan.against == {
        "epoll": "lessons/epoll",
        "lessons/poll": "lessons/epoll",
        "poll": "lessons/poll",
        "lessons/epoll again": "lessons/epoll",
    }


# ---- targets -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lo", "hi", "bounds", "verdict"),
    [
        (0.9, 0.92, {"least": 0.85}, "reached"),
        (0.7, 0.72, {"least": 0.85}, "not reached"),
        (0.8, 0.9, {"least": 0.85}, "undecided, ±6.1 %"),
        (0.7, 0.8, {"most": 0.9}, "reached"),
        (0.9, 1.0, {"most": 0.9}, "not reached"),
        (460, 540, {"least": 450, "most": 550}, "reached"),
        (560, 580, {"least": 450, "most": 550}, "not reached"),
        (400, 600, {"least": 450, "most": 550}, "undecided, ±22.5 %"),
        (math.nan, math.nan, {"most": 1}, "undecided, no interval"),
        (0.9, 0.92, {"least": 0.85, "doubt": "busy"}, "undecided, busy"),
    ],
)
def test_the_whole_interval_decides(lo, hi, bounds, verdict):
    assert Target("made", interval(lo, hi), **bounds).verdict == verdict


def test_a_difference_that_may_be_none_is_known_to_a_width():
    difference = Interval(500, -500, 1500, 8, 0.95, "made")
    target = Target("made", difference, least=450, most=550)
    assert target.verdict == "undecided, ±200.0 %"


def test_the_floor_decides_nothing_where_others_are_at_work(judged, whole):
    whole.comparison.others[:] = [1.8]
    again = targets.judge({"models": whole, **dict.fromkeys(OTHERS, whole)}, {}, {})
    verdicts = {target.what: target.verdict for target in again}
    name = "models: requests / CPU s, epoll / two calls"
    assert judged[name].verdict == "reached"
    assert verdicts[name] == "undecided, others kept 1.8 cores busy"
    assert verdicts["open loop: lag at 50000 requests/s, p99, µs"] == verdicts[name]


def test_a_set_is_held_against_its_own_floor(whole):
    """Numbers of sets have a gap where a server did not start again."""
    for number, table in enumerate(whole.comparison.sets[1:], 2):
        table["trial"] = number
    again = targets.judge({"models": whole, **dict.fromkeys(OTHERS, whole)}, {}, {})
    (floor,) = {t.found for t in again if t.what.endswith("/ two calls")}
    assert (floor.value, floor.n) == (pytest.approx(0.9), len(COST))


def test_what_was_not_measured_is_said():
    assert Target("made", None, most=1).verdict == "not measured"
    assert Target("made", None, least=0.5, most=1).need == "≥ 0.5, < 1"


def part_of(costs: dict[str, list[float]], **other) -> Part:
    """Return a part whose servers cost so much in each set; the client costs half."""
    names = [name for name in costs if not name.endswith("again")]
    part = Part(Comparison(make_plan(names)), **other)
    for number, set_costs in enumerate(zip(*costs.values(), strict=True)):
        table = pd.DataFrame({"server": list(costs), "cpu": set_costs, "trial": number})
        table = table.assign(client=table["cpu"] / 2, rate=1 / table["cpu"])
        part.comparison.sets.append(table.assign(p50=1e-4, p99=1e-3, lag_p99=50e-6))
        rows = table.assign(round=0, lead_in_requests=0, requests=1000.0)
        rows = rows.assign(server_cpu_ns=rows["cpu"] * 1e12, seconds=1000 * rows["cpu"])
        part.comparison.slices.append(rows)
    return part


COST = [10e-6, 11e-6, 12e-6, 11e-6, 10e-6]
AGAIN = [c * (1.001 if n % 2 else 0.999) for n, c in enumerate(COST)]
OTHERS = ("control", "many", "one core", "one core, many", "open loop", "http")


@pytest.fixture
def whole() -> Part:
    costs = {BASE: COST, SLOWED: COST, DEARER: [c + 500e-9 for c in COST]}
    costs |= {"uring": [c / 1.25 for c in COST], "thread": [c * 2 for c in COST]}
    whole = part_of(costs | {f"{BASE} again": AGAIN}, with_floor=True)
    whole.floor_cpu_s = [c * 0.9 for c in COST]
    return whole


@pytest.fixture
def judged(whole) -> dict[str, Target]:
    http = part_of({BASE: [c * 2 for c in COST], "uring": COST, f"{BASE} again": AGAIN})
    others = dict.fromkeys(OTHERS, whole) | {"http": http}
    memory = {"epoll": [270.0] * 4, "thread": [30000.0, 30001, 29999, 30000]}
    memory |= {"stackless": [5000.0, 5001, 5002, 5001], "fork": [1e5] * 4}
    families = {"epoll": "readiness", "thread": "threads", "stackless": "coroutine"}
    families |= {"fork": "processes"}
    judgements = targets.judge({"models": whole, **others}, memory, families)
    return {target.what: target for target in judgements}


def test_costs_are_compared_the_right_way_and_judged(judged):
    wanted = {
        "models: requests / CPU s, uring / epoll": (1.25, "reached"),
        "models: requests / CPU s, epoll / two calls": (0.9, "reached"),
        "models: rate, thread / epoll": (0.5, "not reached"),
        "http: requests / CPU s, http / echo, epoll": (0.5, "not reached"),
        "one core: CPU per request, client / epoll": (0.5, "reached"),
        "control: 500 ns more of work, ns": (500, "reached"),
        "open loop: lag at 50000 requests/s, p99, µs": (50, "reached"),
        "idle connection of epoll, bytes": (270, "reached"),
        "idle connection of thread, bytes": (30000, "not reached"),
        "idle connection of stackless, bytes": (5001, "not reached"),
    }
    for name, (value, verdict) in wanted.items():
        assert judged[name].found.value == pytest.approx(value), name
        assert judged[name].verdict == verdict, name
    itself = judged["models: CPU of epoll / itself, half-width, %"]
    assert itself.verdict == "reached"
    assert "idle connection of fork, bytes" not in judged


def test_nothing_measured_decides_nothing():
    unmeasured = targets.judge(compared_parts("epoll"), {}, {})
    assert {target.verdict for target in unmeasured} == {"not measured"}


def printed(heads: tuple[str, ...], rows: object, *, width: int = 100) -> str:
    text = io.StringIO()
    benches._print(Console(file=text, width=width), heads, rows)
    return text.getvalue()


@pytest.mark.parametrize("width", [70, 80])
def test_a_narrow_terminal_cuts_no_target(judged, width):
    rows = [
        (t.what, t.need, benches._text(t.found), t.verdict) for t in judged.values()
    ]
    text = printed(("target", "needed", "found", ""), rows, width=width)
    for _, need, found, verdict in rows:
        assert re.search(f" {need} +{re.escape(found)} ", text)
        assert all(word in text.split() for word in verdict.split())


def test_calls_of_a_request_are_told_in_all_and_one_by_one():
    calls = {"recvfrom": 1.0, "sendto": 1.0, "poll": 0.254}
    rows = benches._call_rows({"epoll": calls})
    text = printed(("system calls of a request", "all", "of which"), rows)
    assert re.search(r"epoll +2\.25 +recvfrom 1\.00, sendto 1\.00, poll 0\.25", text)


def test_a_load_generator_stands_beside_ours_by_its_cost():
    """In microseconds of CPU a request; the ratio is of runs, not of means."""
    cost = {clients.OURS: [10e-6, 12e-6, 11e-6, 11e-6]}
    cost["wrk"] = [value / 2 for value in cost[clients.OURS]]
    runs = [
        {"name": name, "client": costs[i], "server": 8e-6}
        for i in range(4)
        for name, costs in cost.items()
    ]
    rows = {name: found for name, *found in benches._client_rows(runs)}
    assert rows.keys() == cost.keys()
    assert rows[clients.OURS][1:] == ["8", "1"]
    assert rows["wrk"][1:] == ["8", "2"]
    for name, costs in cost.items():
        wanted = intervals.interval([value * 1e6 for value in costs])
        assert rows[name][0] == screen.number(wanted)
    told = [(name, *found) for name, found in rows.items()]
    text = printed(("CPU of a request", "client", "server", "ratio"), told)
    ours, beside = text.strip().splitlines()[-2:]
    assert re.fullmatch(r"client +11\S* \[.*\] +8 +1 *", ours)
    assert re.fullmatch(r"wrk +5\.\S+ \[.*\] +8 +2 *", beside)
    assert not list(benches._client_rows([]))


# ---- the command ---------------------------------------------------------------


def test_what_fails_beside_the_sets_is_said_and_loses_nothing(monkeypatch, capsys):
    """A kernel that lets nobody trace a program, as hardened ones do."""
    refused = Mock(side_effect=ProgramError("no [x]"))
    monkeypatch.setattr(strace.untimed, "traced", refused)
    monkeypatch.setattr(strace.shutil, "which", lambda name: name)
    console = screen.console()
    assert benches._alone(strace.system_calls, models("epoll"), console) == {}
    assert "left out: no [x]" in capsys.readouterr().out


@pytest.mark.parametrize("failing", ["sets", "floor"])
def test_a_part_that_fails_loses_nothing_of_others(monkeypatch, failing):
    """With a floor that failed all was lost that had been measured."""
    by_title = {n: compared_parts("epoll")[n] for n in ("many", "http")}

    def sets(plan):
        if failing == "sets" and plan is by_title["many"].plan:
            raise turns.SetError("client: exit 3", kind="client-failed")
        yield from itertools.count()

    error = RuntimeError("client: exit 3") if failing == "floor" else None
    measured, clock = [], SimpleNamespace(monotonic=itertools.count().__next__)
    monkeypatch.setattr(parts, "time", clock)
    monkeypatch.setattr(parts.measure, "sets", sets)
    monkeypatch.setattr(parts, "floor_echo", Mock(side_effect=error, return_value=0.0))
    monkeypatch.setattr(Comparison, "add", lambda self, one: measured.append(self))
    monkeypatch.setattr(Comparison, "enough", lambda self: "")
    parts.run(by_title, budget_s=9, say=lambda text: None)
    many, http = (part.comparison for part in by_title.values())
    assert (many.stopped, many.failure) == ("failed", "client: exit 3")
    assert http.stopped == "budget"
    assert {*map(id, measured)} == {id(http)}
    text = io.StringIO()
    screen.print_all(many, Console(file=text, width=99))
    assert "client: exit 3" in text.getvalue()


def _interrupted_after(monkeypatch, rounds):
    """Return parts whose sets end after some rounds, and a list of what they took."""
    by_title = {n: compared_parts("epoll")[n] for n in ("many", "http")}
    measured = []
    monkeypatch.setattr(parts.measure, "sets", lambda plan: (n for n in range(rounds)))
    monkeypatch.setattr(parts, "_floor_cpu_s", lambda part: 0.0)
    monkeypatch.setattr(Comparison, "add", lambda self, one: measured.append(one))
    monkeypatch.setattr(Comparison, "enough", lambda self: "")
    return by_title, measured


def test_what_was_measured_before_a_signal_is_kept(monkeypatch):
    by_title, measured = _interrupted_after(monkeypatch, 2)
    parts.run(by_title, budget_s=99.0, say=lambda text: None)
    assert measured == [0, 0, 1, 1]
    endings = {part.comparison.stopped for part in by_title.values()}
    assert endings == {"interrupted"}


def test_a_signal_in_the_first_round_ends_all(monkeypatch):
    by_title, _ = _interrupted_after(monkeypatch, 0)
    with pytest.raises(KeyboardInterrupt):
        parts.run(by_title, budget_s=99.0, say=lambda text: None)


@pytest.mark.parametrize("when", ["in the sets", "beside them"])
def test_after_a_signal_nothing_more_is_measured(monkeypatch, tmp_path, when):
    """What the sets showed is printed and kept."""
    in_sets = when == "in the sets"

    def stopped(by_title, **_):
        for part in by_title.values():
            part.comparison.stopped = "interrupted" if in_sets else "budget"

    monkeypatch.setattr(parts, "run", stopped)
    monkeypatch.setattr(strace, "system_calls", Mock(side_effect=AssertionError))
    monkeypatch.setattr(clients, "measure_all", Mock(side_effect=AssertionError))
    first = Mock(side_effect=AssertionError if in_sets else KeyboardInterrupt)
    monkeypatch.setattr(idle_memory, "pss_each", first)
    monkeypatch.setattr(benches.targets, "judge", lambda *_: [])
    monkeypatch.setattr(benches.comparison, "document", lambda _: {})
    shown = Mock()
    monkeypatch.setattr(screen, "print_all", shown)
    wanted = dict.fromkeys(("lessons", "memory", "calls", "clients"), True)
    with pytest.raises(SystemExit) as ended:
        benches.run(["epoll"], budget_s=1, until=0.1, seed=1, out=tmp_path, **wanted)
    assert ended.value.code == benches.INTERRUPTED
    assert len(list(tmp_path.iterdir())) == 1
    assert shown.call_count > 1


@pytest.mark.sweeps
def test_a_small_run_prints_and_keeps(build_dir, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(plan, "WARM_SLICES", 1)
    monkeypatch.setattr(plan, "COUNTED_SLICES", 2)
    monkeypatch.setattr(plan, "COUNTED_MIN", 2)
    monkeypatch.setattr(parts, "FLOOR_S", 0.05)
    monkeypatch.setattr(parts, "MANY", 60)
    monkeypatch.setattr(idle_memory, "REPEATS", 1)
    words = ["epoll", "--budget", "1s", "--no-calls", "--no-clients"]
    assert command.main(["bench", *words, "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert re.match(r"8 comparisons, about \d+ s a round, until .* or 1 s", printed)
    assert "idle connection of epoll, bytes" in printed
    (path,) = tmp_path.iterdir()
    kept = json.loads(path.read_text(), parse_constant=pytest.fail)
    assert kept["comparisons"].keys() >= {"models", "http", "lessons", "open loop"}
    for document in kept["comparisons"].values():
        assert document["levels"][document["baseline"]]["rate"]["value"] > 0
    assert len(kept["floor_cpu_s"]["models"]) == 1
    assert kept["idle_memory"]["epoll"][0] > 0
    assert kept["load_generators"] == []
    assert kept["targets"][0]["verdict"].startswith("undecided, ")
