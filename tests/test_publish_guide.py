"""The guide: where designs stand, and findings beside those of the reference."""

import re

import pandas as pd
import publish_made as made
import pytest
import yaml

from connlab.publish import guide
from connlab.study.results import Failed, Results

ENTRY = {
    "situation": "All talk",
    "measured": "CPU time",
    "study": made.STUDY,
    "metric": "server_cpu_per_request_s",
    "by": "model",
    "against": "epoll",
    "levels": {"connections": 10},
    "figure": "all talk",
}


def ratio(model, value, verdict, *, metric="server_cpu_per_request_s", width=1.1):
    lo, hi = value / width, value * width
    pair = {"study": made.STUDY, "connections": 10, "model": model, "against": "epoll"}
    text = f"{value:g} [{lo:.2f}, {hi:.2f}]"
    bounds = {"lo": lo, "hi": hi, "text": text, "p": 0.01, "verdict": verdict}
    return {"metric": metric, **pair, **made.value(value, unit="1", n=8), **bounds}


def written(folder, *rows):
    folder = folder / made.STUDY
    folder.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(rows).to_csv(folder / "ratios.csv", index=False)
    return folder


@pytest.mark.parametrize(
    ("metric", "verdict", "stands"),
    [
        ("server_cpu_per_request_s", "higher", "worse"),
        ("server_cpu_per_request_s", "lower", "better"),
        ("throughput_rps", "higher", "better"),
        ("throughput_rps", "lower", "worse"),
        ("throughput_rps", "alike", "alike"),
        ("throughput_rps", "undetermined", "undetermined"),
    ],
)
def test_a_design_stands_where_its_metric_is_better(metric, verdict, stands):
    row = {"metric": metric, "verdict": verdict, "value": 2.0, "lo": 1.0}
    assert guide.standing(row) == stands
    assert guide.standing(row | {"lo": None}) == guide.FEW
    assert guide.standing(row | {"value": None, "lo": None}) == guide.APART


def test_only_the_levels_of_the_situation_count(tmp_path):
    elsewhere = ratio("poll", 3, "higher") | {"connections": 1000}
    folder = written(tmp_path, ratio("thread", 2, "higher"), elsewhere)
    numbers = guide.report.numbers(folder)
    assert set(guide.ratios(numbers, ENTRY)) == {"thread"}


def test_a_design_of_the_closer_study_is_told_by_it(tmp_path):
    """It has more trials; what it has no interval for stays with the study."""
    models = ("thread", "uring", "poll")
    one = written(tmp_path, *(ratio(model, 2, "higher") for model in models))
    rows = [ratio("uring", 0.8, "lower"), ratio("thread-pair", 3, "higher")]
    rows += [ratio("poll", 3, "undetermined") | {"lo": float("nan")}]
    other = tmp_path / "closer"
    other.mkdir()
    frame = pd.DataFrame(rows).assign(study="closer")
    frame.to_csv(other / "ratios.csv", index=False)
    numbers = {**guide.report.numbers(one), **guide.report.numbers(other)}
    entry, designs = guide.with_ratios({**ENTRY, "closer": "closer"}, numbers, {})
    values = {name: row["value"] for name, row in designs.items()}
    assert values == {"thread": 2, "uring": 0.8, "poll": 2}
    told = "Busy clients of `uring`: from @sec-uring."
    assert told in " ".join(guide.table([(entry, designs)], {}).split())
    alone = guide.ratios(numbers, ENTRY)
    assert alone["uring"]["value"] == 2
    assert "Busy clients" not in guide.table([(ENTRY, alone)], {})


def table(*designs, families=None):
    """Return the table of one situation, without escapes."""
    ratios = {design["model"]: design for design in designs}
    return guide.table([(ENTRY, ratios)], families or {}).replace("\\", "")


