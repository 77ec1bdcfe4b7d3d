"""A lab of network namespaces: a server, two clients, and what goes wrong there."""

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from connlab import drive, schema
from connlab.drive import cores, hosts_asked, procfs, programs, trials
from connlab.hosts import (
    carrier,
    certificates,
    checking,
    clock,
    lab,
    remote,
    remote_programs,
    roster,
)
from connlab.hosts.agent import LOOK_S
from connlab.hosts.group import HostGroup
from tests.conftest import connlab  # by this name, as scripts import this file
from tests.drive_fakes import manifest, measure, processes, programs_in, rows, running
from tests.labs import all_running, until, up

# Who dies, who is late and who is told are facts, which other sweeps do not change.
pytestmark = [
    pytest.mark.long,
    pytest.mark.sweeps,
    pytest.mark.usefixtures("network_namespaces"),
]
#: networks of tests, apart from those of who looks at a lab meanwhile
NUMBER, MANY = 178, 179
#: for tests that make one of the second number, of which there is one at a time
of_many = pytest.mark.xdist_group("hosts-many")


def setting(**factors) -> trials.Setting:
    common = {"model": "epoll", "workload": "echo", "connections": 20}
    common |= {"duration": 0.3, "warmup": 0.1} | factors
    chosen = cores.Cores((), (), shared=True)
    return trials.Setting(common, 1, chosen, programs.built())


@pytest.fixture(scope="module")
def three(tmp_path_factory) -> Iterator[lab.Lab]:
    with up(tmp_path_factory.mktemp("hosts") / "lab", NUMBER) as network:
        yield network


@pytest.fixture
def engine(three: lab.Lab) -> Iterator[carrier.Engine]:
    with carrier.Engine(roster.load(three.roster)) as connected:
        yield connected


def sides(engine: carrier.Engine) -> tuple[carrier.Server, HostGroup]:
    """Return the server's host, and those of clients, as the roster has them."""
    server = carrier.Server(engine, engine.roster.server)
    clients = [carrier.RemoteHost(engine, name) for name in engine.roster.clients]
    return server, HostGroup(clients, server)


@pytest.fixture
def hosts(engine: carrier.Engine) -> tuple[carrier.Server, HostGroup]:
    return sides(engine)


def run(hosts: tuple, **factors) -> trials.Outcome:
    server, clients = hosts
    return trials.run(setting(**factors), server_host=server, client_host=clients)


def set_link(network: lab.Lab, host: int, state: str) -> None:
    subprocess.run(["ip", "link", "set", network.link(host), state], check=True)


def later(condition, action) -> threading.Thread:
    def wait() -> None:
        until(condition)
        action()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread


@pytest.mark.serial
def test_a_trial_over_two_client_hosts_is_one_line(three, hosts):
    outcome = run(hosts)
    assert outcome.failure is None
    report = outcome.client.model_dump(by_alias=True)
    assert report["connections"]["established"] == 20
    assert outcome.server.ready.host == three.address(1)
    reports = [host["report"] for host in report["hosts"].values()]
    assert [r["connections"]["established"] for r in reports] == [10, 10]
    requests = sum(r["window"]["requests"] for r in reports)
    assert requests == report["window"]["requests"] == report["response"]["n"]
    begins = [host["window_ns"][0] for host in report["hosts"].values()]
    assert max(begins) - min(begins) < 1_000_000
    assert outcome.server.samples.cpu_system_s > 0
    assert outcome.files["timeline"]
    assert not all_running(three)


def test_each_server_has_a_port_that_no_client_is_given(three, hosts):
    """Also when clients on its own host hold, or held, all that they may have."""
    name = "/proc/sys/net/ipv4/ip_local_port_range"
    before = Path(name).read_text()

    def set_range(text: str) -> None:
        words = ["ip", "netns", "exec", three.space(1), "tee", name]
        subprocess.run(words, input=text.encode(), capture_output=True, check=True)

    ports = []
    try:
        set_range("50000 50001")
        for _ in range(3):
            outcome = run(hosts)
            assert outcome.failure is None
            ports.append(outcome.server.ready.port)
    finally:
        set_range(before)
    assert len(set(ports)) == 3
    assert all(port < int(before.split()[0]) for port in ports)


