"""The 24 cases of report 001 hold, for every model and for the client."""

from __future__ import annotations

import json

import pytest

from connlab.drive import cases, models

NAMES = [model.name for model in models() if model.available]


@pytest.mark.parametrize("name", NAMES)
def test_all_cases_hold_for(name):
    answers = [a for a in cases.run([name]) if a.subject == name]
    assert [a.question for a in answers] == list(cases.QUESTIONS)
    failed = [a for a in answers if a.holds is False]
    assert not failed, failed
    assert all(a.holds for a in answers if a.question != "no memory leaked")


def test_all_cases_hold_for_the_client(tmp_path):
    answers = cases.run(NAMES[:1])
    assert all(a.holds is not False for a in answers)
    path = cases.keep(answers, tmp_path / "cases")
    kept = [json.loads(line) for line in path.read_text().splitlines()]
    assert [row["subject"] for row in kept[-6:]] == ["client"] * 6
    assert [row["their_cases"] for row in kept[-6:]] == [
        [1],
        [5],
        [9],
        [13],
        [20],
        [24],
    ]


def test_their_24_cases_are_each_asked_once():
    numbers = [
        n for servers, client in cases.QUESTIONS.values() for n in (*servers, client)
    ]
    assert sorted(numbers) == list(range(1, 25))


def test_a_leak_is_seen_in_valgrinds_words():
    text = "LEAK SUMMARY:\n definitely lost: 0 bytes\n possibly lost: 1,088 bytes in 4"
    assert cases._verdict("thread", text).holds is False
    assert cases._verdict("thread", "no leaks are possible").holds is True
    assert cases._verdict("thread", "valgrind: cannot run").holds is None
