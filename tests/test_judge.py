"""connlab.judge: what it says of servers that misbehave on purpose, and of others."""

import errno
import functools
import json
import os
import re
import shlex
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from connlab import __main__ as command
from connlab.compare import comparison, measure, plan, screen
from connlab.drive import (
    capacity,
    checkup,
    location,
    machine,
    procfs,
    programs,
    running,
    servers,
    trials,
    turns,
)
from connlab.judge import (
    calls,
    cases,
    contest,
    conversations,
    crowds,
    hints,
    judging,
    naming,
    page,
)
from connlab.judge.conversations import Heard
from connlab.judge.judging import Judgement, Verdict, judge
from connlab.judge.wire import MIB, Silence, difference, exchange
from tests.client.harness import serving
from tests.test_drive_strace import STRACE
from tests.test_external import line

pytestmark = pytest.mark.usefixtures("build_dir")


@pytest.fixture(autouse=True)
def hurried(monkeypatch, nobody_left):
    """Whatever a server does, none of its processes is there after the verdict."""
    monkeypatch.setattr(conversations, "PATIENCE_S", 1.0)
    monkeypatch.setattr(conversations, "HURRIED_S", 0.5)


TRACEBACK = "Traceback (most recent call last):\n  File x\n"
MEANS = hints.MEANS["conversations"]
slow = functools.partial(pytest.param, marks=pytest.mark.long)


def judged(kind: str):
    judgement = judge([line(kind)], quick=True, say=lambda text: None)
    return judgement.verdicts[0], judgement


@pytest.mark.timed
@pytest.mark.parametrize("kind", ["good", slow("daemon"), slow("children")])
def test_a_right_server_is_right(kind):
    verdict, _ = judged(kind)
    assert verdict.right, verdict.wrong
    assert verdict.crowds.carried == 100
    assert verdict.crowds.memory_bytes > 0
    assert verdict.start_s > 0


@pytest.mark.timed  # a right answer a second late is a wrong one
@pytest.mark.parametrize(
    ("kind", "symptom", "hint"),
    [
        ("wrong", "from byte 2000 on sent", MEANS["lengths"]),
        ("line", "then nothing for", MEANS["every byte"]),
        ("text", "0 came back, then nothing more", MEANS["every byte"]),
        ("brief", "came back, then", MEANS["one connection"]),
        slow("hang", "then nothing for", "answers nobody"),
        ("crash", "killed by SIGSEGV", "It ends when"),
        slow("leak", "did not close", MEANS["silent end"]),
        slow("mute", "nothing listens on", "never listened"),
        ("ends", "no such database", "it ended first"),
        ("shared", "second client", MEANS["own answers"]),
        ("padded", "more came back", MEANS["more"]),
        ("backwards", "in another order", MEANS["own answers"]),
    ],
)
def test_what_misbehaves_is_wrong_and_told_why(kind, symptom, hint):
    verdict, judgement = judged(kind)
    assert not verdict.right
    assert any(symptom in wrong for wrong in verdict.wrong), verdict.wrong
    first = hints.first(verdict, judgement)
    assert any(hint in text for text in first), first
    if kind in ("line", "text", "brief", "shared", "padded", "backwards"):
        assert len(first) == 1, first  # what follows from it is no other fault
    # each says what was sent and what came, also where nothing more could be sent
    assert not any("Broken pipe" in str(heard.failure) for heard in verdict.heard)


@pytest.mark.timed
def test_where_a_server_listens_in_place_of_its_port_is_seen():
    with (
        pytest.raises(running.NotServing) as error,
        running.running(line("swapped"), ready_s=5),
    ):
        raise AssertionError
    (place,) = error.value.elsewhere
    assert (place.protocol, place.host) == ("tcp", "127.0.0.1")


@pytest.mark.parametrize(
    ("protocol", "host", "port", "told"),
    [
        ("tcp", "127.0.0.1", 36895, ":36895, which is port 8080 with its bytes swa"),
        ("tcp", "0.0.0.0", 5000, "0.0.0.0:5000, a port of its own, or of the kernel"),
        ("tcp", "::1", 8080, "[::1]:8080, for IPv6: bind() to 127.0.0.1 or 0.0.0.0"),
        ("udp", "0.0.0.0", 8080, "0.0.0.0:8080, for UDP: a TCP socket is SOCK_STREAM"),
        ("tcp", "192.0.2.1", 8080, "192.0.2.1:8080, where nobody comes who asks"),
    ],
)
def test_who_listens_elsewhere_is_told_where(monkeypatch, protocol, host, port, told):
    """Advice was a list of all causes that there are."""
    place = procfs.Listener(protocol, host, port)
    others = [] if port == 5000 else [procfs.Listener("tcp", "0.0.0.0", 9)]
    said = "exit 1: external: nothing listens on 127.0.0.1:8080 after 9 s"
    converse = Mock(side_effect=running.NotServing(said, [*others, place]))
    monkeypatch.setattr(judging, "_converse", converse)
    judgement = judge(["lessons/epoll"], quick=True, say=lambda text: None)
    (first,) = hints.first(judgement.verdicts[0], judgement)
    assert told in first
    assert judgement.as_json()["servers"][0]["elsewhere"][-1]["port"] == port


def test_who_may_listen_too_late_is_told_the_time():
    said = "it does not serve: exit 1: external: nothing listens on 127.0.0.1:80"
    for text, end in [(f"{said} after 9 s", "follow, within 9 s?"), (said, "follow?")]:
        verdict = Verdict("x", "x", [text])
        (first,) = hints.first(verdict, Judgement([verdict]))
        assert first.endswith(end)


@pytest.mark.long
@pytest.mark.timed
@pytest.mark.parametrize("kind", ["abroad", "elsewhere"])
def test_who_hears_no_sigterm_is_told_where_it_listens(kind):
    """It was ended while it still had time to end, and said to have ended first."""
    verdict, judgement = judged(kind)
    (place,) = verdict.elsewhere
    (first,) = hints.first(verdict, judgement)
    assert f"it listens at 127.0.0.1:{place.port}" in first


def test_how_a_server_ended_before_it_listened_is_told_once_and_whole(monkeypatch):
    """The page said "as said above" of what stood below, with all frames in a line."""
    said = f"exit 1: {TRACEBACK}OSError: no"
    converse = Mock(side_effect=running.NotServing(said))
    monkeypatch.setattr(judging, "_converse", converse)
    judgement = judge(["lessons/epoll"], quick=True, say=lambda text: None)
    (verdict,) = judgement.verdicts
    assert verdict.wrong == ["it does not serve: exit 1: OSError: no"]
    assert hints.first(verdict, judgement)[0].endswith("(exit 1: OSError: no).")
    assert "\n    exit 1: Traceback" in page.markdown(judgement)


def test_who_is_not_ready_and_has_not_ended_is_not_said_to_have_ended():
    verdict = Verdict("x", "x", ["it does not serve: not ready after 13 s"])
    (first,) = hints.first(verdict, Judgement([verdict]))
    assert first.endswith("does listen() follow?")


@pytest.mark.timed
def test_threads_that_a_signal_ends_are_no_leak():
    judgement = judge(["lessons/thread"], quick=True, say=lambda text: None)
    assert judgement.right, judgement.verdicts[0].wrong


@pytest.mark.long
@pytest.mark.timed
def test_what_it_does_without_does_not_make_it_wrong():
    for kind, lacks in [("deaf", "SIGTERM"), ("chatty", "prints")]:
        verdict, _ = judged(kind)
        assert verdict.right, verdict.wrong
        assert any(lacks in text for text in verdict.lacks)


