"""Recovery: a server that is sound again, and one that is not."""

from dataclasses import replace

from connlab.drive import recovery


def test_recovered_wants_everything_closed_and_everybody_answered():
    good = recovery.Recovery("m", 9, sockets=0, tasks=0, again=recovery.AGAIN)
    assert good.recovered
    for bad in ({"sockets": 1}, {"tasks": 2}, {"again": 0}, {"error": "died"}):
        assert not replace(good, **bad).recovered


def test_what_was_seen_of_a_model_is_kept_and_not_asked_again(
    build_dir, tmp_path, monkeypatch
):
    """Also while others are asked, or nothing is; what failed is tried again."""
    seen = []

    def run(model: str, *, connections: int) -> recovery.Recovery:
        seen.append(model)
        error = "died" if seen.count(model) == 1 and model == "poll" else ""
        return recovery.Recovery(model, connections, error=error)

    monkeypatch.setattr(recovery, "run", run)
    for crowds in ({"epoll": 9, "poll": 8}, {}, {"poll": 8}, {"epoll": 9, "poll": 8}):
        after = recovery.try_all(crowds, tmp_path)
        assert {row["model"]: row["connections"] for row in after} == crowds
    assert seen == ["epoll", "poll", "poll"]
    assert [row["error"] for row in after] == ["", ""]
    for other in ({"epoll": 20}, {"./mine {port}": 7}):
        (row,) = recovery.try_all(other, tmp_path)
        assert {row["model"]: row["connections"]} == other


def test_what_was_seen_of_an_older_program_is_asked_again(
    build_dir, tmp_path, monkeypatch
):
    seen, program = [], tmp_path / "mine"

    def run(model: str, *, connections: int) -> recovery.Recovery:
        seen.append(program.read_text())
        return recovery.Recovery(model, connections)

    monkeypatch.setattr(recovery, "run", run)
    for content in ("one", "another", "another"):
        program.write_text(content)
        recovery.try_all({f"{program} {{port}}": 9}, tmp_path)
    assert seen == ["one", "another"]


def test_select_is_sound_again_after_more_than_it_can_watch(build_dir):
    result = recovery.run("select", connections=1300, duration=0.2)
    assert result.held < 1024
    assert result.recovered, result
    missing = recovery.run("no-such-model", connections=1)
    assert missing.error
    assert not missing.recovered
