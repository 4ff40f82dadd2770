# SPDX-License-Identifier: Apache-2.0
"""What goes wrong, as exceptions: one class a code, all of them tenon.Error.

`code` is the code's name ("INVALID_ARGUMENT"), `message` the text without it. Where the message names them, `node` and
`op` are the node of a graph and its op, and `file` a path; else they are None. Where a function of Python's raised it,
as that of a tenon.op, `__cause__` is what it raised, with its traceback: in this process; of what another task of a
cluster raised there are words alone. What is no error (SystemExit, KeyboardInterrupt) ends the step too, and is raised
from the call as what it is; of another task it is a CancelledError.
"""

import os
import re

_NODE = re.compile(r"node '([^']*)'(?: \(([^)]*)\))?")
_QUOTED = re.compile(r"'([^'\n]+)'")
_PATH = re.compile(r"(?:\.{0,2}/|[A-Za-z][A-Za-z0-9+.-]*://)")


class Error(RuntimeError):
    """A call of Tenon's that failed."""

    code = "UNKNOWN"

    def __init__(self, message=""):
        super().__init__(message)
        self.message = str(message)
        found = _NODE.search(self.message)
        self.node = found.group(1) if found else None
        self.op = found.group(2) if found else None
        self.file = _file_in(self.message)


class CancelledError(Error):
    """The step was ended by whoever may end it."""


class UnknownError(Error):
    pass


class InvalidArgumentError(Error, ValueError):
    """Something given does not fit: a type, a shape, an attribute, an option."""


class DeadlineExceededError(Error, TimeoutError):
    """The timeout passed before the step ended."""


class NotFoundError(Error, LookupError):
    """There is nothing of that name; the message names near misses."""


class AlreadyExistsError(Error):
    pass


class PermissionDeniedError(Error, PermissionError):
    """It is not allowed: a file that a model would touch, a library that others may write."""


class ResourceExhaustedError(Error):
    """A limit is reached, of memory mostly."""


class FailedPreconditionError(Error):
    """Something must be done first: a variable has no value, a thing is still in use."""


class AbortedError(Error):
    pass


class OutOfRangeError(Error):
    """Behind the last element."""


class UnimplementedError(Error, NotImplementedError):
    pass


class InternalError(Error):
    """A fault of Tenon's or a plugin's own."""


class UnavailableError(Error):
    """A task or a device is lost; trying again may help."""


class DataLossError(Error):
    """A file is damaged."""


class UnauthenticatedError(Error):
    pass


_CLASSES = {
    re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__[: -len("Error")]).upper(): kind
    for kind in Error.__subclasses__()
}
for _code, _kind in _CLASSES.items():
    _kind.code = _code


def _file_in(message):
    """The first quoted text that is a path, by its look or because it is there."""
    nodes = {match.group(1) for match in _NODE.finditer(message)}
    for text in _QUOTED.findall(message):
        if text not in nodes and (_PATH.match(text) or ("." in text and os.path.lexists(text))):
            return text
    return None


def class_of(code):
    """The exceptions of a code, by its name."""
    return _CLASSES.get(code, Error)


def make_error(code, message):
    """The exception of a code by its name; the library calls it."""
    error = class_of(code)(message)
    error.code = code
    return error


_OTHERS = (
    ((ValueError, TypeError, ArithmeticError), "INVALID_ARGUMENT"),
    (LookupError, "NOT_FOUND"),
    (NotImplementedError, "UNIMPLEMENTED"),
    (TimeoutError, "DEADLINE_EXCEEDED"),
    (PermissionError, "PERMISSION_DENIED"),
    (MemoryError, "RESOURCE_EXHAUSTED"),
)


def tell(error):
    """The name of a code, and words, for an exception that a function of the user's raised; the library calls it."""
    if isinstance(error, Error):
        return error.code, error.message
    code = next(
        (code for kinds, code in _OTHERS if isinstance(error, kinds)),
        "UNKNOWN" if isinstance(error, Exception) else "CANCELLED",
    )
    import traceback  # here: it is rarely needed

    where = traceback.extract_tb(error.__traceback__)
    at = f" ({os.path.basename(where[-1].filename)}, line {where[-1].lineno}, in {where[-1].name})" if where else ""
    return code, f"{type(error).__name__}: {error}{at}"


__all__ = ["Error", *sorted(kind.__name__ for kind in _CLASSES.values())]
