"""Study 04: Redis's time and error pages, from made-up trials."""

import pandas as pd
import pytest

from connlab.studies import guestbook


def trials(*rows: tuple, **columns) -> pd.DataFrame:
    """Return trials of rows (model, clients, error pages)."""
    names = ["model", "connections", "errors_status"]
    frame = pd.DataFrame(rows, columns=names).astype({"errors_status": "Int64"})
    return frame.assign(**columns)


def test_redis_is_timed_only_where_it_serves_one_server():
    times = {"window_s": 0.5, "throughput_rps": 1000.0, "companion_cpu_s": 0.01}
    frame = trials(("iterative", 20, 0), ("epoll", 20, 0), **times)
    frame["set"] = [None, "a"]
    spent = guestbook.redis_per_page_s(frame)
    assert spent[0] == pytest.approx(2e-5)
    assert spent[1:].isna().all()
    ways = {("iterative", 20): "alone", ("epoll", 20): "in turns"}
    assert guestbook.ways(frame) == ways
    nobody_took_turns = guestbook.redis_per_page_s(frame.drop(columns="set"))
    assert nobody_took_turns.notna().all()


def counts(*rows, **columns) -> list[tuple]:
    found = guestbook.error_pages(trials(*rows, **columns))
    return list(found.itertuples(index=False, name=None))


def test_error_pages_are_counted_by_model_and_clients():
    failed = [("fork", 1000, 3), ("fork", 1000, None), ("fork", 2500, 1)]
    found = counts(("epoll", 1000, 0), ("fork", 20, 0), *failed)
    assert found == [("fork", 1000, 1, 2), ("fork", 2500, 1, 1)]


def test_a_baseline_measured_once_more_is_no_further_trial():
    found = counts(("epoll", 20, 1), ("epoll", 20, 1), carried=[False, True])
    assert found == [("epoll", 20, 1, 1)]


def test_nothing_is_counted_where_no_page_was_an_error():
    assert counts(("epoll", 20, 0)) == []
    assert counts() == []
