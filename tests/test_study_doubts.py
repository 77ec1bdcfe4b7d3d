"""Study 09: words that change, drift, and a stall, from made-up trials."""

from __future__ import annotations

import gzip
import json

import notebook_rules as rules
import pytest
import study_made as made

from connlab.study import deciding, doubts, doubts_clients, sensitivity

NOTEBOOK = rules.ROOT / "notebooks" / "09-doubts.ipynb"


def others(tmp_path, trials, **options):
    """Return the subjects of a run that holds these trials."""
    made.write(tmp_path, trials)
    found, notes = doubts.subjects("made", root=tmp_path, **options)
    assert notes == []
    return found


def sweep(**options):
    defaults = {"models": ("thread", "epoll"), "connections": (10, 100), "blocks": 6}
    return made.sweep(**defaults | options)


def test_words_that_rest_on_every_block_stand(tmp_path):
    trials = sweep(capacity={"thread": 500_000.0, "epoll": 1e6}, cv=0.005)
    examined = sensitivity.examine(others(tmp_path, trials))
    assert set(examined["kind"]) == {"same"}
    assert set(examined["way"]) == {
        "median_request",
        "median_trial",
        "without_slowest",
    }
    said = doubts.stands(examined)
    assert said.endswith("No word is reversed.")
    assert said.startswith(f"Of {len(examined)} words")


def slow_block(trials, model, block, factor):
    for t in trials:
        if t["factors"]["model"] == model and t["block"] == block:
            for clock in ("response", "service"):
                for key in list(t["client"][clock]):
                    if key.endswith("_ns"):
                        value = t["client"][clock][key]
                        t["client"][clock][key] = round(value * factor)
    return trials


def test_a_word_that_hangs_on_one_block_changes_without_it(tmp_path):
    trials = slow_block(sweep(cv=0.003), "thread", 2, 1.5)
    (subject,) = others(tmp_path, trials)
    assert sensitivity.slowest_block(subject) == 2
    examined = sensitivity.examine([subject])
    gone = examined[examined["way"] == "without_slowest"]
    assert set(gone["printed"]) == {"undetermined"}
    assert set(gone["word"]) == {"indistinguishable from"}
    assert set(gone["kind"]) == {"stronger"}


def test_the_mean_and_the_median_may_say_the_opposite(tmp_path):
    trials = sweep(cv=0.003, connections=(100,))
    for t in trials:
        if t["factors"]["model"] == "thread":
            t["client"]["response"]["mean_ns"] *= 1.3
            half = t["client"]["response"]["p50_ns"]
            t["client"]["response"]["p50_ns"] = round(0.7 * half)
    examined = sensitivity.examine(others(tmp_path, trials))
    row = examined[examined["way"] == "median_request"].iloc[0]
    assert (row["printed"], row["word"]) == ("slower than", "faster than")
    assert row["kind"] == "reversed"
    assert "Reversed: thread / epoll in response-time" in doubts.stands(examined)


def test_flagged_trials_and_bound_clients_can_be_let_in(tmp_path):
    trials = sweep(cv=0.003, capacity={"thread": 50_000.0}, alone=1e-6)
    for t in trials:
        if t["block"] > 2:
            t["gates"]["quiet"] = {"ok": False, "value": 0.5, "threshold": 0.1}
        t["label"] = "client-bound"
    examined = sensitivity.examine(others(tmp_path, trials))
    ranked = examined[examined["way"] == "ranked"]
    assert set(ranked["printed"]) == {"undetermined"}
    assert set(ranked["word"]) == {"slower than"}
    flagged = examined[examined["way"] == "flagged"]
    assert set(flagged["word"]) == {"undetermined"}, "still not to be ranked"


def test_few_blocks_leave_the_ways_out_that_need_more(tmp_path):
    (subject,) = others(tmp_path, sweep(blocks=2))
    assert sensitivity.without_slowest_block(subject) is None
    assert sensitivity.median_over_trials(subject) is None
    tally = sensitivity.tally(sensitivity.examine([subject])).set_index("way")
    assert tally.loc["median_trial", "n"] == 0


@pytest.mark.parametrize(
    ("was", "now", "kind"),
    [
        ("faster than", "faster than", "same"),
        ("faster than", "undetermined", "weaker"),
        ("undetermined", "slower than", "stronger"),
        ("faster than", "slower than", "reversed"),
        ("dearer than", "cheaper than", "reversed"),
        ("faster than", "indistinguishable from", "other"),
    ],
)
def test_every_way_in_which_a_word_may_change(was, now, kind):
    assert sensitivity.kind(was, now) == kind


