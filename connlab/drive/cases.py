"""The 24 test cases of report 001 (Tran & Rees), for every model.

Their table asks six questions of a client and six of each server: are lengths
varied, do the same bytes come back, are there as many answers as requests, do both
sides count them alike, are sockets closed, does memory leak. Their select server
failed three; their leaks of possibly lost memory were "permitted". Here a case
holds or does not, and each answer has the figures that it rests on.

    server under test + our client, over TCP -> both sides' own counts, compared
    the same once more under valgrind        -> its leak summaries, parsed
"""

import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from connlab import schema
from connlab.drive import procfs, servers, trials, turns, untimed
from connlab.drive.host import ProgramError
from connlab.drive.programs import models
from connlab.drive.running import running, settled, visit

FILE = "cases.jsonl"
CONNECTIONS = 4
REQUESTS = 25
SIZES = "1-2000"
ASKS = {"connections": CONNECTIONS, "requests": REQUESTS, "size": SIZES}
LEAKS = "no memory leaked"
CLIENT = "client"
_TABLE = "per-connection"
_WAIT_S = 60
#: of memory that valgrind finds lost
KINDS = ("definitely", "indirectly", "possibly")
_LOST = re.compile(rf"({'|'.join(KINDS)}) lost: ([\d,]+) bytes")
_NO_LEAKS = "no leaks are possible"

#: family and workers of models whose threads each wait in a ring of their own
_RING_WORKERS = ("completion", "fixed")

