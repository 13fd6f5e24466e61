"""Imports what functions of the plugin import when they run: a built component has no files to import from."""

from __future__ import annotations

import ast
import importlib
import sys
from pathlib import Path
from types import ModuleType

#: Codecs are modules, imported when they are first used.
_CODECS = ("ascii", "cp1252", "idna", "latin_1", "utf_16", "utf_8_sig")


def preload(entry: str) -> None:
    """Imports the modules that the sources in the folder of a module name, in functions too. Any that does not exist is
    left out: the function that imports it fails then, as it does elsewhere."""
    for codec in _CODECS:
        _import(f"encodings.{codec}")
    file = getattr(sys.modules.get(entry), "__file__", None)
    if file is None:
        return
    folder, seen = Path(file).parent, set()
    while new := [module for module in _modules_in(folder) if module.__name__ not in seen]:
        for module in new:
            seen.add(module.__name__)
            for name in _imported_names(module):
                _import(name)


def _modules_in(folder: Path) -> list[ModuleType]:
    def is_inside(module: ModuleType) -> bool:
        file = getattr(module, "__file__", None)
        return isinstance(file, str) and file.endswith(".py") and Path(file).is_relative_to(folder)

    return [module for module in list(sys.modules.values()) if is_inside(module)]


def _imported_names(module: ModuleType) -> set[str]:
    try:
        tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError):
        return set()
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            package = (module.__package__ or "").split(".")
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            origin = ".".join(part for part in (base, node.module) if part)
            # A name in a package can be a module of its own.
            names |= {origin, *(f"{origin}.{alias.name}" for alias in node.names)}
    return names


def _import(name: str) -> None:
    try:
        importlib.import_module(name)
    except Exception:  # noqa: BLE001, S110
        pass
