"""The wheel: pip and uvx, without a registry."""

import sys

from mimir_release.project import PYPI_NAME

from .kit import Bench, expect


def test_wheel(bench: Bench) -> None:
    wheel = bench.file(f"{PYPI_NAME.replace('-', '_')}-*-py3-none-{bench.target.wheel}.whl")
    bench.run([bench.tool("twine"), "check", "--strict", wheel])
    # W007: it has no module, since the program is all of it.
    bench.run([bench.tool("check-wheel-contents"), "--ignore", "W007", wheel])
    venv = bench.folder / "venv"
    bench.run([sys.executable, "-m", "venv", venv])
    scripts = venv / ("Scripts" if sys.platform == "win32" else "bin")
    bench.run([scripts / "pip", "install", "--disable-pip-version-check", "--no-index", wheel])
    bench.check_program(scripts / bench.target.program)
    bench.check_calls([scripts / bench.target.program])
    shown = bench.run([scripts / "pip", "check"])
    expect("No broken requirements" in shown, "pip check passes", shown)
    bench.check_calls([bench.tool("uvx"), "--quiet", "--offline", "--from", wheel, "mimir"])
    bench.run([scripts / "pip", "uninstall", "--yes", PYPI_NAME])
    expect(not (scripts / bench.target.program).exists(), "pip uninstall removes the program")
