"""What the tests of connlab.bench share: made-up models, plans and windows."""

from __future__ import annotations

from connlab import schema
from connlab.bench import plan, windows
from connlab.drive import cores, programs


def model(name: str, **other) -> schema.Model:
    """Return a model that holds as many connections as it may have descriptors."""
    facts = {
        "name": name,
        "family": "readiness",
        "label": name,
        "available": True,
        "concurrent": True,
        "holds": "descriptors",
        "isolates_slow": True,
        "workers": "none",
    }
    return schema.Model(**facts | other)


def make_plan(*models: schema.Model, **other) -> plan.Plan:
    """Return a plan of three short rounds of epoll."""
    facts = {
        "models": models or (model("epoll"),),
        "workloads": ("echo",),
        "connections": (50, 1000),
        "rounds": 3,
        "seconds": 0.1,
        "size": 64,
        "idle": 100,
        "seed": 1,
        "cores": cores.Cores((0,), (1,), False),
        "programs": programs.built(),
    }
    return plan.Plan(**facts | other)


def made(arm, *rates, cost=5e-6, client=None, **other) -> list[windows.Window]:
    """Return a window of `arm` for each rate; costs are seconds per request."""
    return [
        windows.Window(
            number,
            arm.workload,
            arm.connections,
            arm.model,
            throughput_rps=rate,
            server_cpu_per_request_s=cost,
            client_cpu_per_request_s=client,
            **other,
        )
        for number, rate in enumerate(rates)
    ]
