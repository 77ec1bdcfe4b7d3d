"""The references beside a run: what each found, and whether they agree.

    runs/NAME                  --+--> per claim: verdicts, and whether they agree
    runs/reference-PROCESSOR … --+--> per model: a number here, and the same one there

``runs/reference`` is a link to the first of them. Nothing is computed here but counts.
A reference stands beside the others; a run without any is printed alone.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from connlab.publish import fragments, provenance, results, sources
from connlab.publish import markdown as md
from connlab.publish.results import Run
from connlab.study.formatting import plain
from connlab.study.results import Results

NAME = "reference"
CLAIMS = "claims"
LEDGERS = ("claims.yml", "rereadings.yml")
REMARKS = "runs.yml"
HEADLINE = "response-time"
PIECES = Path("_generated", NAME)
UNTESTED = "not testable here"

AGREES, DIFFERS = "agrees", "differs"
ONLY_THERE, ONLY_HERE = "not tested here", "not tested there"
NEITHER = "tested by neither"
NO_TRIALS = "needs no trials"
"""Of claims about published numbers: both runs find the same by necessity."""


def others(run: Run) -> dict[str, Run]:
    """Load the references beside the folder of a run, itself left out.

    They are called by their processors, or by their names where processors repeat.
    Those without results of any study are left out as well.
    """
    runs = [
        results.load_run(folder.name, root=folder.parent, trials=False)
        for folder in folders(run.folder.parent)
        if folder != run.folder.resolve()
    ]
    named = [(processor(other), other) for other in runs if other.evaluated]
    count = Counter(name for name, _ in named)
    return {name if count[name] == 1 else other.name: other for name, other in named}


def folders(root: Path) -> list[Path]:
    """Return the folders of references below `root`: the first, then by name."""
    first = (root / NAME).resolve()
    paths = {path.resolve() for path in root.glob(f"{NAME}-*")} | {first}
    return sorted((p for p in paths if p.is_dir()), key=lambda p: (p != first, p.name))


_NOT_THE_NAME = re.compile(r"\((?:R|TM)\)|\b(?:CPU|Processor)\b|@.*")
"""Of a processor: "Intel(R) Xeon(R) CPU @ 2.20GHz" is called "Intel Xeon"."""


def processor(run: Run) -> str:
    """Return a short name of the processor that a run was measured on."""
    cpu = (run.manifest.get("machine") or {}).get("cpu")
    return " ".join(_NOT_THE_NAME.sub(" ", str(cpu)).split()) if cpu else run.name


def joined(words: Sequence[str], names: Sequence[str]) -> str:
    """Return the one word that all say, else each with the name of who says it.

    >>> joined(["holds", "holds"], ["A", "B"]), joined(["yes", "no"], ["A", "B"])
    ('holds', 'yes (A), no (B)')
    """
    if len(set(words)) == 1:
        return words[0]
    return ", ".join(f"{w} ({n})" for w, n in zip(words, names, strict=True))


def verdicts(results: Results) -> dict[str, str]:
    """Return the verdict on each claim, from the ledger's tables."""
    by_claim: dict[str, str] = {}
    for table in results.tables:
        names = [column.name for column in table.columns]
        if {"id", "verdict"} <= set(names):
            id_, verdict = names.index("id"), names.index("verdict")
            by_claim |= {row[id_]: row[verdict] for row in table.rows}
    return by_claim


def agreement(here: str | None, there: str | None) -> str:
    """Return whether two verdicts on one claim agree.

    Only equal verdicts do: "holds" and "holds in part" differ. A claim that a run
    does not know counts as one that it could not test.
    """
    tested = [verdict not in (None, UNTESTED) for verdict in (here, there)]
    if not any(tested):
        return NEITHER
    if not all(tested):
        return ONLY_HERE if tested[0] else ONLY_THERE
    return AGREES if here == there else DIFFERS


def agreements(here: Results, there: Results, paper: Path) -> dict[str, str]:
    """Return for each claim and reading of a run whether the reference agrees.

    Those about published numbers need no trials; the ledgers know them.
    """
    entries, other = ledger(paper), verdicts(there)
    return {
        claim: NO_TRIALS
        if entries.get(claim, {}).get("published")
        else agreement(verdict, other.get(claim))
        for claim, verdict in verdicts(here).items()
    }


def ledger(paper: Path) -> dict[str, dict[str, Any]]:
    """Read the entries of both ledgers by their claim; none without a ledger."""
    texts = (sources.text_of(paper / name) for name in LEDGERS)
    return {entry["id"]: entry for text in texts for entry in _entries(text)}


@cache
def _entries(text: str) -> list[dict[str, Any]]:
    """Read a ledger, once for all who ask: a rendering asks for each reference."""
    return yaml.safe_load(text) or []


