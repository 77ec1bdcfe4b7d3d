"""Runs as frames: one row per trial; nothing is dropped or mixed silently.

    trials.jsonl -> one row per trial (load)
                 -> one row per window of a trial (load_windows)

A trial that failed, or that a gate flagged, stays in the frame: `ok` is False
and `reason` says why in a few words. `usable` leaves it out of intervals, `cells`
counts the usable trials and the reasons of the others.
"""

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import pandas as pd
from pydantic import ValidationError

from connlab import schema
from connlab.parameters import check_gates, suggestion
from connlab.rounds import Rounds
from connlab.study.formatting import listing
from connlab.study.turns import carried

LIMITS = {
    "descriptors": "no descriptors left",
    "fd_setsize": "beyond FD_SETSIZE",
    "threads": "no more threads",
    "processes": "no more processes",
    "ports": "no source ports left",
    "queue": "queue full",
    "queue_full": "queue full",
    "memory": "out of memory",
    "backlog": "backlog full",
    "workers": "all workers busy",
    "one-at-a-time": "the others wait",
}
"""How a limit that a trial met is printed."""

GATES = {
    "workers": "fewer workers than asked for",
    "verified": "answers differ",
    "arrivals": "arrivals not as asked",
    "load": "too few users ask at once",
    "lag": "client sent late",
    "quiet": "machine busy",
    "census": "connections lost",
}
"""How a failed gate is printed; likely causes of other failures come first."""

FAILURES = {
    "server-start": "server did not start",
    "server-died": "server died",
    "client-failed": "client failed",
    "client-hung": "client hung",
    "no-connection": "no connection",
    "no-requests": "no answer",
    "unavailable": "not available here",
    "host-lost": "host lost",
}
"""How a failed trial is printed in short, by the failure's kind."""


Cell = Mapping[str, Any]
"""Levels by column; a list allows several, and None stands for a missing one."""


class RunError(Exception):
    """A run that cannot be read as asked; the message says what there is."""


class NoTrials(RunError):
    """A run without a whole trial of the kind that is asked for."""


class RunWarning(UserWarning):
    """A run that can be read, with something to know about it."""


def load(
    run: str,
    study: str,
    *,
    root: str | Path = "runs",
    accept: Sequence[str] = (),
    only: Cell | Sequence[Cell] | None = None,
    measure: bool = True,
    warn: bool = True,
) -> pd.DataFrame:
    """Return the trials of one study of one run, one row each.

    Parameters
    ----------
    run, study : str
        Names of the folders below `root`.
    root : str or Path
        Where runs stand; a relative path counts from the project's folder.
    accept : sequence of str
        Gates whose failure leaves no trial out ("quiet" on a machine that never is);
        the notes say how many trials that lets in.
    only : Cell, or several of them, optional
        Take only trials with these settings, or with those of any: what a study neither
        varies nor compares has to be alike, and a run may hold trials that were asked
        for with other parameters. The notes say how many trials were left out.
    measure : bool
        False: take the trials that the study's notebook took, by `recorded_settings`
        in place of `only`: others may have had other defaults then.
    warn : bool
        Whether to warn of the notes; not where the study's notebook has done so.

    Returns
    -------
    DataFrame
        Columns of `connlab.schema.COLUMNS`, then `reason` (text, missing for a
        usable trial) and any factor that `COLUMNS` does not know; where servers took
        turns, `set` (text) and `rounds` (`connlab.rounds.Rounds`). `carried`
        marks the baseline measured once more, beside many or in a set that was split.
        Sorted by block and order. ``attrs`` holds run, study, folder (str), registry
        (the server's models, if the manifest has them), settings (by which trials were
        taken; None: all were) and notes: sentences about what is missing or was left
        out.

    Raises
    ------
    NoTrials
        No such run or study; no trial that is as `only`.
    RunError
        Trials of different environments (kernel, CPU, mitigations, binaries), or of a
        newer schema that this version cannot read.

    Warns
    -----
    RunWarning
        Once for each note, if asked to.
    """
    trials, notes = _read(run, study, root)
    _check_environment(trials)
    types = {c.name: c.dtype for c in schema.COLUMNS} | {"reason": "string"}
    frame = pd.DataFrame([_row(t) for t in trials]).astype(types)
    frame = frame.sort_values(["block", "order"], ignore_index=True)
    if not measure:
        only = recorded_settings(run, study, root=root)
    if only is not None:
        only = [only] if isinstance(only, Mapping) else only
        frame = _only(frame, only, notes)
    frame = _accepting(frame, accept, notes)
    folder = schema.study_folder(run, study, root=root)
    _note_half_run(folder, int((~carried(frame)).sum()), notes)
    models = (load_manifest(run, root=root).get("registry") or {}).get("models", ())
    frame.attrs = {
        "run": run,
        "study": study,
        "folder": str(folder),
        "registry": _Shared(models),
        "settings": None if only is None else _Shared(only),
        "notes": notes,
    }
    for note in notes if warn else ():
        warnings.warn(f"{run}/{study}: {note}", RunWarning, stacklevel=2)
    return frame


