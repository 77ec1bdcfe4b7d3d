"""The servers, the client and the C tests once more, built with sanitizers.

AddressSanitizer with UndefinedBehaviorSanitizer watches every model under every
workload, the client, and the C units; ThreadSanitizer the models of several threads,
with echo, pages and the guestbook, and the threads of the client, that agree without
locks on whose turn it is.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from conftest import make, session_of_its_own

# The harness tells sanitizers, for every program to come, how to report and to exit.
from tests.conformance.harness import ROOT

#: as make test-py runs tests
SPREAD = ("-n6", "--dist=loadgroup", "--no-loadscope-reorder")
#: the same with 400 connections a round is run; five times as many show how memory
#: grows, which sanitizers keep. And with 1000 users a slice; 2000 do not get their two
#: answers each in the longest slice from programs that sanitizers slow down
LONGER = "(leak_nothing or steady_for_many) and 2000"
SHORTER = ("-k", f"not ({LONGER})")
#: servers that others wrote have no sanitizer in them
NOT_OURS = "--ignore=tests/conformance/test_runtimes.py"
BUILDS = {"asan": "address,undefined", "tsan": "thread"}
SUITES = {
    "asan": [
        *("conformance", "client", "test_c_units.py"),
        *("test_workloads.py", "test_http_clients.py"),
    ],
    "tsan": ["conformance", "test_http_clients.py", "client/test_turns.py"],
}
#: That 200 killed children leave no lock behind, and that greedy clients hold up nobody
#: in any model, is for the plain programs to show; AddressSanitizer sees the lines that
#: 40 and a model of each family take, and every model's in test_workloads.py.
#: ThreadSanitizer sees many who ask Redis at once nowhere else.
CHOSEN = {"asan": ("-m", "not (serial and long)"), "tsan": ()}


def build(name: str, *targets: str) -> None:
    make(*targets, f"BUILD=build/{name}", f"SAN={BUILDS[name]}", "CI=true")


def session(name: str, lane: Path) -> None:
    environ = os.environ | {"CONNLAB_BUILD": str(ROOT / "build" / name)}
    paths = [f"tests/{suite}" for suite in SUITES[name]]
    words = ("-x", *SPREAD, *SHORTER, *CHOSEN[name], NOT_OURS, *paths)
    session_of_its_own(*words, environ=environ, lane=lane)


# On all cores by itself, so that bounds on time are nobody else's fault.
@pytest.mark.serial
@pytest.mark.long
@pytest.mark.timeout(1800)
def test_programs_under_sanitizers(tmp_path):
    """Both builds at once: where the tests of one wait or start, the other computes."""
    for name in BUILDS:
        build(name, "build")
    build("asan", f"-j{os.cpu_count()}", "c-tests")
    lane = tmp_path / "lane"
    with ThreadPoolExecutor() as both:
        sessions = [both.submit(session, name, lane) for name in BUILDS]
    for done in sessions:
        done.result()
