"""The MCP bundle: checked and unpacked by its own tool, and started as its manifest says."""

import json

from mimir_release.project import version

from .kit import Bench, expect


def test_mcpb(bench: Bench) -> None:
    bundle = bench.file(f"mimir-{version()}-{'-'.join(bench.target.npm)}.mcpb")
    unpacked = bench.folder / "unpacked"
    bench.run([bench.tool("mcpb"), "unpack", bundle, unpacked])
    bench.run([bench.tool("mcpb"), "validate", unpacked / "manifest.json"])
    manifest = json.loads((unpacked / "manifest.json").read_text())
    expect(manifest["version"] == version(), f"version {version()}", manifest["version"])
    expect(bench.target.npm[0] in manifest["compatibility"]["platforms"], "the platform", manifest["compatibility"])
    bench.check_program(unpacked / manifest["server"]["entry_point"])
    # As an application does that asked the user for the workspace.
    values = {"${__dirname}": str(unpacked), "${user_config.workspace}": str(bench.workspace)}
    start = manifest["server"]["mcp_config"]
    command = [start["command"], *start["args"]]
    for name, value in values.items():
        command = [word.replace(name, value) for word in command]
    expect(not any("${" in word for word in command), "every variable has a value", command)
    bench.check_mcp(command)
