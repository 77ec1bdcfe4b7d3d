"""The load generator beside wrk and ab: what a request costs each of them.

All ask the same server for a page over as many connections, which stay open, from the
same core, one after another. CPU time is what the kernel says of a client that has
ended; start and report are included. Ours checks every answer as well.
"""

import random
import re
import resource
import shutil
import subprocess
from collections.abc import Sequence

from connlab.compare import measure
from connlab.compare.plan import Plan
from connlab.drive import flags
from connlab.drive.host import ProgramError, on_cores
from connlab.drive.running import Running, running

OURS = "client"
ROUNDS, WINDOW_S = 5, 1
#: a client that takes so much longer than its window hangs
PATIENCE_S = 30.0
#: arguments, and how requests are counted; ab's -t sets -n as well, so -n comes later
#: (it ends at so many), and an answer that ended its connection does not count
CLIENTS = {
    OURS: ("", r'"completed":(\d+)'),
    "wrk": ("-t1 -d{s}s -c{count} {url}", r"(\d+) requests in "),
    "ab": ("-q -k -t{s} -n5000000 -c{count} {url}", r"Keep-Alive requests: +(\d+)"),
}
#: what any of them prints of answers that were wrong
_WRONG = re.compile(
    r"Socket errors:.*|Non-2xx .*|Failed requests: +[1-9].*"
    r'|"errors":\{[^}]*:[1-9][^}]*\}'
)


def measure_all(plan: Plan) -> list[dict]:
    """Return CPU times (s) per request of client and server, a row for each run."""
    names = [name for name in CLIENTS if name == OURS or shutil.which(name)]
    order, rows = random.Random(plan.seed), []
    with measure.page(plan) as root:
        factors = {**plan.servers[0].factors, "root": root}
        for number in range(ROUNDS):
            order.shuffle(names)
            with running(
                factors["model"], cores=plan.cores.server, **factors
            ) as server:
                address = "{}:{}".format(*server.address)
                for name in names:
                    before = _cpu_s(server)
                    text, spent_s = run(argv(plan, name, address), plan.cores.client)
                    server_s = _cpu_s(server) - before
                    requests = counted(name, text)
                    cost = {"client": spent_s / requests, "server": server_s / requests}
                    rows.append({"round": number, "name": name, **cost})
    return rows


def argv(plan: Plan, name: str, address: str) -> list[str]:
    """Return the command of a client that asks ``HOST:PORT`` for the page."""
    count, path = plan.client["connections"], plan.client["path"]
    if name != OURS:
        load = {"s": WINDOW_S, "count": count, "url": f"http://{address}{path}"}
        return [name, *CLIENTS[name][0].format(**load).split()]
    load = {**plan.client, "duration": WINDOW_S, "warmup": 0}
    return [*plan.programs.client, address, *flags.client_flags(load, seed=plan.seed)]


def _cpu_s(server: Running) -> float:
    return server.host.sample(server.handle, machine=False).processes.cpu_s


def counted(name: str, text: str) -> int:
    """Return how many requests were answered; `ProgramError` when some were not."""
    match, wrong = re.search(CLIENTS[name][1], text), _WRONG.search(text)
    if wrong or not match or not int(match[1]):
        raise ProgramError(f"{name}: {wrong[0] if wrong else text[:200]!r}")
    return int(match[1])


def run(argv: Sequence[str], cores: Sequence[int]) -> tuple[str, float]:
    """Run a program on one core; return what it printed and its CPU time in seconds."""
    options = {"capture_output": True, "text": True, "timeout": WINDOW_S + PATIENCE_S}
    before_s = _children_s()
    try:
        with on_cores(cores[:1]):
            done = subprocess.run(argv, check=True, **options)
    except subprocess.SubprocessError as error:
        errors = getattr(error, "stderr", None) or ""
        raise ProgramError(f"{argv[0]}: {error}: {errors}") from None
    return done.stdout, _children_s() - before_s


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
