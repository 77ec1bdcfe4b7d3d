"""A soak: one driver measures trial after trial, and must not grow.

    fresh run -> sweep -> footprint, again and again -> what grew after a quarter

In the suite it takes some 15 s; by hand as long as one likes, with its figures::

    CONNLAB_SOAK_S=1200 python -m pytest -s tests/test_soak.py
"""

import gc
import itertools
import mmap
import multiprocessing
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest
from drive_fakes import measure

from connlab import drive
from connlab.drive import stopping

SOAK_S = float(os.environ.get("CONNLAB_SOAK_S", "15"))
#: resident memory may grow by that much: allocators keep pages, but not ever more
GROWTH_BYTES = 8 * 2**20
_MODELS_A_SWEEP = 2
#: also where other tests make each take long
_SWEEPS_LEAST = 8
#: what this process holds, by name, after so many trials
Footprint = dict[str, int]


def footprint(trials: int) -> Footprint:
    gc.collect()
    me = psutil.Process()
    return {
        "trials": trials,
        "rss_bytes": me.memory_info().rss,
        "descriptors": me.num_fds(),
        "children": len(me.children(recursive=True)),
        "threads": me.num_threads(),
    }


def in_a_new_process(steps: Callable[[Any], Iterator[int]], of: Any) -> list[Footprint]:
    """Watch steps where no test was before: what one left may open and close files."""
    spawning = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawning) as pool:
        return pool.submit(watch, steps, of).result()


def watch(steps: Callable[[Any], Iterator[int]], of: Any) -> list[Footprint]:
    """Look before the first step and after each, which yields its number of trials."""
    footprints = [footprint(0)]
    for done in steps(of):
        footprints.append(footprint(footprints[-1]["trials"] + done))
    return footprints


def leaks(footprints: Sequence[Footprint]) -> list[str]:
    """Say what is held at the end that was not held after a quarter of the steps.

    The first quarter is for what is loaded or cached once. A child is one too many at
    any time.
    """
    quarter, end = footprints[max(1, len(footprints) // 4)], footprints[-1]
    bounds = {"rss_bytes": GROWTH_BYTES, "descriptors": 0, "threads": 0, "children": 0}
    grown = {name: end[name] - quarter[name] for name in bounds}
    most = max(step["children"] for step in footprints)
    grown["children"] = most - footprints[0]["children"]
    return [f"{name} +{grown[name]}" for name in bounds if grown[name] > bounds[name]]


def sweeps(root: Path) -> Iterator[int]:
    """Measure one sweep after the other, each in a run of its own."""
    stopping.SPARE = 0  # as `spare_blocks` does, which does not reach this process
    names = [model.name for model in drive.models() if model.available]
    models = itertools.cycle(names)
    until = time.monotonic() + SOAK_S
    for number in itertools.count():
        if number >= _SWEEPS_LEAST and time.monotonic() > until:
            return
        chosen = list(itertools.islice(models, _MODELS_A_SWEEP))
        about = {"run": f"run-{number}", "fixed": {"connections": 5}}
        window = {"duration": 0.1, "warmup": 0.02}
        report = measure(root, factors={"model": chosen}, **about, **window)
        shutil.rmtree(root / about["run"])
        yield report.done


@pytest.mark.sweeps
@pytest.mark.long
@pytest.mark.timeout(2 * SOAK_S + 120)
def test_a_driver_holds_no_more_after_many_trials(build_dir, tmp_path):
    footprints = in_a_new_process(sweeps, tmp_path)
    print(*(footprints[at] for at in (0, max(1, len(footprints) // 4), -1)), sep="\n")
    assert footprints[-1]["trials"] == _MODELS_A_SWEEP * (len(footprints) - 1) > 8
    assert leaks(footprints) == []


def new_pages() -> mmap.mmap:
    """Touch memory of the kernel's: an allocator might have some that it kept."""
    pages = mmap.mmap(-1, GROWTH_BYTES // 2)
    pages.write(b"x" * len(pages))
    return pages


def a_thread() -> None:
    threading.Thread(target=threading.Event().wait, daemon=True).start()


#: by what is then held once more
LEAKS = {
    "children": lambda: subprocess.Popen(["sleep", "60"]),
    "descriptors": lambda: os.open(os.devnull, os.O_RDONLY),
    "rss_bytes": new_pages,
    "threads": a_thread,
    "nothing": lambda: new_pages().close(),
}


def leaking(name: str) -> Iterator[int]:
    """Leak the same at each of eight steps; all of it ends with the process."""
    held = []
    try:
        for _ in range(8):
            held.append(LEAKS[name]())
            yield 1
    finally:
        for child in psutil.Process().children():
            child.kill()


@pytest.mark.parametrize("name", LEAKS)
def test_a_leak_is_seen_and_nothing_else(name):
    footprints = in_a_new_process(leaking, name)
    assert footprints[-1]["trials"] == len(footprints) - 1 == 8
    seen = [grown.split()[0] for grown in leaks(footprints)]
    assert seen == ([] if name == "nothing" else [name])
