"""Standard output and warnings of a component: they go to the log, line by line, and need no import of WASI."""

from __future__ import annotations

import io
import linecache
import sys
import warnings
from typing import Any

from . import log


class LogStream(io.TextIOBase):
    """A text stream that logs each line."""

    def __init__(self, write_line: Any):
        self._write_line = write_line
        self._begun = ""

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        *lines, self._begun = (self._begun + text).split("\n")
        for line in lines:
            self._write_line(line)
        return len(text)

    def flush(self) -> None:
        """Does nothing: a line that has no end yet is logged by :meth:`end`."""

    def end(self) -> None:
        """Logs a line without an end."""
        if self._begun:
            self.write("\n")


def connect() -> None:
    """Replaces the standard streams, and what would read the sources of the plugin to show them."""
    sys.stdout, sys.stderr = LogStream(log.info), LogStream(log.warn)
    warnings.showwarning = _show_warning
    # Tracebacks have no source lines: there are no files.
    linecache.checkcache = lambda *_: None  # type: ignore[assignment]
    linecache.updatecache = lambda *_, **__: []  # type: ignore[assignment]


def end() -> None:
    """Logs what the streams still have, at the end of a call."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, LogStream):
            stream.end()


def _show_warning(message: Any, category: type[Warning], filename: str, lineno: int, file: Any = None, line: Any = None) -> None:
    log.warn(f"{category.__name__}: {message}")
