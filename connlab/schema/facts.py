"""Facts on disk: pydantic models of the lines in ``runs/NAME/STUDY/trials.jsonl``.

Facts that come from the C programs keep their names and may grow new ones: a model
allows extra keys, so that a newer server never makes an older reader fail. Times are
integers in nanoseconds where a name ends in ``_ns`` and floats in seconds where it
ends in ``_s``.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

SCHEMA = 1
"""The version of these lines; a newer one is refused where it is no `Trial` here."""


class Facts(BaseModel):
    """A fact: frozen, and open to keys that a newer program adds."""

    model_config = ConfigDict(frozen=True, extra="allow")


class Model(Facts):
    """A row of ``server --list``: one way to wait for many clients."""

    name: str
    family: str
    label: str
    available: bool = True
    reason: str | None = None
    concurrent: bool = True
    holds: str | None = None
    isolates_slow: bool = True
    workers: str | None = None
    workers_each: int = 0


class Workload(Facts):
    """A row of ``server --list``: one kind of work."""

    name: str
    label: str = ""
    available: bool = True
    reason: str | None = None


class Registry(Facts):
    """The answer of ``server --list``."""

    models: tuple[Model, ...]
    workloads: tuple[Workload, ...] = ()


class Ready(Facts):
    """The server's first line."""

    model: str
    host: str
    port: int
    start_s: float | None = None
    """Seconds from the start of its program until it took connections.

    ``build/external`` reports it for a server that connlab did not write; for ours it
    is the time until the drive read this line.
    """
    workload: str | None = None
    processes: int | None = None
    workers: int | None = None


class Stats(Facts):
    """The server's last line: what it counted itself, over its whole life."""

    accepted: int = 0
    refused: dict[str, int] = {}
    refused_total: int = 0
    open_max: int = 0
    requests: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    errors: dict[str, int] = {}
    timeouts: dict[str, int] = {}
    workers_started: int | None = None
    requests_per_worker: list[int] = []
    processes: int | None = None
    cpu_user_s: float | None = None
    cpu_system_s: float | None = None
    context_switches_voluntary: int | None = None
    context_switches_involuntary: int | None = None
    seconds: float | None = None


class Samples(Facts):
    """What the driver measured of the server and its machine from outside.

    CPU figures cover the measurement window, and `window_s` is the width that they
    really cover. Memory and counts are maxima between ready and the client's end.
    Kernel figures belong to the whole machine (or network namespace):
    on loopback the socket memory holds both ends of every connection.
    """

    window_s: float | None = None
    window_from: str | None = None
    cpu_user_s: float | None = None
    cpu_system_s: float | None = None
    pss_bytes: int | None = None
    pss_baseline_bytes: int | None = None
    threads_max: int | None = None
    processes_max: int | None = None
    context_switches_voluntary: int | None = None
    context_switches_involuntary: int | None = None
    socket_memory_bytes: int | None = None
    socket_memory_baseline_bytes: int | None = None
    sockets_max: int | None = None
    time_wait_start: int | None = None
    listen_overflows: int | None = None
    listen_drops: int | None = None
    other_cpu_s: float | None = None
    softirq_cpu_s: float | None = None
    steal_s: float | None = None
    driver_cpu_s: float | None = None
    client_cpu_s: float | None = None
    companion_cpu_s: float | None = None
    samples: int = 0
    memory_samples: int = 0


class Stall(Facts):
    """A time in which the server stood still, because the trial asked for it."""

    from_s: float
    """After the start of the client."""
    seconds: float


class Server(Facts):
    """The server's side of a trial; missing facts were never reported."""

    model: Model | None = None
    ready: Ready | None = None
    stats: Stats | None = None
    samples: Samples | None = None
    unseen: str | None = None
    """Why there are no samples, of a server that could not be observed."""
    stall: Stall | None = None
    exit: int | None = None
    diagnostics: str | None = None


class Latency(Facts):
    """Moments and quantiles of one clock; all null when nothing was measured.

    In the open loop a request that was never answered waits longer than all that
    were: a quantile of the response is null where it falls on one of those. Moments
    are of what was answered.
    """

    n: int = 0
    mean_ns: float | None = None
    sd_ns: float | None = None
    min_ns: int | None = None
    max_ns: int | None = None
    p50_ns: int | None = None
    p90_ns: int | None = None
    p99_ns: int | None = None
    p999_ns: int | None = None


class Census(Facts):
    """Connections, as asked for and as they ended."""

    asked: int
    attempted: int = 0
    established: int = 0
    refused: int = 0
    failed: int = 0
    surviving: int = 0


class Client(Facts):
    """The client's JSON object (``src_c/client`` says what each means)."""

    workload: str | None = None
    loop: str | None = None
    arrivals: str | None = None
    seed: int | None = None
    offered_rps: float | None = None
    threads: int | None = None
    processes: int | None = None
    active: int | None = None
    think_s: float | None = None
    connections: Census
    requests: dict[str, int] = {}
    bytes: dict[str, int] = {}
    errors: dict[str, int] = {}
    window: dict[str, Any] = {}
    response: Latency = Latency()
    service: Latency = Latency()
    connect: Latency = Latency()
    fairness: dict[str, Any] = {}
    self_: dict[str, Any] = Field({}, alias="self")
    stop: str | None = None