def test_a_column_in_which_no_design_stands_is_left_out():
    text = table(ratio("thread", 2, "higher"))
    head, _, row = [line for line in text.splitlines() if line.startswith("|")]
    assert "difference" not in head
    assert "none" in row.split("`thread`")[0]


def test_designs_without_an_interval_and_old_numbers_are_told():
    few = ratio("fork", 9, "undetermined") | {"lo": None}
    none = few | {"value": None, "text": None}
    designs = {"fork": few, "poll": none}
    text = guide.table([({**ENTRY, "stale": True}, designs)], {})
    assert "`fork` | `poll`" in " ".join(text.split())
    assert guide._HEADS[guide.FEW] in text
    assert guide._HEADS[guide.APART] in text
    assert "in another way than the baseline" in text
    alike = guide.table([(ENTRY, {"fork": few})], {})
    assert "as its baseline was" not in alike
    assert guide._HEADS[guide.OPEN] not in text
    assert "Stale" in text
    entry = {**ENTRY, "stale": True, "reference": "B"}
    assert "Stale" not in guide.table([(entry, {"fork": few})], {})


def test_many_designs_of_a_family_share_a_line():
    names = ["poll", "pool", "prethread", "thread", "fork"]
    designs = [ratio(n, 2 + i / 10, "higher") for i, n in enumerate(names)]
    families = dict.fromkeys(["pool", "prethread", "thread", "thread-pair"], "threads")
    text = table(*designs, ratio("thread-pair", 9, "higher"), families=families)
    assert f"`pool`, `prethread`, `thread`: {2.1 / 1.1:.2f} to {2.3 * 1.1:.2f}" in text
    assert "2.2 [" not in text
    assert "`thread-pair`: [9 " in text
    assert "`prethread`: [2.2 " in table(*designs[:3], families=families)


def test_a_ratio_that_the_client_bounds_says_so(tmp_path):
    limited = ratio("uring", 1.2, "higher", metric="throughput_rps")
    folder = written(tmp_path, limited | {"bound": "at least"})
    (row,) = guide.report.numbers(folder).values()
    text = guide.table([(ENTRY, {"uring": row})], {}).replace("\\", "")
    assert "`uring`: [at least 1.2 " in text


def test_designs_that_share_a_line_share_the_side_of_their_bound():
    names = ["poll", "pool", "prethread", "thread", "fork"]
    metric = {"metric": "throughput_rps"}
    designs = [ratio(n, 2 + i / 10, "higher", **metric) for i, n in enumerate(names)]
    designs = [d | {"bound": "at least"} for d in designs]
    free = ratio("thread-pair", 2.2, "higher", **metric) | {"bound": ""}
    families = dict.fromkeys([*names, "thread-pair"], "threads")
    text = table(*designs, free, families=families)
    shown = "`poll`, `pool`, `prethread`, `thread`, `fork`: at least"
    assert f"{shown} {2 / 1.1:.2f}" in text
    assert "`thread-pair`: [2.2 " in text


def test_a_situation_that_was_not_measured_is_in_the_table():
    assert guide.NOT_HERE in table()


def test_what_a_run_does_not_tell_is_told_by_the_first_reference_that_does(tmp_path):
    unsure = ratio("thread", 2, "undetermined") | {"lo": float("nan")}
    rows = {"A": unsure, "B": ratio("thread", 3, "higher")}
    folders = {name: written(tmp_path / name, row) for name, row in rows.items()}
    runs = {name: guide.report.numbers(folder) for name, folder in folders.items()}
    entry, designs = guide.with_ratios(ENTRY, runs["A"], runs)
    assert designs["thread"]["value"] == 3
    assert entry["reference"] == "B"
    assert "From the B run." in guide.table([(entry, designs)], {})
    (row,) = guide._costs([(entry, designs)])
    assert row["situation"] == "all talk (B)"
    entry, _ = guide.with_ratios(ENTRY, runs["B"], runs)
    assert "reference" not in entry
    assert guide.with_ratios(ENTRY, {}, {}) == (ENTRY, {})


