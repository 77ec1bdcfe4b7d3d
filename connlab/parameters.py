"""Parameters of a notebook: what its tagged cell declares, checked before it runs.

    trials: int = 5   # blocks at least (1..1000)
    |       |     |     |                |
    name    type  default   help         allowed: LOW..HIGH, or (one of: a, b)

The parameters cell is the only declaration. papermill takes any name and any value
and only warns; here a misspelt name, a wrong type or a value out of range is an error
that says what was meant. `validate` checks before a notebook starts, `check` checks
inside it, for whoever runs it with plain papermill or by hand.
"""

import ast
import contextlib
import difflib
import io
import json
import math
import re
import tokenize
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import TypeAdapter, ValidationError

from connlab import schema

_TYPES = {
    "__builtins__": {},
    "Literal": Literal,
    **{t.__name__: t for t in (bool, int, float, str, list, dict)},
}
_RANGE = re.compile(r"\(([-\d.e]+)?\.\.([-\d.e]+)?\)\s*$")
_CHOICE = re.compile(r"\(one of:? ([^)]*)\)\s*$")


class ParameterError(ValueError):
    """One or more parameters cannot be used; a line of the message for each."""


@dataclass(frozen=True)
class Parameter:
    """One line of a parameters cell."""

    name: str
    type: str
    """As written: ``int``, ``list[str]``, ``float | None``."""
    default: Any
    help: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()

    @property
    def allowed(self) -> str:
        """The type, and the choices or the range."""
        if self.choices:
            return f"{self.type}, one of {', '.join(self.choices)}"
        if self.low is None and self.high is None:
            return self.type
        low = "" if self.low is None else f"{self.low:g}"
        high = "" if self.high is None else f"{self.high:g}"
        return f"{self.type}, {low}..{high}"


def declared(notebook: str | Path) -> dict[str, Parameter]:
    """Return what the cell tagged ``parameters`` declares, in its order.

    ParameterError without such a cell, or for a line that is no declaration.
    """
    path = Path(notebook)
    for cell in cells_of(path):
        if "parameters" in cell.get("metadata", {}).get("tags", ()):
            return parse("".join(cell["source"]))
    raise ParameterError(f"{path.name}: no cell is tagged 'parameters'")


