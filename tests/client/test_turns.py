"""Several targets in turns: slices, rounds, whose turn it is, what is counted."""

import contextlib
import itertools
import json
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pandas as pd
import psutil
import pytest
from conftest import ran

from tests.client.harness import (
    SERVER,
    SLICE_S,
    FakeServer,
    client,
    echo,
    errors,
    in_turns,
    reserved_port,
    serving,
    sockets,
    started,
    wait_for,
)
from tests.conformance.harness import SLOWER


@contextlib.contextmanager
def servers(
    count: int, server: str = "epoll"
) -> Iterator[tuple[list[subprocess.Popen], list[int]]]:
    with contextlib.ExitStack() as stack:
        each = [started(SERVER, *server.split()) for _ in range(count)]
        pairs = [stack.enter_context(one) for one in each]
        yield [process for process, _ in pairs], [port for _, port in pairs]


def watching(processes: list[subprocess.Popen]) -> str:
    return " ".join(f"--watch {process.pid}" for process in processes)


@pytest.fixture
def take_turns(tmp_path):
    """Run the client on so many servers, or ports; return its result and its slices.

    `during` is called while it runs, with it, its servers and the file of its slices.
    """
    path = tmp_path / "slices.csv"

    def take(
        targets: int | list[int],
        *flags: object,
        server: str = "epoll",
        watch: bool = False,
        during: Callable | None = None,
    ) -> tuple[dict, pd.DataFrame]:
        count = targets if isinstance(targets, int) else 0
        with servers(count, server) as (processes, ports):
            watched = watching(processes) if watch else ""
            words = in_turns(ports or targets, *flags, watched, "--slices", path)
            with begun(words) as client:
                if during:
                    during(client, processes, path)
                result = json.loads(client.communicate(timeout=60)[0])
        assert client.returncode == 0
        return result, pd.read_csv(path)

    return take


def wrote_rounds(path: Path) -> None:
    """Wait until some rounds were written."""
    wait_for(lambda: path.exists() and path.read_text().count("\n") > 10)


def of_target(slices: pd.DataFrame, target: int) -> pd.DataFrame:
    return slices[(slices["target"] == target) & (slices["counted"] == 1)]


def by_target(result: dict, slices: pd.DataFrame) -> list[tuple[dict, pd.DataFrame]]:
    """Return the targets, each with those of its slices that count."""
    return [(t, of_target(slices, i)) for i, t in enumerate(result["targets"])]


def clocks_s(slices: pd.DataFrame) -> float:
    """Return the CPU time that servers took in slices, and between them."""
    return slices[["server_cpu_ns", "rest_cpu_ns"]].sum().sum() / 1e9


def add_up(slices: pd.DataFrame, target: dict) -> None:
    assert len(slices) == target["slices"]["counted"]
    window = target["window"]
    assert slices["requests"].sum() == window["requests"]
    assert slices["bytes"].sum() == window["bytes"]
    assert slices["seconds"].sum() == pytest.approx(window["seconds"])
    probed, waiting = slices["probed"].sum(), slices["waiting"].sum()
    share = pytest.approx(waiting / probed, abs=1e-4) if probed else None
    assert target["self"]["waiting_share"] == share


@pytest.mark.parametrize("more", ["", "--threads 2", "--processes 2"])
def test_slices_add_up_to_the_totals(take_turns, engine, more):
    flags = f"--connections 10 --duration 0.5 --warmup 0.2 {engine} {more}"
    result, slices = take_turns(3, flags)
    assert result["rounds"] >= 2
    assert result["warmup_rounds"] >= 1
    assert result["stop"] == "duration"
    for number, (target, counted) in enumerate(by_target(result, slices)):
        add_up(counted, target)
        assert len(counted) == result["rounds"]
        assert target["response"]["n"] == target["window"]["requests"] > 0
        lead_in = counted["lead_in_requests"].sum()
        assert lead_in == target["slices"]["lead_in_requests"]
        every = slices[slices["target"] == number]
        assert target["slices"]["warmup"] == len(every) - len(counted)
        requests = every[["requests", "lead_in_requests"]].sum().sum()
        assert requests == target["requests"]["completed"]
        assert not errors(target)
        assert target["connections"]["surviving"] == 10
        assert counted["seconds"].min() >= SLICE_S - 0.001 - 1e-6
        assert counted["slice_seconds"].min() >= SLICE_S


@pytest.mark.parametrize("more", ["", "--threads 2", "--processes 2"])
@pytest.mark.parametrize("users", [50, 1000, 2000])
def test_a_slice_is_steady_for_many_users(take_turns, engine, users, more):
    """All wait for an answer most of the time, and all are asked more than once."""
    flags = f"--connections {users} --duration 0.5 --warmup 0 {more} {engine}"
    result, slices = take_turns(2, flags, watch=True)
    for target, counted in by_target(result, slices):
        answers = counted["lead_in_requests"] + counted["requests"]
        longest = counted["slice_seconds"] >= 25 * SLICE_S
        assert (longest | (answers >= 8 * users)).all()
        assert answers.min() >= 2 * users
        waiting = counted["response_ns"] / 1e9 / counted["seconds"]
        assert waiting.median() >= 0.5 * users  # one slice may hold a stall
        assert target["connections"]["surviving"] == users


