"""Progress of a long call, shown to the person."""

from __future__ import annotations

from . import _host


def report(done: int, total: int | None = None, message: str | None = None) -> None:
    """Reports that ``done`` of ``total`` units are finished. The tool chooses the unit."""
    if _host.progress is not None:
        _host.progress.report(done, total, message)
