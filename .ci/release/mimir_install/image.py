"""The container image: its Dockerfile is linted, and it is built and run if an engine answers."""

import os
import shutil
import subprocess

from mimir_release.project import version

from .kit import Bench, InstallSkipped, expect


def test_image(bench: Bench) -> None:
    if not bench.target.image:
        raise InstallSkipped(f"images need a static program, and these packages are for {bench.target.triple}")
    folder = bench.out / f"image-{bench.target.image.replace('/', '-')}"
    bench.run([bench.tool("hadolint"), "--failure-threshold", "info", folder / "Dockerfile"])
    engine = find_engine(bench)
    tag = f"mimir-test/release:{version()}"
    bench.run([*engine, "build", "--network=none", "--tag", tag, folder])
    try:
        shown = bench.run([*engine, "run", "--rm", "--network=none", tag, "--version"])
        expect(f"mimir {version()}" in shown, f"version {version()}", shown)
        # As the owner of the workspace, whose number the image does not know.
        user, work = f"{os.getuid()}:{os.getgid()}", f"{bench.workspace}:/workspace"
        command = [*engine, "run", "--rm", "--interactive", "--network=none", "--user", user, "--volume", work, tag]
        bench.check_calls(command)
        # Without arguments it serves MCP.
        bench.check_mcp(command)
    finally:
        bench.run([*engine, "image", "rm", "--force", tag])


def find_engine(bench: Bench) -> list[str]:
    """The command of an engine that answers."""
    for engine in ("docker", "podman"):
        if shutil.which(engine):
            asked = subprocess.run([engine, "info"], env=bench.environment, capture_output=True, timeout=60)
            if asked.returncode == 0:
                return [engine]
    raise InstallSkipped("the Dockerfile is linted; no container engine answers, so the image is not built")
