"""Study 08: workers, balance and fairness, from trials whose truth is known."""

from __future__ import annotations

import json
import warnings

import notebook_rules as rules
import numpy as np
import pytest
import study_made as made

from connlab import schema
from connlab.study import cores as co

NOTEBOOK = rules.ROOT / "notebooks" / "08-cores.ipynb"
LABELS = {"pool": "threads", "epoll-pool": "readiness"}


def run(tmp_path, workers=(1, 2, 4), *, law=None, blocks=6, cv=0.005):
    """Trials of two models whose throughput follows `law(model, workers)`."""
    law = law or (lambda model, n: 50_000.0 * (1 if model == "pool" else min(n, 2)))
    dice = np.random.default_rng(5)
    trials = []
    for block in range(blocks):
        for model, family in LABELS.items():
            for n in workers:
                rate = law(model, n) * (1 + cv * dice.standard_normal())
                trials.append(_trial(model, family, n, 50, block, rate))
            trials.append(_trial(model, family, 4, 0, block, 40_000.0))
    return made.load(tmp_path, trials)


def _trial(model, family, workers, turn, block, rate):
    t = made.trial(model, 32, block=block, order=workers, alone=1e-9, cv=0)
    t["key"] = f"{model}-{workers}-{turn}-{block}"
    t["server"]["model"] = {"name": model, "family": family, "label": model}
    t["factors"] |= {"workers": workers, "requests_per_connection": turn}
    t["client"]["window"]["throughput_rps"] = rate
    share = [2.0 if model == "epoll-pool" else 1.0] + [1.0] * (workers - 1)
    t["server"]["stats"]["requests_per_worker"] = [int(1000 * s) for s in share]
    unfair = model == "pool" and turn == 0
    t["client"]["fairness"] = {
        "jain": (0.125 if unfair else 0.99) * (1 - 0.001 * block),
        "longest_wait_ns": 10**9 if unfair else 10**6 * (20 + block),
    }
    t["gates"]["little"]["ok"] = not unfair
    return t


def test_workers_that_bring_more_are_told_from_those_that_do_not(tmp_path):
    frame = run(tmp_path)
    found = {(o.where["model"], o.arm): o for o in co.growth(frame)}
    assert found["epoll-pool", "4"].word == "faster than"
    assert found["epoll-pool", "4"].comparison.ratio.value == pytest.approx(2, 0.02)
    assert found["pool", "4"].word == "indistinguishable from"
    said = co.answer(frame, list(found.values()))
    assert said.startswith("On 1 core 4 workers in place of 1 bring more throughput")
    assert "neither for pool" in said


def test_one_level_of_workers_answers_nothing(tmp_path):
    frame = run(tmp_path, workers=(2,))
    assert co.growth(frame) == []
    assert co.answer(frame, []).startswith("This run cannot say")


def test_the_busiest_worker_is_put_in_relation_to_the_mean(tmp_path):
    frame = run(tmp_path)
    four = frame[(frame.workers == 4) & (frame.requests_per_connection == 50)]
    share = four.groupby("model")["busiest_worker"].first()
    assert share["pool"] == 1
    assert share["epoll-pool"] == pytest.approx(2 / 1.25)
    assert "pool 1.00 and epoll-pool 1.60" in co.balanced(frame)
    assert "nothing to balance" in co.balanced(run(tmp_path, workers=(1,)))


def test_no_request_has_no_busiest_worker():
    trial = {"server": {"stats": {"requests_per_worker": [0, 0]}}}
    column = next(c for c in schema.COLUMNS if c.name == "busiest_worker")
    assert schema.value_of(column, trial) is None
    assert schema.value_of(column, {}) is None


def test_clients_that_are_left_waiting_are_seen_although_a_gate_flags_them(tmp_path):
    frame = run(tmp_path)
    assert co.stays(frame)["ok"].all()
    assert "pool 0.12 and epoll-pool 0.99" in co.served(frame)
    assert "not measured" in co.served(co.turns(frame))


def test_a_law_is_fitted_from_six_levels_on_only(tmp_path):
    few = run(tmp_path)
    assert co.scaling(None, few) is None
    assert "wants 6 levels of workers; 3 were measured" in co.law(few)

    def law(_model, n):
        return 10_000 * n / (1 + 0.05 * (n - 1) + 0.01 * n * (n - 1))

    many = run(tmp_path, workers=(1, 2, 4, 8, 16, 32), law=law)
    fit = co.fits(many)["pool"]
    assert fit.peak.value == pytest.approx(9.7, rel=0.1)
    assert "pool: throughput peaks at" in co.law(many)
    assert "bottleneck" not in co.law(many)


