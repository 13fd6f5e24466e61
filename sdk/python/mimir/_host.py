"""The imports of the component. Outside of a component, and for imports that the plugin's world does not have, there are
none.

componentize-py can import modules only while the component is built, so all of them are imported here.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any, Callable

from ._error import CODES, Error

try:
    from componentize_py_types import Err, Ok  # type: ignore[import-not-found]
except ImportError:

    class Err(Exception):  # type: ignore[no-redef]
        """Stands in for the type of a component."""

        value: Any = None

    Ok = None  # type: ignore[assignment,misc]


def _module(name: str) -> ModuleType | None:
    try:
        return importlib.import_module(f"wit_world.imports.{name}")
    except ImportError:
        return None


# `mimir tools build` gives the interfaces these names.
types = _module("mimir_types")
log = _module("mimir_log")
progress = _module("mimir_progress")
commands = _module("mimir_commands")
tools = _module("mimir_tools")
model = _module("mimir_model")
storage = _module("mimir_storage")
http_types = _module("wasi_http_types")
http_handler = _module("wasi_http_outgoing_handler")
io_streams = _module("wasi_io_streams")

#: True inside of a component.
IS_COMPONENT = types is not None

#: Values of storage in unit tests, in memory. None while a build describes the module, because a component has no storage
#: when its module is imported.
test_storage: dict[str, bytes] | None = {}


def call(module: ModuleType | None, name: str, need: str, *arguments: Any) -> Any:
    """Calls a function of the host. An error of the host is raised as :class:`Error`."""
    if module is None:
        reason = f"the tool declares no such need: {need}" if IS_COMPONENT else "available only inside a component"
        raise Error.unavailable(f"{name}: {reason}")
    try:
        return getattr(module, name)(*arguments)
    except Err as error:
        raise from_wit(error.value) from None


def from_wit(error: Any) -> Error:
    """Converts an error of the contract."""
    import json

    kind = type(error.code).__name__.removeprefix("ErrorCode_")
    code = next((code for code in CODES if _class_name(code) == kind), None)
    details = json.loads(error.details) if error.details else None
    return Error(code or error.code.value, error.message, details)


def error_to_wit(error: Error) -> Any:
    """Converts an error to one of the contract."""
    import json

    assert types is not None
    if error.code in CODES:
        code = getattr(types, f"ErrorCode_{_class_name(error.code)}")()
    else:
        code = types.ErrorCode_Other(error.code)
    details = None if error.details is None else json.dumps(error.details, ensure_ascii=False, default=str)
    return types.Error(code, error.message, details)


def _class_name(code: str) -> str:
    return "".join(word.capitalize() for word in code.split("-"))


