"""Archives that depend on their content only: sorted names, one time, no owner."""

import gzip
import hashlib
import io
import tarfile
import time
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .project import epoch


@dataclass(frozen=True)
class Entry:
    """A file of an archive: its bytes and permissions."""

    data: bytes
    mode: int = 0o644


def write_tar(file: io.RawIOBase | io.BufferedIOBase, entries: Mapping[str, Entry], folders: Mapping[str, int] = {}) -> None:
    """Writes a tar. `folders` are empty folders with their permissions."""
    with tarfile.open(fileobj=file, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name in sorted([*entries, *folders]):
            item = tarfile.TarInfo(name)
            item.mtime = epoch()
            if name in folders:
                item.type, item.mode = tarfile.DIRTYPE, folders[name]
                tar.addfile(item)
            else:
                item.size, item.mode = len(entries[name].data), entries[name].mode
                tar.addfile(item, io.BytesIO(entries[name].data))


def write_tar_gz(path: Path, entries: Mapping[str, Entry]) -> None:
    with path.open("wb") as file, gzip.GzipFile("", "wb", 6, file, mtime=epoch()) as packed:
        write_tar(packed, entries)


def write_zip(path: Path, entries: Mapping[str, Entry], is_sorted: bool = True) -> None:
    """Writes a zip with the permissions of Unix. The order matters in a wheel, whose RECORD is last."""
    # The oldest time of zip is 1980.
    moment = time.gmtime(max(epoch(), 315532800))[:6]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as packed:
        for name in sorted(entries) if is_sorted else entries:
            item = zipfile.ZipInfo(name, moment)
            item.compress_type = zipfile.ZIP_DEFLATED
            item.create_system = 3
            item.external_attr = (0o100000 | entries[name].mode) << 16
            packed.writestr(item, entries[name].data)


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
