"""connlab.bench.clients: what other load generators print, and what each costs."""

from __future__ import annotations

import json
import shutil
import sys

import pytest
from bench_made import make_plan

from connlab.bench import clients, tables, targets
from connlab.bench.clients import OURS, Spent
from connlab.drive import cores
from connlab.drive.host import LocalHost

WRK = """\
Running 1s test @ http://127.0.0.1:43481/page
  1 threads and 8 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   143.02us  566.24us   8.18ms   95.23%
    Req/Sec   164.50k    29.32k  203.33k    54.55%
  179750 requests in 1.10s, 195.77MB read
{wrong}Requests/sec: 163282.18
Transfer/sec:    177.83MB
"""
AB = """\
This is ApacheBench, Version 2.3 <$Revision$>

Benchmarking 127.0.0.1 (be patient).....done

Document Path:          /page
Document Length:        1024 bytes

Concurrency Level:      8
Time taken for tests:   1.003 seconds
Complete requests:      150851
Failed requests:        {failed}
{wrong}Keep-Alive requests:    {kept}
Total transferred:      175892266 bytes
HTML transferred:       154471424 bytes
Requests per second:    150346.14 [#/sec] (mean)
Time per request:       0.053 [ms] (mean)
Time per request:       0.007 [ms] (mean, across all concurrent requests)
"""
NON_2XX = "  Non-2xx or 3xx responses: 135115\n"
SOCKET = "  Socket errors: connect 0, read 2, write 93897, timeout 0\n"
FAILED = "   (Connect: 0, Receive: 0, Length: 7, Exceptions: 0)\n"


def ab(failed=0, wrong="", kept=150851):
    return clients.read_ab(AB.format(failed=failed, wrong=wrong, kept=kept))


def runs(client, *costs, rate=100.0, failure=None):
    return [
        Spent(number, client, rate, cost, cost, failure)
        for number, cost in enumerate(costs)
    ]


def shown(found, capsys):
    tables.show(make_plan(), [], [], [], [], clients=found)
    lines = capsys.readouterr().out.splitlines()
    return {line.split()[0]: line for line in lines if line.strip()}


# --- what they print ----------------------------------------------------------------


def test_wrk_is_read():
    said = clients.read_wrk(WRK.format(wrong=""))
    assert said == clients.Said(179750, 163282.18)


@pytest.mark.parametrize("wrong", [NON_2XX, SOCKET, SOCKET + NON_2XX])
def test_errors_of_wrk_are_seen(wrong):
    said = clients.read_wrk(WRK.format(wrong=wrong))
    assert said.wrong == "; ".join(line.strip() for line in wrong.splitlines())


def test_ab_is_read():
    assert ab() == clients.Said(150851, 150346.14)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"failed": 7, "wrong": FAILED}, "Failed requests: 7"),
        ({"wrong": "Non-2xx responses:      100\n"}, "Non-2xx responses:      100"),
        ({"kept": 12}, "kept alive: 12 of 150851"),
    ],
)
def test_errors_of_ab_are_seen(changed, told):
    assert ab(**changed).wrong == told


def test_ours_is_read_with_its_errors():
    said = {
        "requests": {"completed": 7},
        "window": {"throughput_rps": 3.5},
        "errors": {"status": 2, "reset": 0},
    }
    assert clients.read_ours(json.dumps(said)) == clients.Said(7, 3.5, "2 status")


@pytest.mark.parametrize("client", clients.PEERS)
def test_what_is_not_understood_is_shown(client):
    with pytest.raises(ValueError, match=f"^{client}: nothing like .* in 'oh no'"):
        clients.READERS[client]("oh no")


# --- how they are run ---------------------------------------------------------------


def test_all_are_asked_for_the_same():
    plan = make_plan(connections=(8, 50), seconds=1.6)
    ours, wrk, ab = (
        clients.argv(plan, name, "127.0.0.1:7") for name in (OURS, "wrk", "ab")
    )
    assert wrk == ["wrk", "-t1", "-c8", "-d2s", "http://127.0.0.1:7/page"]
    assert ab[:5] == ["ab", "-q", "-k", "-c8", "-t2"]  # a later -t would undo -n
    assert ab[-1] == wrk[-1]
    told = dict(zip(ours[2::2], ours[3::2], strict=True))
    assert (told["--path"], told["--connections"]) == ("/page", "8")
    assert (told["--duration"], told["--warmup"]) == ("2", "0")


