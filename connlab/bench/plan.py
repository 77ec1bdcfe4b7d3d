"""What is measured: the arms of a round, and the flags of each."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path

from connlab import schema
from connlab.drive import cores, programs

FLOOR = "floor"
#: the folder of lessons, and what their arms are called
LESSON = "lessons"
#: what other models are compared with
BASE = "epoll"
WARMUP_S = 0.1
#: the page that http arms ask for
PAGE, PAGE_BYTES = "page", 1024


@dataclass(frozen=True)
class Plan:
    """All that is fixed before the first window."""

    models: tuple[schema.Model, ...]
    workloads: tuple[str, ...]
    connections: tuple[int, ...]
    rounds: int
    seconds: float
    size: int
    idle: int
    seed: int
    cores: cores.Cores
    programs: programs.Programs
    lessons: bool = False

    @property
    def floor(self) -> str:
        """The calibration program, built beside the server."""
        return str(Path(self.programs.server[-1]).with_name(FLOOR))

    def model(self, name: str) -> schema.Model:
        """Return the entry of a model that takes part."""
        return next(model for model in self.models if model.name == name)

    def lesson(self, name: str) -> programs.Programs:
        """Return the programs with the lesson of a model in the server's place.

        A lesson takes nothing but a port, so a shell keeps a server's flags from it.
        """
        path = Path(self.programs.server[-1]).with_name(LESSON) / name
        server = ("sh", "-c", 'exec "$0"', str(path))
        return programs.Programs(server, self.programs.client)


@dataclass(frozen=True)
class Arm:
    """One of the things that a round measures once."""

    workload: str
    connections: int
    model: str

    @property
    def lesson(self) -> str | None:
        """The model whose lesson this is; None where it is no lesson."""
        folder, _, name = self.model.rpartition("/")
        return name if folder == LESSON else None


def lesson_arms(plan: Plan) -> list[Arm]:
    """Return the lessons that are built, where the model of that name takes part."""
    fewest = min(plan.connections)
    return [
        Arm("echo", fewest, f"{LESSON}/{model.name}")
        for model in plan.models
        if plan.lessons
        and "echo" in plan.workloads
        and (model.concurrent or fewest == 1)
        and Path(plan.lesson(model.name).server[-1]).exists()
    ]


def arms(plan: Plan) -> list[Arm]:
    """Return all that a round measures: echo at every width, others at the least.

    A model that serves one client at a time takes part only where there is one.
    """
    listed = []
    for workload, connections in itertools.product(plan.workloads, plan.connections):
        if workload == "echo":
            listed.append(Arm(workload, connections, FLOOR))
        elif connections != min(plan.connections):
            continue
        listed += [
            Arm(workload, connections, model.name)
            for model in plan.models
            if model.concurrent or connections == 1
        ]
    return listed


def factors(plan: Plan, arm: Arm, *, root: str | None = None) -> dict:
    """Return the settings of one arm, by the names of `connlab.drive`.

    A pool of threads or processes gets a worker for each connection: one that has
    none is not served at all, which is not what is compared here.
    """
    told = {
        "model": arm.model,
        "workload": arm.workload,
        "connections": arm.connections,
        "duration": plan.seconds,
        "warmup": WARMUP_S,
        "engine": "auto",
    }
    if arm.workload == "echo":
        told["size"] = plan.size
    if arm.workload == "http":
        told |= {"root": root, "path": f"/{PAGE}"}
    model = plan.model(arm.lesson or arm.model)
    if model.workers == "fixed" and model.holds == "workers":
        told["workers"] = arm.connections
    return told
