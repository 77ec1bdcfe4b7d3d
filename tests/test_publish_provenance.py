"""The appendix: why trials were left out."""

from types import SimpleNamespace

import publish_made as made
import pytest

from connlab.publish import fragments, provenance


@pytest.mark.parametrize(
    ("lost", "row"),
    [
        (
            [("select", 2, "busy"), ("epoll", 3, "not steady"), ("poll", 4, "busy")],
            "| response\\-time | 9 | busy (6), not steady (3) |",
        ),
        ([], "| none | 0 |"),
    ],
)
def test_reasons_are_summed_over_cells_the_commonest_first(tmp_path, lost, row):
    folder = made.write_run(tmp_path)
    failures = [{"factors": {"model": m}, "n": n, "reason": why} for m, n, why in lost]
    made.edit(folder / made.STUDY / "results.json", failures=failures)
    assert row in provenance._excluded(made.load(tmp_path), made.PAPER)


@pytest.mark.parametrize(
    ("authors", "said"),
    [(["The A authors"], "{{The A authors}}"), (["A B", "C"], "{{A B} and {C}}")],
)
def test_each_author_is_one_to_bibtex(authors, said):
    """Braces around all of them, with "and" in between, made them one."""
    cited = {"authors": authors, "title": "T", "version": "1"}
    run = {"title": "T", "run": "r", "date": "2026-01-02", "year": "2026"}
    assert f"author  = {said}," in fragments.fill("cite.qmd", cited=cited, **run)


def test_studies_stand_in_the_order_of_their_sections(tmp_path):
    (tmp_path / "index.qmd").write_text(
        "".join(f"{{{{< include sections/_{n}.qmd >}}}}\n\n" for n in ("why", "cores"))
    )
    names = ("cores", "b", "why", "a")
    studies = {name: SimpleNamespace(name=name, results=None) for name in names}
    run = SimpleNamespace(studies=studies)
    names = [study.name for study in provenance._in_order(run, tmp_path)]
    assert names == ["why", "cores", "a", "b"]


@pytest.mark.parametrize(
    ("parameters", "told"),
    [
        ({"duration": 0.5, "warmup": 0.1}, "0.5 s (0.1 s)"),
        ({"duration": 2.0, "warmup": None}, "2 s (0 s)"),
        ({}, "—"),
    ],
)
def test_the_window_of_a_study_is_told_with_its_warm_up(parameters, told):
    study = SimpleNamespace(entry={"parameters": parameters})
    assert provenance._window(study) == told


@pytest.mark.parametrize(
    ("to", "end"), [("html", "ipv4.<wbr>tcp_<wbr>mem"), ("typst", "net.ipv4.tcp\\_mem")]
)
def test_the_name_of_a_sysctl_breaks_between_its_words(to, end):
    source = provenance._fact("net.ipv4.tcp_mem")
    assert end in made.pandoc(source, "--from=markdown", f"--to={to}", cwd=made.ROOT)
    assert provenance._fact("memory") == "memory"


def test_studies_of_other_programs_are_named_with_theirs():
    old, new = {"server": "a" * 20, "client": "b"}, {"server": "c", "client": "b"}
    studies = {"x": {"binaries": old}, "y": {"binaries": new}, "z": {"binaries": old}}
    facts = dict(provenance.machine_facts({"programs": new, "studies": studies}))
    assert facts["programs (SHA-256)"] == "server c, client b"
    assert facts["programs of x, z"] == f"server {'a' * 16}, client b"
    alike = provenance.machine_facts({"programs": new, "studies": {"y": studies["y"]}})
    assert [name for name, _ in alike] == ["programs (SHA-256)"]


