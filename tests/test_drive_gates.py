"""Every check is passed by a good trial and tripped on purpose by a bad one."""

import copy
import functools

import pytest
import study_made as made

from connlab import schema
from connlab.drive import gates


def closed(**changes) -> dict:
    """Return a good trial of a closed loop: X = 10 000/s, R = 10 ms, N = 100."""
    trial = made.trial("epoll", 100, capacity=10_000, cv=0)
    trial["server"]["samples"] |= {"cpu_user_s": 0.1, "cpu_system_s": 0.4}
    trial["client"]["self"]["cpu_share"] = 0.5
    requests = [1000, 1003, 997, 1001, 999, 1002, 998, 1000, 1003, 996, 1001]
    trial["timeline"] |= {"requests": requests, "warmup_detected_s": 0.0}
    return changed(trial, **changes)


def opened(**changes) -> dict:
    """Return a good trial of an open loop: 10 000/s, Poisson."""
    trial = closed()
    trial["factors"] |= {"rate": 10_000, "arrivals": "poisson"}
    trial["client"] |= {"loop": "open", "arrivals": "poisson", "offered_rps": 10_000.0}
    trial["client"]["window"] |= {"arrivals": 10_090, "unanswered": 10}
    trial["client"]["self"] |= {"lag_p99_ns": 50_000}
    return changed(trial, **changes)


def changed(trial: dict, **changes) -> dict:
    """Set values at paths written with double underscores, in a copy."""
    trial = copy.deepcopy(trial)
    for path, value in changes.items():
        *steps, last = path.split("__")
        functools.reduce(dict.__getitem__, steps, trial)[last] = value
    return trial


def checked(trial: dict) -> dict:
    return gates.judge(trial, (*schema.EXCLUDING, *schema.FINDINGS))


@pytest.mark.parametrize("trial", [closed(), opened()], ids=["closed", "open"])
def test_a_good_trial_passes_every_check_that_applies(trial):
    verdicts = checked(trial)
    assert {name for name, gate in verdicts.items() if gate.ok is False} == set()
    loop = trial["client"]["loop"]
    for name in ("rate", "arrivals", "answered", "lag"):
        assert verdicts[name].ok is (True if loop == "open" else None)
    assert verdicts["little"].ok is (True if loop == "closed" else None)


def pooled(*, started: int, processes: int | None = 1, kind: str = "fixed") -> dict:
    """Return a good trial of a server that was asked for 8 workers."""
    trial = closed()
    trial["server"]["model"]["workers"] = kind
    trial["server"]["ready"] = {"workers": 8, "processes": processes}
    trial["server"]["stats"]["workers_started"] = started
    return trial


RAMP = {
    "step_ms": 100,
    "start_ms": 0,
    "requests": [500 + 100 * i for i in range(11)],
    "warmup_detected_s": 0.6,
}
MORE = opened(client__window__arrivals=11_000, client__window__throughput_rps=11_000.0)


@pytest.mark.parametrize(
    ("gate", "trial"),
    [
        ("census", closed(client__connections__established=99)),
        ("census", closed(client__connections__surviving=99)),
        ("workers", pooled(started=7)),
        ("verified", closed(client__errors__mismatch=1)),
        ("verified", closed(client__errors__status=1)),
        ("rate", opened(client__window__throughput_rps=9_400.0)),
        ("arrivals", MORE),
        ("arrivals", opened(client__arrivals="paced")),
        ("answered", opened(client__window__unanswered=11)),
        ("lag", opened(client__self__lag_p99_ns=5_000_000)),
        ("little", closed(client__response__mean_ns=9_000_000)),
        ("little", closed(client__think_s=0.001)),
        ("stationary", closed(timeline=RAMP)),
        ("client", closed(client__self__cpu_share=1.06)),
        ("quiet", closed(server__samples__other_cpu_s=0.2)),
        ("quiet", closed(server__samples__steal_s=0.2)),
        ("response_times", closed(client__window__seconds=0.4)),
    ],
)
def test_each_check_is_tripped_and_no_other(gate, trial):
    verdicts = checked(trial)
    tripped = {name for name, verdict in verdicts.items() if verdict.ok is False}
    assert tripped == {gate}
    if gate != "arrivals":
        assert verdicts[gate].value is not None
        assert verdicts[gate].threshold is not None


