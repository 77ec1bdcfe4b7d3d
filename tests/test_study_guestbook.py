"""Study 04: pages per second from made-up trials, and what there is without Redis."""

from __future__ import annotations

import json
import shutil

import notebook_rules as rules
import pytest
import study_made as made

from connlab import schema
from connlab.drive import plan as grid
from connlab.study import claims, frames, look
from connlab.study import guestbook as gb
from connlab.study.rules import apply

NOTEBOOK = rules.ROOT / "notebooks" / "04-guestbook.ipynb"

MODELS = [
    schema.Model(name=name, family=family, label=label, holds=holds, concurrent=many)
    for name, family, label, holds, many in [
        ("iterative", "blocking", "one client at a time", "one", False),
        ("prethread", "threads", "prestarted threads", "workers", True),
        ("poll", "readiness", "poll", "descriptors", True),
        ("epoll", "readiness", "epoll, level-triggered", "descriptors", True),
    ]
]
PLAN = gb.Plan(MODELS, (20, 300, 2500), (20,))

RATE = {"iterative": 8000.0, "prethread": 9000.0, "poll": 10_000.0, "epoll": 10_000.0}
SCAN_S = 20e-9


def rate(cell: dict) -> float:
    """Return what the made-up server does: poll pays for its list, epoll does not."""
    model, kept = cell["model"], cell["requests_per_connection"] == 0
    found = RATE[model] * (2 if kept else 1)
    return found / (1 + cell["connections"] / 400) if model == "poll" else found


def trial(cell: dict, block: int, order: int, *, cv: float) -> dict:
    made_up = made.trial(
        cell["model"],
        cell["connections"],
        block=block,
        order=order,
        capacity=rate(cell),
        alone=1e-6,
        cv=cv,
    )
    row = next(m for m in MODELS if m.name == cell["model"])
    made_up |= {"key": f"{block}/{order}", "study": gb.STUDY, "factors": cell}
    made_up["server"]["model"] = row.model_dump()
    samples = made_up["server"]["samples"]
    throughput = made_up["client"]["window"]["throughput_rps"]
    each = 30e-6 + (SCAN_S * cell["connections"] if cell["model"] == "poll" else 0)
    samples |= {"cpu_user_s": 0.0, "cpu_system_s": throughput * each}
    samples |= {"companion_cpu_s": throughput * 10e-6}
    return made_up


def write(tmp_path, *, plan=PLAN, blocks=5, cv=0.01, keep=lambda cell: True):
    fixed = {"workload": "http", "path": "/guestbook", "remarks": 100}
    cells = grid.cells(plan.grids(), fixed, duration=0.5, warmup=0.1)
    lines = [
        trial(cell, block, order, cv=cv)
        for block in range(blocks)
        for order, cell in enumerate(filter(keep, cells))
    ]
    made.write(tmp_path, lines, study=gb.STUDY)


def run(tmp_path, **options):
    write(tmp_path, **options)
    return gb.begin("made", root=tmp_path)


# ---- the plan ------------------------------------------------------------------


def test_the_grids_are_cells_that_the_driver_takes():
    cells = grid.cells(PLAN.grids(), {"workload": "http"}, duration=1, warmup=0)
    assert len(cells) == 4 * 3 + 3
    workers = {c["connections"]: c["workers"] for c in cells if "workers" in c}
    assert workers == {20: 20, 300: 300, 2500: 2500}
    assert {c["model"] for c in cells if "workers" in c} == {"prethread"}
    kept = [c["model"] for c in cells if c["requests_per_connection"] == 0]
    assert kept == ["prethread", "poll", "epoll"]


def test_workers_may_be_fixed_and_kept_levels_have_both_ways():
    plan = gb.Plan(MODELS[1:2], (20,), (50,), workers=64)
    cells = grid.cells(plan.grids(), {}, duration=1, warmup=0)
    assert {c["workers"] for c in cells} == {64}
    ways = {(c["connections"], c["requests_per_connection"]) for c in cells}
    assert ways == {(20, 1), (50, 1), (50, 0)}


def test_models_by_name_or_all_that_are_available():
    gone = MODELS[0].model_copy(update={"name": "gone", "available": False})
    every = [*MODELS, gone]
    assert gb.chosen(every, []) == MODELS
    assert [m.name for m in gb.chosen(every, ["epoll", "gone"])] == ["epoll", "gone"]
    (unknown,) = gb.chosen(every, ["epol"])
    assert unknown.name == "epol"


