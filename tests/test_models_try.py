"""What the headers of models give to try: it runs, and shows what they say."""

import re
import shutil

import pytest
from conftest import ROOT, ran

from connlab.judge import calls
from connlab.publish import models
from tests.conformance.harness import eventually, serving

PARTS = {
    path.stem: models.header(path.read_text()).parts
    for path in sorted((ROOT / "src_c" / "models").glob("*.c"))
}
TRY = {name: parts["Try"] for name, parts in PARTS.items()}
COMMANDS = [
    (name, command)
    for name, text in TRY.items()
    for command in re.findall(r"\b((?:gcc|diff) [^:]+):", text)
]


@pytest.mark.parametrize(("name", "command"), COMMANDS)
def test_a_command_of_a_header_runs_in_the_project(name, command):
    words = command.split()
    if not shutil.which(words[0]):
        pytest.skip(f"{words[0]} is not here")
    done = ran(*words, timeout=60)
    assert done.stdout
    assert done.stderr == ""


def test_each_file_that_a_header_names_is_there():
    named = {file for text in TRY.values() for file in re.findall(r"\S+\.c\b", text)}
    assert len(COMMANDS) >= 2
    assert [file for file in named if not (ROOT / file).is_file()] == []


#: calls of one client's request that the text under Try names
COUNTS = {
    "epoll": {"recvfrom": 1, "sendto": 1, "epoll_pwait2": 1},
    "epoll-pool": {"epoll_ctl": 1},
    "epoll-offload": {"recvfrom": 1, "sendto": 1, "write": 1, "read": 1, "futex": 3},
    "uring-poll": {"recvfrom": 1, "sendto": 1},
}


@pytest.mark.parametrize("name", COUNTS)
def test_a_request_makes_the_calls_that_the_header_says(name, build_dir):
    counted = calls.count(f"{build_dir / 'server'} {name} --listen 127.0.0.1:{{port}}")
    if counted.missing:
        pytest.skip(counted.missing)
    found = {call: counted.per_request.get(call, 0) for call in COUNTS[name]}
    assert all(call in TRY[name] for call in found)
    assert found == pytest.approx(COUNTS[name], abs=0.2)
    assert "epoll_ctl" in COUNTS[name] or "epoll_ctl" not in counted.per_request


#: what the text under Needs says that each worker takes
DESCRIPTORS = {
    name: {"a": 1, "two": 2}[said[1]]
    for name, parts in PARTS.items()
    if (said := re.search(r"\b(a|two) descriptors? a worker", parts["Needs"]))
}


@pytest.mark.parametrize("name", DESCRIPTORS)
def test_a_worker_takes_the_descriptors_that_the_header_says(name):
    more = 10 * DESCRIPTORS[name]
    with serving(name, "--workers", 2) as two, serving(name, "--workers", 12) as twelve:
        assert eventually(lambda: twelve.descriptors() - two.descriptors() == more)


def test_there_are_headers_that_say_what_a_worker_takes():
    assert len(DESCRIPTORS) >= 4
