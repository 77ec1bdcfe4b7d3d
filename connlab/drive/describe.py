"""``runs/README.md``, made from the schema so that it cannot disagree with it.

``python -m connlab.drive.describe > runs/README.md`` renews it; a test compares.
"""

from __future__ import annotations

from collections.abc import Iterable

from connlab import schema

_HEAD = """\
# Runs: what was measured

<!-- Made by `python -m connlab.drive.describe`; change connlab/schema instead. -->

A run is a folder of facts about one machine; each study in it is a folder of trials.
Facts are appended and never edited; all that is derived from them can be thrown away
and made again: `make evaluate RUN=NAME`, on any machine. Only `reference/` is kept in
the repository.
"""

_FILES = (
    (
        "`NAME/manifest.json`",
        "the machine: kernel, processor, cores, mitigations, limits, sysctls that"
        " matter, compiler and flags, versions, git commit and whether the tree was"
        " changed, hashes of both programs; per study its parameters, its seed and how"
        " its last sweep ended; every class of environment that ever added trials",
    ),
    (
        "`NAME/STUDY/trials.jsonl`",
        "one trial per line, self-contained: factors, what the server said and what"
        " was seen of it, what the client said, gates, label, failure or null; in a run"
        " that the project keeps it is packed (`trials.jsonl.gz`), and unpacked by a"
        " sweep that goes on",
    ),
    (
        "`NAME/STUDY/floor.jsonl`",
        "of studies 00 and 12, one round per line, self-contained: a fresh process that"
        " measured what the machine's own calls cost, in `report`; `binaries` and"
        " `environment` as for a trial",
    ),
    (
        "`NAME/why/counts.jsonl`",
        "one cell per line: events per request (system calls by kind, wake-ups, context"
        " switches, page faults) of a server under `perf stat`, in runs that were not"
        " timed",
    ),
    (
        "`NAME/why/profiles.jsonl`",
        "one profile per line: what `perf record` sampled of a server under load, in"
        " runs that were not timed; `tree` has the samples of each function (`value`)"
        " and of what it called (`children`), of the kernel with `_[k]`",
    ),
    (
        "`NAME/STUDY/progress.json`",
        "heartbeat of a sweep, renewed before and after every trial",
    ),
    (
        "`NAME/STUDY/latency/KEY.csv.gz`",
        "histogram of trial KEY, where a sweep was asked to keep them: `lower_ns`,"
        " `upper_ns`, `count`, `clock` (response, service or connect); of the reference"
        " those of study 09 only, to keep a clone small",
    ),
    (
        "`NAME/STUDY/figures/`",
        "derived: SVG, PDF and the data of each figure; of the reference no PDF",
    ),
    ("`NAME/STUDY/results.json`", "derived: values with intervals, tables, words"),
    ("`NAME/STUDY/*.ipynb`", "derived: the executed notebook"),
    (
        "`NAME/STUDY/failure.json`",
        "why a study has no results, in one line; `notebook.failed.ipynb` beside it"
        " ends where it failed",
    ),
    (
        "`NAME/cases/cases.jsonl`",
        "one answer per line: a test case of an earlier report, asked of one model; its"
        " `evidence` says what was compared",
    ),
    (
        "`NAME/claims/results.json`",
        "derived: the verdict on each claim of earlier reports (`paper/claims.yml`),"
        " from the trials of all studies; written anew only when it says anything else",
    ),
    (
        "`bench/bench-TIME.json`",
        "no run: what one `make bench` found: comparisons, each as `connlab compare"
        " --json` gives it, CPU time of a request of the floor beside its sets,"
        " memory of idle connections, system calls of a request, load generator beside"
        " others (`load_generators`), targets",
    ),
)