# ---- the published table -------------------------------------------------------


def test_the_published_table_is_read_as_it_is():
    rows = gb.their_table()
    assert set(rows["model"]) == set(gb.THEIR_NAMES.values())
    values = rows.set_index(["model", "connections"])["value"]
    assert values["poll", 2500] == 490
    gaps = rows[rows["value"].isna()]
    assert set(gaps["reason"]) == {"wide variations"}
    assert ("poll", 3000) in set(zip(gaps["model"], gaps["connections"], strict=True))


def test_littles_law_finds_what_held_up_the_iterative_server():
    said = gb.reread()
    assert "2\u202f250 pages a second" in said
    assert "8.9 ms at most" in said
    assert "112 a second at least; theirs made 7" in said


# ---- figures, tables, sentences ------------------------------------------------


def test_everything_ends_in_results(tmp_path):
    frame, results = run(tmp_path)
    found = gb.compare(frame, baseline=gb.baseline(frame, "epoll"))
    gb.words(results, frame, found)
    gb.throughput(results, frame)
    gb.as_published(results, frame)
    gb.cost(results, frame)
    gb.keeping(results, frame, gb.ways(frame))
    gb.table(results, frame)
    gb.against(results, frame, found)
    results.answer = gb.answer(frame, found)
    said = json.loads(results.write().read_text())
    assert [f["id"] for f in said["figures"]] == [
        "fig-guestbook",
        "fig-guestbook-published",
        "fig-guestbook-cpu",
        "fig-guestbook-keeping",
    ]
    assert [t["id"] for t in said["tables"]] == [
        "tbl-guestbook",
        "tbl-guestbook-ratios",
    ]
    assert said["words"]["poll_epoll_2500"]["word"] == "slower than"
    assert said["values"]["epoll_rps_20"]["n"] == 5
    assert "100 remarks on a page" in said["figures"][0]["caption"]


def test_the_answer_is_yes_where_servers_differ(tmp_path):
    frame, _ = run(tmp_path, cv=0.005)
    found = gb.compare(frame, baseline="epoll")
    said = gb.answer(frame, found)
    assert said.startswith("Yes: with 2\u202f500 clients throughput runs from")
    assert "of 9 comparisons with epoll, level-triggered 9 came out different" in said


def test_the_answer_is_undecided_in_noise_and_silent_without_a_pair(tmp_path):
    frame, _ = run(tmp_path, cv=0.5)
    assert gb.answer(frame, gb.compare(frame, baseline="epoll")).startswith("Undecided")
    assert gb.answer(frame, []).startswith("This run cannot say")


def test_who_falls_and_who_does_not(tmp_path):
    frame, _ = run(tmp_path, cv=0.005)
    said = gb.falls(frame)
    assert "poll with 2\u202f500 of them serves 0.14" in said
    assert "epoll" not in said
    flat, _ = run(tmp_path / "flat", cv=0.005, keep=lambda c: c["model"] != "poll")
    assert gb.falls(flat).startswith("No server is shown to fall")


def test_the_scan_shows_in_the_cost_of_poll_alone(tmp_path):
    frame, _ = run(tmp_path, cv=0.002)
    said = gb.scan(frame)
    assert said.startswith("poll with 2\u202f500 clients takes 2.6")
    assert "epoll, level-triggered with 2\u202f500 clients takes 1 [1, 1]" in said


def test_redis_takes_its_share(tmp_path):
    frame, _ = run(tmp_path)
    assert gb.redis(frame).startswith("Redis takes 10 µs [10, 10]")
    unseen = frame.assign(companion_cpu_s=float("nan"))
    assert gb.redis(unseen) == "What Redis takes was not seen."


def test_ratios_stand_beside_the_published_ones(tmp_path):
    frame, results = run(tmp_path)
    table = gb.against(results, frame, gb.compare(frame, baseline="epoll"))
    rows = {(row[0], row[1]): row[2:] for row in table.rows}
    assert rows["poll", "2\u202f500"][0] == "0.22"
    assert rows["one client at a time", "2\u202f500"][0] == "—"
    assert rows["poll", "2\u202f500"][2] == "slower than"


