"""Study 03: bursts, busy workers, delays and sizes from made-up trials."""

from __future__ import annotations

import json
import re

import notebook_rules as rules
import numpy as np
import pytest
import study_made as made

from connlab import parameters
from connlab.drive import plan as grid
from connlab.study import pools, sizing
from connlab.study.pools_plan import CAP, DELAYS, IN_WORDS, Plan, core_levels
from connlab.study.queueing import finite_source
from connlab.study.rules import apply

NOTEBOOK = rules.ROOT / "notebooks" / "03-pools.ipynb"
PLAN = Plan(cores=(1, 2), sizes=(1, 4, 16, 64, 128, 256), loads=(0.5,))

START_S = 60e-6
COMPUTE_S = 20e-6


def delay_of(text: str) -> tuple[float, float]:
    """Return mean and spread in seconds of a delay as the client is told it."""
    _kind, mean, *spread = text.split(":")
    return float(mean) / 1000, float(spread[0]) / 1000 if spread else 0.0


def throughput(cell: dict, cap: int) -> float:
    """Return what the made-up server does: bursts, steady pools, a queue."""
    mean, spread = delay_of(cell["delay"])
    workers = min(cell.get("workers") or 10**6, cap)
    n = cell["connections"]
    if cell["model"] == "thread":
        return n / (n * START_S + mean + spread)
    if cell.get("requests"):
        return 1 / max(START_S, mean / min(workers, n))
    if cell.get("think"):
        think = delay_of(cell["think"])[0]
        law = finite_source(population=n, think=think, service=mean, servers=workers)
        return law.throughput
    busy = 1 / mean if cell["delay_kind"] == "spin" else 1 / COMPUTE_S
    return min(workers / (mean + COMPUTE_S), busy)


def trial(cell: dict, block: int, order: int, *, cap: int, cv: float) -> dict:
    dice = np.random.default_rng([block, order])
    rate = throughput(cell, cap) * (1 + cv * dice.standard_normal())
    mean, spread = delay_of(cell["delay"])
    made_up = made.trial(cell["model"], cell["connections"], block=block, order=order)
    made_up |= {"key": f"{block}/{order}", "study": pools.STUDY, "label": "unsaturated"}
    made_up["factors"] = cell
    made_up["gates"] = {}
    started = cell.get("workers") or cell["connections"]
    made_up["server"]["stats"]["workers_started"] = min(started, cap)
    made_up["server"]["samples"] |= {"cpu_user_s": 0, "cpu_system_s": rate * COMPUTE_S}
    client = made_up["client"]
    client["delay"] = {"kind": "uniform", "mean_s": mean, "spread_s": spread}
    client["window"]["throughput_rps"] = rate
    client["stop"] = "requests" if cell.get("requests") else "duration"
    client["response"] = made.latency(0.005342, 1000, dice) | {"mean_ns": 5.342e6}
    return made_up


def run(tmp_path, *, plan=PLAN, blocks=5, cv=0.01, cap=10**6, keep=lambda cell: True):
    """Return frame and results of a made-up sweep; `cap` is where pools stop."""
    cells = grid.cells(plan.grids(), {"workload": "work"}, duration=0.5, warmup=0.1)
    lines = [
        trial(cell, block, order, cap=cap, cv=cv)
        for block in range(blocks)
        for order, cell in enumerate(filter(keep, cells))
    ]
    frame = made.load(tmp_path, lines, study=pools.STUDY)
    return pools.begin(frame, plan, root=tmp_path)


# ---- the plan ------------------------------------------------------------------


def test_the_grids_are_cells_that_the_driver_takes():
    cells = grid.cells(PLAN.grids(), {"workload": "work"}, duration=1, warmup=0)
    assert not any("workers" in c for c in cells if c["model"] == "thread")
    assert all(c["workers"] for c in cells if c["model"] == "pool")
    bursts = [c for c in cells if c.get("requests") == 1]
    assert {c["warmup"] for c in bursts} == {0.0}
    assert {c["connections"] for c in bursts if c["model"] == "thread"} == {
        256,
        512,
        768,
        1024,
    }