@pytest.mark.timed
def test_one_at_a_time_is_right_and_told():
    (verdict,) = judge(["lessons/iterative"], quick=True, say=print).verdicts
    assert verdict.right, verdict.wrong
    assert not verdict.concurrent
    assert verdict.crowds.carried == 1
    assert verdict.crowds.limit.startswith("one client ")


@pytest.mark.long
@pytest.mark.early
@pytest.mark.timed
def test_who_answers_slowly_is_right_and_not_asked_for_minutes(monkeypatch):
    monkeypatch.setattr(conversations, "ENOUGH_S", 2.5)
    monkeypatch.setattr(calls, "_MANY_S", 3)
    verdict, judgement = judged("tardy")
    assert verdict.right, verdict.wrong
    told = {heard.name: heard.about for heard in verdict.heard}
    for name in ("one connection", "in a row"):
        assert re.search(r"\(\d\d of them, as it answers slowly\)$", told[name])
    assert judgement.seconds < 100  # one request after the other took 220


@pytest.mark.parametrize(
    ("start_s", "deaf", "levels", "turns_at"),
    [
        (0.1, True, crowds.LEVELS, [1, 50]),
        (3.9, False, crowds.LEVELS, [1, 50]),
        (3.0, True, (1, 100, 1000, 10_000), [50]),
        (8.0, False, (1, 100, 1000, 10_000), [50]),
    ],
)
def test_who_starts_slowly_is_started_less_often(
    monkeypatch, start_s, deaf, levels, turns_at
):
    """Five seconds to start and two to end took 235 s in all: 22 fresh servers."""

    def converse(verdict, _line):
        verdict.heard = [Heard("every byte", "all")]
        verdict.start_s, verdict.deaf = start_s, deaf

    same = cases.Answer("the same bytes", "server", (), True, "")
    whole = [crowds.Level(n, n, n) for n in levels]
    crowd = Mock(return_value=crowds._concluded(whole, None, None))
    held = Mock()
    monkeypatch.setattr(judging, "_converse", converse)
    asked = cases.Asked((same,), prints=False, busy_share=0.0)
    monkeypatch.setattr(cases, "ask_all", lambda *_, **__: asked)
    monkeypatch.setattr(crowds, "try_all", crowd)
    monkeypatch.setattr(calls, "count", lambda _: calls.Calls({}))
    monkeypatch.setattr(contest, "hold", held)
    judge(["lessons/epoll"], say=lambda text: None)
    assert tuple(crowd.call_args.kwargs["levels"]) == levels
    assert [call.kwargs["connections"] for call in held.call_args_list] == turns_at


@pytest.mark.serial
@pytest.mark.long
def test_what_forks_and_forks_gets_a_verdict(monkeypatch):
    monkeypatch.setattr(running, "PROCESSES_MOST", 100)
    verdict, _ = judged("wild")
    assert not verdict.right
    assert any("100 processes" in wrong for wrong in verdict.wrong)


@pytest.mark.timed
@pytest.mark.parametrize("kind", ["fragile", "brittle"])
def test_who_sends_to_a_client_that_has_gone_dies_of_sigpipe(kind):
    """One that takes 16 KiB at once was correct: it sends a client nothing twice."""
    (resets,) = (c for c in conversations.REQUIRED if c.name == "resets")
    with running.running(line(kind)) as server:
        (heard,) = conversations.hold([resets], server.address)
        server.wait_for_its_end()
    assert not heard.ok
    assert "SIGPIPE" in server.died()


@pytest.mark.timed
def test_who_closes_before_all_is_sent_is_wrong():
    """It passed every conversation: answers of a few bytes find room at once."""
    (half_closed,) = (c for c in conversations.REQUIRED if c.name == "half-closed")
    with running.running(line("hasty")) as server:
        (heard,) = conversations.hold([half_closed], server.address)
    assert re.match(r"sent \d+ bytes, \d+ came back, then nothing more", heard.failure)


def test_what_a_client_lacks_is_not_the_servers_fault(monkeypatch, tmp_path, capsys):
    """With ports for a hundred clients `lessons/epoll` was not correct."""

    def talk(_connect):
        raise OSError(errno.EADDRNOTAVAIL, "Cannot assign requested address")

    clients = conversations.Conversation("in a row", "500 clients", talk)
    (every_byte,) = (c for c in conversations.REQUIRED if c.name == "every byte")
    with running.running("lessons/epoll") as server:
        heard = conversations.hold([clients, every_byte], server.address)
    assert [each.ok for each in heard] == [None, True]
    verdict = Verdict("x", "x", heard=heard)
    judging._conclude(verdict)
    judgement = Judgement([verdict])
    monkeypatch.setattr(judging, "judge", lambda *_, **__: judgement)
    assert command.main(["judge", "x", "--out", str(tmp_path)]) == 0
    told = capsys.readouterr().out
    assert told.startswith(
        "x: correct, as far as it could be tried\n  not tried: 500 c"
    )
    html = (tmp_path / page.HTML).read_text("utf-8")
    assert "It is a correct echo server, as far as it could be tried." in html
    assert "1 of 1 went well" in html
    assert "Not known: 500 clients: no port is free for a client" in html


def test_without_a_client_there_is_no_verdict(monkeypatch):
    """Nothing was wrong with a server that nobody could talk to: it was correct."""
    heard = [Heard("every byte", "all", untried="no port is free")]
    converse = Mock(side_effect=lambda verdict, _line: verdict.heard.extend(heard))
    monkeypatch.setattr(judging, "_converse", converse)
    with pytest.raises(RuntimeError, match="judge: all: no port is free"):
        judge(["lessons/epoll"], quick=True, say=print)


@pytest.mark.parametrize(
    ("descriptors", "ports", "untried"),
    [
        (20_000, 28_232, {}),
        (1024, 28_232, {1000: "1000 clients at once: one process may have 1024 d"}),
        (20_000, 101, {n: f"{n} clients at once: net.ipv4.ip_lo" for n in (100, 1000)}),
        (256, 28_232, {n: f"{n} clients at once: one pr" for n in (1, 10, 100, 1000)}),
    ],
)
def test_a_crowd_that_does_not_fit_into_the_machine_is_told(
    descriptors, ports, untried
):
    """A page said of a server that none was tried on: it carried 0 clients."""
    levels = (1, 10, 100, 1000)
    found = crowds._untried(levels, descriptors=descriptors, ports=ports)
    assert found.keys() == untried.keys()
    assert all(found[n].startswith(untried[n]) for n in found)
    crowd = crowds._concluded([], None, None, "10 clients at once: x")
    verdict = Verdict("x", "x", heard=[Heard("a", "a")], crowds=crowd)
    text = page.markdown(Judgement([verdict]))
    assert "Not tried: 10 clients at once: x." in text
    assert "It carried" not in text


@pytest.mark.timed
@pytest.mark.parametrize(
    ("server", "most", "taken", "bound"),
    [
        ("lessons/thread", 300, 250, "this user may have 300 processes and threads"),
        ("lessons/thread", 400, 250, None),
        ("lessons/thread", None, 250, None),
        ("lessons/thread", 300, None, None),  # it does not bind root
        ("lessons/epoll", 300, 250, None),
    ],
)
def test_a_limit_of_tasks_is_named_where_a_server_needs_one_for_each_client(
    monkeypatch, server, most, taken, bound
):
    monkeypatch.setattr(checkup, "user_tasks", lambda: taken)
    limits = machine.limits() | {"processes": {"soft": most}}
    monkeypatch.setattr(machine, "limits", lambda: limits)
    command = servers.command_line(server, programs.built())
    found = crowds.tasks_bound(command, 100)
    assert found is None if bound is None else found.startswith(bound)


