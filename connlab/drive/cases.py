"""The 24 test cases of report 001 (Tran & Rees), for every model.

Their table asks six questions of a client and six of each server: are lengths
varied, do the same bytes come back, are there as many answers as requests, do both
sides count them alike, are sockets closed, does memory leak. Their select server
failed three; their leaks of possibly lost memory were "permitted". Here a case
holds or does not, and each answer carries the figures that it rests on.

    server under test + our client, over TCP -> both sides' own counts, compared
    the same once more under valgrind        -> its leak summaries, parsed
"""

from __future__ import annotations

import csv
import json
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from connlab.drive import evaluation, procfs, store, trials
from connlab.drive.host import ProgramError
from connlab.drive.programs import Programs, built, models
from connlab.drive.running import running, visit

FILE = "cases.jsonl"
CONNECTIONS = 4
REQUESTS = 25
SIZES = "1-2000"
ASKS = {"connections": CONNECTIONS, "requests": REQUESTS, "size": SIZES}
LEAKS = "no memory leaked"
_TABLE = "per-connection"
_WAIT_S = 60
_LOST = re.compile(r"(definitely|indirectly|possibly) lost: ([\d,]+) bytes")
_NO_LEAKS = "no leaks are possible"
_TCP_LISTEN, _TCP_TIME_WAIT = 0x0A, 0x06

#: what is asked -> (their cases for servers, in the order thread, select, epoll;
#: their case for the client)
QUESTIONS = {
    "varied lengths": ((2, 3, 4), 1),
    "the same bytes": ((6, 7, 8), 5),
    "as many answers as requests": ((10, 11, 12), 9),
    "requests counted": ((14, 15, 16), 13),
    "sockets closed": ((17, 18, 19), 20),
    LEAKS: ((21, 22, 23), 24),
}


@dataclass(frozen=True)
class Answer:
    """Whether one question holds for one subject.

    `holds` is None where it could not be asked here; `evidence` says what was
    compared, or why it could not be.
    """

    question: str
    subject: str
    their_cases: tuple[int, ...]
    holds: bool | None
    evidence: str


@dataclass(frozen=True)
class _Conversation:
    """What both sides said of one run; `left` are sockets, then descriptors."""

    client: dict
    server: dict
    per_connection: tuple[dict, ...]
    log: tuple[dict, ...]
    left: tuple[int, int]


def run(
    names: Sequence[str] | None = None,
    *,
    programs: Programs | None = None,
    valgrind: bool = True,
) -> tuple[Answer, ...]:
    """Ask all questions of the client and of each model.

    Parameters
    ----------
    names
        Models; all that are available when left out.
    valgrind
        Whether to ask about leaks, which takes a few seconds a model.

    Raises
    ------
    RuntimeError
        When a server does not come up or does not end; its words are in the text.
    """
    programs = programs or built()
    names = names or [model.name for model in models(programs) if model.available]
    answers: list[Answer] = []
    for name in names:
        talk = _converse(programs, name)
        answers += _about_server(name, talk)
        answers.append(_leaks(programs, name) if valgrind else _not_asked(name))
    answers += _about_client(talk)
    answers.append(_client_leaks(programs) if valgrind else _not_asked("client"))
    return tuple(answers)


def ask_all(
    names: Sequence[str], folder: Path, *, valgrind: bool = True
) -> tuple[Answer, ...]:
    """Ask all questions of these models and of the client; keep the answers.

    While a run is evaluated again, return those that the folder holds of them.
    """
    if evaluation.folder():
        subjects = {*names, "client"}
        return tuple(one for one in read(folder) if one.subject in subjects)
    answers = run(names, valgrind=valgrind)
    keep(answers, folder)
    return answers


def read(folder: Path) -> list[Answer]:
    """Return what `keep` wrote into a folder; nothing where there is no such file."""
    rows = store.read(folder / FILE).trials
    return [Answer(**row | {"their_cases": (*row["their_cases"],)}) for row in rows]


def keep(answers: Sequence[Answer], folder: Path) -> Path:
    """Write the answers to ``folder/cases.jsonl``, a line each; return the path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / FILE
    lines = [json.dumps(asdict(answer)) + "\n" for answer in answers]
    path.write_text("".join(lines))
    return path


# --- one run ----------------------------------------------------------------


def _converse(
    programs: Programs,
    model: str,
    *,
    server_under: Sequence[str] = (),
    client_under: Sequence[str] = (),
) -> _Conversation:
    server = running(
        model, both=programs, under=server_under, files=("log",), grace_s=_WAIT_S
    )
    with server as serving:
        before = procfs.sockets([serving.handle])
        told, ended = visit(
            serving, ASKS, both=programs, under=client_under, files=(_TABLE,)
        )
        left = (
            settled(lambda: open_sockets(serving.address[1])),
            settled(lambda: procfs.sockets([serving.handle]) - before),
        )
    if not serving.ended.lines:
        raise ProgramError(f"{model}: no stats line: {trials.ending(serving.ended)}")
    return _Conversation(
        client=told,
        server=serving.ended.lines[-1],
        per_connection=_rows(ended.files[_TABLE]),
        log=_rows(serving.ended.files["log"]),
        left=left,
    )


def _rows(table: bytes) -> tuple[dict, ...]:
    return tuple(csv.DictReader(table.decode().splitlines()))


def settled(measure: Callable[[], int], *, seconds: float = 2.0) -> int:
    """Return what is measured once it is 0, or after a while as it is."""
    until = time.monotonic() + seconds
    while (found := measure()) and time.monotonic() < until:
        time.sleep(0.02)
    return found


def open_sockets(port: int) -> int:
    """Count the server's sockets on `port` that are neither listening nor done."""
    open_ones = 0
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        local, state = int(fields[1].split(":")[1], 16), int(fields[3], 16)
        open_ones += local == port and state not in (_TCP_LISTEN, _TCP_TIME_WAIT)
    return open_ones


