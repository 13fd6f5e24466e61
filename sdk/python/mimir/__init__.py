"""Write tools for mimir: a function with type hints and a docstring.

    from typing import Annotated
    import mimir

    @mimir.tool
    def word_count(text: Annotated[str, "The text to count."]) -> str:
        \"\"\"Counts the words in a text.\"\"\"
        return str(len(text.split()))

This is a complete plugin. The name of the function is the name of the tool, the docstring is the description that the
model reads, and the parameters with their type hints are the JSON Schema of the arguments. ``mimir tools build`` makes a
component of the module.
"""

from . import commands, log, model, progress, storage, tools
from ._context import Context
from ._error import Error
from ._http import Response, fetch
from ._needs import Needs
from ._output import Json, Output
from ._tool import export, tool

__all__ = [
    "Context",
    "Error",
    "Json",
    "Needs",
    "Output",
    "Response",
    "commands",
    "export",
    "fetch",
    "log",
    "model",
    "progress",
    "storage",
    "tool",
    "tools",
]