@pytest.mark.parametrize(
    ("used", "bound"),
    [
        (250, "this cgroup may have 300 processes and threads (pids.max)"),
        (100, None),
    ],
)
def test_a_limit_of_tasks_may_be_that_of_the_cgroup(monkeypatch, used, bound):
    """A container that counts tasks binds root as well."""
    monkeypatch.setattr(checkup, "user_tasks", lambda: None)
    limited = [("/", 300, used), ("/above", 5000, 2000)]
    monkeypatch.setattr(capacity, "_limited", lambda controller: limited)
    command = servers.command_line("lessons/thread", programs.built())
    assert crowds.tasks_bound(command, 100) == bound


@pytest.mark.parametrize("bound", [None, "this user may have 60 threads"])
def test_a_user_who_may_have_few_threads_does_not_make_a_server_wrong(
    monkeypatch, bound
):
    """Under `ulimit -u 60` a server in Python that starts threads was not correct."""
    heard = [Heard("every byte", "all"), Heard("a hundred", "a hundred clients", "no")]

    def converse(verdict, _line, _todo):
        verdict.heard += heard
        return "exit 1: can't start new thread"

    monkeypatch.setattr(judging, "_converse_until_end", converse)
    monkeypatch.setattr(conversations, "EVERY", tuple(heard))
    monkeypatch.setattr(crowds, "tasks_bound", lambda *_: bound)
    verdict = Verdict("x", "x")
    judging._converse(verdict, "x {port}")
    assert verdict.right is bool(bound)
    assert verdict.untried == ([f"a hundred clients: {bound}"] if bound else [])
    assert bool(verdict.lacks) is not bool(bound)


def test_who_listens_no_longer_and_lives_on_is_wrong(monkeypatch):
    """Where all that was tried till then went well, each fresh server was right."""
    heard = [Heard(name, f"client {name}") for name in "abc"]

    def converse(verdict, _line, todo):
        verdict.heard += todo[:1]

    monkeypatch.setattr(judging, "_converse_until_end", converse)
    monkeypatch.setattr(conversations, "EVERY", tuple(heard))
    verdict = Verdict("x", "x")
    judging._converse(verdict, "x {port}")
    ends = ("a", "b")  # after the last one, nobody comes any more
    told = [f"it listened no longer after client {n}, but went on" for n in ends]
    assert verdict.wrong == told
    first = hints.first(verdict, Judgement([verdict]))
    assert first == [f"It is not correct: {text}." for text in told]


@pytest.mark.parametrize(
    ("name", "bound", "wrong"),
    [
        ("a hundred", None, ["it listened no longer after a hundred, but went on"]),
        ("a hundred", "this user may have 60", []),
        ("in a row", None, ["in a row: no answer"]),
    ],
)
def test_who_listens_no_longer_after_what_it_need_not_do_is_wrong(
    monkeypatch, name, bound, wrong
):
    """One that a hundred clients ended was correct: it lacked something only."""
    heard = [Heard(name, name, "no answer"), Heard("slow sender", "slow sender")]

    def converse(verdict, _line, todo):
        verdict.heard += todo[:1]

    monkeypatch.setattr(judging, "_converse_until_end", converse)
    monkeypatch.setattr(conversations, "EVERY", tuple(heard))
    monkeypatch.setattr(crowds, "tasks_bound", lambda *_: bound)
    verdict = Verdict("x", "x")
    judging._converse(verdict, "x {port}")
    assert verdict.wrong == wrong


def test_a_server_that_is_not_correct_is_not_told_that_nothing_is_wrong():
    """No hint is of a count, and none was the same as no fault."""
    wrong = ["as many answers as requests: 99 answers to 100 requests"]
    verdict = Verdict("x", "x", wrong, heard=[Heard("a", "a")])
    (first,) = hints.first(verdict, Judgement([verdict]))
    assert first == f"It is not correct: {wrong[0]}."


@pytest.mark.timed
def test_who_ends_after_an_answer_is_given_time_to_end(monkeypatch):
    """Asked to end as its port had closed, it had not ended by itself."""
    waited = Mock()
    monkeypatch.setattr(running.Running, "wait_for_its_end", waited)
    ends = [Heard("a", "a word")]
    monkeypatch.setattr(conversations, "hold", lambda *_: ends)
    command = servers.command_line("lessons/epoll", programs.built())
    for todo, times in [(["one"], 0), (["one", "two"], 1)]:
        judging._converse_until_end(Verdict("x", "x"), command, todo)
        assert waited.call_count == times


def test_a_crowd_for_which_the_user_may_have_no_threads_is_told(monkeypatch):
    monkeypatch.setattr(crowds, "tasks_bound", lambda *_: "this user may have 60")
    crowd = crowds.try_all(line("ends"), levels=[5])
    assert crowd.limit == "this user may have 60"


@pytest.mark.timed
@pytest.mark.parametrize(
    ("kind", "wrong", "prints"),
    [
        ("good", [], False),
        ("greeter", [], False),
        ("chatty", [], True),
        ("unreaped", [cases.WAITED], False),
        ("careless", ["sockets closed"], False),  # it passed: no client was reset
    ],
)
def test_a_case_holds_or_does_not(kind, wrong, prints):
    asked = cases.ask_all(line(kind), valgrind=None)
    failed = [answer.question for answer in asked.answers if answer.holds is False]
    assert failed == wrong
    assert asked.prints is prints
    assert asked.busy_share < judging._BUSY_MOST


@pytest.mark.timed
def test_who_dies_of_clients_that_come_and_go_is_wrong(monkeypatch):
    """One that died of its 1000th was right: conversations are of fewer clients."""
    heard = Heard("every byte", "zeros, newlines, all 256 values")
    monkeypatch.setattr(judging, "_converse", lambda v, line: v.heard.append(heard))
    verdict, judgement = judged("crash")
    died = f"it died of {cases.VISITORS}: killed by SIGSEGV"
    assert died in verdict.wrong
    assert hints.first(verdict, judgement)[0] == f"It ends when it should not: {died}"


@pytest.mark.timed
def test_a_server_that_looks_again_and_again_is_told_to_wait():
    verdict = Verdict("x", "x", heard=[Heard("a", "a")])
    assert not verdict.restless
    with running.running(line("restless")) as server:
        verdict.busy_share = cases._busy_share(server)
    assert verdict.restless
    (first,) = hints.first(verdict, Judgement([verdict]))
    assert "busy though its client is silent" in first


def test_what_a_server_died_of_keeps_the_name_of_the_exception():
    said = "exit 1: " + "x" * 900 + " Error: broken pipe"
    told = judging._shortened(said)
    assert told.startswith("exit 1: x")
    assert told.endswith("x Error: broken pipe")
    assert len(told) < 320
    frames = f"exit 1: {TRACEBACK}OSError: no\n"
    assert trials.without_frames(frames) == "exit 1: OSError: no"


def test_everything_that_can_go_wrong_has_a_meaning():
    talks = {talk.name for talk in conversations.EVERY}
    assert talks | {"more"} == MEANS.keys()


