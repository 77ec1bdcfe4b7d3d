"""What a failed conversation usually means, and what to look at first."""

from __future__ import annotations

from connlab.judge.judging import Judgement, Verdict

#: conversation -> where the fault usually is
HINTS = {
    "lengths": "TCP is a stream without messages: one recv() may return a part of "
    "what was sent, and one send() may take a part of what it is given. Loop until "
    "all is answered, and answer as many bytes as came.",
    "every byte": "The answer must not depend on what the bytes are: no string "
    "functions (strlen, gets, printf), no waiting for the end of a line.",
    "one connection": "Serve a connection until its client ends it, not for one "
    "message.",
    "byte by byte": "A recv() may return a single byte, or many that were sent one "
    "by one. Answer what came, when it came.",
    "a mebibyte": "send() takes as much as fits into the socket's buffer: keep the "
    "rest and send it when the socket is writable again.",
    "pipelined": "A client may send again before it has read: what came with the "
    "first message must be answered as well.",
    "half-closed": "After shutdown(SHUT_WR) the client still reads: recv() returning "
    "0 ends what comes in; first send what is left, then close.",
    "silent end": "recv() returning 0 is the end of the client: close the connection.",
    "reads late": "The client reads late: what send() does not take has to be kept, "
    "and until it is sent, nothing more should be read from that client.",
    "in a row": "After each client the server must be ready for the next: look at "
    "what is not closed or not waited for.",
    "resets": "A client may vanish: writing to it gives EPIPE with SIGPIPE (ignore "
    "the signal), reading ECONNRESET. Close that connection and go on.",
    "idle neighbour": "A server that reads from one client until it ends leaves all "
    "others waiting. A thread or process each, or poll(), epoll or io_uring, serve "
    "them all.",
    "a hundred": "It serves some, not a hundred: look at the number of its workers, "
    "the backlog of listen() and its limit of descriptors.",
    "slow sender": "While one client sends slowly the others wait: a loop reads until "
    "something is complete, where it should take what is there.",
    "mute reader": "A client that does not read fills its buffers: a blocking send() "
    "to it holds up all others, and keeping all of it takes memory without bound.",
}
_CASES = {
    "sockets closed": "After its clients have gone, sockets or descriptors stay open: "
    "close() on every path, also after errors.",
    "no memory leaked": "Memory is kept of clients that have gone: free what belongs "
    "to a connection when it is closed.",
}
#: CPU per request, over epoll's, beyond which the calls are worth a look
_DEAR = 1.2


def first(verdict: Verdict, judgement: Judgement) -> list[str]:
    """Return what to look at, the most important first; at most three things."""
    found = _faults(verdict) + _limits(verdict) + _costs(verdict, judgement)
    if found:
        return found[:3]
    measured = any(verdict.server in one.ratios for one in judgement.contests)
    cost = ", at no more than 1.2 times the CPU time of epoll" if measured else ""
    return [f"Nothing: it does what it should{cost}."]


def _faults(verdict: Verdict) -> list[str]:
    if not verdict.heard:
        return [
            "It never listened on 127.0.0.1 and the port it was given: does the "
            "command line hand {port} on, and is it the port that bind() gets?"
        ]
    if not any(one.ok for one in verdict.heard):
        return [
            "It listens and answers nobody: does accept() lead to recv() and send()?"
        ]
    said = [f"It ends when it should not: {w}" for w in verdict.wrong if "died" in w]
    # Where the server does not close, all that waits for its end fails as well.
    names = [one.name for one in verdict.failed()]
    names.sort(key=lambda name: name != "silent end")
    said += [HINTS[name] for name in names]
    return said + [
        _CASES[a.question]
        for a in verdict.answers
        if a.holds is False and a.question in _CASES
    ]


def _limits(verdict: Verdict) -> list[str]:
    found = verdict.crowds
    if found is None or found.broke is None or not verdict.concurrent:
        return []
    return [f"It carried {found.carried} clients and not {found.broke}: {found.limit}."]


def _costs(verdict: Verdict, judgement: Judgement) -> list[str]:
    for contest in reversed(judgement.contests):
        ratio = contest.ratios.get(verdict.server, {}).get("cpu")
        if ratio and ratio["lo"] and ratio["lo"] > _DEAR:
            calls = verdict.calls.per_request if verdict.calls else {}
            most = ", ".join(f"{n:g} {name}" for name, n in list(calls.items())[:4])
            return [
                f"A request costs {ratio['value']:.1f} times the CPU time of epoll's"
                + (f"; its system calls per request: {most}." if most else ".")
            ]
    return []