def test_all_users_ask_who_connect_for_each_request(take_turns, engine):
    """Those whose answers came first connected again, and others never had room."""
    users = 2500
    flags = f"--connections {users} --requests-per-connection 1 --workload http"
    result, slices = take_turns(
        1, f"{flags} --duration 1.5 --warmup 0 {engine}", server="epoll --workload http"
    )
    (target,) = result["targets"]
    waiting = slices["response_ns"] / 1e9 / slices["seconds"]
    assert waiting.median() >= 0.5 * users  # 0.2 to 0.4 of them did
    assert target["fairness"]["requests_min"] >= 1


def test_a_lone_user_is_counted_for_as_long_as_its_answers_take(take_turns, engine):
    """The answer under way at the end of the lead-in made its rate too high."""
    flags = f"--connections 1 --slice 2ms --duration 1.5 --warmup 0.1 {engine}"
    _, slices = take_turns(2, flags)
    counted = slices[slices["counted"].eq(1) & slices["requests"].gt(0)]
    assert len(counted) > 50
    assert counted["seconds"].sum() == pytest.approx(
        counted["response_ns"].sum() / 1e9, rel=1e-3
    )


def test_a_lone_user_who_fails_is_counted_for_the_slice(take_turns, engine):
    """Its pauses after failures were in no answer, and its rate was twelve times it."""
    visits = itertools.count()

    def every_other(connection: socket.socket, server: FakeServer) -> None:
        if next(visits) % 2 == 0:
            echo(connection, server)

    flags = f"--connections 1 --requests-per-connection 1 --duration 0.5 {engine}"
    with serving(every_other) as server:
        _, slices = take_turns([server.port], flags)
    counted = slices[slices["counted"].eq(1)]
    assert counted["errors"].sum() > 10
    assert counted["requests"].sum() > 10
    assert counted["seconds"].sum() > 0.9 * counted["slice_seconds"].sum()


def test_a_slice_waits_for_answers_twenty_five_times_its_length_at_most(take_turns):
    flags = "--connections 1 --workload work --delay fixed:400ms --duration 0.5"
    _, slices = take_turns(1, flags, server="thread --workload work")
    assert set(slices["lead_in_requests"] + slices["requests"]) == {2}
    assert slices["slice_seconds"].min() >= 0.8
    assert slices["slice_seconds"].max() < 25 * SLICE_S + 0.7  # a third answer


@pytest.mark.serial  # the server never sleeps
def test_a_slice_begins_when_its_users_do(take_turns):
    """Between slices the client waits for servers to sleep, which this one never does.

    With one answer a slice, each of them would hold that wait if its user began before.
    One server: two would take both cores from the client.
    """
    flags = "--workload work --delay fixed:5ms --slice 4ms --duration 2"
    server = "epoll --workload work --busy-wait"
    result, _ = take_turns(1, flags, server=server, watch=True)
    (target,) = result["targets"]
    assert target["response"]["n"] > 20
    assert target["response"]["min_ns"] < 5.5e6  # 0.6 ms of looks at least


def test_every_round_has_each_target_once(take_turns):
    """Orders are shuffled by the seed: equal for one seed, different for two."""
    orders = []
    for seed in (1, 1, 2):
        _, slices = take_turns(3, f"--duration 0.9 --warmup 0 --seed {seed}")
        rounds = slices.groupby("round")
        assert (slices["position"] == rounds.cumcount()).all()
        orders.append(rounds["target"].agg(tuple).tolist())
    assert all(sorted(order) == [0, 1, 2] for run in orders for order in run)
    few = min(map(len, orders))
    assert few > 5
    assert orders[0][:few] == orders[1][:few]
    assert orders[0][:few] != orders[2][:few]
    assert len(set(orders[0])) > 2


def test_one_asks_while_the_others_rest(take_turns, engine):
    """In the order of time, requests change servers as often as slices do."""
    asked: list[int] = []

    def note(connection: socket.socket, server: FakeServer) -> None:
        while data := connection.recv(65536):
            asked.append(server.port)
            connection.sendall(data)

    with serving(note) as a, serving(note) as b:
        flags = f"--connections 4 --duration 0.6 --warmup 0 {engine}"
        result, slices = take_turns([a.port, b.port], flags)
    for server, target in zip((a, b), result["targets"], strict=True):
        assert asked.count(server.port) == target["requests"]["completed"] > 50
    assert changes(asked) == changes(slices["target"]) > 10


def changes(order: Iterable[int]) -> int:
    return sum(one != other for one, other in itertools.pairwise(order))


@pytest.mark.parametrize("lead_in", ["0", "5ms"])
def test_the_lead_in_is_counted_apart(take_turns, lead_in):
    flags = f"--connections 2 --duration 0.8 --warmup 0 --lead-in {lead_in}"
    result, slices = take_turns(2, flags)
    lead_in_s = 0 if lead_in == "0" else 0.005
    assert result["lead_in_s"] == lead_in_s
    slices = of_target(slices, 0)
    requests, apart = slices["requests"].sum(), slices["lead_in_requests"].sum()
    assert requests > 0
    left_out_s = slices["slice_seconds"] - slices["seconds"]
    assert (left_out_s - lead_in_s).abs().max() <= 1e-6
    share = apart / (apart + requests)
    assert 0.1 < share < 0.4 if lead_in_s else share == 0