class _Shared(list):
    """A list that copies of a frame share: pandas copies `attrs` at every step."""

    def __deepcopy__(self, memo: dict) -> Self:
        return self


def load_windows(run: str, study: str, *, root: str | Path = "runs") -> pd.DataFrame:
    """Return one row per trial and window of its client's timeline.

    Columns key, window (0 …), start_s, requests, throughput_rps.
    """
    rows = []
    for trial in _read(run, study, root)[0]:
        line = trial.get("timeline") or {}
        step = line.get("step_ms", 0) / 1000
        for i, requests in enumerate(line.get("requests", ())):
            start = line["start_ms"] / 1000 + i * step
            rows.append((trial["key"], i, start, requests, requests / step))
    columns = ["key", "window", "start_s", "requests", "throughput_rps"]
    return pd.DataFrame(rows, columns=columns)


def load_manifest(run: str, *, root: str | Path = "runs") -> dict:
    """Return ``manifest.json`` of a run; an empty mapping when there is none."""
    return schema.read_json(schema.run_folder(run, root=root) / "manifest.json") or {}


def recorded_settings(
    run: str, study: str, *, root: str | Path = "runs"
) -> list[dict] | None:
    """Return the settings by which a study's notebook took trials; None: it took all.

    ``results.json`` keeps them.
    """
    path = schema.study_folder(run, study, root=root) / "results.json"
    return (schema.read_json(path) or {}).get("settings")


def untimed_lines(
    run: str, study: str, file: str, *, root: str | Path, size: int | None = None
) -> list[dict]:
    """Return the lines of a study's file of what was measured apart from trials.

    Those of failures are left out, and with `size` those of messages of another one.
    """
    path = schema.study_folder(run, study, root=root) / file
    rows = (row for row in schema.read_log(path).trials if not row.get("failure"))
    return [row for row in rows if size in (None, row.get("size"))]


def as_trials(frame: pd.DataFrame) -> pd.DataFrame:
    """Return rows of which each counts, as intervals take trials."""
    return frame.assign(ok=True, label=None, reason=None)


def select(frame: pd.DataFrame, cell: Cell) -> pd.DataFrame:
    """Return the trials of one cell; empty where the study has no such factor."""
    chosen = pd.Series(True, index=frame.index)
    for column, level in cell.items():
        if column not in frame:
            return frame.iloc[:0]
        allowed = level if isinstance(level, list) else [level]
        given = [each for each in allowed if each is not None]
        values = frame[column]
        chosen &= values.isin(given) | (values.isna() & (len(given) < len(allowed)))
    return frame[chosen]


def no_column(what: str, name: str, frame: pd.DataFrame) -> str:
    """Return the text of an error about a name that is no column of a frame."""
    hint = suggestion(name, map(str, frame))
    return f"unknown {what} {name!r}; {hint}runs/README.md lists the columns of trials"


def usable(frame: pd.DataFrame, *needs: str) -> pd.DataFrame:
    """Return the trials that may enter an interval.

    The rule: they are `counted`, and every column in `needs` has a value.
    """
    return frame[counted(frame) & frame[list(needs)].notna().all(axis=1)]


