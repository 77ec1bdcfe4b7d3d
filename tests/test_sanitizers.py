"""The servers, the client's turns and the C tests once more, built with sanitizers.

AddressSanitizer with UndefinedBehaviorSanitizer watches every model under every
workload, and the C units; ThreadSanitizer the models that are one process (it does
not follow a fork), with echo, pages and the guestbook, and the threads of the client,
that agree without locks on whose turn it is.
"""

import os

import pytest
from conftest import make, session_of_its_own

# The harness tells sanitizers, for every program to come, how to report and to exit.
from tests.conformance.harness import ROOT

#: as make test-py runs tests, but more at once: with six, cores rested half of the time
SPREAD = ("-n12", "--dist=loadgroup", "--no-loadscope-reorder")
#: the same with 400 connections a round is run; five times as many show how memory
#: grows, which sanitizers keep
SHORTER = ("-k", "not (leak_nothing and 2000)")
#: servers that others wrote have no sanitizer in them
NOT_OURS = "--ignore=tests/conformance/test_runtimes.py"
BUILDS = {"asan": "address,undefined", "tsan": "thread"}
SUITES = [
    ("asan", "tests/conformance"),
    ("asan", "tests/test_workloads.py"),
    ("asan", "tests/test_http_clients.py"),
    ("tsan", "tests/conformance"),
    ("tsan", "tests/test_http_clients.py"),
    ("tsan", "tests/client/test_turns.py"),
]

# Each runs on all cores by itself, so that bounds on time are nobody else's fault.
pytestmark = [pytest.mark.serial, pytest.mark.long, pytest.mark.timeout(900)]


def build(name: str, *targets: str) -> None:
    make(*targets, f"BUILD=build/{name}", f"SAN={BUILDS[name]}", "CI=true")


@pytest.mark.parametrize(("name", "suite"), SUITES)
def test_servers_under(name, suite):
    build(name, "build")
    environ = os.environ | {"CONNLAB_BUILD": str(ROOT / "build" / name)}
    session_of_its_own("-x", *SPREAD, *SHORTER, NOT_OURS, suite, environ=environ)


def test_c_units_under_asan():
    build("asan", f"-j{os.cpu_count()}", "test-c")
