"""A registry of npm on loopback, with the packages of a folder: npm then chooses the platform as it does for people."""

import base64
import contextlib
import hashlib
import json
import tarfile
import threading
import urllib.parse
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


@contextlib.contextmanager
def serve_packages(folder: Path) -> Iterator[str]:
    """Yields the address of the registry."""
    packages = {manifest["name"]: (manifest, path) for path in folder.glob("*.tgz") for manifest in [read_manifest(path)]}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = urllib.parse.unquote(self.path.lstrip("/"))
            files = {f"files/{path.name}": path for _, path in packages.values()}
            if name in files:
                self.answer(200, files[name].read_bytes())
            elif name in packages:
                self.answer(200, json.dumps(describe(*packages[name], address)).encode())
            else:
                self.answer(404, b'{"error": "not found"}')

        def answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    address = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield address
    finally:
        server.shutdown()


def read_manifest(path: Path) -> dict:
    with tarfile.open(path) as packed:
        member = packed.extractfile("package/package.json")
        assert member is not None, path
        return json.load(member)


def describe(manifest: dict, path: Path, address: str) -> dict:
    """The document of a package with one version."""
    digest = base64.b64encode(hashlib.sha512(path.read_bytes()).digest()).decode()
    dist = {"tarball": f"{address}/files/{path.name}", "integrity": f"sha512-{digest}"}
    version = manifest["version"]
    return {
        "name": manifest["name"],
        "dist-tags": {"latest": version},
        "versions": {version: {**manifest, "dist": dist}},
    }