def poorer(trial: dict) -> dict:
    """Return a trial of a server that did badly, in all that a server can do badly."""
    return changed(
        trial,
        timeline=RAMP,
        client__window__throughput_rps=100.0,
        client__response__mean_ns=900_000_000,
        client__response__p99_ns=5_000_000_000,
        client__self__cpu_share=1.0,
        client__self__spin_share=0.0,
        client__fairness={"jain": 0.01, "requests_min": 0},
    )


@pytest.mark.parametrize("trial", [closed(), opened()], ids=["closed", "open"])
def test_no_gate_leaves_a_trial_out_for_what_the_server_did(trial):
    """Left out by its outcome, a server's worst trials would make it look better."""
    trial = poorer(trial)
    if trial["client"]["loop"] == "open":
        trial["client"]["window"]["unanswered"] = 9_000
    assert not [name for name, gate in gates.judge(trial).items() if gate.ok is False]
    verdicts = gates.judge(trial, schema.FINDINGS).items()
    findings = {name for name, gate in verdicts if gate.ok is False}
    assert {"client", "stationary", "response_times"} <= findings
    assert findings & {"little", "rate"}


def in_slices(trial: dict, *, drain_s: float) -> dict:
    """Return the trial as ten slices of 0.1 s, each as much longer as it drains."""
    trial = changed(trial, client__window__seconds=10 * (0.1 + drain_s))
    turns = {"round": list(range(10)), "slice_ms": 100.0, "lead_in_ms": 0.0}
    return trial | {"turns": turns}


def test_a_server_slow_to_drain_its_slices_was_asked_what_was_due():
    """The client made every arrival; what took long was the server's queue."""
    slow = in_slices(opened(), drain_s=0.05)
    assert gates.arrivals(slow).ok is True
    fewer = changed(slow, client__window__arrivals=9_000)
    assert gates.arrivals(fewer).ok is False


def two_seconds(arrivals: int, *, paced: bool = False, rps: float = 10_000.0) -> dict:
    """Return an open loop of two seconds: at 10 000/s, 20 000 requests fall due."""
    trial = opened(client__window__seconds=2.0, client__window__arrivals=arrivals)
    if paced:
        trial = changed(trial, factors__arrivals="paced", client__arrivals="paced")
    return changed(trial, client__window__throughput_rps=rps)


@pytest.mark.parametrize(
    ("arrivals", "paced", "ok"),
    [
        (20_201, True, True),  # a hundredth, and one at the end
        (20_202, True, False),
        (19_799, True, True),
        (19_798, True, False),
        (20_708, False, True),  # five standard deviations, √20 000 each, and one
        (20_709, False, False),
        (19_292, False, True),
        (19_291, False, False),
    ],
)
def test_what_fell_due_may_be_off_by_what_its_schedule_scatters(arrivals, paced, ok):
    gate = gates.arrivals(two_seconds(arrivals, paced=paced))
    assert gate.ok is ok
    assert gate.value == pytest.approx(arrivals / 20_000)
    slack = 201 if paced else 1 + 5 * 20_000**0.5
    assert gate.threshold == pytest.approx(slack / 20_000)


def test_answers_are_held_against_what_fell_due_and_not_what_was_offered():
    gate = gates.rate(two_seconds(20_400, rps=10_200.0))
    assert (gate.ok, gate.value) == (True, pytest.approx(1.0))
    gate = gates.rate(two_seconds(20_400, rps=9_700.0))
    assert (gate.ok, gate.value) == (True, pytest.approx(9_700 / 10_200))
    assert gates.rate(two_seconds(20_400, rps=9_680.0)).ok is False


def test_nothing_falls_due_in_a_lead_in():
    trial = in_slices(opened(), drain_s=0)
    trial["turns"]["lead_in_ms"] = 20.0
    at_10000_rps = round(10_000 * 10 * 0.08)
    trial["client"]["window"]["arrivals"] = at_10000_rps
    assert gates.arrivals(trial).value == pytest.approx(1)
    report = {"offered_rps": 5_000.0, "slices": {"counted": 8}}
    trial["client"]["hosts"] = {"a": {"report": report}, "b": {"report": report}}
    trial["client"]["window"]["arrivals"] = round(2 * 5_000 * 8 * 0.08)
    assert gates.arrivals(trial).value == pytest.approx(1)


