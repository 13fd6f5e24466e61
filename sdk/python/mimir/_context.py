"""Context of a call: ids, the user and the workspace."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Context:
    """The context of one call. It contains no secrets. A tool that needs it has a parameter of this type."""

    #: The workspace root as this tool sees it. Files that were not granted do not exist there.
    workspace: Path
    #: Unique id of this call.
    request_id: str = "test-request"
    #: Id of the session, shared by all calls of the session.
    session_id: str = "test-session"
    #: Id of the conversation that the call belongs to, if the caller gave one.
    conversation_id: str | None = None
    #: The user on whose behalf the call runs, if known.
    user: str | None = None

    @classmethod
    def at(cls, workspace: str | Path) -> "Context":
        """Creates a context for tests, with this directory as the workspace."""
        return cls(Path(workspace))

    def path(self, relative: str) -> Path:
        """Joins a path to the workspace root, as ``pathlib`` does: an absolute path stays as it is, and ``..`` stays in it.
        The host refuses files outside of the workspace."""
        return self.workspace / relative
