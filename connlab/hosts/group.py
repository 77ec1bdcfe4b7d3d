"""Several client hosts as one, with one report.

Counts add. Quantiles are those of the merged histograms, slot by slot, as the client
takes them itself. Windows must agree within `TOLERANCE_NS` beyond what the clocks are
uncertain by, and no clock may have drifted since the start by more: else the trial
fails.
"""

import bisect
import csv
import io
import itertools
import math
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from connlab.drive import turns
from connlab.drive.host import Ended, ProgramError, Reading
from connlab.hosts.carrier import RemoteHost, Server
from connlab.hosts.clock import Offset
from connlab.hosts.remote_programs import TOLERANCE_NS, RemotePrograms, refuse_drift

#: how long an agent looks for a line, and between two signs while the load lasts
ASK_S, SIGN_S = 0.5, 1.0
_HANDLE = 1
#: how a client came to its end: what says most of all stands last
_STOPS = ("duration", "requests", "server_gone", "interrupted")
_SUMMED = ("connections", "limits", "requests", "bytes", "errors")
#: flags of which each host gets its share, as whole numbers or not
_DIVIDED = dict.fromkeys(("--connections", "--active"), int)
_DIVIDED |= dict.fromkeys(("--rate", "--connect-rate"), float)
#: with these a window has no edges that could be told to the server's host
_BY_ANSWERS = frozenset(("--settle", "--response-times"))


class HostGroup(RemotePrograms):
    """The clients of a trial on hosts of their own, as its `connlab.drive.host.Host`.

    When all have connected they get one moment to begin, and `server` is told of the
    window.
    """

    def __init__(self, hosts: Sequence[RemoteHost], server: Server) -> None:
        super().__init__()
        self.hosts, self.server = tuple(hosts), server
        self._started_ns = 0
        #: when they are asked for the next sign; what the load lasts
        self._sign_s = self._warmup_s = self._lasts_s = 0.0
        #: when the load begins, on the driver's clock; None until all have connected
        self.begins_s: float | None = None

    def start(
        self,
        argv: Sequence[str],
        *,
        cores: Sequence[int] = (),
        files: Sequence[str] = (),
    ) -> int:
        """Start a client on every host, each with its share; see `Host.start`."""
        self._started_ns = time.monotonic_ns()
        self.programs, self.begins_s = [], None
        self._warmup_s, self._lasts_s = _lasts_s(argv)
        for host in self.hosts:
            host.revive()
        self.start_all(
            self.hosts,
            divided(argv, len(self.hosts)),
            cores=cores,
            files=[*dict.fromkeys([*files, "histogram"])],
        )
        return _HANDLE

    def ready(self, handle: int, *, timeout_s: float) -> dict | None:
        """Return the merged report when all have reported; see `Host.ready`.

        While the load lasts they are asked for no more than a sign now and then.
        """
        until_s = time.monotonic() + timeout_s
        while True:
            now_s = time.monotonic()
            lasts = self.begins_s is not None and now_s < self.begins_s + self._lasts_s
            if not lasts or now_s >= self._sign_s:
                self.ask_all(0.0 if lasts else ASK_S)
                self._sign_s = now_s + SIGN_S
            if self.reported:
                return self._merged()
            if self.begins_s is None and self.connected:
                self.begins_s = self.schedule()
                if self._lasts_s:
                    begins_s = self.begins_s + self._warmup_s
                    self.server.expect(begins_s, self.begins_s + self._lasts_s)
            left_s = until_s - time.monotonic()
            if left_s <= 0:
                return None
            time.sleep(min(0.02, left_s))

    def sample(self, handle: int, **_options: bool) -> Reading:
        """Return nothing: clients report their CPU time, and are left alone."""
        return Reading(None)

    def stop(self, handle: int, *, grace_s: float, wait_s: float = 0) -> Ended:
        """End all at the same time; a lost host's agent does so when its lease ends."""
        self.end_all(grace_s=grace_s, wait_s=wait_s)
        files = [program.ended.files for program in self.programs if program.ended]
        return self.ended_as_one(
            timeline=added_timelines(files), histogram=added_histograms(files)
        )

    def _merged(self) -> dict:
        self.end_all(grace_s=1.0, wait_s=5.0)
        histograms = [program.files()["histogram"] for program in self.programs]
        reports = {program.name: program.report for program in self.programs}
        report = merged(list(reports.values()), histograms)
        edges = {n: _edges(r, self.offsets[n]) for n, r in reports.items()}
        clocks = self.check_clocks()
        report["hosts"] = {
            name: clocks[name] | {"window_ns": edges[name], "report": reports[name]}
            for name in reports
        }
        windows = {name: window for name, window in edges.items() if window}
        self._check_windows(windows)
        if len(windows) == len(edges):
            begin_ns = min(begin for begin, _ in windows.values())
            end_ns = max(end for _, end in windows.values())
            report["window"] |= {"begin_ns": begin_ns, "end_ns": end_ns}
            since_s = (begin_ns - self._started_ns) / 1e9
            report["self"]["dialing_s"] = since_s - report["window"]["warmup_s"]
        return report

    def check_clocks(self) -> dict[str, dict[str, int]]:
        """Return what is known of the clients' clocks; the server's must be right, too.

        Its CPU time is cut to the window by how far it was ahead at the start.
        """
        server = self.server
        refuse_drift(server.name, server.offset, server.measured_offset())
        return super().check_clocks()

    def _check_windows(self, windows: Mapping[str, tuple[int, int]]) -> None:
        bounds = sorted(offset.bound_ns for offset in self.offsets.values())[-2:]
        for side in (0, 1):
            edges = [window[side] for window in windows.values()]
            distance_ns = max(edges, default=0) - min(edges, default=0)
            if distance_ns > TOLERANCE_NS + sum(bounds):
                last = max(windows, key=lambda name: (windows[name][side], name))
                apart = f"{distance_ns / 1e6:.3g} ms apart"
                raise ProgramError(f"windows are {apart}; {last} is last")