@pytest.mark.parametrize(
    ("waiting", "ok"), [(7, False), (24, False), (26, True), (82, True), (100, True)]
)
def test_of_the_users_of_a_slice_a_quarter_waits_at_a_time(waiting, ok):
    """Also in lines of before this gate, which do not have it."""
    ns = round(waiting * 0.1e9)
    trial = in_slices(closed(), drain_s=0)
    trial["turns"] |= {"response_ns": [ns, ns], "seconds": [0.1, 0.1]}
    trial["turns"] |= {"requests": [10, 10], "lead_in_requests": [0, 0]}
    gate = gates.judge(trial)["load"]
    assert gate.ok is ok
    assert gate.value == pytest.approx(waiting / 100)
    assert f"{waiting} of 100 users" in gate.why
    trial["gates"] = {"census": {"ok": True}}
    row = schema.flatten(trial)
    assert row["waiting_users"] == pytest.approx(waiting)
    assert row["ok"] is ok
    assert row["excluded_by"] == (None if ok else "load")


@pytest.mark.parametrize(
    "trial",
    [closed(client__think_s=1.0), closed(factors__byte_rate=10), opened(), closed()],
    ids=["thinks", "byte rate", "open", "no turns"],
)
def test_users_that_rest_for_another_reason_are_not_counted(trial):
    if trial != closed():
        trial = in_slices(trial, drain_s=0)
        trial["turns"] |= {"response_ns": [1], "seconds": [0.1]}
        trial["turns"] |= {"requests": [1], "lead_in_requests": [0]}
    assert gates.judge(trial)["load"].ok is None
    assert schema.flatten(trial)["waiting_users"] is None


def test_each_client_of_several_hosts_was_asked_for_the_slices_that_it_had():
    """Also in rounds that the merge set aside, so that the rows of turns lack them."""
    held = in_slices(opened(), drain_s=0)
    held["turns"] |= {"round": list(range(8)), "late": 2}
    assert gates.arrivals(held).ok is False
    report = {"offered_rps": 5000.0, "slices": {"counted": 10}}
    held["client"]["hosts"] = {"b": {"report": report}, "c": {"report": report}}
    assert gates.arrivals(held).ok is True
    missed = report | {"slices": {"counted": 6}}
    held["client"]["hosts"]["c"] = {"report": missed}
    assert gates.arrivals(held).ok is False
    assert gates.arrivals(changed(held, client__window__arrivals=8_000)).ok is True


def test_a_line_of_before_findings_reads_as_one_of_today():
    verdicts = checked(poorer(closed()))
    every = {name: gate.model_dump() for name, gate in verdicts.items()}
    old, new = closed(), closed()
    old["gates"] = every
    new["gates"] = {k: v for k, v in every.items() if k in schema.EXCLUDING}
    assert gates.CHECKS.keys() == {*schema.EXCLUDING, *schema.FINDINGS}
    new["findings"] = {k: v for k, v in every.items() if k in schema.FINDINGS}
    assert schema.verdicts(old) == schema.verdicts(new)
    rows = [schema.flatten(trial) for trial in (old, new)]
    for column in ("excluded_by", "findings", "ok", "gates_failed"):
        assert rows[0][column] == rows[1][column]
    assert rows[0]["excluded_by"] is None
    assert "client" in rows[0]["findings"]


@pytest.mark.parametrize(
    ("others", "disturbed", "ok"),
    [
        ([0.1] * 10, 0, True),
        ([0.9] * 10, 0, True),
        ([0.1] * 6 + [1.5] * 4, 4, True),
        ([0.1] * 4 + [1.5] * 6, 6, False),
    ],
)
def test_a_set_is_left_out_where_most_rounds_were_disturbed(others, disturbed, ok):
    by_round = dict(enumerate(others))
    found = gates.disturbed(by_round, dict.fromkeys(by_round, 0.4), cores=2)
    assert len(found) == disturbed
    turns = {"round": list(by_round), "others": others, "disturbed": found}
    assert gates.quiet(closed() | {"turns": turns}).ok is ok


