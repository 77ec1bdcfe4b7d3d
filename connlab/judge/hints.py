"""What a failed conversation usually means, and what to look at first."""

from pathlib import Path

import yaml

from connlab.judge.judging import Judgement, Verdict

#: what a failed conversation, or case, usually means
MEANS = yaml.safe_load(Path(__file__).with_name("hints.yaml").read_text("utf-8"))
#: CPU per request, over epoll's, beyond which the calls are worth a look
_DEAR = 1.2


def first(verdict: Verdict, judgement: Judgement) -> list[str]:
    """Return what to look at, the most important first; at most three things."""
    advice = _faults(verdict) + _limits(verdict) + _costs(verdict, judgement)
    if advice:
        return advice[:3]
    text = "Nothing: it does what it should"
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
            f"{never}: does the command line hand {{port}} on, and is it the port that "
            "bind() gets?"
        ]
    if not any(heard.ok or "from byte" in heard.failure for heard in verdict.heard):
        return [
            "It listens and answers nobody: does accept() lead to recv() and send()?"
        ]
    advice = [f"It ends when it should not: {w}" for w in verdict.wrong if "died" in w]
    # where the server does not close, all that waits for its end fails as well
    names = [heard.name for heard in verdict.failed()]
    names.sort(key=lambda name: name != "silent end")
    advice += [MEANS["conversations"][name] for name in names]
    questions = [answer.question for answer in verdict.answers if answer.holds is False]
    return advice + [MEANS["cases"][q] for q in questions if q in MEANS["cases"]]


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