@pytest.mark.serial
def test_a_server_stands_still_in_the_middle_of_a_window(three, hosts):
    """However long clients took to agree on when it begins."""
    even = {"rate": 1000, "arrivals": "paced", "duration": 0.6}
    outcome = run(hosts, stall=200, **even)
    assert outcome.failure is None
    # of requests that are due evenly the hundredth that waits longest: 200 - 6 ms
    p99_ns = outcome.client.model_dump()["response"]["p99_ns"]
    assert p99_ns / 1e9 == pytest.approx(0.194, abs=0.02)
    assert outcome.server.stall.seconds == pytest.approx(0.2, abs=0.05)


def test_a_client_that_is_late_does_not_cost_the_others_their_lease(three):
    """Those that have reported are kept until the last has, and the row says why."""

    def halt() -> None:
        found = programs_in(three.space(3))
        pids = [pid for pid, name in found if name == "client"]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(3)
        for pid in pids:
            os.kill(pid, signal.SIGCONT)

    with carrier.Engine(roster.load(three.roster), lease_s=2.0) as engine:
        server, clients = sides(engine)

        def has_begun() -> bool:
            return bool(clients.begins_s) and time.monotonic() > clients.begins_s

        thread = later(has_begun, halt)
        outcome = run((server, clients), duration=1.0)
        thread.join()
    assert outcome.failure is None
    assert list(outcome.client.model_dump()["hosts"]) == ["h2", "h3"]
    assert not all_running(three)


def test_a_program_that_a_lease_ended_is_said_so(three, monkeypatch):
    """Its host answers, but has forgotten the program."""
    with carrier.Engine(roster.load(three.roster), lease_s=1.0) as engine:
        server, clients = sides(engine)
        merged = clients._merged

        def late() -> dict:
            time.sleep(3)
            return merged()

        monkeypatch.setattr(clients, "_merged", late)
        outcome = run((server, clients))
    assert outcome.failure.kind == "host-lost"
    assert "lease" in outcome.failure.reason


def test_a_worker_that_is_killed_is_a_reason_and_a_later_trial_works(
    three, monkeypatch
):
    """Its programs end with it, and others as soon as the driver has heard of it.

    None of them by the end of the lease, nor when a call was waited for in vain.
    """
    monkeypatch.setattr(carrier, "RETURN_S", 1.0)  # it does not return by itself
    took_s = []

    def kill() -> None:
        three.processes["h3"].kill()
        killed_s = time.monotonic()
        until(lambda: not all_running(three))
        took_s.append(time.monotonic() - killed_s)

    with carrier.Engine(roster.load(three.roster), lease_s=120.0) as engine:
        hosts = sides(engine)
        thread = later(lambda: running(three.space(3)), kill)
        outcome = run(hosts, duration=20)
        thread.join()
        assert outcome.failure.kind == "host-lost"
        assert "h3" in outcome.failure.reason
        assert took_s[0] < 2
        again = run(hosts)
        assert again.failure.kind == "host-lost"
        three.start_worker(3)
        until(lambda: "h3" in engine.workers())
        assert run(hosts).failure is None


def test_a_server_is_started_on_a_host_that_has_come_back(three, hosts):
    """Also by whoever does not ask all hosts for a sign before each trial."""
    server, _ = hosts
    three.processes["h1"].kill()
    assert run(hosts).failure.kind == "host-lost"
    until(lambda: "h1" not in server.engine.workers())
    three.start_worker(1)
    until(lambda: "h1" in server.engine.workers())
    assert run(hosts).failure is None