def test_rates_are_drawn_as_costs():
    rate = ratio("thread", 0.25, "lower", metric="throughput_rps")
    (row,) = guide._costs([(ENTRY, {"thread": rate})])
    assert row["value"] == 4
    assert row["lo"] < 4 < row["hi"]


@pytest.mark.parametrize(
    ("metric", "told"), [("throughput_rps", "at most"), ("cpu_per_mib_s", "at least")]
)
def test_a_bound_is_not_drawn_as_a_value(tmp_path, metric, told):
    poll = ratio("poll", 0.25, "lower", metric=metric)
    designs = {"thread": ratio("thread", 3, "higher", metric=metric), "poll": poll}
    assert "bottleneck" not in guide.draw([(ENTRY, designs)], [], tmp_path)
    designs["poll"] = poll | {"bound": "at least"}
    source = guide.draw([(ENTRY, designs)], [], tmp_path)
    assert f"the ratio is {told} this for poll (all talk)." in source
    assert f"all talk: poll {told} " in source


@pytest.mark.parametrize("bounds", [{}, {"lo": None, "hi": None}])
def test_a_dot_without_interval_is_told_of(tmp_path, bounds):
    poll = ratio("poll", 2, "higher") | bounds
    designs = {"thread": ratio("thread", 3, "higher"), "poll": poll}
    registry = [{"name": n, "family": "READINESS"} for n in ("thread", "poll")]
    source = guide.draw([(ENTRY, designs)], registry, tmp_path)
    assert ("hollow" in source) is bool(bounds)


@pytest.mark.parametrize(
    ("run", "reference", "agreement"),
    [
        (("higher", 2), ("higher", 3), "agrees"),
        (("higher", 2), ("lower", 0.5), "differs"),
        (("undetermined", 1), ("higher", 3), guide.HERE_OPEN),
        (("higher", 2), ("undetermined", 1), guide.THERE_OPEN),
        (None, ("higher", 2), guide.NOT_HERE),
        (("higher", 2), None, guide.NOT_THERE),
    ],
)
def test_runs_agree_where_their_verdicts_do(run, reference, agreement):
    rows = [r and ratio("thread", r[1], r[0]) for r in (run, reference)]
    assert guide.agreement(*rows) == agreement


def test_numbers_that_are_no_ratios_agree_where_their_intervals_meet():
    rows = [ratio("thread", value, None) for value in (2, 2.1, 9)]
    assert guide.agreement(rows[0], rows[1]) == "agrees"
    assert guide.agreement(rows[0], rows[2]) == "differs"


def test_a_number_without_spread_is_printed_without_bounds():
    row = ratio("thread", 2, None) | {"lo": 2.0, "hi": 2.0, "text": "2 [2, 2]"}
    assert "[2 " not in guide._number(row)
    assert guide._number(row).startswith("[2]")


@pytest.mark.parametrize(
    ("second", "expected"),
    [("2.00", "1.50 to 2.00"), ("1.00 [0.50, 3.00]", "0.50 to 3.00")],
)
def test_ratios_that_share_a_line_may_be_exact(second, expected):
    exact = ratio("a", 1.5, "higher", width=1) | {"text": "1.50"}
    rows = {"a": exact, "b": {"text": second}}
    assert guide._with_ratio(["a", "b"], rows) == f"`a`, `b`: {expected}"


