"""All that is found out about a server, and whether it is a correct one.

does it listen? -> conversations -> the 24 cases -> crowds -> system calls
    -> in turns with models -> a Verdict, with what to look at first
"""

from __future__ import annotations

import shlex
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from connlab import schema
from connlab.drive import machine, programs, servers, trials
from connlab.drive.cases import Answer
from connlab.drive.procfs import Listener
from connlab.drive.running import NotServing, running
from connlab.judge import calls, cases, contest, conversations, crowds, naming
from connlab.judge.conversations import Heard
from connlab.study.formatting import counted

#: deaths of fresh servers after which no further conversation is tried
_DEATHS_MOST = 3
QUICK_LEVELS = (1, 10, 100)
_SHOWN = 300
#: characters of what a server printed that are kept, its last
_PRINTED = 500
#: what a server that hears no SIGTERM is given before it is killed (``build/external``)
_GRACE_S = 2
#: one that takes longer to end and to start is started less often: the verdict shall
#: be there in three minutes, and fresh servers for all stages are some twenty
_SLOW_S = 4.0
#: share of looks beyond which a server does not rest though its client is silent
_BUSY_MOST = 0.8
#: what a server lacks that serves one client after the other
_SECOND = "serving a second client at the same time"


@dataclass
class Verdict:
    """What was found out about one server.

    `wrong` has a line for each thing that no echo server may do; with none it is a
    correct one. `lacks` names what is missing and not required: serving many, guarding
    against a client that is slow or never reads. `busy_share` says how often it
    ran while its client was silent, `elsewhere` where it listened in place of its port.
    """

    server: str
    label: str
    wrong: list[str] = field(default_factory=list)
    lacks: list[str] = field(default_factory=list)
    heard: list[Heard] = field(default_factory=list)
    answers: tuple[Answer, ...] = ()
    crowds: crowds.Crowds | None = None
    calls: calls.Calls | None = None
    start_s: float | None = None
    printed: str = ""
    elsewhere: list[Listener] = field(default_factory=list)
    deaf: bool = False
    busy_share: float = 0.0
    seconds: float = 0.0

    @property
    def right(self) -> bool:
        """Whether it is a correct echo server."""
        return not self.wrong

    @property
    def concurrent(self) -> bool:
        """Whether it serves more than one client at a time."""
        return _SECOND not in self.lacks

    @property
    def restless(self) -> bool:
        """Whether it looks again and again, where it could wait."""
        return self.busy_share > _BUSY_MOST

    @property
    def restart_s(self) -> float:
        """How long it takes to end and to start it anew."""
        return (self.start_s or 0) + _GRACE_S * self.deaf

    @property
    def slow(self) -> bool:
        """Whether it meets fewer crowds, and models at one number of connections."""
        return self.restart_s > _SLOW_S

    @property
    def untried(self) -> list[str]:
        """What could not be tried of it, each with what this machine lacks."""
        return [f"{h.about}: {h.untried}" for h in self.heard if h.untried]

    def failed(self) -> list[Heard]:
        return [heard for heard in self.heard if heard.ok is False]

    def as_json(self) -> dict[str, Any]:
        heard = [asdict(heard) | {"ok": heard.ok} for heard in self.heard]
        return asdict(self) | {"right": self.right, "heard": heard}


@dataclass
class Judgement:
    """The verdicts on all servers, and what they gave in turns with each other.

    `stopped` by Ctrl-C, or by what `failed` here, it has those that were there;
    `missing` are the labels of the other servers, by their names.
    """

    verdicts: list[Verdict]
    contests: list[contest.Contest] = field(default_factory=list)
    made_at: str = ""
    seconds: float = 0.0
    stopped: bool = False
    failed: str = ""
    missing: dict[str, str] = field(default_factory=dict)

    @property
    def right(self) -> bool:
        """Whether all servers were judged, and are correct."""
        return not self.missing and all(verdict.right for verdict in self.verdicts)

    @property
    def ending(self) -> str:
        """What a stop left out; nothing where there was none."""
        if not self.stopped:
            return ""
        stopped = f"stopped ({self.failed})" if self.failed else "stopped"
        if not self.missing:
            return f"{stopped} before all turns with models were measured"
        return f"{stopped}; not judged: {', '.join(self.missing.values())}"

    def as_json(self) -> dict[str, Any]:
        return {
            "schema": schema.SCHEMA,
            "made_at": self.made_at,
            "seconds": self.seconds,
            "right": self.right,
            "stopped": self.stopped,
            "failed": self.failed,
            "missing": self.missing,
            "machine": {
                "descriptors": machine.limits()["descriptors"]["hard"],
                "threads": machine.sysctl("kernel.threads-max"),
                "somaxconn": machine.sysctl("net.core.somaxconn"),
            },
            "servers": [verdict.as_json() for verdict in self.verdicts],
            "contests": [asdict(contest) for contest in self.contests],
        }


