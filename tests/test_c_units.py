"""The C units: each file of src_c/tests is a program that ends with 0 if all holds."""

import os
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT, make

UNITS = sorted(path.stem for path in (ROOT / "src_c" / "tests").glob("*.c"))


@pytest.fixture(scope="session")
def c_tests(build_dir: Path) -> Path:
    """Return the folder of the C tests, compiled unless the build is named."""
    if "CONNLAB_BUILD" not in os.environ:
        make("c-tests")
    return build_dir / "tests"


@pytest.mark.parametrize("unit", UNITS)
def test_unit(unit: str, c_tests: Path) -> None:
    kept = {"capture_output": True, "text": True, "timeout": 120}
    done = subprocess.run([c_tests / unit], cwd=ROOT, **kept)
    assert done.returncode == 0, done.stdout + done.stderr