def passed(frame: pd.DataFrame) -> pd.Series:
    """Mark the trials without a failure that passed every gate."""
    return frame["ok"].fillna(False).astype(bool)


def counted(frame: pd.DataFrame) -> pd.Series:
    """Mark the trials that means, counts and figures are made of.

    They passed, and are no baseline measured once more, which counts in ratios only.
    """
    return passed(frame) & ~carried(frame)


def kept_all(frame: pd.DataFrame) -> pd.Series:
    """Mark the trials without a failure whose connections all survived."""
    kept = (frame["surviving"] == frame["connections"]) & frame["failure"].isna()
    return kept.fillna(False).astype(bool)


def not_accepted(frame: pd.DataFrame) -> pd.Series:
    """Mark the trials whose server had yet to accept connections, if it counts them."""
    behind = frame.get("accepted", frame["connections"]) < frame["connections"]
    return behind.fillna(False).astype(bool)


def failed_only(frame: pd.DataFrame, gates: Sequence[str]) -> pd.Series:
    """Mark the trials that failed no gates but these, and at least one of them.

    Findings, which leave no trial out, do not matter.
    """
    if "gates_failed" not in frame:
        return pd.Series(False, index=frame.index)
    texts = frame["gates_failed"].fillna("").astype(str)
    failed = [set(text.split(", ")) & {*schema.EXCLUDING, *gates} for text in texts]
    only = [bool(names) and names <= set(gates) for names in failed]
    return pd.Series(only, index=frame.index, dtype=bool) & frame["failure"].isna()