def called(label: str) -> str:
    """Return what the paper calls a reference of this label."""
    return f"the {md.escape(label)} run"


def remarks(
    run: Run | None, others: Mapping[str, Run], paper: Path, *keys: str
) -> list[str]:
    """Return what ``runs.yml`` has a reader know of a run and of its references."""
    known = yaml.safe_load(sources.text_of(paper / REMARKS)) or {}
    runs = {"this run": run} if run else {}
    runs |= {called(label): other for label, other in others.items()}
    texts = [
        (known.get(each.name) or {}).get(key, "").format(run=name)
        for name, each in runs.items()
        for key in keys
    ]
    return list(filter(None, texts))


def write(run: Run, others: Mapping[str, Run], paper: Path) -> None:
    """Write the sentences on agreement and the tables of numbers beside each other.

    ``others`` are the references by what readers call them; without any these pieces
    are empty. What is to be known of the run or of a reference is written as well.
    """
    sentences = [_agreement(run, *other, paper) for other in others.items()]
    tables = [_numbers(run, *other, paper) for other in others.items()]
    pieces = {
        "agreement": "\n\n".join(filter(None, sentences)),
        "headline": "\n\n".join(filter(None, tables)),
        "remarks": " ".join(remarks(run, others, paper, "caption", "text")),
    }
    fragments.write_all(paper / PIECES, pieces)


def _agreement(run: Run, label: str, other: Run, paper: Path) -> str:
    here, there = run.results_of(CLAIMS), other.results_of(CLAIMS)
    by_claim = agreements(here, there, paper) if here and there else {}
    if not by_claim:
        return ""
    count = Counter(by_claim.values())
    return fragments.fill(
        "agreement.qmd",
        label=md.escape(label),
        name=other.name,
        date=provenance.measured_on(other),
        claims=len(by_claim) - count[NO_TRIALS],
        both=count[AGREES] + count[DIFFERS],
        agree=count[AGREES],
        differ=sorted(
            (claim for claim, word in by_claim.items() if word == DIFFERS),
            key=_natural,
        ),
        there=count[ONLY_THERE],
        here=count[ONLY_HERE],
        neither=count[NEITHER],
    )


def _natural(claim: str) -> list[tuple[int, str]]:
    """Return what sorts L5 before L13: a number counts as one, not as digits."""
    parts = re.findall(r"\d+|\D+", claim)
    return [(int(part), "") if part.isdigit() else (-1, part) for part in parts]


_METRICS = {"response_mean_s": "mean response", "throughput_rps": "throughput"}


def _numbers(run: Run, name: str, other: Run, paper: Path) -> str:
    """Set a row per model: the highest level that both runs have a number of."""
    here, there = _texts(run), _texts(other)
    pairs = here.add_suffix(" here").join(there.add_suffix(" there"), how="inner")
    highest = pairs.sort_index().groupby("model").tail(1).fillna("—").reset_index()
    if highest.empty:
        return ""
    models = [*other.registry, *run.registry]  # a label of today is the run's
    labels = {model["name"]: model.get("label") for model in models}
    highest["model"] = highest["model"].replace(labels)
    highest["connections"] = highest["connections"].map(plain)
    columns = [f"{metric} {side}" for metric in _METRICS for side in ("here", "there")]
    rows = highest[["model", "connections", *columns]].map(md.escape)
    heads = ["model", "connections"]
    for quantity in _METRICS.values():
        heads += [f"{quantity} here", f"{quantity}, {name}"]
    label = f"tbl-{other.name}"
    theirs, stale = called(name), "**Stale.** " if run.is_stale(HEADLINE) else ""
    lead = f"@{label} sets numbers of this run beside those of {theirs}.\n\n"
    return lead + md.table(
        heads,
        rows.to_numpy().tolist(),
        caption=stale
        + fragments.caption(
            "headline",
            here=provenance.machine(run),
            theirs=theirs,
            there=provenance.machine(other),
            remarks=remarks(None, {name: other}, paper, "caption"),
        ),
        label=label,
        widths=(20, 13, 18, 18, 22, 22),
        align="lrllll",
    )


def _texts(run: Run) -> pd.DataFrame:
    rows = [
        {**row["levels"], "metric": row["metric"], "text": row["text"]}
        for address, row in run.numbers.items()
        if address.startswith(f"{HEADLINE}/")
        and set(row["levels"]) == {"model", "connections"}
    ]
    table = pd.DataFrame(rows, columns=["model", "connections", "metric", "text"])
    table["text"] = table["text"].str.replace(" requests/s", "/s")
    wide = table.pivot(index=["model", "connections"], columns="metric", values="text")
    return wide.reindex(columns=list(_METRICS)).dropna(how="all")
