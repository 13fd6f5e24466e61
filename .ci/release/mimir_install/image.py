"""The container image: its Dockerfile is linted, and it is built and run if an engine answers."""

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
        work = f"{bench.workspace}:/workspace"
        base = [*engine, "run", "--rm", "--interactive", "--network=none", "--volume", work]
        bench.check_calls([*base, tag])
        # As the user of the folder, whose number is not known in the image.
        bench.check_calls([*base, "--user", "12345:12345", tag])
        bench.check_mcp([*base, tag])
        bench.check_mcp([*base, tag, "serve"])
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
