"""What a failed conversation usually means, and what to look at first."""

import re
from collections.abc import Mapping
from pathlib import Path

import yaml

from connlab.drive.procfs import Listener
from connlab.judge.conversations import Heard
from connlab.judge.judging import Judgement, Verdict
from connlab.study.formatting import counted

#: what a failed conversation, or case, usually means
MEANS = yaml.safe_load(Path(__file__).with_name("hints.yaml").read_text("utf-8"))
#: CPU per request, over epoll's, beyond which the calls are worth a look
_DEAR = 1.2
#: share of clients that waited to connect, below which the machine may have been full
_WAITING = 0.01
#: in a failure: some bytes came
_ANSWERED = re.compile(r"from byte|more came|[1-9]\d* (bytes )?came")
#: of a server that did not listen in time, the port that it was given, and the time
_UNHEARD = re.compile(r"nothing listens on [\d.]+:(\d+)(?: after (\d+ s))?")
#: of one that did not end either
_UNENDED = "not ready after"
#: the connection ended before all had come
_EARLY = re.compile("then nothing more|then a reset|reset by peer|Broken pipe")

#: what send() says that finds no room, or recv() that finds nothing
_WOULD_BLOCK = re.compile("BlockingIOError|EAGAIN|Resource temporarily unavailable")
#: the first message of a connection was not answered, so it does not lack a loop
_FIRST = re.compile("^sent 1 bytes")
#: conversations in which answers do not fit into a socket's buffer
_MUCH = ("a mebibyte", "reads late")

#: conversations that fail of the same fault where one of these failed
_SAME = {
    "one connection": {"lengths", "every byte"},
    "half-closed": {"reads late"},
    "own answers": {"reads late"},
}
#: conversations that need two clients served at once
_NEED_TWO = {"a hundred", "slow sender", "mute reader"}


def first(verdict: Verdict, judgement: Judgement) -> list[str]:
    """Return what to look at, the most important first; at most three things."""
    advice = _faults(verdict) + _limits(verdict) + _rest(verdict)
    advice += _costs(verdict, judgement)
    if advice:
        return advice[:3]
    text = "Nothing: it does what it should"
    if verdict.lacks:
        text = f"Nothing is wrong; it lacks {'; '.join(verdict.lacks)}"
    if any(verdict.server in contest.ratios for contest in judgement.contests):
        cost = f"more than {_DEAR:g} times the CPU time of epoll"
        text += f", and is not shown to take {cost}"
    return [f"{text}."]


def _faults(verdict: Verdict) -> list[str]:
    if not verdict.heard:
        return [_never_listened(verdict)]
    died = [wrong for wrong in verdict.wrong if "died" in wrong]
    if died and not any(heard.ok for heard in verdict.heard):
        return [
            f"It ends with its first clients: {died[0]}. Serve all of them in a loop, "
            "and end for none."
        ]
    failures = [heard.failure for heard in verdict.failed()]
    all_failed = len(failures) == len(verdict.heard)
    if all_failed and not any(map(_ANSWERED.search, failures)):
        return [
            "It listens and answers nobody: does accept() lead to recv() and send()?"
        ]
    advice = [f"It ends when it should not: {died[0]}"] if died else []
    advice += [MEANS["conversations"][name] for name in _causes(verdict, died)]
    questions = [answer.question for answer in verdict.answers if answer.holds is False]
    advice += [MEANS["cases"][q] for q in questions if q in MEANS["cases"]]
    return advice or [f"It is not correct: {text}." for text in verdict.wrong]


def _never_listened(verdict: Verdict) -> str:
    never = "It never listened on 127.0.0.1 and the port it was given"
    texts = [verdict.printed, *verdict.wrong]
    unheard = next(filter(None, map(_UNHEARD.search, texts)), None)
    if not (unheard or _any_has(verdict.wrong, _UNENDED)):
        return f"{never}: it ended first ({verdict.wrong[0].partition(': ')[2]})."
    if not (unheard and verdict.elsewhere):
        time = unheard[2] if unheard else None
        return (
            f"{never}: does the command line hand {{port}} on, does bind() of a TCP "
            "socket get it, by htons(), and an IPv4 address, 127.0.0.1 or 0.0.0.0, and "
            f"does listen() follow{f', within {time}' if time else ''}?"
        )
    port = int(unheard[1])
    near = (port, _swapped(port))
    places = sorted(verdict.elsewhere, key=lambda place: place.port not in near)
    return f"{never}, {port}: it listens at {_place(places[0], port)}."


def _place(place: Listener, port: int) -> str:
    """Return where a server listens, and what of that is not what was asked for."""
    host = f"[{place.host}]" if ":" in place.host else place.host
    told = [f"{host}:{place.port}"]
    if place.port == _swapped(port) != port:
        told.append(f"which is port {port} with its bytes swapped (htons())")
    elif place.port != port:
        text = "a port of its own, or of the kernel where bind() is missing or fails"
        told.append(text)
    if place.protocol == "udp":
        told.append("for UDP: a TCP socket is SOCK_STREAM, with listen()")
    elif ":" in host:
        told.append("for IPv6: bind() to 127.0.0.1 or 0.0.0.0")
    elif place.port == port:
        told.append("where nobody comes who asks at 127.0.0.1")
    return ", ".join(told)


