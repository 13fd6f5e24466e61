"""Manual pages, completions and licences, which all packages of a version share."""

import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from .licences import crate_licences
from .project import ROOT, ReleaseError

# Shells with the file names that they look for.
COMPLETIONS = {"bash": "mimir", "zsh": "_mimir", "fish": "mimir.fish", "powershell": "mimir.ps1"}
OWN_LICENCES = ["LICENSE-APACHE", "LICENSE-MIT"]
THIRD_PARTY = "THIRD-PARTY-LICENCES"


@dataclass(frozen=True)
class Documents:
    """Contents of files by name."""

    man: dict[str, bytes]
    completions: dict[str, bytes]
    third_party: bytes

    @property
    def licences(self) -> dict[str, bytes]:
        """All licence files."""
        own = {name: (ROOT / name).read_bytes() for name in OWN_LICENCES}
        return {**own, THIRD_PARTY: self.third_party}


def readme() -> bytes:
    return (ROOT / "README.md").read_bytes()


def write_documents(program: Path, folder: Path) -> None:
    """Has the program write its documents into a folder."""
    run_program(program, "man-pages", str(folder / "man1"))
    (folder / "completions").mkdir(parents=True, exist_ok=True)
    for shell, name in COMPLETIONS.items():
        (folder / "completions" / name).write_bytes(run_program(program, "completions", shell))
    engines = run_program(program, "licences").decode()
    (folder / THIRD_PARTY).write_text(f"{engines}\n{'-' * 80}\n\n{crate_licences()}")


def read_documents(folder: Path) -> Documents:
    """Reads a folder that `write_documents` wrote."""
    man = {path.name: path.read_bytes() for path in sorted((folder / "man1").glob("*.1"))}
    completions = folder / "completions"
    missing = [name for name in COMPLETIONS.values() if not (completions / name).is_file()]
    if "mimir.1" not in man or missing or not (folder / THIRD_PARTY).is_file():
        raise ReleaseError(f"{folder} does not have all documents: write them with .ci/release/documents PROGRAM {folder}")
    return Documents(
        man=man,
        completions={shell: (completions / name).read_bytes() for shell, name in COMPLETIONS.items()},
        third_party=(folder / THIRD_PARTY).read_bytes(),
    )


def run_program(program: Path, *arguments: str) -> bytes:
    """Runs mimir without the settings of this machine, and returns its output."""
    with tempfile.TemporaryDirectory() as home:
        environment = {"PATH": os.environ["PATH"], "HOME": home, "NO_COLOR": "1"}
        try:
            ended = subprocess.run(
                [program.resolve(), *arguments], cwd=home, env=environment, capture_output=True, stdin=subprocess.DEVNULL
            )
        except OSError as error:
            raise ReleaseError(f"{program} does not start on this machine: {error}") from error
    if ended.returncode != 0:
        raise ReleaseError(f"mimir {' '.join(arguments)} failed: {ended.stderr.decode(errors='replace').strip()}")
    return ended.stdout