@pytest.mark.parametrize(
    ("arrivals", "got", "ok"),
    [(90, 90.0, True), (90, 100.0, False), (None, 90.0, False), (None, 96.0, True)],
)
def test_the_scatter_of_random_arrivals_is_no_lack_of_answers(arrivals, got, ok):
    few = opened(
        client__offered_rps=100.0,
        client__window__arrivals=arrivals,
        client__window__throughput_rps=got,
    )
    assert gates.rate(few).ok is ok
    assert gates.arrivals(few).ok is (None if arrivals is None else True)


@pytest.mark.parametrize(
    ("client_cores", "companions", "client", "server"),
    [
        ([1], [], 0.6, 0.5),
        ([1], [0], 0.6, 0.8),
        ([1], [1], 0.9, 0.5),
        ([1, 2], [1, 2], 0.6, 0.5),
    ],
)
def test_a_companion_counts_where_it_takes_cores(
    client_cores, companions, client, server
):
    trial = closed(
        client__self__cpu_share=0.6,
        client__self__spin_share=0.0,
        server__samples__window_s=1.0,
        server__samples__cpu_user_s=0.1,
        server__samples__cpu_system_s=0.4,
        server__samples__companion_cpu_s=0.3,
        cores={"server": [0], "client": client_cores, "companions": companions},
    )
    assert gates.client_share(trial) == pytest.approx(client)
    assert gates.server_share(trial) == pytest.approx(server)


BURST = closed(timeline=RAMP, client__stop="requests")


ANEW = {"client__requests_per_connection": 1, "client__connect__mean_ns": 10_000_000}
BUSY = closed(server__samples__other_cpu_s=0.12)
VERDICTS = {
    "all workers": (gates.workers, pooled(started=8), True),
    "one in place of one that ended": (gates.workers, pooled(started=9), True),
    "half of them": (gates.workers, pooled(started=8, processes=2), False),
    "of one process": (gates.workers, pooled(started=8, processes=None), True),
    "any number of workers": (gates.workers, pooled(started=1, kind="none"), None),
    "no workers": (gates.workers, closed(), None),
    "others on four watched cores": (
        gates.quiet,
        changed(BUSY, cores__watched=[0, 1, 2, 3]),
        True,
    ),
    "others on the one watched": (
        gates.quiet,
        changed(BUSY, cores__watched=[0]),
        False,
    ),
    "others beside servers in turns, of which no round tells": (
        gates.quiet,
        changed(BUSY, cores__watched=[0]) | {"turns": {"round": [0, 1]}},
        True,
    ),
    "think time is part of the cycle": (
        gates.little,
        closed(client__think_s=0.010, client__active=200),
        True,
    ),
    "reconnecting is part of the response": (gates.little, closed(**ANEW), True),
    "a short window": (gates.stationary, closed(client__window__seconds=0.3), None),
    "a burst": (gates.stationary, BURST, None),
    "a burst's end": (gates.response_times, BURST, None),
    "uncounted": (gates.answered, opened(client__window__unanswered=None), None),
    "nothing due": (gates.answered, closed(client__window__arrivals=0), None),
}


@pytest.mark.parametrize(("check", "trial", "ok"), VERDICTS.values(), ids=VERDICTS)
def test_a_check_holds_fails_or_does_not_apply(check, trial, ok):
    assert check(trial).ok is ok


def test_a_burst_holds_no_number_of_response_times():
    assert schema.flatten(BURST)["counted_response_times"] is None
    assert schema.flatten(closed())["counted_response_times"] == pytest.approx(100)


def test_without_a_report_there_is_nothing_to_judge():
    assert gates.judge(closed(client=None)) == {}


def _shares(server: float, client: float, waiting: float = 0.1) -> dict:
    return closed(
        server__samples__cpu_user_s=0.0,
        server__samples__cpu_system_s=server,
        client__self__cpu_share=client,
        client__self__spin_share=0.0,
        client__self__waiting_share=waiting,
    )


