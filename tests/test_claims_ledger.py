"""What the ledger says of its verdicts, taken together."""

import re

import pandas as pd
import pytest
import study_made as made
import yaml
from conftest import ROOT, shown

from connlab import claims
from connlab.claims import Finding, finding, forest
from connlab.claims.ledger import found
from connlab.claims.published import published
from connlab.schema import project_root
from connlab.study.interval import Interval

HOLDS, IN_PART, NOT, OPEN = finding.VERDICTS
CLAIM = claims.ledger()[0]


@pytest.mark.parametrize(
    ("verdicts", "counts"),
    [
        ([HOLDS], ["1 claim", "1 test", "1 holds"]),
        ([HOLDS, HOLDS, NOT], ["3 claims", "3 tests", "2 hold", "1 does"]),
        ([OPEN, IN_PART, OPEN], ["3 claims", "3 tests", "1 holds", "2 are"]),
    ],
)
def test_the_answer_counts_in_singular_and_plural(verdicts, counts):
    judged = [claims.Judged(CLAIM, Finding(verdict, "made up")) for verdict in verdicts]
    answer = claims.answer(judged)
    assert re.findall(r"\d \w+", answer) == counts
    assert all(verdict.split()[-1].rstrip("s") in answer for verdict in verdicts)


@pytest.mark.parametrize("names", [("W1", "W1b"), ("G6", "G6b")])
def test_a_claim_that_is_tested_again_counts_once(names):
    entries = [LEDGER[name] for name in names]
    judged = [claims.Judged(claim, Finding(HOLDS, "made up")) for claim in entries]
    assert "1 claim of earlier reports to 2 tests" in claims.answer(judged)


def test_what_is_tested_again_has_to_be_there(tmp_path):
    with pytest.raises(ValueError, match="W1b: again: unknown claim 'W1'"):
        judged(tmp_path, LEDGER["W1b"])


K1 = """- id: K1
  source: jones
  says: A poll server answers more requests than a select server.
  conditions: one machine
  here: one machine over loopback
  likeness: medium
  study: response-time
  rule:
    rule: compare
    metric: throughput_rps
    arm: {model: poll, connections: 1000}
    baseline: {model: select, connections: 1000}
    expect: more
"""


OF_TRIALS = K1[K1.index("study:") :]
RATES = """published: gutica-response-time.csv
  rule:
    rule: published_rates
    clients: client
    times: {epol_ms: 0.001}
    by: cleints
"""


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ("likeness:", "likelyness:", "unknown key 'likelyness'; did you mean"),
        ("medium", "middling", "likeness: 'middling'"),
        ("  here: one machine over loopback\n", "", "here is missing"),
        ("one machine\n", "12\n", "conditions: 12"),
        ("response-time", "responce-time", "study 'responce-time'; did you mean"),
        ("study: response-time", "study: [idle, idel]", "study 'idel'; did you mean"),
        ("throughput_rps", "throughput_rp", "metric 'throughput_rp'; did you mean"),
        ("poll, connections", "poll, conections", "factor 'conections'; did you mean"),
        ("study: response-time", "published: jones-mode.csv", "did you mean 'jones-m"),
        ("study: response-time", "published: jones-models.csv", "metric 'throughput_"),
        ("expect: more", "factor: worker", "factor 'worker'; did you mean 'workers'"),
        ("expect: more", "other: modle", "factor 'modle'; did you mean 'model'"),
        (OF_TRIALS, RATES, "column 'client'; did you mean 'clients'"),
        (OF_TRIALS, RATES, "column 'epol_ms'; did you mean 'epoll_ms'"),
        (OF_TRIALS, RATES, "column 'cleints'; did you mean 'clients'"),
        ("study: response-time", "here: here", "want one of study, published"),
        ("  conditions", "  quote: poll wins\n  conditions", "both quote and line"),
        ("  conditions", "  line: 7\n  conditions", "both quote and line"),
        ("says: A poll server", "says: A poll: a server", "stands in quotes"),
        ("- id: K1", "id: K1", "stands in quotes|want a list"),
    ],
)
def test_an_entry_of_the_wrong_form_is_named_with_what_is_wrong(
    tmp_path, right, wrong, said
):
    assert K1.count(right)
    (path := tmp_path / "claims.yml").write_text(K1.replace(right, wrong))
    with pytest.raises(ValueError, match=said) as refused:
        claims.ledger(path)
    assert str(refused.value).startswith("claims.yml: ")


def test_every_entry_of_the_wrong_form_has_a_line(tmp_path):
    (path := tmp_path / "claims.yml").write_text(2 * K1.replace("medium", "middling"))
    with pytest.raises(ValueError, match="K1: likeness") as refused:
        claims.ledger(path)
    assert len(str(refused.value).splitlines()) == 2


