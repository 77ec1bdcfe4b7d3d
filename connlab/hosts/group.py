"""Several client hosts as one `connlab.drive.host.Host`, with one report.

    start   connections, rate and seed divided
    ready   when all have connected, one moment for all to begin; then nobody talks but
            for a sign each second; None until all have reported; the merged report
    stop    ends all at the same time

Counts add. Quantiles are those of the merged histograms, slot by slot, as the client
takes them itself. Windows must agree within `APART_NS` beyond what the clocks are
uncertain by, and no clock may have drifted since the start by more: else the trial
fails.
"""

from __future__ import annotations

import contextlib
import csv
import io
import itertools
import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from connlab.drive.host import Ended, HostLost, ProgramError, Reading
from connlab.hosts import start_time
from connlab.hosts.agent import Agent
from connlab.hosts.carrier import RemoteHost, Server
from connlab.hosts.clock import Offset

#: windows of several hosts agree within so much
APART_NS = 1_000_000
#: between two signs of a host whose client rests, and while its window is open
RENEW_S, SIGN_S = 0.5, 1.0
_HANDLE = 1
_SUMMED = ("connections", "limits", "requests", "bytes", "errors")
#: a merged flag is divided by the number of hosts, as whole numbers or not
_DIVIDED = {
    "--connections": int,
    "--active": int,
    "--rate": float,
    "--connect-rate": float,
}


