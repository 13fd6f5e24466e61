"""Shared code of the tests: the packages, an empty machine, and a call of a tool."""

import hashlib
import json
import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from mimir_release.project import version
from mimir_release.targets import TARGETS, Target

NOTE = "Installed from nothing."
IS_WINDOWS = sys.platform == "win32"
# A port on which nothing listens: no test may reach a registry.
CLOSED = "http://127.0.0.1:9"


class InstallError(Exception):
    """A package that does not install or work."""


class InstallSkipped(Exception):
    """A test that this machine cannot run, with the reason."""


@dataclass(frozen=True)
class Bench:
    """The packages for this machine, and a folder for one test."""

    out: Path
    tools: Path
    folder: Path
    cache: Path

    @cached_property
    def target(self) -> Target:
        """The target of this machine whose packages are in the folder."""
        for target in TARGETS:
            if target.is_native and list(self.out.glob(f"mimir-{version()}-{target.triple}.*")):
                return target
        raise InstallError(f"{self.out} has no packages of version {version()} for this machine: run .ci/release/package")

    def file(self, pattern: str) -> Path:
        """The only package that matches."""
        found = sorted(self.out.glob(pattern))
        expect(len(found) == 1, f"one file {pattern} in {self.out}", [path.name for path in found])
        return found[0]

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the program in the archive, which is the program of every other package."""
        path = self.file(f"mimir-{version()}-{self.target.triple}.*")
        name = f"mimir-{version()}-{self.target.triple}/{self.target.program}"
        if path.suffix == ".zip":
            with zipfile.ZipFile(path) as packed:
                return hashlib.sha256(packed.read(name)).hexdigest()
        with tarfile.open(path) as packed:
            member = packed.extractfile(name)
            expect(member is not None, f"{name} in {path}")
            return hashlib.file_digest(member, "sha256").hexdigest()

    @cached_property
    def environment(self) -> dict[str, str]:
        """An empty home, the programs of the system, and no network."""
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        node = self.tools / "node_modules/node/bin"
        kept = {name: os.environ[name] for name in ("SYSTEMROOT", "DOCKER_HOST", "TEMP") if name in os.environ}
        proxies = {name: CLOSED for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")}
        return {
            **kept,
            **proxies,
            "NO_PROXY": "127.0.0.1",
            "no_proxy": "127.0.0.1",
            "HOME": str(home),
            "USERPROFILE": str(home),
            "PATH": os.pathsep.join([str(node), os.environ["PATH"]]),
            "MIMIR_CACHE_DIR": str(self.cache),
            "LANG": "C.UTF-8",
        }

    @cached_property
    def workspace(self) -> Path:
        folder = self.folder / "work"
        folder.mkdir()
        (folder / "note.txt").write_text(NOTE)
        return folder

    def run(self, command: Sequence[str | Path], code: int = 0, cwd: Path | None = None, **variables: str) -> str:
        """Runs a program, checks its exit code, and returns all its output."""
        words = [str(word) for word in command]
        ended = subprocess.run(
            words,
            cwd=cwd or self.folder,
            env={**self.environment, **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=600,
        )
        expect(ended.returncode == code, f"`{' '.join(words)}` ends with {code}", ended.returncode, ended.stdout)
        return ended.stdout

    def tool(self, name: str) -> Path:
        """A checking program."""
        npm = self.tools / "node_modules/.bin" / (f"{name}.cmd" if IS_WINDOWS else name)
        return npm if npm.exists() else self.python.with_name(f"{name}.exe" if IS_WINDOWS else name)

    @property
    def python(self) -> Path:
        """Python with the reference client of MCP."""
        return self.tools / ("python/Scripts/python.exe" if IS_WINDOWS else "python/bin/python")

    def check_program(self, path: Path) -> None:
        """Fails unless the installed file is the program of the archive, and may be executed."""
        expect(os.access(path, os.X_OK), f"{path} can be executed")
        expect(hashlib.sha256(path.read_bytes()).hexdigest() == self.digest, f"{path} is the program of the archive")

    def check_calls(self, command: Sequence[str | Path], **variables: str) -> None:
        """Asks for the version, and calls a tool in a workspace."""
        shown = self.run([*command, "--version"], cwd=self.workspace, **variables)
        expect(f"mimir {version()}" in shown, f"version {version()}", shown)
        result = self.run([*command, "call", "read_file", "path=note.txt", "--json"], cwd=self.workspace, **variables)
        texts = [part.get("text") for part in json.loads(result)["content"]]
        expect(texts == [NOTE], f"the text of the file: {NOTE!r}", result)

    def check_mcp(self, command: Sequence[str | Path], **variables: str) -> None:
        """Has the reference client of MCP start a server, list its tools, and call one."""
        client = Path(__file__).with_name("mcp_client.py")
        shown = self.run([self.python, client, *command], cwd=self.workspace, **variables)
        expect(NOTE in shown, f"the text of the file: {NOTE!r}", shown)


def expect(is_so: bool, expected: str, *seen: object) -> None:
    """Fails with what was expected and seen, unless the condition holds."""
    if not is_so:
        raise InstallError("\n  ".join([f"expected {expected}", *(str(one)[-4000:] for one in seen)]))
