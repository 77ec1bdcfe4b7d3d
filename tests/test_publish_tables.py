"""Tables of studies as the paper sets them."""

import publish_made as made

from connlab.publish import numbers, tables
from connlab.study.results import Results, Table

COLUMNS = [{"name": "model", "label": "model"}, {"name": "x", "label": "rate (1/s)"}]


def markdown(rows):
    marks = numbers.Marks(Results.model_validate(made.results()))
    return tables.markdown(Table(id="tbl-x", columns=COLUMNS, rows=rows), marks)


def test_a_table_without_rows_says_none():
    assert [line.strip("| ") for line in markdown([]).splitlines()][::2] == [
        "model",
        "none",
    ]


def test_a_column_of_dashes_is_left_out_but_never_the_first():
    assert "rate" not in markdown([["—", "—"], ["epoll", "–"]])
    assert "rate" in markdown([["—", "—"], ["epoll", "2"]])
