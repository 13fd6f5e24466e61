"""The Python wheel. maturin would compile the program again; this one packs the file that all packages have."""

import base64
import hashlib
from pathlib import Path

from .archives import Entry, write_zip
from .documents import readme
from .project import AUTHOR, MCP_NAME, PYPI_NAME, SUMMARY, licence, python_version
from .release_input import ReleaseInput


def make_wheel(given: ReleaseInput) -> Path:
    """Writes the wheel: the program as a script, and the metadata."""
    version = python_version(given.version)
    name = f"{PYPI_NAME.replace('-', '_')}-{version}"
    info = f"{name}.dist-info"
    files = {f"{name}.data/scripts/{given.target.program}": given.program_entry}
    for licence_name, text in given.documents.licences.items():
        files[f"{info}/licenses/{licence_name}"] = Entry(text)
    files[f"{info}/METADATA"] = Entry(metadata(version, list(given.documents.licences)).encode())
    files[f"{info}/WHEEL"] = Entry(wheel_file(given.target.wheel).encode())
    files[f"{info}/RECORD"] = Entry(record(files, info).encode())
    path = given.out / f"{name}-py3-none-{given.target.wheel}.whl"
    write_zip(path, files, is_sorted=False)
    return path


def metadata(version: str, licence_files: list[str]) -> str:
    """METADATA, in version 2.4 of its format, which has licence expressions."""
    head = [
        "Metadata-Version: 2.4",
        f"Name: {PYPI_NAME}",
        f"Version: {version}",
        f"Summary: {SUMMARY}",
        f"Author: {AUTHOR}",
        f"License-Expression: {licence()}",
        *(f"License-File: {name}" for name in licence_files),
        "Keywords: mcp,agent,tools,sandbox,webassembly,wasm",
        "Classifier: Environment :: Console",
        "Classifier: Intended Audience :: Developers",
        "Classifier: Programming Language :: Rust",
        "Classifier: Topic :: Software Development",
        "Requires-Python: >=3.8",
        "Description-Content-Type: text/markdown; charset=UTF-8; variant=GFM",
    ]
    # The MCP registry looks for this comment to see that the package belongs to the server of that name.
    return "\n".join(head) + f"\n\n{readme().decode()}\n<!-- mcp-name: {MCP_NAME} -->\n"


def wheel_file(platforms: str) -> str:
    """WHEEL, with a tag for each platform."""
    tags = "".join(f"Tag: py3-none-{platform}\n" for platform in platforms.split("."))
    return f"Wheel-Version: 1.0\nGenerator: mimir-release\nRoot-Is-Purelib: false\n{tags}"


def record(files: dict[str, Entry], info: str) -> str:
    """RECORD, with the hash and size of every file but itself."""
    lines = []
    for name, entry in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(entry.data).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(entry.data)}")
    return "\n".join([*lines, f"{info}/RECORD,,"]) + "\n"
