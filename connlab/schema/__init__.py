"""What a trial is: the facts on disk, and the columns that frames make of them.

This package is what ``connlab.drive`` (which writes) and ``connlab.study`` (which
reads) share. Flat columns are in SI units without prefix (seconds, bytes, 1/s).
"""

from connlab.schema.columns import COLUMNS, FACTORS, flatten, value_of
from connlab.schema.derived import (
    EXCLUDING,
    FINDINGS,
    UNANSWERED,
    client_cpu_s,
    counted_rounds,
    counts_answers,
    counts_whole_slices,
    cpu_in_ticks,
    excluding,
    largest_message,
    load_gate,
    pick,
    refused_reason,
    skipped_rounds,
    verdicts,
)
from connlab.schema.facts import (
    SCHEMA,
    Client,
    CoreToCore,
    Facts,
    Failure,
    Gate,
    Heartbeat,
    Model,
    Ready,
    Registry,
    Samples,
    Server,
    Stall,
    Stats,
    Timeline,
    Trial,
    Turns,
    Workload,
    is_trial,
)
from connlab.schema.files import (
    PACKED,
    TRIALS,
    Log,
    alone,
    facts_bytes,
    facts_file,
    finite,
    json_text,
    put,
    read_json,
    read_log,
)
from connlab.schema.paths import (
    NoSuchRun,
    existing_run,
    project_root,
    run_folder,
    run_name,
    study_folder,
)
from connlab.schema.placement import FARTHER, note_moves

CLIENT_QUEUE = 0.5
"""A client is the bottleneck when more than this share of requests wait for it."""
CORES_APART = 1.1
"""Two cores count as independent up to this slowdown of a computation on one of them
while the other is busy."""