@pytest.mark.parametrize("talk", conversations.EVERY, ids=lambda talk: talk.name)
def test_a_server_that_takes_a_little_again_and_again_does_not_hold_up_the_verdict(
    monkeypatch, talk
):
    """A byte at a time took 47 s in one of them: it never stopped taking.

    Nor is the rest of one answer taken for the next.
    """

    def creep(client, _):
        while data := client.recv(1):
            time.sleep(0.005)
            client.sendall(data)

    monkeypatch.setattr(conversations, "ENOUGH_S", 0.5)
    with serving(creep) as server:
        (heard,) = conversations.hold([talk], ("127.0.0.1", server.port))
    assert heard.ok, heard.failure
    long = {"reads late", "a mebibyte", "lengths", "pipelined", "every byte"}
    assert heard.about.endswith("as it answers slowly)") or talk.name not in long
    assert heard.seconds < 10


def test_who_keeps_slowly_what_nobody_reads_does_not_hold_up_the_verdict(monkeypatch):
    """One that took 64 KiB every 10 ms was sent 128 MiB for 20 s, others longer."""

    def keeps(client, _):
        while data := client.recv(65536):
            if len(data) < 100:
                client.sendall(data)
            time.sleep(0.01)

    monkeypatch.setattr(conversations, "ENOUGH_S", 0.5)
    (mute,) = (c for c in conversations.ISOLATING if c.name == "mute reader")
    with serving(keeps) as server:
        (heard,) = conversations.hold([mute], ("127.0.0.1", server.port))
    assert heard.ok, heard.failure
    assert heard.seconds < 10


# ---- the page -----------------------------------------------------------------------


@pytest.mark.timed
def test_the_command_writes_a_page_and_says_it_by_its_status(tmp_path, capsys):
    good = [*("judge", "lessons/epoll"), "--quick", "--out", str(tmp_path / "good")]
    assert command.main(good) == 0
    both = ["judge", "lessons/epoll", line("wrong"), "--quick"]
    assert command.main([*both, "--out", str(tmp_path / "both")]) == 1
    assert "not correct" in capsys.readouterr().out
    for name in ("good", "both"):
        told = json.loads((tmp_path / name / page.JSON).read_text())
        assert told["right"] is (name == "good")
        assert (tmp_path / name / page.PDF).read_bytes().startswith(b"%PDF")
        html = (tmp_path / name / page.HTML).read_text()
        assert "lessons/epoll" in html
        assert "<script" not in html
    assert html.count("<table") >= 1


def ctrl_c():
    raise KeyboardInterrupt


def sigterm():
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(10)


def failing_machine():
    raise RuntimeError("no memory here")


def full_disk():
    raise OSError(errno.ENOSPC, "no memory here")


@pytest.mark.parametrize(
    ("end", "status"),
    [(ctrl_c, 130), (sigterm, 130), (failing_machine, 1), (full_disk, 1)],
)
@pytest.mark.parametrize("kept", [0, 1, 2])
def test_what_was_judged_is_kept(monkeypatch, tmp_path, capfd, kept, end, status):
    """Pages were written at the end, so that a class lost all of its verdicts."""
    names = ["lessons/epoll", "lessons/poll"]
    before = signal.getsignal(signal.SIGTERM)

    def judged(verdict, *_):
        if verdict.server in names[kept:]:
            end()
        verdict.heard = [Heard("a", "a word")]
        return verdict

    monkeypatch.setattr(judging, "_judged", judged)
    monkeypatch.setattr(judging, "_let_take_turns", lambda *_: end())
    try:
        assert command.main(["judge", *names, "--out", str(tmp_path)]) == status
    finally:
        signal.signal(signal.SIGTERM, before)
    out, err = capfd.readouterr()
    assert out.count(": correct") == kept
    if not kept:  # a page of earlier is left alone
        assert not list(tmp_path.iterdir())
        return
    told = json.loads((tmp_path / page.JSON).read_text("utf-8"))
    assert [server["server"] for server in told["servers"]] == names[:kept]
    assert told["stopped"]
    assert list(told["missing"]) == names[kept:]
    assert told["right"] is (kept == 2)
    html = (tmp_path / page.HTML).read_text("utf-8")
    lost = ["before all turns", "not judged: lessons/poll"][kept == 1]
    assert lost in err
    assert lost in html
    assert all(("no memory here" in text) is (status == 1) for text in (err, html))
    assert ("1 of 2 servers, judged" in html) is (kept == 1)


@pytest.mark.parametrize(
    ("flags", "told"), [([], "x: correct\n"), (["--json"], '"right": true')]
)
def test_verdicts_are_told_where_no_page_can_be_written(
    monkeypatch, tmp_path, capsys, flags, told
):
    """That the disk is full was all that was said after minutes."""
    full = Mock(side_effect=OSError(errno.ENOSPC, "no room"))
    monkeypatch.setattr(page, "write", full)
    judgement = Judgement([Verdict("x", "x", heard=[Heard("a", "a word")])])
    monkeypatch.setattr(judging, "judge", lambda *_, **__: judgement)
    assert command.main(["judge", "x", *flags, "--out", str(tmp_path)]) == 1
    said = capsys.readouterr()
    assert told in said.out
    assert "no room" in said.err


def test_turns_that_were_measured_are_kept(monkeypatch):
    """Of a class that takes several contests, those before Ctrl-C were lost."""
    first = contest.Contest(1, 5)
    monkeypatch.setattr(judging, "_contests", lambda _: [1])
    monkeypatch.setattr(contest, "divided", lambda names, **_: [[n] for n in names])
    monkeypatch.setattr(contest, "hold", Mock(side_effect=[first, KeyboardInterrupt]))
    judgement = Judgement([Verdict(name, name) for name in "ab"])
    with pytest.raises(KeyboardInterrupt):
        judging._let_take_turns(judgement, lambda text: None)
    assert judgement.contests == [first]


def test_markdown_of_a_server_is_not_taken_for_the_pages_own():
    said = "| # <b>*hello*</b>\n- more\n```\n<b>"
    heard = [Heard("a", "a"), Heard("lengths", "lengths", said)]
    verdict = Verdict("x {port}", "x", [f"it died: {said}"], heard=heard, printed=said)
    text = page.markdown(Judgement([verdict], made_at="2026-01-01"))
    assert "\n- more" not in text
    html = page._html(text, "<b>")
    assert "&lt;b&gt;" in html
    assert "<b>" not in html


@pytest.mark.parametrize(
    "server", ["sh -c '`cat which` {port} *x*'", "sh -c '\n\n./mine ``{port}'"]
)
def test_a_command_line_stays_what_it_is(server):
    """One with a backtick ended the code that it stands in, and was Markdown."""
    html = page._html(page.markdown(Judgement([Verdict(server, "x", ["no"])])), "x")
    shown = html.replace("&#39;", "'").replace("&quot;", '"')
    assert f"<code>{' '.join(server.split())}</code>" in shown


def test_options_and_entities_that_a_server_prints_stay_what_they_are():
    """A usage with `--port` had a dash, as a page is read with typography."""
    wrong = ["it does not serve: exit 2: usage: mine --port N &lt;"]
    text = page.markdown(Judgement([Verdict("x", "x", wrong)]))
    assert "usage: mine --port N &amp;lt;" in page._html(text, "x")
    assert not re.search("–|--|[^&]lt;", page._converted(text, "typst"))


def test_a_page_says_once_what_went_wrong():
    heard = [Heard("a", "a word", "sent 9, 8 came")]
    wrong = ["it died of a word: exit 1", "a word: sent 9, 8 came"]
    text = page.markdown(Judgement([Verdict("x", "x", wrong, heard=heard)]))
    assert text.count("sent 9, 8 came") == 1
    assert "\n- it died of a word: exit 1\n" in text


