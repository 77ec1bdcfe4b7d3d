"""The command line; ``--help`` lists the commands.

    build -> notebook -> render          paper does all three
    evaluate                             notebooks again, from the trials of a run

Each command imports what it needs when it runs, so that ``--help`` answers at once.
Exit status: 0 done, 1 it failed, 2 asked for something that does not exist, 130
interrupted (the same command goes on; `compare` and `bench` print what they have and
begin anew), 3 the paper is set and sound, but not by the renderer that --renderer asked
for.
"""

from __future__ import annotations

import codecs
import contextlib
import errno
import functools
import locale
import os
import re
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

try:
    import click
    from click import Context, Parameter
except ModuleNotFoundError as error:
    sys.exit(
        f"connlab: this Python has no {error.name}: `make setup`, then in each shell "
        "`. .venv/bin/activate`"
    )

if TYPE_CHECKING:
    from connlab.drive.servers import Entry
    from connlab.hosts.lab import Lab
    from connlab.hosts.roster import Roster
    from connlab.publish import Rendered
    from connlab.publish.archive import Archived
    from connlab.publish.contributing import Contribution
    from connlab.schema import Model, Workload

EPILOG = (
    "The shortest way from nothing to the paper is `make paper`. With CONNLAB_DEBUG=1 "
    "an error says where it came from."
)
SETTINGS = {"help_option_names": ["-h", "--help"], "show_default": True}
NOT_AS_ASKED = 3
#: a disk or a quota is full, a file too large, a device broken
_OF_WRITING = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


@click.group(epilog=EPILOG, context_settings=SETTINGS)
def cli() -> None:
    """Measure how servers hold many connections; print it as a paper."""


# ---- options that several commands share ---------------------------------------


def _real_name(_context: Context, option: Parameter, run: str | None) -> str | None:
    """Turn `reference`, which is a link, into the name of the run that it means."""
    from connlab.schema import run_name

    if run and not re.fullmatch(r"\w[\w.-]*", run):
        allowed = "letters, digits, '.', '_' and '-'"
        raise ValueError(f"{option.opts[0]}: {run!r}; allowed: {allowed}")
    return run and run_name(run)


def _name_or_newest(context: Context, option: Parameter, run: str | None) -> str:
    """Return the run with the newest results, the first reference without any."""
    from connlab.publish import reference
    from connlab.schema import run_folder, run_name

    if run:
        return _real_name(context, option, run)
    root = run_folder("")
    times = {
        p: p.stat().st_mtime
        for p in root.glob("*/*/results.json")
        if p.parent.name != "claims"  # which each rendering judges anew
    }
    if not times:
        raise click.UsageError("no run has results yet; make paper measures one")
    after = {folder: -n for n, folder in enumerate(reference.folders(root), 1)}
    newest = max(times, key=lambda p: (after.get(p.parents[1].resolve(), 0), times[p]))
    return run_name(newest.parts[-3])


def _share(_context: Context, option: Parameter, text: str) -> float:
    flag, unit = option.opts[0], 0.01 if text.endswith("%") else 1
    try:
        share = float(text.removesuffix("%")) * unit
    except ValueError:
        raise ValueError(f"{flag}: {text}; allowed: 1%, 0.01, ...") from None
    if not 0 < share < 1:
        raise ValueError(f"{flag}: {text}; allowed: above 0 and below 100 %")
    return share


def _seconds(_context: Context, option: Parameter, text: str | None) -> float | None:
    from connlab.drive.stopping import seconds

    return None if text is None else seconds(text, name=option.opts[0])


def _keepable(_context: Context, option: Parameter, path: Path | None) -> Path:
    """Refuse a folder that cannot be written, also where it has to be made first."""
    from connlab.schema import run_folder

    folder = path or run_folder("bench")
    nearest = next(p for p in (folder, *folder.absolute().parents) if p.exists())
    if not (nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)):
        raise ValueError(
            f"{option.opts[0]}: {folder}; allowed: a folder that can be written, "
            f"which {nearest} is not"
        )
    return folder


def _over_hosts(context: Context, option: Parameter, path: Path | None) -> None:
    """Let sweeps measure over the hosts of a file until the command ends."""
    if path is None:
        return
    from unittest.mock import patch

    from connlab.drive import hosts_asked

    _roster(context, option, path)  # one that is wrong is refused at once
    told = {hosts_asked.ROSTER: str(path.resolve())}
    context.with_resource(patch.dict(os.environ, told))


