"""What tests of several files of the suite start a server with."""

import functools
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def preloaded(tmp_path_factory: pytest.TempPathFactory) -> Callable:
    """For ``preexec``: load a C file of this folder before the C library.

    Its settings are words of the environment.
    """
    folder = tmp_path_factory.mktemp("preloaded")

    @functools.cache
    def library(source: str) -> Path:
        made = folder / Path(source).with_suffix(".so")
        command = ["cc", "-D_GNU_SOURCE", "-shared", "-fPIC", "-o", made]
        subprocess.run([*command, HERE / source], check=True)
        return made

    def preexec(source: str, **environment: object) -> Callable[[], None]:
        words = {name: str(value) for name, value in environment.items()}
        words["LD_PRELOAD"] = str(library(source))
        return lambda: os.environ.update(words)

    return preexec
