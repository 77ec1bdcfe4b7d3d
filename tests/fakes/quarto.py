#!/usr/bin/env python3
"""A quarto that works, and the ways in which real ones were seen to fail.

``FAKE_QUARTO`` says which (the words are those of Quarto 1.7.32 and its Typst):

    well        both files, exit 0; appends to .gitignore, as the real one does
    package     the page, then Typst cannot download a package: exit 1, no PDF
    fonts       both files and warnings about fonts, exit 0
    late        both files, then exit 1
    crash       dies by a signal between the files
    hang        starts a process and never ends; its id goes to FAKE_QUARTO_CHILD
    nothing     exit 0 and no files
    half        exit 0 and no PDF
    old         is version 1.3.450
    mute        does not say its version
    broken      cannot even say its version: exit 1
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

MODE = os.environ.get("FAKE_QUARTO", "well")
PAGE = """<!DOCTYPE html><html lang="en"><head><title>Set by the fake</title></head>
<body><p>Set by the fake quarto.</p></body></html>
"""
PACKAGE = """\x1b[1m[typst]: Compiling index.typ to index.pdf...\x1b[0m
error: failed to download package (@preview/fontawesome:0.5.0: Dns Failed)
    ┌─ index.typ:362:8
    │
362 │ #import "@preview/fontawesome:0.5.0": *
"""
FONTS = """[WARNING] Could not fetch resource Google Fonts: Source Sans Pro
[WARNING] Could not fetch resource Google Fonts: Lato
"""


def version() -> int:
    if MODE == "broken":
        print("deno: cannot execute: required file not found", file=sys.stderr)
        return 1
    print({"old": "1.3.450", "mute": ""}.get(MODE, "1.7.32"))
    return 0


def between_the_sources(folder: Path) -> None:
    """Leave what the real one leaves when it fails, and what it always appends."""
    (folder / "index.typ").write_text("#show: doc => article(doc)\n", "utf-8")
    (folder / "index_files").mkdir(exist_ok=True)
    (folder / "index_files" / "lib.js").write_text("", "utf-8")
    with (folder / ".gitignore").open("a", encoding="utf-8") as ignored:
        ignored.write("\n# appended by the fake quarto\n")


def render(folder: Path) -> int:
    between_the_sources(folder)
    if MODE == "nothing":
        return 0
    output = folder / "_output"
    output.mkdir(exist_ok=True)
    (output / "index.html").write_text(PAGE, "utf-8")
    if MODE == "package":
        (folder / "index.html").write_text(PAGE, "utf-8")
        print(PACKAGE, file=sys.stderr)
        return 1
    if MODE == "crash":
        os.kill(os.getpid(), signal.SIGKILL)
    if MODE == "hang":
        child = subprocess.Popen(["sleep", "60"])
        Path(os.environ["FAKE_QUARTO_CHILD"]).write_text(str(child.pid))
        time.sleep(60)
    if MODE == "half":
        return 0
    (output / "paper.pdf").write_bytes(b"%PDF-1.7\n%%EOF\n")
    if MODE == "fonts":
        print(FONTS, file=sys.stderr)
    if MODE == "late":
        print("ERROR: Uncaught (in promise) BadResource", file=sys.stderr)
    return int(MODE == "late")


if __name__ == "__main__":
    sys.exit(version() if "--version" in sys.argv else render(Path.cwd()))
