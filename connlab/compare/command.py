"""The command: a plan in, a table or JSON out."""

import contextlib
import itertools
import time

import click

from connlab import schema
from connlab.compare import measure
from connlab.compare.plan import Plan
from connlab.drive import interrupt, turns
from connlab.drive.host import UsageError

#: exit status after Ctrl-C
INTERRUPTED = 130


def run(plan: Plan, *, as_json: bool = False) -> None:
    """Compare, showing how it goes; print a table, or JSON and the rest on stderr.

    What makes ratios and tables is imported when the first set has been measured: that
    takes seconds, for which the first server would have to wait. No program of ours
    runs meanwhile, so that Ctrl-C may end it at once.

    Raises ValueError with the words of a program that refuses what it is asked for.
    """
    began = time.monotonic()
    beginning = (
        f"{len(plan.servers)} servers, about {plan.set_s:.0f} s a set, "
        f"until {plan.wanted} or {plan.budget_s:g} s"
    )
    click.echo(beginning, err=as_json)
    with contextlib.closing(measure.sets(plan)) as sets:
        with interrupt.noted():
            try:
                first = next(sets, None)
            except turns.SetError as error:
                if isinstance(error.__cause__, UsageError):
                    raise ValueError(str(error)) from error
                raise
            if first is None or interrupt.requested():
                raise SystemExit(INTERRUPTED)
        from connlab.compare import comparison, screen

        console = screen.console(stderr=as_json)
        with interrupt.noted(), screen.live(console) as show:
            measured = itertools.chain([first], sets)
            result = comparison.compare(plan, measured, show=show, began=began)
    if as_json:
        print(schema.json_text(comparison.document(result)))
        if result.failure:
            console.print(screen.ending(result))
    else:
        screen.print_all(result, console)
    if result.stopped == "interrupted":
        raise SystemExit(INTERRUPTED)
    if result.stopped in ("alone", "failed"):
        raise SystemExit(1)
