"""A study's report: what its notebook hands to the paper, and how it is read back.

    report = Report(trials, number=1, question="…", factors=["model", "connections"])
    report.cells(cells)            -> cells.csv    every printed number is a row of one
    report.ratios(pairs)           -> ratios.csv   of these two tables
    report.figure("throughput", g) -> figures/throughput.svg, .pdf, .csv
    report.table("tails", frame)   -> a table of text
    report.claim("poll-scans", pairs.query("…"), "higher")
    report.write()                 -> results.json, last and at once

Captions, alternative texts and findings stand in the paper's sections, with numbers by
their address: study, metric and the levels of the factors (`address`). A claim is the
check behind a sentence there; where a run contradicts it, the paper says so.
"""

from __future__ import annotations

import contextlib
import io
import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from connlab import figures
from connlab.schema import put, study_folder
from connlab.study import results
from connlab.study.formatting import counted, in_best_unit, number_text, plain
from connlab.study.frames import GATES, RunError, load_manifest, no_column
from connlab.study.interval import Interval
from connlab.study.metrics import metric as metric_of

CELLS, RATIOS = "cells.csv", "ratios.csv"

_NUMBER = ("metric", "value", "lo", "hi", "n", "level", "method", "unit", "text")
_BESIDE = ("trials", "bound", "reason", "p", "verdict", "half_width", "study")
"""Columns of the two tables that hold no level of a factor."""

_EXPECTED = {"higher", "lower", "alike"}
"""Verdicts that a claim may expect of ratios."""


@dataclass(frozen=True)
class Claim:
    """Whether a sentence of the paper holds in this run; None: it cannot tell."""

    name: str
    holds: bool | None
    why: str

    def _repr_markdown_(self) -> str:
        words = {True: "Holds here", False: "Does **not** hold here", None: "Undecided"}
        return f"{words[self.holds]}: {self.name} ({self.why})"


