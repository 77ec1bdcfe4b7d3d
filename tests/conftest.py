"""What all tests share: the built programs, and who may run beside whom.

`pytest -n 6` runs six tests at once, and most of them wait more than they compute. A
test marked ``timed`` bounds how long something takes and waits for most of it: it runs
beside other timed tests only. Those marked ``sweeps`` measure numbers that nobody looks
at, and share the cores among themselves. One marked ``serial`` measures time or fills
the machine: nothing runs beside it. Locks see to it, so that it stays one session of
pytest with one closing line.
"""

import contextlib
import fcntl
import functools
import json
import os
import random
import re
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
#: for tests of what git tracks: sources may be unpacked from an archive
in_repository = pytest.mark.skipif(
    not (ROOT / ".git").exists(), reason="this is no repository"
)

REFERENCE = ROOT / "runs" / "reference"

#: a mark for tests that look at it
with_reference = pytest.mark.skipif(
    not REFERENCE.is_dir(), reason="the deposit of another run has no runs/reference"
)

#: tests of a kind may run at once, in this order; no two of the last may
KINDS = ("plain", "timed", "sweeps", "serial")

_lane: Path | None = None

#: keeps later kinds waiting for the test that this process runs, or runs next
_wish = contextlib.ExitStack()


def pytest_configure(config: pytest.Config) -> None:
    """Agree on the lock's files before workers start; they inherit the name.

    A test is a client as well, with a descriptor for each connection that it opens:
    it may have as many as the system allows.
    """
    global _lane
    name = f"/tmp/connlab-tests-{os.getuid()}-{os.getpid()}"
    _lane = Path(os.environ.setdefault("CONNLAB_TEST_LANE", name))
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the lock's files when the session that made them ends."""
    if _lane and _lane.name.endswith(f"-{os.getpid()}"):
        for file in _lane.parent.glob(f"{_lane.name}.*"):
            file.unlink(missing_ok=True)