def _roster(_context: Context, _option: Parameter, path: Path) -> Roster:
    from connlab.hosts import roster

    return roster.load_configured(path)


part_option = functools.partial(click.option, default=True)
until_option = functools.partial(
    click.option, "--until", callback=_share, help="Half-width of a ratio to reach."
)
budget_option = functools.partial(
    click.option, "--budget", "budget_s", callback=_seconds
)
warm_up_option = click.option(
    "--warm-up",
    callback=_seconds,
    help="Load that a server which connlab did not write gets before its turns, as it "
    "may compile as it runs (what servers.toml says; 2s for a command line).",
)
run_option = click.option(  # a run to measure into
    "--run",
    metavar="NAME",
    callback=_real_name,
    help="Name of the run below runs/; if not given, that of the profile.",
)
of_run_option = click.option(  # one that was measured
    "--run",
    metavar="NAME",
    callback=_name_or_newest,
    help="Name of the run below runs/; if not given, the newest.",
)
seed_option = click.option(
    "--seed",
    type=click.IntRange(0, 2**52),  # sets count on from it; clients take up to 2^53
    default=1,
    help="Seed of orders and arrivals.",
)
profile_option = click.option(
    "--profile",
    metavar="NAME",
    default="quick",
    help="smoke, quick or full: notebooks/profiles/NAME.yaml.",
)
renderer_option = click.option(
    "--renderer",
    type=click.Choice(["embedded", "quarto"]),
    default="embedded",
    help="What sets the paper; if quarto fails, embedded does (exit status 3).",
)
hosts_option = click.option(
    "--hosts",
    metavar="FILE",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    callback=_over_hosts,
    expose_value=False,
    help="A hosts.toml: measure over its hosts (docs/hosts.md).",
)
out_option = functools.partial(  # where nothing can be kept, nothing is measured
    click.option,
    "--out",
    metavar="FOLDER",
    type=click.Path(path_type=Path, file_okay=False),
    callback=_keepable,
)
roster_argument = click.argument(
    "roster",
    metavar="FILE",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    callback=_roster,
)


# ---- commands ------------------------------------------------------------------


@cli.command()
def build() -> None:
    """Compile the programs of src_c and its lessons into build/."""
    from connlab import paper

    paper.build()


@cli.command("list")
@click.option("--json", "as_json", is_flag=True, help="Models and workloads as JSON.")
def list_models(as_json: bool) -> None:
    """Show models, other servers and workloads.

    Behind each that cannot be measured here stands why.
    """
    from connlab import drive
    from connlab.drive import servers

    registry = drive.registry()
    if as_json:
        click.echo(registry.model_dump_json(indent=1))
        return
    for model in registry.models:
        click.echo(f"{model.name:18}{model.family:12}{model.label}{_lack(model)}")
    click.echo("\nother servers (servers.toml):")
    for entry in servers.entries().values():
        click.echo(f"{entry.name:24}{entry.label}{_lack(entry)}")
    click.echo("\nworkloads:")
    for workload in registry.workloads:
        click.echo(f"{workload.name:18}{workload.label}{_lack(workload)}")


@cli.command()
def doctor() -> None:
    """Say what this machine can measure, and what limits it."""
    from connlab import drive

    click.echo(drive.doctor())


@cli.command()
@click.argument("models", nargs=-1)
@until_option(default="2%")
@budget_option(default="4min", help="Time for the sets in turns.")
@seed_option
@out_option(help="Folder of the JSON file; if not given, runs/bench.")
@part_option("--lessons/--no-lessons", help="Measure the lessons beside their models.")
@part_option("--memory/--no-memory", help="Measure the memory of idle connections.")
@part_option("--calls/--no-calls", help="Count system calls with strace.")
@part_option("--clients/--no-clients", help="Measure our client beside wrk and ab.")
def bench(models: tuple[str, ...], **settings: Any) -> None:
    """Hold every model, and the client, against what is expected.

    With MODELS only these: models of `connlab list`, no other servers.
    """
    from connlab.bench import command as benches

    benches.run(models, **settings)


