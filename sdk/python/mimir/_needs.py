"""Needs of a tool. Declaring a need grants nothing: a person grants it."""

from __future__ import annotations

import functools
import inspect
import json
from typing import Any, Callable, Iterable, TypeVar

from ._error import DefinitionError

F = TypeVar("F", bound=Callable[..., Any])


def _arguments_as(example: str) -> Callable[[F], F]:
    """Makes a method report wrong arguments with an example of the right ones."""

    def wrap(method: F) -> F:
        signature = inspect.signature(method)

        @functools.wraps(method)
        def checked(*args: Any, **kwargs: Any) -> Any:
            try:
                signature.bind(*args, **kwargs)
            except TypeError as error:
                reason = "each of these needs has a reason: " if "reason" in signature.parameters else ""
                raise DefinitionError(f"Needs.{method.__name__}: {error}; {reason}expected .{example}") from None
            return method(*args, **kwargs)

        return checked  # type: ignore[return-value]

    return wrap


class Needs:
    """The needs of a tool. Files, hosts, commands and secrets have a reason, written for the person who is asked to grant
    them.

    >>> needs = Needs().read(".", "to find the translations").host("api.example.com", ["POST"], "to translate")
    >>> bool(needs)
    True
    """

    def __init__(self) -> None:
        self.files: list[dict[str, str]] = []
        self.hosts: list[dict[str, Any]] = []
        self.commands: list[dict[str, str]] = []
        self.secrets: list[dict[str, str]] = []
        self.variables: list[str] = []
        self.tools: list[str] = []
        self.uses_model = False

    @_arguments_as('read("docs", "why")')
    def read(self, path: str, reason: str) -> "Needs":
        """Requests to read the files in a directory, relative to the workspace root; ``.`` is the whole workspace."""
        self.files.append({"path": path, "access": "read", "reason": reason})
        return self

    @_arguments_as('write("out", "why")')
    def write(self, path: str, reason: str) -> "Needs":
        """Requests to read, create, change and remove the files in a directory."""
        self.files.append({"path": path, "access": "read-write", "reason": reason})
        return self

    @_arguments_as('host("api.example.com", ["GET"], "why")')
    def host(self, host: str, methods: Iterable[str], reason: str) -> "Needs":
        """Requests access to a host (``api.example.com``, ``*.example.com``, optionally ``:port``) with these methods."""
        if isinstance(methods, str):
            raise DefinitionError(f"Needs.host: the methods are a list: expected [{json.dumps(methods)}]")
        self.hosts.append({"host": host, "methods": list(methods), "reason": reason})
        return self

    @_arguments_as('command("git status *", "why")')
    def command(self, pattern: str, reason: str) -> "Needs":
        """Requests to run commands that match a pattern such as ``git status *``, word by word."""
        self.commands.append({"pattern": pattern, "reason": reason})
        return self

    @_arguments_as('secret("API_KEY", "api.example.com", "Authorization", "why")')
    def secret(self, name: str, host: str, header: str, reason: str) -> "Needs":
        """Requests a credential for a header of requests to a host. ``os.environ[name]`` is a placeholder, which the host
        replaces in that header."""
        self.secrets.append({"name": name, "host": host, "header": header, "reason": reason})
        return self

    @_arguments_as('variable("NAME")')
    def variable(self, name: str) -> "Needs":
        """Requests the value of an environment or configuration variable, in ``os.environ``."""
        self.variables.append(name)
        return self

    @_arguments_as('tool("read_file")')
    def tool(self, name: str) -> "Needs":
        """Requests to call another tool."""
        self.tools.append(name)
        return self

    @_arguments_as("model()")
    def model(self) -> "Needs":
        """Requests completions from the host's language model."""
        self.uses_model = True
        return self

    def __bool__(self) -> bool:
        return any(self.to_json().values())

    def to_json(self) -> dict[str, Any]:
        """Returns the needs in the form of the contract."""
        return {
            "files": self.files,
            "hosts": self.hosts,
            "commands": self.commands,
            "secrets": self.secrets,
            "variables": self.variables,
            "tools": self.tools,
            "model": self.uses_model,
        }