def kind_of(item: pytest.Item) -> str:
    """Return which of `KINDS` a test is: the strictest of its marks."""
    marked = (kind for kind in KINDS[::-1] if item.get_closest_marker(kind))
    return next(marked, KINDS[0])


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put tests of a kind behind each other, serial ones last, long groups first.

    A fixture of a module takes seconds: a set paper, a browser, a sweep of all models.
    One process makes it, and runs all of a kind that want it; with those of a later
    kind it would wait for its turn. Nor do serial tests of a file profit from several
    processes. What is made at once is a fixture of the session.
    A test of a minute begins as early: the cores would rest while it ends alone.
    """
    for item in items:
        if (kind := kind_of(item)) == "serial":
            item.add_marker(pytest.mark.xdist_group(item.path.stem))
        elif name := shared_by_file(item):
            item.add_marker(pytest.mark.xdist_group(f"{item.path.stem}-{name}-{kind}"))
    items.sort(key=lambda i: (KINDS.index(kind_of(i)), not takes_long(i)))


def takes_long(item: pytest.Item) -> bool:
    """Whether a test, or the group that it is one of, takes long."""
    return bool(item.get_closest_marker("early") or shared_by_file(item))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Let a worker know its next test, and none of those behind it.

    By itself pytest-xdist gives a worker two more, which wait until the worker is done
    with a test of minutes while others have nothing left.
    """
    if config.getoption("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadGroupScheduling

    class OneAhead(LoadGroupScheduling):
        def remove_node(self, node: object) -> str | None:
            """Give a test that ended its worker to no other.

            By itself pytest-xdist runs it again and again with the rest of its group,
            until there are no more workers.
            """
            lost = self.assigned_work.pop(node)
            for unit in lost.values():
                for test, done in unit.items():
                    if not done:
                        unit[test] = True
                        self.workqueue.update(lost)
                        for other in self.assigned_work:
                            self._reschedule(other)
                        return test
            return None

        def _reschedule(self, node: object) -> None:
            known = self.assigned_work[node]
            while self.workqueue and self._pending_of(known) < 2:
                if node.shutting_down:
                    return
                self._assign_work_unit(node)
            if not self.workqueue:
                super()._reschedule(node)

    return OneAhead(config, log)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Refuse a pytest whose ids pytest-xdist cannot write the groups into."""
    if not session.config.getoption("loadgroup", default=False):
        return
    for item in session.items:
        if item.get_closest_marker("xdist_group") and "@" not in item.nodeid:
            raise pytest.UsageError(
                f"this pytest ({pytest.__version__}) loses the groups of pytest-xdist; "
                "want the versions of requirements.lock"
            )


def shared_by_file(item: pytest.Item) -> str | None:
    """Return the first fixture of a module that a test wants."""
    found = item._fixtureinfo.name2fixturedefs.items()
    return min((n for n, made in found if made[-1].scope == "module"), default=None)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Iterator[None]:
    """Admit tests of one kind at a time; outside of the time that a test is given.

    A kind waits until nobody wants an earlier one: if the kinds took turns, the longest
    test of each turn would run alone. So a process says what it wants next before it
    lets go of what it ran. Locks end with their process: nobody waits for the dead.
    """
    kind = kind_of(item)
    _wish_for(kind)
    with _admitted(kind):
        result = yield
        _wish_for(kind_of(nextitem) if nextitem else None)
        return result


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish() -> None:
    """Let go of a test that does not come: the session was told to stop."""
    _wish_for(None)


def _wish_for(kind: str | None) -> None:
    """Keep later kinds from entering until this process wishes for something else."""
    global _wish
    before, _wish = _wish, contextlib.ExitStack()
    with before:
        if kind:
            _wish.enter_context(_locked(f"{kind}-wanted", alone=False))


@contextlib.contextmanager
def _admitted(kind: str) -> Iterator[None]:
    """Hold the lock of a kind for a block, once nothing speaks against it.

    What is in the way is waited for outside the door, which is never shut for long.
    """
    while True:
        with contextlib.ExitStack() as held:
            with _locked("door"):
                if not (obstacle := _in_the_way_of(kind)):
                    held.enter_context(_locked(kind, alone=False))
            if not obstacle:
                yield
                return
        with _locked(obstacle):
            pass


def _in_the_way_of(kind: str) -> str | None:
    """Return a lock that somebody holds and that tests of a kind wait for."""
    place = KINDS.index(kind)
    wanted = [f"{earlier}-wanted" for earlier in KINDS[:place]]
    running = KINDS[place if kind == "serial" else place + 1 :]
    return next((name for name in (*wanted, *running) if not _is_free(name)), None)


def _is_free(name: str) -> bool:
    """Whether nobody holds the lock of a name."""
    try:
        with _locked(name, flags=fcntl.LOCK_NB):
            return True
    except BlockingIOError:
        return False


@contextlib.contextmanager
def _locked(name: str, *, alone: bool = True, flags: int = 0) -> Iterator[None]:
    """Hold the lock of a name for a block, waiting for it; shared, if not alone."""
    with _lane.with_suffix(f".{name}").open("w") as file:
        fcntl.flock(file, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | flags)
        try:
            yield
        finally:  # also where a process forked from this one keeps the file open
            fcntl.flock(file, fcntl.LOCK_UN)


def ran(*words: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, in the project's folder, with what it said kept."""
    kept = {"cwd": ROOT, "capture_output": True, "text": True, "check": False}
    return subprocess.run([*map(str, words)], **kept | options)


def lay(folder: Path, files: Mapping[str, str | bytes]) -> None:
    """Write files by their names below a folder."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)


def linked(folder: Path, *, but: Collection[str]) -> Path:
    """Fill a folder with links to all that the project has but these; return it."""
    folder.mkdir(exist_ok=True)
    for path in ROOT.iterdir():
        if path.name not in but:
            (folder / path.name).symlink_to(path)
    return folder


def make(*words: str) -> None:
    """Call make in the project's folder; no two tests compile at once."""
    with _locked("build"):
        done = ran("make", "--no-print-directory", *words)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]


def eventually(
    condition: Callable[[], object], *, seconds: float = 20, every_s: float = 0.02
) -> bool:
    """Wait until a condition holds; return whether it did in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(every_s)
    return True


def wait_for(condition: Callable[[], object], **patience: float) -> None:
    """Fail unless a condition holds in time."""
    assert eventually(condition, **patience), f"not in time {patience or ''}"


def refused(program: Path, *words: object, status: int = 2, **options: Any) -> str:
    """Run a program with a mistake; return what it says about it."""
    done = ran(program, *words, **{"timeout": 30} | options)
    assert (done.returncode, done.stdout) == (status, ""), done.stderr
    return done.stderr


def is_running(pid: int) -> bool:
    """Whether a process exists and is more than a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def python(
    *words: object, timeout: float = 120, **environ: str
) -> subprocess.CompletedProcess[str]:
    """Run Python to its end, in the project's folder."""
    return ran(sys.executable, *words, timeout=timeout, env=os.environ | environ)


def connlab(*words: object, **options) -> subprocess.CompletedProcess[str]:
    """Run a command of connlab in this way."""
    return python("-m", "connlab", *words, **options)


def shown(language: str, holding: str) -> str:
    """Return the block of CONTRIBUTING.md that holds some text."""
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    blocks = re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    (block,) = (block for block in blocks if holding in block)
    return block