@cli.command()
@click.argument("servers", nargs=-1, metavar="SERVER SERVER...")
@click.option("--workload", default="echo", help="echo, work or http.")
@click.option("--connections", default=50, help="Connections to each server.")
@click.option(
    "--size", type=int, help="Bytes of a message (64), or of the page of http (1024)."
)
@click.option("--rate", type=float, help="Requests/s in an open loop; else closed.")
@click.option(
    "--delay", help="Delay of a work request (0): as for build/client, exponential:5."
)
@click.option(
    "--requests-per-connection",
    type=int,
    help="Requests before a user connects anew (0: it never does).",
)
@click.option(
    "--engine",
    type=click.Choice(["epoll", "uring", "auto"]),
    help="How the client waits (epoll).",
)
@click.option(
    "--workers",
    type=int,
    help="Workers of each server that takes them (8; where a worker serves one client "
    "to its end, one a connection).",
)
@click.option("--processes", type=int, help="Processes of each server (1).")
@warm_up_option
@until_option(default="1%")
@budget_option(default="60s", help="Time to spend.")
@seed_option
@click.option("--json", "as_json", is_flag=True, help="The result as JSON.")
@hosts_option
def compare(servers: tuple[str, ...], as_json: bool, **settings: Any) -> None:
    """Let servers take turns until their ratios are known.

    All have one client. The first is the baseline, and takes part twice as a control.
    SERVER is a name of `connlab list`, or a command line with {port}, such as "./mine
    --port {port}". NAME:workers=4 gives one server a setting of its own; lessons/NAME
    is the lesson of that name; at:HOST:PORT is a server that runs there already, of
    which only the client's side is measured. Exit status 1: no other server lasted long
    enough.

    \b
    connlab compare epoll uring
    connlab compare epoll "./mine --port {port}" --rate 10000 --budget 30s
    """
    from connlab import compare as comparing
    from connlab.drive import location

    plan = comparing.make_plan(servers, location=location.configured(), **settings)
    comparing.run(plan, as_json=as_json)


@cli.command()
@click.argument("servers", nargs=-1, required=True, metavar="SERVER...")
@out_option(default="judged", help="Folder of the page.")
@click.option(
    "--quick",
    is_flag=True,
    help="Correctness and up to 100 clients, in seconds; no turns.",
)
@warm_up_option
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def judge(
    servers: tuple[str, ...],
    out: Path,
    quick: bool,
    warm_up: float | None,
    as_json: bool,
) -> None:
    """Say whether a server is correct, and what limits it.

    SERVER is a command line with {port}, such as "./mine --port {port}", or a name of
    `connlab list`; lessons/NAME is the lesson of that name. Exit status 0:
    all of them are correct echo servers; 1: one is not, or this machine failed; 130:
    Ctrl-C or SIGTERM came. The page then has those that were judged.
    """
    from connlab.judge import hints, judging, page
    from connlab.schema import json_text

    signal.signal(signal.SIGTERM, signal.default_int_handler)

    result = judging.judge(
        servers,
        quick=quick,
        warm_up=warm_up,
        say=lambda text: click.echo(text, err=True),
    )
    if as_json:
        click.echo(json_text(result.as_json()))
    else:
        for verdict in result.verdicts:
            click.echo(f"{verdict.label}: {page.correct(verdict)}")
            untried = (f"not tried: {text}" for text in verdict.untried)
            for line in (*verdict.wrong, *untried):
                click.echo(f"  {line}")
            for line in hints.first(verdict, result):
                click.echo(f"  -> {line}")
    paths = page.write(result, out)  # after all is told: there may be no room for it
    if not as_json:
        pages = ", ".join(map(_from_here, paths.values()))
        click.echo(f"{result.seconds:.0f} s; {pages}")
    if result.failed:
        raise RuntimeError(result.ending)
    if result.stopped:
        raise KeyboardInterrupt(result.ending)
    raise click.exceptions.Exit(0 if result.right else 1)


@cli.group()
def hosts() -> None:
    """Measure over several hosts; see docs/hosts.md."""


@hosts.command()
@click.argument("folder", type=click.Path(path_type=Path))
def certificates(folder: Path) -> None:
    """Write certificates, and settings of Dask, into FOLDER.

    Whoever holds one of them can run code on every host of the run.
    """
    from connlab.hosts import carrier
    from connlab.hosts import certificates as making

    making.make(folder)
    carrier.write_settings(folder)
    click.echo(f"{_from_here(folder)}: end after {making.DAYS} days")


@hosts.command()
@roster_argument
def check(roster: Roster) -> None:
    """Print versions, limits, cores and clocks of all hosts.

    They are those of a hosts.toml. Exit status 1: one is not as it has to be, or does
    not answer.
    """
    from connlab.hosts import carrier, checking

    with carrier.Engine(roster) as engine:
        checked, lost = checking.every(engine)
    for host in checked:
        click.echo(str(host))
    for text in lost:
        click.echo(f"problem: {text}", err=True)
    if lost or any(host.problems for host in checked):
        raise click.exceptions.Exit(1)


