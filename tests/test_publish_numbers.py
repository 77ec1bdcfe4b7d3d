"""A number says what stands behind it wherever a study printed it."""

import publish_made as made
import pytest

from connlab.publish import numbers
from connlab.study.results import Results, Table

ONE = {"text": "29 ± 2", "n": 6, "level": 0.95, "method": "t over trials"}
TITLE = "n = 6, 95 % interval, t over trials"


def marks(*printed):
    results = made.results() | {"numbers": list(printed)}
    return numbers.Marks(Results.model_validate(results))


def test_a_printed_number_is_found_in_a_sentence():
    html = marks(ONE).html("It is 29 ± 2 & more.")
    assert html == f'It is <span class="num" title="{TITLE}">29 ± 2</span> &amp; more.'


def test_markdown_escapes_around_a_number_and_in_it():
    text = marks(ONE | {"text": "2 ms [1, 3]"}).markdown("*a* 2 ms [1, 3] (b)")
    assert text == f'\\*a\\* [2 ms \\[1, 3\\]]{{.num title="{TITLE}"}} \\(b)'


@pytest.mark.parametrize("text", ["129 ± 2", "29 ± 25", "1.29 ± 2", "29 ± 2%"])
def test_a_part_of_another_number_is_not_taken_for_it(text):
    assert marks(ONE).html(text) == text


def test_the_longer_of_two_numbers_is_found():
    long = ONE | {"text": "29 ± 2 [1, 3]", "n": 9}
    assert "n = 9" in marks(ONE, long).html("29 ± 2 [1, 3]")


def test_a_text_that_stands_for_two_numbers_has_the_titles_of_both():
    html = marks(ONE, ONE | {"n": 8}, ONE).html("29 ± 2")
    assert f"{TITLE}; or {TITLE.replace('6', '8')}" in html
    assert html.count("n = 6") == 1


def test_without_numbers_text_is_text():
    assert marks().html("1 < 2$.") == "1 &lt; 2$."


def test_a_number_without_bounds_shows_n_and_method_alone():
    row = {"text": "29", "n": 1, "level": 0.95, "method": "t", "lo": None}
    assert numbers.title(row) == numbers.hover(1, None, "t") == "n = 1, t"
    assert numbers.title(row | {"lo": 1.0}) == "29, n = 1, 95 % interval, t"


@pytest.mark.parametrize(
    ("full", "short"),
    [
        ("9.416260757 ms", "9.42 ms"),
        ("227.7007857 and 0.00036335", "228 and 0.000363"),
        ("7.69528 to 116.769", "7.70 to 117"),
        ("1461.298685", "1461"),
        ("15.4, 1.825 GB, 93.25 %", "15.4, 1.825 GB, 93.25 %"),
        ("Linux 6.18.44, v1.23456", "Linux 6.18.44, v1.23456"),
        ("0.0000085", "0.0000085"),
        ("20000", "20000"),
    ],
)
def test_digits_beyond_four_are_shown_as_three(full, short):
    pieces = list(numbers.shortened(full))
    assert "".join(piece for piece, _ in pieces) == short
    assert "".join(whole or piece for piece, whole in pieces) == full


def table(*rows, **about):
    columns = [{"name": "a", "label": "model"}, {"name": "x", "label": "rate (1/s)"}]
    made_of = Table(id="tbl-x", columns=columns, rows=rows)
    return numbers.table(made_of, marks(), **about)


def test_a_table_without_rows_says_none():
    head, _, row = (line.strip("| ") for line in table().splitlines())
    assert (head, row) == ("model", "none")


@pytest.mark.parametrize("rows", [[], [["epoll", "2"]]])
def test_a_table_that_is_a_reference_s_or_stale_says_so_in_its_first_cell(rows):
    assert table(*rows, source="B").startswith('| []{.source of="B"}model |')
    assert table(*rows, stale=True).startswith("| []{.source}model |")
    assert table(*rows).startswith("| model |")


def test_a_column_of_dashes_is_left_out_but_never_the_first():
    assert "rate" not in table(["—", "—"], ["epoll", "–"])
    assert "rate" in table(["—", "—"], ["epoll", "2"])