@pytest.mark.sweeps
@pytest.mark.parametrize("more", ["", "--processes 3"])
def test_targets_may_have_other_numbers_of_users(take_turns, engine, more):
    users = [3, 200, 40]
    flags = f"--connections 3,200,40 {engine} {more}"
    result, _ = take_turns(3, flags, "--active 2")
    for i, target in enumerate(result["targets"]):
        assert target["connections"]["asked"] == users[i]
        assert target["connections"]["established"] == users[i]
        assert target["active"] == 2
        assert target["window"]["requests"] > 0
        assert not any(errors(target).values())
    everybody, _ = take_turns(3, flags)
    for i, target in enumerate(everybody["targets"]):
        assert target["active"] == users[i]
        assert target["fairness"]["users"] == users[i]


@pytest.mark.sweeps
@pytest.mark.parametrize("more", ["", "--rate 500 --late 0.2ms"])
def test_a_thread_may_have_no_user_of_a_target(take_turns, engine, more):
    """Then it has no row of one either (test_sanitizers sees who reads it)."""
    result, _ = take_turns(2, f"--connections 9,2 --threads 4 {engine} {more}")
    for target, users in zip(result["targets"], [9, 2], strict=True):
        assert target["connections"]["surviving"] == users
        assert target["window"]["requests"] > 0


@pytest.mark.serial
def test_equal_servers_get_equal_figures(take_turns):
    _, slices = take_turns(2, "--connections 20 --duration 4 --warmup 1", watch=True)
    a, b = (of_target(slices, number).reset_index() for number in (0, 1))
    assert len(a) == len(b) > 30
    rate = [of["requests"] / of["seconds"] for of in (a, b)]
    requests = [of["requests"] + of["lead_in_requests"] for of in (a, b)]
    cpu = [of["server_cpu_ns"] / n for of, n in zip((a, b), requests, strict=True)]
    assert (rate[0] / rate[1]).median() == pytest.approx(1, abs=0.2)
    assert (cpu[0] / cpu[1]).median() == pytest.approx(1, abs=0.1 * SLOWER)


@pytest.mark.parametrize("model", ["epoll", "thread", "prefork", "uring"])
def test_cpu_time_agrees_with_another_way_to_read_it(take_turns, model):
    with servers(2, model) as (processes, ports):
        families = [psutil.Process(process.pid) for process in processes]
        before = list(map(cpu_s, families))
        members = 1 + len(families[0].children())
        flags = "--connections 4 --duration 1 --warmup 0"
        _, slices = take_turns(ports, flags, watching(processes))
        after = list(map(cpu_s, families))
    near = {"rel": 0.05, "abs": 0.02 * members + 0.02}
    for number in range(2):
        used_s = after[number] - before[number]
        assert clocks_s(of_target(slices, number)) == pytest.approx(used_s, **near)


def cpu_s(process: psutil.Process) -> float:
    """Read the time of a process and its children, as /proc/PID/stat has it."""
    with contextlib.suppress(psutil.NoSuchProcess):
        family = [process, *process.children(recursive=True)]
        return sum(sum(p.cpu_times()[:2]) for p in family)
    return 0.0


def test_children_that_ended_keep_their_time(take_turns):
    """A child per connection, a connection per request: they are gone at the end."""
    times = []

    def look_at_the_end(client, processes, path):
        client.wait()
        times.extend(psutil.Process(process.pid).cpu_times() for process in processes)

    flags = "--connections 4 --requests-per-connection 1 --duration 1"
    look = {"watch": True, "during": look_at_the_end}
    _, slices = take_turns(2, flags, server="fork", **look)
    for number, time_s in enumerate(times):
        every = slices[slices["target"] == number]
        assert time_s.children_user + time_s.children_system > 0.05
        assert clocks_s(every) == pytest.approx(sum(time_s[:4]), rel=0.1, abs=0.05)


@pytest.mark.parametrize("more", ["", "--threads 2"])
def test_a_target_that_dies_ends_its_own_slices(take_turns, engine, more):
    def kill_second(client, processes, path):
        wrote_rounds(path)
        processes[1].kill()

    flags = f"--connections 6 --duration 1.2 {engine} {more}"
    result, slices = take_turns(2, flags, watch=True, during=kill_second)
    alive, dead = result["targets"]
    assert result["stop"] == alive["stop"] == "duration"
    assert not errors(alive)
    assert alive["slices"]["ended_early"] is None
    assert dead["stop"] == "server_gone"
    assert sum(errors(dead).values()) == 6
    ended = dead["slices"]["ended_early"]
    assert ended["reason"] == "gone"
    rounds = slices.loc[slices["target"] == 1, "round"]
    assert ended["round"] - rounds.iloc[-1] in (0, 1)
    assert slices["round"].iloc[-1] > ended["round"] + 3
    assert slices["target"].iloc[-1] == 0


