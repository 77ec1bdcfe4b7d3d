"""Quarto, run in a copy of the paper's folder that is thrown away.

``quarto render`` writes between the sources (``index.typ``, ``index_files/``), appends
to ``.gitignore``, and leaves all of it behind when it fails. It also gets a time limit,
and a process group of its own, because it starts pandoc, Typst and Sass as further
processes. Page and PDF are taken from the copy when both are there and it ended with
status 0.
"""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

OLDEST = (1, 6)
"""The first version whose pandoc leaves pictures what they are when it embeds them.

Before, each becomes a drawing within the page, which the theme does not know: it cannot
be enlarged and has no white plate in the dark."""
LIMIT_S = 600.0
"""A rendering of the reference takes about 50 s on two cores."""
_VERSION_LIMIT_S = 60.0
_LAST_LINES = 8
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_SPELLINGS = {"index.html": ("index.html",), "paper.pdf": ("paper.pdf", "index.pdf")}
_NOT_COPIED = (
    *("_output", ".quarto", ".jupyter_cache", "index_files"),
    *(name for spellings in _SPELLINGS.values() for name in spellings),
)
"""What an earlier Quarto left; its page and PDF would pass for those of this one."""


class QuartoError(RuntimeError):
    """Quarto cannot set the paper; the message says why, on one line."""


def installed() -> str | None:
    """Return the path of the ``quarto`` on the PATH, None where there is none."""
    return shutil.which("quarto")


def version() -> str:
    """Return Quarto's version; none, or one before `OLDEST`, raises QuartoError."""
    text = _run(["--version"], Path.cwd(), limit_s=_VERSION_LIMIT_S)[0].strip()
    numbers = re.match(r"(\d+)\.(\d+)", text)
    if not numbers:
        raise QuartoError(f"quarto --version says {text[:80]!r}")
    if (int(numbers[1]), int(numbers[2])) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise QuartoError(f"Quarto {text} is older than {oldest}")
    return text


def render(paper: Path, output: Path) -> list[str]:
    """Let Quarto set the paper in both formats; return its warnings, one line each.

    When it fails, takes longer than `LIMIT_S` or leaves one of the files out,
    QuartoError says so.
    """
    with tempfile.TemporaryDirectory(prefix="connlab-quarto-") as folder:
        copy = Path(folder, "paper")
        shutil.copytree(paper, copy, ignore=shutil.ignore_patterns(*_NOT_COPIED))
        _, said = _run(["render"], copy, limit_s=LIMIT_S)
        for name, path in _outputs(copy).items():
            shutil.copyfile(path, output / name)
    lines = _COLOUR.sub("", said).splitlines()
    return [ln.strip() for ln in lines if "WARN" in ln or "Unable to resolve" in ln]


def _outputs(copy: Path) -> dict[str, Path]:
    """Find each file, also where output-file of a format was not honoured."""
    outputs = {}
    for name, spellings in _SPELLINGS.items():
        paths = (f / s for f in (copy / "_output", copy) for s in spellings)
        written = [p for p in paths if p.is_file() and p.stat().st_size]
        if not written:
            raise QuartoError(f"quarto render ended well and left no {name}")
        outputs[name] = written[0]
    return outputs


def _run(words: list[str], folder: Path, *, limit_s: float) -> tuple[str, str]:
    """Return what Quarto printed: its output, and what it said beside that."""
    try:
        process = subprocess.Popen(
            ["quarto", *words],
            cwd=folder,
            env=os.environ | {"NO_COLOR": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        raise QuartoError(f"quarto cannot be started: {error.strerror}") from error
    with process:  # waits for it and closes its pipes, whatever happens
        try:
            out, err = process.communicate(timeout=limit_s)
        except BaseException as error:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                message = f"quarto {words[0]} took longer than {limit_s:g} s"
                raise QuartoError(message) from None
            raise
    if process.returncode:
        raise QuartoError(_failure(words[0], process.returncode, err or out))
    return out, err


def _failure(word: str, status: int, output: str) -> str:
    ended = f"ended with status {status}"
    if status < 0:
        ended = f"was ended by {signal.Signals(-status).name}"
    lines = [" ".join(ln.split()) for ln in _COLOUR.sub("", output).splitlines()]
    last = [line for line in lines if line][-_LAST_LINES:]
    return f"quarto {word} {ended}: {' | '.join(last) or 'it said nothing'}"
