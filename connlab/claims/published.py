"""Published tables of earlier reports, and a rule about their numbers alone."""

from collections.abc import Mapping, Sequence

import pandas as pd

from connlab import schema
from connlab.claims.finding import Finding, Untestable, Verdict
from connlab.intervals import interval


def published(name: str) -> pd.DataFrame:
    """Return a published table, its repeated tests as rows.

    Columns test_1, test_2 … become one row each, in ``test`` and ``value``.
    """
    path = schema.project_root() / "paper" / "published" / name
    table = pd.read_csv(path, comment="#")
    tests = [c for c in table if c.startswith("test_")]
    if not tests:
        return table
    keys = [c for c in table if c not in tests]
    return table.melt(keys, tests, var_name="test", value_name="value")


def published_rates(
    table: pd.DataFrame,
    *,
    clients: str,
    times: Mapping[str, float],
    at_least: int,
    between: Sequence[float],
    by: str | None = None,
    most: bool = False,
) -> Finding:
    """Judge whether published times imply one rate, whatever the server and the load.

    In a closed loop throughput is clients / response time. `times` maps the columns of
    response times to seconds a unit. Rows that share a level of `by` are of one cell,
    whose rate is their mean. The claim is of all cells or, with `most`, of more than
    half of them. The effect is the mean rate over the published cells; its interval
    treats cells as trials, as there are none.
    """
    rows = table[table[clients] >= at_least]
    seconds = rows[list(times)].apply(pd.to_numeric, errors="coerce") * times
    per_row = (1 / seconds).mul(rows[clients], axis=0)
    if by is not None:
        per_row = per_row.groupby(rows[by]).mean()
    rates = per_row.stack().dropna()
    if len(rates) < 2:
        raise Untestable("fewer than 2 published cells")
    inside = int(rates.between(*between).sum())
    why = f"{inside} of {len(rates)} published cells lie between the bounds"
    enough = inside > len(rates) / 2 if most else inside == len(rates)
    verdict: Verdict = "does not hold" if most or not inside else "holds in part"
    return Finding("holds" if enough else verdict, why, interval(rates), "requests/s")