@pytest.mark.parametrize("more", ["", "--threads 2"])
def test_a_target_that_hangs_is_given_up(take_turns, engine, more):
    """It answers 40 requests and then keeps silent, its connections open."""

    def mute(connection: socket.socket, server: FakeServer) -> None:
        while data := connection.recv(65536):
            server.count(data)
            if server.bytes_in < 40 * 64:
                connection.sendall(data)

    with serving(echo) as well, serving(mute) as hung:
        flags = f"--connections 4 --duration 1 --drain 0.3 --warmup 0 {engine} {more}"
        result, slices = take_turns([well.port, hung.port], flags)
    alive, dead = result["targets"]
    assert not errors(alive)
    assert alive["stop"] == "duration"
    ended = dead["slices"]["ended_early"]
    assert ended["reason"] == "hung"
    assert set(errors(dead)) == {"timeout"}
    assert dead["connections"]["surviving"] == 0
    slices = slices[slices["target"] == 1]
    assert slices["round"].iloc[-1] == ended["round"]
    assert slices["ended"].dropna().tolist() == ["hung"]
    assert alive["slices"]["counted"] > 10


def test_what_a_warm_up_left_unanswered_is_not_missing_in_a_window(take_turns):
    """The target hung before anything counted, and so nothing is missing."""

    def mute(connection: socket.socket, server: FakeServer) -> None:
        while data := connection.recv(65536):
            server.count(data)

    with serving(mute) as hung:
        flags = "--connections 4 --rate 2000 --arrivals paced --drain 0.2 --warmup 5"
        result, slices = take_turns([hung.port], flags)
    (target,) = result["targets"]
    assert slices["ended"].tolist() == ["hung"]
    assert target["requests"]["unanswered"] > 0
    assert target["window"]["arrivals"] == target["window"]["unanswered"] == 0
    assert target["response"]["p50_ns"] == 0
    assert target["fairness"]["longest_wait_ns"] == 0


def test_users_of_a_target_that_ended_in_the_warm_up_had_nothing(take_turns, tmp_path):
    """No slice of it counts: its users made no requests, and waited for none."""

    def mute(connection: socket.socket, server: FakeServer) -> None:
        while data := connection.recv(65536):
            server.count(data)
            if server.bytes_in < 40 * 64:
                connection.sendall(data)

    users = tmp_path / "users.csv"
    with serving(mute) as hung:
        flags = "--connections 4 --drain 0.2 --warmup 5 --per-connection"
        result, _ = take_turns([hung.port], flags, users)
    (target,) = result["targets"]
    assert target["requests"]["completed"] > 0
    fairness = target["fairness"]
    assert (fairness["requests_max"], fairness["longest_wait_ns"]) == (0, 0)
    assert set(pd.read_csv(users)["longest_wait_ns"]) == {0}


def test_who_loses_a_connection_while_its_target_rests_is_back_at_once(take_turns):
    """The server closes what is idle for 0.15 s; the target rests for up to 0.4 s."""

    def impatient(connection: socket.socket, server: FakeServer) -> None:
        connection.settimeout(0.15)
        echo(connection, server)

    with serving(impatient) as first, serving(echo) as second, serving(echo) as third:
        ports = [server.port for server in (first, second, third)]
        flags = "--slice 100ms --connections 2 --requests-per-connection 1000000"
        result, slices = take_turns(ports, flags, "--duration 3")
    lost = errors(result["targets"][0])
    assert sum(lost.values()) > 4
    assert set(lost) <= {"closed", "reset"}
    long = slices.loc[slices["target"] == 0, "slice_seconds"] > 0.14
    assert long.sum() <= 1


def test_arrivals_wait_for_a_user_who_pauses_in_its_own_turns_only(
    take_turns, tmp_path
):
    """Seven failures in a row take 127 ms, and so four slices, 0.4 s apart."""

    def at_last(connection: socket.socket, server: FakeServer) -> None:
        if len(server.peers) > 7:
            echo(connection, server)
        connection.recv(64)

    users = tmp_path / "users.csv"
    with serving(at_last) as server:
        flags = "--begin-told --slice 30ms --pause 370ms --duration 0.3 --warmup 0"
        flags += " --rate 300 --arrivals paced --requests-per-connection 1000000"
        flags += f" --per-connection {users}"
        result, _ = take_turns([server.port], flags, during=tell_soon)
    (target,) = result["targets"]
    assert sum(errors(target).values()) == 7
    (user,) = pd.read_csv(users).itertuples()
    assert user.requests > 60
    assert user.mean_response_ns < 100e6


@pytest.mark.parametrize("settle", ["", "--settle 2"])
@pytest.mark.parametrize("first", [True, False])
def test_a_target_that_refuses_is_reported(take_turns, engine, settle, first):
    """It is given up alone, in a run that lets its users settle as well."""
    order = slice(None, None, 1 if first else -1)
    with servers(1) as (_, (port,)), reserved_port() as closed:
        flags = f"--connections 3 --duration 0.3 {settle} {engine}"
        result, slices = take_turns([closed, port][order], flags)
    assert set(slices["target"]) == {1 if first else 0}
    refused, served = result["targets"][order]
    assert refused["slices"]["ended_early"] == {"round": 0, "reason": "refused"}
    assert errors(refused) == {"connect_refused": 3}
    assert refused["window"]["requests"] == 0
    assert refused["stop"] == "server_gone"
    assert served["window"]["requests"] > 100
    assert served["slices"]["ended_early"] is None