def test_a_rule_that_cannot_be_applied_is_named_by_its_claim(tmp_path):
    written(tmp_path)
    for right, wrong in (("expect", "expects"), ("arm: {model: poll, ", "arm: poll #")):
        (path := tmp_path / "claims.yml").write_text(K1.replace(right, wrong))
        with pytest.raises(claims.rules.RuleError, match="claim K1: rule compare: "):
            claims.judge_all("made", root=tmp_path, path=path)


@pytest.mark.parametrize(("low", "high"), [(0.5, 2), (0.5, 68), (0.001, 2)])
def test_the_forest_shows_every_ratio_whole(low, high):
    effect = Interval((low * high) ** 0.5, low, high, 4, 0.95, "t")
    rows = forest.rows({CLAIM.id: Finding(HOLDS, "made up", effect)})
    (axes,) = forest.draw(rows).axes
    left, right = axes.get_xlim()
    assert left < low < high < right
    line = axes.lines[0].get_xdata()
    assert (min(line), max(line)) == (low, high)
    assert [text.get_text() for text in axes.get_legend().get_texts()] == [HOLDS]
    assert [1, 1] in [list(drawn.get_xdata()) for drawn in axes.lines]


# ---- the ledger ----------------------------------------------------------------

LEDGER = {claim.id: claim for claim in claims.ledger()}


def parts_of(claim):
    return LEDGER[claim].rule["parts"]


def test_the_ledger_quotes_the_published_rates_of_the_guestbook():
    rates = published("hussain-throughput.csv").set_index("concurrency")

    def quoted(claim):
        return re.findall(r"\bpre\w+|epoll|\d+", LEDGER[claim].number)

    numbers = ["20", "1000"]
    for server in ("preforked", "prethreaded", "epoll"):
        numbers += [server, *map(str, rates.loc[[20, 1000], server])]
    numbers += [
        str(rates.loc[20:1000, n].astype(int).max()) for n in numbers if n.isalpha()
    ]
    assert quoted("H1") == numbers
    preforked = rates.loc[[1000, 2500, 3000, 5000, 8000], "preforked"]
    assert quoted("H5") == [str(x) for item in preforked.items() for x in item]


def test_the_ledger_has_the_least_and_the_most_of_the_means_over_buckets():
    tests = published("mao-buckets.csv").groupby(["model", "buckets"])["value"]
    thread, pool = (tests.mean()[model] for model in ("thread_per_request", "pool"))
    means = [f"{f(side):.1f}" for side in (thread, pool) for f in (min, max)]
    assert re.findall(r"\d+\.\d+", LEDGER["M4"].number) == means


def test_rereadings_of_threads_and_epoll_have_the_published_times():
    times = published("gutica-response-time.csv").set_index("clients")
    path = project_root() / "paper" / "rereadings.yml"
    number = next(e.number for e in claims.ledger(path) if e.id == "R2")
    for clients, servers in (
        (1000, ("select", "multithreading", "epoll")),
        (10000, ("multithreading", "epoll")),
    ):
        for server in servers:
            ms = float(times.loc[clients, f"{server}_ms"])
            assert f"{ms:.3f}" in number


def test_passing_the_level_before_is_no_evidence_of_stopping_there():
    rows = pd.DataFrame({"connections": [1000, 2000], "surviving": [1000, 2000]})
    trials = rows.assign(model="thread-pair", failure=None)
    assert claims.apply(trials, LEDGER["W2"].rule).verdict == NOT


def test_stability_is_judged_of_the_pool_whose_rate_is():
    assert LEDGER["M6"].rule["arm"] == LEDGER["M5"].rule["arm"]


def test_contributing_shows_a_claim_as_it_is():
    assert f"{shown('yaml', 'id: L4')}\n" in (ROOT / "paper/claims.yml").read_text()


def test_the_head_of_the_ledger_names_every_field():
    head = (ROOT / "paper" / "claims.yml").read_text().partition("\n- id")[0]
    assert set(claims.Claim.model_fields) <= set(re.findall(r"\w+", head))


# ---- claims of several studies ---------------------------------------------------


def arm(study, model):
    return {"study": study, "model": model}


def faster_than(model):
    sides = {"arm": arm("response-time", "epoll")}
    sides |= {"baseline": arm("response-time", model)}
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
    """Return trials of a study: rates, costs, memory, and surviving connections."""
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
        client["connections"]["surviving"] = min(n, (most or {}).get(model, n))
        t["gates"], t["label"] = {}, "server-bound"
        t["study"] = name
        trials.append(t)
    return trials


def written(tmp_path, *, better="epoll"):
    models, most = ("thread", "select", "epoll"), {"select": 1000, "thread": 2000}
    first = study("response-time", models, (1000,), better=better)
    made.write(tmp_path, first, study="response-time")
    second = study("breaking-points", models, (1000, 2000, 5000), most=most)
    made.write(tmp_path, second, study="breaking-points")