@hosts.command()
@roster_argument
@click.argument("model", default="epoll")
@click.option("--connections", default=50, help="Connections of all clients together.")
@click.option("--rate", type=float, help="Requests/s in an open loop; else closed.")
@click.option("--duration", default=1.0, help="Seconds of the window.")
@click.option("--json", "as_json", is_flag=True, help="The client's report as JSON.")
def trial(roster: Roster, as_json: bool, **factors: Any) -> None:
    """Run one trial over the hosts of a hosts.toml.

    MODEL is the server's, a model of `connlab list` and no other server; if not given,
    epoll.
    """
    from connlab.hosts import checking

    outcome = checking.trial(roster, factors)
    if outcome is None:
        raise click.Abort
    if outcome.failure:
        raise click.ClickException(f"{outcome.failure.kind}: {outcome.failure.reason}")
    if as_json:
        click.echo(outcome.client.model_dump_json(by_alias=True))
    else:
        click.echo("\n".join(checking.lines(outcome)))


@hosts.command()
@roster_argument
def up(roster: Roster) -> None:
    """Start a scheduler here and a worker on each host.

    The hosts are those of a hosts.toml, reached over SSH. All end with this command, by
    Ctrl-C. With CONNLAB_SCHEDULER there is a scheduler already: then this says whether
    each host has a worker there.
    """
    from connlab.hosts import roster as rosters
    from connlab.hosts import starting

    if os.environ.get(rosters.SCHEDULER):
        if missing := starting.without_worker(roster):
            raise click.ClickException(f"no worker: {', '.join(missing)}")
        click.echo(f"{roster.scheduler}: every host has a worker")
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt), starting.Started(roster) as started:
        click.echo(f"up: {', '.join(roster.names)}; Ctrl-C ends them")
        while True:
            starting.check(started.processes, started.folder)
            time.sleep(0.2)


@hosts.command()
@click.option(
    "--hosts", "count", default=3, help="Number of hosts; the first runs the server."
)
def lab(count: int) -> None:
    """Make hosts of network namespaces here, as root.

    Their hosts.toml is written below build/lab.
    """
    network = _lab()
    network.up(count)
    click.echo(_from_here(network.roster))


@hosts.command("lab-down")
def lab_down() -> None:
    """Remove the hosts that `lab` made."""
    _lab().down()


def _lab() -> Lab:
    from connlab.hosts.lab import Lab
    from connlab.schema import project_root

    return Lab(project_root() / "build" / "lab")


@cli.command()
@click.argument("names", nargs=-1, metavar="[NAME...]")
def runtimes(names: tuple[str, ...]) -> None:
    """Build the servers of servers.toml whose tools are here.

    With NAME only that one, which is an error where it cannot be built.
    """
    from connlab import runtimes as making

    left_out = making.make(names, say=click.echo)
    if names and left_out:
        raise click.exceptions.Exit(1)


@cli.command()
@click.argument("nb", required=False)
@click.option(
    "-p",
    "parameters",
    nargs=2,
    multiple=True,
    metavar="NAME VALUE",
    help="A parameter of the notebook, e.g. -p connections '[1,10]'.",
)
@run_option
@profile_option
@hosts_option
def notebook(
    nb: str | None,
    parameters: tuple[tuple[str, str], ...],
    run: str | None,
    profile: str,
) -> None:
    """Run one notebook, by number or name, with other parameters.

    What -p does not name comes from the profile. Trials that the run holds already
    are not measured again. Without NB, list the notebooks.

    \b
    connlab notebook 01 -p models '[thread, epoll]' -p trials 10
    """
    from connlab import notebook as notebooks
    from connlab import profiles
    from connlab.parameters import plain

    if nb is None:
        for path in notebooks.every():
            click.echo(f"  {path.stem:24}{notebooks.title_of(path)}")
        return
    path = notebooks.find(nb)
    given = {name: plain(text) for name, text in parameters}
    of_profile = profiles.load(profile)
    values = of_profile.parameters(path, given)
    if path.stem not in of_profile.notebooks:
        stated = "the values that the notebook states hold"
        click.echo(f"profile {profile} has no entry {path.stem}: {stated}", err=True)
    executed = notebooks.run(path, run=run or profile, parameters=values)
    if not (executed.parent / "results.json").is_file():
        study = notebooks.study_of(path)
        raise click.ClickException(
            f"{path.stem} left no results in {_from_here(executed.parent)}: its last "
            f"cell calls report.write(), and its sweep and load name {study!r}"
        )
    click.echo(f"results: {_from_here(executed.parent)}")
    click.echo(f"to set the paper: make render RUN={run or profile}")