def judge(
    names: Sequence[str],
    *,
    quick: bool = False,
    warm_up: float | None = None,
    say: Callable[[str], None] = print,
) -> Judgement:
    """Judge servers, each by itself and then all in turns.

    Their `names` are command lines with ``{port}``, entries of ``servers.toml`` or
    models. `quick`: only whether they are correct, and up to a hundred clients. Before
    its turns each has `warm_up` seconds of load, by default as in `connlab.compare`.
    What is being tried is told to `say`. What was judged is kept after Ctrl-C, and
    where the machine fails.

    Raises ValueError for a name that nobody has, a server that cannot run here or
    serves no echo, or a command line without ``{port}``. Before the first verdict:
    RuntimeError where this machine lacks what the least of a client takes, OSError
    where a disk is full, and KeyboardInterrupt.
    """
    began = time.monotonic()
    binaries = programs.built()
    for name in names:
        servers.able(name, "echo", binaries)
    if warm_up is not None:
        servers.check_warm_up(warm_up)
    levels = QUICK_LEVELS if quick else crowds.LEVELS
    commands = {name: servers.command_line(name, binaries) for name in names}
    labels = naming.labels(commands)
    judgement = Judgement([], made_at=machine.now(), missing=labels)
    try:
        for name, line in commands.items():
            verdict = _judged(Verdict(name, labels[name]), line, levels, say)
            judgement.verdicts.append(verdict)
            del judgement.missing[name]
        if not quick:
            _let_take_turns(judgement, say, warm_up)
    except (KeyboardInterrupt, RuntimeError, OSError) as error:
        if not judgement.verdicts:
            raise
        judgement.stopped, judgement.failed = True, str(error)
    judgement.seconds = time.monotonic() - began
    return judgement


def _let_take_turns(
    judgement: Judgement, say: Callable[[str], None], warm_up: float | None = None
) -> None:
    for connections in contest.MODELS:
        able = [v for v in judgement.verdicts if connections in _contests(v)]
        if able:
            say(f"in turns with models, {counted(connections, 'connection')}")
            names = [verdict.server for verdict in able]
            wait_s = max(verdict.restart_s for verdict in able)
            for some in contest.divided(names, connections=connections):
                held = contest.hold(
                    some, connections=connections, wait_s=wait_s, warm_up=warm_up
                )
                judgement.contests.append(held)  # one by one: Ctrl-C may come


def _contests(verdict: Verdict) -> list[int]:
    """Return at how many connections a server takes turns with models."""
    able = [n for n in contest.MODELS if _measurable(verdict, n)]
    return able[-1:] if verdict.slow else able


def _measurable(verdict: Verdict, connections: int) -> bool:
    """Whether a server can be measured: it serves that many, and their bytes."""
    holds = {answer.question: answer.holds for answer in verdict.answers}
    enough = verdict.crowds is not None and (
        connections == 1 or verdict.crowds.carried >= connections
    )
    return enough and holds.get("the same bytes") is True


def _judged(
    verdict: Verdict, line: str, levels: Sequence[int], say: Callable[[str], None]
) -> Verdict:
    began = time.monotonic()
    try:
        say(f"{verdict.label}: conversations")
        _converse(verdict, line)
        succeeded = {heard.name for heard in verdict.heard if heard.ok}
        if not succeeded & {"every byte", "one connection"}:
            if not verdict.wrong:
                raise RuntimeError(f"judge: {verdict.untried[0]}")
            return verdict  # it echoes nothing
        say(f"{verdict.label}: the cases of Tran and Rees")
        asked = cases.ask_all(line, valgrind=_valgrind(line))
        if asked.died:
            text = f"it died of {cases.VISITORS}: {_in_a_line(asked.died)}"
            verdict.wrong.append(text)
        verdict.answers, verdict.busy_share = asked.answers, asked.busy_share
        if asked.prints:
            text = "silence (it prints for each request, which costs time)"
            verdict.lacks.append(text)
        if verdict.restless:
            verdict.lacks.append("rest (it is busy while nobody asks)")
        failed = (answer for answer in verdict.answers if answer.holds is False)
        verdict.wrong += [f"{answer.question}: {answer.evidence}" for answer in failed]
        say(f"{verdict.label}: crowds")
        tried = crowds.FEW & {*levels} if verdict.slow else levels
        verdict.crowds = crowds.try_all(line, levels=sorted(tried))
        if _measurable(verdict, 1):
            say(f"{verdict.label}: system calls")
            verdict.calls = calls.count(line)
    except NotServing as error:
        said = str(error)
        verdict.wrong.append(f"it does not serve: {_in_a_line(said)}")
        if _in_a_line(said) != said:
            verdict.printed = verdict.printed or said[-_PRINTED:]
        verdict.elsewhere = error.elsewhere
    finally:
        verdict.seconds = time.monotonic() - began
    return verdict


