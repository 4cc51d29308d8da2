"""What moxie raises.

Every class is an `Error`, and the exception that Python's own functions raise in such a case: a `ShapeError` is a
`ValueError`, an `InputError` a `TypeError`.
"""

from __future__ import annotations


class Error(Exception):
    """What all exceptions of moxie have in common: a message, and its parts, which are None where it has none."""

    problem: str | None = None  #: what was wrong, without the place
    remedy: str | None = None  #: what to do
    file: str | None = None  #: of the text that is wrong
    line: int | None = None  #: in it, from 1
    column: int | None = None  #: in that line, from 1
    name: str | None = None  #: of the input or dim that does not fit
    expected: str | None = None  #: in its place, such as `[3,4]`
    found: str | None = None  #: instead


class FormulaError(Error, ValueError):
    """A formula that is not well formed. The message shows the line with a caret below the place."""


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