class HostGroup:
    """The clients of a trial, on hosts of their own.

    Parameters
    ----------
    hosts : sequence of RemoteHost
    server : Server, optional
        Where the server is, which is told when the window will be.
    """

    def __init__(
        self, hosts: Sequence[RemoteHost], server: Server | None = None
    ) -> None:
        self.hosts, self.server = tuple(hosts), server
        self._handles: dict[str, int] = {}
        self._pending: dict[str, Any] = {}
        self._reports: dict[str, dict] = {}
        self._ended: dict[str, Ended] = {}
        self._offsets: dict[str, Offset] = {}
        self._asked_s: dict[str, float] = {}
        self._why_lost: dict[str, str] = {}
        self._connected: set[str] = set()
        self._started_ns = 0
        self._warmup_s = self._lasts_s = 0.0
        self.begins_s: float | None = None
        """When the load begins, on the driver's clock; None until all have connected.
        """

    def start(
        self,
        argv: Sequence[str],
        *,
        cores: Sequence[int] = (),
        files: Sequence[str] = (),
    ) -> int:
        """Start a client on every host, each with its share; see `Host.start`."""
        self._started_ns = time.monotonic_ns()
        self.begins_s = None
        self._warmup_s, self._lasts_s = _lasts_s(argv)
        for kept in (self._handles, self._pending, self._reports, self._ended):
            kept.clear()
        for past in (self._why_lost, self._asked_s, self._connected):
            past.clear()
        for host in self.hosts:
            host.revive()
        wanted = [*dict.fromkeys([*files, "histogram"])]
        several = len(self.hosts)
        try:
            shares = [divided(argv, number, several) for number in range(several)]
            self._handles |= started(self.hosts, shares, cores=cores, files=wanted)
        except (HostLost, ProgramError):
            self._end_all(grace_s=0, wait_s=0)
            raise
        return _HANDLE

    def ready(self, handle: int, *, timeout_s: float) -> dict | None:
        """Return the merged report when all have reported; see `Host.ready`."""
        until = time.monotonic() + timeout_s
        while True:
            for host in self.hosts:
                self._ask(host)
            if len(self._reports) == len(self.hosts):
                return self._merged()
            if self.begins_s is None and len(self._connected) == len(self.hosts):
                there = [(host, self._handles[host.name]) for host in self.hosts]
                self.begins_s, self._offsets = start_time.told(there)
                if self.server and self._lasts_s:
                    begins_s = self.begins_s + self._warmup_s
                    self.server.expect(begins_s, self.begins_s + self._lasts_s)
            if time.monotonic() >= until:
                return None
            time.sleep(min(0.02, max(0.0, until - time.monotonic())))

    def _ask(self, host: RemoteHost) -> None:
        """Ask an agent that is not asked, take what it answers."""
        name = host.name
        if name not in self._pending:
            asked, every_s = self._question(name)
            now_s = time.monotonic()
            if now_s < self._asked_s.get(name, 0.0) + every_s:
                return
            call = host.call(*asked)
            self._pending[name] = (call, now_s + call.patience_s)
            self._asked_s[name] = now_s
        call, until = self._pending[name]
        if not call.done():
            if time.monotonic() > until:
                raise host.gone(TimeoutError("does not answer"))
            return
        del self._pending[name]
        try:
            told = call.result()
        except ProgramError as error:
            raise ProgramError(f"on {name}: {error}") from error
        if told is not None and told.get("event") == start_time.EVENT:
            self._connected.add(name)
        elif told is not None:
            self._reports[name] = told

    def _question(self, name: str) -> tuple[tuple, float]:
        """Return what an agent is asked now, and how often at most, in seconds.

        Where a client rests only the lease is renewed: others may be seconds later,
        and the lease's end would take histogram and all with it.
        """
        begins_s = self.begins_s
        if name in self._reports or (name in self._connected and begins_s is None):
            return (Agent.renew,), RENEW_S
        if begins_s is not None and time.monotonic() < begins_s + self._lasts_s:
            return (Agent.ready, self._handles[name], 0.0), SIGN_S
        return (Agent.ready, self._handles[name], 0.5), 0.0

    def sample(
        self, handle: int, *, machine: bool = True, memory: bool = False
    ) -> Reading:
        """Return nothing: clients report their CPU time, and are left alone."""
        return Reading(None)

    def ask_to_end(self, handle: int) -> None:
        """Send every client SIGTERM; see `Host.ask_to_end`."""
        for host in self.hosts:
            with contextlib.suppress(HostLost):
                host.ask_to_end(self._handles[host.name])

    def stop(self, handle: int, *, grace_s: float, wait_s: float = 0) -> Ended:
        """End all at the same time; a lost host's agent does so when its lease ends."""
        self._end_all(grace_s=grace_s, wait_s=wait_s)
        ends = list(self._ended.values())
        return Ended(
            exit=next((end.exit for end in ends if end.exit), 0),
            early=any(end.early for end in ends),
            lines=(),
            diagnostics="\n".join(end.diagnostics for end in ends if end.diagnostics),
            files={
                "timeline": added_timelines(end.files for end in ends),
                "histogram": added_histograms(end.files for end in ends),
            },
        )

    def _end_all(self, *, grace_s: float, wait_s: float) -> None:
        """Begin with all before the first is waited for."""
        ending = {}
        for host in self.hosts:
            if host.name in self._handles and host.name not in self._ended:
                with contextlib.suppress(HostLost):
                    handle = self._handles[host.name]
                    stopping = host.stopping(handle, grace_s=grace_s, wait_s=wait_s)
                    ending[host.name] = stopping
        for name, stopping in ending.items():
            try:
                self._ended[name] = stopping.result()
            except HostLost as error:
                self._why_lost[name] = str(error)

    def pause(self, handle: int) -> None:
        """Stop every client; see `Host.pause`."""
        for host in self.hosts:
            host.pause(self._handles[host.name])

    def resume(self, handle: int) -> None:
        """Continue every client; see `Host.resume`."""
        for host in self.hosts:
            with contextlib.suppress(HostLost):
                host.resume(self._handles[host.name])

    def _merged(self) -> dict:
        self._end_all(grace_s=1.0, wait_s=5.0)
        for host in self.hosts:
            if host.name not in self._ended:
                raise HostLost(self._why_lost.get(host.name) or host.lost)
        told = {host.name: self._reports[host.name] for host in self.hosts}
        histograms = [self._ended[name].files.get("histogram", b"") for name in told]
        report = merged(list(told.values()), histograms)
        edges = {n: _edges(one, self._offsets[n]) for n, one in told.items()}
        now = {host.name: host.measured_offset() for host in self.hosts}
        report["hosts"] = {
            name: {
                "offset_ns": self._offsets[name].ns,
                "bound_ns": self._offsets[name].bound_ns,
                "offset_after_ns": now[name].ns,
                "window_ns": edges[name],
                "report": one,
            }
            for name, one in told.items()
        }
        self.check_clocks(self._offsets, now)
        self._check_windows(edges)
        self._set_edges(report, edges)
        return report

    def check_clocks(
        self, before: Mapping[str, Offset], now: Mapping[str, Offset]
    ) -> None:
        """Raise ProgramError where a clock has drifted meanwhile."""
        for name, offset in before.items():
            if offset.differs(now[name], APART_NS):
                drift_ms = abs(now[name].ns - offset.ns) / 1e6
                raise ProgramError(f"the clock of {name} drifted by {drift_ms:.3g} ms")

    def _check_windows(self, edges: Mapping) -> None:
        known = [edge for edge in edges.values() if edge]
        bounds = sorted(offset.bound_ns for offset in self._offsets.values())[-2:]
        for side in (0, 1):
            at = [edge[side] for edge in known]
            apart = max(at, default=0) - min(at, default=0)
            if apart > APART_NS + sum(bounds):
                last = max((edge[side], name) for name, edge in edges.items() if edge)
                said = f"windows are {apart / 1e6:.3g} ms apart; {last[1]} is last"
                raise ProgramError(said)

    def _set_edges(self, report: dict, edges: Mapping) -> None:
        """Say where the window lies on the driver's clock, as from one client."""
        known = [edge for edge in edges.values() if edge]
        if len(known) < len(edges):
            return
        begin, end = min(e[0] for e in known), max(e[1] for e in known)
        report["window"] |= {"begin_ns": begin, "end_ns": end}
        since_s = (begin - self._started_ns) / 1e9
        report["self"]["dialing_s"] = since_s - report["window"]["warmup_s"]


