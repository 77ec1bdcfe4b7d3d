"""A report: written once, read back by address."""

import json

import pandas as pd
import pytest
import seaborn as sns
import study_made as made
from scipy import stats

from connlab import report as reports
from connlab.intervals import intervals, ratios
from connlab.report import Report, not_measured
from connlab.study.frames import RunError, load

FACTORS = ["model", "connections"]


@pytest.fixture
def trials(tmp_path):
    return made.load(tmp_path, made.sweep(("epoll", "thread"), (10, 100), blocks=5))


@pytest.fixture
def about(tmp_path):
    return {"number": 1, "question": "Q?", "factors": FACTORS, "root": tmp_path}


@pytest.fixture
def report(trials, about):
    report = Report(trials, **about)
    report.answer("So it is.")
    return report


def test_a_printed_number_is_that_of_plain_pandas(trials, report):
    report.cells(intervals(trials, "throughput_rps", FACTORS))
    report.write()
    address = "response-time/throughput_rps connections=100 model=epoll"
    number = reports.numbers(report.folder)[address]
    rows = pd.read_json(report.folder / "trials.jsonl", lines=True)
    rows = pd.json_normalize(rows.to_dict("records"))
    cell = (rows["factors.model"] == "epoll") & (rows["factors.connections"] == 100)
    rates = rows.loc[cell, "client.window.throughput_rps"]
    assert number["n"] == len(rates) == 5
    assert number["value"] == pytest.approx(stats.gmean(rates))
    assert number["unit"] == "requests/s"
    assert number["lo"] < number["value"] < number["hi"]


def test_counts_are_read_back_as_they_were_printed(tmp_path):
    """Beside a cell without a number 5101 was 5101.0, and 0 was none at all."""
    number = {"level": 1.0, "method": "exact", "unit": "count", "n": 1}
    rows = [
        {"model": model, "metric": "broke", "value": value, "text": text} | number
        for model, value, text in (("a", 5101, "5101"), ("b", 0, "0"), ("c", None, ""))
    ]
    bounds = {"lo": [5101, 0, None], "hi": [5101, 0, None]}
    pd.DataFrame(rows).assign(**bounds).to_csv(tmp_path / "cells.csv", index=False)
    read = reports.numbers(tmp_path).values()
    assert [row["text"] for row in read] == ["5101", "0", None]


def test_a_ratio_has_its_baseline_in_its_address(trials, report):
    pairs = ratios(trials, "throughput_rps", baseline="epoll", within=["connections"])
    report.ratios(pairs)
    report.write()
    numbers = reports.numbers(report.folder)
    address = "response-time/throughput_rps against=epoll connections=10 model=thread"
    assert numbers[address]["verdict"] == pairs.iloc[0]["verdict"]
    words = json.loads((report.folder / "results.json").read_text())["words"]
    assert len(words) == 2


def test_a_number_has_one_home(trials, report):
    cells = intervals(trials, "throughput_rps", FACTORS)
    report.cells(cells)
    report.cells(cells.assign(value=2 * cells["value"]))
    with pytest.raises(ValueError, match="twice"):
        report.write()


def test_a_cell_that_is_run_again_replaces_what_it_handed_over(trials, report):
    for word in ("first", "second"):
        report.cells(intervals(trials, "throughput_rps", FACTORS))
        table = pd.DataFrame({"a": [word]})
        report.table("it", table)
        report.table("other", table)
        report.figure("it", sns.relplot(pd.DataFrame({"a": [1]}), x="a", y="a"))
        report.claim("it", word == "second")
        report.finding("So it is.")
        report.note("With care.")
    report.write()
    facts = json.loads((report.folder / "results.json").read_text())
    assert [table["id"] for table in facts["tables"]] == ["tbl-it", "tbl-other"]
    assert [table["rows"] for table in facts["tables"]] == [[["second"]]] * 2
    assert [figure["id"] for figure in facts["figures"]] == ["fig-it"]
    assert facts["claims"]["it"]["holds"] is True
    assert facts["findings"] == ["So it is."]
    assert facts["notes"].count("With care.") == 1
    assert len(reports.numbers(report.folder)) == 4