@cli.command()
@profile_option
@run_option
@renderer_option
@hosts_option
def paper(profile: str, run: str | None, renderer: str) -> None:
    """Build, run every notebook of a profile, set the paper.

    The paper is read back and checked. Called again, it goes on where it was stopped.
    """
    from connlab import paper as papers
    from connlab import profiles
    from connlab.drive.progress import duration_text

    result = papers.make(
        profiles.load(profile), run=run or profile, renderer=renderer, say=click.echo
    )
    phases = [f"{name} {duration_text(s)}" for name, s in result.seconds.items()]
    total = duration_text(sum(result.seconds.values()))
    click.echo(f"paper: {', '.join(phases)}; {total} in all")
    _print_rendered(result.rendered)
    if result.failed:
        click.echo("studies failed: " + ", ".join(result.failed), err=True)
    _fail_on(result.problems)
    if result.failed:
        raise click.exceptions.Exit(1)
    _check_renderer(result.rendered)


@cli.command()
@click.argument("nb", required=False)
@of_run_option
def evaluate(nb: str | None, run: str) -> None:
    """Make figures, tables and verdicts of a run anew.

    Nothing is measured. NB: the notebook of one study; if not given, all. The run may
    have been measured on another machine.
    """
    from connlab import evaluate as evaluating

    failed = evaluating.make(run, nb=nb, say=click.echo)
    if failed:
        raise click.ClickException("studies failed: " + ", ".join(failed))
    click.echo(f"to set the paper: make render RUN={run}")


@cli.command()
@of_run_option
@renderer_option
def render(run: str, renderer: str) -> None:
    """Set the paper from an existing run, measuring nothing."""
    from connlab import paper, publish
    from connlab.publish import renderers

    renderers.choose(renderer)  # one that cannot be had is refused at once
    click.echo(f"claims: {paper.judge(run)}")
    rendered = publish.render(run, renderer=renderer)
    _print_rendered(rendered)
    _fail_on(rendered.problems)
    _check_renderer(rendered)


@cli.command()
@of_run_option
def claims(run: str) -> None:
    """Put the claims of earlier reports to a run, print verdicts."""
    from rich.table import Table

    from connlab import claims as ledger
    from connlab.compare import screen
    from connlab.schema import existing_run

    existing_run(run)
    judged = ledger.judge_all(run)
    table = Table("id", "claim", "published", "here", "verdict", "because")
    for row in judged:
        claim, finding = row.claim, row.finding
        effect = (finding.effect_text, finding.verdict, finding.why)
        table.add_row(claim.id, claim.says, claim.number, *effect)
    screen.console().print(table)
    click.echo(ledger.answer(judged))


@cli.command()
@click.argument("run", required=False, callback=_name_or_newest)
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def words(run: str, as_json: bool) -> None:
    """Count the verdicts of a run, by study and in all.

    RUN is its name below runs/; if not given, the newest.
    """
    from connlab.publish import words as counting
    from connlab.schema import json_text

    studies = counting.counted(run)
    if as_json:
        click.echo(json_text(counting.document(studies)))
        return
    click.echo(f"run {run}")
    for line in counting.lines(studies):
        click.echo(line)


@cli.command("check-paper")
def check_paper() -> None:
    """Read the set pages back and list what is wrong with them."""
    from connlab import publish

    _fail_on(publish.check())
    click.echo("paper/_output: nothing is wrong")


@cli.command("lint-paper")
def lint_paper() -> None:
    """Find typed measurements in the paper's sources.

    Besides, what Quarto would fail on. What proselint would change is said as advice
    and fails nothing.
    """
    from connlab import publish

    for advice in publish.advice():
        click.echo(f"advice: {advice}", err=True)
    _fail_on(publish.lint())
    click.echo("paper: no measurement is typed by hand, nothing is fetched")


@cli.command()
@of_run_option
def archive(run: str) -> None:
    """Pack sources, a run and its paper into one file to deposit.

    The file is written below build/archive.
    """
    from connlab.publish import archive as archives

    _print_packed(archives.pack(run))