OPEN = "9 bytes came back, then the server did not close for 5 s"
RESET, SILENT = "9 came back, then a reset", "9 came back, then nothing for 5 s"
SHORT = "sent 99 bytes, 9 came back, then nothing more; sent next: 'x'"
NONE = "sent 1 bytes, 0 came back, then nothing more; sent next: '\\xf5'"


@pytest.mark.parametrize(
    ("wrong", "failures", "advice"),
    [
        (["it died of x: exit 0"], {"lengths": "reset"}, ["It ends with its first"]),
        (
            ["it died of x: exit 0", "it died of y: exit 0"],
            {"a": None, "resets": "refused"},
            ["It ends when it should not: it died of x", MEANS["resets"]],
        ),
        ([], {"lengths": "sent 9 bytes, 0 came back"}, ["It listens and answers nobo"]),
        ([], {"lengths": "sent 9 bytes, 8 came back"}, [MEANS["lengths"]]),
        ([], {"a mebibyte": OPEN, "half-closed": OPEN}, [MEANS["silent end"]]),
        (  # edge-triggered, and reads once: it closes where it is not behind
            [],
            {"lengths": SILENT, "byte by byte": OPEN},
            [MEANS["lengths"], MEANS["byte by byte"]],
        ),
        (  # a socket that does not block: what send() does not take is to be kept
            [f"it died of {name}: BlockingIOError: x" for name in ("reads late", "x")],
            {"reads late": RESET, "x": "no", "a": None},
            ["It ends when it should not: it died of reads", MEANS["reads late"]],
        ),
        (
            [
                f"it died of {name}: send: EAGAIN"
                for name in ("a mebibyte", "reads late")
            ],
            {"a mebibyte": RESET, "reads late": RESET, "a": None},
            ["It ends when it should not: it died of a me", MEANS["a mebibyte"]],
        ),
        (  # an array that is full: they also vanish in vain
            ["it died of in a row: exit 0", "it died of resets: exit 0"],
            {"in a row": "0 came back", "resets": "refused", "a": None},
            ["It ends when it should not: it died of in a row"],
        ),
        ([], {"lengths": RESET, "one connection": RESET}, [MEANS["one connection"]]),
        # after so many bytes
        ([], {"lengths": RESET, "reads late": SHORT}, [MEANS["one connection"]]),
        (  # what is no text ends a connection, at its first message
            [],
            {"lengths": NONE, "every byte": NONE, "one connection": NONE}
            | {"pipelined": None},
            [MEANS["every byte"]],
        ),
        (
            [],
            {"lengths": SILENT, "every byte": "no"},
            [MEANS["every byte"], MEANS["lengths"]],
        ),
        # what send() does not take is lost
        ([], {"reads late": SILENT, "own answers": SILENT}, [MEANS["reads late"]]),
        ([], {"half-closed": SHORT, "reads late": SILENT}, [MEANS["reads late"]]),
        ([], {"half-closed": SHORT, "reads late": None}, [MEANS["half-closed"]]),
        (  # waits for a full buffer
            [],
            dict.fromkeys(
                ["lengths", "every byte", "one connection", "pipelined"], SILENT
            ),
            [MEANS[name] for name in ("every byte", "lengths", "pipelined")],
        ),
        (
            [],
            {"idle neighbour": "2 came back", "a hundred": "no", "mute reader": "no"},
            [MEANS["idle neighbour"]],
        ),
        ([], dict.fromkeys(MEANS, "no") | {"a": None}, [""] * 3),  # at most three
    ],
)
def test_advice_fits_what_failed(wrong, failures, advice):
    heard = [Heard(name, name, failure) for name, failure in failures.items()]
    verdict = Verdict("x", "x", wrong, heard=heard)
    first = hints.first(verdict, Judgement([verdict]))
    assert len(first) == len(advice)
    assert all(map(str.startswith, first, advice)), first


def test_a_page_writes_a_rate_without_an_exponent():
    assert page._number(3620.4, 1.0) == "3620"


def test_what_is_missing_is_told_where_nothing_is_wrong():
    verdict = Verdict("x", "x", lacks=["silence"], heard=[Heard("a", "a")])
    (first,) = hints.first(verdict, Judgement([verdict]))
    assert "silence" in first


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("limit", ["client-bound", "server-bound", "unsaturated", None])
def test_page_and_comparison_name_the_same_limit(monkeypatch, limit, shared):
    """Whatever they say: by one answer, that of a trial's label."""
    names = ["epoll", "poll"]
    compared = comparison.Comparison(plan.make_plan(names))
    cores = replace(compared.plan.cores, shared=shared)
    compared.plan = replace(compared.plan, cores=cores)
    monkeypatch.setattr(comparison.Comparison, "limits", lambda _: {"poll": limit})
    monkeypatch.setattr(comparison.Comparison, "busy", lambda _: {"poll": (0.9, 0.97)})
    compared.sets = [None]
    text = screen.limits(compared)[0]
    none = {"levels": {}, "ratios": {"rate": {}}, "failed": {}, "others_share": 0}
    none |= {"falling": {}}
    result = contest._contest(50, none | {"sets": 5}, compared, {})
    said = page._limited(result, "poll")
    client = "client" in said and "core" in said
    assert client == text.startswith("limited by the client")
    assert ("neither" in said or "no core" in said) == text.startswith("neither")
    assert (said == "not known") == ("nobody could see" in text)
    bound = limit in ("client-bound", "server-bound")
    assert ("shared core" in said) == ("core that" in text) == (shared and bound)


@pytest.mark.parametrize(
    ("low", "told"), [(2.8, ["3.0 times", "4 futex"]), (0.9, ["not shown"])]
)
def test_a_dear_server_is_told_its_calls_where_that_is_shown(low, told):
    cost = {"value": 3.0, "lo": low, "hi": 9.0 / low, "word": "dearer"}
    measured = contest.Contest(50, 5, ratios={"x": {"cpu": cost}})
    counted = calls.Calls({"futex": 4.0})
    verdict = Verdict("x", "x", heard=[Heard("a", "a")], calls=counted)
    judgement = Judgement([verdict], contests=[measured])
    first = hints.first(verdict, judgement)[0]
    assert all(text in first for text in told)


def test_a_dear_server_that_still_compiles_is_told_to_be_warmed_up():
    cost = {"value": 3.0, "lo": 2.8, "hi": 3.2, "word": "dearer"}
    compiling = {"falling": {"x": 0.61}, "ratios": {"x": {"cpu": cost}}}
    judgement = Judgement([], contests=[contest.Contest(50, 5, **compiling)])
    (first,) = hints._costs(Verdict("x", "x"), judgement)
    assert "0.61 times" in first
    assert "--warm-up" in first


@pytest.mark.parametrize("asked", [None, 7.0])
def test_a_contest_has_the_time_to_warm_its_servers_up(monkeypatch, asked):
    """In too short a one there are fewer than the five sets of an interval."""
    plans, made = [], plan.make_plan

    def noted(names, **options):
        plans.append(made(names, **options))
        raise OSError("no further")

    monkeypatch.setattr(plan, "make_plan", noted)
    contest.hold([line("good"), "thread-pair"], connections=50, warm_up=asked)
    (only,) = plans
    of_each = {s.factors["model"]: servers.warm_up_s(s.factors) for s in only.servers}
    assert of_each.pop(line("good")) == (asked or servers.WARM_UP_S)
    assert set(of_each.values()) == {0.0}
    assert only.budget_s >= 5 * only.set_s


