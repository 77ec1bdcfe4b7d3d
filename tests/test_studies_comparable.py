"""Which trials compare: by whom a server serves, and by who took turns."""

import pandas as pd
import pytest

from connlab.studies import comparable as sides

REGISTRY = [
    {"name": "iterative", "holds": "one"},
    {"name": "pool", "holds": "workers"},
    {"name": "epoll", "holds": "descriptors"},
]
NAMES = {"iterative": "one at a time"}


def trials(*rows: tuple, **more) -> pd.DataFrame:
    """Return usable trials from model, connections, workers and set."""
    columns = ["model", "connections", "workers", "set"]
    frame = pd.DataFrame(rows, columns=columns).astype({"workers": "Int64"})
    frame.attrs["registry"] = REGISTRY
    return frame.assign(ok=True, **more)


@pytest.mark.parametrize(
    ("model", "connections", "workers", "serves"),
    [
        ("iterative", 1, None, True),
        ("iterative", 50, None, False),
        ("pool", 50, 50, True),
        ("pool", 50, 8, False),
        ("pool", 50, None, False),
        ("pool", 8, None, True),
        ("epoll", 10**5, None, True),
        ("another", 10**5, None, True),
    ],
)
def test_a_server_serves_all_or_only_some(model, connections, workers, serves):
    frame = trials((model, connections, workers, "s"))
    assert sides.serves_all(frame).tolist() == [serves]


def test_workers_that_ran_count_where_none_were_asked_for():
    frame = trials(("pool", 50, None, "s"), workers_started=64)
    assert sides.serves_all(frame).all()
    assert sides.serves_all(frame.drop(columns=["workers"])).all()


def test_a_run_without_a_registry_leaves_nobody_out():
    frame = trials(("iterative", 50, None, "s"))
    frame.attrs.clear()
    assert sides.serves_all(frame).all()


def test_who_was_alone_where_others_took_turns_is_apart():
    frame = trials(
        ("epoll", 100, None, "s"),
        ("thread", 100, None, None),
        ("epoll", 5000, None, None),
        ("thread", 5000, None, None),
    )
    alone = sides.measured_alone(frame, ["connections"])
    assert alone.tolist() == [False, True, False, False]
    assert not sides.measured_alone(frame.drop(columns="set"), ["connections"]).any()
    failed = frame.assign(ok=frame["set"].isna())
    assert not sides.measured_alone(failed, ["connections"]).any()


def test_what_does_not_compare_is_told_once_for_each_model_and_reason():
    frame = trials(
        ("epoll", 50, None, "s"),
        ("iterative", 50, None, None),
        ("iterative", 1000, None, None),
        ("epoll", 1000, None, "s"),
        ("thread", 1000, None, None),
        ("pool", 1000, 8, None),
        ("prefork", 1000, 8, None),
    )
    frame.attrs["registry"] = [*REGISTRY, {"name": "prefork", "holds": "workers"}]
    frame.loc[frame["model"] == "pool", "ok"] = False
    some, few, alone = sides.left_out(frame, ["connections"], NAMES)
    first = (
        "one at a time at 50 and 1000 connections, as it serves its clients one after"
    )
    assert first in some
    assert "prefork at 1000 connections, as it serves no more clients" in few
    assert "thread at 1000 connections, as it was measured alone" in alone
    once = frame[frame["connections"] > 1].assign(connections=1, workers=0)
    once.attrs = frame.attrs
    told = " ".join(sides.left_out(once, ["connections"], NAMES))
    assert " at 1 connection, as" in told
    compared = frame[sides.comparable(frame, ["connections"])]
    assert compared.index.tolist() == [0, 3]
