"""The examples of docstrings hold."""

import doctest
import importlib

import pytest
from conftest import ROOT

MODULES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in sorted((ROOT / "connlab").rglob("*.py"))
    if ">>> " in path.read_text("utf-8")
]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_hold(name):
    examples = doctest.testmod(importlib.import_module(name))
    assert examples.attempted
    assert examples.failed == 0