def test_who_pauses_as_settling_ends_pauses_no_longer_in_turns(take_turns):
    """Nine failures in a row take 0.5 s: the target's part of the time to settle."""

    def at_last(connection: socket.socket, server: FakeServer) -> None:
        if len(server.peers) > 9:
            echo(connection, server)
        connection.recv(64)

    with serving(at_last) as first, serving(echo) as second:
        flags = "--settle 1 --duration 0.5 --requests-per-connection 1000000"
        result, slices = take_turns([first.port, second.port], flags)
    assert sum(errors(result["targets"][0]).values()) == 9
    own = slices.loc[slices["target"] == 0, ["lead_in_requests", "requests"]]
    assert (own.sum(axis=1) > 0).all()


@pytest.mark.parametrize("order", range(1, 4))
def test_a_connect_since_settling_keeps_no_other_target_from_its_end(take_turns, order):
    """A server leaves its only user, who tries to come back, before a full backlog."""
    others: list[socket.socket] = []

    def leave(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(64)
            for _ in range(4):
                others.append(socket.socket())
                others[-1].setblocking(False)
                others[-1].connect_ex(listener.getsockname())

    with (
        socket.create_server(("127.0.0.1", 0), backlog=1) as full,
        serving(echo) as second,
        serving(echo) as third,
    ):
        threading.Thread(target=leave, args=(full,), daemon=True).start()
        ports = [full.getsockname()[1], second.port, third.port]
        flags = "--settle 0.6 --duration 0.3 --drain 0.3 --connect-timeout 60"
        flags += f" --requests-per-connection 1000000 --order {order}"
        result, _ = take_turns(ports, flags)
    for other in others:
        other.close()
    left, *well = result["targets"]
    assert result["stop"] == "duration"
    assert left["slices"]["ended_early"]["reason"] == "hung"
    for target in well:
        assert target["slices"]["ended_early"] is None
        assert not errors(target)


def test_a_target_that_found_no_descriptors_is_reported():
    """A limit of the client is none of the server's doing."""
    with servers(2) as (_, ports):
        words = in_turns(ports, "--connections 20 --duration 0.2")
        done = ran("sh", "-c", 'ulimit -n 20; exec "$@"', "sh", *words)
    assert "--connections 20 " in done.stderr
    assert "2 targets" in done.stderr
    served, left_out = json.loads(done.stdout)["targets"]
    assert served["slices"]["ended_early"] is None
    assert left_out["slices"]["ended_early"] == {"round": 0, "reason": "unconnected"}
    assert set(errors(left_out)) <= {"descriptors"}
    assert left_out["limits"]["descriptors"] == 20


def test_nobody_there_is_a_result():
    with reserved_port() as closed:
        result = client(closed, f"127.0.0.1:{closed} --slice 20ms")
    assert result["stop"] == "server_gone"
    assert result["rounds"] == 0


@pytest.mark.parametrize("more", ["", "--threads 2", "--processes 2"])
@pytest.mark.parametrize("arrivals", ["poisson", "paced"])
def test_all_of_the_rate_goes_to_the_slices_target(take_turns, arrivals, more):
    """Every target gets the rate in its slices, and the same arrivals as the others."""
    rate = 4000
    flags = f"--connections 8 --rate {rate} --arrivals {arrivals}"
    flags += f" --duration 1 --warmup 0.1 --lead-in 0 {more}"
    result, every = take_turns(2, flags)
    for target, slices in by_target(result, every):
        due = rate * SLICE_S * len(slices)
        spread = 2 if arrivals == "paced" else 4 * due**0.5
        assert target["loop"] == "open"
        assert abs(target["window"]["arrivals"] - due) <= spread + len(slices)
        assert target["window"]["unanswered"] == 0
        assert target["response"]["n"] == target["window"]["arrivals"]
        assert slices["requests"].sum() == target["window"]["arrivals"]
        if arrivals == "paced":
            assert (slices["requests"] - rate * SLICE_S).abs().max() <= 2
    a, b = (of_target(every, number)["requests"].tolist() for number in (0, 1))
    assert a == b


def stand_still(client: subprocess.Popen, _: object, path: Path) -> None:
    wrote_rounds(path)
    for _ in range(5):
        client.send_signal(signal.SIGSTOP)
        time.sleep(0.05)
        client.send_signal(signal.SIGCONT)
        time.sleep(0.1)


@pytest.mark.parametrize("more", ["", "--threads 2"])
def test_a_slice_in_which_the_client_was_late_is_repeated(take_turns, more):
    """The client stands still for 50 ms, five times: that is not the servers' doing."""
    flags = f"--connections 8 --rate 4000 --late 2ms {more} --duration 1.5 --warmup 0.1"
    result, slices = take_turns(2, flags, during=stand_still)
    late = slices[slices["late"] == 1]
    assert result["repeated"] >= 3
    # on a busy machine the time for that ends, and whole rounds are set aside
    assert len(late) == result["repeated"] + 2 * result["late_rounds"]
    assert (late["counted"] == 0).all()
    for row in late.itertuples():  # its target's turn comes again, in the same round
        again = slices[(slices["round"] == row.round) & (slices["counted"] == 1)]
        if again.empty and result["late_rounds"] > 0:
            continue
        assert sorted(again["target"]) == [0, 1]
        (position,) = again.loc[again["target"] == row.target, "position"]
        assert position > row.position
    for number, (target, counted) in enumerate(by_target(result, slices)):
        add_up(counted, target)
        assert len(counted) == result["rounds"] > 0
        assert target["slices"]["late"] == (late["target"] == number).sum()
        assert target["response"]["n"] == target["window"]["arrivals"]
        p99_ns = counted["response_p99_ns"]
        assert (counted["response_ns"] / counted["requests"] < p99_ns).all()
        assert p99_ns.max() <= target["response"]["max_ns"] * 1.005
        mean_ns = counted["response_ns"].sum() / target["response"]["n"]
        assert target["response"]["mean_ns"] == pytest.approx(mean_ns, abs=1)
        assert target["fairness"]["longest_wait_ns"] == target["response"]["max_ns"]


def test_a_client_that_is_always_late_does_not_go_on_for_ever(take_turns):
    """Slices are repeated for --duration; then one counts, and the lag says how."""
    flags = "--connections 8 --rate 4000 --late 0.001ms"
    flags += " --duration 0.5 --warmup 0 --spin 0"
    began = time.monotonic()
    result, _ = take_turns(1, flags)
    assert result["repeated"] > 0
    assert result["late_rounds"] > 0
    assert result["rounds"] > 0
    assert time.monotonic() - began < 30


def test_lag_is_late_only_beside_how_long_answers_take(take_turns):
    """A tenth of them at least; what is less cannot matter, whatever --late says."""
    slow = "--workload work --delay 100 --rate 200 --late 0.001ms"
    flags = f"--connections 8 {slow} --slice 200ms --duration 1 --warmup 0"
    result, slices = take_turns(1, flags, server="epoll --workload work")
    assert result["rounds"] > 0
    assert (slices["lag_p99_ns"] > 1000).any()
    late = slices[slices["late"] == 1]  # none, where the machine is not busy
    assert (late["lag_p99_ns"] > late["response_p99_ns"] / 10).all()


def test_thinking_goes_on_only_in_slices(take_turns, engine):
    """N = X (R + Z) by the time of its slices: who rests does not think."""
    flags = "--connections 20 --think exponential:30 --duration 3"
    flags += f" --warmup 0.5 --lead-in 0 {engine}"
    result, every = take_turns(2, flags)
    for target, slices in by_target(result, every):
        in_slices = slices["requests"].sum() / (SLICE_S * len(slices))
        response_s = target["response"]["mean_ns"] / 1e9
        assert in_slices * (response_s + 0.030) == pytest.approx(20, rel=0.25)
        assert len(slices) > 20


@pytest.mark.parametrize(
    "flags",
    [
        "--workload work --delay 1 --buckets 3",
        "--workload work --threads 2",
        "--workload http --path /",
        "--workload http --path / --requests-per-connection 2",
        "--size 1-20000",
        "--requests-per-connection 3 --threads 2",
        "--settle 2",
        "--settle 2 --threads 2",
        "--active 2 --threads 2",
    ],
)
def test_every_workload_takes_turns(take_turns, engine, flags):
    kind = flags.split()[1] if flags.startswith("--workload") else "echo"
    root = "--root src_c/www" if kind == "http" else ""
    flags = f"--connections 6 --duration 0.4 {engine} {flags}"
    result, _ = take_turns(2, flags, server=f"epoll --workload {kind} {root}")
    for target in result["targets"]:
        assert not errors(target)
        assert target["window"]["requests"] > 20
        assert target["requests"]["unanswered"] == 0
        assert target["slices"]["counted"] == result["rounds"] > 3


def test_files_say_which_target(take_turns, tmp_path):
    files = [tmp_path / name for name in ("users.csv", "histogram.csv")]
    named = ["--per-connection", files[0], "--histogram", files[1]]
    result, _ = take_turns(2, "--connections 3 --duration 0.2", *named)
    users, slots = map(pd.read_csv, files)
    for number, target in enumerate(result["targets"]):
        requests = users.loc[users["target"] == number, "requests"]
        assert len(requests) == 3
        assert requests.sum() == target["requests"]["completed"]
        response = slots[(slots["target"] == number) & (slots["clock"] == "response")]
        assert response["count"].sum() == target["response"]["n"]


@pytest.mark.parametrize("more", ["", "--threads 2", "--processes 2"])
def test_a_signal_ends_a_run_at_the_end_of_a_slice(take_turns, more):
    """Rounds are written when they are complete, while the run goes on."""

    def end(client, processes, path):
        wrote_rounds(path)
        text = path.read_text()
        assert text.endswith("\n")
        assert text.count("\n") % 2 == 1
        client.terminate()

    result, slices = take_turns(2, f"--duration 30 --warmup 0 {more}", during=end)
    assert result["stop"] == "interrupted"
    for target, counted in by_target(result, slices):
        assert target["stop"] == "interrupted"
        assert counted["requests"].sum() == target["window"]["requests"] > 0
        assert len(counted) == target["slices"]["counted"]


def test_loss_of_a_process_ends_the_others():
    """A thread that never rests again must not be waited for."""
    with servers(2) as (_, ports):
        words = in_turns(ports, "--duration 30 --processes 2 --connections 4")
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        for which in (0, 1):
            with subprocess.Popen(words, **pipes) as client:
                family = psutil.Process(client.pid)
                wait_for(lambda family=family: len(family.children()) == 2)
                time.sleep(0.3)
                family.children()[which].kill()
                output, diagnostics = client.communicate(timeout=10)
            assert client.returncode == 1
            assert b"killed by signal 9" in diagnostics
            assert json.loads(output)["targets"]


@pytest.mark.parametrize("which", [0, 1])
def test_a_signal_before_all_take_turns_ends_all(which):
    """A process stands still as the load begins; it ends, and no other awaits it."""
    flags = "--begin-told --processes 2 --connections 4 --duration 30"
    with servers(1) as (_, ports), begun(in_turns(ports, flags)) as client:
        begin_ns = tell([client], 0.5)
        one = psutil.Process(client.pid).children()[which]
        one.suspend()
        time.sleep(max(0, begin_ns / 1e9 - time.monotonic()) + 0.2)
        client.terminate()
        time.sleep(0.2)  # the signal is seen
        one.resume()
        try:
            result = json.loads(client.communicate(timeout=5)[0])
        finally:
            client.kill()
    assert client.returncode == 0
    assert result["stop"] == "interrupted"


def test_a_server_that_rests_uses_no_time(take_turns):
    """Its idle connections cost neither side anything between slices."""
    result, every = take_turns(2, "--connections 200 --duration 1", watch=True)
    for target in result["targets"]:
        slices = target["slices"]
        assert slices["server_cpu_s"] > 0
        assert slices["rest_cpu_s"] < 0.02 * slices["server_cpu_s"] + 0.005
    assert (every["probed"] >= every["waiting"]).all()
    assert every["waiting"].min() >= 0


def fixed(begin_ns: int | None, flags: str = "", *, order: int = 5) -> str:
    """Return flags for slices at fixed moments, 40 ms apart; None: they are told."""
    lengths = "--slice 30ms --pause 10ms --lead-in 6ms --duration 0.6 --warmup 0.1"
    begin = "--begin-told" if begin_ns is None else f"--begin-at {begin_ns}"
    return f"{lengths} --order {order} {begin} {flags}"


def test_the_order_at_fixed_moments_has_a_seed_of_its_own(take_turns):
    """That of all clients, whatever each of them asks by its own seed."""
    orders = []
    for order, seed in [(5, 1), (5, 2), (8, 1), (0, 1)]:
        flags = fixed(None, f"--seed {seed}", order=order)
        _, slices = take_turns(4, flags, during=tell_soon)
        orders.append(slices.set_index(["round", "position"])["target"].to_dict())
    first, same, *others = orders
    both = first.keys() & same.keys()
    assert len(both) > 8
    assert all(first[at] == same[at] for at in both)
    for other in others:
        both = first.keys() & other.keys()
        assert any(first[at] != other[at] for at in both)


def tell(clients: list[subprocess.Popen], ahead_s: float) -> int:
    """Tell clients, once all have connected, when to begin; return the moment."""
    for process in clients:
        assert b"connected" in process.stdout.readline()
    begin_ns = time.monotonic_ns() + int(ahead_s * 1e9)
    for process in clients:
        process.stdin.write(b"%d\n" % begin_ns)
        process.stdin.flush()
    return begin_ns


def tell_soon(client: subprocess.Popen, *_: object) -> None:
    """Tell a client to begin in 0.2 s, once it has connected."""
    tell([client], 0.2)


def told(commands: Callable[[int | None], Iterator[list]], _: object) -> list[dict]:
    """Run clients that are told when to begin; return their results."""
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(begun(words)) for words in commands(None)]
        tell(clients, 0.2)
        return [json.loads(client.communicate()[0]) for client in clients]