# --- what it shows ----------------------------------------------------------


def _answer(question: str, subject: str, holds: bool | None, evidence: str) -> Answer:
    servers, client = QUESTIONS[question]
    their = dict(zip(("thread", "select", "epoll"), servers, strict=True))
    cases = (client,) if subject == "client" else (their.get(subject),)
    return Answer(question, subject, tuple(c for c in cases if c), holds, evidence)


def _about_server(name: str, talk: _Conversation) -> list[Answer]:
    client, server = talk.client, talk.server
    sockets, descriptors = talk.left
    sent, got = client["bytes"]["sent"], client["bytes"]["received"]
    asked, told = client["requests"]["sent"], client["requests"]["completed"]
    mismatches = client["errors"]["mismatch"]
    lengths = {(row["bytes_in"], row["requests"]) for row in talk.log}
    rows = sorted((int(r["requests"]), int(r["bytes_in"])) for r in talk.log)
    theirs = sorted(
        (int(r["requests"]), int(r["bytes_out"])) for r in talk.per_connection
    )
    return [
        _answer(
            "varied lengths",
            name,
            len(lengths) > 1 and server["bytes_in"] == sent,
            f"messages of {SIZES} bytes: sent {sent}, received {server['bytes_in']}",
        ),
        _answer(
            "the same bytes",
            name,
            mismatches == 0 and sent == got == server["bytes_out"] > 0,
            f"{got} of {sent} bytes came back, {mismatches} differ",
        ),
        _answer(
            "as many answers as requests",
            name,
            asked == told == CONNECTIONS * REQUESTS,
            f"{told} answers to {asked} requests",
        ),
        _answer(
            "requests counted",
            name,
            server["requests"] == told and rows == theirs,
            f"server {server['requests']}, client {told}; connection by connection",
        ),
        _answer(
            "sockets closed",
            name,
            sockets == 0 and descriptors <= 0,
            f"{sockets} sockets, {max(0, descriptors)} descriptors left",
        ),
    ]


def _about_client(talk: _Conversation) -> list[Answer]:
    client = talk.client
    per = [int(row["requests"]) for row in talk.per_connection]
    sizes = {row["bytes_out"] for row in talk.per_connection}
    sent = client["bytes"]["sent"]
    asked = client["requests"]["sent"]
    return [
        _answer("varied lengths", "client", len(sizes) > 1, f"sizes {SIZES}"),
        _answer("the same bytes", "client", sent > 0, f"{sent} bytes sent"),
        _answer(
            "as many answers as requests", "client", asked > 1, f"{asked} requests"
        ),
        _answer(
            "requests counted",
            "client",
            sum(per) == client["requests"]["completed"],
            f"{sum(per)} over {len(per)} connections",
        ),
        _answer(
            "sockets closed",
            "client",
            talk.left[0] == 0,
            f"{talk.left[0]} sockets left",
        ),
    ]


# --- leaks ------------------------------------------------------------------


def _not_asked(subject: str) -> Answer:
    return _answer(LEAKS, subject, None, "valgrind was not run")


def lost(
    text: str, *, kinds: Sequence[str] = ("definitely", "indirectly", "possibly")
) -> tuple[int, int]:
    """Return the bytes lost in all processes, and how many processes said so."""
    told = (n for kind, n in _LOST.findall(text) if kind in kinds)
    lost = sum(int(n.replace(",", "")) for n in told)
    said = text.count("LEAK SUMMARY") + text.count(_NO_LEAKS)
    return lost, said


def _verdict(subject: str, text: str) -> Answer:
    bytes_lost, said = lost(text)
    evidence = (
        f"{bytes_lost} bytes lost definitely, indirectly or possibly ({said} reports)"
    )
    return _answer(LEAKS, subject, bytes_lost == 0 if said else None, evidence)


def _leaks(programs: Programs, name: str) -> Answer:
    return _under_valgrind(programs, name, "server_under", subject=name)


def _client_leaks(programs: Programs) -> Answer:
    first = next(model.name for model in models(programs) if model.available)
    return _under_valgrind(programs, first, "client_under", subject="client")


def _under_valgrind(
    programs: Programs, model: str, side: str, *, subject: str
) -> Answer:
    """Hold a conversation with one side under valgrind, which writes a file a process.

    A side that it does not let end in time is killed, and leaves no summary.
    """
    program = shutil.which("valgrind")
    if program is None:
        return _not_asked(subject)
    with tempfile.TemporaryDirectory(prefix="connlab-valgrind-") as folder:
        words = [program, "--leak-check=full", f"--log-file={folder}/%p"]
        try:
            _converse(programs, model, **{side: words})
        except ProgramError as error:
            return _answer(LEAKS, subject, None, str(error))
        return _verdict(subject, "".join(p.read_text() for p in Path(folder).iterdir()))
