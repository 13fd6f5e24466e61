"""The build folder of the container image: a Dockerfile, and the root file system as one archive."""

from pathlib import Path

from .archives import Entry, write_tar
from .project import MCP_NAME, SUMMARY, ReleaseError, licence
from .release_input import ReleaseInput

DOCKERFILE = Path(__file__).resolve().parents[1] / "image/Dockerfile"
# Certificates of the package `ca-certificates`. The bundle in /etc may have further ones that this machine trusts.
CERTIFICATES = Path("/usr/share/ca-certificates/mozilla")
# Containers run as any user (`--user`), so that these are open to all, as /tmp is.
FOLDERS = {"tmp/": 0o1777, "home/mimir/": 0o1777, "workspace/": 0o1777}


def make_image_folder(given: ReleaseInput) -> Path:
    """Writes the folder for `docker build`."""
    folder = given.out / f"image-{given.target.image.replace('/', '-')}"
    folder.mkdir(exist_ok=True)
    files = {
        "usr/bin/mimir": given.program_entry,
        "etc/ssl/certs/ca-certificates.crt": Entry(certificates()),
        "etc/passwd": Entry(b"mimir:x:65532:65532:mimir:/home/mimir:/usr/bin/mimir\n"),
        "etc/group": Entry(b"mimir:x:65532:\n"),
    }
    for name, text in given.documents.licences.items():
        files[f"usr/share/doc/mimir/{name}"] = Entry(text)
    with (folder / "root.tar").open("wb") as file:
        write_tar(file, files, FOLDERS)
    values = {"VERSION": given.version, "SUMMARY": SUMMARY, "LICENCE": licence(), "MCP_NAME": MCP_NAME}
    text = DOCKERFILE.read_text()
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    (folder / "Dockerfile").write_text(text)
    return folder


def certificates() -> bytes:
    """The authorities that Mozilla trusts, as one file."""
    files = sorted(CERTIFICATES.glob("*.crt"))
    if not files:
        raise ReleaseError(f"{CERTIFICATES} has no certificates: install the package `ca-certificates`")
    return b"".join(path.read_bytes().rstrip() + b"\n" for path in files)
