"""The licence texts of everything that is linked into the program."""

import json
import subprocess
from collections import defaultdict
from pathlib import Path

from .project import ROOT, ReleaseError

# Beginnings of file names that hold licences and notices, in capitals.
NAMES = ("LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE")
PROGRAM = "mimir-cli"


def crate_licences() -> str:
    """The crates of the program with their licences, and each licence text once."""
    crates = linked_crates(cargo_metadata())
    texts: dict[str, list[str]] = defaultdict(list)
    lines = []
    for crate in crates:
        title = f"{crate['name']} {crate['version']}"
        lines.append(f"{title}: {crate['license'] or 'see its licence file'}")
        for text in licence_texts(Path(crate["manifest_path"]).parent):
            texts[text].append(title)
    parts = ["Rust crates, with their licences:\n\n" + "\n".join(lines) + "\n"]
    for text, owners in sorted(texts.items(), key=lambda item: item[1]):
        parts.append(f"Licence of {', '.join(owners)}:\n\n{text}\n")
    return f"\n{'-' * 80}\n\n".join(parts)


def cargo_metadata() -> dict:
    """What cargo knows about all crates in Cargo.lock."""
    ended = subprocess.run(
        ["cargo", "metadata", "--locked", "--format-version=1", "--manifest-path", ROOT / "Cargo.toml"],
        capture_output=True,
        text=True,
    )
    if ended.returncode != 0:
        raise ReleaseError(f"cargo metadata failed:\n{ended.stderr}")
    return json.loads(ended.stdout)


def linked_crates(metadata: dict) -> list[dict]:
    """The crates from registries that the program links: no build scripts, tests or crates of the workspace."""
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    names = [package["name"] for package in packages.values()]
    if PROGRAM not in names:
        raise ReleaseError(f"there is no crate `{PROGRAM}` in the workspace")
    waiting = [id for id, package in packages.items() if is_shipped(package)]
    seen = set(waiting)
    while waiting:
        for dependency in nodes[waiting.pop()]["deps"]:
            is_linked = any(kind["kind"] is None for kind in dependency["dep_kinds"])
            if is_linked and dependency["pkg"] not in seen:
                seen.add(dependency["pkg"])
                waiting.append(dependency["pkg"])
    foreign = [packages[id] for id in seen if packages[id]["source"]]
    return sorted(foreign, key=lambda crate: (crate["name"], crate["version"]))


def is_shipped(package: dict) -> bool:
    """True for the program, and for the plugins that are embedded in it."""
    folder = Path(package["manifest_path"]).parent
    return package["source"] is None and (package["name"] == PROGRAM or folder.parent.name == "plugins")


def licence_texts(folder: Path) -> list[str]:
    """The texts of the licence files of a crate."""
    files = sorted(path for path in folder.iterdir() if path.is_file() and path.name.upper().startswith(NAMES))
    return [path.read_text(errors="replace").replace("\r\n", "\n").strip() for path in files]
