"""Calls of other tools. The policy applies to these calls as to any other. Needs: ``Needs().tool(NAME)``."""

from __future__ import annotations

import json
from typing import Any

from . import _host
from ._output import Output


def call(name: str, **arguments: Any) -> Output:
    """Calls a tool by its name and returns its output."""
    made = _host.call(_host.tools, "call", "Needs().tool(NAME)", name, json.dumps(arguments, ensure_ascii=False))
    output = Output(structured=json.loads(made.structured) if made.structured else None, exit_code=made.exit_code)
    for part in made.content:
        kind = type(part).__name__.removeprefix("Content_").lower()
        value = part.value
        output.parts.append((kind, {"text": value} if kind == "text" else dict(vars(value))))
    return output
