"""The drawing that explains the families of servers to a newcomer.

Drawn here rather than by hand so that print and page get the same vectors, with text
as outlines: the PDF is set without the fonts of the machine.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

INK, QUIET, BUSY, BOX = "#1c2128", "#8a93a0", "#c2410c", "#e8edf5"
CLIENTS = (0.9, 0.66, 0.42, 0.18)
TALKS = 1  # the second client says something, the others are silent


def families(path: Path) -> Path:
    """Draw the five ways to wait for many clients.

    Parameters
    ----------
    path : path
        Where the SVG goes.

    Returns
    -------
    path
        The same.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib.figure import Figure

    with matplotlib.rc_context({"svg.fonttype": "path", "svg.hashsalt": "connlab"}):
        figure = Figure(figsize=(7.2, 2.15))
        for i, (title, below, draw) in enumerate(_PANELS):
            axes = figure.add_axes((0.005 + i * 0.2, 0.02, 0.19, 0.96))
            axes.set(xlim=(0, 1), ylim=(-0.24, 1.16))
            axes.axis("off")
            axes.text(0.5, 1.1, title, ha="center", fontsize=8.6, weight="bold")
            axes.text(
                0.5,
                -0.22,
                below,
                ha="center",
                fontsize=7,
                color="#57606a",
                va="bottom",
            )
            _clients(axes)
            draw(axes)
        figure.savefig(path, format="svg", transparent=True, metadata={"Date": None})
    return path


def _clients(axes: Any) -> None:
    for i, y in enumerate(CLIENTS):
        colour = BUSY if i == TALKS else "white"
        edge = BUSY if i == TALKS else QUIET
        axes.plot(0.1, y, "o", ms=8, mfc=colour, mec=edge, mew=1.2, zorder=3)


def _box(axes: Any, x: float, y: float, w: float, h: float, text: str = "") -> None:
    from matplotlib.patches import FancyBboxPatch

    shape = FancyBboxPatch(
        (x, y), w, h, boxstyle="round,pad=0,rounding_size=0.03", fc=BOX, ec=INK, lw=0.9
    )
    axes.add_patch(shape)
    axes.text(x + w / 2, y + h / 2, text, ha="center", va="center", fontsize=7)


def _line(axes: Any, x: float, y: float, to: tuple, *, on: bool, dashed=False) -> None:
    style = {"color": BUSY if on else QUIET, "lw": 1.3 if on else 0.8, "zorder": 1}
    axes.plot([x, to[0]], [y, to[1]], ls=":" if dashed else "-", **style)


def _arrow(
    axes: Any, start: tuple, end: tuple, text: str = "", up: float = 0.05
) -> None:
    style = {"arrowstyle": "-|>", "color": INK, "lw": 0.9, "mutation_scale": 7}
    axes.annotate("", xy=end, xytext=start, arrowprops=style)
    middle = ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2 + up)
    axes.text(*middle, text, ha="center", fontsize=7)


def _blocking(axes: Any) -> None:
    for i, y in enumerate(CLIENTS):
        end = (0.58, 0.54) if i == TALKS else (0.4, y)
        _line(axes, 0.16, y, end, on=i == TALKS, dashed=i != TALKS)
    _box(axes, 0.58, 0.38, 0.36, 0.32, "server")


def _threads(axes: Any) -> None:
    for i, y in enumerate(CLIENTS):
        _line(axes, 0.16, y, (0.56, y), on=i == TALKS)
        _box(axes, 0.56, y - 0.085, 0.38, 0.17, "thread")


def _readiness(axes: Any) -> None:
    for i, y in enumerate(CLIENTS):
        _line(axes, 0.16, y, (0.36, y), on=i == TALKS)
    _box(axes, 0.36, 0.06, 0.15, 0.96)
    axes.text(0.435, 0.54, "kernel's list", rotation=90, fontsize=7, **_MIDDLE)
    _arrow(axes, (0.53, 0.66), (0.75, 0.66), "ready")
    _box(axes, 0.75, 0.38, 0.23, 0.36, "loop")


def _completion(axes: Any) -> None:
    for i, y in enumerate(CLIENTS):
        _line(axes, 0.16, y, (0.36, y), on=i == TALKS)
    _box(axes, 0.36, 0.06, 0.15, 0.96)
    axes.text(0.435, 0.54, "kernel reads", rotation=90, fontsize=7, **_MIDDLE)
    _arrow(axes, (0.53, 0.66), (0.75, 0.66), "done")
    _arrow(axes, (0.75, 0.44), (0.53, 0.44), "please", up=-0.12)
    _box(axes, 0.75, 0.38, 0.23, 0.36, "loop")


def _coroutines(axes: Any) -> None:
    for i, y in enumerate(CLIENTS):
        _line(axes, 0.16, y, (0.36, y), on=i == TALKS)
    _box(axes, 0.36, 0.06, 0.15, 0.96)
    axes.text(0.435, 0.54, "kernel's list", rotation=90, fontsize=7, **_MIDDLE)
    _arrow(axes, (0.53, 0.66), (0.64, 0.66))
    _box(axes, 0.64, 0.06, 0.34, 0.96)
    for y in CLIENTS:
        _box(axes, 0.665, y - 0.07, 0.29, 0.14, "routine")


_MIDDLE: dict[str, str] = {"ha": "center", "va": "center"}
_PANELS: tuple[tuple[str, str, Callable[[Any], None]], ...] = (
    ("blocking", "one at a time;\nthe others queue", _blocking),
    ("processes, threads", "a flow of control each;\nthe scheduler waits", _threads),
    ("readiness", "one flow asks\nwho can be read now", _readiness),
    ("completion", "one flow is told\nwhat has been read", _completion),
    ("coroutines", "threads to write,\nreadiness to run", _coroutines),
)
