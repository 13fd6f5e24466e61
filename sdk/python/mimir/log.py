"""Log lines; the host adds the time, limits their size and redacts secrets. Outside of a component they go to stderr."""

import sys

from . import _host


def debug(message: str) -> None:
    """Details for the author of the tool."""
    _write("DEBUG", message)


def info(message: str) -> None:
    """Normal events."""
    _write("INFO", message)


def warn(message: str) -> None:
    """Unexpected, but not a failure."""
    _write("WARN", message)


def error(message: str) -> None:
    """A failure."""
    _write("ERROR", message)


def _write(level: str, message: str) -> None:
    if _host.log is None:
        print(f"{level.lower()}: {message}", file=sys.stderr)
    else:
        _host.log.write(getattr(_host.log.Level, level), str(message))