def test_drift_is_found_and_its_absence_too(tmp_path):
    trials = sweep(cv=0.002)
    assert not doubts.drifts(others(tmp_path, trials))["response-time"].drifting
    for t in trials:
        t["client"]["window"]["throughput_rps"] *= 1 - 0.05 * t["block"]
    moved = doubts.drifts(others(tmp_path, trials))
    assert moved["response-time"].drifting
    assert moved["response-time"].change.value == pytest.approx(-0.28, abs=0.06)
    assert "Throughput moved over the sweep of response-time" in doubts.steady(moved)


# ---- a stalled server ---------------------------------------------------------


def stalled(tmp_path, *, blocks=4, wait=0.19):
    """Trials in which the clock of the intended send sees `wait`, the other little."""
    trials = []
    for block in range(blocks):
        for order, (rate, stall) in enumerate(
            [(4000, 0), (4000, 200), (None, 0), (None, 200)]
        ):
            t = made.trial("epoll", 10, block=block, order=order, cv=0.01)
            t["study"], t["key"] = doubts.STUDY, f"{rate}-{stall}-{block}"
            t["factors"] |= {"rate": rate, "stall": stall}
            jitter = 1 + 0.001 * (block - 1.5)
            if rate and stall:
                t["client"]["response"]["p99_ns"] = round(wait * jitter * 1e9)
            trials.append(t)
    folder = tmp_path / "made" / doubts.STUDY / "latency"
    folder.mkdir(parents=True, exist_ok=True)
    for t in trials:
        rows = ["lower_ns,upper_ns,count,clock"]
        for clock in ("response", "service"):
            late = 0.19e9 if clock == "response" else 1e6
            rows += [
                f"90000,100000,3900,{clock}",
                f"{late:.0f},{late + 1:.0f},100,{clock}",
            ]
        (folder / f"{t['key']}.csv.gz").write_bytes(
            gzip.compress("\n".join(rows).encode())
        )
    return doubts.with_loop(made.load(tmp_path, trials, study=doubts.STUDY))


def test_the_clock_of_the_actual_send_hides_the_stall(tmp_path):
    frame = stalled(tmp_path)
    share = doubts.seen(frame)
    assert share.hi < 0.05
    assert "of what users wait for" in doubts.omission(frame)
    assert "found again" in doubts.recovered(frame)
    assert "stop asking while they wait" in doubts.politeness(frame)


def test_a_stall_that_is_not_found_again_is_said(tmp_path):
    assert "is off by +32%" in doubts.recovered(stalled(tmp_path, wait=0.25))


def test_without_usable_trials_every_sentence_ends(tmp_path):
    frame = stalled(tmp_path).assign(ok=False)
    frame = frame.astype({"ok": "boolean"})
    assert doubts.seen(frame) is None
    for say in (doubts.omission, doubts.recovered, doubts.politeness):
        assert say(frame).endswith(".")
    empty = sensitivity.examine([])
    assert "could be tested" in doubts.answer(empty, {}, None).replace("No", "no")
    assert doubts.stands(empty).startswith("No other study")


def test_everything_ends_in_results(tmp_path):
    found = others(tmp_path, sweep())
    frame = stalled(tmp_path)
    results = doubts.begin(frame, root=tmp_path)
    examined, moved = sensitivity.examine(found), doubts.drifts(found)
    doubts.sensitivity_tables(results, examined)
    doubts.drift_figure(results, moved)
    doubts.drift_table(results, moved)
    doubts.tails(results, frame, root=tmp_path)
    doubts.table(results, frame)
    doubts.keep(results, doubts.seen(frame))
    results.answer = doubts.answer(examined, moved, doubts.seen(frame))
    said = json.loads(results.write().read_text())
    assert [f["id"] for f in said["figures"]] == ["fig-drift", "fig-stall"]
    assert {t["id"] for t in said["tables"]} == {
        "tbl-sensitivity",
        "tbl-sensitivity-words",
        "tbl-drift",
        "tbl-stall",
    }
    rows = {(r[0], r[1]): r for t in said["tables"] for r in t["rows"]}
    assert rows["open loop, from the intended send", "200"][3] == "190 ms"
    assert rows["open loop, from the actual send", "200"][3] == "—"
    assert {"open_response_p99_200", "seen_by_service_clock"} <= set(said["values"])


def test_a_study_that_cannot_be_read_is_named(tmp_path):
    made.write(tmp_path, sweep())
    broken = tmp_path / "made" / "broken" / "trials.jsonl"
    broken.parent.mkdir()
    broken.write_text("{half a line")
    found, notes = doubts.subjects("made", root=tmp_path)
    assert [s.study for s in found] == ["response-time"]
    assert notes[0].startswith("broken takes no part")


def test_the_notebook_keeps_the_rules():
    wants = {"models", "stall", "rate", "baseline"}
    rules.check(NOTEBOOK, question=doubts.QUESTION, wants=wants)