def test_delays_are_theirs_at_another_scale():
    assert PLAN.delay("small") == "uniform:20:10"
    assert Plan(time_scale=1).delay("large") == "uniform:10500:9500"


def test_wide_moves_the_spread_alone_and_long_the_mean_alone():
    assert DELAYS["wide"][0] == DELAYS["small"][0]
    assert DELAYS["long"][1] == DELAYS["small"][1]
    assert all(spread <= mean for mean, spread in DELAYS.values())
    for name, (mean, spread) in DELAYS.items():
        assert IN_WORDS[name].startswith(f"{mean - spread:g} to {mean + spread:g} s")


def test_think_times_give_the_load_if_nobody_waits():
    think = PLAN.think_ms(0.5)
    offered = PLAN.users / (think + PLAN.service_ms) * PLAN.service_ms
    assert offered / PLAN.workers == pytest.approx(0.5)


def test_cores_double_as_far_as_there_are_any():
    assert core_levels(1) == [1]
    assert core_levels(6) == [1, 2, 4]
    assert core_levels(8) == [1, 2, 4, 8]


def test_every_trial_belongs_to_a_part(tmp_path):
    frame, _ = run(tmp_path, blocks=1)
    assert frame["part"].value_counts().to_dict() == {
        "burst": 23,
        "size": 6,
        "spin": 2,
        "queue": 1,
    }
    assert set(frame.loc[frame["part"] == "burst", "server"]) == {
        "thread per request",
        "pool of 16",
        "pool of 512",
    }


# ---- who was busy --------------------------------------------------------------


def test_little_finds_the_workers_that_a_pool_really_has(tmp_path):
    frame, results = run(tmp_path)
    said = pools.busy(frame, PLAN)
    assert results.values["pool_16_busy"]["value"] == pytest.approx(16, rel=0.03)
    assert results.values["pool_512_busy"]["value"] > 100
    assert results.values["published_pool_busy"]["value"] == pytest.approx(
        15.7, abs=0.1
    )
    assert "a pool of 512 here" in said
    assert "a size is a size" in pools.started(frame)


def test_a_library_that_stops_at_sixteen_is_found_out(tmp_path):
    frame, results = run(tmp_path, cap=CAP)
    assert results.values["pool_512_busy"]["value"] == pytest.approx(16, rel=0.03)
    assert "(16 of 512)" in pools.started(frame)
    assert "does not tell" in pools.mutex(frame, PLAN)
    found = pools.compare(frame, PLAN)
    assert pools.answer(frame, found, PLAN).startswith("Undecided")


def test_the_answer_follows_the_sizes(tmp_path):
    frame, results = run(tmp_path)
    found = pools.compare(frame, PLAN)
    pools.words(results, found)
    assert results.words["pool_16_thread"]["word"] == "slower than"
    said = pools.answer(frame, found, PLAN)
    assert said.startswith("It depends on its size: with 1\u202f024 requests at once")
    sizes = [int(size) for size in re.findall(r"a pool of (\d+) has", said)]
    ratios = {c.arm: c.comparison.ratio.value for c in found}
    best = int(max(ratios, key=ratios.get).split()[-1])
    assert sizes == sorted({min(PLAN.pools), best, max(PLAN.pools)})
    assert said.count("times the throughput of a thread per request") == 1
    assert "it is not the lock" in pools.mutex(frame, PLAN)


def test_without_a_thread_per_request_there_is_no_answer(tmp_path):
    frame, _ = run(tmp_path, keep=lambda c: c["model"] == "pool")
    assert "cannot say" in pools.answer(frame, pools.compare(frame, PLAN), PLAN)


# ---- bursts, delays ------------------------------------------------------------


