"""Core sets: disjoint where there are two, said where there are not."""

import os

import pytest

from connlab.drive import cores, gates, location, procfs

#: cores 0 and 4, 1 and 5, … are threads of one physical core; as Linux numbers them
THREADS = (0, 4, 1, 5, 2, 6, 3, 7)


def _alone(core: int) -> int:
    return core


def _paired(core: int) -> int:
    return core % 4


@pytest.mark.parametrize(
    ("there", "server", "place", "sets"),
    [
        ([0, 1], None, _alone, ((0,), (1,), False, False)),
        ([3], None, _alone, ((3,), (3,), True, False)),
        ([0, 1, 2, 3, 4], None, _alone, ((0, 1), (2, 3, 4), False, False)),
        ([0, 1, 2, 3], 3, _alone, ((0, 1, 2), (3,), False, False)),
        ([0, 1], 2, _alone, ((0, 1), (0, 1), True, False)),
        # server and client meet on no physical core, or it is said
        (THREADS, None, _paired, ((0, 1, 4, 5), (2, 6, 3, 7), False, False)),
        (THREADS, 1, _paired, ((0,), (1, 5, 2, 6, 3, 7), False, False)),
        (THREADS, 2, _paired, ((0, 1), (2, 6, 3, 7), False, False)),
        (THREADS, 3, _paired, ((0, 1, 2), (3, 7), False, False)),
        (THREADS, 5, _paired, ((0, 1, 2, 4, 5), (3, 7), False, False)),
        (THREADS, 6, _paired, ((0, 1, 2, 4, 5, 6), (3, 7), False, False)),
        (THREADS[:6], None, _paired, ((0, 4), (1, 5, 2, 6), False, False)),
        ((0, 1, 4, 5), None, _paired, ((0, 4), (1, 5), False, False)),
        ((0, 4), None, _paired, ((0,), (4,), False, True)),
        (THREADS, 7, _paired, ((0, 1, 2, 3, 4, 5, 6), (7,), False, True)),
        (THREADS, 8, _paired, (tuple(range(8)), THREADS, True, False)),
    ],
)
def test_cores_are_divided_and_what_is_shared_is_said(there, server, place, sets):
    split = cores.split(there, server=server, place=place)
    assert split == cores.Cores(*sets)
    names = ("server", "client", "shared", "siblings")
    recorded = ([*sets[0]], [*sets[1]], *sets[2:])
    assert split.in_trial() == dict(zip(names, recorded, strict=True))


def test_a_server_has_no_more_cores_than_there_are():
    with pytest.raises(ValueError, match="1 to 2"):
        cores.split([0, 1], server=3, place=_alone)


def test_one_core_each_are_two_physical_ones():
    assert cores.one_each(THREADS, place=_paired) == cores.Cores((0,), (1,), False)
    assert cores.one_each([0, 4], place=_paired).siblings


def test_together_they_have_one_core():
    split = cores.of_trial({"together": True})
    assert split.server == split.client == cores.available()[:1]
    assert split.shared
    assert cores.of_trial({"together": False}) == cores.split(cores.available())
    with pytest.raises(ValueError, match="^cores: 1; .*together"):
        cores.of_trial({"together": True, "cores": 1})


def test_available_cores_are_those_of_this_process(monkeypatch):
    monkeypatch.setattr(procfs, "cpu_quota", lambda: None)
    assert set(cores.available()) == os.sched_getaffinity(0)


def test_whoever_chooses_cores_has_them_in_that_order(monkeypatch):
    monkeypatch.setattr(procfs, "cpu_quota", lambda: None)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0, 1, 2})
    monkeypatch.setenv(cores.CHOSEN, "2, 0")
    assert cores.available() == (2, 0)
    monkeypatch.setenv(cores.CHOSEN, "2,1,0")
    assert cores.available() == (2, 1, 0)
    monkeypatch.setenv(cores.CHOSEN, "2, 0")
    assert cores.of_trial({}) == cores.Cores((2,), (0,), shared=False)


@pytest.mark.parametrize("text", ["3", "0,0", "one", "0,"])
def test_cores_that_are_not_there_cannot_be_chosen(monkeypatch, text):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0, 1, 2})
    monkeypatch.setenv(cores.CHOSEN, text)
    with pytest.raises(ValueError, match=rf"^{cores.CHOSEN}: {text}; .*\d, \d, \d"):
        cores.available()


def test_a_quota_leaves_as_many_cores_as_it_is_worth(monkeypatch):
    for quota, limit in ((0.5, 1), (1.0, 1), (1.9, 1), (1e6, 1e6)):
        monkeypatch.setattr(procfs, "cpu_quota", lambda quota=quota: quota)
        available = cores.available()
        assert len(available) == min(limit, len(os.sched_getaffinity(0)))
        assert set(available) <= os.sched_getaffinity(0)


@pytest.mark.parametrize(
    ("quota", "kept"),
    [
        (0.3, [0]),
        (2.0, [0, 1]),
        (4.9, [0, 1, 2, 3]),
        (6.0, [0, 4, 1, 5, 2, 3]),
        (99.0, list(THREADS)),
    ],
)
def test_of_few_cores_each_is_a_physical_one(quota, kept):
    assert cores.within(THREADS, quota, place=_paired) == kept


def _reports(monkeypatch, **topology: dict[int, object]) -> None:
    """Have the kernel say these things of cores, by the names of its files."""
    files = {
        f"/sys/devices/system/cpu/cpu{core}/topology/{name}": f"{text}\n"
        for name, texts in topology.items()
        for core, text in texts.items()
    }
    monkeypatch.setattr(procfs, "read_text", lambda path: files.get(path, ""))


def test_a_physical_core_is_named_by_its_first_thread(monkeypatch):
    """Two clusters of a package: the kernel's numbers begin anew in each."""
    siblings = {0: "0-1", 1: "0-1", 2: "2,6", 6: "2,6", 4: "4", 5: ""}
    zeros = dict.fromkeys(siblings, 0)
    _reports(monkeypatch, thread_siblings_list=siblings, core_id=zeros)
    named = {core: cores.place(core) for core in (*siblings, 7)}
    assert named == {0: 0, 1: 0, 2: 2, 6: 2, 4: 4, 5: 5, 7: 7}


def test_cores_of_a_package_stand_together(monkeypatch):
    _reports(monkeypatch, physical_package_id={0: 0, 1: 1, 2: 0, 3: 1})
    monkeypatch.setattr(procfs, "cpu_quota", lambda: None)
    monkeypatch.setattr(cores.os, "sched_getaffinity", lambda pid: {0, 1, 2, 3})
    assert cores.available() == (0, 2, 1, 3)


def test_threads_of_one_physical_core_stand_together():
    available = cores.available()
    groups = cores.physical(available)
    assert [core for threads in groups for core in threads] == list(available)
    assert len(groups) == len({cores.place(core) for core in available})


def test_what_others_use_is_a_share_of_all_cores_that_are_watched(monkeypatch):
    """Of 64 cores others may use more than of the two that a trial has."""
    monkeypatch.setattr(cores, "available", lambda: tuple(range(64)))
    recorded = cores.Cores((0,), (1,), shared=False).in_trial()
    samples = {"window_s": 1.0, "other_cpu_s": 0.5, "steal_s": 0.0}
    trial = {"server": {"samples": samples}, "cores": recorded}
    assert not gates.quiet(trial).ok
    trial["cores"] = recorded | location.ThisMachine().cores_in_trial()
    assert gates.quiet(trial).ok
