"""The Claude Code plugin: checked, installed from its marketplace, and its server started by Claude Code."""

import json
import os
import shutil
import sys

from mimir_release.project import version

from .kit import Bench, InstallSkipped, expect


def test_claude_plugin(bench: Bench) -> None:
    if sys.platform == "win32":
        raise InstallSkipped("tested on Linux and macOS; the files are the same")
    top = f"mimir-{version()}-claude-plugin"
    shutil.unpack_archive(bench.file(f"{top}.tar.gz"), bench.folder)
    marketplace = bench.folder / top
    claude = bench.tool("claude")
    bench.run([claude, "plugin", "validate", "--strict", marketplace])
    bench.run([claude, "plugin", "validate", marketplace / ".claude-plugin/mimir"])
    # The plugin starts `mimir` from the PATH.
    programs = bench.folder / "bin"
    shutil.unpack_archive(bench.file(f"mimir-{version()}-{bench.target.triple}.*"), bench.folder)
    programs.symlink_to(bench.folder / f"mimir-{version()}-{bench.target.triple}")
    path = {"PATH": os.pathsep.join([str(programs), bench.environment["PATH"]])}
    work = bench.workspace
    bench.run([claude, "plugin", "marketplace", "add", marketplace], cwd=work, **path)
    bench.run([claude, "plugin", "install", "mimir@mimir"], cwd=work, **path)
    shown = bench.run([claude, "mcp", "list"], cwd=work, **path)
    line = next((line for line in shown.splitlines() if "mimir serve" in line), "")
    expect("Connected" in line, "Claude Code connects to the server of the plugin", shown)
    listed = bench.run([claude, "plugin", "list", "--json"], cwd=work, **path)
    versions = [plugin.get("version") for plugin in json.loads(listed) if "mimir" in plugin.get("id", "")]
    expect(versions == [version()], f"the plugin in version {version()}", listed)
