"""Type hints to JSON Schema, and JSON to values of these types."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import re
import types
import typing
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from ._error import Error

_PLAIN: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    Any: {},
}


def schema_of(hint: Any) -> dict[str, Any]:
    """Returns the JSON Schema of a type hint. Raises ``TypeError`` for a type without one."""
    if get_origin(hint) is typing.Annotated:
        inner, *notes = get_args(hint)
        schema = schema_of(inner)
        for note in notes:
            if isinstance(note, str):
                schema["description"] = note
            elif isinstance(note, dict):  # Further keywords: {"minimum": 1}.
                schema.update(note)
        return schema
    if hint in _PLAIN:
        return dict(_PLAIN[hint])
    if hint in (None, type(None)):
        return {"type": "null"}
    origin, args = get_origin(hint), get_args(hint)
    if origin is Literal:
        kinds = {type(value) for value in args}
        schema = dict(_PLAIN.get(kinds.pop(), {})) if len(kinds) == 1 else {}
        return {**schema, "enum": list(args)}
    if origin in (Union, types.UnionType):
        return {"anyOf": [schema_of(arm) for arm in args]}
    if hint is list or origin is list:
        return {"type": "array", **({"items": schema_of(args[0])} if args else {})}
    if origin is tuple and len(args) == 2 and args[1] is Ellipsis:
        return {"type": "array", "items": schema_of(args[0])}
    if hint is dict or origin is dict:
        return {"type": "object", **({"additionalProperties": schema_of(args[1])} if args else {})}
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return {"enum": [member.value for member in hint]}
    if dataclasses.is_dataclass(hint):
        return _object(hint, _dataclass_fields(hint))
    if typing.is_typeddict(hint):
        return _object(hint, _typed_dict_fields(hint))
    raise TypeError(f"the type {type_name(hint)} has no JSON Schema: use str, int, float, bool, list, dict, Literal, an Enum, "
                    "a dataclass or a TypedDict")


def parameters_schema(parameters: dict[str, tuple[Any, bool, Any]]) -> dict[str, Any]:
    """Returns the schema of arguments: type hint, whether it is required, and default of each."""
    return _fields_schema(parameters)


def _object(hint: Any, fields: dict[str, tuple[Any, bool, Any]]) -> dict[str, Any]:
    schema = _fields_schema(fields)
    doc = hint.__doc__
    # The docstring that a dataclass gets by default is its signature.
    if doc and not doc.startswith(f"{hint.__name__}("):
        schema["description"] = unwrap(inspect.cleandoc(doc))
    return schema


def _fields_schema(fields: dict[str, tuple[Any, bool, Any]]) -> dict[str, Any]:
    properties, required = {}, []
    for name, (hint, is_required, default) in fields.items():
        try:
            schema = schema_of(hint)
        except TypeError as error:
            raise TypeError(f"`{name}`: {error}") from None
        if is_required:
            required.append(name)
        elif isinstance(default, (str, int, float, bool)):
            schema["default"] = default
        properties[name] = schema
    schema = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    schema["additionalProperties"] = False
    return schema


def _dataclass_fields(hint: Any) -> dict[str, tuple[Any, bool, Any]]:
    hints = get_type_hints(hint, include_extras=True)
    missing = dataclasses.MISSING
    return {
        field.name: (
            hints[field.name],
            field.default is missing and field.default_factory is missing,
            None if field.default is missing else field.default,
        )
        for field in dataclasses.fields(hint)
        if field.init
    }


def _typed_dict_fields(hint: Any) -> dict[str, tuple[Any, bool, Any]]:
    fields = {}
    for name, kind in get_type_hints(hint, include_extras=True).items():
        # Python 3.10 has no Required and NotRequired.
        if get_origin(kind) in (getattr(typing, "Required", None), getattr(typing, "NotRequired", None)):
            (kind,) = get_args(kind)
        fields[name] = (kind, name in hint.__required_keys__, None)
    return fields


def convert(hint: Any, value: Any, path: str) -> Any:
    """Converts a JSON value to the type. Raises :class:`Error` with the path of the value that does not fit."""
    if get_origin(hint) is typing.Annotated:
        return convert(get_args(hint)[0], value, path)
    if hint is Any:
        return value
    if hint in (None, type(None)):
        return value if value is None else _refuse(path, "null", value)
    if hint is bool or hint is str:
        return value if isinstance(value, hint) else _refuse(path, _PLAIN[hint]["type"], value)
    if hint is int:
        # JSON has one kind of number: 3.0 is an integer.
        if isinstance(value, float) and value.is_integer():
            return int(value)
        return value if isinstance(value, int) and not isinstance(value, bool) else _refuse(path, "integer", value)
    if hint is float:
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return float(value) if is_number else _refuse(path, "number", value)
    origin, args = get_origin(hint), get_args(hint)
    if origin is Literal:
        return value if value in args else _refuse(path, f"one of {list(args)}", value)
    if origin in (Union, types.UnionType):
        for arm in args:
            try:
                return convert(arm, value, path)
            except Error as error:
                last = error
        raise last
    if hint is list or origin in (list, tuple):
        if not isinstance(value, list):
            _refuse(path, "array", value)
        items = [convert(args[0], item, f"{path}[{at}]") for at, item in enumerate(value)] if args else value
        return tuple(items) if origin is tuple else items
    if hint is dict or origin is dict:
        if not isinstance(value, dict):
            _refuse(path, "object", value)
        return {key: convert(args[1], item, f"{path}.{key}") for key, item in value.items()} if args else value
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        try:
            return hint(value)
        except ValueError:
            return _refuse(path, f"one of {[member.value for member in hint]}", value)
    if dataclasses.is_dataclass(hint):
        return hint(**convert_fields(_dataclass_fields(hint), value, path))
    if typing.is_typeddict(hint):
        return convert_fields(_typed_dict_fields(hint), value, path)
    raise TypeError(f"unsupported type {type_name(hint)}")


def convert_fields(fields: dict[str, tuple[Any, bool, Any]], value: Any, path: str) -> dict[str, Any]:
    """Converts the fields of a JSON object. A field that is absent stays absent."""
    if not isinstance(value, dict):
        _refuse(path or "arguments", "object", value)
    for name in value:
        if name not in fields:
            raise Error.invalid_input(f"{_join(path, name)}: unknown argument; expected {', '.join(fields) or 'none'}")
    converted = {}
    for name, (hint, is_required, _) in fields.items():
        if name in value:
            converted[name] = convert(hint, value[name], _join(path, name))
        elif is_required:
            raise Error.invalid_input(f"{_join(path, name)}: missing")
    return converted


def to_json(value: Any) -> Any:
    """Converts a value of a tool to plain JSON values."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, dict):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [to_json(item) for item in value]
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    raise Error.execution(f"the result cannot be written as JSON: {type(value).__name__} is not supported")