def cells(frame: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Count the trials of every cell, usable or not, with the commonest reason.

    Columns `by`, which define a cell, trials, used, reason (the most frequent among
    those left out; missing when none was).
    """
    facts = frame[["reason"]].assign(used=passed(frame))
    # Series, as pandas takes a list of as many arrays as rows for labels.
    groups = facts.groupby([frame[column] for column in by], sort=False, dropna=False)
    rows = []
    for values, cell in groups:
        reasons = Counter(cell["reason"].dropna()).most_common(1)
        why = reasons[0][0] if reasons else None
        rows.append((*values, len(cell), int(cell["used"].sum()), why))
    table = pd.DataFrame(rows, columns=[*by, "trials", "used", "reason"])
    return table.astype({"reason": "string"})


# ---- reading -----------------------------------------------------------------


def _read(run: str, study: str, root) -> tuple[list[dict], list[str]]:
    """Return the trials of a study, and notes on what cannot be read.

    RunError for a line of a newer schema that is no trial to this version.
    """
    path = _find(run, study, root)
    log = schema.read_log(path)
    for line in log.trials:
        version = line.get("schema")
        newer = isinstance(version, int) and version > schema.SCHEMA
        if newer and not schema.is_trial(line):
            raise RunError(
                f"trials of schema {version}: this program reads {schema.SCHEMA}"
            )
    trials, notes = log.by_key()
    if not trials:
        raise NoTrials(f"{run}/{study}: {path.name} holds no whole trial")
    schema.note_moves(trials.values())
    return list(trials.values()), notes


def _find(run: str, study: str, root) -> Path:
    folder = schema.study_folder(run, study, root=root)
    path = schema.facts_file(folder / schema.TRIALS)
    if path.is_file():
        return path
    if folder.parent.is_dir():
        message, name = f"run {run!r} has no study {study!r}", study
        candidates = {p.parent for p in folder.parent.glob(f"*/{schema.TRIALS}*")}
    else:
        message, name = f"there is no run {run!r}", run
        candidates = {p for p in folder.parent.parent.glob("*") if p.is_dir()}
    names = sorted(p.name for p in candidates)
    hint, known = suggestion(name, names), ", ".join(names) or "nothing"
    raise NoTrials(f"{message}; {hint}there is: {known}")


def _check_environment(trials: Sequence[dict]) -> None:
    count = Counter(trial["environment"] for trial in trials)
    if len(count) > 1:
        classes = ", ".join(f"{name} ({n} trials)" for name, n in count.most_common())
        raise RunError(
            f"trials of {len(count)} environments (kernel, CPU, mitigations or "
            f"binaries differ) do not mix: {classes}. Each needs a run of its own"
        )


def _note_half_run(folder: Path, trials: int, notes: list[str]) -> None:
    try:
        text = (folder / "progress.json").read_text()
        beat = schema.Heartbeat.model_validate_json(text)
    except (FileNotFoundError, ValidationError):
        return
    if beat.state != "done":
        state = "was still running" if beat.state == "running" else "ended early"
        why = beat.message or f"{trials} of {beat.planned} planned trials"
        notes.append(f"the sweep {state}: {why}")


def _only(frame: pd.DataFrame, kinds: Sequence[Cell], notes: list[str]) -> pd.DataFrame:
    """Return the trials that are as one of the kinds asked for, and note the others."""
    found = [index for kind in kinds for index in select(frame, _as_text(kind)).index]
    kept = frame.index.isin(found)
    if kept.all():
        return frame
    if not kept.any():
        texts = (", ".join(f"{k} {v}" for k, v in kind.items()) for kind in kinds)
        raise NoTrials(f"none of {len(frame)} trials has {'; or '.join(texts)}")
    taken, left = frame[kept], frame[~kept]
    names = [
        name.replace("_", " ")
        for name in dict.fromkeys(name for kind in kinds for name in kind)
        if not set(left[name].dropna()) <= set(taken[name].dropna())
    ]
    many = "1 trial was" if len(left) == 1 else f"{len(left)} trials were"
    notes.append(f"{many} left out, of another {listing(names) or 'kind'}")
    return taken.reset_index(drop=True)


def _as_text(kind: Cell) -> dict[str, Any]:
    """Return settings with the levels of text columns as text, as `load` has them."""
    texts = {column.name for column in schema.FACTORS if column.dtype == "string"}
    lists = {k: v if isinstance(v, list) else [v] for k, v in kind.items()}
    return {
        name: [x if x is None else str(x) for x in levels] if name in texts else levels
        for name, levels in lists.items()
    }


def _accepting(frame: pd.DataFrame, accept: Sequence[str], notes) -> pd.DataFrame:
    if not accept:
        return frame
    check_gates(accept)
    let_in = failed_only(frame, accept) & ~passed(frame)
    if let_in.any():
        failed = {*", ".join(frame.loc[let_in, "gates_failed"]).split(", ")}
        which = listing(GATES[gate] for gate in accept if gate in failed & {*GATES})
        many = "1 trial was" if let_in.sum() == 1 else f"{let_in.sum()} trials were"
        notes.append(f"{many} used on request although flagged: {which}")
    return frame.assign(
        ok=frame["ok"] | let_in, reason=frame["reason"].mask(let_in, pd.NA)
    )


def _row(trial: dict) -> dict:
    row = {**schema.flatten(trial), "reason": _reason(trial)}
    turns = trial.get("turns") or {}
    if turns:
        row |= {"set": turns["set"], "rounds": Rounds(trial)}
    return {**row, "carried": bool(turns.get("carried"))}


def _reason(trial: dict) -> str | None:
    """Return why a trial is left out, in a few words that fit on a figure.

    A limit that was met, by the label or the server's count, explains lost connections;
    else the gate that is likeliest to be the cause of the others.
    """
    failure, failed = trial.get("failure"), schema.excluding(trial)
    if not failure and not failed:
        return None
    kind, _, limit = (trial.get("label") or "").partition(":")
    if kind != "limit-bound":
        limit = schema.refused_reason(trial)
    if limit and (failure or "census" in failed):
        return LIMITS.get(limit, limit)
    if failure:
        return FAILURES.get(failure["kind"], failure["reason"])
    cause = next(gate for gate in GATES if gate in failed)
    if cause == "verified" and not schema.pick(trial, "client.errors.mismatch"):
        return "errors answered"
    return GATES[cause]
