"""Judge the claims of a run once: again only when an input of a verdict changed.

    trials of its studies + claims.yml + published tables + code, libraries -> key
        key and verdicts as they were left -> nothing to do
        anything else                      -> judge, keep the key

The key is a digest of everything that a verdict is made from, so a new trial or a
changed rule is noticed. It is kept below ``build/``: the run stays as it was measured.
"""

import hashlib
import importlib.metadata
import json
import sys
from collections.abc import Iterator, Sequence, Set
from itertools import chain
from pathlib import Path

from connlab import claims, schema

CLAIMS = "claims"
REREADINGS = "rereadings.yml"
_FACTS = (".json", ".jsonl", ".gz", ".csv")
_LIBRARIES = ("numpy", "pandas", "pydantic", "scipy")


def judge(
    run: str,
    *,
    root: str | Path = "runs",
    ledger: str | Path = "paper/claims.yml",
    kept: str | Path = "build/judged",
) -> str:
    """Judge the ledger by the trials of a run; return the sentence of counts.

    Relative paths count from the project's folder; `kept` is the folder of the keys.
    """
    base = schema.project_root()
    folder = schema.run_folder(run, root=root)
    verdicts = folder / CLAIMS / "results.json"
    note = base / kept / f"{hashlib.sha256(bytes(folder.resolve())).hexdigest()}.json"
    ledgers = [base / ledger, (base / ledger).parent / REREADINGS]
    current = _key(folder, ledgers)
    if schema.read_json(note) == {"key": current, "verdicts": _digest(verdicts)}:
        return json.loads(verdicts.read_text("utf-8"))["answer"]
    shared: dict[str, tuple] = {}
    judged, rereadings = (
        claims.judge_all(run, root=root, path=path, studies=shared)
        if path.is_file()
        else ()
        for path in ledgers
    )
    claims.write(judged, run, rereadings=rereadings, root=root)
    note.parent.mkdir(parents=True, exist_ok=True)
    content = {"key": current, "verdicts": _digest(verdicts)}
    note.write_text(json.dumps(content), "utf-8")
    return claims.answer(judged)


def _key(run: Path, ledgers: Sequence[Path]) -> str:
    """Return a digest of all that the verdicts on a run's folder are made from."""
    published = schema.project_root() / "paper" / "published"
    code = Path(schema.__file__).parent.parent
    parts = [sys.version, *(f"{n} {importlib.metadata.version(n)}" for n in _LIBRARIES)]
    entries = chain.from_iterable(map(claims.ledger, filter(Path.is_file, ledgers)))
    studies = {study for claim in entries for study in claim.studies}
    for folder, files in (
        (run, _facts(run, studies)),
        (ledgers[0].parent, ledgers),
        (published, sorted(published.glob("*.csv"))),
        (code, sorted([*code.rglob("*.py"), *code.rglob("*.csv")])),
    ):
        parts += [f"{p.relative_to(folder)} {_digest(p)}" for p in files]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _facts(run: Path, studies: Set[str]) -> Iterator[Path]:
    """Give the files of a run that verdicts are made from: its own, and of studies."""
    for path in sorted(run.rglob("*")):
        *above, _ = path.relative_to(run).parts
        of_study = not above or above[0] in studies
        if path.suffix in _FACTS and of_study and "figures" not in above:
            yield path


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except FileNotFoundError:
        return "none"
