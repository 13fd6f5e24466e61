"""The Debian package, made with dpkg-deb."""

import gzip
import hashlib
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from .documents import THIRD_PARTY
from .project import AUTHOR, DEBIAN_MAINTAINER, DESCRIPTION, ROOT, SUMMARY, ReleaseError, debian_version, epoch
from .release_input import ReleaseInput

COMPLETION_PATHS = {
    "bash": "usr/share/bash-completion/completions/mimir",
    "zsh": "usr/share/zsh/vendor-completions/_mimir",
    "fish": "usr/share/fish/vendor_completions.d/mimir.fish",
}
# Tags of lintian that do not apply, each with its reason.
OVERRIDES = """\
# One file is shipped in all packages for Linux, so that its digest is the same everywhere and it needs no libc.
mimir: statically-linked-binary [usr/bin/mimir]
# A crate of the same code, translated to Rust, and compiled in at the version of Cargo.lock.
mimir: embedded-library libyaml [usr/bin/mimir]
# The package is not part of Debian, so that no bug asks for it.
mimir: initial-upload-closes-no-bugs [usr/share/doc/mimir/changelog.Debian.gz:1]
"""


def make_debian_package(given: ReleaseInput) -> Path:
    """Writes the package for the architecture of the target."""
    if not shutil.which("dpkg-deb"):
        raise ReleaseError("dpkg-deb is not installed: make this package on Debian or Ubuntu, or install `dpkg`")
    version = debian_version(given.version)
    path = given.out / f"mimir_{version}_{given.target.debian}.deb"
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        for name, (data, mode) in package_files(given, version).items():
            file = tree / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
            file.chmod(mode)
        size = sum(file.stat().st_size for file in tree.rglob("*") if file.is_file())
        sums = [f"{hashlib.md5(file.read_bytes()).hexdigest()}  {file.relative_to(tree)}\n" for file in sorted(tree.rglob("*")) if file.is_file()]
        (tree / "DEBIAN").mkdir()
        (tree / "DEBIAN/md5sums").write_text("".join(sums))
        (tree / "DEBIAN/control").write_text(control(given, version, size))
        for item in [tree, *tree.rglob("*")]:
            if item.is_dir():
                item.chmod(0o755)
        # Members get no later time than SOURCE_DATE_EPOCH.
        environment = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch())}
        ended = subprocess.run(
            ["dpkg-deb", "--root-owner-group", "-Zxz", "--build", tree, path], env=environment, capture_output=True, text=True
        )
        if ended.returncode != 0:
            raise ReleaseError(f"dpkg-deb failed: {ended.stderr.strip()}")
    return path


def package_files(given: ReleaseInput, version: str) -> dict[str, tuple[bytes, int]]:
    """Content and permissions of every installed file."""
    files = {"usr/bin/mimir": (given.program.read_bytes(), 0o755)}
    for name, text in given.documents.man.items():
        files[f"usr/share/man/man1/{name}.gz"] = (squeeze(text), 0o644)
    for shell, target in COMPLETION_PATHS.items():
        files[target] = (given.documents.completions[shell], 0o644)
    documents = "usr/share/doc/mimir"
    files[f"{documents}/copyright"] = (copyright_file().encode(), 0o644)
    files[f"{documents}/{THIRD_PARTY}.gz"] = (squeeze(given.documents.third_party), 0o644)
    files[f"{documents}/changelog.gz"] = (squeeze((ROOT / ".github/CHANGELOG.md").read_bytes()), 0o644)
    files[f"{documents}/changelog.Debian.gz"] = (squeeze(changelog(version).encode()), 0o644)
    files["usr/share/lintian/overrides/mimir"] = (OVERRIDES.encode(), 0o644)
    return files


def squeeze(data: bytes) -> bytes:
    """Compressed as Debian policy asks: best level, and no name or time."""
    return gzip.compress(data, 9, mtime=0)


def control(given: ReleaseInput, version: str, size: int) -> str:
    fields = {
        "Package": "mimir",
        "Version": version,
        "Architecture": given.target.debian,
        "Maintainer": DEBIAN_MAINTAINER,
        "Installed-Size": str(-(-size // 1024)),
        "Section": "utils",
        "Priority": "optional",
    }
    if given.target.is_local:
        fields["Depends"] = "libc6, libgcc-s1"
    # Requests to the network need certificates; sandboxes and language servers are a choice.
    fields |= {"Recommends": "ca-certificates", "Suggests": "git, bubblewrap, podman | docker.io"}
    lines = [f"{name}: {value}" for name, value in fields.items()]
    summary = SUMMARY[0].lower() + SUMMARY[1:]
    return "\n".join([*lines, f"Description: {summary}", *wrapped(DESCRIPTION)]) + "\n"


def wrapped(text: str) -> list[str]:
    """Lines of a long description, which begin with a space."""
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) > 78:
            lines.append("")
        lines[-1] += f" {word}"
    return lines


def changelog(version: str) -> str:
    when = time.strftime("%a, %d %b %Y %H:%M:%S +0000", time.gmtime(epoch()))
    return (
        f"mimir ({version}) unstable; urgency=medium\n\n"
        f"  * Release of this version. Its changes are in changelog.gz.\n\n -- {DEBIAN_MAINTAINER}  {when}\n"
    )


def copyright_file() -> str:
    """The machine-readable copyright file. Debian has the text of the Apache licence in every installation."""
    mit = (ROOT / "LICENSE-MIT").read_text().strip().splitlines()
    apache = ["On Debian systems the licence is in /usr/share/common-licenses/Apache-2.0."]
    return "\n".join(
        [
            "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/",
            "Upstream-Name: mimir",
            f"Comment: Licences of linked crates and embedded engines are in {THIRD_PARTY}.gz beside this file.",
            "",
            "Files: *",
            f"Copyright: {time.gmtime(epoch()).tm_year} {AUTHOR}",
            "License: Apache-2.0 or Expat",
            "",
            "License: Apache-2.0",
            *(f" {line}" for line in apache),
            "",
            "License: Expat",
            *(f" {line.rstrip()}" if line.strip() else " ." for line in mit),
            "",
        ]
    )
