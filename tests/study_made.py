"""Made-up runs with known truth, for the tests of the study side.

A server of this world serves `capacity` requests per second at most and
answers a lone client after `alone` seconds; trials scatter by `cv`, blocks
drift together by `block_cv`. So X(N) = min(N / alone, capacity), R = N / X.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import connlab.study

STUDY = "response-time"
MODELS = {
    "iterative": ("blocking", "one client at a time"),
    "thread": ("threads", "thread per connection"),
    "select": ("readiness", "select"),
    "poll": ("readiness", "poll"),
    "epoll": ("readiness", "epoll, level-triggered"),
    "uring": ("completion", "io_uring"),
}

REFUSAL = {"select": (1000, "fd_setsize"), "thread": (30_000, "threads")}


def usable(frame: pd.DataFrame, **more) -> pd.DataFrame:
    """Return trials that count, each of its own, as intervals and ratios take them."""
    return frame.assign(repeat=0, ok=True, label=None, reason=None).assign(**more)


def crossed(**levels: Sequence) -> pd.DataFrame:
    """Return a row for each combination of levels."""
    return pd.MultiIndex.from_product(levels.values(), names=levels).to_frame(False)


def t_on_logs(logs: Sequence[float], level: float = 0.95):
    """Return the bounds of SciPy's interval, as ratios."""
    interval = stats.ttest_1samp(logs, 0).confidence_interval(level)
    return pytest.approx(np.exp([interval.low, interval.high]))


def latency(mean: float, n: int, rng) -> dict:
    """Return one clock's figures for a mean in seconds."""
    ns = mean * 1e9
    moments = {"mean_ns": ns, "sd_ns": ns * 0.3}
    ends = {"min_ns": int(ns * 0.3), "max_ns": int(ns * 8)}
    tail = {"p50": 0.95, "p90": 1.4, "p99": 2.2, "p999": 4.0}
    quantiles = {
        f"{k}_ns": int(ns * v * (1 + 0.03 * rng.random())) for k, v in tail.items()
    }
    return {"n": n, **moments, **ends, **quantiles}


def trial(
    model: str = "epoll",
    connections: int = 100,
    *,
    block: int = 0,
    order: int = 0,
    capacity: float = 100_000.0,
    alone: float = 50e-6,
    cv: float = 0.02,
    weather: float = 1.0,
    seed: int = 0,
    **changes,
) -> dict:
    """Return one line of ``trials.jsonl``; `changes` replace whole entries."""
    rng = np.random.default_rng([seed, block, order])
    most, refusal = REFUSAL.get(model, (10**9, "memory"))
    alive = min(connections, most)
    rate = min(alive / alone, capacity) * weather * (1 + cv * rng.standard_normal())
    response = alive / rate
    requests = int(rate)
    refused, census = connections - alive, alive == connections
    family, label = MODELS.get(model, ("coroutine", model))
    factors = {"model": model, "workload": "echo", "connections": connections}
    factors |= {"size": 15, "duration": 1.0, "warmup": 0.1}
    stats = {"accepted": alive, "refused": {refusal: refused}}
    samples = {"window_s": 1.0, "cpu_user_s": 0.2}
    samples |= {"cpu_system_s": 0.7 + 0.01 * rng.random()}
    samples |= {"pss_bytes": 1_000_000 + 900 * alive, "pss_baseline_bytes": 1_000_000}
    samples |= {"other_cpu_s": 0.01, "steal_s": 0.0, "listen_overflows": 0}
    server = {
        "model": {"name": model, "family": family, "label": label}
        | {"concurrent": True, "workers": "none"},
        "stats": stats | {"refused_total": refused, "requests": requests},
        "samples": samples | {"threads_max": alive + 1 if model == "thread" else 1},
    }
    counted = {"asked": connections, "attempted": connections, "established": alive}
    window = {"warmup_s": 0.1, "seconds": 1.0, "requests": requests}
    client = {
        **dict.fromkeys(("arrivals", "offered_rps")),
        **{"loop": "closed", "active": connections, "think_s": 0},
        **{"threads": 1, "processes": 1, "limits": {"descriptors": 0, "ports": 0}},
        "connections": counted | {"refused": refused, "failed": 0, "surviving": alive},
        "window": window | {"bytes": requests * 15, "throughput_rps": rate},
        "response": latency(response, requests, rng),
        "service": latency(response, requests, rng),
        "connect": latency(alone * 2, connections, rng),
        "errors": {"reset": 0, "closed": refused, "mismatch": 0, "status": 0},
        "self": {"cpu_user_s": 0.2, "cpu_system_s": 0.6, "cpu_share": 0.8}
        | {"spin_share": 0.1, "waiting_share": 0.1},
        "stop": "duration",
    }
    steps = [int(rate / 10 * (1 + 0.05 * z)) for z in rng.standard_normal(11)]
    return {
        "schema": 1,
        "key": f"{model}-{connections}-{block}",
        "study": "response-time",
        "block": block,
        "order": order,
        "repeat": block,
        "seed": seed,
        "factors": factors,
        "started_at": f"2025-01-01T00:{block:02d}:{order % 60:02d}+00:00",
        "seconds": 1.3,
        "environment": "made",
        "binaries": {"server": "a", "client": "b"},
        "cores": {"server": [0], "client": [1], "shared": False},
        "server": server,
        "client": client,
        "timeline": {"step_ms": 100, "start_ms": 0, "requests": steps},
        "gates": {
            "census": {"ok": census, "value": alive / connections, "threshold": 1.0},
            "little": {"ok": True, "value": 1.0, "threshold": 0.05},
        },
        "label": "server-bound" if census else f"limit-bound:{refusal}",
        "failure": None,
    } | changes


def sweep(
    models: Sequence[str] = ("select", "thread", "epoll"),
    connections: Sequence[int] = (1, 10, 100, 1000),
    *,
    blocks: int = 5,
    capacity: Mapping[str, float] | None = None,
    block_cv: float = 0.0,
    seed: int = 1,
    **options,
) -> list[dict]:
    """Return the trials of a whole sweep: each block holds every cell once."""
    rng = np.random.default_rng(seed)
    lines = []
    for block in range(blocks):
        weather = 1 + block_cv * rng.standard_normal()
        grid = [(m, c) for m in models for c in connections]
        for order, i in enumerate(rng.permutation(len(grid))):
            model, count = grid[i]
            most = (capacity or {}).get(model, 100_000.0)
            place = {"block": block, "order": order, "seed": seed, "weather": weather}
            lines.append(trial(model, count, capacity=most, **place, **options))
    return lines


def write(
    folder: Path, rows: Sequence[dict], *, study=STUDY, file="trials.jsonl", tail=""
) -> Path:
    """Write trials, or other facts, below ``folder/made/STUDY``; return `folder`."""
    path = folder / "made" / study / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows) + tail)
    return folder


def load(folder: Path, trials: Sequence[dict]) -> pd.DataFrame:
    """Write trials and read them again, as a notebook does."""
    return connlab.study.load("made", STUDY, root=write(folder, trials))
