"""Numbers as text: units, digits and what an interval carries."""

import json
import math

import numpy as np
import pandas as pd
import pytest
from conftest import ROOT, with_reference
from hypothesis import given, settings
from hypothesis import strategies as some

from connlab.study import formatting as f
from connlab.study import metrics
from connlab.study.interval import Interval
from connlab.study.metrics import metric


def made(value, half):
    return Interval(value, value - half, value + half, 10, 0.95, "t")


@pytest.mark.parametrize(
    ("value", "half", "text"),
    [
        (9.234, 0.2, "9.2 [9.0, 9.4]"),
        (9.234, 0.12, "9.23 [9.11, 9.35]"),
        (9.234, 0.9, "9.2 [8.3, 10.1]"),
        (108_234, 310, "108\u202f200 [107\u202f900, 108\u202f500]"),
        (1.0213, 0.0041, "1.021 [1.017, 1.025]"),
        (-0.5, 0.2, "−0.5 [−0.7, −0.3]"),
        (0.001, 0.5, "0.0 [−0.5, 0.5]"),
        (5.25, 0.0, "5.25"),
        (5.0, 0.0, "5"),
        (18_984.0, 0.0, "18984"),
        (118_984.0, 0.0, "118\u202f984"),
        (0.2499997, 8e-7, "0.2500"),
        (21.4727, 0.0017, "21.47"),
        (1.1012, 0.0992, "1.10 [1.002, 1.20]"),
        (0.95, 0.0496, "0.95 [0.90, 0.9996]"),
        (5.0, math.nan, "5.0 (no interval)"),
        (1234.0, math.nan, "1200 (no interval)"),
        (math.nan, math.nan, "— (no interval)"),
    ],
)
def test_no_digit_that_the_interval_does_not_carry(value, half, text):
    assert f.number_text(made(value, half)) == text


@pytest.mark.parametrize(
    ("lo", "value", "hi", "text"),
    [
        # a bound above zero is not printed as zero
        (4.2, 37, 337, "37 [4, 337]"),
        (0.03, 0.4, 10.6, "0.40 [0.03, 10.60]"),
        # nor one below it
        (-0.5, -0.26, -0.02, "−0.26 [−0.50, −0.02]"),
        # unless it is as good as zero
        (0.5, 1000, 1999.5, "1000 [0, 2000]"),
        # the shorter side of a ratio carries its digits
        (0.94, 2.33, 5.75, "2.3 [0.9, 5.8]"),
        # a bound beside 1 alone gets the digits that it needs, four at most
        (0.84975, 0.92181, 0.9996, "0.92 [0.85, 0.9996]"),
        (0.84975, 0.92181, 0.99997, "0.92 [0.85, 0.9999]"),
        (0.94, 0.97, 0.999997, "0.97 [0.94, 0.9999]"),
        (1.0000001, 1.04, 1.08, "1.04 [1.0001, 1.08]"),
        # and so does the value, where 1 is outside
        (1.0003, 1.0004, 1.0005, "1.0004 [1.0003, 1.0005]"),
        (1.00001, 1.0003, 1.0007, "1.0003 [1.0001, 1.001]"),
        (1.00001, 1.00003, 1.00006, "1.00003 [1.00001, 1.0001]"),
        (1.0027, 1.0027, 1.0027, "1.003"),
        (0.9995, 0.99996, 0.99998, "0.9999 [0.9995, 0.9999]"),
        (0.9996, 1.0001, 1.0004, "1.000 [0.9996, 1.0004]"),
        (2.4, 3.97, 6.56, "4.0 [2.4, 6.6]"),
        (-1.0, 2.4, 5.8, "2 [−1, 6]"),
    ],
)
def test_digits_of_an_interval_that_is_not_symmetric(lo, value, hi, text):
    assert f.number_text(Interval(value, lo, hi, 5, 0.95, "t")) == text


@settings(deadline=None)  # it is no less true on a machine that is busy
@given(some.floats(1e-6, 1e6), some.floats(2.1e-3, 0.5))
def test_printed_bounds_stay_near_the_interval(value, relative):
    """Rounding moves a bound by at most a quarter of the half-width."""
    i = made(value, value * relative)
    step = 10.0 ** -f.decimals(i)
    assert i.half_width / 20 < step <= i.half_width