def test_each_finding_stands_beside_the_reference(tmp_path):
    runs = tmp_path / "runs"
    for name, verdict in (("mine", "undetermined"), ("reference", "higher")):
        made.write_run(runs, name=name)
        written(runs / name, ratio("thread", 2, verdict))
    paper = tmp_path / "paper"
    (paper / "sections").mkdir(parents=True)
    (paper / "guide.yml").write_text(yaml.safe_dump([ENTRY]))
    number = (
        '[]{.number of="response-time/server_cpu_per_request_s" model="thread" '
        'against="epoll" connections="10"}'
    )
    (paper / "sections" / "_findings.qmd").write_text(f"1. It pays {number} times.\n")
    run, reference = (made.load(runs, n) for n in ("mine", "reference"))
    guide.write(run, {"B": reference}, paper)
    text = (paper / guide.FOLDER / "beside.qmd").read_text()
    assert guide.HERE_OPEN in text
    assert "2 [1.82, 2.20]" in text.replace("\\", "")
    assert "stale" not in text
    guide.write(run, {"B": reference, "C": reference}, paper)
    three = (paper / guide.FOLDER / "beside.qmd").read_text()
    runs_ = r"this run \(.+\), the B run \(.+\) and the C run \(.+\)\. The "
    assert re.search(f"Each finding in {runs_}", three)
    made.outdate(runs / "mine" / made.STUDY)
    guide.write(made.load(runs, "mine"), {"B": reference}, paper)
    written_ = {p.stem: p.read_text() for p in (paper / guide.FOLDER).glob("*.qmd")}
    assert "(stale)" in written_["beside"]
    assert "*Stale.*" in written_[guide.TABLE]
    assert "all talk (stale): thread 2" in written_[guide.FIGURE]
    guide.write(reference, {}, paper)
    assert not (paper / guide.FOLDER / "beside.qmd").read_text().strip()


def test_a_finding_is_called_by_its_number_in_the_list(tmp_path):
    """Behind one without a number of a run the others were counted down."""
    (tmp_path / "sections").mkdir()
    number = '[]{.number of="s/m" model="a" brief="a thread"}'
    items = ("No number.", f"It pays {number}.", f"It pays {number} again.")
    text = "".join(f"{i}. {item}\n" for i, item in enumerate(items, 1))
    (tmp_path / guide.FINDINGS).write_text(text)
    rows = guide.beside(tmp_path, [{"s/m model=a": {"value": 2}}, {}])
    assert rows == {f"{i} a thread": [{"value": 2}, None] for i in (2, 3)}


def found(*pairs):
    """Return findings by what they are about: rows of the run and of another."""
    rows = [[ratio("thread", v, w, width=1.05) for v, w in pair] for pair in pairs]
    return {str(i): pair for i, pair in enumerate(rows)}


FAR, NEAR = [(2, "higher"), (4, "higher")], [(2, "higher"), (2.05, "higher")]
OTHER, UNSURE = [(2, "higher"), (0.5, "lower")], [(2, "higher"), (1, "undetermined")]
COUNT = [(1059, None), (1059, None)]


@pytest.mark.parametrize(
    ("pairs", "said"),
    [
        ([FAR], "runs of @tbl-findings; its intervals do not overlap."),
        ([FAR, FAR, COUNT], "; its intervals do not overlap."),
        ([FAR, NEAR], "; the intervals of 1 of 2 ratios do not overlap."),
        ([NEAR], ", and its intervals overlap."),
        ([FAR, OTHER], ""),
        ([FAR, UNSURE], ""),
        ([COUNT], ""),
        ([[(2, "higher")]], ""),  # no other run
        ([], ""),
    ],
)
def test_one_direction_of_all_ratios_is_told_and_how_many_sizes_differ(pairs, said):
    text = guide._direction(found(*pairs)).strip()
    assert text.endswith(said)
    assert bool(text) == bool(said)


def test_the_direction_is_told_of_several_runs_and_of_none_that_lacks_a_number():
    three = found([*FAR, (9, "higher")])
    assert "all 3 runs" in guide._direction(three)
    two_meet = found([*NEAR, (9, "higher")])  # and nobody said that the third does not
    assert "its intervals do not all overlap." in guide._direction(two_meet)
    assert ", and its intervals overlap." in guide._direction(found([*NEAR, NEAR[0]]))
    lacking = {"1": [*found(FAR)["0"], None]}
    assert guide._direction(lacking) == guide._direction(three | lacking) == ""