# ---- dividing --------------------------------------------------------------------


def divided(argv: Sequence[str], number: int, among: int) -> list[str]:
    """Return the words of client `number` of so many: its share, a seed of its own."""
    words = list(argv)
    for at, word in enumerate(words[:-1]):
        if word in _DIVIDED:
            whole = float(words[at + 1])
            if _DIVIDED[word] is int:
                words[at + 1] = str(_share(int(whole), number, among))
            else:
                words[at + 1] = f"{whole / among:.12g}"
        elif word == "--seed":
            words[at + 1] = str(int(words[at + 1]) + number)
    return words


def _share(whole: int, number: int, among: int) -> int:
    if whole < among:
        raise ProgramError(f"{whole} connections are fewer than {among} client hosts")
    return whole * (number + 1) // among - whole * number // among


def started(
    hosts: Sequence[RemoteHost],
    words: Sequence[Sequence[str]],
    *,
    cores: Sequence[int],
    files: Sequence[str],
) -> dict[str, int]:
    """Start a program on each host at once, that awaits its moment; return handles.

    Raises
    ------
    HostLost, ProgramError
        When one cannot be started; the others then have ended.
    """
    calls = [
        host.starting([*told, start_time.FLAG], cores=cores, files=files)
        for host, told in zip(hosts, words, strict=True)
    ]
    handles: dict[str, int] = {}
    wrong: HostLost | ProgramError | None = None
    for host, call in zip(hosts, calls, strict=True):
        try:
            handles[host.name] = call.result()
        except (HostLost, ProgramError) as error:
            wrong = wrong or error
    if wrong is None:
        return handles
    for host in hosts:
        if host.name in handles:
            with contextlib.suppress(HostLost):
                host.stop(handles[host.name], grace_s=0)
    raise wrong


def _lasts_s(argv: Sequence[str]) -> tuple[float, float]:
    """Return how long the warm-up lasts, and both it and the window.

    0 where requests are counted.
    """
    told = dict(itertools.pairwise(argv))
    if "--duration" not in told:
        return 0.0, 0.0
    warmup_s = float(told.get("--warmup", 0))
    return warmup_s, warmup_s + float(told["--duration"])


def _edges(report: Mapping, offset: Offset) -> tuple[int, int] | None:
    """Return the window's edges on the driver's clock."""
    window = report.get("window") or {}
    if window.get("begin_ns") is None:
        return None
    return window["begin_ns"] - offset.ns, window["end_ns"] - offset.ns


# ---- merging ---------------------------------------------------------------------


def merged(reports: Sequence[dict], histograms: Sequence[bytes]) -> dict:
    """Return one client's report of several, with quantiles of all their answers."""
    out = dict(reports[0])
    for name in _SUMMED:
        out[name] = _summed([report.get(name) or {} for report in reports])
    for name in ("processes", "active", "sources"):
        out[name] = sum(report.get(name) or 0 for report in reports)
    out["threads"] = max(report.get("threads") or 0 for report in reports)
    if out.get("offered_rps") is not None:
        out["offered_rps"] = sum(report["offered_rps"] for report in reports)
    out["window"] = _window([report["window"] for report in reports])
    slots = _slots(histograms)
    missing = out["window"].get("unanswered") or 0
    for name in ("response", "service", "connect"):
        parts = [report[name] for report in reports]
        unanswered = missing if name == "response" else 0
        out[name] = _moments(parts) | _quantiles(slots[name], unanswered, parts)
    out["fairness"] = _fairness(reports)
    out["self"] = _self([report["self"] for report in reports])
    stops = [report.get("stop") for report in reports]
    out["stop"] = next((stop for stop in stops if stop != "duration"), "duration")
    return out