class Report:
    """What one study found in one run.

    Parameters
    ----------
    trials : DataFrame
        As from `connlab.study.load`, which also says which run and study this is; None
        as of `without_trials`, which says so itself.
    number : int
        Place of the study in the paper.
    question : str
        The notebook's title.
    factors : sequence of str
        Columns that were varied.
    root : str or Path
        Where runs stand.

    Raises
    ------
    RunError
        When no trial may be used; it says why.
    ValueError
        For a factor that is no column of the trials, with the nearest one.

    Notes
    -----
    A cell that is run again replaces what it handed over before. A number keeps its
    value until the report is begun anew.
    """

    def __init__(
        self,
        trials: pd.DataFrame | None,
        *,
        number: int,
        question: str,
        factors: Sequence[str] = (),
        root: str | Path = "runs",
        run: str = "",
        study: str = "",
    ) -> None:
        about: dict[str, Any] = {"number": number, "question": question, "answer": ""}
        if trials is not None:
            if not trials["ok"].any():
                raise RunError(_none_usable(trials))
            run, study = trials.attrs["run"], trials.attrs["study"]
            for factor in factors:
                if factor not in trials:
                    raise ValueError(no_column("factor", factor, trials))
        manifest = load_manifest(run, root=root)
        about["commit"] = results.commit_of(manifest)
        about["machine"] = results.machine_of(manifest)
        if trials is not None:
            entry = (manifest.get("studies") or {}).get(study) or {}
            about["settings"] = trials.attrs.get("settings")
            about["trials"] = results.count_trials(trials)
            about["stopping"] = results.stopping_of(entry)
            about["failures"] = results.failed_cells(trials, factors)
            about["notes"] = list(trials.attrs["notes"])
        about |= {"schema": results.SCHEMA, "study": study, "run": run}
        self._facts = results.Results(**about)
        self.folder = study_folder(run, study, root=root)
        self._cells: list[pd.DataFrame] = []
        self._ratios: list[pd.DataFrame] = []
        self._figures: dict[str, results.Figure] = {}
        self._tables: dict[str, results.Table] = {}

    @classmethod
    def without_trials(cls, study: str, **about: Any) -> Report:
        """Begin the report of a study that has no trials of its own.

        `about` is its run and, as of others, number, question and root.
        """
        return cls(None, study=study, **about)

    def cells(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Keep intervals of cells (`connlab.intervals.intervals`); return them."""
        self._cells.append(_with_text(frame))
        return frame

    def ratios(
        self, frame: pd.DataFrame, cells: pd.DataFrame | None = None
    ) -> pd.DataFrame:
        """Keep ratios of pairs (`connlab.intervals.ratios`); return them.

        With the `cells` of both sides (`connlab.intervals.intervals` of the same
        metric) a column bound says which ratios are bounds: those of which the client
        was the bottleneck of one side.
        """
        if cells is not None:
            frame = frame.assign(bound=_bounds(frame, cells))
        self._ratios.append(_with_text(frame))
        return frame

    def figure(
        self,
        name: str,
        drawn: sns.FacetGrid | Figure | Axes,
        data: pd.DataFrame | None = None,
    ) -> None:
        """Save a picture and the values that it shows.

        The section shows it as ``_generated/STUDY/NAME.svg``.

        Parameters
        ----------
        name : str
            Unique within the study.
        data : DataFrame, optional
            Offered beside it as CSV and as a table of values.
        """
        folder = self.folder / "figures"
        saved = figures.save(drawn, folder, name)
        figures.show(drawn, folder / saved["svg"])
        files = {kind: f"figures/{file}" for kind, file in saved.items()}
        values = None
        if data is not None:
            values = f"figures/{name}.csv"
            _write_csv(data, self.folder / values)
        entry = results.Figure(id=f"fig-{name}", files=files, data=values)
        self._figures[name] = entry

    def table(
        self, name: str, frame: pd.DataFrame, labels: Mapping[str, str] | None = None
    ) -> pd.DataFrame:
        """Keep a table of text; return it to be shown.

        The section includes it as ``_generated/STUDY/tbl-NAME.qmd``, its caption below.

        Parameters
        ----------
        name : str
            Unique within the study.
        frame : DataFrame
            Columns as they are to be printed; a missing value becomes a dash.
        labels : mapping of str to str, optional
            Heads of columns that differ from their names.
        """
        heads = [(labels or {}).get(c, _head(str(c))) for c in frame]
        text = frame.map(lambda v: "—" if pd.isna(v) or v == "" else level(v))
        columns = [
            results.Column(name=str(c), label=head)
            for c, head in zip(frame, heads, strict=True)
        ]
        rows = text.to_numpy().tolist()
        entry = results.Table(id=f"tbl-{name}", columns=columns, rows=rows)
        self._tables[name] = entry
        return text.set_axis(heads, axis=1)

    def claim(
        self,
        name: str,
        result: bool | pd.DataFrame | None,
        expected: str | Sequence[str] = (),
    ) -> Claim:
        """Check a sentence that the paper prints; return whether it holds.

        Parameters
        ----------
        name : str
            As the section names it: ``[…]{.claim of="STUDY/NAME"}``.
        result : bool, None or DataFrame
            Whether it holds, or rows of `connlab.intervals.ratios`: then it holds when
            all have an expected verdict, does not when one has another, and is
            undecided when one is undetermined or there is none.
        expected : str or sequence of str
            Verdicts of `result`.

        Raises
        ------
        ValueError
            When no ratio can have an expected verdict.
        """
        if isinstance(result, pd.DataFrame):
            allowed = {expected} if isinstance(expected, str) else set(expected)
            if not allowed or allowed - _EXPECTED:
                given = f"claim {name!r}: expected {expected!r}"
                raise ValueError(f"{given}; allowed: {', '.join(sorted(_EXPECTED))}")
            holds, why = _judge(result["verdict"], allowed), _ratios_text(result)
        else:
            holds = None if result is None else bool(result)
            why = "as computed above"
        self._facts.claims[name] = results.Claimed(holds=holds)
        return Claim(name, holds, why)

    def finding(self, text: str) -> str:
        """Keep a sentence with numbers of this run, for the list below the summary."""
        if text not in self._facts.findings:
            self._facts.findings.append(text)
        return text

    def lines(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Keep floors and ceilings that the figures of other studies draw."""
        self._facts.lines = list(records)

    def note(self, text: str) -> None:
        """Keep what a reader should know of these trials."""
        if text not in self._facts.notes:
            self._facts.notes.append(text)

    def counts_all(self, *, broke: pd.Series, left_out: pd.Series) -> None:
        """Say that all trials count: a server broke in some, a check failed in others.

        Parameters
        ----------
        broke, left_out : Series of bool
            By trial. The summary of the study then counts these, in place of trials
            used and left out.
        """
        counts = {"broke": int(broke.sum()), "unsound": int(left_out.sum())}
        self._facts.trials |= counts

    def answer(self, text: str) -> str:
        """Set the answer to the question, one or two sentences."""
        self._facts.answer = text
        return text

    def write(self) -> Path:
        """Write cells.csv, ratios.csv and results.json; return the path of the last."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for name, parts in ((CELLS, self._cells), (RATIOS, self._ratios)):
            _write_table(self.folder / name, parts, self._facts.study)
        self._facts.figures = list(self._figures.values())
        self._facts.tables = list(self._tables.values())
        self._facts.words = {
            address("", row["metric"], levels(row)): results.Word(word=word(row))
            for table in self._ratios
            for row in table.to_dict("records")
        }
        return results.write(self._facts, self.folder)

    def _repr_markdown_(self) -> str:
        return f"**{self._facts.answer}**"


def not_measured(run: str, study: str, *, reason: str, **about: Any) -> None:
    """Write results with the reason why a study has none, and end its notebook.

    By SystemExit with status 0, which papermill takes for the notebook's regular end.
    `about` is what `Report` is told: number, question and root.
    """
    report = Report.without_trials(study, run=run, **about)
    report.answer(f"Not measured here: {reason}.")
    report.write()
    warnings.filterwarnings("ignore", message="To exit: use")  # which nobody can
    raise SystemExit(0)


def _none_usable(trials: pd.DataFrame) -> str:
    text = f"none of {counted(len(trials), 'trial')} may be used"
    reasons = trials["reason"].value_counts()
    if reasons.empty:
        return text
    why, many = reasons.index[0], reasons.iloc[0]
    gate = next((gate for gate, failed in GATES.items() if failed == why), None)
    hint = f"; -p accept '[{gate}]' uses those all the same" if gate else ""
    of_them = trials.loc[trials["reason"] == why, "failure"].dropna()
    told = f" ({of_them.iloc[0].partition(': ')[2]})" if len(of_them) else ""
    return f"{text}, {many} of them: {why}{told}{hint}"


def _judge(verdicts: pd.Series, expected: set[str]) -> bool | None:
    unique = set(verdicts)
    if unique - expected - {"undetermined"}:
        return False
    return True if unique and unique <= expected else None


def _ratios_text(pairs: pd.DataFrame) -> str:
    """Return the first ratios that a claim rests on."""
    texts = list(filter(None, _bounded(pairs)))
    more = f" and {len(texts) - 4} more" if len(texts) > 4 else ""
    return f"ratio {', '.join(texts[:4])}{more}" if texts else "not measured here"


def _head(column: str) -> str:
    """Return the head of a column; what is no identifier is text, as io_uring is."""
    return column.replace("_", " ") if column.isidentifier() else column


def word(row: Mapping[str, Any]) -> str:
    """Return the verdict of a ratio as one word of a sentence.

    ``faster`` or ``slower`` of rates and times, ``more`` or ``less`` of what is used,
    ``alike``, ``undetermined``.
    """
    verdict = row["verdict"]
    if verdict not in ("higher", "lower"):
        return verdict
    if metric_of(row["metric"]).unit.endswith("/s"):
        return "faster" if verdict == "higher" else "slower"
    if row["metric"].startswith(("response", "service", "connect", "slice_")):
        return "slower" if verdict == "higher" else "faster"
    return "more" if verdict == "higher" else "less"


def number(row: Mapping[str, Any], *, unit: str | None = None) -> str:
    """Return a row's value with its interval, in the unit that reads best."""
    i = Interval.of_row(row)
    base = _unit(row) if unit is None else unit
    if base == "count" and not i.determined and i.value == round(i.value):
        return plain(i.value)  # counted, not estimated
    return number_text(*in_best_unit(i, base))


def _unit(row: Mapping[str, Any]) -> str:
    return "1" if "against" in row else metric_of(row["metric"]).unit


def text_table(
    cells: pd.DataFrame, *, rows: str | Sequence[str], columns: str
) -> pd.DataFrame:
    """Return numbers with their intervals as a table of text.

    Parameters
    ----------
    cells : DataFrame
        As from `connlab.intervals.intervals` or `ratios`.
    rows : str or sequence of str
        Columns that name a row.
    columns : str
        Column whose levels stand side by side.

    Returns
    -------
    DataFrame
        The columns `rows`, then a column of text per level; empty where a cell has no
        number. Each is in the unit that reads best, and a bound says that it is one.
    """
    rows = [rows] if isinstance(rows, str) else list(rows)
    texts = cells.assign(text=_bounded(cells))
    wide = texts.pivot(index=rows, columns=columns, values="text")
    wide = wide[list(dict.fromkeys(cells[columns]))]
    wide.columns = [level(c) for c in wide.columns]
    return wide.reset_index()


def _with_text(frame: pd.DataFrame) -> pd.DataFrame:
    table = frame.copy()
    if "unit" not in table:
        table["unit"] = [_unit(row) for row in table.to_dict("records")]
    table["text"] = [
        number(row, unit=row["unit"]) if math.isfinite(row["value"]) else ""
        for row in table.to_dict("records")
    ]
    return table


def _write_table(path: Path, frames: Sequence[pd.DataFrame], study: str) -> None:
    if not frames:
        path.unlink(missing_ok=True)
        return
    table = pd.concat(frames, ignore_index=True)
    table = table[~table.astype(str).duplicated()]  # of a cell that was run again
    factors = [c for c in table if c not in _NUMBER and c not in _BESIDE]
    beside = [c for c in _BESIDE if c in table]
    table.insert(0, "study", study)
    duplicates = table[table.duplicated(["metric", *factors])]
    if len(duplicates):
        row = duplicates.iloc[0]
        where = f"{row['metric']} stands twice for {levels(row.to_dict())}"
        raise ValueError(
            f"{where}, with two values; if a cell was changed and run again, run all "
            "from the one that says Report("
        )
    _write_csv(table[["study", *factors, *_NUMBER, *beside]], path)


def _write_csv(table: pd.DataFrame, path: Path) -> None:
    """Write a table, unless the file holds it but for the last digits.

    These differ by processor, which may add in another order: a committed run does not
    change.
    """
    text = table.to_csv(index=False)
    with contextlib.suppress(FileNotFoundError, ValueError, AssertionError):
        tables = pd.read_csv(path), pd.read_csv(io.StringIO(text))
        pd.testing.assert_frame_equal(*tables, rtol=1e-9, atol=0)
        return
    put(path, text.encode())


def levels(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the levels of factors in a row of the two tables."""
    return {
        k: v
        for k, v in row.items()
        if k not in _NUMBER and k not in _BESIDE and not pd.isna(v)
    }


def address(study: str, metric: str, factors: Mapping[str, Any]) -> str:
    """Return the address of a number: ``study/metric connections=50 model=epoll``."""
    pairs = [f"{k}={level(v)}" for k, v in sorted(factors.items())]
    return " ".join([f"{study}/{metric}" if study else metric, *pairs])


def level(value: Any) -> str:
    """Return a level as an author writes it: 50, 0.5, epoll."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def numbers(folder: Path) -> dict[str, dict[str, Any]]:
    """Return every number of a study's folder by its address.

    With study, metric, value, lo, hi, n, level, method, unit, text, the levels of its
    factors, bound (as from `bound`), and of ratios the verdict. The text of what the
    client limited says that it is a bound.
    """
    paths = [folder / name for name in (CELLS, RATIOS)]
    as_it_is = {"text": str}  # where all are counts, 5101 would become 5101.0
    tables = [pd.read_csv(path, dtype=as_it_is) for path in paths if path.is_file()]
    by_address = {}
    for row in (row for table in tables for row in table.to_dict("records")):
        facts = {k: row[k] for k in (*_NUMBER, "verdict") if k in row}
        facts = {k: None if pd.isna(v) else v for k, v in facts.items()}
        facts |= {"study": folder.name, "bound": bound(row)}
        if facts["text"]:
            facts["text"] = with_bound(row, facts["text"])
        facts["levels"] = levels(row)
        by_address[address(folder.name, row["metric"], facts["levels"])] = facts
    return by_address


def bound(row: Mapping[str, Any]) -> str:
    """Return what stands before a number that the client limited, else nothing.

    The server could only be better: its rate higher, its times shorter. Of a ratio the
    row has the words (`Report.ratios`).
    """
    limited = row.get("bound")
    if isinstance(limited, str):
        return limited
    if limited is not True:
        return ""
    return "at least" if metric_of(row["metric"]).better == "higher" else "at most"


def with_bound(row: Mapping[str, Any], text: str) -> str:
    """Return a row's number as text, and that it is a bound, if it is one."""
    return f"{bound(row)} {text}".strip() if text else ""


def _bounded(frame: pd.DataFrame) -> list[str]:
    rows = _with_text(frame).to_dict("records")
    return [with_bound(row, row["text"]) for row in rows]


OPPOSITE = {"at least": "at most", "at most": "at least", "": ""}
"""What a bound of a number, as from `bound`, is of its inverse."""


def _bounds(pairs: pd.DataFrame, cells: pd.DataFrame) -> list[str]:
    """Return what stands before each ratio, as from `bound`.

    A better client would find a limited side better than it was. Where both sides are
    limited, their ratio may lie either way: then nothing is said, and the verdict is
    undetermined.
    """
    names = [*pairs][: [*pairs].index("against")]  # what the sides share, then the side
    limited = cells.loc[cells["bound"].eq(True), names]
    known = set(limited.itertuples(index=False, name=None))
    words = []
    for row in pairs.to_dict("records"):
        arm = tuple(row[name] for name in names)
        sides = arm in known, (*arm[:-1], row["against"]) in known
        word = bound({**row, "bound": sides[0] != sides[1]})
        words.append(word if sides[0] else OPPOSITE[word])
    return words
