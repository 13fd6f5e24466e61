"""Completions from the configured model. Needs: ``Needs().model()``."""

from __future__ import annotations

from . import _host


def complete(prompt: str, max_tokens: int | None = None) -> str:
    """Returns the model's reply."""
    return _host.call(_host.model, "complete", "Needs().model()", prompt, max_tokens)