def _summed(parts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    total: Counter = Counter()
    for part in parts:
        total.update(part)
    return dict(total)


def _window(parts: Sequence[Mapping]) -> dict[str, Any]:
    out: dict[str, Any] = {"begin_ns": None, "end_ns": None}
    for name in ("requests", "bytes", "arrivals", "throughput_rps"):
        out[name] = sum(part[name] for part in parts)
    missing = [part["unanswered"] for part in parts]
    out["unanswered"] = None if None in missing else sum(missing)
    out["warmup_s"] = max(part["warmup_s"] for part in parts)
    out["seconds"] = sum(part["seconds"] for part in parts) / len(parts)
    return out


def _moments(parts: Sequence[Mapping]) -> dict[str, float]:
    """Return count, mean, deviation (n - 1), least and greatest of all parts."""
    parts = [part for part in parts if part["n"]]
    n = sum(part["n"] for part in parts)
    mean = sum(part["n"] * part["mean_ns"] for part in parts) / n if n else 0.0
    squares = sum(
        (part["n"] - 1) * part["sd_ns"] ** 2 + part["n"] * (part["mean_ns"] - mean) ** 2
        for part in parts
    )
    return {
        "n": n,
        "mean_ns": mean,
        "sd_ns": math.sqrt(squares / (n - 1)) if n > 1 else 0.0,
        "min_ns": min((part["min_ns"] for part in parts), default=0),
        "max_ns": max((part["max_ns"] for part in parts), default=0),
    }


def _slots(histograms: Sequence[bytes]) -> dict[str, Counter]:
    """Return, per clock, how many values lie in each slot (its lower, upper ns)."""
    found = {name: Counter() for name in ("response", "service", "connect")}
    for content in histograms:
        for row in csv.DictReader(io.StringIO(content.decode())):
            slot = int(row["lower_ns"]), int(row["upper_ns"])
            found[row["clock"]][slot] += int(row["count"])
    return found


def _quantiles(
    slots: Mapping[tuple[int, int], int], missing: int, parts: Sequence[Mapping]
) -> dict[str, int | None]:
    """Return quantiles as ``hist_quantile_missing_ns`` of src_c/client/hist.h does."""
    seen = [part for part in parts if part["n"]]
    least = min((part["min_ns"] for part in seen), default=0)
    most = max((part["max_ns"] for part in seen), default=0)
    quantiles = {"p50_ns": 0.5, "p90_ns": 0.9, "p99_ns": 0.99, "p999_ns": 0.999}
    ordered = sorted(slots.items())
    n = sum(slots.values())
    out: dict[str, int | None] = {}
    for name, q in quantiles.items():
        rank = max(1, math.ceil(q * (n + missing)))
        out[name] = None if n and rank > n else _at_rank(ordered, rank, least, most)
    return out


def _at_rank(ordered: Sequence, rank: int, least: int, most: int) -> int:
    below = 0
    for (lower, upper), count in ordered:
        below += count
        if below >= rank:
            return min(max((lower + upper) // 2, least), most)
    return 0


def _fairness(reports: Sequence[Mapping]) -> dict[str, Any]:
    """Return fairness over all users; Jain's index from each part's sums."""
    parts = [report["fairness"] for report in reports]
    users = sum(part["users"] for part in parts)
    sums = [report["window"]["requests"] for report in reports]
    squares = sum(
        total**2 / (part["users"] * part["jain"])
        for total, part in zip(sums, parts, strict=True)
        if part["users"] and part["jain"]
    )
    return {
        "users": users,
        "jain": sum(sums) ** 2 / (users * squares) if users and squares else 0.0,
        "requests_min": min(part["requests_min"] for part in parts),
        "requests_max": max(part["requests_max"] for part in parts),
        "longest_wait_ns": max(part["longest_wait_ns"] for part in parts),
    }


def _self(parts: Sequence[Mapping]) -> dict[str, Any]:
    """Return CPU times of all; shares and lag of the host that was worst off."""
    out = dict(max(parts, key=lambda part: part["cpu_share"] - part["spin_share"]))
    for name in ("cpu_user_s", "cpu_system_s", "cpu_window_s", "lag_n"):
        out[name] = sum(part[name] for part in parts)
    for name in ("lag_p50_ns", "lag_p99_ns", "lag_max_ns"):
        out[name] = max(part[name] for part in parts)
    return out


def added_timelines(files: Any) -> bytes:
    """Return a timeline of all clients: counts add, the longest response stands."""
    total: dict[int, Counter] = {}
    header = None
    for one in files:
        reader = csv.DictReader(io.StringIO(one.get("timeline", b"").decode()))
        for row in reader:
            header = reader.fieldnames
            at = total.setdefault(int(row["start_ms"]), Counter())
            longest = max(at["max_response_ns"], int(row["max_response_ns"]))
            at.update({n: int(v) for n, v in row.items() if n != "start_ms"})
            at["max_response_ns"] = longest
    if header is None:
        return b""
    out = io.StringIO()
    writer = csv.DictWriter(out, header, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for start, counts in sorted(total.items()):
        writer.writerow({"start_ms": start} | counts)
    return out.getvalue().encode()


def added_histograms(files: Any) -> bytes:
    """Return a histogram of all clients: counts of the same slot add."""
    slots = _slots([one.get("histogram", b"") for one in files])
    rows = [
        (lower, upper, count, clock)
        for clock, found in slots.items()
        for (lower, upper), count in sorted(found.items())
    ]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("lower_ns", "upper_ns", "count", "clock"))
    writer.writerows(rows)
    return out.getvalue().encode() if rows else b""