def test_a_study_without_a_usable_trial_names_the_reason(trials, about):
    none = trials.assign(ok=False, reason="machine busy")
    with pytest.raises(RunError, match="20 trials.*machine busy.*quiet"):
        Report(none, **about)
    one = none.head(1).assign(reason="server died")
    with pytest.raises(RunError, match="1 trial may.*server died$"):
        Report(one, **about)
    said = "client: exit 2: client: --delay 50x: want ..."
    refused = none.head(2).assign(
        reason="client failed", failure=f"client-failed: {said}"
    )
    with pytest.raises(RunError, match=f"2 of them: client failed \\({said}\\)$"):
        Report(refused, **about)


def test_a_report_without_an_answer_is_not_written(report):
    report.answer("")
    with pytest.raises(ValueError, match="answer"):
        report.write()


PAIRS = pd.DataFrame(
    {"metric": "throughput_rps", "value": 1.0, "lo": 0.9, "hi": 1.1, "n": 5}
    | {"level": 0.95, "method": "t"},
    index=range(3),
)


@pytest.mark.parametrize(
    ("verdicts", "expected", "holds"),
    [
        (["higher", "higher", "higher"], "higher", True),
        (["higher", "undetermined", "higher"], "higher", None),
        (["higher", "undetermined", "lower"], "higher", False),
        (["alike", "lower", "lower"], ["alike", "lower"], True),
        (["alike", "lower", "higher"], ["alike", "lower"], False),
    ],
)
def test_a_claim_is_judged_by_all_of_its_rows(report, verdicts, expected, holds):
    claim = report.claim("it", PAIRS.assign(verdict=verdicts), expected)
    assert claim.holds is holds


@pytest.mark.parametrize("expected", ["slower", ["higher", "undetermined"], ()])
def test_a_claim_expects_no_verdict_that_a_ratio_cannot_have(report, expected):
    """It would be printed as contradicted by every run."""
    with pytest.raises(ValueError, match="claim 'it': .*allowed: alike, higher, lower"):
        report.claim("it", PAIRS.assign(verdict="higher"), expected)


def test_names_that_are_no_column_are_refused_with_the_nearest(trials, about):
    with pytest.raises(ValueError, match="factor 'conns'.*runs/README.md"):
        Report(trials, **about | {"factors": ["model", "conns"]})
    with pytest.raises(ValueError, match="'response_p99'; did you mean 'response_p99_"):
        intervals(trials, "response_p99", FACTORS)


def test_a_claim_that_nothing_was_measured_for_is_open(report):
    none = PAIRS.assign(verdict="higher").iloc[:0]
    assert report.claim("it", none, "higher").holds is None
    assert report.claim("other", None).holds is None
    assert report.claim("third", False).holds is False
    claims = json.loads(report.write().read_text())["claims"]
    assert [claim["holds"] for claim in claims.values()] == [None, None, False]


def test_a_figure_is_the_same_file_each_time(trials, report):
    files = []
    for name in ("a", "b"):
        grid = sns.relplot(trials, x="connections", y="throughput_rps", hue="model")
        report.figure(name, grid, trials[["model", "connections"]])
        files.append((report.folder / "figures" / f"{name}.svg").read_bytes())
    assert files[0] == files[1]
    assert (report.folder / "figures" / "a.csv").is_file()


@pytest.mark.parametrize(("factor", "stays"), [(1 + 1e-15, True), (1 + 1e-8, False)])
def test_values_that_differ_in_their_last_digits_only_are_not_written_again(
    trials, report, about, factor, stays
):
    """Another processor may add in another order; a committed run does not change."""
    cells = intervals(trials, "throughput_rps", FACTORS)
    written = []
    for one in (report, Report(trials, **about)):
        one.answer("So it is.")
        one.figure("it", sns.relplot(cells, x="connections", y="value"), cells)
        one.cells(cells)
        one.write()
        names = ("figures/it.csv", reports.CELLS)
        written.append([(one.folder / name).read_bytes() for name in names])
        cells = cells.assign(value=cells["value"] * factor)
    before, after = written
    assert [a == b for a, b in zip(before, after, strict=True)] == [stays, stays]
    assert not list(one.folder.rglob("*.part"))


@pytest.mark.parametrize(
    ("metric", "said"),
    [
        ("throughput_rps", "at least "),
        ("response_p99_s", "at most "),
        ("received_per_s", "at least "),
        ("capacity_rps", "at least "),
        ("busy_workers", "at least "),
    ],
)
def test_what_the_client_limited_is_read_back_as_a_bound(report, metric, said):
    cells = PAIRS.iloc[:2].assign(metric=metric, model=["poll", "epoll"])
    report.cells(cells.assign(bound=[True, False]))
    report.write()
    limited, other = (n["text"] for n in reports.numbers(report.folder).values())
    assert limited == said + other


