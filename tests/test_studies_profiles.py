"""Sampled stacks, and the parts of a request's path that they are grouped by."""

import pandas as pd
import pytest
import study_made as made

from connlab.drive import profiling
from connlab.studies import profiles

K = profiling.KERNEL
SEND = ["__send", f"do_syscall_64{K}", f"__sys_sendto{K}", f"tcp_sendmsg{K}"]
STACKS = [
    ["echo_step"],
    SEND[:2],
    [*SEND, f"kmalloc{K}"],
    [*SEND, f"net_rx_action{K}", f"tcp_v4_rcv{K}", f"tcp_ack.isra.0{K}"],
    [*SEND, f"net_rx_action{K}", f"try_to_wake_up{K}", f"_raw_spin_lock{K}"],
]
SCRIPT = """
\tffffffff82201b165 tcp_ack ([kernel.kallsyms])
\tffffffff822024b4a __sys_sendto ([kernel.kallsyms])
\t          10ab59 __send (/usr/lib/libc.so.6)
\tffffffffffffff00 [unknown] ([unknown])
\t          5588aa main (/build/server)

\t    7f00aa [unknown] (/usr/lib/liburing.so.2.3)

\tffffffffc0a2 [unknown] (/memfd:code (deleted))
"""


def profiles_of(folder, *trees):
    cell = {"model": "epoll", "connections": 50, "active": 50, "failure": None}
    lines = [cell | {"repeat": n, "tree": t} for n, t in enumerate(trees)]
    lines.append(cell | {"model": "poll", "failure": "it broke", "repeat": 0})
    made.write(folder, lines, study="why", file=profiling.FILE)
    return profiles.profiles("made", root=folder)


def test_a_stack_has_the_innermost_function_of_user_space_and_all_of_the_kernel():
    first, second, third = profiling.parse(SCRIPT)
    assert first == ("__send", f"__sys_sendto{K}", f"tcp_ack{K}")
    assert second == ("[liburing.so.2.3]",)
    assert len(third) == 1


def test_what_was_sampled_in_a_function_holds_what_it_called():
    tree = profiling.tree(STACKS)
    assert tree["value"] == 5
    send = next(child for child in tree["children"] if child["name"] == "__send")
    assert send["value"] == 4
    assert send["children"][0]["children"][0]["value"] == 3


def test_a_sample_counts_for_the_innermost_function_that_is_named(tmp_path):
    shares = profiles.shares(profiles_of(tmp_path, profiling.tree(STACKS)))
    by_part = shares.set_index("part")["cpu_share"]
    parts = ["own code", "entry and exit", "send", "delivery", "scheduler"]
    expected = dict.fromkeys(parts, 20) | {profiles.SENDING: 40}
    assert by_part[by_part > 0].to_dict() == expected


def test_every_named_part_is_one_of_a_bar_and_none_is_named_in_vain():
    named = pd.DataFrame(profiles.NAMED, columns=["glob", "part"])
    assert set(named["part"]) <= set(profiles.PARTS)
    assert not named["glob"].duplicated().any()


def test_a_flame_graph_puts_what_was_called_above_its_caller(tmp_path):
    taken = profiles_of(tmp_path, profiling.tree(STACKS), profiling.tree(STACKS[:2]))
    frames = profiles.flames(taken).set_index("function")
    assert frames["width"].groupby(frames["depth"]).sum()[0] == pytest.approx(100)
    callers = frames.loc[["__send", "do_syscall_64", "__sys_sendto"]]
    assert callers["depth"].tolist() == [0, 1, 2]
    assert callers["part"].tolist() == ["own code", "entry and exit", "send"]
    assert frames.loc["kmalloc", "part"] == "send"  # it is in no part by name
    assert (callers["left"].diff().dropna() >= 0).all()
    assert callers["width"].tolist() == pytest.approx([500 / 7, 500 / 7, 300 / 7])
    widest = profiles.flames(taken, least=60)
    assert widest["function"].tolist() == ["__send", "do_syscall_64"]


def test_a_run_without_profiles_has_no_shares(tmp_path):
    taken = profiles.profiles("r", root=tmp_path)
    assert profiles.shares(taken).empty
    assert profiles.flames(taken).empty


@pytest.mark.parametrize("wrong", [{"repeats": -1}, {"seconds": 0}])
def test_out_of_range_is_refused(tmp_path, wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        profiling.profile("why", run="r", cells=[], root=tmp_path, **wrong)


@pytest.mark.parametrize(
    ("counts", "failure"), [([1, 30], None), ([1, 2, 3], "3 samples")]
)
def test_a_server_that_got_little_time_is_sampled_for_longer(
    monkeypatch, counts, failure
):
    durations, remaining = [], iter(counts)

    def stacks(_model, _cell, seconds):
        durations.append(seconds)
        return [("step",)] * next(remaining)

    monkeypatch.setattr(profiling, "_stacks", stacks)
    row = profiling._profiled(None, {"seconds": 0.5})
    if failure is None:
        assert row["failure"] is None
        assert row["samples"] == 30
    else:
        assert row["failure"].startswith(failure)
        assert row.get("samples") is None
    assert durations == sorted(durations)
    assert len(durations) == len(counts)


@pytest.mark.sweeps
def test_a_server_under_load_sends(tmp_path):
    if lack := profiling.missing():
        pytest.skip(lack)
    cells = [{"model": "epoll", "connections": 8, "active": 8}]
    options = {"run": "r", "cells": cells, "repeats": 1, "root": tmp_path}
    assert profiling.profile("why", **options) is None
    (row,) = profiles.profiles("r", root=tmp_path)
    assert row["samples"] == row["tree"]["value"] >= profiling.SAMPLES_MIN
    shares = profiles.shares([row]).set_index("part")["cpu_share"]
    assert shares[profiles.SENDING] > shares["waiting call"]
    assert profiling.profile("why", **options) is None
    assert len(profiles.profiles("r", root=tmp_path)) == 1