def cells_of(notebook: Path) -> list[dict[str, Any]]:
    """Return the cells of a notebook's file; ParameterError for one that is none."""
    try:
        return json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    except (ValueError, TypeError, KeyError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise ParameterError(f"{notebook.name}: no notebook: {reason}") from None


def parse(source: str) -> dict[str, Parameter]:
    """Return the declarations in the source of a parameters cell.

    Examples
    --------
    >>> parse("trials: int = 5  # blocks at least (1..1000)")["trials"].allowed
    'int, 1..1000'
    """
    try:
        body = ast.parse(source).body
    except SyntaxError as error:
        raise ParameterError(f"the parameters cell is no Python: {error}") from None
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = {
        token.start[0]: token.string.lstrip("# ")
        for token in tokens
        if token.type == tokenize.COMMENT
    }
    parameters = {}
    for node in body:
        if not _declares(node):
            line = ast.get_source_segment(source, node)
            raise ParameterError(f"{line!r} declares no parameter: name: type = value")
        name = node.target.id
        parameters[name] = _parameter(node, name, comments.get(node.end_lineno, ""))
    return parameters


def validate(notebook: str | Path, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return values for a notebook's parameters in their declared types.

    Whole numbers become float, lists that came as text lists. ParameterError tells
    every unknown name ("did you mean"), wrong type and value out of range.
    """
    return _checked(declared(notebook), given)


def plain(text: str) -> Any:
    """Return a text as a number, a list or a truth, else itself.

    As JSON, which knows ``1e5``, or as YAML, which wants no quotes in ``[epoll]``.
    """
    for read in (json.loads, yaml.safe_load):
        with contextlib.suppress(ValueError, yaml.YAMLError):
            return read(text)
    return text


def suggestion(word: str, names: Iterable[str]) -> str:
    """Return ``did you mean 'NAME'? `` for the nearest name; empty if none is near."""
    near = difflib.get_close_matches(word, names, n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}? " if near else ""


def check_gates(names: Iterable[str]) -> None:
    """Raise ParameterError for a gate to overlook, in `accept`, that is none.

    What is a finding today was a gate once, and stands so in old notebooks.
    """
    for name in names:
        if name not in (*schema.EXCLUDING, *schema.FINDINGS):
            hint = suggestion(name, schema.EXCLUDING)
            allowed = ", ".join(schema.EXCLUDING)
            raise ParameterError(f"accept: {name!r}; {hint}allowed: {allowed}")


def check(namespace: dict[str, Any]) -> None:
    """Check the parameters inside a running notebook: ``check(globals())``.

    Values take their declared types (a list that papermill handed on as text becomes
    one). The executed cells stand in IPython's ``In``: the parameters cell, which
    declares ``run``, and the cell that papermill injected behind it. So this works for
    any copy of a notebook, and for one that is run by hand. ParameterError as of
    `validate`, and as of `parse` for a line whose type somebody left out.
    """
    executed: Sequence[str] = namespace.get("In", ())
    cells = [c for c in executed if _is_parameters_cell(c)]
    if not cells:
        raise ParameterError("the parameters cell has not been run")
    parameters = parse(cells[-1])
    injected = "\n".join(c for c in executed if c.startswith("# Parameters\n"))
    assigned = {
        node.id
        for node in ast.walk(ast.parse(injected))
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    names = dict.fromkeys([*parameters, *sorted(assigned)])
    values = {n: namespace[n] for n in names if n in namespace}
    namespace.update(_checked(parameters, values))


# ---- declarations ------------------------------------------------------------


def _declares(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and node.value is not None
    )


def _parameter(node: ast.AnnAssign, name: str, comment: str) -> Parameter:
    try:
        default = ast.literal_eval(node.value)
    except ValueError:
        raise ParameterError(f"{name}: its default is not a plain value") from None
    low, high, choices = None, None, ()
    if match := _RANGE.search(comment):
        low, high = (float(g) if g else None for g in match.groups())
    elif match := _CHOICE.search(comment):
        choices = tuple(c.strip() for c in match[1].split(","))
    help_text = comment[: match.start()].strip() if match else comment
    kind = ast.unparse(node.annotation)
    try:
        eval(kind, _TYPES)
    except (NameError, TypeError, AttributeError):
        allowed = ", ".join(word for word in _TYPES if word.isalpha())
        raise ParameterError(f"{name}: type {kind!r}; allowed: {allowed}") from None
    return Parameter(name, kind, default, help_text, low, high, choices)


def _is_parameters_cell(source: str) -> bool:
    try:
        body = ast.parse(source).body
    except SyntaxError:
        return False
    return any(_declares(node) and node.target.id == "run" for node in body)


# ---- values ------------------------------------------------------------------


def _checked(parameters: Mapping[str, Parameter], given: Mapping[str, Any]) -> dict:
    values, errors = {}, []
    for name, value in given.items():
        if name not in parameters:
            names = f"{suggestion(name, parameters)}there are: {', '.join(parameters)}"
            errors.append(f"unknown parameter {name!r}; {names}")
            continue
        try:
            values[name] = _typed(parameters[name], value)
        except ParameterError as error:
            errors.append(str(error))
    if errors:
        raise ParameterError("\n".join(errors))
    return values


def _typed(parameter: Parameter, value: Any) -> Any:
    """Return the value as its declared type, in its range.

    Text for another type is read first (`plain`), because papermill's ``-p`` hands on
    lists as text: ``-p connections '[1,10]'``; of ``-p budget 90`` it makes a number.
    """
    adapter = TypeAdapter(eval(parameter.type, _TYPES))
    reads = [value]
    if isinstance(value, str):
        reads.append(plain(value))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        reads.append(f"{value:.12g}")
    for read in reads:
        with contextlib.suppress(ValidationError):
            typed = adapter.validate_python(read, strict=True)
            break
    else:
        raise _refusal(parameter, value)
    for item in typed if isinstance(typed, list) else [typed]:
        if not _in_range(parameter, item):
            raise _refusal(parameter, item)
    _check_words(parameter.name, typed)
    return typed


def _check_words(name: str, value: Any) -> None:
    """Check what a notebook uses after its first trials, and no line of it can say."""
    if name == "accept":
        check_gates(value)
    elif name == "budget" and value is not None:
        from connlab.drive import stopping  # late: it needs this module

        try:
            stopping.seconds(value)
        except ValueError as error:
            raise ParameterError(str(error)) from None


def _in_range(parameter: Parameter, item: Any) -> bool:
    if parameter.choices:
        return item in (None, *parameter.choices)
    if isinstance(item, bool) or not isinstance(item, int | float):
        return True
    low = -math.inf if parameter.low is None else parameter.low
    high = math.inf if parameter.high is None else parameter.high
    return low <= item <= high


def _refusal(parameter: Parameter, value: Any) -> ParameterError:
    text = f" ({parameter.help})" if parameter.help else ""
    hint = suggestion(str(value), parameter.choices)
    allowed = f"{hint}allowed: {parameter.allowed}{text}"
    return ParameterError(f"{parameter.name}: {value!r}; {allowed}")