#: of whom they asked
_SUBJECTS = ("thread", "select", "epoll", CLIENT)
#: what is asked -> their cases, one for each of `_SUBJECTS`
QUESTIONS = {
    "varied lengths": (2, 3, 4, 1),
    "the same bytes": (6, 7, 8, 5),
    "as many answers as requests": (10, 11, 12, 9),
    "requests counted": (14, 15, 16, 13),
    "sockets closed": (17, 18, 19, 20),
    LEAKS: (21, 22, 23, 24),
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
    """The reports of both sides on one run, and what the server left open."""

    client: dict
    server: dict
    per_connection: list[dict]
    log: list[dict]
    open_sockets: int
    open_descriptors: int


def ask_all(
    names: Sequence[str],
    folder: Path,
    *,
    valgrind: bool = True,
    measure: bool = True,
) -> list[dict[str, Any]]:
    """Ask these models (none: all that are available) and the client all questions.

    Servers that connlab did not write are left out, as they count nothing themselves.
    Not asked is what the folder holds an answer to, and nothing with ``measure=False``.
    Each `Answer` becomes a line of ``folder/cases.jsonl``; the newest are returned.
    `valgrind`: also about leaks, which takes a few seconds a model. Raises RuntimeError
    with what a server printed when it does not come up or does not end.
    """
    names = names or [model.name for model in models() if model.available]
    names = [name for name in names if servers.entry_of(name) is None]
    if not names:
        return []
    if measure:
        how = {"valgrind": valgrind and shutil.which("valgrind") is not None}
        subjects = [*zip(names, names, strict=True), (names[0], CLIENT)]
        untimed.measure(
            folder / FILE,
            [{"model": model, "subject": who, **how} for model, who in subjects],
            _lines,
        )
    rows = schema.read_log(folder / FILE).trials
    newest = {(row["subject"], row["question"]): row for row in rows}
    return [row for row in newest.values() if row["subject"] in {*names, CLIENT}]


def _lines(model: schema.Model, asked: Mapping[str, Any]) -> list[dict[str, Any]]:
    subject, side = asked["subject"], "server_under"
    talk = _converse(model.name)
    if subject == CLIENT:
        answers, side = _about_client(talk), "client_under"
    else:
        answers = _about_server(subject, talk)
    leaks = _answer(LEAKS, subject, None, "valgrind was not run")
    if asked["valgrind"]:
        leaks = _under_valgrind(model, side, subject=subject)
    return [asdict(answer) for answer in (*answers, leaks)]


# --- one run ----------------------------------------------------------------


def _converse(
    model: str,
    *,
    server_under: Sequence[str] = (),
    client_under: Sequence[str] = (),
    **factors: Any,
) -> _Conversation:
    server = running(
        model, under=server_under, files=("log",), grace_s=_WAIT_S, **factors
    )
    with server as serving:
        before = procfs.sockets([serving.handle])
        report, ended = visit(serving, ASKS, under=client_under, files=(_TABLE,))
        sockets = settled(lambda: open_sockets(serving.address[1]))
        left = settled(lambda: procfs.sockets([serving.handle]), expected=before)
    if not serving.ended.lines:
        raise ProgramError(f"{model}: no stats line: {trials.ending(serving.ended)}")
    return _Conversation(
        client=report,
        server=serving.ended.lines[-1],
        per_connection=turns.table(ended.files[_TABLE]),
        log=turns.table(serving.ended.files["log"]),
        open_sockets=sockets,
        open_descriptors=max(0, left - before),
    )


def open_sockets(port: int) -> int:
    """Count the server's sockets on `port` that are neither listening nor done."""
    rows = [row for name in ("tcp", "tcp6") for row in procfs.socket_table(name)]
    done = (procfs.TCP_LISTEN, procfs.TCP_TIME_WAIT)
    return sum(local == port and state not in done for _, local, state, _ in rows)


# --- answers ----------------------------------------------------------------


def _answer(question: str, subject: str, holds: bool | None, evidence: str) -> Answer:
    theirs = zip(_SUBJECTS, QUESTIONS[question], strict=True)
    numbers = tuple(number for whose, number in theirs if whose == subject)
    return Answer(question, subject, numbers, holds, evidence)


def _about_server(name: str, talk: _Conversation) -> list[Answer]:
    client, server = talk.client, talk.server
    sent, received = client["bytes"]["sent"], client["bytes"]["received"]
    requests, completed = client["requests"]["sent"], client["requests"]["completed"]
    mismatches = client["errors"]["mismatch"]
    lengths = {(row["bytes_in"], row["requests"]) for row in talk.log}
    at_server = sorted((row["requests"], row["bytes_in"]) for row in talk.log)
    at_client = sorted((r["requests"], r["bytes_out"]) for r in talk.per_connection)
    results = {
        "varied lengths": (
            len(lengths) > 1 and server["bytes_in"] == sent,
            f"messages of {SIZES} bytes: sent {sent}, received {server['bytes_in']}",
        ),
        "the same bytes": (
            mismatches == 0 and sent == received == server["bytes_out"] > 0,
            f"{received} of {sent} bytes came back, {mismatches} differ",
        ),
        "as many answers as requests": (
            requests == completed == CONNECTIONS * REQUESTS,
            f"{completed} answers to {requests} requests",
        ),
        "requests counted": (
            server["requests"] == completed and at_server == at_client,
            f"server {server['requests']}, client {completed}; "
            "connection by connection",
        ),
        "sockets closed": (
            talk.open_sockets == talk.open_descriptors == 0,
            f"left open: sockets {talk.open_sockets}, "
            f"descriptors {talk.open_descriptors}",
        ),
    }
    return [_answer(question, name, *result) for question, result in results.items()]


def _about_client(talk: _Conversation) -> list[Answer]:
    client = talk.client
    counts = [row["requests"] for row in talk.per_connection]
    sizes = {row["bytes_out"] for row in talk.per_connection}
    sent, requests = client["bytes"]["sent"], client["requests"]["sent"]
    results = {
        "varied lengths": (len(sizes) > 1, f"sizes {SIZES}"),
        "the same bytes": (sent > 0, f"bytes sent: {sent}"),
        "as many answers as requests": (requests > 1, f"{requests} requests"),
        "requests counted": (
            sum(counts) == client["requests"]["completed"],
            f"{sum(counts)} over {len(counts)} connections",
        ),
        "sockets closed": (
            talk.open_sockets == 0,
            f"left open: sockets {talk.open_sockets}",
        ),
    }
    return [_answer(question, CLIENT, *result) for question, result in results.items()]


# --- leaks ------------------------------------------------------------------


def lost(text: str, *, kinds: Sequence[str] = KINDS) -> tuple[int, int]:
    """Return the bytes lost in all processes, and how many processes reported."""
    amounts = (n for kind, n in _LOST.findall(text) if kind in kinds)
    reports = text.count("LEAK SUMMARY") + text.count(_NO_LEAKS)
    return sum(int(n.replace(",", "")) for n in amounts), reports


def _verdict(subject: str, text: str, talk: _Conversation) -> Answer:
    """Return what valgrind says of a conversation, nothing of one that was cut short.

    Bytes that are lost are lost, however short it was.
    """
    amount, reports = lost(text)
    kinds = f"{', '.join(KINDS[:-1])} or {KINDS[-1]}"
    evidence = f"bytes lost {kinds}: {amount}; reports: {reports}"
    if cut_short := not is_whole(talk.client):
        answered = talk.client["requests"]["completed"]
        evidence += f"; answered: {answered} of {CONNECTIONS * REQUESTS} requests"
    known = reports and (amount or not cut_short)
    return _answer(LEAKS, subject, amount == 0 if known else None, evidence)


def is_whole(report: Mapping[str, Any]) -> bool:
    """Whether a client got an answer to everything that it was to ask."""
    return report["requests"]["completed"] == CONNECTIONS * REQUESTS


def _under_valgrind(model: schema.Model, side: str, *, subject: str) -> Answer:
    """Converse with one side under valgrind, which writes a file per process.

    A side that does not end in time under it is killed, and leaves no summary. Ring
    servers have one worker: in 3.19 a thread that waits in io_uring_enter keeps
    valgrind's lock, and no other runs.
    """
    rings = (model.family, model.workers) == _RING_WORKERS
    factors = {"workers": 1} if rings else {}
    with tempfile.TemporaryDirectory(prefix="connlab-valgrind-") as folder:
        words = ["valgrind", "--leak-check=full", f"--log-file={folder}/%p"]
        try:
            talk = _converse(model.name, **{side: words}, **factors)
        except ProgramError as error:
            return _answer(LEAKS, subject, None, str(error))
        text = "".join(p.read_text() for p in Path(folder).iterdir())
        return _verdict(subject, text, talk)