def bounded(frame, model, *, spare=0):
    """Let the client be the bottleneck of a model at 16 and 32 workers."""
    rows = frame.model.eq(model) & frame.workers.ge(16) & frame.block.ge(spare)
    return frame.assign(
        ok=frame.ok & ~rows,
        gates_failed=frame.gates_failed.mask(rows, "client"),
        label=frame.label.mask(rows, "client-bound"),
    )


def test_a_law_is_fitted_to_what_speaks_and_says_what_is_a_bound(tmp_path):
    every = run(tmp_path, workers=(1, 2, 4, 8, 16, 32))
    many = every[every.model == "epoll-pool"]
    frame = bounded(many, "epoll-pool", spare=1)
    residuals = co.fits(frame)["epoll-pool"].residuals
    assert (residuals["n"] >= 16).sum() == 2 * 6
    said = co.law(frame)
    assert said.count("(the client was the bottleneck at 16 and 32 workers)") == 1
    few = bounded(many, "epoll-pool", spare=4)
    assert "bottleneck" not in co.law(few)


def test_balance_is_drawn_without_a_word_from_pandas(tmp_path):
    """Trials are chosen by marks of their own, not by those of a larger frame."""
    frame = run(tmp_path, blocks=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        picture = co.balance(co.begin(frame, root=tmp_path), frame)
    assert set(picture.data["workers"]) == {2, 4}


def test_tuning_is_weighed_against_architecture(tmp_path):
    tuned = run(tmp_path, law=lambda m, n: 1e4 * n * (1.1 if m == "pool" else 1))
    said = co.weighed(tuned)
    assert "the spread that the number of workers makes is" in said
    assert said.endswith("(sums of squares of the logarithm).")
    assert "not testable" in co.weighed(run(tmp_path, workers=(1,)))


def test_what_is_weighed_by_bounds_or_with_gaps_is_said_to_be(tmp_path):
    tuned = run(
        tmp_path,
        workers=(4, 8, 16, 32),
        law=lambda m, n: 1e4 * n * (1.1 if m == "pool" else 1),
    )
    said = co.weighed(bounded(tuned, "pool"))
    assert said.endswith("; the client was the bottleneck of 2 of 8 cells.")
    gap = tuned[(tuned.model == "pool") | (tuned.workers < 32)]
    gap.attrs = tuned.attrs
    assert "not testable here (1 cell of 8 without" in co.weighed(gap)


def test_models_are_chosen_by_their_workers():
    rows = [("pool", "fixed", True), ("epoll", "none", True), ("new", "fixed", False)]
    models = [
        schema.Model(name=n, family="f", label="", workers=w, available=a)
        for n, w, a in rows
    ]
    assert co.that_suit(models) == ["pool"]


def test_everything_ends_in_results(tmp_path):
    frame = run(tmp_path, workers=(1, 2, 4, 8, 16, 32))
    results = co.begin(frame, root=tmp_path)
    found = co.growth(frame)
    co.throughput(results, frame)
    co.words(results, frame, found)
    co.ratios(results, frame, found)
    co.scaling(results, frame)
    co.balance(results, frame)
    co.table(results, frame)
    co.fairness(results, frame)
    results.answer = co.answer(frame, found)
    said = json.loads(results.write().read_text())
    assert [f["id"] for f in said["figures"]] == [
        "fig-cores",
        "fig-cores-ratios",
        "fig-cores-scaling",
        "fig-cores-balance",
        "fig-cores-fairness",
    ]
    assert said["words"]["epoll_pool_2_1"]["word"] == "faster than"
    assert said["values"]["pool_busiest_4"]["value"] == 1
    assert {"pool_alpha", "pool_beta"} <= set(said["values"])


def test_the_notebook_keeps_the_rules():
    wants = {"models", "workers", "cores", "turn", "crowd"}
    rules.check(NOTEBOOK, question=co.QUESTION, wants=wants)


@pytest.mark.long
@pytest.mark.serial
@pytest.mark.skipif(not rules.BUILT, reason="needs the programs in build")
def test_plain_papermill_runs_it(tmp_path):
    few = {"models": "[epoll-pool, pool]", "workers": "[1, 2]", "connections": 4}
    more = {"crowd": 2, "trials": 2, "duration": 0.1}
    said = rules.run(NOTEBOOK, tmp_path, co.STUDY, **few, **more)
    assert said["trials"]["total"] == 2 * (2 * 2 + 2)
    assert said["answer"]