def test_the_time_of_bursts_is_a_straight_line(tmp_path):
    frame, results = run(tmp_path, cv=0.001)
    said = pools.growth(results, frame, PLAN)
    assert results.values["each"]["value"] == pytest.approx(6.0, rel=0.05)
    assert results.values["each"]["unit"] == "ms"
    assert results.values["rest"]["value"] == pytest.approx(3.0, rel=0.05)
    assert "in their table" in said
    assert pools.straight([1, 1, 2], [1, 1, 2]) is None


def test_what_the_published_bursts_took():
    rows = pools.tests("requests", server=pools.THREAD)
    line = pools.straight(rows["requests"], rows["requests"] / rows["value"])
    assert line.each.value == pytest.approx(5.7e-3, rel=0.02)
    assert 1 < line.rest.value < 3


def test_mean_and_spread_are_told_apart(tmp_path):
    frame, _ = run(tmp_path, cv=0.002)
    moved = {(m.server, m.delay): m for m in pools.moved(frame, PLAN)}
    alone = moved["pool of 16", "wide"]
    assert alone.found.word == "indistinguishable from"
    both = moved["pool of 16", "large"]
    assert both.found.comparison.ratio.value == pytest.approx(2 / 10.5, rel=0.02)
    assert both.expected == pytest.approx(2 / 10.5)
    assert moved["thread per request", "wide"].found.word == "slower than"
    said = pools.spread(list(moved.values()))
    assert "0 to 4 s, the same mean" in said


def test_published_numbers_stand_beside_ours(tmp_path):
    frame, results = run(tmp_path)
    table = pools.reproduced(results, frame, PLAN)
    rows = {row[0]: row[1:] for row in table.rows}
    assert rows["1\u202f024 requests at once"][0] == "126 ± 9"
    assert rows["4 cores"][1] == rows["4 cores"][3] == "—"
    assert rows["2 cores"][1] != "—"
    assert rows["large delays"][2] == "1.485 ± 0.015"


# ---- sizes and the queue -------------------------------------------------------


def test_the_predicted_size_is_put_beside_the_best(tmp_path):
    frame, results = run(tmp_path)
    knee = sizing.knee(frame[frame["part"] == "size"])
    assert (knee.enough, knee.largest, knee.ends) == (128, 256, True)
    assert (knee.nearest, knee.near, knee.half) == (128, True, 16)
    assert knee.predicted.value == pytest.approx(101, rel=0.01)
    assert knee.reached.value == pytest.approx(1, rel=0.02)
    assert knee.halved.value == pytest.approx(16 / 101, rel=0.02)
    assert knee.reached.method.endswith("paired by block")
    said = pools.best(results, frame)
    assert "The pool of 128 is the nearest that was measured" in said
    assert "that reaches 95 % of the highest throughput has 128 workers" in said
    assert results.values["best_reached"]["n"] == 5


def slowed(frame, size, share):
    """Let the steady pools of one size serve this share of what they did."""
    rows = (frame["part"] == "size") & (frame["workers"] == size)
    frame = frame.copy()
    frame.loc[rows, ["throughput_rps", "busy_workers"]] *= share
    return frame


def test_a_predicted_size_that_serves_less_is_said_to(tmp_path):
    frame, results = run(tmp_path)
    said = pools.best(results, slowed(frame, 128, 0.84))
    assert "serves 0.8" in said
    assert "times as much as the best, one of 256 workers" in said
    assert "still growing at 256, the largest" in said
    said = pools.best(
        pools.begin(frame, PLAN, root=tmp_path)[1], slowed(frame, 128, 0.98)
    )
    assert "has 128 workers" in said


def test_a_pool_that_still_grows_settles_nothing(tmp_path):
    frame, results = run(tmp_path, plan=Plan(sizes=(1, 4, 16)))
    assert "still growing at 16" in pools.best(results, frame)
    rule = {"rule": "best_pool", "arm": {"model": "pool", "delay": "fixed:2"}}
    rule["arm"]["delay_kind"] = "sleep"
    found = apply(frame, rule)
    assert found.verdict == "not testable here"
    assert "still growing" in found.why


