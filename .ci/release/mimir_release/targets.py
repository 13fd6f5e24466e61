"""The targets for which packages are made, and their names in each kind of package."""

import platform
import sys
from dataclasses import dataclass

from .project import NPM_NAME, ReleaseError


@dataclass(frozen=True)
class Target:
    """A target triple of Rust. An empty name means that this kind of package is not made for the target."""

    triple: str
    # Platform tags of the wheel, separated by dots.
    wheel: str
    # `process.platform` and `process.arch` of Node.js.
    npm: tuple[str, str]
    debian: str = ""
    # Platform of the image.
    image: str = ""
    # A target for tests on this machine: its packages are not published.
    is_local: bool = False

    @property
    def program(self) -> str:
        """File name of the program."""
        return "mimir.exe" if self.npm[0] == "win32" else "mimir"

    @property
    def npm_package(self) -> str:
        return f"{NPM_NAME}-{self.npm[0]}-{self.npm[1]}"

    @property
    def is_native(self) -> bool:
        """True if programs of the target run on this machine."""
        systems = {"linux": "linux", "darwin": "darwin", "win32": "win32"}
        machine = {"amd64": "x64", "x86_64": "x64", "arm64": "arm64", "aarch64": "arm64"}
        return self.npm == (systems.get(sys.platform), machine.get(platform.machine().lower()))


TARGETS = [
    Target(
        "x86_64-unknown-linux-musl",
        wheel="manylinux2014_x86_64.musllinux_1_1_x86_64",
        npm=("linux", "x64"),
        debian="amd64",
        image="linux/amd64",
    ),
    Target(
        "aarch64-unknown-linux-musl",
        wheel="manylinux2014_aarch64.musllinux_1_1_aarch64",
        npm=("linux", "arm64"),
        debian="arm64",
        image="linux/arm64",
    ),
    Target("x86_64-pc-windows-gnu", wheel="win_amd64", npm=("win32", "x64")),
    Target("aarch64-apple-darwin", wheel="macosx_11_0_arm64", npm=("darwin", "arm64")),
    Target("x86_64-unknown-linux-gnu", wheel="linux_x86_64", npm=("linux", "x64"), debian="amd64", is_local=True),
    Target("aarch64-unknown-linux-gnu", wheel="linux_aarch64", npm=("linux", "arm64"), debian="arm64", is_local=True),
]


def find_target(triple: str) -> Target:
    for target in TARGETS:
        if target.triple == triple:
            return target
    known = ", ".join(target.triple for target in TARGETS)
    raise ReleaseError(f"`{triple}` is not a target of releases: expected one of {known}")
