"""The 24 cases of report 001 hold, for every model and for the client."""

import shutil
import socket

import pytest

from connlab.drive import cases, models
from tests.conformance.harness import one_a_family

#: all is asked of the first when the client is
MODELS = {model.name: model for model in models() if model.available}
FIRST, *NAMES = MODELS
LEAKS = "no memory leaked"
VALGRIND = shutil.which("valgrind")


@pytest.mark.parametrize("name", NAMES)
def test_all_cases_but_leaks_hold_for(name, tmp_path):
    answers = cases.ask_all([name], tmp_path, valgrind=False)
    answers = [a for a in answers if a["subject"] == name]
    assert [a["question"] for a in answers] == list(cases.QUESTIONS)
    assert [a for a in answers if not a["holds"] and a["question"] != LEAKS] == []


def verdict(text: str, *, answered: int) -> cases.Answer:
    """Return what valgrind's words say of a server that answered so many requests."""
    client = {"requests": {"completed": answered}}
    talk = cases._Conversation(client, {}, [], [], 0, 0)
    return cases._verdict("thread", text, talk)


@pytest.mark.skipif(
    not VALGRIND, reason="valgrind is not installed, so nobody can look for leaks"
)
@pytest.mark.parametrize("name", one_a_family(NAMES))
def test_no_memory_leaks_from(name):
    answer = cases._under_valgrind(MODELS[name], "server_under", subject=name)
    assert answer.holds, answer


def test_all_cases_hold_for_the_client_and_nothing_is_asked_twice(
    tmp_path, monkeypatch
):
    answers = cases.ask_all([FIRST], tmp_path)
    assert [a["question"] for a in answers] == list(cases.QUESTIONS) * 2
    assert [a["subject"] for a in answers] == [FIRST] * 6 + ["client"] * 6
    missing = [a["question"] for a in answers if not a["holds"]]
    assert missing == ([] if VALGRIND else [LEAKS] * 2)
    numbers = [a["their_cases"] for a in answers[-6:]]
    assert numbers == [[1], [5], [9], [13], [20], [24]]
    monkeypatch.setattr(cases, "_converse", None)
    assert cases.ask_all([FIRST], tmp_path) == answers


def test_of_a_server_of_somebody_else_nothing_is_asked(tmp_path):
    assert cases.ask_all(["./mine {port}"], tmp_path) == []


def test_their_24_cases_are_each_asked_once():
    assert sorted(sum(cases.QUESTIONS.values(), ())) == list(range(1, 25))


def test_a_leak_is_seen_in_valgrinds_words():
    text = "LEAK SUMMARY:\n definitely lost: 0 bytes\n possibly lost: 1,088 bytes in 4"
    asked = cases.CONNECTIONS * cases.REQUESTS
    assert verdict(text, answered=asked).holds is False
    assert verdict("no leaks are possible", answered=asked).holds is True
    assert verdict("valgrind: cannot run", answered=asked).holds is None
    # who was cut short may have had no time to lose any; what is lost is lost
    cut = verdict("no leaks are possible", answered=39)
    assert (cut.holds, "answered: 39 of 100 requests" in cut.evidence) == (None, True)
    assert verdict(text, answered=39).holds is False


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="no IPv6 here")
def test_sockets_of_a_server_for_both_protocols_are_counted():
    both = {"family": socket.AF_INET6, "dualstack_ipv6": True}
    with socket.create_server(("", 0), **both) as listener:
        port = listener.getsockname()[1]
        assert cases.open_sockets(port) == 0
        with socket.create_connection(("127.0.0.1", port)):
            assert cases.open_sockets(port) == 1