def unwrap(text: str) -> str:
    """Joins the lines of each paragraph; lines of lists and indented lines stay separate."""
    paragraphs = []
    for paragraph in text.strip().split("\n\n"):
        lines: list[str] = []
        for line in paragraph.splitlines():
            begins_block = re.match(r"\s{2,}|[-*#>|] |\d+\. ", line)
            if lines and not begins_block:
                lines[-1] += " " + line.strip()
            else:
                lines.append(line.rstrip())
        paragraphs.append("\n".join(lines))
    return "\n\n".join(paragraphs)


def _refuse(path: str, expected: str, value: Any) -> Any:
    found = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}
    kind = "null" if value is None else found.get(type(value), type(value).__name__)
    raise Error.invalid_input(f"{path}: expected {expected}, found {kind}", [{"path": path, "message": f"expected {expected}"}])


def is_object(hint: Any) -> bool:
    """Returns true for a type whose values are JSON objects."""
    if get_origin(hint) is typing.Annotated:
        hint = get_args(hint)[0]
    is_dict = hint is dict or get_origin(hint) is dict
    return is_dict or dataclasses.is_dataclass(hint) or typing.is_typeddict(hint)


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def type_name(hint: Any) -> str:
    """Returns the name of a type for messages."""
    return getattr(hint, "__name__", str(hint))
