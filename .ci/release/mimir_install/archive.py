"""The archive: checksums, and the program after unpacking."""

import shutil

from mimir_release.project import version

from .kit import Bench, expect


def test_archive(bench: Bench) -> None:
    for line in (bench.out / "SHA256SUMS").read_text().splitlines():
        expect((bench.out / line.split("  ")[1]).is_file(), f"the file of the line `{line}`")
    if shutil.which("sha256sum"):
        bench.run(["sha256sum", "--quiet", "--check", "SHA256SUMS"], cwd=bench.out)
    top = f"mimir-{version()}-{bench.target.triple}"
    shutil.unpack_archive(bench.file(f"{top}.*"), bench.folder)
    unpacked = bench.folder / top
    for name in ["README.md", "LICENSE-MIT", "LICENSE-APACHE", "THIRD-PARTY-LICENCES"]:
        expect((unpacked / name).stat().st_size > 0, name)
    program = unpacked / bench.target.program
    # Not every unpacker of zip restores permissions.
    program.chmod(0o755)
    bench.check_program(program)
    bench.check_calls([program])
    if bench.target.npm[0] != "win32":
        check_documents(bench, unpacked)


def check_documents(bench: Bench, unpacked) -> None:
    """Completions are read by their shells, and the manual page by man."""
    for shell, name in {"bash": "mimir.bash", "zsh": "_mimir", "fish": "mimir.fish"}.items():
        if shutil.which(shell):
            bench.run([shell, "-n", unpacked / "completions" / name])
    if shutil.which("man"):
        shown = bench.run(["man", "-P", "cat", "-l", unpacked / "man/man1/mimir.1"])
        expect("mimir-call(1)" in shown, "the page of mimir lists its commands", shown)