def test_a_warm_up_that_cannot_be_is_refused_before_anything_is_tried():
    """It was told after minutes, as what kept each server from its turns."""
    said = []
    with pytest.raises(ValueError, match="^warm-up: 61 s; allowed: 0 to 60 s$"):
        judge([line("good")], warm_up=61.0, say=said.append)
    assert said == []


def row_of(text: str, first: str) -> list[list[str]]:
    """Return the cells of a page's rows that begin with a word."""
    rows = [[cell.strip() for cell in ln.split("|")[1:-1]] for ln in text.splitlines()]
    return [row for row in rows if row and row[0] == first]


def measured(rate: float, cpu: float) -> dict:
    values = {"rate": rate, "cpu": cpu, "p50": 2e-4, "p99": None}
    return {metric: {"value": value} for metric, value in values.items()}


def test_a_page_of_two_servers_has_their_table_and_their_turns():
    """Without --quick: what was tried, a row for each, and where each stands."""
    cost = {"value": 2.5, "lo": 2.0, "hi": 3.125, "word": "dearer"}
    same = {"value": 1.0, "lo": 0.99, "hi": 1.01, "word": "alike"}
    alone = {"value": 0.5, "lo": None, "hi": None, "word": "undetermined"}
    one = contest.Contest(1, 4, slice_s=0.002, ratios={"./b {port}": {"cpu": alone}})
    many = contest.Contest(
        50,
        7,
        levels={
            "epoll": measured(100_000.0, 8e-6),
            "epoll again": measured(100_000.0, 8e-6),
            "./a {port}": measured(40_000.0, 20e-6),
        },
        ratios={"epoll again": {"cpu": same}, "./a {port}": {"cpu": cost}},
        limits={"epoll": "server-bound", "./a {port}": "client-bound"},
        failed={"./b {port}": "it | died"},
        falling={"./a {port}": 0.614},
        warm_up_s=2.0,
    )
    asked = [
        cases.Answer("they close", "server", (3, 4), True, "both"),
        cases.Answer("it leaks", "server", (), False, "64 bytes | lost"),
        cases.Answer("it waits", "server", (), None, "no valgrind"),
    ]
    heard = [Heard("a", "a word"), Heard("lengths", "lengths", "sent 9, 8 came")]
    crowd = crowds._concluded([crowds.Level(10, 10, 10)], None, None)
    good = Verdict("./a {port}", "a", heard=heard[:1], answers=tuple(asked[:1]))
    bad = Verdict("./b {port}", "b", ["it died"], heard=heard, answers=tuple(asked))
    good.crowds, good.calls = crowd, calls.Calls({"read": 64.0, "write": 65.0})
    text = page.markdown(Judgement([good, bad], contests=[one, many]))
    assert row_of(text, "`a`")[0][1:5] == ["correct", "1 of 1", "10", "2.5 [2, 3.12]"]
    assert row_of(text, "`b`")[0][1:5] == ["not correct", "1 of 2", "—", "0.5"]
    assert text.index("every 2 ms, in 4") < text.index("every 20 ms, in 7")
    (head,) = row_of(text.partition("50 connections")[2], "server")
    units = "answers, thousand requests/s; CPU per request, µs; p50, µs; p99, s"
    assert head[1:5] == units.split("; ")
    assert row_of(text, "epoll") == [["epoll", "100", "8", "200", "—", "1", "its core"]]
    numbers = ["40", "20", "200", "—", "2.5 [2, 3.12] dearer", "the client's core"]
    assert row_of(text, "`a`")[1:] == [["`a`", *numbers]]
    assert "| `b` | left out |  |  |  | it \\| died |  |" in text
    assert "in 7 fresh sets" in text
    assert "The same epoll twice: 1 [0.99, 1.01]." in text
    assert text.count("compile as it runs had 2 s of load.") == 1
    assert "`a` was still falling, to 0.61 times" in text
    assert "## In turns with models, 1 connection\n" in text
    assert "One client's request took 129 system calls (64 read, 65 write)." in text
    tried = "2 of 4 went well: a word; they close (a case of Tran and Rees)."
    assert f"{tried} Not known: it waits: no valgrind.\n" in text
    assert row_of(text, "it leaks") == [["it leaks", "64 bytes \\", "lost"]]
    assert [row[1] for row in row_of(text, "lengths")] == ["sent 9, 8 came"]


# ---- what it rests on ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("grown", "program", "holds"),
    [
        (0, "mine", True),
        (10**6, "mine", False),
        (10**6, "python3.11", False),
        (10**6, "java", None),
        (10**6, "ruby3.1", None),
        (10**6, "pypy3.10", None),
        (10**6, "lua5.4", None),
        (10**6, "beam.smp", None),
        (10**6, "node-server", False),
        (10**6, "gopher", None),
        (0, "java", True),
    ],
)
def test_memory_that_grows_is_a_leak_unless_it_may_be_collected(
    tmp_path, grown, program, holds
):
    content = b"\xff Go buildinf:" if program == "gopher" else b""
    (tmp_path / program).write_bytes(b"\x7fELF" + content)
    collector = cases._collector(tmp_path / program)
    assert cases._leaks("mine {port}", None, grown, collector)[0] is holds


@pytest.mark.timed
def test_what_runs_behind_a_shell_is_a_program_of_the_server():
    """Java, started by a script, was not known to collect, and its memory a leak."""
    behind = f"sh -c {shlex.quote(line('good') + '; true')}"
    with running.running(behind) as server:
        names = [program.name for program in server.programs()]
    assert Path(sys.executable).resolve().name in names


@pytest.mark.parametrize(
    ("name", "is_asked"),
    [("mine", True), ("php8.2", False), ("deno", False), ("pypy3.10", False)],
)
def test_valgrind_is_not_asked_about_what_runs_the_code_of_others(
    monkeypatch, tmp_path, name, is_asked
):
    """What a virtual machine loses at its end would be a fault of the server."""
    (tmp_path / name).write_bytes(b"\x7fELF")
    monkeypatch.setattr(shutil, "which", lambda name: name)
    found = judging._valgrind(f"{shlex.quote(str(tmp_path / name))} {{port}}")
    assert found == ("valgrind" if is_asked else None)


def test_a_program_that_nobody_may_read_is_judged_without_valgrind(monkeypatch):
    """One of mode 711 ended the judging of its whole class."""
    monkeypatch.setattr(shutil, "which", lambda name: name)
    monkeypatch.setattr("builtins.open", Mock(side_effect=PermissionError))
    assert judging._valgrind("./mine {port}") is None


@pytest.mark.parametrize(
    ("visited", "alone", "grown", "holds"),
    [
        ((0, 1), (0, 1), 0, True),
        ((0, 1), (0, 1), 10**6, False),  # stacks of threads that nobody joined
        ((0, 1), (0, 1), None, True),
        ((4100, 1), (0, 1), 0, False),
        ((6 * 64, 6), (64, 1), 0, True),  # of getaddrinfo(), once, also in children
        ((6 * 64 + 5 * 32, 6), (2 * 64 + 32, 2), 0, False),
        ((0, 0), (0, 0), None, None),
    ],
)
def test_a_leak_is_what_is_lost_or_grows_with_clients(
    monkeypatch, visited, alone, grown, holds
):
    lost = {True: visited, False: alone}
    monkeypatch.setattr(cases, "_lost", lambda *_, visited: lost[visited])
    assert cases._leaks("mine {port}", "valgrind", grown, "")[0] is holds


