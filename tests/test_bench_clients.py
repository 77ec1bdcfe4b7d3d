"""connlab.bench.clients: what other load generators print, and what each costs."""

import json
import shutil
import sys

import pytest

from connlab.bench import clients
from connlab.bench.clients import OURS
from connlab.compare import make_plan
from connlab.drive import cores, web_page
from connlab.drive.host import ProgramError

WRK = """\
Running 1s test @ http://127.0.0.1:43481/page
  1 threads and 8 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   143.02us  566.24us   8.18ms   95.23%
  179750 requests in 1.10s, 195.77MB read
{wrong}Requests/sec: 163282.18
"""
AB = """\
Concurrency Level:      8
Time taken for tests:   1.003 seconds
Complete requests:      150851
Failed requests:        {failed}
{wrong}Keep-Alive requests:    {kept}
Requests per second:    150346.14 [#/sec] (mean)
"""
NON_2XX = "  Non-2xx or 3xx responses: 135115\n"
SOCKET = "  Socket errors: connect 0, read 2, write 93897, timeout 0\n"


def ab(failed=0, wrong="", kept=150851) -> str:
    return AB.format(failed=failed, wrong=wrong, kept=kept)


def ours(**errors) -> str:
    report = {"requests": {"sent": 9, "completed": 7}, "errors": {"reset": 0} | errors}
    return json.dumps(report, separators=(",", ":"))


@pytest.mark.parametrize(
    ("name", "text", "requests"),
    [
        ("wrk", WRK.format(wrong=""), 179750),
        ("ab", ab(), 150851),
        ("ab", ab(kept=12), 12),
        (OURS, ours(), 7),
    ],
)
def test_requests_are_counted(name, text, requests):
    assert clients.counted(name, text) == requests


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("wrk", WRK.format(wrong=NON_2XX), "Non-2xx or 3xx responses: 135115"),
        ("wrk", WRK.format(wrong=SOCKET), "Socket errors: connect 0, read 2"),
        ("ab", ab(failed=7), "Failed requests: +7"),
        ("ab", ab(wrong="Non-2xx responses:      100\n"), "Non-2xx responses: +100"),
        (OURS, ours(status=2), '"status":2'),
        ("wrk", "oh no", "oh no"),
        ("ab", ab(kept=0), "Concurrency"),
    ],
)
def test_answers_that_were_wrong_are_no_requests(name, text, message):
    with pytest.raises(ProgramError, match=f"^{name}: .*{message}"):
        clients.counted(name, text)


# --- how they are run ---------------------------------------------------------------


def plan(**other):
    return make_plan(["epoll", "poll"], workload="http", connections=8, **other)


def test_all_are_asked_for_the_same():
    names, at = (OURS, "wrk", "ab"), "127.0.0.1:7"
    client, wrk, ab = (clients.argv(plan(), name, at) for name in names)
    assert wrk == ["wrk", "-t1", "-d1s", "-c8", "http://127.0.0.1:7/page"]
    assert ab[:4] == ["ab", "-q", "-k", "-t1"]  # a later -t would undo -n
    assert ab[-2:] == ["-c8", wrk[-1]]
    flags = dict(zip(client[2::2], client[3::2], strict=True))
    assert (flags["--path"], flags["--connections"]) == ("/page", "8")
    assert (flags["--duration"], flags["--warmup"]) == ("1", "0")


def test_cpu_time_is_that_of_the_process_wherever_it_is_spent():
    burn = (
        "import os, time\n"
        "while sum(os.times()[:2]) < 0.2: pass\n"
        "time.sleep(0.2)\n"
        "print(os.sched_getaffinity(0))"
    )
    last = cores.available()[-1:]
    text, cpu_s = clients.run([sys.executable, "-c", burn], last)
    assert text == f"{{{last[0]}}}\n"
    assert 0.2 <= cpu_s < 0.35


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import sys; sys.exit('no such page')", "no such page"),
        ("import time; time.sleep(60)", "timed out"),
    ],
)
def test_a_client_that_fails_or_hangs_is_an_error(code, message, monkeypatch):
    monkeypatch.setattr(clients, "PATIENCE_S", 0.5)
    with pytest.raises(ProgramError, match=message):
        clients.run([sys.executable, "-c", code], cores.available())


@pytest.mark.sweeps
def test_all_that_are_installed_serve_a_round(build_dir, monkeypatch):
    monkeypatch.setattr(clients, "ROUNDS", 1)
    runs = clients.measure_all(plan())
    installed = [name for name in clients.CLIENTS if name == OURS or shutil.which(name)]
    assert {run["name"] for run in runs} == set(installed)
    for run in runs:
        assert 1e-7 < run["client"] < 1e-3, run
        assert 1e-7 < run["server"] < 1e-3, run


@pytest.mark.sweeps
def test_a_page_that_is_not_there_fails(build_dir, monkeypatch):
    http_plan = plan()
    monkeypatch.setattr(web_page, "PAGE", "nowhere")
    monkeypatch.setattr(clients, "ROUNDS", 1)
    with pytest.raises(ProgramError, match="Non-2xx|status"):
        clients.measure_all(http_plan)
