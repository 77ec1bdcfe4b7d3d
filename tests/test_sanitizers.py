"""The conformance suite once more, against servers built with sanitizers.

AddressSanitizer with UndefinedBehaviorSanitizer watches every model;
ThreadSanitizer those that are one process (it does not follow a fork).
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.conformance.harness import ROOT


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("name", "sanitizers"), [("asan", "address,undefined"), ("tsan", "thread")]
)
def test_conformance_under(name, sanitizers):
    build = f"build/{name}"
    make = ["make", f"BUILD={build}", f"SAN={sanitizers}", "CI=true", "build"]
    subprocess.run(make, cwd=ROOT, check=True, capture_output=True)
    environment = {k: v for k, v in os.environ.items() if k != "CONNLAB_TEST_LANE"}
    environment["CONNLAB_BUILD"] = str(ROOT / build)
    suite = [sys.executable, "-m", "pytest", "-q", "-x", "tests/conformance"]
    done = subprocess.run(
        suite, cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-4000:]
