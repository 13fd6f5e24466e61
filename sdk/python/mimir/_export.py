"""The export of the component. Only the entry module that ``mimir tools build`` writes imports this."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from wit_world import exports  # type: ignore[import-not-found]

from . import _host, _streams
from ._context import Context
from ._error import Error
from ._output import Output
from ._preload import preload
from ._tool import TOOLS, manifest

types: Any = _host.types

preload("tool")
_streams.connect()

# Made once, while the component is built: a call starts from here.
_MANIFEST = manifest()


class Toolset(exports.Toolset):  # type: ignore[misc]
    """Implements ``mimir:tool/toolset``."""

    def describe(self) -> Any:
        fields = dict(_MANIFEST)
        return types.Manifest(
            fields["name"], fields["version"], fields["description"], fields["license"], fields["homepage"],
            [_definition(tool) for tool in fields["tools"]],
        )

    def call(self, tool: str, arguments: str, context: Any) -> Any:
        made = TOOLS.get(tool)
        try:
            if made is None:
                raise Error.not_found(f"no tool `{tool}` in this plugin")
            cx = Context(Path(context.workspace), context.request_id, context.session_id, context.conversation_id, context.user)
            return _output(made.run(arguments, cx))
        except (Exception, SystemExit) as error:  # noqa: BLE001
            if not isinstance(error, (Error, OSError)):
                # A fault of the tool: the trace is for its author.
                _host.log.write(_host.log.Level.ERROR, _trace(error))
            raise _host.Err(_host.error_to_wit(Error.of(error))) from None
        finally:
            _streams.end()


#: Frames of a traceback that are logged: the last ones, so that an endless recursion stays readable.
_FRAMES = 20


def _trace(error: BaseException) -> str:
    """Formats a traceback without the source lines: the module `traceback` would read them from files, and without WASI
    that is a trap."""
    places = [f"  {_visible(code.co_filename)}:{line} in {code.co_name}" for code, line in _frames(error)]
    return "\n".join([f"{type(error).__name__}: {error}", *places[-_FRAMES:]])


def _visible(path: str) -> str:
    """In a component, modules lie in numbered folders: `/1/tool.py`."""
    number, mark, rest = path.lstrip("/").partition("/")
    return rest if mark and number.isdecimal() else path


def _frames(error: BaseException) -> Any:
    frame = error.__traceback__
    while frame is not None:
        yield frame.tb_frame.f_code, frame.tb_lineno
        frame = frame.tb_next


def _definition(tool: dict[str, Any]) -> Any:
    hints = types.Hints(0)
    for hint in tool["hints"]:
        hints |= types.Hints[_constant(hint)]
    needs = tool["needs"]
    return types.Definition(
        tool["name"], tool["title"], tool["description"], types.Group[_constant(tool["group"])], tool["input-schema"],
        tool["output-schema"], types.Approval[_constant(tool["approval"])], types.Risk[_constant(tool["risk"])], hints,
        types.Needs(
            [types.FileNeed(need["path"], types.FileAccess[_constant(need["access"])], need["reason"]) for need in needs["files"]],
            [types.HostNeed(need["host"], need["methods"], need["reason"]) for need in needs["hosts"]],
            [types.CommandNeed(need["pattern"], need["reason"]) for need in needs["commands"]],
            [types.SecretNeed(need["name"], need["host"], need["header"], need["reason"]) for need in needs["secrets"]],
            needs["variables"], needs["tools"], needs["model"],
        ),
    )


def _constant(name: str) -> str:
    return name.upper().replace("-", "_")


def _output(output: Output) -> Any:
    content = []
    for kind, fields in output.parts:
        if kind == "text":
            content.append(types.Content_Text(fields["text"]))
        elif kind == "file":
            content.append(types.Content_File(types.Artifact(fields["name"], fields["mime_type"], fields["data"])))
        else:
            part = types.Content_Image if kind == "image" else types.Content_Audio
            content.append(part(types.Media(fields["mime_type"], fields["data"])))
    structured = None if output.structured is None else json.dumps(output.structured, ensure_ascii=False)
    return types.Output(content, structured, output.exit_code)
