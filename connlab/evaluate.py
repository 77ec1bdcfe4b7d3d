"""Evaluate a run again: its figures, tables and numbers anew, from its trials.

    each study that the run holds -> the parameters of its executed notebook
        -> today's notebook with these, measuring nothing -> results, claims

Study 00 comes first, as its lines stand in the figures of the others, and beside it the
one that takes longest and draws none; the others are made side by side, a notebook on
each core, and last the one that reads their ratios.

What is derived can be thrown away and made again, on any machine: after a change of an
analysis or a figure, or from a run that somebody else deposited.
"""

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from pathlib import Path
from typing import Any

from connlab import kernel_server, notebook, paper
from connlab.parameters import ParameterError, declared
from connlab.schema import (
    TRIALS,
    alone,
    existing_run,
    facts_file,
    read_json,
    study_folder,
)

_NAMES = ("notebook.ipynb", "notebook.failed.ipynb")
_FIRST, _LAST = ("the-machine", "intervals"), ("doubts",)
_GRACE_S = 5.0  # of workers that are told to end; each ends a kernel first
_SIDE_BY_SIDE = 4  # kernels at once, at most: each takes a quarter of a GiB


def make(
    run: str, *, nb: str | Path | None = None, say: Callable[[str], None] = print
) -> dict[str, str]:
    """Make figures, tables and results of a run anew; return why studies failed.

    Reasons are by the name of the notebook. With `nb` (see `connlab.notebook.find`)
    only its study is evaluated. FileNotFoundError without such a run, or where it does
    not hold the study, RuntimeError while another command evaluates the run.
    """
    from connlab.claims import judging  # late: workers do without what it loads

    claims = existing_run(run) / judging.CLAIMS
    claims.mkdir(exist_ok=True)
    busy = f"run: {run!r} is being evaluated by another command; allowed: after it"
    failed = {}
    with alone(claims, or_else=busy):  # each would take the other's files away
        paths = _held(run, say) if nb is None else [notebook.find(nb)]
        for path, error in _evaluated(run, paths):
            if error:
                failed[path.stem] = error
                say(f"evaluate: {error}; going on with the rest")
            else:
                say(f"evaluate: {path.stem}, from runs/{run}")
        say(f"evaluate: {paper.judge(run)}")
    return failed


def _held(run: str, say: Callable[[str], None]) -> list[Path]:
    """Return the notebooks that a run holds; say which it holds trials of only."""
    paths = []
    for path in notebook.every():
        study = study_folder(run, notebook.study_of(path))
        if executed(run, path):
            paths.append(path)
        elif facts_file(study / TRIALS).exists():
            say(f"evaluate: {path.stem}: left out, as runs/{run} holds no notebook")
    return paths


def _evaluated(run: str, paths: Sequence[Path]) -> Iterator[tuple[Path, str | None]]:
    """Execute notebooks; give each with the reason of its failure, if it failed.

    The ledger is judged beside the last notebook, of which no verdict is made.

    RuntimeError when a process that executes them was killed.
    """
    first, between, last = _in_order(paths)
    cores = min(_cores(), _SIDE_BY_SIDE)
    if cores < 2 or len(paths) < 2:
        yield from map(partial(_execute, run), [*first, *between, *last])
        return
    # spawned, as no process may use the server of kernels that another started
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(cores, spawn, _begin_worker) as pool:
        execute = partial(pool.submit, _in_worker, run)
        try:
            started = list(map(execute, first))
            futures.wait(started[:1])  # the longest draws none of the others' lines
            started += map(execute, between)
            yield from (future.result() for future in started)
            if last:  # the verdicts are kept; if there are none, `make` will hear why
                pool.submit(paper.judge, run)
            yield from (future.result() for future in map(execute, last))
        except BrokenProcessPool:
            _end_workers()
            killed = "evaluate: a worker was killed (out of memory?)"
            raise RuntimeError(killed) from None
        except KeyboardInterrupt:  # it may have reached this process alone
            _end_workers()
            raise


def _end_workers() -> None:
    """End the workers. One that outlives its signals would be waited for: it is killed.

    It may wait for a lock of the pool that another held when it died.
    """
    workers = multiprocessing.active_children()
    for worker in workers:
        worker.terminate()
    until = time.monotonic() + _GRACE_S
    for worker in workers:
        worker.join(max(0, until - time.monotonic()))
        worker.kill()


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def _in_order(paths: Sequence[Path]) -> list[list[Path]]:
    """Return the notebooks in three stages; each reads results of the earlier ones."""
    stages: list[list[Path]] = [[], [], []]
    for path in paths:
        study = notebook.study_of(path)
        stages[1 - (study in _FIRST) + (study in _LAST)].append(path)
    return stages


def _execute(run: str, path: Path) -> tuple[Path, str | None]:
    try:
        given, kernels = parameters(run, path), notebook.Kernels(forked=True)
        given["measure"] = False
        notebook.run(path, run=run, parameters=given, kernels=kernels)
    except notebook.NotebookError as error:
        return path, str(error)
    except ParameterError as error:  # of a notebook that allowed more when it was run
        return path, f"{path.stem}: {error}"
    return path, None


def _begin_worker() -> None:
    kernel_server.end_with_parent()
    # at Ctrl-C its own traceback would tell nobody anything; `notebook.run` listens
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _in_worker(run: str, path: Path) -> tuple[Path, str | None]:
    try:
        return _execute(run, path)
    except KeyboardInterrupt:
        os._exit(130)


def executed(run: str, path: Path) -> Path | None:
    """Return a study's executed notebook in a run; None where there is none."""
    folder = study_folder(run, notebook.study_of(path))
    return next((folder / n for n in _NAMES if (folder / n).is_file()), None)


def parameters(run: str, path: Path) -> dict[str, Any]:
    """Return the parameters a study was measured with that its notebook still has.

    FileNotFoundError without an executed notebook of that study, NotebookError where
    that cannot be read.
    """
    source = executed(run, path)
    if source is None:
        raise FileNotFoundError(f"runs/{run} holds no executed {path.name}")
    content = read_json(source)
    if content is None:
        where = f"runs/{run}/{source.parent.name}/{source.name}"
        raise notebook.NotebookError(f"{path.stem}: {where} cannot be read")
    names = declared(path).keys() - {"run", "root", "measure"}
    values = content["metadata"].get("papermill", {}).get("parameters", {})
    return {name: value for name, value in values.items() if name in names}
