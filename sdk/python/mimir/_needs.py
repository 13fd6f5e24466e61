"""Needs of a tool. Declaring a need grants nothing: a person grants it."""

from __future__ import annotations

from typing import Any, Iterable


class Needs:
    """The needs of a tool. Each has a reason, written for the person who is asked to grant it.

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

    def read(self, path: str, reason: str) -> "Needs":
        """Requests to read the files in a directory, relative to the workspace root; ``.`` is the whole workspace."""
        self.files.append({"path": path, "access": "read", "reason": reason})
        return self

    def write(self, path: str, reason: str) -> "Needs":
        """Requests to read, create, change and remove the files in a directory."""
        self.files.append({"path": path, "access": "read-write", "reason": reason})
        return self

    def host(self, host: str, methods: Iterable[str], reason: str) -> "Needs":
        """Requests access to a host (``api.example.com``, ``*.example.com``, optionally ``:port``) with these methods."""
        self.hosts.append({"host": host, "methods": list(methods), "reason": reason})
        return self

    def command(self, pattern: str, reason: str) -> "Needs":
        """Requests to run commands that match a pattern such as ``git status *``, word by word."""
        self.commands.append({"pattern": pattern, "reason": reason})
        return self

    def secret(self, name: str, host: str, header: str, reason: str) -> "Needs":
        """Requests a credential for a header of requests to a host. ``os.environ[name]`` is a placeholder, which the host
        replaces in that header."""
        self.secrets.append({"name": name, "host": host, "header": header, "reason": reason})
        return self

    def variable(self, name: str) -> "Needs":
        """Requests the value of an environment or configuration variable, in ``os.environ``."""
        self.variables.append(name)
        return self

    def tool(self, name: str) -> "Needs":
        """Requests to call another tool."""
        self.tools.append(name)
        return self

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