def test_a_link_that_is_down_for_two_seconds_delays(three, hosts):
    def flap() -> None:
        set_link(three, 2, "down")
        time.sleep(2)
        set_link(three, 2, "up")

    # all know when to begin: a host that hears of it late is another failure
    thread = later(lambda: hosts[1].begins_s, flap)
    outcome = run(hosts, duration=4, timeout=9)
    thread.join()
    if outcome.failure:  # it was not survived, and the row says why
        assert outcome.failure.kind == "host-lost"
        assert "h2" in outcome.failure.reason
    else:
        assert list(outcome.client.model_dump()["hosts"]) == ["h2", "h3"]
    until(lambda: not all_running(three))
    assert run(hosts).failure is None


@pytest.mark.parametrize("host", [1, 3])
def test_a_clock_that_drifts_fails_the_trial(three, hosts, monkeypatch, host):
    measured = clock.offset
    calls = []

    def drifting(address: str, port: int, token: bytes) -> clock.Offset:
        offset = measured(address, port, token)
        calls.append(address)
        ahead = 30_000_000 * (calls.count(three.address(host)) - 1)
        drifts = address == three.address(host)
        return clock.Offset(offset.ns + ahead * drifts, offset.bound_ns)

    monkeypatch.setattr(clock, "offset", drifting)
    outcome = run(hosts)
    assert outcome.failure.kind == "client-failed"
    assert f"clock of h{host}" in outcome.failure.reason


#: runs a trial of a minute over a lab, which it makes in a folder, or of a hosts.toml
DRIVER = """
import sys
from pathlib import Path
from connlab.drive import trials
from connlab.hosts import carrier, lab, roster
from tests.test_hosts_lab import MANY, setting, sides
path = Path(sys.argv[1])
if path.suffix != ".toml":
    made = lab.Lab(path, MANY)
    made.up(2, owned=True)
    path = made.roster
with carrier.Engine(roster.load(path)) as engine:
    server, clients = sides(engine)
    trials.run(setting(duration=60), server_host=server, client_host=clients)
"""


def test_a_driver_that_is_killed_leaves_no_process(three):
    driver = subprocess.Popen([sys.executable, "-c", DRIVER, str(three.roster)])
    try:
        until(lambda: sorted(all_running(three)) == ["client", "client", "server"])
    finally:
        driver.kill()
        driver.wait()
    until(lambda: not all_running(three))


def test_a_certificate_of_another_authority_is_refused(three, tmp_path):
    certificates.make(tmp_path)
    entries = roster.load(three.roster).model_copy(update={"certificates": tmp_path})
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with pytest.raises(OSError, match="certificate"):
            carrier.Engine(entries)
    assert len(os.listdir("/proc/self/fd")) <= before, "nobody goes on trying"


def test_a_link_that_stays_down_is_a_reason(three):
    later(lambda: running(three.space(2)), lambda: set_link(three, 2, "down"))
    try:
        with carrier.Engine(roster.load(three.roster), lease_s=3.0) as engine:
            hosts, began = sides(engine), time.monotonic()
            outcome = run(hosts, duration=20)
            took = time.monotonic() - began
            assert outcome.failure.kind == "host-lost"
            assert took < 20
            # nobody can tell this host to end its programs: its lease does
            until(lambda: not all_running(three))
    finally:
        set_link(three, 2, "up")


def test_a_check_tells_of_every_host_and_of_other_programs(
    engine, monkeypatch, tmp_path
):
    hosts, lost = checking.every(engine)
    assert [host.name for host in hosts] == ["h1", "h2", "h3"]
    assert not lost
    assert not any(host.problems for host in hosts)
    assert all(abs(host.offset.ns) <= host.offset.bound_ns for host in hosts)
    other = programs.Programs(("/bin/true",), (str(tmp_path / "client"),))
    (tmp_path / "client").write_text("here now")
    monkeypatch.setattr(programs, "built", lambda: other)
    assert checking.check(engine, "h2").problems == ()
    digests = {"server": "0" * 16, "client": "0" * 16}
    monkeypatch.setattr(programs.Programs, "digests", lambda self: digests)
    assert len(checking.check(engine, "h2").problems) == 2