def test_studies_that_were_measured_elsewhere_are_named_with_what_differs():
    """The table had the machine of the newest study for all of them."""
    new = {"kernel": "6.2", "cpu": "X", "binaries": {"server": "a"}, "governor": None}
    old = new | {"kernel": "6.1", "governor": "powersave", "cpu_quota": 1.5}
    built = new | {"binaries": {"server": "b"}}
    over_hosts = new | {"clients": [old], "cores": 1}
    environments = {"n": new, "o": old, "b": built, "h": over_hosts}
    studies = {
        name: {"environment": name[0]} for name in ("n1", "o1", "b1", "h1", "o2")
    }
    manifest = {"environment": "n", "environments": environments, "studies": studies}
    facts = dict(provenance.machine_facts(manifest))
    told = {
        name: text for name, text in facts.items() if name.startswith("environment")
    }
    said = "kernel 6.1, governor powersave, cpu quota 1.5"
    assert told == {"environment of o1, o2": said}
    del studies["o1"], studies["o2"]
    assert not any(n.startswith("env") for n, _ in provenance.machine_facts(manifest))
    unknown = provenance.machine_facts(manifest | {"environment": None})
    assert not any(n.startswith("env") for n, _ in unknown)
    environments["h"] |= {"kernel": "5.9"}
    assert ("environment of h1", "kernel 5.9") in provenance.machine_facts(manifest)


def test_the_machine_is_that_of_the_table(tmp_path):
    """Not of the study whose name comes first, which may be older."""
    assert "Imaginary CPU" in provenance.machine(made.changed(tmp_path))
    run = made.changed(tmp_path / "b", machine={})
    assert "does not exist" in provenance.machine(run)


@pytest.mark.parametrize(
    ("begun", "days"),
    [
        (["2026-01-02T23:00:00Z", "2026-01-02T09:00:00Z"], "2026-01-02"),
        (["2026-01-03T00:10:00Z", "2026-01-02T09:00:00Z"], "2026-01-02 to 2026-01-03"),
    ],
)
def test_a_run_is_of_the_days_of_its_trials_not_of_its_evaluation(
    tmp_path, begun, days
):
    studies = {str(i): {"started_at": at} for i, at in enumerate(begun)}
    assert provenance.measured_on(made.changed(tmp_path, studies=studies)) == days


@pytest.mark.parametrize(
    ("git", "said"),
    [
        ({"commit": "a" * 40}, f"sources at commit `{'a' * 12}`"),
        (None, "sources that are no repository"),  # unpacked from an archive
    ],
)
def test_the_sources_are_those_of_a_commit_or_of_no_repository(tmp_path, git, said):
    run = made.changed(tmp_path, git=git)
    assert provenance.variables(run, renderer="none")["sources"] == said


def test_the_version_beside_the_commit_is_the_one_that_measured(tmp_path):
    run = made.changed(tmp_path, versions={"connlab": "0.0.1"})
    assert provenance.variables(run, renderer="none")["version"] == "0.0.1"


@pytest.mark.parametrize(
    ("cores", "said"), [(1, "share the only core"), (2, "run on disjoint cores")]
)
def test_on_one_core_the_paper_does_not_say_that_cores_are_disjoint(
    tmp_path, cores, said
):
    run = made.changed(tmp_path, machine={"cores": cores})
    assert provenance.run_variables(run, {})["placement"].startswith(said)


@pytest.mark.parametrize(
    ("counts", "text"),
    [
        ({}, ""),
        ({"used": 3, "total": 4, "excluded": 1}, "3 of 4 trials are used, 1 excluded."),
        ({"broke": 0, "unsound": 0}, "4 trials; in none of them a server broke."),
        (
            {"broke": 2, "unsound": 1},
            "4 trials; in 2 of them a server broke and 1 other failed a check.",
        ),
        (
            {"broke": 1, "unsound": 2},
            "4 trials; in 1 of them a server broke and 2 others failed a check.",
        ),
    ],
)
def test_a_study_of_what_fails_counts_what_broke(counts, text):
    used = (
        {"total": 4, "used": 1, "failed": 0, "excluded": 3} if "broke" in counts else {}
    )
    assert provenance.trials(SimpleNamespace(trials=used | counts)) == text
