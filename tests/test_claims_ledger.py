"""What the ledger says of its verdicts, taken together."""

from __future__ import annotations

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
        (["holds"], "Of 1 claim of earlier reports 1 holds."),
        (
            ["holds", "holds", "does not hold"],
            "Of 3 claims of earlier reports 2 hold and 1 does not hold.",
        ),
        (
            ["not testable here", "holds in part", "not testable here"],
            "Of 3 claims of earlier reports 1 holds in part and 2 are not testable "
            "here.",
        ),
    ],
)
def test_the_answer_counts_in_whole_sentences(found, said):
    judged = [claims.Judged(CLAIM, Finding(verdict, "made up")) for verdict in found]
    assert claims.answer(judged) == said


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

SEVERAL = claims.Claim.model_validate(
    {
        "id": "X1",
        "source": "tran2014",
        "says": "Of the three, epoll wins all three comparisons.",
        "conditions": "made up",
        "here": "made up",
        "likeness": "low",
        "study": ["breaking-points", "response-time"],
        "rule": {
            "rule": "every",
            "parts": [
                {
                    "rule": "outlasts",
                    "arm": {"study": "breaking-points", "model": "epoll"},
                    "baseline": {"study": "breaking-points", "model": "thread"},
                },
                *(
                    {
                        "rule": "compare",
                        "metric": metric,
                        "arm": {"study": "response-time", "model": "epoll"},
                        "baseline": {"study": "response-time", "model": other},
                        "expect": "more",
                    }
                    for metric in ("throughput_rps",)
                    for other in ("thread", "select")
                ),
            ],
        },
    }
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


def test_a_claim_may_take_the_trials_of_two_studies(tmp_path):
    written(tmp_path)
    (one,) = judged(tmp_path, SEVERAL)
    assert one.finding.why == "3 of 3 parts hold"
    assert one.finding.verdict == "holds"


def test_a_comparison_that_another_server_wins_counts_against_the_claim(tmp_path):
    written(tmp_path, better="thread")
    (one,) = judged(tmp_path, SEVERAL)
    assert one.finding.verdict == "holds in part"
    assert one.finding.why.startswith("1 of 3 parts hold, ")


def test_without_one_of_its_studies_a_claim_is_judged_by_the_other(tmp_path):
    written(tmp_path)
    (tmp_path / "made" / "breaking-points" / "trials.jsonl").unlink()
    (one,) = judged(tmp_path, SEVERAL)
    assert one.finding.verdict == "holds in part"
    assert "(not measured here: breaking-points)" in one.finding.why
    (tmp_path / "made" / "response-time" / "trials.jsonl").unlink()
    (none,) = judged(tmp_path, SEVERAL)
    assert none.finding.why == "study breaking-points and response-time was not run"


def test_cases_that_were_not_asked_keep_t6_from_holding_whole(tmp_path):
    rows = [{"question": "leaks", "subject": m, "holds": True} for m in ("a", "b")]
    folder = tmp_path / "made" / "cases"
    folder.mkdir(parents=True)
    pd.DataFrame(rows).to_json(folder / "cases.jsonl", orient="records", lines=True)
    (one,) = judged(tmp_path, LEDGER["T6"])
    assert (one.finding.verdict, one.finding.why) == ("holds", "2 of 2 hold")
    rows.append({"question": "leaks", "subject": "c", "holds": None})
    pd.DataFrame(rows).to_json(folder / "cases.jsonl", orient="records", lines=True)
    (one,) = judged(tmp_path, LEDGER["T6"])
    assert one.finding.verdict == "holds in part"
    assert one.finding.why == "2 of 2 hold, 1 not asked"
