"""The Claude Code plugin: the marketplace of this repository, as an archive with the version in it."""

import json
from pathlib import Path

from .archives import Entry, write_tar_gz
from .project import ROOT, version
from .release_input import ReleaseInput

FOLDER = ".claude-plugin"
PLUGIN = f"{FOLDER}/mimir/.claude-plugin/plugin.json"


def make_claude_plugin(given: ReleaseInput) -> Path:
    """Writes the archive, which `claude plugin marketplace add` takes after unpacking. It is equal for all targets."""
    top = f"mimir-{given.version}-claude-plugin"
    path = given.out / f"{top}.tar.gz"
    write_tar_gz(path, {f"{top}/{name}": entry for name, entry in plugin_files().items()})
    return path


def plugin_files() -> dict[str, Entry]:
    """The files of the marketplace. The version is not in the repository: the installed one would be out of date."""
    files = {}
    for path in sorted((ROOT / FOLDER).rglob("*")):
        if path.is_file():
            files[str(path.relative_to(ROOT))] = Entry(path.read_bytes())
    manifest = json.loads(files[PLUGIN].data)
    stamped = {"name": manifest.pop("name"), "version": version(), **manifest}
    files[PLUGIN] = Entry((json.dumps(stamped, indent=2) + "\n").encode())
    return files