@pytest.fixture
def sweep_lab(three: lab.Lab, monkeypatch: pytest.MonkeyPatch) -> Iterator[lab.Lab]:
    monkeypatch.setenv(hosts_asked.ROSTER, str(three.roster))
    yield three
    remote.connected(three.roster).engine.close()
    remote.connected.cache_clear()


def swept(root: Path, **changes) -> drive.SweepReport:
    options = {"duration": 0.2, "fixed": {"connections": 20}, "progress": True}
    options |= {"factors": {"model": ["epoll", "poll"]}}
    return measure(root, **options | changes)


def test_a_sweep_over_hosts_says_who_and_goes_on(sweep_lab, tmp_path, capsys):
    report = swept(tmp_path, beside="model")
    assert (report.done, report.failed) == (2, 0)
    assert re.search(r"\bh1\b.* h2, h3\b", capsys.readouterr().out)
    trials = rows(tmp_path)
    assert {row["server"]["ready"]["host"] for row in trials} == {sweep_lab.address(1)}
    for row in trials:
        assert row["turns"]["beside"] == 2
        assert list(row["client"]["hosts"]) == ["h2", "h3"]
        assert schema.flatten(row)["server_cpu_per_request_s"] > 0
    again = swept(tmp_path, beside="model")
    assert (again.done, again.resumed) == (0, 2)
    facts = manifest(tmp_path)
    environment = facts["environments"][trials[0]["environment"]]
    assert len(environment["clients"]) == 2
    assert sorted(facts["hosts"]) == ["h1", "h2", "h3"]


def test_trials_over_hosts_and_of_one_machine_do_not_mix(
    sweep_lab, tmp_path, monkeypatch
):
    swept(tmp_path)
    monkeypatch.delenv(hosts_asked.ROSTER)
    with pytest.raises(ValueError, match="^run: 'r'.*clients"):
        swept(tmp_path)


def test_a_cell_that_needs_one_machine_is_a_row_with_the_reason(sweep_lab, tmp_path):
    swept(tmp_path, factors={"model": ["epoll"], "together": [True, None]})
    kinds = {row["factors"]["together"]: row["failure"] for row in rows(tmp_path)}
    assert kinds[None] is None
    assert "core" in kinds[True]["reason"]


def test_a_host_that_is_lost_is_a_row_and_the_same_call_goes_on(
    sweep_lab, tmp_path, monkeypatch
):
    monkeypatch.setattr(carrier, "RETURN_S", 1.0)
    swept(tmp_path, factors={"model": ["epoll"]})  # agents are there

    def kill() -> None:
        sweep_lab.processes["h3"].kill()

    later(lambda: running(sweep_lab.space(3)), kill)
    models = {"model": ["epoll", "poll", "select"]}
    report = swept(tmp_path, factors=models, duration=3.0)
    assert "host h3" in report.stopped_because
    lost = [row["failure"] for row in rows(tmp_path) if row["failure"]]
    assert [failure["kind"] for failure in lost] == ["host-lost"]
    sweep_lab.start_worker(3)
    until(lambda: "h3" in remote.connected(sweep_lab.roster).engine.workers())
    report = swept(tmp_path, factors=models, duration=3.0)
    assert (report.done, report.resumed, report.failed) == (2, 1, 1)
    assert not all_running(sweep_lab)


