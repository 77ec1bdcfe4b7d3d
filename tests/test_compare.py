"""connlab compare: what may be asked, when it stops, what it says."""

from __future__ import annotations

import io
import json
import math
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
from conftest import ROOT
from rich.console import Console

from connlab import __main__ as command
from connlab.compare import measure, screen
from connlab.compare.plan import Plan, make_plan
from connlab.drive import turns as sets
from connlab.drive.host import Ended
from connlab.study.interval import Interval

pytestmark = pytest.mark.usefixtures("client_program")


# ---- what may be asked --------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["epoll"], "servers: 1; two are needed"),
        (["epoll", "epol"], "unknown server 'epol'; did you mean 'epoll'?"),
        (["epoll", "epoll"], "servers: epoll twice"),
        (["epoll", "iterative"], "iterative serves one client at a time"),
        (["epoll", "poll", "--until", "soon"], "--until: soon; allowed"),
        (["epoll", "poll", "--until", "0"], "until: 0; allowed"),
        (["epoll", "poll", "--budget", "1s"], "budget: 1 s; 3 servers need"),
        (["epoll", "poll", "--budget", "later"], "--budget: later; allowed"),
        (["epoll", "poll", "--connections", "0"], "connections: 0; allowed"),
        (["epoll", "poll", "--connections", "900000"], "connections: 900000; allowed"),
        (["epoll", "poll", "--workload", "ftp"], "unknown workload 'ftp'"),
        (["epoll", "poll", "--rate", "-1"], "rate: -1; allowed"),
        (["epoll", "poll", "--requests-per-connection", "-1"], "-1; allowed: 0"),
        (["epoll", "poll", "--size", "5", "--workload", "work"], "size: 5; allowed"),
        (["epoll", "poll:speed=9"], "'speed=9'; allowed: NAME=VALUE of workers"),
    ],
)
def test_bad_input_is_one_line_that_says_what_is_allowed(words, said, capsys):
    assert command.main(["compare", *words]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert "Traceback" not in told
    assert len(told.strip().splitlines()) == 1


def test_the_baseline_takes_part_twice():
    plan = make_plan(["epoll", "poll"])
    assert [server.name for server in plan.servers] == ["epoll", "poll", "epoll again"]
    assert plan.servers[0].factors == plan.servers[2].factors


def test_a_worker_for_each_connection_unless_a_number_is_given():
    plan = make_plan(
        ["epoll-workers", "prethread", "prethread:workers=60"], connections=40
    )
    workers = [server.factors.get("workers") for server in plan.servers]
    assert workers == [None, 40, "60", None]


def test_time_grows_with_the_servers():
    two, three = make_plan(["epoll", "poll"]), make_plan(["epoll", "poll", "select"])
    assert three.client["duration"] == pytest.approx(two.client["duration"] * 4 / 3)
    assert three.set_s > two.set_s


# ---- what is made of the slices --------------------------------------------------


def outcome(
    plan: Plan,
    rates: dict[str, float],
    *,
    places: int,
    died: str = "",
    noise: float = 0.0,
    seed: int = 0,
) -> sets.Outcome:
    """Return a set in which servers answer at `rates`, at 1 µs of CPU a request."""
    rng = np.random.default_rng(seed)
    rows, served, reports = [], [], []
    here = plan.servers[:places]
    if places < len(plan.servers):  # who died does not take part again
        here = [server for server in plan.servers if server.name != died]
    for number in range(20):
        shared = math.exp(rng.normal(0, 0.5))
        for place, server in enumerate(here):
            own = math.exp(rng.normal(0, noise))
            requests = rates[server.name] * 0.02 * shared * own
            rows.append(
                {
                    "round": number,
                    "counted": int(number >= 5),
                    "target": place,
                    "lead_in_requests": 0,
                    "requests": requests,
                    "seconds": 0.02,
                    "slice_seconds": 0.02,
                    "server_cpu_ns": requests * 1000,
                    "rest_cpu_ns": 0,
                    "client_cpu_ns": requests * 900,
                    "busy_ns": requests * 1900,
                    "steal_ns": 0,
                }
            )
    for server in here:
        ended = Ended(-9, server.name == died, (), "", {})
        served.append(sets.Served(server.factors, 0, {}, ended=ended))
        reports.append({"response": {"p50_ns": 300_000, "p99_ns": 900_000}})
    return sets.Outcome(None, served, reports, rows, {}, 0.1)


def compared(monkeypatch, rates, *, words=("epoll", "uring"), **made):
    """Return a comparison of made-up sets."""
    plan = make_plan(list(words), budget_s=made.pop("budget_s", 60))
    seeds = iter(range(1000))

    def run(setting, *, host):
        time.sleep(made.get("takes_s", 0))
        told = {k: v for k, v in made.items() if k != "takes_s"}
        places = len(setting.servers)
        return outcome(plan, rates, places=places, seed=next(seeds), **told)

    monkeypatch.setattr(sets, "run", run)
    return measure.compare(plan, show=lambda made: None)


RATES = {"epoll": 1e5, "uring": 1.2e5, "epoll again": 1e5}


def test_it_stops_when_every_ratio_is_narrow(monkeypatch):
    made = compared(monkeypatch, RATES, noise=0.01)
    assert made.stopped == "width"
    assert made.n >= measure.SETS_MIN
    assert made.widest() <= 0.01
    assert made.ratios("rate")["uring"].contains(1.2)
    assert made.ratios("cpu")["epoll again"].contains(1.0)


def test_it_stops_when_the_budget_is_spent(monkeypatch):
    made = compared(monkeypatch, RATES, noise=2.0, budget_s=13, takes_s=1.5)
    assert made.stopped == "budget"
    assert made.widest() > 0.01
    assert made.seconds < 14


def test_a_server_that_dies_is_named_and_the_others_go_on(monkeypatch):
    rates = RATES | {"poll": 9e4}
    words = ("epoll", "uring", "poll")
    made = compared(monkeypatch, rates, words=words, died="uring", noise=0.01)
    assert made.left == {"uring": "killed by SIGKILL"}
    assert set(made.ratios("rate")) == {"poll", "epoll again"}
    assert "uring" in said(made)


def test_when_nobody_is_left_it_ends(monkeypatch):
    made = compared(monkeypatch, RATES, died="uring")
    assert made.stopped == "alone"
    assert "no server is left to compare with" in said(made)


def test_a_baseline_that_dies_ends_it(monkeypatch):
    with pytest.raises(sets.SetError, match="server epoll: killed by SIGKILL"):
        compared(monkeypatch, RATES, died="epoll")


# ---- what is said ------------------------------------------------------------------


def said(made: measure.Comparison) -> str:
    """Return what is printed at the end."""
    text = io.StringIO()
    screen.print_all(made, Console(file=text, width=120))
    return text.getvalue()


def test_the_table_says_more_and_less(monkeypatch):
    text = said(compared(monkeypatch, RATES, noise=0.01))
    assert "echo of 64 bytes, 50 connections to each" in text
    assert "faster" in text
    assert "alike" in text
    assert "nan" not in text


@pytest.mark.parametrize(
    ("lo", "hi", "metric", "word"),
    [
        (1.1, 1.2, "rate", "faster"),
        (0.8, 0.9, "rate", "slower"),
        (1.1, 1.2, "cpu", "dearer"),
        (0.8, 0.9, "cpu", "cheaper"),
        (1.01, 1.03, "cpu", "dearer, by less than 5 %"),
        (1.1, 1.2, "p99", "longer"),
        (0.98, 1.02, "rate", "alike"),
        (0.8, 1.2, "rate", "cannot tell"),
    ],
)
def test_words_of_a_ratio(lo, hi, metric, word):
    ratio = Interval(math.sqrt(lo * hi), lo, hi, 8, 0.95, "made")
    assert screen.word(ratio, metric) == word


def test_a_control_that_does_not_hold_is_said(monkeypatch):
    made = compared(monkeypatch, RATES | {"epoll again": 1.1e5}, noise=0.01)
    assert any(
        "the same server twice differs in rate" in d for d in screen.doubts(made)
    )


def test_json_has_levels_ratios_and_words(monkeypatch):
    made = compared(monkeypatch, RATES, noise=0.01)
    told = json.loads(json.dumps(screen.document(made)))
    assert told["ratios"]["rate"]["uring"]["word"] == "faster"
    assert told["ratios"]["rate"]["uring"]["n"] == made.n
    assert told["levels"]["epoll"]["p99"]["value"] == pytest.approx(9e-4)
    frame = pd.concat(made.sets)
    rates = frame.loc[frame["server"] == "epoll", "rate"]
    assert told["levels"]["epoll"]["rate"]["value"] == pytest.approx(
        np.exp(np.log(rates).mean())
    )


# ---- with the real programs --------------------------------------------------------


def connlab(*words: str) -> list[str]:
    return [sys.executable, "-m", "connlab", "compare", *words]


@pytest.mark.slow
@pytest.mark.serial
@pytest.mark.parametrize(
    "load",
    [
        ["--workload", "echo"],
        ["--workload", "work", "--delay", "fixed:0.1"],
        ["--workload", "http", "--size", "2000"],
        ["--rate", "5000"],
    ],
)
def test_a_real_comparison_of_each_load(load):
    words = connlab("epoll", "poll", "--connections", "8", "--budget", "13s", *load)
    done = subprocess.run(
        [*words, "--json"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    ratio = told["ratios"]["cpu"]["epoll again"]
    assert 0.5 < ratio["value"] < 2
    assert told["levels"]["poll"]["rate"]["value"] > 0


@pytest.mark.serial
def test_ctrl_c_ends_it_at_once_and_leaves_no_process():
    process = subprocess.Popen(
        connlab("epoll", "poll", "--connections", "2"),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        # a shell in the background lets its children ignore it
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    time.sleep(4)
    process.send_signal(signal.SIGINT)
    began = time.monotonic()
    process.communicate(timeout=20)
    assert time.monotonic() - began < 5
    assert process.returncode == screen.INTERRUPTED
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)
