"""Simulated sweeps of study 10: servers that share the noise of a machine."""

import numpy as np
from scipy import stats

from connlab.intervals import interval
from connlab.study.turns import verdict

ROUNDS = 20
"""Rounds of a trial."""


def log_ratios(
    rng: np.random.Generator, sweeps: int, trials: int, *, together: bool
) -> np.ndarray:
    """Return the log ratio of two equal servers in each trial.

    Shared noise is a drift (a random walk of 10 % over a trial) and bursts of other
    work (30 % in one round of twenty); each server adds 5 % of its own to each round.

    Parameters
    ----------
    together : bool
        Whether both took turns in the same trial, so that a round has one noise for
        both, or each had trials of its own.

    Returns
    -------
    ndarray, shape (sweeps, trials)
        The median over rounds of the log ratio.
    """
    size = (sweeps, trials, ROUNDS)
    shared = _shared_noise(rng, size)
    other = shared if together else _shared_noise(rng, size)
    own = 0.05 * rng.standard_normal((2, *size))
    return np.median(shared + own[0] - other - own[1], axis=-1)


def _shared_noise(rng: np.random.Generator, size: tuple[int, int, int]) -> np.ndarray:
    steps = rng.standard_normal(size) / np.sqrt(size[-1])
    return 0.1 * np.cumsum(steps, axis=-1) + 0.3 * (rng.random(size) < 0.05)


def holds_when_stopped(x: np.ndarray, first: int, target: float) -> np.ndarray:
    """Return whether the interval holds 0 where a sweep stops because it is narrow.

    Parameters
    ----------
    x : ndarray, shape (sweeps, trials)
        Trials whose true mean is 0; the sweep ends with the last at the latest.
    first : int
        Trials before the first look.
    target : float
        Half-width to stop at.

    Returns
    -------
    ndarray of bool, shape (sweeps,)
    """
    n = np.arange(1, x.shape[1] + 1)
    mean = x.cumsum(axis=1) / n
    df = np.maximum(n - 1, 1)
    var = np.maximum((x**2).cumsum(axis=1) - n * mean**2, 0) / df
    half = stats.t.ppf(0.975, df) * np.sqrt(var / n)
    enough = ((half <= target) & (n >= first)) | (n == x.shape[1])
    sweep, at = np.arange(len(x)), enough.argmax(axis=1)
    return np.abs(mean[sweep, at]) <= half[sweep, at]


def verdicts(logs: np.ndarray) -> np.ndarray:
    """Return the verdict that each sweep prints, by the rule of printed intervals.

    Parameters
    ----------
    logs : ndarray, shape (sweeps, trials)
        Log ratios of two servers.

    Returns
    -------
    ndarray of str, shape (sweeps,)
        ``higher``, ``lower``, ``alike`` or ``undetermined``: alike takes an interval
        that holds 1 and lies within the margin.
    """
    words = [verdict(interval(x)) for x in np.exp(logs)]
    return np.array([word.split(", ")[0] for word in words])