@pytest.mark.parametrize(
    ("metric", "limited", "said"),
    [
        ("throughput_rps", ["poll"], "at least "),
        ("throughput_rps", ["epoll"], "at most "),
        ("throughput_rps", ["poll", "epoll"], ""),
        ("throughput_rps", [], ""),
        ("response_mean_s", ["poll"], "at most "),
        ("response_mean_s", ["epoll"], "at least "),
    ],
)
def test_a_ratio_is_a_bound_where_the_client_limited_one_side(
    report, metric, limited, said
):
    sides = {"connections": [10] * 3, "model": ["poll", "epoll", "thread"]}
    cells = PAIRS.assign(metric=metric, **sides)
    cells["bound"] = cells["model"].isin(limited)
    pairs = pd.DataFrame(
        {"connections": 10, "model": ["poll"], "against": "epoll"}
    ).join(PAIRS.assign(metric=metric, verdict="higher"))
    kept = report.ratios(pairs, cells)
    assert kept["bound"].tolist() == [said.strip()]
    report.write()
    (number,) = reports.numbers(report.folder).values()
    assert number["text"] == f"{said}1.00 [0.90, 1.10]"
    assert number["bound"] == said.strip()


def test_a_head_is_text_where_a_column_is_called_by_it(report):
    """Models stand as columns in study 12, and one waits with io_uring."""
    frame = pd.DataFrame([[1, 2, 3]], columns=["io_uring, completions", "of_all", "p"])
    heads = list(report.table("it", frame, {"p": "a_b"}))
    assert heads == ["io_uring, completions", "of all", "a_b"]


def test_a_table_says_what_is_a_bound():
    models = {"model": ["poll", "epoll", "thread"], "bound": [True, False, None]}
    table = reports.text_table(PAIRS.assign(**models), rows="model", columns="metric")
    texts = table.set_index("model")["throughput_rps"]
    assert texts["poll"] == f"at least {texts['epoll']}"
    assert texts["thread"] == texts["epoll"]


@pytest.mark.parametrize(
    ("metric", "verdict", "word"),
    [
        ("throughput_rps", "higher", "faster"),
        ("response_p99_s", "higher", "slower"),
        ("slice_p99_s", "higher", "slower"),
        ("server_cpu_per_request_s", "lower", "less"),
        ("throughput_rps", "alike", "alike"),
    ],
)
def test_a_verdict_in_a_word(metric, verdict, word):
    assert reports.word({"metric": metric, "verdict": verdict}) == word


def test_levels_are_written_as_an_author_writes_them():
    address = reports.address("s", "m", {"b": 1000.0, "a": "x", "c": 0.5})
    assert address == "s/m a=x b=1000 c=0.5"


def test_a_study_that_cannot_be_measured_ends_with_its_reason(tmp_path):
    options = {"number": 4, "question": "?", "reason": "no Redis", "root": tmp_path}
    with pytest.raises(SystemExit) as ended:
        not_measured("made", "s", **options)
    assert ended.value.code == 0
    written = json.loads((tmp_path / "made" / "s" / "results.json").read_text())
    assert "no Redis" in written["answer"]
    assert written["notes"] == []
    assert written["figures"] == []


def test_the_trials_of_a_report_are_taken_again_where_it_is_evaluated(trials, about):
    def read(levels, **how):
        how |= {"only": {"connections": levels}, "warn": False}
        return load("made", made.STUDY, root=about["root"], **how)

    again = read([10], measure=False)
    assert len(again) == len(trials)  # of a run that kept no settings
    report = Report(read([10]), **about)
    report.answer("So it is.")
    report.write()
    again = read([10, 100], measure=False)
    assert again["connections"].tolist() == [10] * 10
    assert "10 trials were left out" in " ".join(again.attrs["notes"])


def test_a_number_that_is_not_finite_is_no_json(trials, report):
    none = intervals(trials.assign(nothing=float("nan")), "nothing", FACTORS)
    report.cells(none.assign(unit="1"))
    json.loads(report.write().read_text(), parse_constant=pytest.fail)


def test_a_full_disk_leaves_the_table_that_was_there(trials, report):
    """It was empty then, beside results that speak of its numbers."""
    report.cells(intervals(trials, "throughput_rps", FACTORS))
    path = report.folder / reports.CELLS
    path.write_text("an earlier table")
    path.with_name(f"{path.name}.part").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left"):
        report.write()
    assert path.read_text() == "an earlier table"