def named(
    commands: Callable[[int | None], Iterator[list]], came: Callable[[], bool]
) -> list[dict]:
    """Run clients that know from the start when to begin; return their results.

    Where they have not come by then, as the cores are busy, again with more time.
    """
    for ahead_s in (0.5, 2, 8):
        begin_ns = time.monotonic_ns() + int(ahead_s * 1e9)
        with contextlib.ExitStack() as stack:
            clients = [
                stack.enter_context(begun(words)) for words in commands(begin_ns)
            ]
            while not came() and time.monotonic_ns() < begin_ns:
                time.sleep(0.01)
            if time.monotonic_ns() < begin_ns - 100_000_000:
                return [json.loads(client.communicate()[0]) for client in clients]
            for client in clients:
                client.kill()
    raise AssertionError("clients did not come in 8 s")


def begun(words: list) -> subprocess.Popen:
    return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


@pytest.mark.parametrize("run", [told, named])
def test_clients_take_the_same_turns_at_fixed_moments(tmp_path, run):
    """Two clients, and one that only reads CPU clocks, as on hosts of their own."""
    paths = [tmp_path / f"{number}.csv" for number in range(3)]
    with servers(2) as (processes, ports):

        def commands(begin_ns: int | None) -> Iterator[list]:
            watch = f"--only-watch {watching(processes)}"
            flags_of = ["--seed 1", "--seed 2 --threads 2", watch]
            for flags, path in zip(flags_of, paths, strict=True):
                path.unlink(missing_ok=True)
                flags = fixed(begin_ns, f"{flags} --connections 6")
                yield in_turns(ports, flags, "--slices", path)

        def came() -> bool:
            listening, asked = 1, 2 * 6
            counts = {len(sockets(server.pid)) for server in processes}
            return counts == {listening + asked} and all(p.exists() for p in paths)

        results = run(commands, came)
        spent_s = sum(cpu_s(psutil.Process(p.pid)) for p in processes)
    first, second, watch = map(pd.read_csv, paths)
    number = 2 * first["round"] + first["position"]
    assert (first["begin_ns"] == number * 40_000_000).all()
    for other in (second, watch):
        both = first.merge(other, on=["round", "position"])
        assert (both["target_x"] == both["target_y"]).all()
        assert (both["begin_ns_x"] == both["begin_ns_y"]).all()
    assert first["round"].max() == 2 + 10 - 1
    assert results[0]["warmup_rounds"] <= 2 < results[0]["rounds"] <= 10
    assert not results[2]["targets"][0]["connections"]["attempted"]
    # psutil counts in ticks of 10 ms, user and system time of both servers
    assert clocks_s(watch) == pytest.approx(spent_s, rel=0.1, abs=0.05)


