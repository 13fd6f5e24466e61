"""Input of all kinds of packages: the program, its target, and the documents."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from .archives import Entry
from .documents import Documents
from .project import version
from .targets import Target


@dataclass(frozen=True)
class ReleaseInput:
    program: Path
    target: Target
    documents: Documents
    out: Path

    @cached_property
    def program_entry(self) -> Entry:
        return Entry(self.program.read_bytes(), 0o755)

    @property
    def version(self) -> str:
        return version()

    @property
    def is_windows(self) -> bool:
        return self.target.npm[0] == "win32"
