"""Both programs where there is no io_uring: built without it, or refused by the kernel.

What needs it says what is missing; all the rest works as ever.
"""

import errno
import json
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import conftest
import pytest
from conftest import ROOT, make, ran

from tests.client.harness import started


@dataclass(frozen=True)
class Way:
    """A way to have no io_uring: how programs are run then, and what they say."""

    prefix: tuple[object, ...]
    build: Path
    server_says: str
    client_says: str
    client_status: int

    def command(self, program: str, *words: str) -> list[str]:
        return [*map(str, (*self.prefix, self.build / program)), *words]

    def run(self, program: str, *words: str) -> subprocess.CompletedProcess:
        return ran(*self.command(program, *words), timeout=20)


def refused(code: int, folder: Path, build: Path) -> Way:
    if not json.loads((build / "flags.json").read_text())["uring"]:
        pytest.skip("liburing is not installed: built without io_uring in any case")
    wrapper = folder / "no_uring"
    source = Path(__file__).with_name("no_uring.c")
    subprocess.run(["cc", "-D_GNU_SOURCE", "-o", wrapper, source], check=True)
    server_says = {errno.EPERM: "not allowed", errno.ENOSYS: "no io_uring"}[code]
    client_says = f"client: uring: {os.strerror(code)}"
    return Way((wrapper, code), build, server_says, client_says, 1)


@pytest.fixture(scope="module", params=["not-built", errno.EPERM, errno.ENOSYS])
def way(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Way:
    if request.param == "not-built":
        programs = [f"build/plain/{name}" for name in ("server", "client")]
        make(f"-j{os.cpu_count()}", *programs, "BUILD=build/plain", "URING=", "CI=true")
        return Way((), ROOT / "build/plain", "liburing", "without io_uring", 2)
    build = request.getfixturevalue("build_dir")
    return refused(request.param, tmp_path_factory.mktemp("no_uring"), build)


def missing(way: Way) -> list[dict]:
    models = json.loads(way.run("server", "--list").stdout)["models"]
    return [model for model in models if not model["available"]]


def test_the_list_says_what_is_missing_and_has_the_rest(way: Way) -> None:
    assert {model["name"] for model in missing(way)} >= {"uring"}
    for model in missing(way):
        assert model["family"] == "completion"
        assert way.server_says in model["reason"]


def test_a_model_that_needs_it_is_refused_with_the_reason(way: Way) -> None:
    for name in [model["name"] for model in missing(way)]:
        said = conftest.refused(*way.command("server", name))
        assert re.search(rf"MODEL {name}: .*{way.server_says}", said)


def test_any_engine_is_epoll_then(way: Way) -> None:
    flags = ["--engine", "auto", "--connections", "3", "--requests", "5"]
    with started(*way.command("server", "epoll")) as (_, port):
        done = way.run("client", f"127.0.0.1:{port}", *flags)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["self"]["engine"] == "epoll"
    assert result["requests"]["completed"] == 15
    assert not any(result["errors"].values())


def test_the_engine_that_needs_it_says_what_is_missing(way: Way) -> None:
    words = way.command("client", "127.0.0.1:9", "--engine", "uring")
    said = conftest.refused(*words, status=way.client_status)
    assert way.client_says in said
    assert said.count("\n") == 1
