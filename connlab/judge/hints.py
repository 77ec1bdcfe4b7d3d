"""What a failed conversation usually means, and what to look at first."""

import re
from pathlib import Path

import yaml

from connlab.judge.judging import Judgement, Verdict

#: what a failed conversation, or case, usually means
MEANS = yaml.safe_load(Path(__file__).with_name("hints.yaml").read_text("utf-8"))
#: CPU per request, over epoll's, beyond which the calls are worth a look
_DEAR = 1.2
#: in a failure: some bytes came
_ANSWERED = re.compile(r"from byte|more came|[1-9]\d* (bytes )?came")
#: the connection ended before all had come
_EARLY = re.compile("then nothing more|then a reset|reset by peer|Broken pipe")


def first(verdict: Verdict, judgement: Judgement) -> list[str]:
    """Return what to look at, the most important first; at most three things."""
    advice = _faults(verdict) + _limits(verdict) + _costs(verdict, judgement)
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
        never = "It never listened on 127.0.0.1 and the port it was given"
        if not any("nothing listens" in wrong for wrong in verdict.wrong):
            return [f"{never}: it ended first, as said above."]
        return [
            f"{never}: does the command line hand {{port}} on, and does bind() get it, "
            "by htons(), and an IPv4 address, 127.0.0.1 or 0.0.0.0?"
        ]
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
    return advice + [MEANS["cases"][q] for q in questions if q in MEANS["cases"]]


def _causes(verdict: Verdict, died: list[str]) -> list[str]:
    """Return the conversations whose meaning is told, the likeliest cause first.

    Without an end, all that wait for one fail; with an early one, all that go on; where
    one client waits for another, all that need two. A death tells more than what was
    talked of, unless clients had vanished.
    """
    failed = {heard.name: heard for heard in verdict.failed()}
    ends_early = _EARLY.search(getattr(failed.get("one connection"), "failure", ""))
    causes = []
    for name, heard in failed.items():
        if "did not close" in heard.failure:
            causes.append("silent end")
        elif ends_early and _EARLY.search(heard.failure):
            causes.insert(0, "one connection")
        elif "idle neighbour" in causes:
            continue
        elif name == "resets" or not any(heard.about in wrong for wrong in died):
            causes.append(name)
    causes.sort(key=lambda name: name not in ("silent end", "every byte"))
    return list(dict.fromkeys(causes))


def _limits(verdict: Verdict) -> list[str]:
    crowds = verdict.crowds
    if crowds is None or crowds.broke is None or not verdict.concurrent:
        return []
    return [
        f"It carried {crowds.carried} clients and not {crowds.broke}: {crowds.limit}."
    ]


def _costs(verdict: Verdict, judgement: Judgement) -> list[str]:
    for contest in reversed(judgement.contests):
        ratio = contest.ratios.get(verdict.server, {}).get("cpu")
        if ratio and ratio["lo"] and ratio["lo"] > _DEAR:
            text = f"A request costs {ratio['value']:.1f} times the CPU time of epoll"
            calls = verdict.calls.per_request if verdict.calls else {}
            frequent = ", ".join(f"{n:g} {name}" for name, n in list(calls.items())[:4])
            if frequent:
                text += f"; its system calls per request: {frequent}"
            return [f"{text}."]
    return []
