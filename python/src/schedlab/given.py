"""What is given to the methods. Each check raises one error that names the argument and says what is wanted: TypeError for
another type, ValueError for a text that no command line can hold."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any


def _wrong(name: str, wanted: str, value: object) -> TypeError:
    return TypeError(f"{name}: {wanted} is expected, not {value!r:.60} ({type(value).__name__})")


def text(name: str, value: object) -> str:
    """A text."""
    if not isinstance(value, str):
        raise _wrong(name, "a text", value)
    if "\0" in value:
        raise ValueError(f"{name}: {value!r:.60} has a zero character in it, which no command line can hold")
    return value


def texts(name: str, value: object) -> list[str]:
    """A list of texts; one text is a list of one."""
    if isinstance(value, str):
        return [text(name, value)]
    if isinstance(value, (bytes, Mapping)) or not isinstance(value, Iterable):
        raise _wrong(name, "a list of texts", value)
    return [text(f"{name}[{number}]", one) for number, one in enumerate(value)]


def whole(name: str, value: Any) -> str:
    """A whole number, as a word."""
    try:
        if not isinstance(value, bool):
            return str(operator.index(value))
    except TypeError:
        pass
    raise _wrong(name, "a whole number", value)


def number(name: str, value: Any) -> float:
    """A number."""
    try:
        if not isinstance(value, (bool, str, bytes)):
            return float(value)
    except (TypeError, ValueError):
        pass
    raise _wrong(name, "a number", value)


def path(name: str, value: object) -> str:
    """The path of a file."""
    if isinstance(value, bytes) or not isinstance(value, (str, os.PathLike)):
        raise _wrong(name, "a path", value)
    return text(name, os.fspath(value))


def settings(value: object) -> list[str]:
    """`--set NAME=VALUE` for each setting."""
    if value is not None and not isinstance(value, Mapping):
        raise _wrong("settings", "a dict as {'profile': 'tsss'}", value)
    words = []
    for name, one in (value or {}).items():
        if not isinstance(one, (str, int, float)) and not hasattr(one, "__index__") and not hasattr(one, "__float__"):
            raise _wrong(f"settings[{name!r}]", "a number, a truth value or a text", one)
        shown = str(one).lower() if isinstance(one, bool) else str(one)
        words += ["--set", f"{text('settings', name)}={text(f'settings[{name!r}]', shown)}"]
    return words


def _number_word(name: str, value: object) -> str:
    return f"{number(name, value):g}"


_KINDS: dict[str, Callable[[str, object], str]] = {"machine": text, "duration": text, "confidence": _number_word}


def options(**values: object) -> list[str]:
    """`--name value` for what is given. What is not among the kinds above is a whole number."""
    words = []
    for name, value in values.items():
        check: Callable[[str, object], str] = _KINDS.get(name, whole)
        words += [] if value is None else [f"--{name}", check(name, value)]
    return words