@pytest.mark.parametrize(
    ("server", "client", "waiting", "label"),
    [
        (0.5, 0.5, 0.1, "unsaturated"),
        (0.99, 0.6, 0.1, "server-bound"),
        (0.6, 0.99, 0.1, "client-bound"),
        (0.99, 0.99, 0.1, "server-bound"),
        (0.99, 0.99, 0.8, "client-bound"),
        (0.92, 0.96, 0.1, "server-bound"),
        (0.85, 0.96, 0.1, "client-bound"),
    ],
)
def test_who_is_the_bottleneck(server, client, waiting, label):
    trial = _shares(server, client, waiting)
    assert gates.label(trial) == label
    assert gates.client(trial).ok is (label != "client-bound")


@pytest.mark.parametrize(
    ("window_s", "client", "label"),
    [
        (0.19, 0.6, None),
        (0.19, 0.99, "client-bound"),
        (0.21, 0.6, "unsaturated"),
        (0.21, 0.99, "client-bound"),
    ],
)
def test_of_a_burst_shorter_than_two_looks_only_the_client_is_known(
    window_s, client, label
):
    """The readings around it hold the time to connect and to end, in which it rests."""
    share = {"client__stop": "requests", "client__window__seconds": window_s}
    burst = changed(_shares(0.3, client), **share)
    assert gates.label(burst) == label
    assert (gates.server_share(burst) is None) == (window_s < 0.2)
    assert gates.label(changed(burst, client__limits={"queue_full": 1}))


def test_time_spent_looking_is_not_need():
    spinning = changed(_shares(0.5, 1.0), client__self__spin_share=0.6)
    assert gates.client_share(spinning) == pytest.approx(0.4)
    assert gates.label(spinning) == "unsaturated"


def test_more_threads_than_cores_share_them():
    trial = closed(client__threads=2, client__self__cpu_share=0.49)
    trial["client"]["self"]["spin_share"] = 0.0
    assert gates.client_share(trial) == pytest.approx(0.98)


def test_a_thread_that_only_accepts_hides_no_busy_worker():
    busy = changed(
        _shares(0.99, 0.6),
        cores__server=[0, 2],
        server__samples__threads_max=2,
        server__stats__workers_started=1,
    )
    assert gates.server_share(busy) == pytest.approx(0.99)
    assert gates.label(busy) == "server-bound"
    two = changed(busy, server__stats__workers_started=2)
    assert gates.label(two) == "unsaturated"


def test_on_one_core_the_larger_user_is_the_bottleneck():
    shared = changed(_shares(0.6, 0.35), cores__shared=True, cores__client=[0])
    assert gates.label(shared) == "server-bound"
    assert gates.label(changed(shared, client__self__cpu_share=0.1)) == "unsaturated"
    shared = changed(_shares(0.43, 0.55), cores__shared=True, cores__client=[0])
    assert gates.label(shared) == "client-bound"
    assert gates.bottleneck(0.55, 0.43, None, shared=True) == "client-bound"


OVERFLOWS = {"server__samples__listen_overflows": 7}


@pytest.mark.parametrize(
    ("changes", "limit"),
    [
        ({"server__stats__refused": {"descriptors": 3}}, "descriptors"),
        ({"server__stats__refused": {"fd_setsize": 3}}, "fd_setsize"),
        ({"server__stats__refused": {"threads": 1}}, "threads"),
        ({"server__stats__refused": {"queue_full": 1}}, "queue"),
        ({"client__limits__ports": 5}, "ports"),
        (OVERFLOWS | {"client__connections__established": 93}, "backlog"),
        ({"server__model__concurrent": False}, "one-at-a-time"),
    ],
)
def test_limits_have_names(changes, limit):
    trial = closed(**changes)
    assert gates.limit_met(trial) == limit
    assert gates.label(trial) == f"limit-bound:{limit}"


def test_a_pool_whose_workers_all_wait_is_bound_by_them():
    """7.7 requests/s at a mean delay of 2 s keep 15.4 of 16 workers busy."""
    trial = closed(
        server__model__workers="fixed",
        server__stats__workers_started=16,
        client__window__throughput_rps=7.7,
    )
    trial["client"]["delay"] = {"mean_s": 2.0}
    assert gates.label(trial) == "limit-bound:workers"
    trial["server"]["stats"]["workers_started"] = 512
    assert gates.limit_met(trial) is None


def test_a_failure_without_a_limit_has_no_label():
    failed = {"kind": "server-died", "reason": "x"}
    assert gates.label(closed(failure=failed)) is None
