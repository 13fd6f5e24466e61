"""The npm packages: install, npx, exit codes, signals, and a missing platform package."""

import signal
import subprocess
import sys
from pathlib import Path

from mimir_release.project import NPM_NAME, version

from .kit import Bench, expect
from .npm_registry import serve_packages


def test_npm(bench: Bench) -> None:
    npm = "npm.cmd" if sys.platform == "win32" else "npm"
    npx = "npx.cmd" if sys.platform == "win32" else "npx"
    with serve_packages(bench.out) as registry:
        settings = {"npm_config_registry": registry, "npm_config_cache": str(bench.folder / "npm-cache")}
        project = bench.workspace
        (project / "package.json").write_text('{"private": true}')
        bench.run([npm, "install", "--no-audit", "--no-fund", NPM_NAME], cwd=project, **settings)
        modules = project / "node_modules"
        installed = modules / bench.target.npm_package / "bin" / bench.target.program
        bench.check_program(installed)
        others = sorted(path.name for path in (modules / NPM_NAME).parent.iterdir())
        expect(len(others) == 2, "the launcher and one platform package", others)
        # The first use of npx on another machine installs by the name alone.
        bench.check_calls([npx, "--yes", NPM_NAME], **settings)
    bench.check_calls([npx, "--offline", "mimir"], **settings)
    node, launcher = "node", modules / NPM_NAME / "launcher.js"
    bench.check_mcp([node, launcher, "serve"])
    bench.run([node, launcher, "call", "read_file", "path=missing.txt"], code=1, cwd=project)
    bench.run([node, launcher, "no-such-command"], code=2, cwd=project)
    if sys.platform != "win32":
        check_signals(bench, launcher)
    check_missing_platform(bench, launcher, modules)


def check_signals(bench: Bench, launcher: Path) -> None:
    """The program gets a signal that is sent to the launcher, and both end alike."""
    for number in [signal.SIGTERM, signal.SIGINT]:
        server = [bench.workspace / "node_modules" / bench.target.npm_package / "bin/mimir", "serve", "--http", "0"]
        codes = [end_by_signal(bench, server, number), end_by_signal(bench, ["node", launcher, *server[1:]], number)]
        expect(codes[0] == codes[1], f"the exit code {codes[0]} of the program after {number.name}", codes[1])


def end_by_signal(bench: Bench, command: list, number: signal.Signals) -> int:
    """Starts a server, waits until it listens, sends a signal, and returns the exit code."""
    started = subprocess.Popen(
        command, cwd=bench.workspace, env=bench.environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    lines = []
    for line in started.stderr:
        lines.append(line)
        if "/mcp" in line:
            break
    expect(bool(lines) and "/mcp" in lines[-1], "the address of the server", lines)
    started.send_signal(number)
    try:
        # The pipe closes when the program has ended, too: a program that was left behind holds it open.
        started.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        started.kill()
        expect(False, f"the program ends after {number.name}", "it runs on")
    return started.returncode


def check_missing_platform(bench: Bench, launcher: Path, modules: Path) -> None:
    """Without the platform package, the error names the command that installs it."""
    package = modules / bench.target.npm_package
    package.rename(bench.folder / "moved")
    shown = bench.run(["node", launcher, "--version"], code=127)
    expect(f"npm install {bench.target.npm_package}@{version()}" in shown, "the command that fixes it", shown)
    unknown = bench.run(["node", "-e", f"Object.defineProperty(process, 'arch', {{value: 's390x'}}); require({str(launcher)!r})"],
                        code=127)  # fmt: skip
    expect("has no program for" in unknown and "cargo install" in unknown, "the known platforms", unknown)
