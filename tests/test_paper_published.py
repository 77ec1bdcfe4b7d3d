"""The transcribed tables, checked against what the reports say of them elsewhere."""

import csv
import math
import re
from statistics import mean

import pytest
from publish_made import ROOT

FOLDER = ROOT / "paper" / "published"
FILES = sorted(FOLDER.glob("*.csv"))


def rows(name):
    text = (FOLDER / f"{name}.csv").read_text("utf-8").splitlines()
    return list(csv.DictReader(line for line in text if not line.startswith("#")))


def by(name, *keys):
    return {tuple(row[k] for k in keys): row for row in rows(name)}


def numbers(row):
    return [
        float(v) for k, v in row.items() if k.startswith(("test_", "client_")) and v
    ]


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_each_table_says_source_and_unit(path):
    head = [x for x in path.read_text("utf-8").splitlines() if x.startswith("#")]
    report = r"source: report 00\d_[0-9a-f]{16}\b.*line"
    repository = r"source: repository \S+/\S+, \S+\.md, row"
    assert re.search(f"{report}|{repository}", "\n".join(head))
    assert any(line.startswith("# unit: ") for line in head)


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_each_table_is_whole(path):
    found = rows(path.stem)
    assert found
    for row in found:
        assert None not in row
        assert None not in row.values()


def test_every_table_is_described():
    readme = (FOLDER / "README.md").read_text("utf-8")
    assert len(FILES) == 18
    for path in FILES:
        assert f"`{path.name}`" in readme


# ---- Gutica and Khoo -----------------------------------------------------------------


def test_gutica_table_and_test_cases_agree_on_failures():
    table = by("gutica-response-time", "clients")
    columns = {"multithreaded": "multithreading_ms"}
    for case in rows("gutica-test-cases"):
        if (case["clients"],) not in table:
            continue  # 2000 clients were tested, but are not in the table
        column = columns.get(case["server"], f"{case['server']}_ms")
        failed = table[(case["clients"],)][column] == "server_error"
        assert failed == (case["status"] == "failed"), case


def test_gutica_means_of_one_client_are_its_log():
    table = by("gutica-response-time", "clients")[("1",)]
    logs = by("gutica-client-logs", "server", "clients")
    for server, column in (("multithreaded", "multithreading"), ("epoll", "epoll")):
        seconds = float(logs[(server, "1")]["average_response_s"])
        assert round(float(table[f"{column}_ms"]), 3) == round(seconds * 1e3, 3)


def test_gutica_clients_over_response_time():
    rates = []
    for row in rows("gutica-response-time"):
        for name, value in row.items():
            if name == "clients" or value == "server_error":
                continue
            if int(row["clients"]) >= 100:
                rates.append(int(row["clients"]) / float(value))
    assert round(min(rates)) == 68
    assert round(max(rates)) == 149


def test_gutica_response_time_falls_once():
    table = by("gutica-response-time", "clients")
    for column in ("multithreading_ms", "epoll_ms"):
        few, many = (float(table[(n,)][column]) for n in ("20000", "25000"))
        assert many < few


def test_gutica_logs_send_the_same_message():
    for row in rows("gutica-client-logs"):
        assert int(row["sent_bytes"]) == int(row["requests"]) * len("Gary's spamming")


# ---- Tran and Rees -------------------------------------------------------------------


def test_tran_verdict_adds_up():
    *figures, total = rows("tran-verdict")
    assert len(figures) == 8
    for server in ("multithreaded", "select", "epoll"):
        assert sum(int(row[server]) for row in figures) == int(total[server])


def test_tran_mean_times_follow_from_the_clients():
    clients = by("tran-clients", "server", "measure")
    summary = by("tran-summary", "measure")[("mean_time",)]
    for server in ("multithreaded", "epoll"):
        found = mean(numbers(clients[(server, "mean_time")]))
        assert found == pytest.approx(float(summary[server]), rel=1e-6)
    assert summary["select"] == clients[("select", "mean_time")]["client_1"]


def test_tran_test_cases():
    found = rows("tran-test-cases")
    assert [int(row["case"]) for row in found] == list(range(1, 25))
    failed = {int(row["case"]) for row in found if row["status"] == "failed"}
    assert failed == {15, 18, 22}
    permitted = {int(row["case"]) for row in found if row["status"] == "permitted"}
    assert permitted == {21, 23}