STEADY = {"model": "pool", "delay": "fixed:2", "delay_kind": "sleep"}
BEST_POOL = {"rule": "best_pool", "arm": STEADY}


@pytest.mark.parametrize(
    ("cost", "verdict", "reached"),
    [
        (1.0, "holds", 1.0),  # 101 predicted, 128 measured
        (4.0, "does not hold", 16 / 101),  # 26 predicted, 16 measured
        (0.2, "does not hold", 1.0),  # 501 predicted, and 128 serve as much
    ],
)
def test_the_rule_of_the_best_pool(tmp_path, cost, verdict, reached):
    frame, _ = run(tmp_path)
    frame["server_cpu_per_request_s"] *= cost
    found = apply(frame, BEST_POOL)
    assert found.verdict == verdict
    assert "predicted" in found.why
    assert found.effect.value == pytest.approx(reached, rel=0.02)


@pytest.mark.parametrize(
    ("share", "verdict"),
    [(0.99, "holds"), (0.84, "does not hold"), (0.95, "not testable here")],
)
def test_the_best_pool_is_judged_by_pools_that_were_measured(tmp_path, share, verdict):
    plan = Plan(sizes=(1, 4, 16, 64, 128, 256, 512))
    frame, _ = run(tmp_path, plan=plan)
    frame = slowed(slowed(frame, 512, 0.97), 128, share)
    found = apply(frame, BEST_POOL)
    assert found.verdict == verdict
    assert found.effect.value == pytest.approx(share, rel=0.02)
    assert "128 workers, against 256, the best pool" in found.why


def test_a_pool_that_serves_less_is_not_the_best_even_while_others_grow(tmp_path):
    frame, _ = run(tmp_path)
    less = apply(slowed(frame, 128, 0.84), BEST_POOL)
    assert less.verdict == "does not hold"
    few = slowed(frame[frame["workers"] <= 128], 128, 1.1)
    most = apply(few, BEST_POOL)
    assert most.verdict == "not testable here"
    assert "still growing at 128" in most.why


def test_a_pool_of_about_the_predicted_size_has_to_be_measured(tmp_path):
    frame, _ = run(tmp_path)
    frame["server_cpu_per_request_s"] *= 0.1
    found = apply(frame, BEST_POOL)
    assert found.verdict == "not testable here"
    assert "no pool of about that size was measured" in found.why


def test_the_rule_of_the_best_pool_says_what_is_missing(tmp_path):
    frame, _ = run(tmp_path)
    for arm in ({"model": "pool", "delay": "fixed:3"}, {"workers": 16}):
        rule = {"rule": "best_pool", "arm": arm}
        assert apply(frame, rule).verdict == "not testable here"


def test_computing_workers_are_as_many_as_cores(tmp_path):
    frame, _ = run(tmp_path)
    said = pools.spinning(frame, PLAN)
    assert "1 core can compute that many" in said
    assert "with 16 workers" in said


def test_the_queue_stands_beside_its_law(tmp_path):
    frame, results = run(tmp_path)
    (row,) = pools.queue(results, frame, PLAN).rows
    assert row[0] == "0.5"
    assert float(row[2]) == pytest.approx(399, abs=1)
    assert row[4] == "5.34"
    assert "every interval holds" in pools.against_law(frame, PLAN)
    slow = frame.assign(response_mean_s=frame["response_mean_s"] * 1.5)
    assert "2.7 ms longer at a load of 0.5" in pools.against_law(slow, PLAN)


# ---- results -------------------------------------------------------------------


