"""Errors of tools: a stable code, a one-sentence message, optional details."""

from __future__ import annotations

from typing import Any

#: The codes of the contract.
CODES = (
    "invalid-input",
    "invalid-path",
    "not-found",
    "file-not-found",
    "already-exists",
    "permission-denied",
    "approval-denied",
    "timeout",
    "cancelled",
    "limit-exceeded",
    "network",
    "execution",
    "unavailable",
)


class Error(Exception):
    """A failed call. Programs read the code; the model and the person read the message.

    ``code`` is one of :data:`CODES`, or a code of the tool's own: callers see that as ``EXECUTION_ERROR``, with the code in
    ``details.code``.
    """

    def __init__(self, code: str, message: str, details: Any = None):
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = details

    @classmethod
    def invalid_input(cls, message: str, details: Any = None) -> "Error":
        """The arguments are not valid."""
        return cls("invalid-input", message, details)

    @classmethod
    def not_found(cls, message: str, details: Any = None) -> "Error":
        """An object other than a path does not exist."""
        return cls("not-found", message, details)

    @classmethod
    def limit_exceeded(cls, message: str, details: Any = None) -> "Error":
        """A limit was exceeded."""
        return cls("limit-exceeded", message, details)

    @classmethod
    def network(cls, message: str, details: Any = None) -> "Error":
        """The network failed."""
        return cls("network", message, details)

    @classmethod
    def execution(cls, message: str, details: Any = None) -> "Error":
        """The operation ran and failed."""
        return cls("execution", message, details)

    @classmethod
    def unavailable(cls, message: str, details: Any = None) -> "Error":
        """Not available here or now."""
        return cls("unavailable", message, details)

    @classmethod
    def of(cls, error: BaseException) -> "Error":
        """Converts any exception that a tool raises."""
        if isinstance(error, Error):
            return error
        if isinstance(error, OSError):
            name = error.filename if isinstance(error.filename, str) else None
            reason = error.strerror or str(error)
            return cls(_code_of(error), f"{name}: {reason}" if name else reason)
        return cls("execution", f"{type(error).__name__}: {error}")


class DefinitionError(ValueError):
    """A mistake in the definition of a tool."""


def _code_of(error: OSError) -> str:
    for kinds, code in (
        ((FileNotFoundError, NotADirectoryError), "file-not-found"),
        (PermissionError, "permission-denied"),
        (FileExistsError, "already-exists"),
        (IsADirectoryError, "invalid-input"),
        (TimeoutError, "timeout"),
        (ConnectionError, "network"),
    ):
        if isinstance(error, kinds):
            return code
    return "execution"
