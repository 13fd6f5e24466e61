"""The npm packages: one with the program per platform, and one with a launcher that depends on all of them."""

import io
import gzip
import json
from pathlib import Path

from .archives import Entry, write_tar
from .documents import readme
from .project import AUTHOR, MCP_NAME, NPM_NAME, SUMMARY, epoch, licence
from .release_input import ReleaseInput
from .targets import TARGETS

LAUNCHER = Path(__file__).resolve().parents[1] / "npm/launcher.js"


def make_platform_package(given: ReleaseInput) -> Path:
    """Writes the package with the program for one platform."""
    system, machine = given.target.npm
    manifest = base_manifest(given.target.npm_package, given.version)
    manifest["description"] = f"The program of {NPM_NAME} for {system}-{machine}"
    manifest |= {"os": [system], "cpu": [machine], "preferUnplugged": True}
    text = f"# {given.target.npm_package}\n\n{manifest['description']}. Install `{NPM_NAME}`, which depends on it.\n"
    files = {f"bin/{given.target.program}": given.program_entry, "README.md": Entry(text.encode())}
    return pack(given, manifest, files)


def make_main_package(given: ReleaseInput) -> Path:
    """Writes the package that people install. It depends on the published platforms, of which npm installs one."""
    manifest = base_manifest(NPM_NAME, given.version)
    platforms = [target.npm_package for target in TARGETS if not target.is_local]
    manifest |= {
        "bin": {"mimir": "launcher.js"},
        "engines": {"node": ">=18"},
        "mcpName": MCP_NAME,
        "optionalDependencies": {name: given.version for name in platforms},
    }
    return pack(given, manifest, {"launcher.js": Entry(LAUNCHER.read_bytes(), 0o755), "README.md": Entry(readme())})


def base_manifest(name: str, version: str) -> dict:
    """Parts of package.json that all packages have."""
    return {
        "name": name,
        "version": version,
        "description": SUMMARY,
        "keywords": ["mcp", "agent", "tools", "sandbox", "webassembly"],
        "license": f"({licence()})",
        "author": AUTHOR,
        # Packages of a scope are private unless they say otherwise.
        "publishConfig": {"access": "public"},
    }


def pack(given: ReleaseInput, manifest: dict, files: dict[str, Entry]) -> Path:
    """Writes a package as `npm pack` does."""
    files = {**files, "package.json": Entry((json.dumps(manifest, indent=2) + "\n").encode())}
    for name, text in given.documents.licences.items():
        files[name] = Entry(text)
    path = given.out / f"{manifest['name'].lstrip('@').replace('/', '-')}-{given.version}.tgz"
    tar = io.BytesIO()
    write_tar(tar, {f"package/{name}": entry for name, entry in files.items()})
    path.write_bytes(gzip.compress(tar.getvalue(), 6, mtime=epoch()))
    return path
