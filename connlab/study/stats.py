"""Intervals, comparisons and tests: numbers in, numbers out.

    trials -> interval of one cell -> ratio of two cells -> a word
    (interval)                        (comparing)

The unit of replication is the trial. A function here takes one number per
trial (a throughput, a mean response time, a 99th percentile) and never the
requests inside a trial: those share a process, a cache and a scheduler, and
treating them as independent makes every interval too narrow.

Nothing is removed. A value that is not a number is an error of the caller;
an outlier is counted by `checks` and stays where it is.

scipy and statsmodels do the work wherever they offer the method. This module
is the door; the code stands in `interval` (one cell), `comparing` (two),
`repeating` (many trials over time), `queueing` and `scaling` (the laws).
"""

from connlab.study.comparing import (
    MARGIN,
    Comparison,
    Equivalence,
    KruskalWallis,
    compare,
    fieller,
    holm,
    kruskal_wallis,
    ratio_p_value,
    ratio_paired,
    simultaneous_level,
    tost,
)
from connlab.study.interval import (
    LEVEL,
    Checks,
    Interval,
    bca_interval,
    checks,
    median_interval,
    min_trials_for_quantile,
    quantile_interval,
    t_interval,
    undetermined,
)
from connlab.study.queueing import (
    Little,
    Queue,
    best_pool,
    busy_workers,
    closed_bounds,
    erlang_b,
    erlang_c,
    finite_source,
    little,
    mgc,
    mmc,
)
from connlab.study.repeating import (
    Drift,
    Stopping,
    VarianceComponents,
    drift,
    recommended_repetitions,
    simulate_stopping,
    trials_needed,
    variance_components,
)
from connlab.study.scaling import (
    MIN_LEVELS,
    UslFit,
    usl_fit,
    usl_throughput,
)

__all__ = [
    "LEVEL",
    "MARGIN",
    "MIN_LEVELS",
    "Checks",
    "Comparison",
    "Drift",
    "Equivalence",
    "Interval",
    "KruskalWallis",
    "Little",
    "Queue",
    "Stopping",
    "UslFit",
    "VarianceComponents",
    "bca_interval",
    "best_pool",
    "busy_workers",
    "checks",
    "closed_bounds",
    "compare",
    "drift",
    "erlang_b",
    "erlang_c",
    "fieller",
    "finite_source",
    "holm",
    "kruskal_wallis",
    "little",
    "median_interval",
    "mgc",
    "min_trials_for_quantile",
    "mmc",
    "quantile_interval",
    "ratio_p_value",
    "ratio_paired",
    "recommended_repetitions",
    "simulate_stopping",
    "simultaneous_level",
    "t_interval",
    "tost",
    "trials_needed",
    "undetermined",
    "usl_fit",
    "usl_throughput",
    "variance_components",
]
