"""The decorator that makes a tool of a function."""

from __future__ import annotations

import inspect
import json
import re
import sys
from typing import Any, Callable, TypeVar, get_type_hints, overload

from . import _schema
from ._context import Context
from ._error import DefinitionError, Error
from ._needs import Needs
from ._output import Json, Output, to_output

F = TypeVar("F", bound=Callable[..., Any])

#: The tools of the plugin, by name, in the order of their definitions.
TOOLS: dict[str, "Tool"] = {}

_NAME = re.compile(r"[a-z0-9_]{1,64}")


class Tool:
    """A function with its description. Calling it calls the function."""

    def __init__(self, function: Callable[..., Any], name: str | None, title: str | None, description: str | None,
                 needs: Needs | None, approval: str | None, group: str, risk: str, hints: tuple[str, ...]):
        self.function = function
        self.name = name or function.__name__
        self.title = title
        self.needs = needs or Needs()
        self.approval = approval or ("ask" if self.needs else "allow")
        self.group, self.risk, self.hints = group, risk, hints
        # The report of a build, and a traceback, have the file and the line.
        where = f"{function.__name__}()"
        if not _NAME.fullmatch(self.name):
            raise DefinitionError(f"{where}: `{self.name}` is not a valid name: expected 1 to 64 characters of a-z, 0-9 and _")
        for what, value, known in (
            ("approval", self.approval, ("allow", "ask", "deny")),
            ("group", group, ("runtime", "fs", "net", "browser", "memory", "system")),
            ("risk", risk, ("low", "medium", "high", "critical")),
            *(("hints", hint, ("read-only", "destructive", "idempotent", "open-world")) for hint in hints),
        ):
            if value not in known:
                raise DefinitionError(f"{where}: `{value}` is not valid for {what}: expected one of {', '.join(known)}")
        doc = inspect.cleandoc(description or function.__doc__ or "")
        if not doc:
            raise DefinitionError(f"{where} has no docstring, which is the description that models choose the tool by")
        text, documented = _split_docstring(doc)
        self.description = _schema.unwrap(text)
        try:
            hints_of = get_type_hints(function, include_extras=True)
        except NameError as error:
            raise DefinitionError(f"{where}: {error}") from None
        self.parameters: dict[str, tuple[Any, bool, Any]] = {}
        self.context_name: str | None = None
        for parameter in inspect.signature(function).parameters.values():
            hint = hints_of.get(parameter.name, inspect.Parameter.empty)
            if hint is Context:
                self.context_name = parameter.name
                continue
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                raise DefinitionError(f"{where}: *{parameter.name} is not supported: name each argument")
            if hint is parameter.empty:
                raise DefinitionError(f"{where}: the parameter `{parameter.name}` has no type hint")
            is_required = parameter.default is parameter.empty
            self.parameters[parameter.name] = (hint, is_required, None if is_required else parameter.default)
        try:
            self.input_schema = _schema.parameters_schema(self.parameters)
            self.output_schema = _output_schema(hints_of.get("return"))
        except TypeError as error:
            raise DefinitionError(f"{where}: {error}") from None
        for name, text in documented.items():
            if name in self.input_schema["properties"]:
                self.input_schema["properties"][name].setdefault("description", text)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def definition(self) -> dict[str, Any]:
        """Returns the definition in the form of the contract."""
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "group": self.group,
            "input-schema": json.dumps(self.input_schema, ensure_ascii=False),
            "output-schema": self.output_schema and json.dumps(self.output_schema, ensure_ascii=False),
            "approval": self.approval,
            "risk": self.risk,
            "hints": list(self.hints),
            "needs": self.needs.to_json(),
        }

    def run(self, arguments: str, context: Context) -> Output:
        """Runs a call with arguments as JSON. Raises :class:`Error`."""
        try:
            value = json.loads(arguments.strip() or "{}")
        except ValueError as error:
            raise Error.invalid_input(f"arguments: {error}") from None
        keywords = _schema.convert_fields(self.parameters, value, "")
        if self.context_name:
            keywords[self.context_name] = context
        return to_output(self.function(**keywords))


def _output_schema(hint: Any) -> dict[str, Any] | None:
    if _schema.get_origin(hint) is Json:
        (hint,) = _schema.get_args(hint)
    elif hint in (None, type(None), str, Output, Any, inspect.Signature.empty):
        return None
    problem = (f"the return type {_schema.type_name(hint)} is not supported: return `str`, a dataclass, a TypedDict or a dict, "
               "or mimir.Output for images, audio and files")
    try:
        schema = _schema.schema_of(hint)
    except TypeError as error:
        raise TypeError(f"the result: {error}" if _schema.is_object(hint) else problem) from None
    if schema.get("type") != "object":
        raise TypeError(problem)
    return schema


def _split_docstring(doc: str) -> tuple[str, dict[str, str]]:
    """Splits off a section ``Args:`` with a line ``name: text`` for each parameter."""
    text, mark, section = doc.partition("\nArgs:\n")
    documented: dict[str, str] = {}
    name = None
    for line in section.splitlines():
        entry = re.match(r"\s{2,8}(\w+)(?: \([^)]*\))?: (.*)", line)
        if entry:
            name = entry[1]
            documented[name] = entry[2].strip()
        elif name and line.startswith("  "):
            documented[name] += " " + line.strip()
        elif line.strip():
            break
    return (text, documented) if mark else (doc, {})


@overload
def tool(function: F) -> F: ...
@overload
def tool(*, name: str | None = None, title: str | None = None, description: str | None = None,
         needs: Needs | None = None, approval: str | None = None, group: str = "system", risk: str = "low",
         hints: tuple[str, ...] = ()) -> Callable[[F], F]: ...
def tool(function: Any = None, *, name: str | None = None, title: str | None = None, description: str | None = None,
         needs: Needs | None = None, approval: str | None = None, group: str = "system", risk: str = "low",
         hints: tuple[str, ...] = ()) -> Any:
    """Exports a function as a tool.

    By default, calls of a tool without needs are allowed and calls of any other tool need approval. ``hints`` are effects:
    ``read-only``, ``destructive``, ``idempotent``, ``open-world``; they can only make a decision stricter.
    """

    def register(function: Any) -> Any:
        made = Tool(function, name, title, description, needs, approval, group, risk, hints)
        if made.name in TOOLS:
            raise DefinitionError(f"two tools are called `{made.name}`: give one another `name`")
        TOOLS[made.name] = made
        # The function stays an ordinary one, for tests and for other code.
        function.__mimir_tool__ = made
        return function

    return register(function) if function is not None else register


def export(**settings: Any) -> Callable[[F], F]:
    """An alias of :func:`tool` with settings."""
    return tool(**settings)


def package() -> dict[str, Any]:
    """Returns the metadata of the plugin, which ``mimir tools build`` takes from pyproject.toml."""
    made = sys.modules.get("mimir_package")
    read = lambda key, default: getattr(made, key, None) or default  # noqa: E731
    first = next(iter(TOOLS.values()), None)
    return {
        "name": read("NAME", "tools"),
        "version": read("VERSION", "0.1.0"),
        "description": read("DESCRIPTION", first.description if first else ""),
        "license": read("LICENSE", None),
        "homepage": read("HOMEPAGE", None),
    }


def manifest() -> dict[str, Any]:
    """Returns the manifest in the form of the contract."""
    return {**package(), "tools": [made.definition() for made in TOOLS.values()]}