def test_sizes_are_compared_where_the_direction_is_the_same():
    assert guide._times(found(FAR, NEAR, OTHER)) == 2
    assert guide._times(found(OTHER, COUNT)) is None
    assert guide._times(found([(2, "higher"), (2.48, "higher")])) == 1.3  # not "1.2"
    assert guide._times(found([*FAR, (1, "higher")])) == 4  # of the two others


def test_how_far_sizes_differ_is_said_of_those_that_are_compared():
    told = guide.fragments.caption("findings", runs="both", times=1.3, remarks=[])
    assert told.endswith(" one direction in all runs differ by a factor of up to 1.3.")
    none = guide.fragments.caption("findings", runs="both", times=None, remarks=[])
    assert "factor" not in none


def results_with(*failures):
    """Return results of cells that lost trials: factors, how many, why."""
    cells = [Failed(factors=f, n=n, reason=why) for f, n, why in failures]
    return Results.model_construct(failures=cells)


def test_a_design_of_which_no_trial_counts_stands_with_the_worse_and_says_why():
    at = {"connections": 10}
    results_ = results_with(
        ({"model": "prefork", **at}, 6, "errors answered (in 6)"),
        ({"model": "fork", **at}, 2, "errors answered"),
        ({"model": "poll", "connections": 99}, 2, "connections lost"),
        ({"model": "pool", **at}, 5, "machine busy"),
        ({"server": "none", **at}, 5, "connections lost"),
        ({"model": "epoll", **at}, 1, "connections lost"),  # the baseline
    )
    lost = guide.lost(results_, ENTRY)
    assert lost == {"prefork": "errors answered", "fork": "errors answered"}
    assert guide.lost(None, ENTRY) == {}
    designs = {"fork": ratio("fork", 2, "higher")}
    text = guide.table([({**ENTRY, "lost": lost}, designs)], {}).replace("\\", "")
    assert "`prefork`: no trial counts (errors answered)" in text
    assert "`fork`: no trial" not in text


def test_no_design_is_said_to_have_lost_all_trials_where_another_run_has_its_ratio(
    tmp_path,
):
    """Nor one that serves a client at a time, of which no ratio is shown."""
    runs, at = tmp_path / "runs", {"connections": 10}
    for name, models in (("mine", ("pool", "solo")), ("reference", ("fork", "solo"))):
        folder = made.write_run(runs, name=name) / made.STUDY
        failures = [
            {"factors": {"model": model, **at}, "n": 1, "reason": f"died in {name}"}
            for model in models
        ]
        made.edit(folder / "results.json", failures=failures)
        (folder / "ratios.csv").unlink()
    written(runs / "reference", ratio("thread", 2, "higher"))
    rows = [{"name": "solo", "family": guide.ONE_BY_ONE}]
    made.edit(runs / "mine" / "manifest.json", registry={"models": rows})
    paper = tmp_path / "paper"
    (paper / "sections").mkdir(parents=True)
    (paper / "guide.yml").write_text(yaml.safe_dump([ENTRY]))
    run, reference = (made.load(runs, n) for n in ("mine", "reference"))
    guide.write(run, {"B": reference}, paper)
    text = (paper / guide.FOLDER / f"{guide.TABLE}.qmd").read_text()
    assert "`fork`: no trial counts (died in reference)" in text
    assert "pool" not in text
    assert "solo" not in text


def test_a_lost_cell_may_have_levels_that_the_ratio_has_not():
    silent = {**ENTRY, "levels": {"idle": 5000}}
    factors = {"model": "select", "connections": 5100, "active": 100}
    results_ = results_with((factors, 6, "beyond FD_SETSIZE"))
    assert guide.lost(results_, silent) == {"select": "beyond FD_SETSIZE"}
    assert guide.lost(results_, {**silent, "lost": {"active": 200}}) == {}