@pytest.mark.parametrize(
    ("moment_s", "latest_s", "whole"),
    [(-0.3, -0.15, 1), (-0.06, -0.01, 2), (0.1, 0.17, 2)],
)
def test_a_watch_that_is_interrupted_tells_whole_slices_only(
    take_turns, moment_s, latest_s, whole
):
    """A signal in the pause before the third, and in the midst of it.

    A slice is whole when the next is announced, 100 ms before it begins. A signal that
    was sent too late is sent to another client.
    """
    flags = "--begin-told --slice 200ms --pause 400ms"
    flags += " --only-watch --warmup 0 --duration 10"
    sent_s = [10.0]

    def interrupt(client: subprocess.Popen, *_: object) -> None:
        third_s = tell([client], 0.2) / 1e9 + 2 * 0.6
        time.sleep(max(0, third_s + moment_s - time.monotonic()))
        client.terminate()
        sent_s.append(time.monotonic() - third_s)

    while sent_s[-1] > latest_s:
        assert len(sent_s) < 10, sent_s
        result, slices = take_turns(2, flags, watch=True, during=interrupt)
    assert result["stop"] == "interrupted"
    assert slices["slice_seconds"].tolist() == pytest.approx([0.2] * whole)


def test_a_client_that_comes_late_leaves_slices_out(take_turns):
    def tell_late(client: subprocess.Popen, *_: object) -> None:
        tell([client], -0.3)

    result, slices = take_turns(2, fixed(None), during=tell_late)
    assert slices["begin_ns"].iloc[0] >= 280_000_000
    assert slices["round"].iloc[-1] == 11
    assert result["stop"] == "duration"