def _valgrind(line: str) -> str | None:
    program = shutil.which(shlex.split(line)[0])
    if program is None:
        return None
    try:
        with open(program, "rb") as file:
            is_native = file.read(4) == b"\x7fELF"
    except OSError:  # who may run it need not be allowed to read it
        return None
    name = naming.unversioned(Path(program))
    is_known = is_native and name not in (*naming.INTERPRETERS, *cases.COLLECT)
    return shutil.which("valgrind") if is_known else None


# ---- conversations -------------------------------------------------------------------


def _converse(verdict: Verdict, line: str) -> None:
    remaining = conversations.EVERY
    for _ in range(_DEATHS_MOST + 1):
        died = _converse_until_end(verdict, line, remaining)
        remaining = conversations.EVERY[len(verdict.heard) :]
        said = verdict.heard[-1]
        verdict.heard = [_excused(heard, line) for heard in verdict.heard]
        last = verdict.heard[-1]
        if died and last is said:
            verdict.wrong.append(f"it died of {last.about}: {_in_a_line(died)}")
        elif remaining and not _is_told(last):
            text = f"it listened no longer after {last.about}, but went on"
            verdict.wrong.append(text)
        if not remaining:
            break
    _conclude(verdict)


def _excused(heard: Heard, line: str) -> Heard:
    """Return a hundred clients as not tried where the user may not have their tasks."""
    if heard.name != "a hundred" or heard.ok is not False:
        return heard
    bound = crowds.tasks_bound(line, 100)
    return replace(heard, failure=None, untried=bound) if bound else heard


def _is_told(heard: Heard) -> bool:
    """Whether how it went is wrong by itself, or tells nothing of the server."""
    is_required = heard.name in {each.name for each in conversations.REQUIRED}
    return heard.ok is None or (heard.ok is False and is_required)


def _converse_until_end(verdict: Verdict, line: str, todo: Sequence) -> str | None:
    with running(line) as serving:
        verdict.start_s = verdict.start_s or serving.ready.get("start_s")
        held = conversations.hold(todo, serving.address)
        verdict.heard += held
        if held[-1].ok is False or len(held) < len(todo):
            serving.wait_for_its_end()
    ended = serving.ended
    said = machine.without_paths(ended.diagnostics)
    verdict.printed = verdict.printed or said[-_PRINTED:]
    usage = next((e for e in ended.lines if e.get("event") == "usage"), {})
    verdict.deaf |= bool(usage.get("killed")) and not ended.early
    return serving.died()


def _in_a_line(text: str) -> str:
    """Return how a program ended and what it printed, without frames and the middle."""
    return _shortened(" ".join(trials.without_frames(text).split()))


def _shortened(text: str) -> str:
    """Return a text without its middle: an exception's name is first or last in it."""
    half = _SHOWN // 2
    return text if len(text) <= _SHOWN else f"{text[:half]} … {text[-half:]}"


def _conclude(verdict: Verdict) -> None:
    failed = {heard.name: heard for heard in verdict.failed()}
    for required in conversations.REQUIRED:
        if heard := failed.get(required.name):
            verdict.wrong.append(f"{heard.about}: {heard.failure}")
    if "idle neighbour" in failed:
        verdict.lacks.append(_SECOND)
    elif any(each.name in failed for each in conversations.CONCURRENT):
        verdict.lacks.append("serving a hundred clients at the same time")
    elif any(each.name in failed for each in conversations.ISOLATING):
        verdict.lacks.append("guarding against a client that is slow or never reads")
    if verdict.deaf:
        verdict.lacks.append("ending on SIGTERM")
