"""Names and the version of the project. Packages take them from here, and the version from Cargo.toml."""

import os
import re
import subprocess
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SUMMARY = "Runs tools for AI agents as sandboxed WebAssembly components"
DESCRIPTION = (
    "mimir runs tools for AI agents, each call in a fresh sandbox with bounded computation, memory, time and output, and "
    "with the files, hosts, commands and secrets that you granted. It serves the tools to any agent over MCP."
)
AUTHOR = "The mimir authors"

# The names under which packages are published. Reserve them at the registries before the first release.
PYPI_NAME = "mimir-tools"
NPM_NAME = "@mimir-tools/cli"
MCP_NAME = "io.github.mimir-tools/mimir"
# Debian requires an address.
DEBIAN_MAINTAINER = f"{AUTHOR} <maintainers@mimir.example>"


class ReleaseError(Exception):
    """An error to print without a traceback."""


def manifest() -> dict:
    return tomllib.loads((ROOT / "Cargo.toml").read_text())


def version() -> str:
    """The version of the workspace, for example 1.2.0 or 1.2.0-rc.1."""
    return manifest()["workspace"]["package"]["version"]


def licence() -> str:
    """The SPDX expression."""
    return manifest()["workspace"]["package"]["license"]


def python_version(semver: str) -> str:
    """The version as Python writes it (PEP 440): 1.2.0-rc.1 is 1.2.0rc1."""
    found = re.fullmatch(r"(\d+\.\d+\.\d+)(?:-(alpha|beta|rc)\.?(\d+))?", semver)
    if not found:
        raise ReleaseError(f"`{semver}` has no Python form: expected X.Y.Z, or X.Y.Z-rc.N (alpha, beta) in Cargo.toml")
    release, stage, number = found.groups()
    return release + ({"alpha": "a", "beta": "b", "rc": "rc"}[stage] + number if stage else "")


def debian_version(semver: str) -> str:
    """The version of the Debian package: a pre-release sorts before its release by `~`."""
    return semver.replace("-", "~", 1) + "-1"


def epoch() -> int:
    """The time of all packed files: that of the commit, so that the packages of one commit are equal byte for byte."""
    if "SOURCE_DATE_EPOCH" in os.environ:
        return int(os.environ["SOURCE_DATE_EPOCH"])
    shown = subprocess.run(["git", "-C", ROOT, "log", "-1", "--format=%ct"], capture_output=True, text=True)
    if shown.returncode != 0:
        raise ReleaseError("the time of the commit is unknown outside of a git checkout: set SOURCE_DATE_EPOCH")
    return int(shown.stdout)