def test_cpu_time_is_that_of_the_process_wherever_it_is_spent():
    burn = (
        "import os, time\n"
        "while sum(os.times()[:2]) < 0.2: pass\n"
        "time.sleep(0.2)\n"
        "print(os.sched_getaffinity(0))"
    )
    core = cores.available()[-1]
    text, cpu_s = clients._run([sys.executable, "-c", burn], cores=(core,), timeout_s=9)
    assert text == f"{{{core}}}\n"
    assert 0.2 <= cpu_s < 0.35


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("import sys; sys.exit('no such page')", "exit 1: no such page"),
        ("import time; time.sleep(60)", "killed by SIGKILL"),
    ],
)
def test_a_client_that_fails_or_hangs_is_an_error(code, told):
    argv = [sys.executable, "-c", code]
    with pytest.raises(RuntimeError, match=told):
        clients._run(argv, cores=cores.available(), timeout_s=1)


# --- what is made of it -------------------------------------------------------------


def test_ratios_pair_rounds():
    found = runs(OURS, 1e-6, 1.1e-6, 1.2e-6) + runs("wrk", 2e-6, 2.2e-6, 2.4e-6)
    ratio = targets.ratio(found, OURS, "wrk", targets.CLIENT_COST)
    assert (ratio.lo, ratio.hi) == pytest.approx((0.5, 0.5))


def test_each_client_has_a_row_and_the_absent_say_so(capsys):
    found = runs(OURS, 4e-6, 4e-6) + runs("wrk", 5e-6, 5e-6, rate=80.0)
    rows = shown(found, capsys)
    assert rows["client"].split()[:4] == ["client", "100", "±0", "%"]
    assert "0.80 [0.80, 0.80]" in rows["wrk"]
    assert "1.25 [1.25, 1.25]" in rows["wrk"]
    assert rows["ab"].split() == ["ab", "not", "installed"]


def test_a_run_that_failed_takes_no_part_and_says_why(capsys):
    bad = [Spent(1, "wrk", failure="Socket errors")]
    rows = shown(runs(OURS, 4e-6, 4e-6) + runs("wrk", 8e-6) + bad, capsys)
    assert "0.50" in rows["wrk"]
    assert "1 of 2 failed" in rows["wrk"]


def test_nothing_is_shown_where_it_was_left_out(capsys):
    assert "load" not in shown([], capsys)


# --- real programs ------------------------------------------------------------------


def real_plan():
    pair = cores.split(cores.available())
    return make_plan(connections=(4,), rounds=1, cores=pair)


def peers_here():
    here = [name for name in clients.PEERS if shutil.which(name)]
    if not here:
        pytest.skip(f"none of {', '.join(clients.PEERS)} is installed")
    return here


@pytest.mark.serial
def test_all_that_are_installed_serve_a_round(build_dir):
    expected = {OURS, *peers_here()}
    found = clients.measure(real_plan())
    assert {run.client for run in found} == expected
    for run in found:
        assert run.failure is None, run
        # neither side can spend more than the core that it has
        for cost in (run.client_cpu_per_request_s, run.server_cpu_per_request_s):
            assert 0 < cost * run.throughput_rps < 1.2, run


@pytest.mark.serial
def test_a_page_that_is_not_there_fails_everybody(build_dir, monkeypatch):
    peers_here()
    monkeypatch.setattr(clients, "PAGE", "nowhere")
    failures = {run.client: run.failure for run in clients.measure(real_plan())}
    assert "status" in failures.pop(OURS)
    assert all("Non-2xx" in failure for failure in failures.values()), failures


@pytest.mark.serial
def test_the_kernel_and_ours_agree_on_what_ours_costs(build_dir):
    plan, host = real_plan(), LocalHost()
    with (
        clients.web_root() as root,
        clients._served(plan, host, root) as (_server, address),
    ):
        argv = clients.argv(plan, OURS, address)
        text, cpu_s = clients._run(argv, cores=plan.cores.client, timeout_s=30)
    told = json.loads(text)["self"]
    own_s = told["cpu_user_s"] + told["cpu_system_s"]
    assert own_s <= cpu_s + 1e-3
    assert cpu_s - own_s < 0.1  # to start, and to write the report
