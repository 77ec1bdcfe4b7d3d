"""The appendix: why trials were left out."""

from __future__ import annotations

import publish_made as made

from connlab.publish import provenance, results


def excluded(root):
    return provenance._excluded(results.load_run(made.RUN, root=root))


def test_reasons_are_summed_over_cells_the_commonest_first(tmp_path):
    folder = made.write_run(tmp_path)
    lost = [("select", 2, "busy"), ("epoll", 3, "not steady"), ("poll", 4, "busy")]
    failures = [{"factors": {"model": m}, "n": n, "reason": why} for m, n, why in lost]
    path = folder / made.STUDY / "results.json"
    made.write_json(path, made.results() | {"failures": failures})
    assert "| response\\-time | 9 | busy (6), not steady (3) |" in excluded(tmp_path)


def test_a_run_that_lost_no_trial_says_so(tmp_path):
    folder = made.write_run(tmp_path)
    path = folder / made.STUDY / "results.json"
    made.write_json(path, made.results() | {"failures": []})
    assert "| none | 0 | no cell of any grid lost a trial |" in excluded(tmp_path)


def test_studies_of_other_programs_are_named_with_theirs():
    old, new = {"server": "a" * 20, "client": "b"}, {"server": "c", "client": "b"}
    studies = {"x": {"binaries": old}, "y": {"binaries": new}, "z": {"binaries": old}}
    facts = dict(provenance.machine_facts({"programs": new, "studies": studies}))
    assert facts["programs (SHA-256)"] == "server c, client b"
    assert facts["programs of x, z"] == f"server {'a' * 16}, client b"
    alike = provenance.machine_facts({"programs": new, "studies": {"y": studies["y"]}})
    assert [name for name, _ in alike] == ["programs (SHA-256)"]
