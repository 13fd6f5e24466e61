"""server.json, the entry of the MCP registry, and a check of the registry's rules for it."""

import json
import re
from pathlib import Path

from .archives import sha256
from .project import MCP_NAME, NPM_NAME, PYPI_NAME, SUMMARY, python_version, version

SCHEMA = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
STDIO = {"type": "stdio"}
SERVE = [{"type": "positional", "value": "serve"}]


def make_server_json(out: Path, release_url: str = "", repository_url: str = "") -> Path:
    """Writes server.json. `release_url` is the address below which the files of the release are downloaded; without it
    the bundles are left out, since the registry wants their addresses."""
    packages: list[dict] = [
        {"registryType": "npm", "identifier": NPM_NAME, "version": version(), "runtimeHint": "npx"},
        {"registryType": "pypi", "identifier": PYPI_NAME, "version": python_version(version()), "runtimeHint": "uvx"},
    ]
    for package in packages:
        package |= {"transport": STDIO, "packageArguments": SERVE}
    if release_url:
        for bundle in sorted(out.glob("*.mcpb")):
            address = f"{release_url.rstrip('/')}/{bundle.name}"
            packages.append(
                {"registryType": "mcpb", "identifier": address, "fileSha256": sha256(bundle), "transport": STDIO}
            )
    server = {
        "$schema": SCHEMA,
        "name": MCP_NAME,
        "title": "mimir",
        "description": SUMMARY,
        "version": version(),
        "packages": packages,
    }
    if repository_url:
        server["repository"] = {"url": repository_url, "source": "github"}
    path = out / "server.json"
    path.write_text(json.dumps(server, indent=2) + "\n")
    return path


def server_json_faults(server: object) -> list[str]:
    """Violations of the schema and of the registry's rules, for the parts that the file above uses. Unknown keys are
    faults, so that a new part needs a rule here."""
    if not isinstance(server, dict):
        return [f"expected an object, found {server!r}"]
    faults = unknown_keys(server, {*REQUIRED, "$schema", "title", "packages", "repository"}, "server")
    faults += [f"server: `{key}` is missing" for key in REQUIRED if not isinstance(server.get(key), str)]
    for key, pattern in PATTERNS.items():
        if key in server and not re.fullmatch(pattern, str(server[key])):
            faults.append(f"server: `{key}` is not valid: {server[key]!r}, expected {pattern}")
    for at, package in enumerate(server.get("packages", [])):
        faults += package_faults(package, f"packages[{at}]")
    repository = server.get("repository")
    if repository is not None:
        faults += unknown_keys(repository, {"url", "source"}, "repository")
        if not re.fullmatch(r"https?://\S+", repository.get("url", "")):
            faults.append(f"repository: `url` is not a URL: {repository.get('url')!r}")
    return faults


REQUIRED = ("name", "description", "version")
PATTERNS = {
    "$schema": re.escape(SCHEMA),
    "name": r"(?=.{3,200}$)[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+",
    "title": r".{1,100}",
    "description": r".{1,100}",
    # An exact version: ranges are rejected.
    "version": r"(?=.{1,255}$)\d[0-9A-Za-z.+-]*",
}


def package_faults(package: dict, place: str) -> list[str]:
    known = {
        "registryType", "identifier", "version", "runtimeHint", "transport", "packageArguments", "fileSha256",
    }  # fmt: skip
    faults = unknown_keys(package, known, place)
    kind = package.get("registryType")
    if kind not in ("npm", "pypi", "mcpb"):
        faults.append(f"{place}: `registryType` is not known: {kind!r}")
    if not package.get("identifier"):
        faults.append(f"{place}: `identifier` is missing")
    if package.get("transport") != STDIO:
        faults.append(f"{place}: `transport` is not {STDIO}: {package.get('transport')!r}")
    if kind == "mcpb":
        if not re.fullmatch(r"[a-f0-9]{64}", package.get("fileSha256", "")):
            faults.append(f"{place}: `fileSha256` is not a SHA-256: {package.get('fileSha256')!r}")
        if not re.fullmatch(r"https://\S+\.mcpb", package.get("identifier", "")):
            faults.append(f"{place}: `identifier` of a bundle is its address: {package.get('identifier')!r}")
    elif not re.fullmatch(PATTERNS["version"], package.get("version", "")):
        faults.append(f"{place}: `version` is not an exact version: {package.get('version')!r}")
    for argument in package.get("packageArguments", []):
        if argument.get("type") != "positional" or not argument.get("value"):
            faults.append(f"{place}: expected positional arguments with a value, found {argument!r}")
    return faults


def unknown_keys(value: dict, known: set[str], place: str) -> list[str]:
    return [f"{place}: unknown key `{key}`" for key in value if key not in known]
