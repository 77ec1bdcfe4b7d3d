"""The command line: one command per arrow of the design.

    build -> notebook -> render          paper does all three
    evaluate                             notebooks again, from the trials of a run
    doctor, list                         what this machine and this build can do
    compare                              which server is faster, here, in a minute
    runtimes                             build servers in other languages
    judge                                is your own server right, how does it stand
    hosts                                certificates, check and stand-in for a lab
    bench                                all models and the client, against targets
    words                                how many comparisons a run could decide
    check-paper, lint-paper              is the paper whole, is no number typed
    archive                              all of it in one file, to deposit
    contribute                           a run without names, to give to the project

Each command imports what it needs when it runs, so that ``--help`` answers at once.
Exit status: 0 done, 1 it failed, 2 asked for something that does not exist, 130
interrupted (the same command goes on), 3 the paper is set and sound, but not by the
renderer that --renderer asked for.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from connlab.drive.servers import Entry
    from connlab.hosts.lab import Lab
    from connlab.publish import Rendered
    from connlab.schema import Model, Workload

EPILOG = "The shortest way from nothing to the paper is `make paper`."


@click.group(epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
def cli() -> None:
    """Measure how servers hold many connections; print it as a paper."""


def _real_run(_context: click.Context, _option: click.Parameter, run: str | None):
    """Turn `reference`, which is a link, into the name of the run that it means."""
    from connlab.schema import run_name

    return run and run_name(run)


run_option = click.option(
    "--run",
    metavar="NAME",
    help="Name of the run below runs/.",
    default=None,
    callback=_real_run,
)
profile_option = click.option(
    "--profile",
    metavar="NAME",
    default="quick",
    show_default=True,
    help="smoke, quick or full: notebooks/profiles/NAME.yaml.",
)
renderer_option = click.option(
    "--renderer",
    type=click.Choice(["embedded", "quarto"]),
    default="embedded",
    show_default=True,
    help="What sets the paper; if quarto fails, embedded does (exit status 3).",
)
hosts_option = click.option(
    "--hosts",
    "roster",
    metavar="FILE",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="A hosts.toml: measure over its hosts (docs/hosts.md).",
)
NOT_AS_ASKED = 3


@cli.command()
def build() -> None:
    """Compile build/server and build/client."""
    from connlab import paper

    paper.build()


@cli.command("list")
@click.option("--json", "as_json", is_flag=True, help="As the server prints it.")
def list_models(as_json: bool) -> None:
    """Show the models, other servers and workloads that can be measured here."""
    from connlab import drive
    from connlab.drive import servers

    registry = drive.registry()
    if as_json:
        click.echo(registry.model_dump_json(indent=1))
        return
    for model in registry.models:
        click.echo(f"{model.name:16}{model.family:12}{model.label}{_not_here(model)}")
    click.echo("\nservers of others (servers.toml):")
    for entry in servers.entries().values():
        click.echo(f"{entry.name:24}{entry.label}{_not_here(entry)}")
    click.echo("\nworkloads:")
    for workload in registry.workloads:
        click.echo(f"{workload.name:16}{workload.label}{_not_here(workload)}")


@cli.command()
def doctor() -> None:
    """Say what this machine can measure, what limits it, what is missing."""
    from connlab import drive

    click.echo(drive.doctor())


@cli.command()
@click.argument("models", nargs=-1)
@click.option(
    "--until", default="2%", show_default=True, help="Half-width of a ratio to reach."
)
@click.option("--budget", default="4min", show_default=True, help="For sets in turns.")
@click.option("--seed", default=1, show_default=True, help="Of orders and arrivals.")
@click.option("--out", type=Path, help="Directory of the JSON file (runs/bench).")
@click.option("--lessons/--no-lessons", default=True, help="Models beside lessons.")
@click.option("--memory/--no-memory", default=True, help="Of idle connections.")
@click.option("--calls/--no-calls", default=True, help="System calls, by strace.")
@click.option("--clients/--no-clients", default=True, help="The client, wrk and ab.")
def bench(
    models: tuple[str, ...], until: str, budget: str, out: Path | None, **asked: Any
) -> None:
    """Compare every model (or MODELS) and the client with what is expected of them."""
    from connlab import bench as benches
    from connlab.schema import run_folder

    benches.run(
        models,
        until=_share("until", until),
        budget_s=_seconds("budget", budget),
        out=out or run_folder("bench"),
        **asked,
    )


@cli.command()
@click.argument("servers", nargs=-1, metavar="SERVER SERVER...")
@click.option("--workload", default="echo", show_default=True, help="echo, work, http.")
@click.option("--connections", default=50, show_default=True, help="To each server.")
@click.option("--size", type=int, help="Bytes of a message, or of the page of http.")
@click.option("--rate", type=float, help="Requests/s in an open loop; else closed.")
@click.option("--delay", help="Of a work request, as for build/client.")
@click.option(
    "--requests-per-connection", type=int, help="Then connect anew; 0: never."
)
@click.option("--engine", help="How the client waits: epoll, uring, auto.")
@click.option("--workers", type=int, help="Of each server that takes them.")
@click.option("--processes", type=int, help="Of each server.")
@click.option(
    "--until", default="1%", show_default=True, help="Half-width of a ratio to reach."
)
@click.option("--budget", default="60s", show_default=True, help="Time to spend.")
@click.option("--seed", default=1, show_default=True, help="Of orders and arrivals.")
@click.option("--json", "as_json", is_flag=True, help="The result as JSON.")
@hosts_option
def compare(
    servers: tuple[str, ...],
    until: str,
    budget: str,
    as_json: bool,
    roster: Path | None,
    **asked: Any,
) -> None:
    """Let servers take turns under one client, until their ratios are known.

    The first is the baseline, and takes part twice as a control. NAME:workers=4 gives
    one server a setting of its own; lessons/NAME is the lesson of that name;
    at:HOST:PORT is a server that runs there already, of which only the client's side
    is measured.
    """
    from connlab import compare as comparing
    from connlab.drive import location

    with _over_hosts(roster):
        plan = comparing.make_plan(
            servers,
            until=_share("until", until),
            budget_s=_seconds("budget", budget),
            location=location.asked(),
            **asked,
        )
        comparing.run(plan, as_json=as_json)


def _share(flag: str, text: str) -> float:
    """Return ``1%`` or ``0.01`` as 0.01."""
    number, percent = text.removesuffix("%"), text.endswith("%")
    try:
        return float(number) / (100 if percent else 1)
    except ValueError:
        raise ValueError(f"--{flag}: {text}; allowed: 1%, 0.01, ...") from None


def _seconds(flag: str, text: str) -> float:
    """Return ``60``, ``60s`` or ``2min`` in seconds."""
    for unit, each in (("min", 60), ("s", 1), ("", 1)):
        if text.endswith(unit):
            try:
                return float(text.removesuffix(unit)) * each
            except ValueError:
                break
    raise ValueError(f"--{flag}: {text}; allowed: 60s, 2min, ...")


@cli.command()
@click.argument("servers", nargs=-1, required=True, metavar="SERVER...")
@click.option(
    "--out", metavar="FOLDER", default="judged", show_default=True, help="For the page."
)
@click.option("--quick", is_flag=True, help="Is it right? In seconds, no turns.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def judge(servers: tuple[str, ...], out: str, quick: bool, as_json: bool) -> None:
    """Say whether a server is right, what limits it, and how it stands.

    SERVER is a command line with {port}, such as "./mine --port {port}". Exit status 0:
    all of them are right echo servers; 1: one is not.
    """
    from connlab import judge as judging
    from connlab.judge import hints, page

    made = judging.judge(
        servers, quick=quick, say=lambda text: click.echo(text, err=True)
    )
    paths = page.write(made, Path(out))
    if as_json:
        click.echo(json.dumps(made.as_json(), indent=1, allow_nan=False, default=str))
    else:
        for verdict in made.verdicts:
            click.echo(f"{verdict.label}: {'right' if verdict.right else 'wrong'}")
            for line in (*verdict.wrong, *hints.first(verdict, made)):
                click.echo(f"  {line}")
        click.echo(
            f"{made.seconds:.0f} s; {', '.join(map(_from_here, paths.values()))}"
        )
    raise click.exceptions.Exit(0 if made.right else 1)


@cli.group()
def hosts() -> None:
    """Server on one host, clients on others; see docs/hosts.md."""


@hosts.command()
@click.argument("folder", type=click.Path(path_type=Path))
def certificates(folder: Path) -> None:
    """Write the certificates of a run into FOLDER.

    Whoever holds one of them can run code on every host of the run.
    """
    from connlab.hosts import certificates as making

    making.make(folder)
    click.echo(f"{_from_here(folder)}: end after {making.DAYS} days")


@hosts.command()
@click.argument("roster", type=click.Path(path_type=Path, exists=True))
def check(roster: Path) -> None:
    """Print versions, limits, cores, calls and clocks of the hosts of a hosts.toml."""
    from connlab.hosts import carrier, checking
    from connlab.hosts import roster as rosters

    with carrier.Engine(rosters.asked(roster)) as engine:
        found, lost = checking.every(engine)
    for one in found:
        click.echo(str(one))
    for text in lost:
        click.echo(f"problem: {text}", err=True)
    if lost or any(one.wrong for one in found):
        raise click.exceptions.Exit(1)


@hosts.command()
@click.argument("roster", type=click.Path(path_type=Path, exists=True))
@click.argument("model", default="epoll")
@click.option("--connections", default=50, show_default=True, help="Of all hosts.")
@click.option("--rate", type=float, help="Requests/s in an open loop; else closed.")
@click.option("--duration", default=1.0, show_default=True, help="Of the window, in s.")
@click.option("--json", "as_json", is_flag=True, help="The client's report as JSON.")
def trial(roster: Path, as_json: bool, **asked: Any) -> None:
    """Run one trial: the server of a hosts.toml under all of its clients."""
    from connlab.hosts import measuring
    from connlab.hosts import roster as rosters

    outcome = measuring.trial(rosters.asked(roster), asked)
    if outcome is None:
        raise click.Abort
    if outcome.failure:
        raise click.ClickException(f"{outcome.failure.kind}: {outcome.failure.reason}")
    if as_json:
        click.echo(outcome.client.model_dump_json(by_alias=True))
    else:
        click.echo("\n".join(measuring.lines(outcome)))


@hosts.command()
@click.argument("roster", type=click.Path(path_type=Path, exists=True))
def up(roster: Path) -> None:
    """Start a scheduler here and, over SSH, a worker on each host of a hosts.toml.

    They end with this command, by Ctrl-C. With CONNLAB_SCHEDULER there is a scheduler
    already: then this says whether each host has a worker there.
    """
    from connlab.hosts import roster as rosters
    from connlab.hosts import starting

    told = rosters.asked(roster)
    if rosters.SCHEDULER in os.environ:
        if missing := starting.joined(told):
            raise click.ClickException(f"no worker: {', '.join(missing)}")
        click.echo(f"{told.scheduler}: every host has a worker")
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt), starting.Started(told) as started:
        click.echo(f"up: {', '.join(started.names)}; Ctrl-C ends them")
        while not started.ended():
            time.sleep(0.2)
        raise click.ClickException(f"{started.ended()[0]} ended")


@hosts.command()
@click.option(
    "--hosts", "count", default=3, show_default=True, help="The first serves."
)
def lab(count: int) -> None:
    """Make hosts of network namespaces here, as root, and their hosts.toml."""
    made = _lab()
    made.up(count)
    click.echo(_from_here(made.roster))


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
    """Build the servers of servers.toml that this machine has tools for."""
    from connlab import runtimes as making

    making.make(names, say=click.echo)


@cli.command()
@click.argument("nb", required=False)
@click.option(
    "-p",
    "given",
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
    given: tuple[tuple[str, str], ...],
    run: str | None,
    profile: str,
    roster: Path | None,
) -> None:
    """Run one notebook, by number or name, with other parameters.

    What -p does not name comes from the profile. Trials that the run holds already
    are not measured again. Without NB: the notebooks there are.
    """
    from connlab import notebook as notebooks
    from connlab import profiles

    if nb is None:
        for path in notebooks.every():
            click.echo(f"  {path.stem:24}{notebooks.title_of(path)}")
        return
    path = notebooks.find(nb)
    values = profiles.load(profile).parameters(path)
    values |= {name: _value(text) for name, text in given}
    with _over_hosts(roster):
        done = notebooks.run(path, run=run or profile, parameters=values)
    click.echo(f"results: {_from_here(done.directory)}")
    click.echo(f"to set the paper: make render RUN={run or profile}")


@cli.command()
@profile_option
@run_option
@renderer_option
@hosts_option
def paper(profile: str, run: str | None, renderer: str, roster: Path | None) -> None:
    """Build, run every notebook of a profile, set the paper, check it."""
    from connlab import paper as papers
    from connlab import profiles

    with _over_hosts(roster):
        printed = papers.make(
            profiles.load(profile),
            run=run or profile,
            renderer=renderer,
            say=click.echo,
        )
    click.echo("paper: " + _times(printed.seconds))
    _tell(printed.rendered)
    if printed.failed:
        click.echo("studies failed: " + ", ".join(printed.failed), err=True)
    _problems(printed.problems)
    if printed.failed:
        raise click.exceptions.Exit(1)
    _as_asked(printed.rendered)


@contextlib.contextmanager
def _over_hosts(roster: Path | None) -> Iterator[None]:
    """Let sweeps of a block measure over the hosts of a file, if there is one."""
    if roster is None:
        yield
        return
    from connlab.drive import hosts_asked
    from connlab.hosts import roster as rosters

    rosters.asked(roster)  # one that is wrong is refused at once
    before = os.environ.get(hosts_asked.ROSTER)
    os.environ[hosts_asked.ROSTER] = str(roster.resolve())
    try:
        yield
    finally:
        os.environ.pop(hosts_asked.ROSTER)
        os.environ |= {hosts_asked.ROSTER: before} if before else {}


@cli.command()
@click.argument("nb", required=False)
@run_option
def evaluate(nb: str | None, run: str | None) -> None:
    """Make figures, tables and verdicts of a run (the newest) anew, measuring nothing.

    NB: the notebook of one study. The run may have been measured on another machine.
    """
    from connlab import evaluate as evaluating

    run = run or _newest_run()
    failed = evaluating.make(run, nb=nb, say=click.echo)
    if failed:
        raise click.ClickException("studies failed: " + ", ".join(failed))
    click.echo(f"to set the paper: make render RUN={run}")


@cli.command()
@run_option
@renderer_option
def render(run: str | None, renderer: str) -> None:
    """Set the paper from an existing run (the newest), measuring nothing."""
    from connlab import paper, publish
    from connlab.publish import renderers

    renderers.choose(renderer)  # one that cannot be had is refused at once
    run = run or _newest_run()
    click.echo(f"claims: {paper.judge(run)}")
    rendered = publish.render(run, renderer=renderer)
    _tell(rendered)
    _problems(list(rendered.problems))
    _as_asked(rendered)


@cli.command()
@run_option
def claims(run: str | None) -> None:
    """Put the claims of earlier reports to a run (the newest); print verdicts."""
    from rich.console import Console
    from rich.table import Table

    from connlab import claims as ledger

    judged = ledger.judge_all(run or _newest_run())
    table = Table("id", "claim", "published", "here", "verdict", "because")
    for one in judged:
        finding = one.finding
        words = (one.claim.number, finding.effect_text, finding.verdict, finding.why)
        table.add_row(one.claim.id, one.claim.says, *words)
    Console().print(table)
    click.echo(ledger.answer(judged))


@cli.command()
@click.argument("run", required=False, callback=_real_run)
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def words(run: str | None, as_json: bool) -> None:
    """Count the comparing words of a run (the newest), by study and in all."""
    from connlab.publish import words as counting

    studies = counting.counted(run or _newest_run())
    if as_json:
        click.echo(json.dumps(counting.document(studies), indent=1))
        return
    for name, counts in [*studies.items(), ("in all", counting.total(studies))]:
        told = ", ".join(f"{count} {word}" for word, count in counts.most_common())
        part = f"{counting.share(counts):.0%}".replace("%", " %")
        click.echo(f"{name:16}{counts.total():5}  {part:>5} undetermined  ({told})")


@cli.command("check-paper")
def check_paper() -> None:
    """Read the set pages back and list what is wrong with them."""
    from connlab import publish

    _problems(publish.check())
    click.echo("paper/_output: nothing is wrong")


@cli.command("lint-paper")
def lint_paper() -> None:
    """Find typed measurements in the paper's sources, and what Quarto fails on.

    What proselint would change is said as advice and fails nothing.
    """
    from connlab import publish

    for said in publish.advice():
        click.echo(f"advice: {said}", err=True)
    _problems(publish.lint())
    click.echo("paper: no measurement is typed by hand, nothing is fetched")


@cli.command()
@run_option
def archive(run: str | None) -> None:
    """Pack sources, a run (the newest) and its set paper into one file to deposit."""
    from connlab.publish import archive as archives

    packed = archives.pack(run or _newest_run())
    click.echo(f"{packed.files} files, {packed.size_bytes / 2**20:.1f} MiB")
    click.echo(_from_here(packed.path))


@cli.command()
@run_option
def contribute(run: str | None) -> None:
    """Check a run (the newest), strip it of names, pack it to give to the project."""
    from connlab.publish import contributing

    packed = contributing.pack(run or _newest_run())
    for what, count in packed.replaced.items():
        click.echo(f"replaced: {what}, {count} times")
    if packed.missing:
        click.echo(f"without results, as the run has none: {', '.join(packed.missing)}")
    click.echo(f"{packed.files} files, {packed.size_bytes / 2**20:.1f} MiB")
    click.echo(_from_here(packed.path))


def _problems(problems: list[str]) -> None:
    """List problems, if there are any, and end with status 1."""
    for problem in problems:
        click.echo(f"problem: {problem}", err=True)
    if problems:
        raise click.ClickException(f"the paper has {len(problems)} problems")


def _as_asked(rendered: Rendered) -> None:
    """End with a status of its own when another renderer stepped in."""
    if rendered.instead:
        raise click.exceptions.Exit(NOT_AS_ASKED)


def _value(text: str) -> Any:
    """Return what a parameter's text means: a number, a list, a truth, else itself."""
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return text