def _swapped(port: int) -> int:
    return int.from_bytes(port.to_bytes(2, "big"), "little")


def _causes(verdict: Verdict, died: list[str]) -> list[str]:
    """Return the conversations whose meaning is told, in the order of hints.yaml.

    Without an end, all that wait for one fail; with an early one, after a message or so
    many bytes, all that go on; where one client waits for another, all that need two.
    """
    failed = {heard.name: heard for heard in verdict.failed()}
    killing = _killing(failed, died)
    early = {n for n, heard in failed.items() if _EARLY.search(heard.failure)}
    if "one connection" in early and _FIRST.search(failed["one connection"].failure):
        early.clear()
    ends_early = early & {"one connection", "lengths"} - killing
    endless = {n for n, heard in failed.items() if "did not close" in heard.failure}
    stays = bool(endless & {"half-closed", "silent end"})
    cause = _cause_of_all(failed, {heard.name for heard in verdict.heard if heard.ok})
    if cause and cause not in killing and not ends_early:
        return [cause, *["silent end"] * stays]
    causes = {n for n in failed if not _SAME.get(n, set()) & failed.keys()} - killing
    if ends_early:
        causes = causes - early | {"one connection"}
    if stays:
        causes = causes - endless | {"silent end"}
    if "idle neighbour" in causes:
        causes -= _NEED_TWO
    return [name for name in MEANS["conversations"] if name in causes]


def _killing(failed: Mapping[str, Heard], died: list[str]) -> set[str]:
    """Return the conversations of whose failure an end tells more than their meaning.

    That is not so where clients had vanished, unless it dies of those that stay too;
    nor where an answer did not fit: its end does not say that the rest is to be kept.
    """
    killing = {name for name, heard in failed.items() if _any_has(died, heard.about)}
    full = [text for text in died if _WOULD_BLOCK.search(text)]
    kept = (name for name in _MUCH if name in failed)
    killing -= {next((n for n in kept if _any_has(full, failed[n].about)), "")}
    return killing | {"resets"} if "in a row" in killing else killing - {"resets"}


def _any_has(texts: list[str], part: str) -> bool:
    return any(part in text for text in texts)


def _cause_of_all(failed: Mapping[str, Heard], good: set[str]) -> str | None:
    """Return what explains the other failures too: they say nothing more.

    A server that sends more than came answers nothing right; bytes of another client,
    or another place, come in any conversation; and whoever answers 5 000 lines, but not
    every byte, stumbles over bytes.
    """
    texts = [heard.failure for heard in failed.values()]
    if _any_has(texts, "more came back"):
        return "more"
    own = failed.get("own answers")
    mixed = own and "reads late" in good and "from byte" in own.failure
    if mixed or _any_has(texts, "in another order"):
        return "own answers"
    if "every byte" in failed and "pipelined" in good:
        return "every byte"
    return None


def _limits(verdict: Verdict) -> list[str]:
    crowds = verdict.crowds
    if crowds is None or not crowds.levels or not verdict.concurrent:
        return []
    if crowds.broke is not None:
        carried = counted(crowds.carried, "client")
        return [f"It carried {carried} and not {crowds.broke}: {crowds.limit}."]
    waited, clients = max((level.waited, level.clients) for level in crowds.levels)
    if waited < _WAITING * clients:
        return []
    return [
        f"{waited} of {clients} clients waited a second or more to connect: the queue "
        "of listen() was full. Give it more room (SOMAXCONN), or accept() sooner."
    ]


def _rest(verdict: Verdict) -> list[str]:
    if not verdict.restless:
        return []
    return [
        "It is busy though its client is silent: wait in a call that blocks until "
        "there is something to do (accept, recv, poll, epoll_wait), and watch nothing "
        "that is at its end."
    ]


def _costs(verdict: Verdict, judgement: Judgement) -> list[str]:
    for contest in reversed(judgement.contests):
        ratio = contest.ratios.get(verdict.server, {}).get("cpu")
        if ratio and ratio["lo"] and ratio["lo"] > _DEAR:
            text = f"A request costs {ratio['value']:.1f} times the CPU time of epoll"
            calls = verdict.calls.per_request if verdict.calls else {}
            frequent = ", ".join(f"{n:g} {name}" for name, n in list(calls.items())[:4])
            if share := contest.falling.get(verdict.server):
                text += (
                    f", and was still falling, to {share:.2f} times what it was first: "
                    "if it compiles as it runs, judge it with a longer --warm-up"
                )
            elif frequent:
                text += f"; its system calls per request: {frequent}"
            return [f"{text}."]
    return []
