"""``python -m mimir.describe MODULE``: prints what ``mimir tools build`` needs to know before it makes the component.

The module is imported, so its faults are reported with file and line. The report has the manifest, and what the plugin's
own code uses of the host.
"""

from __future__ import annotations

import importlib
import json
import sys
import traceback
from pathlib import Path

from . import _host
from ._error import DefinitionError, Error
from ._tool import TOOLS, manifest

#: What the host offers for a need: names in ``mimir``, with the needs.
NEEDED = {"fetch": "hosts", "commands": "commands", "tools": "tools", "model": "model"}


def main(name: str) -> int:
    folder = Path.cwd()
    _host.test_storage = None
    sys.path.insert(0, str(folder))
    try:
        importlib.import_module(name)
    except BaseException as error:  # noqa: BLE001
        message, at = str(error), _position(error, folder)
        if isinstance(error, SyntaxError) and error.filename and at:
            message = error.msg
        # The class of the SDK's own errors says nothing.
        kind = "" if isinstance(error, (DefinitionError, Error)) else f"{type(error).__name__}: "
        print(json.dumps({"error": f"{at}{kind}{message}"}))
        return 1
    if not TOOLS:
        print(json.dumps({"error": f"{name}.py exports no tool: decorate a function with `@mimir.tool`"}))
        return 1
    report = {"manifest": manifest(), "storage": _mentions(folder, "storage"), "uses": sorted(_uses(folder))}
    print(json.dumps(report))
    return 0


def _position(error: BaseException, folder: Path) -> str:
    """File, line and column of the error in the plugin's own code, as the beginning of a message."""
    if isinstance(error, SyntaxError) and error.filename:
        file, line, column = error.filename, error.lineno, error.offset
    else:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_in(frame.filename, folder)]
        if not frames:
            return ""
        file, line = frames[-1].filename, frames[-1].lineno
        # Python 3.10 knows the line only.
        start = getattr(frames[-1], "colno", None)
        column = None if start is None else start + 1
    shown = Path(file).relative_to(folder) if _is_in(file, folder) else Path(file).name
    return f"{shown}:{line}:{column}: " if column else f"{shown}:{line}: "


def _is_in(file: str, folder: Path) -> bool:
    return Path(file).is_relative_to(folder)


def _sources(folder: Path) -> list[str]:
    """Texts of the plugin's own modules: those that were imported from its folder."""
    files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    return [Path(file).read_text() for file in files if file and Path(file).is_relative_to(folder)]


def _uses(folder: Path) -> set[str]:
    """What the plugin's own code uses of the host and must declare, by the names of needs."""
    import ast

    used: set[str] = set()
    for text in _sources(folder):
        nodes = list(ast.walk(ast.parse(text)))
        modules = {
            alias.asname or "mimir"
            for node in nodes
            if isinstance(node, ast.Import)
            for alias in node.names
            if alias.name == "mimir" or alias.name.startswith("mimir.") and not alias.asname
        }
        for node in nodes:
            if isinstance(node, ast.ImportFrom) and node.module == "mimir" and not node.level:
                used |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mimir.") and not node.level:
                used.add(str(node.module).split(".")[1])
            elif isinstance(node, ast.Import):
                used |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("mimir.")}
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
                used.add(node.attr)
    return {need for name, need in NEEDED.items() if name in used}


def _mentions(folder: Path, word: str) -> bool:
    import ast

    return any(
        (isinstance(node, ast.Attribute) and node.attr == word) or (isinstance(node, ast.alias) and node.name == word)
        for text in _sources(folder)
        for node in ast.walk(ast.parse(text))
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