@pytest.mark.skipif(not shutil.which("valgrind"), reason="valgrind is not installed")
@pytest.mark.parametrize(("completed", "reports"), [(100, 1), (39, 0), (None, 0)])
def test_valgrind_tells_nothing_of_clients_that_were_not_served_whole(
    monkeypatch, tmp_path, server_program, completed, reports
):
    """In any folder for temporary files: one with a space ended valgrind at once."""
    (tmp_path / "a folder").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "a folder"))

    def ask(_serving):
        report = {"requests": {"completed": completed}} if completed else None
        return report, "", []

    monkeypatch.setattr(cases, "_ask_client", ask)
    server = f"{server_program} iterative --listen 127.0.0.1:{{port}}"
    assert cases._lost(server, shutil.which("valgrind"), visited=True) == (0, reports)


@pytest.mark.parametrize(
    ("command", "label"),
    [
        ("./shout {port}", "shout"),
        ("/usr/bin/python3.11 -u echo.py {port}", "echo.py"),
        ("java -cp build:lib/a.jar -Xmx1g Echo {port}", "Echo"),
        ("env PORT={port} node --no-warnings echo.js", "echo.js"),
        ("python3 -{port}", "python3"),
        ("sh -c 'cd ann && ./mine {port}'", "mine"),
        (
            "bash -ec 'cd ben; make -s >&2; PORT=1 exec python3 -u echo.py {port}'",
            "echo.py",
        ),
        ("sh -c './mine {port} 2>log || echo it ended'", "mine"),
        ("env A=b sh -c 'export PORT={port}\n(cd ann; exec ./mine)'", "mine"),
        ("bash run.sh {port}", "run.sh"),
        ("php8.2 -q echo.php {port}", "echo.php"),
        ("lua5.4 echo.lua {port}", "echo.lua"),
        ("sh -c 'PORT={port}'", "sh"),
        ('sh -c "echo \'{port}"', "sh"),
    ],
)
def test_a_server_is_called_by_its_program_and_not_by_an_interpreter(command, label):
    assert naming.labels([command]) == {command: label}


def test_servers_of_one_name_are_told_apart():
    lines = ["ann/echo {port}", "/home/ben/echo {port}", "java -cp a Echo {port}"]
    lines += ["java -cp b Echo {port}", "other {port}", "lessons/epoll"]
    labels = ["ann/echo", "ben/echo", "Echo (3)", "Echo (4)", "other", lines[-1]]
    assert list(naming.labels(lines).values()) == labels


def test_a_program_with_all_of_its_folders_is_called_by_its_path():
    """One of few folders, judged with two options, was //tmp/echo."""
    labels = naming.labels(["/tmp/echo {port}", "/tmp/echo -v {port}"])
    assert list(labels.values()) == ["/tmp/echo (1)", "/tmp/echo (2)"]


@pytest.mark.parametrize(
    "line", ["sh -c 'cd {} && ./mine {{port}}'", "{}/mine {{port}}"]
)
def test_a_class_is_told_apart_by_its_folders(line):
    """In a page of `sh -c 'cd ann && ./mine {port}'` and others all had a number."""
    folders = ["ann", "ben", "cem/last", "dan/last"]
    labels = naming.labels(line.format(folder) for folder in folders)
    assert list(labels.values()) == [f"{folder}/mine" for folder in folders]


@pytest.mark.parametrize(
    ("told", "message"),
    [
        (difference(b"hello", b"hel"), "5 bytes, 3 .*'lo'"),
        (difference(b"hello", b"hELLO"), "byte 1 .*'ello'.*'ELLO'"),
        (difference(b"hello", b"hello!"), "5 bytes, more .*: '!'"),
        (difference(b"hello", b"I: hello"), "5 bytes, more .*; from byte 0 on"),
        (difference(b"hello", b"lohel"), "another order; from byte 0 on sent 'hello'"),
        (
            Silence(b"hello", b"hel", 2.0),
            r"^sent 5 bytes \('hello'\), 3 came back, then nothing for 2 s$",
        ),
        (
            Silence(b"hello", b"hello", 2.0),
            "^5 bytes came back, then the server did not close for 2 s$",
        ),
    ],
)
def test_what_came_in_place_of_an_answer_is_told_with_its_bytes(told, message):
    assert re.search(message, str(told))


def test_a_message_that_is_not_read_whole_is_told_with_what_came():
    (one,) = (c for c in conversations.REQUIRED if c.name == "every byte")
    with serving(lambda client, _: client.send(client.recv(9))) as server:
        (heard,) = conversations.hold([one], ("127.0.0.1", server.port))
    assert re.match(r"sent 256 bytes .* 9 came back, then a reset", heard.failure)


@pytest.mark.timed
def test_who_sends_without_end_is_not_read_without_end():
    """Whoever answers recv() returning 0 filled the memory of who judges it."""

    def endless(client, _):
        while data := client.recv(65536):
            client.sendall(data)
        for _ in range(60):
            client.sendall(b"ping")
            time.sleep(0.1)

    (one,) = (c for c in conversations.REQUIRED if c.name == "byte by byte")
    with serving(endless) as server:
        (heard,) = conversations.hold([one], ("127.0.0.1", server.port))
    assert heard.failure == "sent 200 bytes, more came back: 'pingpingping'"
    assert heard.seconds < 4


@pytest.mark.timed
def test_what_nobody_reads_is_sent_no_longer_than_answers_come():
    """A thread that waits for room does not see that its descriptor was closed."""
    over = threading.Event()

    def deaf(client, _):
        client.shutdown(socket.SHUT_WR)
        over.wait(20)

    with (
        serving(deaf) as server,
        socket.create_connection(("127.0.0.1", server.port), 10) as sock,
    ):
        began = time.monotonic()
        assert exchange(sock, MIB * 32, []) == b""
        took_s = time.monotonic() - began
        over.set()
    assert took_s < 5


def test_calls_are_read_from_the_table_of_strace():
    few = STRACE.replace("8000", "400").replace("4100", "300")
    counted = calls.between((few, 100), (STRACE, 2000))
    assert counted.per_request == {"sendto": 4.0, "recvfrom": 2.0}
    assert calls.between(("", 1), ("", 2)).missing
    assert calls.between((few, 100), (STRACE, 100)).missing
    assert calls.between((few, 100), (STRACE, 60)).missing


@pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")
def test_many_requests_of_a_quick_server_are_counted(build_dir, monkeypatch):
    monkeypatch.setattr(calls, "REQUESTS", (5, 45))
    counted = calls.count(f"{build_dir}/lessons/epoll {{port}}")
    assert counted.missing == ""
    assert 2 <= counted.total < 5


def test_calls_are_counted_in_any_folder_for_temporary_files(monkeypatch, tmp_path):
    """In one with a space strace wrote its table elsewhere, and ran another program."""
    (tmp_path / "a folder").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "a folder"))
    monkeypatch.setattr(shutil, "which", lambda _: "/usr/bin/strace")
    started = Mock(side_effect=running.NotServing("no"))
    monkeypatch.setattr(calls, "running", started)
    assert calls.count("./mine {port}").missing == "not under strace: no"
    words = shlex.split(started.call_args.args[0])
    assert words[-2:] == ["./mine", "{port}"]
    assert words[-3].startswith(f"{tmp_path}/a folder/")