@pytest.mark.parametrize(
    ("study", "parameters"),
    [
        (
            "response-time",
            "-p models [poll,epoll] -p connections [20] -p trials 2 -p duration 0.2"
            " -p accept [quiet]",
        ),
        ("doubts", "-p trials 2 -p duration 0.3 -p at [20] -p accept [quiet]"),
        ("intervals", "-p repetitions 10 -p twins 8"),
    ],
)
def test_a_notebook_measures_over_hosts(three, study, parameters):
    name = f"hosts-{os.getpid()}"
    words = ["notebook", study, "--profile", "smoke", "--run", name]
    words += ["--hosts", three.roster, *parameters.split()]
    folder = schema.run_folder(name)
    try:
        done = connlab(*words, timeout=170)
        assert done.returncode == 0, done.stderr[-2000:]
        assert re.search(r"\bh1\b.* h2, h3\b", done.stdout)
        assert (folder / study / "results.json").is_file()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    assert not all_running(three)


#: awaits its moment as a client does, has a window, and says when it began
WAITING = """
import sys, time
print('{"event": "connected"}', flush=True)
at = int(sys.stdin.readline()) / 1e9
time.sleep(max(0, at - time.monotonic()))
began = time.monotonic_ns()
time.sleep(0.3)
print('{"at": %d}' % began, flush=True)
"""


def begun(hosts: list[carrier.RemoteHost]) -> tuple[float, float]:
    """Let a program begin on all hosts at once; return their ms apart, and all s."""
    began_s = time.monotonic()
    words = [[sys.executable, "-S", "-E", "-c", WAITING]] * len(hosts)
    together = remote_programs.RemotePrograms()
    together.start_all(hosts, words, cores=(), files=())

    def lines() -> list[dict]:
        asked = [program.ask(20.0) for program in together.programs]
        calls = [replace(call, patience_s=30) for call in asked]
        return [call.result() for call in calls]

    events = {line["event"] for line in lines()}
    assert events == {remote_programs.EVENT}
    begins_s = together.schedule()
    reports = lines()
    took_s = time.monotonic() - began_s
    at_s = [
        (report["at"] - together.offsets[host.name].ns) / 1e9
        for host, report in zip(hosts, reports, strict=True)
    ]
    together.end_all(grace_s=1.0, wait_s=0)
    assert min(at_s) >= begins_s - 1e-3
    return 1e3 * (max(at_s) - min(at_s)), took_s


@pytest.mark.serial
def test_many_hosts_begin_together_and_report(tmp_path):
    """Workers without load, on a machine that others use: the best of several tries."""
    count, tries = 32, []
    with (
        up(tmp_path / "lab", MANY, count) as many,
        carrier.Engine(roster.load(many.roster)) as engine,
    ):
        names = [f"h{number}" for number in range(1, count + 1)]
        hosts = [carrier.RemoteHost(engine, name) for name in names]
        while len(tries) < 10 and not any(a < 5 and s < 3 for a, s in tries):
            tries.append(begun(hosts))
    assert any(apart_ms < 5 and took_s < 3 for apart_ms, took_s in tries), tries


def spent_s(pid: int) -> float:
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9


def shares(pids: dict[str, int], from_s: float, to_s: float) -> dict[str, float]:
    time.sleep(max(0.0, from_s - time.monotonic()))
    before, began_s = {n: spent_s(pid) for n, pid in pids.items()}, time.monotonic()
    time.sleep(max(0.0, to_s - time.monotonic()))
    after, ended_s = {n: spent_s(pid) for n, pid in pids.items()}, time.monotonic()
    return {n: (after[n] - before[n]) / (ended_s - began_s) for n in pids}


def plain_looks(seconds: float) -> float:
    """Return the share of a core that looks alone take, as often as an agent's."""
    began_s, before_s = time.monotonic(), time.thread_time()
    while time.monotonic() < began_s + seconds:
        procfs.processes(os.getpid())
        time.sleep(LOOK_S)
    return (time.thread_time() - before_s) / (time.monotonic() - began_s)


