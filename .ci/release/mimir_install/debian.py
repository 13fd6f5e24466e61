"""The Debian package: lintian, unpacking, and installing it if this is root on Debian."""

import os
import shutil

from mimir_release.project import debian_version, version

from .kit import Bench, InstallSkipped, expect


def test_debian(bench: Bench) -> None:
    if not shutil.which("dpkg"):
        raise InstallSkipped("this machine has no dpkg")
    package = bench.file(f"mimir_{debian_version(version())}_{bench.target.debian}.deb")
    if shutil.which("lintian"):
        bench.run(["lintian", "--allow-root", "--fail-on", "error,warning", package])
    root = bench.folder / "root"
    bench.run(["dpkg-deb", "--extract", package, root])
    bench.check_program(root / "usr/bin/mimir")
    bench.check_calls([root / "usr/bin/mimir"])
    names = [
        "share/man/man1/mimir.1.gz", "share/bash-completion/completions/mimir", "share/zsh/vendor-completions/_mimir",
        "share/fish/vendor_completions.d/mimir.fish", "share/doc/mimir/copyright", "share/doc/mimir/changelog.Debian.gz",
    ]  # fmt: skip
    for name in names:
        expect((root / "usr" / name).stat().st_size > 0, name)
    if os.geteuid() == 0 and not shutil.which("mimir"):
        bench.run(["dpkg", "--install", package])
        try:
            bench.check_calls(["mimir"])
        finally:
            bench.run(["dpkg", "--purge", "mimir"])
        expect(not shutil.which("mimir"), "dpkg --purge removes the program")