@pytest.mark.parametrize(
    ("level", "message"),
    [
        ({"clients": 1100, "connected": 1100, "answered": 1020}, "FD_SETSIZE"),
        ({"clients": 1100, "died": "killed by SIGABRT"}, "FD_SETSIZE is 1024"),
        (
            {"clients": 10, "died": f"exit 1: {TRACEBACK}OSError: no\n"},
            "it ended: exit 1: OSError: no",
        ),
        ({"clients": 10, "connected": 10, "answered": 1}, "one client "),
        ({"clients": 1100, "connected": 1100, "descriptors": 1024}, "descriptors"),
        (  # of a server that may have 1024 descriptors, whatever it waits in
            {
                **{"clients": 1100, "connected": 1100},
                **{"answered": 1020, "descriptors": 1024},
            },
            "descriptors: it may have 1024",
        ),
        (  # an array of 1000 clients
            {"clients": 1100, "connected": 1100, "answered": 1000, "threads": 1},
            "1000 clients at a time, the others wait",
        ),
        ({"clients": 10_000, "died": "exit 1: no memory"}, "if it waits in select()"),
        ({"clients": 1100, "connected": 1100, "answered": 8}, "workers: 8 clients"),
        (
            {"clients": 1100, "connected": 1100, "answered": 8, "threads": 9},
            "workers: 8 clients",
        ),
        (  # one thread has not so many workers
            {"clients": 1100, "connected": 1100, "answered": 900, "threads": 1},
            "900 clients at a time, the others wait: it has no more room",
        ),
        ({"clients": 1100, "connected": 300}, "backlog"),
    ],
)
def test_what_broke_a_crowd_is_named(level, message):
    whole = crowds.Level(10, 10, 10) if level["clients"] > 10 else None
    levels = [item for item in (whole, crowds.Level(**level)) if item]
    crowd = crowds._concluded(levels, None, 1024)
    assert message in crowd.limit


@pytest.mark.parametrize(
    ("clients", "waited", "told"),
    [
        (100, 19, "19 of 100 clients waited a second"),
        (10_000, 2, "Nothing"),  # a lesson, on a full machine
        (100, 0, "Nothing"),
    ],
)
def test_a_crowd_that_waits_for_room_is_told(clients, waited, told):
    last = crowds.Level(clients, clients, clients, waited=waited)
    verdict = Verdict("x", "x", heard=[Heard("a", "a")])
    verdict.crowds = crowds._concluded([crowds.Level(1, 1, 1), last], None, None)
    (first,) = hints.first(verdict, Judgement([verdict]))
    assert first.startswith(told)


@pytest.mark.parametrize(("carried", "told"), [(1, "1 client "), (10, "10 clients ")])
def test_one_client_is_no_clients(carried, told):
    levels = [crowds.Level(carried, carried, carried), crowds.Level(100)]
    verdict = Verdict("x", "x", heard=[Heard("a", "a")])
    verdict.crowds = crowds._concluded(levels, None, None)
    judgement = Judgement([verdict])
    assert f"It carried {told}and not 100" in hints.first(verdict, judgement)[0]
    assert f"It carried {told}at the same time" in page.markdown(judgement)


def test_a_crowd_that_would_wait_for_hours_is_not_waited_for(monkeypatch):
    """With listen(fd, 1) a hundred clients took 19 s, and ten thousand come."""
    monkeypatch.setattr(crowds, "_CONNECT_S", 1.2)
    monkeypatch.setattr(crowds, "_REFUSED_MOST", 99)
    monkeypatch.setattr(crowds, "_CROWD_S", 2.0)
    errors = Counter()
    with (
        socket.create_server(("127.0.0.1", 0), backlog=0) as full,
        socket.create_connection(full.getsockname()),
    ):
        socks, waited = crowds._connected(full.getsockname(), 99, errors)
    assert socks == []
    assert waited == sum(errors.values()) == 2


def test_a_server_that_does_not_start_for_a_crowd_is_told():
    crowd = crowds.try_all(line("ends"), levels=[5])
    assert [level.carried for level in crowd.levels] == [False]
    assert crowd.levels[0].died


def failing(monkeypatch, *names: str | None) -> list[plan.Plan]:
    """Let sets fail, each by the server of a name; return the plan of each."""
    asked, failures = [], iter(names)

    def sets(contest_plan):
        asked.append(contest_plan)
        error = turns.SetError("no", kind="server-start", server=0)
        error.name = next(failures)
        raise error
        yield

    monkeypatch.setattr(measure, "sets", sets)
    return asked


@pytest.mark.parametrize("name", ["epoll", "epoll again", None])
def test_a_contest_without_a_model_has_no_result_for_anybody(monkeypatch, name):
    judged = ["epoll", line("one"), line("other")]  # of a model no reason was told
    failing(monkeypatch, name)
    assert contest.hold(judged, connections=1).failed.keys() == set(judged)


def test_a_contest_goes_on_without_a_server_that_does_not_start(monkeypatch):
    judged = [line("one"), line("other")]
    asked = failing(monkeypatch, judged[1], judged[0])
    assert contest.hold(judged, connections=1).failed.keys() == set(judged)
    before, after = ([server.name for server in made.servers] for made in asked)
    assert [name for name in before if name not in after] == judged[1:]


def test_a_contest_goes_on_for_a_model_that_is_judged(monkeypatch):
    """It had no result where the last of the other servers did not start."""
    judged = ["epoll", line("one")]
    asked = failing(monkeypatch, judged[1], None)
    assert contest.hold(judged, connections=1).failed.keys() == set(judged)
    without = [server.name for server in asked[1].servers]
    assert without == ["epoll", "iterative", "epoll again"]


def test_a_contest_has_time_for_servers_that_start_slowly(monkeypatch):
    asked = failing(monkeypatch, None, None)
    for wait_s in (0, 8):
        contest.hold([line("one")], connections=1, wait_s=wait_s)
    quick, slow = (made.budget_s for made in asked)
    assert slow > quick
    assert slow > plan.SETS_LEAST * (asked[1].set_s + 8)


@pytest.mark.parametrize("hard", [None, 1024, 100])
def test_a_class_is_divided_into_contests_that_one_client_can_hold(monkeypatch, hard):
    monkeypatch.setattr(location.ThisMachine, "descriptors", lambda _: hard)
    asked, names = failing(monkeypatch, *[None] * 99), [line(f"{n}") for n in range(62)]
    groups = contest.divided(names, connections=50)
    assert sorted(name for group in groups for name in group) == sorted(names)
    results = [contest.hold(group, connections=50) for group in groups]
    assert {name for result in results for name in result.failed} == set(names)
    reasons = {reason for result in results for reason in result.failed.values()}
    if hard == 100:  # where no contest can be held, the page still gives the reason
        assert not asked
        assert all("connections: 50; allowed here" in reason for reason in reasons)
        return
    assert len(asked) == len(groups) > 1
    for made in asked:
        assert len(made.servers) <= 64
        assert not hard or 50 * len(made.servers) <= hard
        assert {"epoll", "thread", "poll"} <= {server.name for server in made.servers}


@pytest.mark.long
@pytest.mark.sweeps
def test_a_contest_has_a_ratio_for_each_server():
    result = contest.hold(["lessons/epoll"], connections=1)
    ratio = result.ratios["lessons/epoll"]["cpu"]
    assert 0.5 < ratio["value"] < 2
    assert ratio["lo"] <= ratio["value"] <= ratio["hi"]
    assert result.levels["lessons/epoll"]["p99"]["value"] > 0
