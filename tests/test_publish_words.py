"""The comparing words of a run, counted."""

import json
from collections import Counter

import pytest
from conftest import REFERENCE, with_reference

from connlab import __main__ as command
from connlab.publish import words

STUDIES = {
    "response-time": Counter({"undetermined": 3, "faster than": 1}),
    "uring": Counter({"slower than": 4}),
}


def test_document_has_studies_and_all_of_them():
    assert words.document({})["all"]["undetermined"] == 0
    made = words.document(STUDIES)
    assert made["studies"]["response-time"]["undetermined"] == 0.75
    assert made["studies"]["uring"]["undetermined"] == 0
    assert made["studies"]["uring"]["n"] == 4
    assert made["all"]["undetermined"] == pytest.approx(3 / 8)
    assert made["all"]["words"] == dict(sum(STUDIES.values(), Counter()))


def test_table_fits_a_terminal_and_adds_up():
    table = words.lines(STUDIES)
    assert max(map(len, table)) <= 80
    rows = {line[:16].strip(): line[16:].split() for line in table[1:]}
    assert rows["response-time"] == ["4", "3", "(75", "%)", "1"]
    assert rows["uring"] == ["4", "0", "(0", "%)", "4"]
    assert rows["in all"] == ["8", "3", "(38", "%)", "4", "1"]


@with_reference
def test_counts_are_those_of_the_results_files(capsys):
    assert command.main(["words", "reference", "--json"]) == 0
    counted = json.loads(capsys.readouterr().out)
    listed = {}
    for path in REFERENCE.glob("*/results.json"):
        results = json.loads(path.read_text())
        if results["words"] and results["study"] != "claims":
            study = results["study"]
            listed[study] = [word["word"] for word in results["words"].values()]
    counts = {name: row["n"] for name, row in counted["studies"].items()}
    assert counts == {name: len(said) for name, said in listed.items()}
    undetermined = sum(row.count("undetermined") for row in listed.values())
    assert counted["all"]["words"]["undetermined"] == undetermined
