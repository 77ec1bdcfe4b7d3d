"""What the ledger says of its verdicts, taken together."""

import pandas as pd
import pytest
import study_made as made
import yaml

from connlab import claims
from connlab.claims import Finding
from connlab.claims.published import published

CLAIM = claims.ledger()[0]


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (["holds"], "1 claim of earlier reports 1 holds."),
        (["holds", "holds", "does not hold"], "2 hold and 1 does not hold."),
        (
            ["not testable here", "holds in part", "not testable here"],
            "1 holds in part and 2 are not testable here.",
        ),
    ],
)
def test_the_answer_counts_in_whole_sentences(found, said):
    judged = [claims.Judged(CLAIM, Finding(verdict, "made up")) for verdict in found]
    assert claims.answer(judged).endswith(said)


# ---- the ledger ----------------------------------------------------------------

LEDGER = {claim.id: claim for claim in claims.ledger()}


def test_the_ledger_quotes_the_published_rates_of_the_guestbook():
    table = published("hussain-throughput.csv").set_index("concurrency")
    said = ", ".join(
        f"{name} {table.loc[20, name]} and {table.loc[1000, name]}"
        for name in ("preforked", "prethreaded", "epoll")
    )
    assert LEDGER["H1"].number == f"20 and 1000 clients: {said} requests/s"
    levels = (2500, 3000, 5000, 8000)
    said = ", ".join(f"{n}: {table.loc[n, 'preforked']}" for n in levels)
    most = table.loc[1000, "preforked"]
    assert LEDGER["H5"].number == f"1000 clients {most}, {said} requests/s"


def test_passing_the_level_before_is_no_evidence_of_stopping_there():
    rows = [
        {"model": "thread-pair", "connections": n, "surviving": n, "failure": None}
        for n in (1000, 2000)
    ]
    assert (
        claims.apply(pd.DataFrame(rows), LEDGER["W2"].rule).verdict == "does not hold"
    )


def test_stability_is_asked_of_the_pool_whose_rate_is():
    assert LEDGER["M6"].rule["arm"] == LEDGER["M5"].rule["arm"]


# ---- claims of several studies ---------------------------------------------------


def arm(study, model):
    return {"study": study, "model": model}


def faster_than(other):
    sides = {"arm": arm("response-time", "epoll")}
    sides |= {"baseline": arm("response-time", other)}
    return {"rule": "compare", "metric": "throughput_rps", "expect": "more", **sides}


LIMITS = {"rule": "outlasts", "arm": arm("breaking-points", "epoll")}
LIMITS |= {"baseline": arm("breaking-points", "thread")}
PARTS = [LIMITS, faster_than("thread"), faster_than("select")]
ABOUT = {"source": "tran2014", "conditions": "made up", "here": "made up"}
SEVERAL = claims.Claim(
    id="X1",
    says="Of the three, epoll wins all three comparisons.",
    likeness="low",
    study=("breaking-points", "response-time"),
    rule={"rule": "every", "parts": PARTS},
    **ABOUT,
)


def study(name, models, levels, *, better=None, most=None):
    """Return trials of a study: rates, costs and memory, and who kept how many."""
    trials = []
    for t in made.sweep(models, levels, blocks=6, cv=0.005, alone=1e-9):
        model, n = t["factors"]["model"], t["factors"]["connections"]
        good = 1.0 if model == better else 0.5
        client, samples = t["client"], t["server"]["samples"]
        client["window"]["throughput_rps"] *= good
        samples["cpu_system_s"] = 0.3 / good
        memory = (1 if model == "select" else 3) * (10**6 + 100 * t["block"])
        samples["pss_bytes"] = samples["pss_baseline_bytes"] + memory
        client["response"]["mean_ns"] = 1e6 if model == "thread" else 2e6
        client["response"]["mean_ns"] += 100 * t["block"]
        kept = min(n, (most or {}).get(model, n))
        client["connections"]["surviving"] = kept
        t["gates"], t["label"] = {}, "server-bound"
        t["study"] = name
        trials.append(t)
    return trials


def written(tmp_path, *, better="epoll"):
    """Write a run of two studies."""
    models, most = ("thread", "select", "epoll"), {"select": 1000, "thread": 2000}
    first = study("response-time", models, (1000,), better=better)
    made.write(tmp_path, first, study="response-time")
    second = study("breaking-points", models, (1000, 2000, 5000), most=most)
    made.write(tmp_path, second, study="breaking-points")


def judged(tmp_path, *claims_):
    """Judge some claims of the ledger by the made-up run."""
    path = tmp_path / "claims.yml"
    rows = [claim.model_dump(mode="json") for claim in claims_]
    path.write_text(yaml.safe_dump(rows, sort_keys=False))
    return claims.judge_all("made", root=tmp_path, path=path)


@pytest.mark.parametrize(
    ("better", "verdict", "parts"),
    [("epoll", "holds", 3), ("thread", "holds in part", 1)],
)
def test_a_claim_may_take_the_trials_of_two_studies(tmp_path, better, verdict, parts):
    written(tmp_path, better=better)
    (one,) = judged(tmp_path, SEVERAL)
    assert one.finding.verdict == verdict
    assert one.finding.why.startswith(f"{parts} of 3 ")


def test_without_one_of_its_studies_a_claim_is_judged_by_the_other(tmp_path):
    written(tmp_path)
    (tmp_path / "made" / "breaking-points" / "trials.jsonl").unlink()
    (one,) = judged(tmp_path, SEVERAL)
    assert one.finding.verdict == "holds in part"
    assert "breaking-points)" in one.finding.why
    (tmp_path / "made" / "response-time" / "trials.jsonl").unlink()
    (none,) = judged(tmp_path, SEVERAL)
    assert none.finding.verdict == "not testable here"


def test_cases_that_were_not_asked_keep_t6_from_holding_whole(tmp_path):
    folder = tmp_path / "made" / "cases"
    folder.mkdir(parents=True)
    answers = {"a": True, "b": True}
    for more, verdict in (({}, "holds"), ({"c": None}, "holds in part")):
        rows = [
            {"question": "leaks", "subject": subject, "holds": holds}
            for subject, holds in (answers | more).items()
        ]
        table = pd.DataFrame(rows)
        table.to_json(folder / "cases.jsonl", orient="records", lines=True)
        (one,) = judged(tmp_path, LEDGER["T6"])
        assert one.finding.verdict == verdict
