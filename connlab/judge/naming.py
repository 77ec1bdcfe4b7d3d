"""What a judged server is called: by what its command line runs in the end.

sh -c 'cd ann && python3 -u echo.py {port}' -> ann/echo.py, where others are echo.py too
"""

import itertools
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from connlab.drive import programs, servers

_SHELLS = ("sh", "dash", "bash", "zsh")
#: names of interpreters, without their versions
INTERPRETERS = (
    *("python", "pypy", "node", "nodejs", "java", "ruby", "perl", "php"),
    *("lua", "luajit"),
    *(*_SHELLS, "env"),
)
#: words of a shell that are no program of somebody's
_BUILTIN = ("exec", "export", "echo")
#: options of interpreters that are followed by a word, which is no program
_WITH_A_WORD = ("-cp", "-classpath", "--class-path", "-W", "-X", "-r", "--require")
#: folders, and the program, that a label has at most
_PARTS_MOST = 4


def unversioned(program: Path) -> str:
    """Return the name of a program without its version: python of python3.11."""
    return program.name.rstrip("0123456789.")


def labels(names: Iterable[str]) -> dict[str, str]:
    """Return what servers are called: equal ones with their folder, or a number."""
    called = {name: _label(name) for name in names}
    for parts in range(2, _PARTS_MOST + 1):
        called |= {name: _label(name, parts=parts) for name in _equal(called)}
    equal = _equal(called)
    numbered = {name: f"{called[name]} ({n})" for n, name in enumerate(called, 1)}
    return called | {name: numbered[name] for name in equal}


def _equal(called: Mapping[str, str]) -> list[str]:
    counts = Counter(called.values())
    return [name for name, label in called.items() if counts[label] > 1]


def _label(name: str, *, parts: int = 1) -> str:
    if not servers.is_command(name):
        return name
    program = _program(name)
    is_model = program.name in {model.name for model in programs.models()}
    return str(Path(*program.parts[-2 if is_model else -parts :]))


def _program(line: str) -> Path:
    """Return what a command line runs in the end, behind shells and interpreters.

    Of a shell's text that is the program that gets the port, else the last one, in the
    folder that a ``cd`` before it leads to.
    """
    words = shlex.split(line)
    commands, folder, found = [words], Path(), Path(words[0])
    if any(Path(word).name in _SHELLS for word in words):
        texts = re.split(r"[;&|()\n]+", " ".join(words))
        commands = [re.findall(r"[^\s'\"]+", text) for text in texts]
    for command in commands:
        pairs = itertools.pairwise(["", *command])
        named = [word for before, word in pairs if not _is_beside(word, before)]
        if named[:1] == ["cd"]:
            folder /= named[-1]
        elif named:
            found = folder / named[0]
            if any(servers.PORT in word for word in command):
                break
    return found


def _is_beside(word: str, before: str) -> bool:
    """Whether a word of a command is none of its program: an option, a variable, …"""
    is_option = word.startswith("-") or before in _WITH_A_WORD
    is_set = re.match(r"\w+=", word) is not None  # as in ``PORT={port} ./mine``
    starts_another = word in _BUILTIN or unversioned(Path(word)) in INTERPRETERS
    return is_option or is_set or starts_another or servers.PORT in word
