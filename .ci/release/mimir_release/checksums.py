"""SHA256SUMS of a release, as `sha256sum --check` reads it."""

from pathlib import Path

from .archives import sha256

NAME = "SHA256SUMS"


def write_checksums(out: Path) -> Path:
    """Writes the checksum of every file at the top of the folder."""
    files = sorted(path for path in out.iterdir() if path.is_file() and path.name != NAME)
    path = out / NAME
    path.write_text("".join(f"{sha256(file)}  {file.name}\n" for file in files))
    return path