def test_units_follow_the_number():
    assert f.number_text(made(9.2, 0.2), "%") == "9.2\u202f% [9.0, 9.4]"
    interval, unit = f.in_best_unit(made(0.009234, 0.0002), "s")
    assert f.number_text(interval, unit) == "9.2 ms [9.0, 9.4]"


@pytest.mark.parametrize(
    ("unit", "values", "factor", "text"),
    [
        ("s", [2e-5], 1e6, "µs"),
        ("s", [1e-4, 9e-3, 0.1], 1e3, "ms"),
        ("s", [5.0], 1, "s"),
        ("s", [2e-9], 1e9, "ns"),
        ("s", [2e-10], 1e9, "ns"),
        # the median of those above zero
        ("s", [0.0, 0.0, 0.0, 1e-3, 2e-3, 9.0, math.nan], 1e3, "ms"),
        ("requests/s", [1e4], 1e-3, "thousand requests/s"),
        ("requests/s", [1e6], 1e-6, "million requests/s"),
        ("requests/s", [900.0], 1, "requests/s"),
        ("bytes", [3 * 2**20], 2**-20, "MiB"),
        ("bytes/s", [1024.0], 2**-10, "KiB/s"),
        ("bytes", [0.5], 1, "bytes"),
        ("count", [5e6], 1, ""),
        ("1", [1.0], 1, ""),
        ("s", [], 1, "s"),
        ("s", [math.nan], 1, "s"),
    ],
)
def test_values_choose_their_unit(unit, values, factor, text):
    assert f.display_unit(unit, values) == (pytest.approx(factor), text)


def test_a_text_of_two_estimates_is_remembered_with_each():
    for n in (6, np.int64(8)):
        f.number_text(Interval(61.5, 61.0, 62.0, n, 0.95, "t", "a note"))
    numbers = json.loads(json.dumps(f.printed_in(["61.5 [61.0, 62.0]"])))
    assert [number["n"] for number in numbers] == [6, 8]
    assert {number["method"] for number in numbers} == {"t; a note"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f.plain(15_000), "15000"),
        (f.plain(1000.4), "1000"),
        (f.plain(999.7), "1000"),
        (f.plain(999.4), "999"),
        (f.plain(0.5), "0.5"),
        (f.plain(100.0), "100"),
        (f.rounded(100_000, 0), "100\u202f000"),
        (f.rounded(-0.04, 1), "0.0"),
        (f.rounded(math.nan, 1), "—"),
        (f.counted(1, "client"), "1 client"),
        (f.counted(2, "client"), "2 clients"),
        (f.listing(["a"]), "a"),
        (f.listing(["a", "b", "c"]), "a, b and c"),
        (f.listing([]), ""),
        (f.span(5, 5), "5"),
        (f.span(3, 5), "3 to 5"),
    ],
)
def test_plain_numbers_and_lists(text, expected):
    assert text == expected


def test_metrics_have_name_unit_and_better_direction():
    assert metric("throughput_rps").better == "higher"
    assert metric("response_p99_s").label.startswith("99th percentile")
    assert (metric("connect_mean_s").unit, metric("accepted").unit) == ("s", "count")
    assert metric("new_thing").label == "new thing"
    assert metric("processes").label == "copies of the server"


@with_reference
def test_every_number_of_the_references_has_words_of_its_own():
    """Which readers of the explorer choose by; a name of the code says little."""
    tables = ROOT.glob("runs/reference*/*/*.csv")
    files = [path for path in tables if path.stem in ("cells", "ratios")]
    columns = [pd.read_csv(path, usecols=["metric"])["metric"] for path in files]
    found = set(pd.concat(columns))
    assert "knee" in found
    assert found <= metrics.named()


def test_no_label_is_kept_that_belongs_to_a_column():
    derived = pd.read_csv(ROOT / "connlab" / "study" / "derived.csv")["metric"]
    assert derived.is_unique
    assert metric("knee").label == "load at which the 99th percentile has doubled"
    for name in derived:
        assert metric(name).unit == ""


@pytest.mark.parametrize(
    ("factor", "level", "text"),
    [
        ("work", "spin", "computing"),
        ("part", "spin", "computing"),
        ("delay_kind", "sleep", "waiting"),
        ("part", "queue", "queue"),
        ("model", "spin", "spin"),
    ],
)
def test_readers_are_told_what_a_work_does(factor, level, text):
    assert f.called(factor, level) == text