_TRIAL = """\
## A trial

A trial is a fresh server process and a fresh client process. Its `key` is a hash of
its factors and fixed settings, its repeat number, both binaries and the class of
environment (kernel, processor, cores, congestion control, mitigations; a quota of CPU
time, and physical cores where they are fewer than cores). Where a model could not run,
the reason is part of it. A sweep that is called again skips every key that is there,
and measures nothing where there are trials of another class. A line cut short by a
crash is no fact; the next sweep cuts it off and says so.

A server that connlab did not write stands in `factors.model` by its name in
`servers.toml` or as its command line. Then `server.model` says its `language` and
`version`, and `binaries.external` is a hash of its command, version, sources and
compiled file, which is part of the key. `server.stats` is null unless it counts as ours
do.

A trial that failed, or that did not pass a gate, stays; `ok` says whether it may be
used by rule. Times end in `_ns` (integers, nanoseconds) or `_s` (seconds), sizes in
`_bytes`.

Kernel figures (`socket_memory_bytes`, `sockets_max`, `listen_overflows`,
`listen_drops`, `time_wait_start`) belong to the whole machine or network namespace;
`other_cpu_s`, `softirq_cpu_s` and `steal_s` to all cores that the run might use (in
earlier runs: to the whole machine). `softirq_cpu_s` is packets that the kernel took
from both sides' accounts onto its own (ksoftirqd); `other_cpu_s` is without it. On
loopback the socket memory holds both ends of every connection, and the kernel counts it
in batches of up to 1 MiB per core, so that small figures are coarse.

CPU time of the server covers the measurement window: `server.samples.window_s` is the
width that was really covered; `window_from` says how the window was found: from the
client's start, dialing and warm-up (`start`), or from its report (`end`).
`client_cpu_s` is the client's in the same window, from looks at it, its start and its
report; earlier runs lack the latter two, and took for others' what a client used that
ended before a second look.

## Trials in turns

Servers that are compared take turns under one client: several fresh servers, one fresh
client that turns from one to the next every 20 ms, in rounds of one slice each, so that
what else the machine does meets all of them alike. Each server leaves a line of its
own; lines with the same `turns.set` shared client and rounds. `turns` holds a list per
quantity, with one entry for each counted round: `requests` and `seconds` after the
lead-in of a slice, `response_ns` in all of these, `lead_in_requests` in it,
`slice_seconds` and `server_cpu_ns` of the
whole slice. A ratio of two servers is the median over rounds of the log of their ratio,
one number a trial. `window_from` is `slices` then, `duration` and `warmup` are those of
one server's slices together, and `other_cpu_s` and `steal_s` are the whole set's, in
proportion, so that a gate lets in all servers of a set or none.

## Cores

`cores` are the sets that server and client could use, and `companions` that of Redis
where it was asked; `shared` is true where the machine has too few to keep server and
client apart, and `siblings` where they are apart but have threads of one physical core,
so that each slows the other (earlier runs do not say).
"""


def readme() -> str:
    """Return the text of ``runs/README.md``."""
    files = "\n".join([*_table(("file", "what it holds"), _FILES), ""])
    return "\n".join([_HEAD, files, _TRIAL, _models(), _columns()])


def _models() -> str:
    rows = []
    for prefix, model in (
        ("", schema.Trial),
        ("turns.", schema.Turns),
        ("server.samples.", schema.Samples),
        ("", schema.Heartbeat),
    ):
        title = model.__name__
        about = (model.__doc__ or "").strip().splitlines()[0]
        names = [field.alias or name for name, field in model.model_fields.items()]
        listed = ", ".join(f"`{prefix}{name}`" for name in names)
        rows.append(f"- **{title}**: {about} Keys: {listed}.")
    return "\n".join(["## Keys\n", *rows, ""])


def _columns() -> str:
    head = [
        "## Columns of a frame",
        "",
        "`connlab.study.load(run, study)` gives one row per trial with these columns.",
        "",
    ]
    table = _table(
        ("column", "unit", "type", "where in the trial", "meaning"),
        (
            (f"`{c.name}`", c.unit, c.dtype, c.path, c.description)
            for c in schema.COLUMNS
        ),
    )
    return "\n".join([*head, *table, ""])


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    names = list(head)
    lines = [names, ["---"] * len(names), *rows]
    return ["| " + " | ".join(cell or "–" for cell in line) + " |" for line in lines]


if __name__ == "__main__":
    print(readme(), end="")