@pytest.mark.serial
def test_agents_leave_the_machine_to_what_is_measured(three, engine):
    """Less than 1 % of a core while a window is open, 0.2 % while nothing is asked.

    Others may be busy with the same pages and caches: the best of three tries. Where
    looks alone take a third of that or more, as many times more as these.
    """
    server, clients = sides(engine)
    pids = {host.name: host.facts["pid"] for host in (server, *clients.hosts)}
    open_, idle = [], []
    slow = 1.0

    def quiet(tries: list[dict[str, float]], most: float) -> bool:
        least = {n: min((t[n] for t in tries), default=1) for n in pids}
        return all(share < slow * most for share in least.values())

    while len(open_) < 3 and not (quiet(open_, 0.01) and quiet(idle, 0.002)):
        used: dict[str, float] = {}
        clients.begins_s = None

        def watch(used=used) -> None:
            until(lambda: clients.begins_s)
            begins_s = clients.begins_s + 0.1  # the warm-up
            used |= shares(pids, begins_s, begins_s + 3)

        thread = threading.Thread(target=watch)
        thread.start()
        outcome = run((server, clients), duration=3.0, rate=2000)
        thread.join()
        assert outcome.failure is None
        counted = outcome.server.stats
        per_request_s = (counted.cpu_user_s + counted.cpu_system_s) / counted.requests
        sampled = outcome.server.samples
        requests = outcome.client.window["requests"]
        seen_s = (sampled.cpu_user_s + sampled.cpu_system_s) / requests
        assert seen_s == pytest.approx(per_request_s, rel=0.15)
        now_s = time.monotonic()
        open_.append(used)
        idle.append(shares(pids, now_s + 0.5, now_s + 3.5))
        slow = max(slow, 300 * plain_looks(1))
    assert quiet(open_, 0.01), (slow, open_)
    assert quiet(idle, 0.002), (slow, idle)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "x", disk], check=True)
    yield disk
    subprocess.run(["umount", disk], check=True)


@of_many
def test_a_full_disk_of_the_hosts_costs_no_trial(small_disk):
    """What programs write lies in memory until it is handed over."""
    with up(small_disk / "lab", MANY, owned=False) as small:
        with contextlib.suppress(OSError), (small_disk / "full").open("wb", 0) as full:
            while True:
                full.write(b"0" * 4096)
        assert not shutil.disk_usage(small_disk).free
        with carrier.Engine(roster.load(small.roster)) as engine:
            outcome = run(sides(engine))
    assert outcome.failure is None
    assert outcome.files["timeline"]
    assert outcome.client.model_dump(by_alias=True)["response"]["n"] > 0


#: by how many seconds clocks of hosts are ahead of ours
AHEAD_S = {"h1": 300, "h2": 1000, "h3": 50_000}


@pytest.fixture
def far_apart(tmp_path, monkeypatch: pytest.MonkeyPatch) -> Iterator[carrier.Engine]:
    """Yield hosts in time namespaces: each seems to have booted at another time."""
    if subprocess.run(["unshare", "--time", "true"], check=False).returncode:
        pytest.skip("no time namespaces")
    start = lab.Lab._start

    def start_ahead(self, name: str, prefix: list[str], *words) -> None:
        if prefix:  # not the scheduler
            ahead = ["--time", "--monotonic", str(AHEAD_S[name])]
            prefix = [*prefix, "unshare", "--fork", "--kill-child", *ahead]
        start(self, name, prefix, *words)

    monkeypatch.setattr(lab.Lab, "_start", start_ahead)
    with (
        up(tmp_path / "lab", MANY) as network,
        carrier.Engine(roster.load(network.roster)) as engine,
    ):
        yield engine