def test_kept_connections_are_compared_where_both_ways_were_measured(tmp_path):
    frame, results = run(tmp_path)
    found = gb.ways(frame)
    assert {(c.where["model"], c.where["connections"]) for c in found} == {
        ("prethread", 20),
        ("poll", 20),
        ("epoll", 20),
    }
    assert all(c.word == "faster than" for c in found)
    one = frame[frame["way"] == gb.ANEW]
    assert gb.keeping(results, one, gb.ways(one)) is None


def test_many_levels_are_thinned_for_tables(tmp_path):
    plan = gb.Plan(MODELS[3:], tuple(range(20, 120, 10)))
    frame, results = run(tmp_path, plan=plan, blocks=2)
    assert gb.some_levels(frame) == [20, 40, 60, 70, 90, 110]
    assert len(gb.table(results, frame).columns) == 7


def test_no_usable_trial_breaks_nothing(tmp_path):
    frame, results = run(tmp_path)
    frame = frame.assign(ok=False, reason="machine busy")
    found = gb.compare(frame, baseline=gb.baseline(frame, "epoll"))
    assert found == []
    gb.throughput(results, frame)
    gb.table(results, frame)
    gb.against(results, frame, found)
    for say in (gb.best, gb.falls, gb.scan, gb.redis, gb.bottleneck):
        assert say(frame).endswith(".")
    assert gb.answer(frame, found).startswith("This run cannot say")


# ---- without Redis -------------------------------------------------------------


def test_without_redis_the_results_say_so(tmp_path):
    with pytest.warns(frames.RunWarning, match="redis-server is not installed"):
        frame, results = gb.begin(
            "made", reason="redis-server is not installed", root=tmp_path
        )
    found = gb.compare(frame, baseline=gb.baseline(frame, "epoll"))
    gb.words(results, frame, found)
    assert gb.throughput(results, frame) is None
    assert gb.against(results, frame, found) is None
    assert gb.keeping(results, frame, gb.ways(frame)) is None
    said = "Not measured here: redis-server is not installed."
    assert gb.best(frame) == gb.scan(frame) == gb.bottleneck(frame) == said
    results.answer = gb.answer(frame, found)
    written = json.loads(results.write().read_text())
    assert written["answer"] == said
    assert written["notes"] == [said]
    assert written["figures"] == written["tables"] == []


def test_trials_from_before_count_without_redis(tmp_path):
    write(tmp_path)
    frame, _ = gb.begin("made", reason="redis-server is not installed", root=tmp_path)
    assert len(frame) == 75


def test_a_run_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(frames.RunError):
        gb.begin("made", root=tmp_path)


# ---- claims --------------------------------------------------------------------


def test_the_claims_of_this_study_find_their_cells(tmp_path):
    plan = gb.Plan(MODELS, (20, 300, 1000, 2500), (20,))
    frame, _ = run(tmp_path, plan=plan, cv=0.002)
    mine = {c.id: c for c in claims.ledger() if c.study == gb.STUDY}
    assert {"H1", "H2", "H3", "H4", "H5", "H6"} <= set(mine)
    found = {i: apply(frame, c.rule) for i, c in mine.items()}
    assert found["H4"].verdict == "holds"
    assert found["H6"].verdict == "holds"
    assert [p.effect.n for p in found["H6"].parts] == [5] * 4
    assert found["H5"].verdict == "not testable here"
    assert "not measured here: prefork" in found["H5"].why


# ---- the notebook --------------------------------------------------------------


def test_the_notebook_keeps_the_rules():
    wants = {"run", "models", "connections", "kept", "workers", "remarks", "trials"}
    rules.check(NOTEBOOK, question=gb.QUESTION, wants=wants)


@pytest.mark.long
@pytest.mark.serial
@pytest.mark.skipif(
    not rules.BUILT or not shutil.which("redis-server"),
    reason="needs the programs and redis-server",
)
def test_plain_papermill_runs_it(tmp_path):
    said = rules.run(
        NOTEBOOK,
        tmp_path,
        gb.STUDY,
        models="[thread, epoll]",
        connections="[4]",
        kept="[4]",
        trials=2,
        duration=0.1,
    )
    assert said["trials"]["total"] == 2 * 2 * 2
    assert said["answer"]


def test_styles_of_published_models_follow_the_families(tmp_path):
    frame, results = run(tmp_path)
    picture = gb.as_published(results, frame)
    assert "epoll" in picture.alt
    assert look.styles(frame)["epoll"].label == "epoll, level-triggered"
