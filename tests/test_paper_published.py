"""The transcribed tables, checked against what the reports say of them elsewhere."""

import csv
import re

import pandas as pd
import pytest
from publish_made import ROOT

FOLDER = ROOT / "paper" / "published"
FILES = sorted(FOLDER.glob("*.csv"))


def table(name, *index):
    """Return a transcribed table by some of its columns."""
    rows = pd.read_csv(FOLDER / f"{name}.csv", comment="#")
    return rows.set_index(list(index)) if index else rows


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_each_table_is_whole_and_has_source_and_unit(path):
    head = [x for x in path.read_text("utf-8").splitlines() if x.startswith("#")]
    report = r"source: report 00\d_[0-9a-f]{16}\b.*line"
    repository = r"source: repository \S+/\S+, \S+\.md, row"
    assert re.search(f"{report}|{repository}", "\n".join(head))
    assert any(line.startswith("# unit: ") for line in head)
    lines = path.read_text("utf-8").splitlines()[len(head) :]
    assert len({len(row) for row in csv.reader(lines)}) == 1
    assert len(lines) > 1


def test_every_table_is_described():
    readme = (FOLDER / "README.md").read_text("utf-8")
    assert len(FILES) == 18
    assert all(f"`{path.name}`" in readme for path in FILES)


def test_gutica_table_and_test_cases_agree_on_failures():
    times = table("gutica-response-time", "clients")
    columns = {"multithreaded": "multithreading_ms"}
    for case in table("gutica-test-cases").itertuples():
        if case.clients in times.index:  # 2000 were tested, but are not in the table
            column = columns.get(case.server, f"{case.server}_ms")
            failed = times.loc[case.clients, column] == "server_error"
            assert failed == (case.status == "failed"), case


def test_gutica_means_of_one_client_are_its_log():
    times = table("gutica-response-time", "clients").loc[1]
    logs = table("gutica-client-logs", "server", "clients")["average_response_s"]
    for server, column in (("multithreaded", "multithreading"), ("epoll", "epoll")):
        seconds = float(logs.loc[server, 1])
        assert round(float(times[f"{column}_ms"]), 3) == round(seconds * 1e3, 3)


def test_gutica_clients_over_response_time():
    times = table("gutica-response-time", "clients")
    times = times.apply(pd.to_numeric, errors="coerce").loc[100:]
    rates = (1 / times).mul(times.index, axis=0)
    assert (round(rates.min().min()), round(rates.max().max())) == (68, 149)
    falls = times.loc[25000] < times.loc[20000]
    assert falls[["multithreading_ms", "epoll_ms"]].all()


def test_gutica_logs_send_the_same_message():
    logs = table("gutica-client-logs")
    assert (logs["sent_bytes"] == logs["requests"] * len("Gary's spamming")).all()


SERVERS = ["multithreaded", "select", "epoll"]


def test_tran_verdict_adds_up():
    verdict = table("tran-verdict")[SERVERS].astype(int)
    assert len(verdict) == 9
    assert verdict.iloc[:-1].sum().equals(verdict.iloc[-1])


def test_tran_mean_times_follow_from_the_clients():
    clients = table("tran-clients", "measure", "server").loc["mean_time"]
    means = clients.filter(like="client_").astype(float).mean(axis=1)
    summary = table("tran-summary", "measure").loc["mean_time", SERVERS].astype(float)
    for server in ("multithreaded", "epoll"):
        assert means[server] == pytest.approx(summary[server], rel=1e-6)
    assert summary["select"] == float(clients.loc["select", "client_1"])


def test_tran_test_cases():
    status = table("tran-test-cases", "case")["status"]
    assert list(status.index) == list(range(1, 25))
    assert set(status.index[status == "failed"]) == {15, 18, 22}
    assert set(status.index[status == "permitted"]) == {21, 23}


def test_tran_valgrind_parts_add_up():
    reports = table("tran-valgrind")
    whole = reports.dropna(subset=["possibly_lost_bytes"])
    kinds = [f"{kind}_lost_bytes" for kind in ("definitely", "indirectly", "possibly")]
    bytes_ = whole[[*kinds, "still_reachable_bytes"]].sum(axis=1)
    assert (bytes_ == whole["in_use_at_exit_bytes"]).all()
    blocks = reports["allocs"] - reports["frees"]
    assert (blocks == reports["in_use_at_exit_blocks"]).all()


def test_tran_logs_count_equal_strings():
    logs = table("tran-server-logs")
    assert (logs["bytes_total"] % logs["requests"] == 0).all()


@pytest.mark.parametrize(
    ("name", "model", "claimed"),
    [
        ("mao-cores", "thread_per_request", (66.6, 99.3, 122.3)),
        ("mao-cores", "pool", (7.6, 7.6, 7.8)),
        ("mao-requests", "thread_per_request", (66, 114, 122, 126)),
        ("mao-delays", "thread_per_request", (127.7, 26.3)),
        ("mao-delays", "pool", (7.89, 1.49)),
        ("mao-buckets", "thread_per_request", (125.9, 136.7, 133.9, 138.0)),
    ],
)
def test_mao_means_are_those_of_the_claims(name, model, claimed):
    means = table(name, "model").loc[model].filter(like="test_").mean(axis=1)
    for mean, claim in zip(means, claimed, strict=True):
        assert round(mean, len(str(claim).partition(".")[2])) == claim


@pytest.mark.parametrize("name", ["cores", "requests", "delays", "buckets"])
def test_mao_five_tests_in_every_row(name):
    tests = table(f"mao-{name}").filter(like="test_")
    assert (tests.notna().sum(axis=1) == 5).all()


HUSSAIN = table("hussain-throughput", "concurrency")


def test_hussain_a_server_that_is_gone_stays_gone():
    assert len(HUSSAIN) == 24
    alive = HUSSAIN.notna()
    assert (alive == alive.cummin()).all().all()
    assert alive[["prethreaded", "epoll"]].all().all()
    gone = ["iterative", "forking", "preforked", "threaded", "poll"]
    assert not alive[gone].iloc[-1].any()


@pytest.mark.parametrize(
    ("concurrency", "server", "value"),
    [
        (11000, "prethreaded", 2200),
        (11000, "epoll", 2122),
        (12000, "prethreaded", 970),
        (12000, "epoll", 1958),
        (2500, "poll", 490),
    ],
)
def test_hussain_values_that_the_claims_quote(concurrency, server, value):
    assert int(HUSSAIN.loc[concurrency, server]) == value


JONES = table("jones-models")


def test_jones_blocking_has_two_threads_a_connection():
    blocking = JONES[JONES["model"] == "blocking"]
    assert (blocking["threads"] == 2 * blocking["connected"]).all()


def test_jones_threads_hold_64_events_each_but_once():
    events = JONES[JONES["model"].isin(["wsa_event_select", "overlapped_events"])]
    beyond = events[events["connected"] / 64 > events["threads"]]
    assert beyond[["connected", "threads"]].to_numpy().tolist() == [[5558, 66]]


def test_jones_connects_no_more_than_attempted():
    assert len(JONES) == 15
    assert (JONES["connected"] <= JONES["attempted"]).all()
    assert (JONES["cpu_low_percent"] < JONES["cpu_high_percent"]).all()


def test_frevib_has_io_uring_ahead_beyond_one_connection_and_ever_more():
    rates = table("frevib-throughput", "connections")
    leads = rates["io_uring"] / rates["epoll"]
    assert list(leads.index[leads <= 1]) == [1]
    assert leads.iloc[:5].is_monotonic_increasing
