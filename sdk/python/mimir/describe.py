"""``python -m mimir.describe MODULE``: prints what ``mimir tools build`` needs to know before it makes the component.

The module is imported, so its faults are reported with file and line. The report has the manifest, and the modules of the
standard library that the plugin's own code uses and that need WASI.
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

#: Modules that cannot work without WASI. Without them, the component is built without it.
WASI_MODULES = {
    "asyncio", "datetime", "fileinput", "getpass", "glob", "http", "io", "logging", "multiprocessing", "os", "pathlib", "platform", "random",
    "secrets", "select", "selectors", "shutil", "signal", "socket", "sqlite3", "ssl", "subprocess", "tempfile", "threading",
    "time", "urllib", "uuid", "zoneinfo",
}


def main(name: str) -> int:
    folder = Path.cwd()
    _host.test_storage = None
    sys.path.insert(0, str(folder))
    try:
        importlib.import_module(name)
    except BaseException as error:  # noqa: BLE001
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(str(folder))]
        at = f"{Path(frames[-1].filename).relative_to(folder)}:{frames[-1].lineno}: " if frames else ""
        if isinstance(error, SyntaxError) and error.filename:
            at = f"{Path(error.filename).name}:{error.lineno}: "
        # The class of the SDK's own errors says nothing.
        kind = "" if isinstance(error, (DefinitionError, Error)) else f"{type(error).__name__}: "
        print(json.dumps({"error": f"{at}{kind}{error}"}))
        return 1
    if not TOOLS:
        print(json.dumps({"error": f"{name}.py exports no tool: decorate a function with `@mimir.tool`"}))
        return 1
    print(json.dumps({"manifest": manifest(), "wasi": sorted(_wasi_modules(folder)), "storage": _mentions(folder, "storage")}))
    return 0


def _sources(folder: Path) -> list[str]:
    """Texts of the plugin's own modules: those that were imported from its folder."""
    files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    return [Path(file).read_text() for file in files if file and Path(file).is_relative_to(folder)]


def _wasi_modules(folder: Path) -> set[str]:
    import ast

    used = set()
    for text in _sources(folder):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import):
                used |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                used.add(node.module.split(".")[0])
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("open", "input"):
                used.add("io")
    return used & WASI_MODULES


def _mentions(folder: Path, word: str) -> bool:
    import ast

    return any(
        (isinstance(node, ast.Attribute) and node.attr == word) or (isinstance(node, ast.alias) and node.name == word)
        for text in _sources(folder)
        for node in ast.walk(ast.parse(text))
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