@cli.command()
@of_run_option
def contribute(run: str) -> None:
    """Strip a run of names, pack it to give to the project.

    It is checked first. The file is written below build/contribution.
    """
    from connlab.publish import contributing
    from connlab.study.formatting import counted

    packed = contributing.pack(run)
    for name, count in packed.replaced.items():
        click.echo(f"replaced: {name}, {counted(count, 'time')}")
    if packed.missing:
        click.echo(f"without results, as the run has none: {', '.join(packed.missing)}")
    click.echo('how to give it: CONTRIBUTING.md, "Give a run of your machine"')
    _print_packed(packed)


# ---- what commands print, and how they end -------------------------------------


def _fail_on(problems: Sequence[str]) -> None:
    for problem in problems:
        click.echo(f"problem: {problem}", err=True)
    if problems:
        from connlab.study.formatting import counted

        raise click.ClickException(f"the paper has {counted(len(problems), 'problem')}")


def _check_renderer(rendered: Rendered) -> None:
    """End with a status of its own when another renderer stepped in."""
    if rendered.instead:
        raise click.exceptions.Exit(NOT_AS_ASKED)


def _lack(row: Model | Workload | Entry) -> str:
    return "" if row.available else f"  (not here: {row.reason})"


def _print_rendered(rendered: Rendered) -> None:
    """Print the paths last; before them, what a reader of the paper will miss."""
    for stale in rendered.stale:
        click.echo(f"stale: {stale}", err=True)
    if rendered.missing:
        click.echo(f"not measured here: {len(rendered.missing)}; the paper says why")
    for unknown in rendered.unknown:
        click.echo(f"in no run, misspelt perhaps: {unknown}", err=True)
    if rendered.unused:
        click.echo(f"measured, and not in the paper: {', '.join(rendered.unused)}")
    if rendered.instead:
        click.echo(f"not set with quarto: {rendered.instead}", err=True)
    click.echo(f"set with {rendered.renderer} in {rendered.seconds:.0f} s")
    for path in (rendered.html, rendered.supplement, rendered.pdf):
        if path:
            click.echo(_from_here(path))


def _print_packed(packed: Archived | Contribution) -> None:
    click.echo(f"{packed.files} files, {packed.size_bytes / 2**20:.1f} MiB")
    click.echo(_from_here(packed.path))


def _from_here(path: Path) -> str:
    path, here = path.resolve(), Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def main(args: list[str] | None = None) -> int:
    """Run a command; turn what may go wrong into one clear line and a status."""
    try:
        status = cli.main(args, prog_name="connlab", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (KeyboardInterrupt, click.Abort) as error:  # click aborts on the former
        return _fail(str(error.__cause__ or error) or "stopped", status=130)
    except subprocess.CalledProcessError as error:
        return _fail(f"{error.cmd[0]} failed, see above", status=1)
    except ValueError as error:
        return _fail(str(error), status=2, cause=error)
    except OSError as error:
        unnamed = error.filename is None and error.errno in _OF_WRITING
        if unnamed and (name := _written(error)):
            error.filename = name  # None would be printed
        return _fail(str(error), status=1, cause=error)
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        return _fail(str(error), status=1, cause=error)
    return status or 0


def _written(error: OSError) -> str | None:
    """Return the file that was being written: the system names none then.

    It is the innermost that a function on the way to the error had open.
    """
    for frame, _ in reversed(list(traceback.walk_tb(error.__traceback__))):
        for value in frame.f_locals.values():
            name, mode = (getattr(value, key, None) for key in ("name", "mode"))
            is_file = isinstance(name, str | Path) and isinstance(mode, str)
            if is_file and not mode.startswith("r"):
                return str(name)
    return None


def _fail(text: str, *, status: int, cause: Exception | None = None) -> int:
    """Print one line; with CONNLAB_DEBUG set, the traceback as well."""
    if cause and os.environ.get("CONNLAB_DEBUG"):
        traceback.print_exception(cause)
    print(f"connlab: {text}", file=sys.stderr)
    return status


def _in_utf8() -> None:
    """Begin again in UTF-8, for our children too, where the locale has another.

    In Latin-1 the files of the project are read wrong, and arrows cannot be printed.
    """
    encoding = codecs.lookup(locale.getpreferredencoding(False)).name
    if encoding != "utf-8" and not sys.flags.utf8_mode:
        os.environ["PYTHONUTF8"] = "1"
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])


def script() -> None:
    """Be the command: `python -m connlab`, or the ``connlab`` that pip installs."""
    _in_utf8()
    sys.exit(main())


if __name__ == "__main__":
    script()