@pytest.mark.serial
def test_hosts_whose_clocks_are_far_apart_measure_as_one(far_apart, tmp_path):
    """All times that are told to a host, or come from one, are converted."""
    server, clients = sides(far_apart)
    outcome = run((server, clients), duration=1.0)
    assert outcome.failure is None
    for name, host in outcome.client.model_dump(by_alias=True)["hosts"].items():
        assert abs(host["offset_ns"] - 1e9 * AHEAD_S[name]) <= host["bound_ns"]
        assert 0 < time.monotonic() - host["window_ns"][1] / 1e9 < 30
    sampled, counted = outcome.server.samples, outcome.server.stats
    assert sampled.window_s == pytest.approx(1.0, abs=0.01)
    per_request_s = (counted.cpu_user_s + counted.cpu_system_s) / counted.requests
    seen_s = sampled.cpu_user_s + sampled.cpu_system_s
    requests = outcome.client.window["requests"]
    assert seen_s / requests == pytest.approx(per_request_s, rel=0.25)
    places = remote.RemoteHosts(far_apart, far_apart.roster.clients)
    assert swept(tmp_path, beside="model", location=places).failed == 0
    assert all(row["turns"]["round"] for row in rows(tmp_path))


def state() -> set[str]:
    words = (["ip", "-br", "link"], ["ip", "netns", "list"])
    done = [subprocess.run(w, capture_output=True, text=True).stdout for w in words]
    return {ln for ln in "".join(done).splitlines() if f"{MANY}" in ln.split()[0]}


def with_word(word: Path) -> list[int]:
    return [pid for pid, line, _ in processes() if os.fsencode(word) in line]


@of_many
@pytest.mark.parametrize("late", [True, False])
def test_a_lab_goes_down_with_an_owner_that_is_killed(tmp_path, late):
    """While a trial runs, and while the lab is being made."""
    folder = tmp_path / "owned"
    small = lab.Lab(folder, MANY)
    owner = subprocess.Popen([sys.executable, "-c", DRIVER, str(folder)])
    try:
        if late:
            until(lambda: folder.exists() and len(state()) == 5)
            until(lambda: running(small.space(1)) and running(small.space(2)))
        else:
            until(lambda: len(state()) >= 3)
    finally:
        owner.kill()
        owner.wait()
    with up(tmp_path / "again", MANY, 2):  # waits until the other is down
        assert not with_word(folder)
        assert len(state()) == 5
        time.sleep(1)  # and nobody takes this one down
        assert len(state()) == 5
    assert not state()
    assert not folder.exists()


@of_many
def test_a_lab_whose_scheduler_cannot_listen_says_why(tmp_path, monkeypatch):
    """As where another scheduler of Dask has the port on all addresses."""
    with socket.create_server(("", 0)) as taken:
        monkeypatch.setattr(lab, "PORT", taken.getsockname()[1])
        with pytest.raises(RuntimeError, match="^scheduler ended: .*already in use"):
            lab.Lab(tmp_path / "lab", MANY).up(2)
    assert not state()


@of_many
def test_a_lab_whose_certificates_cannot_be_written_leaves_its_number(
    tmp_path, monkeypatch
):
    """Its keeper held that, and whoever tried again waited for ten minutes in vain."""
    made = lab.Lab(tmp_path / "lab", MANY)

    def fail(folder: Path) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(certificates, "make", fail)
    with pytest.raises(OSError, match="no space left"):
        made.up(2, owned=True)
    assert made.keeper is None
    monkeypatch.setattr(lab, "_WAIT_S", 0.0)
    os.close(lab._locked(MANY))


@of_many
def test_a_lab_takes_the_place_of_one_of_another_folder_and_leaves_nothing(tmp_path):
    """As `make lab` does in a second clone of the project: it has the same number."""
    lab.Lab(tmp_path / "one", MANY).up(2)
    with up(tmp_path / "other", MANY, 2) as other:
        assert not with_word(tmp_path / "one")
        assert len(state()) == 5  # a bridge, two links, two namespaces
        pids = [*(p.pid for p in other.processes.values()), other.keeper.pid]
    assert not state()
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]
    assert not other.folder.exists()