def _not_here(row: Model | Workload | Entry) -> str:
    return "" if row.available else f"  (not here: {row.reason})"


def _tell(rendered: Rendered) -> None:
    """Print the two paths last; before them, what a reader of the paper will miss."""
    for stale in rendered.stale:
        click.echo(f"stale: {stale}", err=True)
    if rendered.missing:
        click.echo(f"not measured here: {len(rendered.missing)}; the paper says why")
    if rendered.instead:
        click.echo(f"not set with quarto: {rendered.instead}", err=True)
    click.echo(f"set with {rendered.renderer} in {rendered.seconds:.0f} s")
    for made in (rendered.html, rendered.supplement, rendered.pdf):
        if made:
            click.echo(_from_here(made))


def _newest_run() -> str:
    """Return the run with the newest results; a reference if there is no other."""
    from connlab.publish import reference
    from connlab.schema import run_folder

    root = run_folder("")
    found = {p.resolve(): p.stat().st_mtime for p in root.glob("*/*/results.json")}
    others = reference.folders(root)
    own = {p: t for p, t in found.items() if p.parents[1] not in others} or found
    if not own:
        raise click.UsageError("no run has results yet; make paper measures one")
    return max(own, key=own.get).parts[-3]


def _times(seconds: dict[str, float]) -> str:
    from connlab.drive.progress import duration_text

    total = sum(seconds.values())
    parts = [f"{phase} {duration_text(s)}" for phase, s in seconds.items()]
    return ", ".join(parts) + f"; {duration_text(total)} in all"


def _from_here(path: Path) -> str:
    path = Path(path).resolve()
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def main(args: list[str] | None = None) -> int:
    """Run a command; turn what may go wrong into one clear line and a status."""
    try:
        status = cli.main(args, prog_name="connlab", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        said = "stopped; what was measured is kept, the same command goes on"
        return _fail(said, status=130)
    except subprocess.CalledProcessError as error:
        return _fail(f"{error.cmd[0]} failed, see above", status=1)
    except ValueError as error:
        return _fail(str(error), status=2, cause=error)
    except (RuntimeError, OSError) as error:
        return _fail(str(error), status=1, cause=error)
    return status or 0


def _fail(text: str, *, status: int, cause: Exception | None = None) -> int:
    """Say it in one line; with CONNLAB_DEBUG set, show where it came from as well."""
    if cause and os.environ.get("CONNLAB_DEBUG"):
        traceback.print_exception(cause)
    print(f"connlab: {text}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
