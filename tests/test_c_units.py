"""The C units: each file of src_c/tests is a program that ends with 0 if all holds."""

import os
from pathlib import Path

import pytest
from conftest import ROOT, make, ran

UNITS = sorted(path.stem for path in (ROOT / "src_c" / "tests").glob("*.c"))


@pytest.fixture(scope="session")
def c_tests(build_dir: Path) -> Path:
    """Return the folder of the C tests, compiled unless the build is named."""
    if "CONNLAB_BUILD" not in os.environ:
        make("c-tests")
    return build_dir / "tests"


@pytest.mark.parametrize("unit", UNITS)
def test_unit(unit: str, c_tests: Path) -> None:
    done = ran(c_tests / unit, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