def session_of_its_own(
    *words: str, environ: Mapping[str, str], lane: Path | None = None
) -> None:
    """Run pytest with other settings, free of this session's; all has to pass.

    Sessions that run at once name a lane: their tests wait for each other's kinds.
    """
    kept = of_no_session(environ)
    if lane:
        kept["CONNLAB_TEST_LANE"] = str(lane)
    done = ran(sys.executable, "-m", "pytest", "-q", *words, env=kept)
    assert done.returncode == 0, done.stdout[-4000:]


def of_no_session(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without what this session of pytest put into it."""
    ours = ("CONNLAB_TEST_LANE", "PYTEST_")
    return {k: v for k, v in environ.items() if not k.startswith(ours)}


@pytest.fixture(scope="session", autouse=True)
def spare_blocks() -> Iterator[int]:
    """Let sweeps measure the blocks that they are asked for, and return `SPARE`.

    Else they would measure more of them where other tests keep the cores busy.
    """
    from connlab.drive import stopping

    usual = stopping.SPARE
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stopping, "SPARE", 0)
        yield usual


@pytest.fixture(scope="session", autouse=True)
def cores_that_stay() -> Iterator[None]:
    """Let sweeps ask nobody where the cores are: a host may move them at any time."""
    from connlab.drive import location

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(location, "core_to_core_s", lambda sets: None)
        yield


@pytest.fixture(scope="module")
def others_allowed() -> Iterator[None]:
    """Let rounds count that others disturb: they disturb both servers of a set."""
    from connlab.drive import gates

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(gates, "OTHER_SHARE_IN_TURNS", 99.0)
        yield


@pytest.fixture
def nobody_left(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """See that no program that a test starts, nor any that those start, outlives it."""
    from drive_fakes import WHOSE, alive

    monkeypatch.setenv(WHOSE, str(tmp_path))
    yield
    assert eventually(lambda: not alive(), seconds=15), alive()


@pytest.fixture
def cells(tmp_path: Path) -> Callable[..., tuple[dict, dict]]:
    """Run cells of a notebook; return their names and what they reported."""
    import notebook_rules as rules  # late: seaborn takes a second

    from connlab.report import Report

    about = {"run": "r", "number": 1, "question": "?", "root": tmp_path}
    report = Report.without_trials("made", **about)
    report.answer("no answer of these cells")

    def run(name: str, *ids: str, **names: object) -> tuple[dict, dict]:
        given = {"report": report, "spent": rules.SPENT} | names
        made = rules.execute(name, *ids, **given)
        return made, json.loads(report.write().read_text())

    return run


@pytest.fixture(scope="session")
def network_namespaces() -> None:
    """Skip what needs a lab of network namespaces where none can be made."""
    from connlab.hosts import lab  # late: Dask takes a second

    if reason := lab.missing():
        pytest.skip(reason)


@pytest.fixture(scope="session")
def build_dir() -> Path:
    """Return the directory of the built programs, building them when run by hand.

    ``CONNLAB_BUILD`` names another one, which its user has built.
    """
    if other := os.environ.get("CONNLAB_BUILD"):
        return Path(other)
    make("build")
    return ROOT / "build"


@pytest.fixture(scope="session")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder to serve, with a large file in it and a secret beside it."""
    base = tmp_path_factory.mktemp("http")
    www = base / "www"
    www.mkdir()
    (base / "secret").write_text("secret")
    (www / "index.html").write_text("<h1>here</h1>\n")
    (www / "a file.txt").write_text("with a blank\n")
    (www / "out").symlink_to("../secret")
    (www / "page.html").write_bytes(bytes(16_000))
    (www / "large.bin").write_bytes(random.Random(1).randbytes(12_000_000))
    return www


@pytest.fixture(scope="session")
def preloaded(tmp_path_factory: pytest.TempPathFactory) -> Callable:
    """For ``preexec``: load a C file of tests/conformance before the C library.

    Its settings are words of the environment.
    """
    folder = tmp_path_factory.mktemp("preloaded")

    @functools.cache
    def library(source: str) -> Path:
        made = folder / Path(source).with_suffix(".so")
        path = ROOT / "tests" / "conformance" / source
        command = ["cc", "-D_GNU_SOURCE", "-shared", "-fPIC", "-o", made, path]
        subprocess.run(command, check=True)
        return made

    def preexec(source: str, **environment: object) -> Callable[[], None]:
        words = {name: str(value) for name, value in environment.items()}
        words["LD_PRELOAD"] = str(library(source))
        return lambda: os.environ.update(words)

    return preexec


@pytest.fixture(scope="session")
def server_program(build_dir: Path) -> Path:
    return build_dir / "server"


@pytest.fixture(scope="session")
def client_program(build_dir: Path) -> Path:
    return build_dir / "client"