def test_tran_valgrind_parts_add_up():
    for row in rows("tran-valgrind"):
        if row["possibly_lost_bytes"]:
            parts = ("definitely_lost", "indirectly_lost", "possibly_lost")
            lost = sum(int(row[f"{part}_bytes"]) for part in parts)
            kept = int(row["still_reachable_bytes"])
            assert lost + kept == int(row["in_use_at_exit_bytes"])
        blocks = int(row["allocs"]) - int(row["frees"])
        assert blocks == int(row["in_use_at_exit_blocks"])


def test_tran_logs_count_equal_strings():
    for row in rows("tran-server-logs"):
        assert int(row["bytes_total"]) % int(row["requests"]) == 0


# ---- Mao, Zhang and Lu ---------------------------------------------------------------

MEANS = {
    ("mao-cores", "cores", "thread_per_request"): (66.6, 99.3, 122.3),
    ("mao-cores", "cores", "pool"): (7.6, 7.6, 7.8),
    ("mao-requests", "requests", "thread_per_request"): (66, 114, 122, 126),
    ("mao-delays", "variation", "thread_per_request"): (127.7, 26.3),
    ("mao-delays", "variation", "pool"): (7.89, 1.49),
}


@pytest.mark.parametrize(("name", "level", "model"), MEANS)
def test_mao_means_are_those_of_the_claims(name, level, model):
    found = [mean(numbers(row)) for row in rows(name) if row["model"] == model]
    for value, wanted in zip(found, MEANS[name, level, model], strict=True):
        digits = len(str(wanted).partition(".")[2])
        assert round(value, digits or None) == wanted


def test_mao_five_tests_in_every_row():
    for name in ("mao-cores", "mao-requests", "mao-delays", "mao-buckets"):
        for row in rows(name):
            assert len(numbers(row)) == 5


# ---- Hussain -------------------------------------------------------------------------


def test_hussain_a_server_that_is_gone_stays_gone():
    found = rows("hussain-throughput")
    assert len(found) == 24
    for server in ("iterative", "forking", "preforked", "threaded", "poll"):
        values = [row[server] for row in found]
        last = max(i for i, value in enumerate(values) if value)
        assert all(values[: last + 1])
        assert not any(values[last + 1 :])
    for server in ("prethreaded", "epoll"):
        assert all(row[server] for row in found)


def test_hussain_values_that_the_claims_quote():
    table = by("hussain-throughput", "concurrency")
    quoted = {
        ("11000", "prethreaded"): "2200",
        ("11000", "epoll"): "2122",
        ("12000", "prethreaded"): "970",
        ("12000", "epoll"): "1958",
        ("2500", "poll"): "490",
    }
    for (concurrency, server), value in quoted.items():
        assert table[(concurrency,)][server] == value


# ---- Jones and Ohlund ----------------------------------------------------------------


def test_jones_blocking_has_two_threads_a_connection():
    for row in rows("jones-models"):
        if row["model"] == "blocking":
            assert int(row["threads"]) == 2 * int(row["connected"])


def test_jones_threads_hold_64_events_each_but_once():
    beyond = [
        (int(row["connected"]), int(row["threads"]))
        for row in rows("jones-models")
        if row["model"] in ("wsa_event_select", "overlapped_events")
        and math.ceil(int(row["connected"]) / 64) > int(row["threads"])
    ]
    assert beyond == [(5558, 66)]


def test_jones_connects_no_more_than_attempted():
    found = rows("jones-models")
    assert len(found) == 15
    for row in found:
        assert int(row["connected"]) <= int(row["attempted"])
        assert int(row["cpu_low_percent"]) < int(row["cpu_high_percent"])


# ---- frevib --------------------------------------------------------------------------


def test_frevib_has_io_uring_ahead_beyond_one_connection_and_ever_more():
    found = [
        (int(r["connections"]), int(r["io_uring"]), int(r["epoll"]))
        for r in rows("frevib-throughput")
    ]
    assert [n for n, uring, epoll in found if uring <= epoll] == [1]
    leads = [uring / epoll for _, uring, epoll in found]
    assert leads[:5] == sorted(leads[:5])
