"""HTTP as clients speak it that we did not write: curl, wrk, ab, Python's own."""

import http.client
import re
import shutil
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import ran

from tests import upstreams
from tests.conformance.harness import PATIENCE_S, Server, entry, models, names, serving

WWW = Path(__file__).resolve().parents[1] / "src_c" / "www"
MODELS = names()
FAMILIES = list({model["family"]: model["name"] for model in models()}.values())


def run(program: str, *arguments: object) -> str:
    """Run a client and return what it printed; skip when it is not installed."""
    if not shutil.which(program):
        pytest.skip(f"{program} is not installed")
    done = ran(program, *arguments, timeout=3 * PATIENCE_S)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def url(server: Server, path: str = "/") -> str:
    return "http://{}:{}{}".format(*server.address, path)


def serve(model: str, *flags: object):
    """The demo's files, served by eight workers where workers are counted."""
    workers = ["--workers", 8] if entry(model)["workers"] == "fixed" else []
    return serving(model, "--workload", "http", "--root", WWW, *workers, *flags)


@pytest.fixture(scope="session")
def redis() -> Iterator[str]:
    with upstreams.redis() as address:
        yield "{}:{}".format(*address)


@pytest.mark.parametrize("model", MODELS)
def test_curl_fetches_posts_and_follows(model, redis):
    what = "%{http_code} %{size_download} %{num_connects} %{content_type}\n"
    quiet = ["-sS", "--max-time", PATIENCE_S, "-o", "/dev/null", "-w", what]
    with serve(model, "--redis", redis) as server:
        both = [url(server), "-o", "/dev/null", url(server, "/logo.png")]
        lines = run("curl", *quiet, *both).splitlines()
        page, logo = (WWW / "index.html").stat(), (WWW / "logo.png").stat()
        assert lines[0] == f"200 {page.st_size} 1 text/html; charset=utf-8"
        assert lines[1] == f"200 {logo.st_size} 0 image/png"  # 0: reused
        secret = url(server, "/../models.def")
        assert run("curl", *quiet, "--path-as-is", secret).startswith("404 ")
        assert run("curl", *quiet, "-I", url(server)).startswith("200 0 ")
        assert run("curl", *quiet, "-0", url(server)).startswith("200 ")
        assert run("curl", *quiet, "-X", "PUT", url(server)).startswith("405 ")
        large = ["--data-binary", "a" * 100_000]
        assert run("curl", *quiet, *large, url(server, "/guestbook")).startswith("413 ")
        form = ["--data-urlencode", f"remark=by curl of {model} <b>", "-L"]
        page = run("curl", "-sS", *form, url(server, "/guestbook"))
        assert f"<li>by curl of {model} &lt;b&gt;</li>" in page
        expect = ["-H", "Expect: 100-continue", "-d", "remark=patience"]
        answer = run("curl", *quiet, *expect, url(server, "/guestbook"))
        assert answer.startswith("303 ")


@pytest.mark.parametrize("model", MODELS)
def test_pythons_client_reuses_its_connection(model, redis):
    with serve(model, "--redis", redis) as server:
        connection = http.client.HTTPConnection(*server.address, timeout=PATIENCE_S)
        for method, path, status in [
            ("GET", "/", 200),
            ("GET", "/nope", 404),
            ("HEAD", "/style.css", 200),
            ("PUT", "/", 405),
            ("GET", "/guestbook", 200),
            ("POST", "/guestbook", 303),
            ("GET", "/style.css", 200),
        ]:
            connection.request(method, path, body=b"remark=1")
            response = connection.getresponse()
            body = response.read()
            assert response.status == status
        assert body == (WWW / "style.css").read_bytes()
        connection.close()
        form = urllib.parse.urlencode({"remark": f"ü & {model}"}).encode()
        page = urllib.request.urlopen(url(server, "/guestbook"), form).read().decode()
        assert f"<li>ü &amp; {model}</li>" in page
    assert server.stats["accepted"] == 3  # urllib asks twice, and closes
    assert server.stats["requests"] == 9


@pytest.mark.parametrize("keep", [["-k"], []], ids=["keep-alive", "close"])
@pytest.mark.parametrize("model", MODELS)
def test_ab_counts_no_failure(model, keep):
    clients = 8 if entry(model)["concurrent"] else 1
    with serve(model) as server:
        out = run("ab", "-q", *keep, "-n", 200, "-c", clients, url(server))
    size = (WWW / "index.html").stat().st_size
    assert re.search(r"Complete requests:\s+200\n", out)
    assert re.search(r"Failed requests:\s+0\n", out)
    assert re.search(rf"Document Length:\s+{size} bytes", out)
    assert not keep or re.search(r"Keep-Alive requests:\s+200\n", out)
    assert "Non-2xx" not in out


def wrk(server: Server, *flags: object, path: str = "/") -> int:
    """Load a server for a second; return how many requests went well, as all must."""
    out = run("wrk", "-t1", "-d1s", *flags, url(server, path))
    assert "Non-2xx" not in out
    assert "Socket errors" not in out
    return int(re.search(r"(\d+) requests in", out)[1])


@pytest.mark.parametrize("path", ["/", "/guestbook"])
@pytest.mark.parametrize("model", FAMILIES)
def test_wrk_sees_no_error(model, path, redis):
    """One model of each family, as wrk runs for a second at least."""
    clients = 8 if entry(model)["concurrent"] else 1
    with serve(model, "--redis", redis) as server:
        done = wrk(server, f"-c{clients}", path=path)
    assert done > 50
    # wrk stops with a request of each client on its way
    assert done <= server.stats["requests"] <= done + 2 * clients


def test_wrk_pipelines(tmp_path):
    script = tmp_path / "pipeline.lua"
    script.write_text(
        "init = function(args)\n"
        '  local get = wrk.format("GET", "/")\n'
        '  local none = wrk.format("GET", "/style.css")\n'
        "  request_text = string.rep(get .. none, 8)\n"
        "end\n"
        "request = function() return request_text end\n"
    )
    with serve("epoll") as server:
        assert wrk(server, "-c4", "-s", script) > 500
