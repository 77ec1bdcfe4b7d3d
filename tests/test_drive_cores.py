"""Core sets: disjoint where there are two, said where there are not."""

from __future__ import annotations

import os

import pytest

from connlab.drive import cores


def test_two_cores_are_one_each():
    assert cores.split([0, 1]) == cores.Cores((0,), (1,), False)


def test_one_core_is_shared_and_said():
    split = cores.split([3])
    assert split.recorded() == {"server": [3], "client": [3], "shared": True}


def test_half_each_without_overlap():
    split = cores.split([0, 1, 2, 3, 4])
    assert set(split.server).isdisjoint(split.client)
    assert len(split.server) == 2
    assert len(split.client) == 3


def test_the_server_may_be_given_a_number_of_cores():
    assert cores.split([0, 1, 2, 3], server=3).client == (3,)
    assert cores.split([0, 1], server=2).shared
    with pytest.raises(ValueError, match="1 to 2"):
        cores.split([0, 1], server=3)


def test_available_cores_are_those_of_this_process():
    assert set(cores.available()) == os.sched_getaffinity(0)