def test_a_watch_that_comes_much_too_late_ends_at_once(take_turns):
    """A moment just after boot: the look before it would have been before boot."""
    flags = "--begin-at 1 --slice 30ms --pause 10ms --only-watch --duration 0.6"
    result, slices = take_turns(2, flags, watch=True)
    assert (result["stop"], result["rounds"], len(slices)) == ("duration", 0, 0)


def test_at_fixed_moments_rounds_of_a_late_client_are_left_out(take_turns):
    """Nothing is repeated, as others take the same turns; none may be left."""
    flags = "--rate 2000 --late 0.001ms"
    result, every = take_turns(2, fixed(None, flags), during=tell_soon)
    slices = every[every["round"] >= 2]  # the warm-up's
    most_ns = (slices["response_p99_ns"] // 10).clip(lower=1000)
    late = slices.loc[slices["lag_p99_ns"] > most_ns, "round"].unique()
    set_aside = slices["round"].isin(late)
    assert len(late) == result["late_rounds"] > 0
    assert result["repeated"] == 0
    assert ((slices["late"] == 1) == set_aside).all()
    for number, (target, counted) in enumerate(by_target(result, slices)):
        # one that it missed has no row
        own = set_aside & (slices["target"] == number)
        assert target["slices"]["late"] == own.sum() > 0
        add_up(counted, target)
        assert target["response"]["n"] == target["window"]["arrivals"]


def test_a_late_round_that_a_signal_cuts_short_is_left_out(take_turns):
    """It has seven slices of eight, if the signal comes in a pause, or fewer."""

    def interrupt(client: subprocess.Popen, _: object, path: Path) -> None:
        tell_soon(client)
        wait_for(lambda: path.read_text().count("\n") > 2 * 8 + 1)
        time.sleep(0.15)  # of a round of 0.32 s
        client.terminate()

    flags = fixed(None, "--rate 2000 --late 0.001ms --warmup 0 --duration 30")
    result, slices = take_turns(8, flags, during=interrupt)
    assert result["stop"] == "interrupted"
    most_ns = (slices["response_p99_ns"] // 10).clip(lower=1000)
    late = slices.loc[slices["lag_p99_ns"] > most_ns, "round"].unique()
    assert ((slices["late"] == 1) == slices["round"].isin(late)).all()
    for target, counted in by_target(result, slices):
        add_up(counted, target)


def test_a_late_round_is_left_out_of_a_target_that_missed_the_next(take_turns):
    """A client that stands still has rounds of one slice, late ones after late ones."""

    def tell_and_halt(*about: object) -> None:
        tell_soon(*about)
        stand_still(*about)

    flags = fixed(None, "--rate 4000 --late 0.001ms --duration 1.5")
    result, slices = take_turns(2, flags, during=tell_and_halt)
    rounds = slices.groupby("round")["late"].agg(list)
    assert [1] in rounds.tolist()  # one slice, as the other was missed
    for target, counted in by_target(result, slices):
        add_up(counted, target)