def judged(tmp_path, *claims_):
    path = tmp_path / "claims.yml"
    rows = [claim.model_dump(mode="json") for claim in claims_]
    path.write_text(yaml.safe_dump(rows, sort_keys=False))
    return claims.judge_all("made", root=tmp_path, path=path)


@pytest.mark.parametrize(
    ("better", "verdict", "parts"), [("epoll", HOLDS, 3), ("thread", IN_PART, 1)]
)
def test_a_claim_may_take_the_trials_of_two_studies(tmp_path, better, verdict, parts):
    written(tmp_path, better=better)
    (claim,) = judged(tmp_path, SEVERAL)
    assert claim.finding.verdict == verdict
    assert claim.finding.why.startswith(f"{parts} of 3 ")


def test_a_claim_takes_the_trials_that_its_study_took(tmp_path):
    written(tmp_path)
    models = ("thread", "select", "epoll")
    trials = study("response-time", models, (1000,), better="epoll")
    others = study("response-time", models, (1000,), better="thread")
    for trial in others:
        trial["factors"]["size"] = 4096
        trial["key"] += "-4096"
    made.write(tmp_path, trials + others, study="response-time")
    settings = {"settings": [{"size": 15}]}
    made.write(tmp_path, [settings], study="response-time", file="results.json")
    (claim,) = judged(tmp_path, SEVERAL)
    assert claim.finding.verdict == HOLDS


def test_without_one_of_its_studies_a_claim_is_judged_by_the_other(tmp_path):
    written(tmp_path)
    (tmp_path / "made" / "breaking-points" / "trials.jsonl").unlink()
    (claim,) = judged(tmp_path, SEVERAL)
    assert claim.finding.verdict == IN_PART
    assert "breaking-points)" in claim.finding.why
    (tmp_path / "made" / "response-time" / "trials.jsonl").unlink()
    (claim,) = judged(tmp_path, SEVERAL)
    assert claim.finding.verdict == OPEN


def test_a_study_of_two_environments_is_not_said_not_to_have_been_run(tmp_path):
    trials = study("response-time", ("epoll",), (1000,), better="epoll")
    trials[0]["environment"] = "another"
    made.write(tmp_path, trials, study="response-time")
    (claim,) = judged(tmp_path, SEVERAL)
    assert claim.finding.verdict == OPEN
    reasons = set(claim.finding.why.split("; "))
    assert "study response-time cannot be read" in reasons
    assert "study breaking-points was not run" in reasons


def test_a_claim_about_a_published_table_needs_no_study(tmp_path):
    entries = claims.ledger(project_root() / "paper" / "rereadings.yml")
    (claim,) = judged(tmp_path, next(entry for entry in entries if entry.published))
    assert claim.finding.verdict != OPEN
    assert "published cells" in claim.finding.why


@pytest.mark.parametrize(
    ("answers", "verdict"), [([True, True], HOLDS), ([True, True, None], IN_PART)]
)
def test_cases_without_an_answer_keep_t6_from_holding_whole(tmp_path, answers, verdict):
    subjects = ["a", *"abc"[: len(answers)]]  # one was asked again
    asked = zip(subjects, [False, *answers], strict=True)
    rows = [{"subject": s, "holds": holds, "question": "leaks"} for s, holds in asked]
    made.write(tmp_path, rows, study="cases", file="cases.jsonl")
    (claim,) = judged(tmp_path, LEDGER["T6"])
    assert claim.finding.verdict == verdict


def test_an_effect_is_printed_with_its_cells_and_with_what_stands_for_the_claimed():
    claim = CLAIM.model_copy(update={"instead": ""})
    ratio = Interval(2, 1.8, 2.2, 9, 0.95, "t")
    told = claim.model_copy(update={"instead": "poll in place of select"})
    shown = Finding("holds", "why", ratio, of="poll against epoll")
    text = "×\u202f2.0 [1.8, 2.2] (poll against epoll"
    assert found(claim, shown) == f"{text})"
    assert found(told, shown) == f"{text}; poll in place of select)"
    counted = Finding("holds", "why")
    assert found(told, counted) == "(poll in place of select)"
    assert found(claim, counted) == ""


def test_what_stands_for_select_is_named_by_the_claims_about_it():
    for name in ("T3", "T4"):
        assert "poll in place of select" in LEDGER[name].instead


def test_select_is_compared_with_both_of_its_counterparts():
    pairs = [(p["arm"]["model"], p["baseline"]["model"]) for p in parts_of("T5")]
    assert {("select", "thread"), ("select", "epoll")} < set(pairs)


def test_a_listener_for_each_worker_is_compared_with_one_that_all_wait_on():
    """With one epoll for all, as in epoll-pool, each event is shared out."""
    assert {p["baseline"]["model"] for p in parts_of("L11")} == {"epoll-shared"}


def test_servers_that_echoed_are_judged_by_echoes():
    """A request that computes for 50 µs hides what waiting costs."""
    for name in ("T3", "T4"):
        assert {part["arm"]["work"] for part in parts_of(name)} == {"echo"}