def test_everything_ends_in_results(tmp_path):
    frame, results = run(tmp_path)
    pools.rates(results, frame, PLAN)
    pools.requests(results, frame, PLAN)
    pools.delays(results, frame, PLAN)
    pools.sizes(results, frame, PLAN)
    pools.law(results, frame)
    pools.reproduced(results, frame, PLAN)
    pools.queue(results, frame, PLAN)
    results.finding(pools.steadiness(frame, PLAN))
    results.answer = pools.answer(frame, pools.compare(frame, PLAN), PLAN)
    said = json.loads(results.write().read_text())
    assert [f["id"].removeprefix("fig-pools-") for f in said["figures"]] == [
        "rates",
        "requests",
        "delays",
        "sizes",
        "law",
    ]
    assert [t["id"] for t in said["tables"]] == [
        "tbl-pools-reproduced",
        "tbl-pools-queue",
    ]
    assert any("times 0.01" in note for note in said["notes"])
    assert "published: “pool of 512” 7.8" in said["figures"][0]["alt"]


def test_no_usable_trial_breaks_nothing(tmp_path):
    frame, results = run(tmp_path)
    frame = frame.assign(ok=False, reason="machine busy")
    assert pools.delays(results, frame, PLAN) is None
    assert pools.law(results, frame) is None
    pools.rates(results, frame, PLAN)
    pools.requests(results, frame, PLAN)
    pools.sizes(results, frame, PLAN)
    pools.reproduced(results, frame, PLAN)
    pools.queue(results, frame, PLAN)
    for sentence in (
        pools.busy(frame, PLAN),
        pools.mutex(frame, PLAN),
        pools.growth(results, frame, PLAN),
        pools.spread(pools.moved(frame, PLAN)),
        pools.best(results, frame),
        pools.spinning(frame, PLAN),
        pools.against_law(frame, PLAN),
        pools.steadiness(frame, PLAN),
        pools.answer(frame, pools.compare(frame, PLAN), PLAN),
    ):
        assert sentence.endswith(".")


def test_failures_are_written_down(tmp_path):
    frame, _ = run(tmp_path)
    frame.loc[frame["server"] == "pool of 512", ["ok", "reason"]] = [
        False,
        "not steady",
    ]
    results = pools.start(
        frame, number=3, question="?", factors=pools.FACTORS, root=tmp_path
    )
    results.answer = "Nothing."
    said = json.loads(results.write().read_text())
    assert {f["factors"]["server"] for f in said["failures"]} == {"pool of 512"}


# ---- the notebook --------------------------------------------------------------


def test_the_notebook_keeps_the_rules():
    wants = {"run", "time_scale", "at_once", "pools", "delays", "sizes", "trials"}
    rules.check(NOTEBOOK, question=pools.QUESTION, wants=wants)


def test_the_notebooks_parameters_are_those_of_the_plan():
    known = parameters.declared(NOTEBOOK)
    defaults = {name: p.default for name, p in known.items()}
    plan = Plan()
    for name in ("time_scale", "few", "wait_ms"):
        assert defaults[name] == getattr(plan, name)
    for name in ("at_once", "pools", "delays", "buckets", "sizes", "spinning", "loads"):
        assert defaults[name] == list(getattr(plan, name))


@pytest.mark.long
@pytest.mark.serial
@pytest.mark.skipif(not rules.BUILT, reason="needs the programs of build/")
def test_plain_papermill_runs_it(tmp_path):
    said = rules.run(
        NOTEBOOK,
        tmp_path,
        pools.STUDY,
        at_once="[32]",
        few=32,
        pools="[16]",
        delays="[wide]",
        buckets="[32]",
        cores="[1]",
        sizes="[1, 8]",
        spinning="[1]",
        loads="[0.5]",
        trials=2,
        duration=0.1,
    )
    bursts = 2 * (1 + 1 + 1 + 1)  # small, wide, buckets, cores; a thread, a pool
    assert said["trials"]["total"] == 2 * (bursts + 2 + 1 + 1)
    assert said["answer"]
