"""Checks that a file is a program for a target, before packages are made of it."""

import struct
from pathlib import Path

from .project import ReleaseError
from .targets import Target

ELF_MACHINES = {0x3E: "x86_64", 0xB7: "aarch64"}
PROGRAM_INTERPRETER = 3


def check_program(path: Path, target: Target) -> None:
    """Fails if the file is a program for another system, or needs a libc that the target promises not to need."""
    if not path.is_file():
        raise ReleaseError(f"{path}: no such file; build it first: .ci/release/build {target.triple} OUT")
    with path.open("rb") as file:
        head = file.read(64 * 1024)
    found = describe(head)
    expected = target.triple.split("-")[0], {"linux": "linux", "win32": "windows", "darwin": "macos"}[target.npm[0]]
    if found[:2] != expected:
        raise ReleaseError(f"{path} is a program for {'-'.join(found[:2])}, and not for {target.triple}")
    if target.triple.endswith("-musl") and not found[2]:
        raise ReleaseError(
            f"{path} is linked dynamically; packages for {target.triple} need a static program: "
            f".ci/release/build {target.triple} OUT"
        )


def describe(head: bytes) -> tuple[str, str, bool]:
    """Architecture, system, and True if no dynamic loader is needed."""
    if head[:6] == b"\x7fELF\x02\x01":
        machine = struct.unpack_from("<H", head, 18)[0]
        offset, size, count = (*struct.unpack_from("<Q", head, 32), *struct.unpack_from("<HH", head, 54))
        kinds = [struct.unpack_from("<I", head, offset + size * at)[0] for at in range(count)]
        return ELF_MACHINES.get(machine, f"machine {machine:#x}"), "linux", PROGRAM_INTERPRETER not in kinds
    if head[:2] == b"MZ" and len(head) > 64:
        header = struct.unpack_from("<I", head, 60)[0]
        machine = struct.unpack_from("<H", head, header + 4)[0]
        return {0x8664: "x86_64", 0xAA64: "aarch64"}.get(machine, f"machine {machine:#x}"), "windows", True
    if head[:4] == b"\xcf\xfa\xed\xfe":
        machine = struct.unpack_from("<I", head, 4)[0]
        return {0x0100000C: "aarch64", 0x01000007: "x86_64"}.get(machine, f"machine {machine:#x}"), "macos", True
    return "an unknown architecture", "an unknown system", False
