"""The npm packages: install, npx, exit codes, signals, and a missing platform package."""

import os
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
        check_signals(bench, launcher, installed)
    check_missing_platform(bench, launcher, modules)


def check_signals(bench: Bench, launcher: Path, program: Path) -> None:
    """The program gets a signal that is sent to the launcher, and the launcher ends as the program does."""
    original = program.rename(bench.folder / "original")
    try:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            # A program that handles the signal, and one that does not.
            for handler, code in (("exit 7", 7), ("-", -number)):
                program.write_text(PROGRAM.format(handler=handler, signal=number.name.removeprefix("SIG")))
                program.chmod(0o755)
                ended = end_by_signal(bench, ["node", launcher], number)
                expect(ended == code, f"exit code {code} after {number.name}, handled by `{handler}`", ended)
    finally:
        original.replace(program)


# Says that it is ready, and waits without an end.
PROGRAM = """#!/bin/sh
trap '{handler}' {signal}
echo ready
while :; do sleep 0.1; done
"""


def end_by_signal(bench: Bench, command: list, number: signal.Signals) -> int:
    """Starts a program, waits until it is ready, sends a signal, and returns the exit code."""
    started = subprocess.Popen(
        command, env=bench.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, start_new_session=True,
    )  # fmt: skip
    first = started.stdout.readline()
    expect(first == "ready\n", "the program starts", first)
    started.send_signal(number)
    try:
        # The pipes close when the program has ended, too: a program that was left behind holds them open.
        started.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        os.killpg(started.pid, signal.SIGKILL)
        started.wait()
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