def test_advice_is_made_of_words(tmp_path):
    most = {"thread": 50_000.0, "epoll": 100_000.0, "poll": 100_000.0}
    trials = sweep(models=tuple(most), capacity=most, cv=0.003, alone=1e-6)
    found = others(tmp_path, trials)
    advice = deciding.table(found)
    first = dict(zip([c.name for c in advice.columns], advice.rows[0], strict=True))
    assert first["when"] == "response-time: connections 10"
    ahead = {first["best"], first["alike"]}
    assert ahead == {"poll", "epoll, level-triggered"}
    assert first["worse"] == "thread per connection (2.00)"
    assert len(advice.rows) == 2


def test_nobody_is_ranked_where_the_client_was_the_limit(tmp_path):
    trials = [t | {"label": "client-bound"} for t in sweep(cv=0.003)]
    advice = deciding.table(others(tmp_path, trials))
    assert {row[5] for row in advice.rows} == {"—"}
    assert {row[3] for row in advice.rows} == {"—"}


def test_without_comparisons_the_table_says_so():
    assert deciding.table([]).notes == ("No study of this run compares models.",)


def test_a_cell_is_named_by_the_factors_that_it_has():
    where = {"connections": 100, "byte_rate": float("nan"), "way": "kept"}
    assert doubts._where(where) == "connections 100, way kept"


# ---- another client -----------------------------------------------------------


def asked_twice(tmp_path, dearer, *, engines=("epoll", "uring")):
    """Trials in which a client on io_uring makes a request `dearer`, by model."""
    trials = []
    for block in range(6):
        t = made.trial("epoll", 10, block=block, cv=0.01)
        t["key"], t["study"] = f"stall-{block}", doubts.STUDY
        t["factors"] |= {"rate": 4000, "stall": 0}
        trials.append(t)
        for model in ("epoll", "uring"):
            for engine in engines:
                t = made.trial(model, 50, block=block, cv=0.0)
                times = dearer[model] if engine == "uring" else 1.0
                cost = {"epoll": 1.0, "uring": 0.9}[model] * times
                samples = t["server"]["samples"]
                for part in ("cpu_user_s", "cpu_system_s"):
                    samples[part] *= cost * (1 + 0.001 * (block - 2.5))
                t["key"] = f"{model}-{engine}-{block}"
                t["factors"] |= {"engine": "auto" if engine == "uring" else engine}
                t["client"]["self"]["engine"] = engine
                t["study"] = doubts.STUDY
                trials.append(t)
    return doubts.with_loop(made.load(tmp_path, trials, study=doubts.STUDY))


def test_a_client_that_waits_otherwise_may_cost_the_server_more(tmp_path):
    frame = asked_twice(tmp_path, {"epoll": 1.0, "uring": 1.2})
    ratios = [one.comparison.ratio.value for one in doubts_clients.costs(frame)]
    assert ratios == [pytest.approx(1.0, abs=0.01), pytest.approx(1.2, abs=0.01)]
    count, other = doubts_clients.changed(frame, baseline="epoll")
    assert count == 1
    assert [one.word for one in other] == ["dearer than"]
    said = doubts_clients.finding(frame, baseline="epoll")
    assert "(epoll, level-triggered, 50 connections)" in said
    assert "Of 1 word between models 1 change" in said


def test_a_word_that_both_clients_say_does_not_change(tmp_path):
    frame = asked_twice(tmp_path, {"epoll": 1.1, "uring": 1.1})
    said = doubts_clients.finding(frame, baseline="epoll")
    assert said.endswith("none changes with the client.")


def test_one_client_has_no_equal(tmp_path):
    frame = asked_twice(tmp_path, {}, engines=("epoll",))
    assert doubts_clients.finding(frame, baseline="epoll") == doubts_clients.NONE
    results = doubts.begin(frame, root=tmp_path)
    assert doubts_clients.table(results, frame).rows == ()


def test_both_clients_stand_side_by_side(tmp_path):
    frame = asked_twice(tmp_path, {"epoll": 1.0, "uring": 1.2})
    results = doubts.begin(frame, root=tmp_path)
    rows = doubts_clients.table(results, frame).rows
    assert [row[0] for row in rows] == ["epoll, level-triggered", "io_uring"]
    assert rows[1][4].startswith("1.2")
    assert "engine (auto and epoll)" in results.varied


def test_a_client_at_its_limit_is_named_without_factors_that_it_lacks(tmp_path):
    frame = asked_twice(tmp_path, {"epoll": 1.0, "uring": 1.2})
    flagged = frame["engine"].eq("auto").fillna(False)
    frame.loc[flagged, ["ok", "gates_failed", "reason"]] = [False, "client", "busy"]
    results = doubts.begin(frame, root=tmp_path)
    assert {"model": "uring", "engine": "auto", "connections": 50}.items() >= (
        results.failures[0]["factors"].items()
    )
    results.answer = "made"
    assert json.loads(results.write().read_text())["failures"]