# ---- dividing --------------------------------------------------------------------


def divided(argv: Sequence[str], count: int) -> list[list[str]]:
    """Return the words of each of `count` clients: its share, a seed of its own."""
    return [_share_of(argv, number, count) for number in range(count)]


def _share_of(argv: Sequence[str], number: int, count: int) -> list[str]:
    words = list(argv)
    for at, (flag, value) in enumerate(itertools.pairwise(argv), 1):
        if flag == "--seed":
            words[at] = str(int(value) + number)
        elif _DIVIDED.get(flag) is float:
            words[at] = f"{float(value) / count:.12g}"
        elif flag in _DIVIDED:
            total = int(float(value))
            if total < count:
                allowed = f"at least {count}, one for each client host"
                raise ProgramError(f"{flag} {total}; allowed: {allowed}")
            words[at] = str(total // count + (number < total % count))
    return words


def _lasts_s(argv: Sequence[str]) -> tuple[float, float]:
    """Return seconds of the warm-up, and of all; 0 where nobody knows them before.

    That is where requests are counted, or answers say when a window begins or ends.
    """
    flags = dict(itertools.pairwise(argv))
    if "--duration" not in flags or not _BY_ANSWERS.isdisjoint(flags):
        return 0.0, 0.0
    warmup_s = float(flags.get("--warmup", 0))
    return warmup_s, warmup_s + float(flags["--duration"])


def _edges(report: Mapping, offset: Offset) -> tuple[int, int] | None:
    """Return the window's edges on the driver's clock."""
    window = report["window"]
    if window.get("begin_ns") is None:
        return None
    return window["begin_ns"] - offset.ns, window["end_ns"] - offset.ns


# ---- merging ---------------------------------------------------------------------


def merged(
    reports: Sequence[dict], histograms: Sequence[bytes], target: int | None = None
) -> dict:
    """Return one client's report of several, with quantiles of all their answers.

    Where clients had several targets, the `histograms` are those of all, and `target`
    is the one that the reports are of.
    """
    report = dict(reports[0])
    for name in _SUMMED:
        counts: Counter = Counter()
        for r in reports:
            counts.update(r.get(name) or {})
        report[name] = dict(counts)
    for name in ("processes", "active", "sources"):
        report[name] = sum(r.get(name) or 0 for r in reports)
    report["threads"] = max(r.get("threads") or 0 for r in reports)
    for name in ("offered_rps", "connect_rate"):
        if report.get(name) is not None:
            report[name] = sum(r[name] for r in reports)
    report["window"] = _window([r["window"] for r in reports])
    slots = _slots(histograms, target)
    for name in ("response", "service", "connect"):
        moments = _moments([r[name] for r in reports])
        unanswered = report["window"]["unanswered"] if name == "response" else 0
        report[name] = moments | _quantiles(slots[name], unanswered or 0, moments)
    report["fairness"] = _fairness(reports)
    report["self"] = _self([r["self"] for r in reports])
    if slices := [r["slices"] for r in reports if "slices" in r]:
        report["slices"] = _turns(slices)
    report["stop"] = max((r["stop"] for r in reports), key=_STOPS.index)
    return report


def _sums(reports: Sequence[Mapping], *names: str) -> dict[str, Any]:
    return {name: sum(report[name] for report in reports) for name in names}


def _window(windows: Sequence[Mapping]) -> dict[str, Any]:
    unanswered = [window["unanswered"] for window in windows]
    seconds = [window["seconds"] for window in windows]
    return {
        "begin_ns": None,
        "end_ns": None,
        **_sums(windows, "requests", "bytes", "arrivals", "throughput_rps"),
        "unanswered": None if None in unanswered else sum(unanswered),
        "warmup_s": max(window["warmup_s"] for window in windows),
        "seconds": sum(seconds) / len(seconds),
    }


def _moments(clocks: Sequence[Mapping]) -> dict[str, float]:
    """Return count, mean, deviation (n - 1), least and greatest of all together."""
    clocks = [clock for clock in clocks if clock["n"]]
    n = sum(clock["n"] for clock in clocks)
    mean = sum(clock["n"] * clock["mean_ns"] for clock in clocks) / n if n else 0.0
    squares = sum(
        (clock["n"] - 1) * clock["sd_ns"] ** 2
        + clock["n"] * (clock["mean_ns"] - mean) ** 2
        for clock in clocks
    )
    return {
        "n": n,
        "mean_ns": mean,
        "sd_ns": math.sqrt(squares / (n - 1)) if n > 1 else 0.0,
        "min_ns": min((clock["min_ns"] for clock in clocks), default=0),
        "max_ns": max((clock["max_ns"] for clock in clocks), default=0),
    }


def _slots(
    histograms: Iterable[bytes], target: int | None = None
) -> dict[str, Counter]:
    """Return, per clock, how many values lie in each slot (its lower, upper ns)."""
    slots = {name: Counter() for name in ("response", "service", "connect")}
    of_target = "" if target is None else f",{target}"  # the last column
    for content in histograms:
        # `turns.table` would take a fifth of a second for those of three servers
        for line in content.decode().splitlines()[1:]:
            if line.endswith(of_target):
                lower, upper, count, clock, *_ = line.split(",")
                slots[clock][int(lower), int(upper)] += int(count)
    return slots


def _quantiles(
    slots: Mapping[tuple[int, int], int], unanswered: int, moments: Mapping[str, Any]
) -> dict[str, int | None]:
    """Return quantiles as ``hist_quantile_missing_ns`` of src_c/client/hist.h does."""
    least, most = moments["min_ns"], moments["max_ns"]
    quantiles = {"p50_ns": 0.5, "p90_ns": 0.9, "p99_ns": 0.99, "p999_ns": 0.999}
    ordered = sorted(slots)
    ranks = list(itertools.accumulate(slots[slot] for slot in ordered))
    n = ranks[-1] if ranks else 0
    values: dict[str, int | None] = {}
    for name, q in quantiles.items():
        rank = max(1, math.ceil(q * (n + unanswered)))
        if rank > n:
            values[name] = None if n + unanswered else 0
        elif rank in (1, n):  # the ends are known exactly
            values[name] = least if rank == 1 else most
        else:
            lower, upper = ordered[bisect.bisect_left(ranks, rank)]
            values[name] = min(max((lower + upper) // 2, least), most)
    return values


def _fairness(reports: Sequence[Mapping]) -> dict[str, Any]:
    """Return fairness over all users; Jain's index from the sums of each client."""
    clients = [report["fairness"] for report in reports]
    users = sum(client["users"] for client in clients)
    # of a host where nobody could connect the least is that of no user
    least = (client["requests_min"] for client in clients if client["users"])
    sums = [report["window"]["requests"] for report in reports]
    squares = sum(
        total**2 / (client["users"] * client["jain"])
        for total, client in zip(sums, clients, strict=True)
        if client["users"] and client["jain"]
    )
    return {
        "users": users,
        "jain": sum(sums) ** 2 / (users * squares) if users and squares else 0.0,
        "requests_min": min(least, default=0),
        "requests_max": max(client["requests_max"] for client in clients),
        "longest_wait_ns": max(client["longest_wait_ns"] for client in clients),
    }


def _self(clients: Sequence[Mapping]) -> dict[str, Any]:
    """Return CPU times of all; shares and lag of the host that was worst off."""
    worst = max(clients, key=lambda c: c["cpu_share"] - c["spin_share"])
    lags = ("lag_p50_ns", "lag_p99_ns", "lag_max_ns")
    return {
        **worst,
        **_sums(clients, "cpu_user_s", "cpu_system_s", "cpu_window_s", "lag_n"),
        **{name: max(client[name] for client in clients) for name in lags},
    }


def _turns(clients: Sequence[Mapping]) -> dict[str, Any]:
    """Return what turns came to: counts add, the first early end stands."""
    ends = (client["ended_early"] for client in clients)
    return {
        **clients[0],
        **_sums(clients, "lead_in_requests", "requests", "client_cpu_s"),
        "ended_early": next(filter(None, ends), None),
    }


def added_timelines(files: Iterable[Mapping[str, bytes]]) -> bytes:
    """Return a timeline of all clients: counts add, the longest response stands."""
    timeline: dict[int, Counter] = {}
    for client in files:
        for row in turns.table(client.get("timeline", b"")):
            total = timeline.setdefault(row.pop("start_ms"), Counter())
            longest = max(total["max_response_ns"], row["max_response_ns"])
            total.update(row)
            total["max_response_ns"] = longest
    return table([{"start_ms": ms} | timeline[ms] for ms in sorted(timeline)])


def added_histograms(files: Iterable[Mapping[str, bytes]]) -> bytes:
    """Return a histogram of all clients: counts of the same slot add."""
    slots = _slots([client.get("histogram", b"") for client in files])
    return table(
        [
            {"lower_ns": lower, "upper_ns": upper, "count": count, "clock": clock}
            for clock, counts in slots.items()
            for (lower, upper), count in sorted(counts.items())
        ]
    )


def table(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Return rows as CSV, as a client writes them; empty without any."""
    if not rows:
        return b""
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue().encode()
