"""What moxie raises.

Every class is an `Error`, and the exception that Python's own functions raise in such a case: a `ShapeError` is a
`ValueError`, an `InputError` a `TypeError`.
"""

from __future__ import annotations

import re

_PLACE = re.compile(r"^(?P<file>.*?):(?P<line>\d+):(?P<column>\d+): (?P<problem>.*)$", re.MULTILINE)
_LINE = re.compile(r"\(line (\d+)\)")


class Error(Exception):
    """What all exceptions of moxie have in common."""


class FormulaError(Error, ValueError):
    """A formula that is not well formed.

    The message shows the line with a caret below the place. `line` and `column` count from 1; they are None where the
    problem has no such place. `problem` is the message without place and caret.
    """

    def __init__(self, message: str):
        super().__init__(message)
        place = _PLACE.search(message)
        line = _LINE.search(message)
        self.file: str | None = place["file"] if place else None
        self.line: int | None = int(place["line"]) if place else int(line[1]) if line else None
        self.column: int | None = int(place["column"]) if place else None
        self.problem: str = place["problem"] if place else message


class ShapeError(Error, ValueError):
    """Arrays whose shapes contradict the formula or each other, or a dim without a value."""


class DtypeError(Error, TypeError):
    """An array of a dtype that the formula does not compute in."""


class InputError(Error, TypeError):
    """Inputs that are missing, unknown or no arrays, and names that the formula does not have."""


class DomainError(Error, ValueError):
    """A value outside the declared domain of an input, or one that a formula met while it ran."""


class DeviceError(Error, RuntimeError):
    """A device that is absent, that failed, or where an array does not lie."""


class CompileError(Error, RuntimeError):
    """A formula that could not be compiled; the message says why."""


class TrainingError(Error, RuntimeError):
    """A network that could not be trained, or does not predict; the message says why."""


class CheckError(Error, AssertionError):
    """A check that found differences beyond their tolerances; the message is the table."""


class InternalError(Error, RuntimeError):
    """A fault of moxie itself: please report it."""