class Gate(Facts):
    """One verdict on one trial; null where it does not apply.

    A failed gate excludes the trial; findings exclude nothing.
    """

    ok: bool | None
    value: float | None = None
    threshold: float | None = None
    why: str | None = None


class Failure(Facts):
    """Why a trial has no usable figures.

    Kinds: ``unavailable`` (the model cannot run here), ``server-start``,
    ``server-died``, ``client-failed``, ``client-hung``, ``no-connection``,
    ``no-requests``, ``host-lost`` (it no longer answered).
    """

    kind: str
    reason: str


class Timeline(Facts):
    """Requests completed in consecutive steps from the start of the client's load.

    Warm-up and window follow each other; `warmup_detected_s` says after how many
    seconds throughput had settled, whatever warm-up was asked for.
    """

    step_ms: int
    start_ms: int
    requests: list[int]
    warmup_detected_s: float | None = None


class Turns(Facts):
    """The rounds of a trial whose server took turns with others under one client.

    One entry a counted round, in order: requests of the lead-in and after it, the sum
    of response times after it, seconds without the lead-in (of a lone user who asks
    with each answer as many as its answers took), CPU time of the server in the whole
    slice (null where it could not be observed). Trials of one study, block and `set`
    shared client and rounds.
    """

    set: str = ""
    beside: int
    """Servers of the set, this one among them."""
    carried: bool = False
    """The baseline measured once more: beside many others, or in a set that was split
    for lack of room."""
    slice_ms: float
    lead_in_ms: float
    pause_ms: float | None = None
    """Between slices, where clients on other hosts began them at fixed moments."""
    round: list[int] = []
    lead_in_requests: list[int] = []
    requests: list[int] = []
    response_ns: list[int] = []
    response_p99_ns: list[int | None] = []
    """Of the requests of each slice; empty in a closed loop."""
    seconds: list[float] = []
    server_cpu_ns: list[int | None] = []
    rest_cpu_ns: list[int | None] = []
    """CPU time of the server since its slice before, while others had theirs."""
    others: list[float] = []
    """Cores that other programs and other guests (steal) took in each round; the same
    for all servers of the set."""
    disturbed: list[int] = []
    """Rounds that count for no server of the set, because of `others`."""
    late: int | None = None
    """Rounds that the client excluded for all servers, as it was late itself (open
    loop: ``client --late``), or as a slice was incomplete on one of several hosts; they
    are not in `round`."""
    repeated: int | None = None
    """Slices of the set that were repeated, as the client was late itself; None where
    it could not repeat them."""

    @property
    def slices_s(self) -> float:
        """Seconds of all counted slices, with their lead-ins."""
        return sum(self.seconds) + len(self.seconds) * self.lead_in_ms / 1e3


class CoreToCore(Facts):
    """How long a cache line took from the server's core to the client's and back.

    Before the trial and after it, the same for all servers of a set. None where both
    have one core, or are on several hosts.
    """

    before_s: float | None = None
    after_s: float | None = None


class Trial(Facts):
    """One line of ``trials.jsonl``: a fresh server, a fresh client, self-contained."""

    schema_: int = Field(SCHEMA, alias="schema")
    key: str
    """A hash of all that defines it (`connlab.drive.grid.key`); a sweep resumes by it.

    Of lines with the same key the last counts: where a crash cut the lines of a set,
    its baselines may be there, and are measured once more beside the others.
    """
    study: str
    sweep: str | None = None
    """A hash of the cells of the sweep that measured it, as in the manifest."""
    block: int
    order: int
    repeat: int
    seed: int
    factors: dict[str, Any]
    started_at: str
    seconds: float
    environment: str
    binaries: dict[str, str]
    commands: dict[str, str] = {}
    cores: dict[str, list[int] | bool]
    core_to_core: CoreToCore | None = None
    server: Server
    client: Client | None = None
    timeline: Timeline | None = None
    turns: Turns | None = None
    gates: dict[str, Gate] = {}
    findings: dict[str, Gate] = {}
    label: str | None = None
    failure: Failure | None = None


def is_trial(line: Mapping[str, Any]) -> bool:
    """Whether a line of ``trials.jsonl`` is a trial that this version knows."""
    try:
        Trial.model_validate(line)
    except ValidationError:
        return False
    return True


class Heartbeat(Facts):
    """``progress.json``: what a sweep is doing, rewritten after every trial."""

    schema_: int = Field(SCHEMA, alias="schema")
    run: str
    study: str
    state: str
    planned: int
    done: int
    resumed: int
    failed: int
    started_at: str
    updated_at: str
    seconds: float
    eta_s: float | None = None
    window_share: float | None = None
    current: dict[str, Any] | None = None
    message: str | None = None
