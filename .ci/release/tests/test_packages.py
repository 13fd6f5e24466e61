"""Tests of the packagers with small programs."""

import base64
import csv
import hashlib
import io
import json
import os
import struct
import sys
import tarfile
import tempfile
import unittest
import zipfile
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from mimir_release.archive_package import make_archive
from mimir_release.debian import debian_version, wrapped
from mimir_release.documents import Documents, read_documents
from mimir_release.licences import linked_crates
from mimir_release.mcpb import make_mcpb
from mimir_release.npm import make_main_package, make_platform_package
from mimir_release.program import check_program
from mimir_release.project import NPM_NAME, ReleaseError, python_version, version
from mimir_release.release_input import ReleaseInput
from mimir_release.server_json import make_server_json, server_json_faults
from mimir_release.targets import TARGETS, find_target
from mimir_release.wheel import make_wheel

LINUX, WINDOWS = "x86_64-unknown-linux-musl", "x86_64-pc-windows-gnu"
COMPLETIONS = {shell: shell.encode() for shell in ("bash", "zsh", "fish", "powershell")}
DOCUMENTS = Documents({"mimir.1": b".TH mimir 1\n"}, COMPLETIONS, b"licences")


def elf(machine: int = 0x3E, segment: int = 1) -> bytes:
    """The head of a program for Linux, with one segment."""
    head = b"\x7fELF\x02\x01".ljust(18, b"\0") + struct.pack("<H", machine)
    head = head.ljust(32, b"\0") + struct.pack("<Q", 64)
    return head.ljust(54, b"\0") + struct.pack("<HH", 56, 1).ljust(10, b"\0") + struct.pack("<I", segment).ljust(56, b"\0")


class PackageTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        changed = mock.patch.dict(os.environ, {"SOURCE_DATE_EPOCH": "1700000000"})
        changed.start()
        self.addCleanup(changed.stop)

    def given(self, triple: str = LINUX) -> ReleaseInput:
        program = self.folder / "program"
        program.write_bytes(elf())
        return ReleaseInput(program, find_target(triple), DOCUMENTS, self.folder)

    def test_wheel_record_covers_every_file(self) -> None:
        path = make_wheel(self.given())
        self.assertTrue(path.name.endswith("-py3-none-manylinux2014_x86_64.musllinux_1_1_x86_64.whl"), path.name)
        with zipfile.ZipFile(path) as wheel:
            names = wheel.namelist()
            self.assertEqual(names[-1], f"{path.name.split('-py3')[0]}.dist-info/RECORD")
            rows = {row[0]: row[1:] for row in csv.reader(io.StringIO(wheel.read(names[-1]).decode()))}
            self.assertEqual(set(rows), set(names))
            for name in names[:-1]:
                digest = base64.urlsafe_b64encode(hashlib.sha256(wheel.read(name)).digest()).rstrip(b"=").decode()
                self.assertEqual(rows[name], [f"sha256={digest}", str(len(wheel.read(name)))])
            self.assertEqual(rows[names[-1]], ["", ""])
            tags = [line for line in wheel.read(names[-2]).decode().splitlines() if line.startswith("Tag: ")]
            self.assertEqual(tags, ["Tag: py3-none-manylinux2014_x86_64", "Tag: py3-none-musllinux_1_1_x86_64"])
            script = wheel.getinfo(names[0])
            self.assertEqual((script.filename.split("/")[1:], script.external_attr >> 16), (["scripts", "mimir"], 0o100755))

    def test_windows_has_exe_and_zip(self) -> None:
        given = self.given(WINDOWS)
        with zipfile.ZipFile(make_wheel(given)) as wheel:
            self.assertIn("mimir.exe", wheel.namelist()[0])
        with zipfile.ZipFile(make_archive(given)) as packed:
            names = [name.split("/", 1)[1] for name in packed.namelist()]
        self.assertIn("mimir.exe", names)
        self.assertIn("completions/mimir.ps1", names)
        self.assertNotIn("man/man1/mimir.1", names)

    def test_packages_are_equal_byte_for_byte(self) -> None:
        given = self.given()
        for maker in (make_archive, make_wheel, make_platform_package, make_main_package, make_mcpb):
            first, second = maker(given).read_bytes(), maker(given).read_bytes()
            self.assertEqual(first, second, maker)

    def test_npm_depends_on_published_platforms(self) -> None:
        given = self.given()
        with tarfile.open(make_main_package(given)) as packed:
            manifest = json.load(packed.extractfile("package/package.json"))
        published = {target.npm_package: version() for target in TARGETS if not target.is_local}
        self.assertEqual(manifest["optionalDependencies"], published)
        with tarfile.open(make_platform_package(given)) as packed:
            manifest = json.load(packed.extractfile("package/package.json"))
            self.assertEqual(packed.getmember("package/bin/mimir").mode, 0o755)
        self.assertEqual((manifest["name"], manifest["os"], manifest["cpu"]), (f"{NPM_NAME}-linux-x64", ["linux"], ["x64"]))

    def test_program_has_to_fit_the_target(self) -> None:
        path = self.folder / "program"
        for data, triple, message in [
            (elf(), "aarch64-unknown-linux-musl", "is a program for x86_64-linux"),
            (elf(0xB7), LINUX, "is a program for aarch64-linux"),
            (elf(segment=3), LINUX, "is linked dynamically"),
            (b"#!/bin/sh\n", LINUX, "an unknown system"),
            (b"MZ", WINDOWS, "an unknown system"),
            (b"", LINUX, "an unknown system"),
        ]:
            path.write_bytes(data)
            with self.subTest(message), self.assertRaisesRegex(ReleaseError, message):
                check_program(path, find_target(triple))
        path.write_bytes(elf())
        check_program(path, find_target(LINUX))
        with self.assertRaisesRegex(ReleaseError, "no such file"):
            check_program(self.folder / "missing", find_target(LINUX))

    def test_missing_documents_name_the_command(self) -> None:
        with self.assertRaisesRegex(ReleaseError, "release/documents PROGRAM"):
            read_documents(self.folder)

    def test_versions_of_prereleases(self) -> None:
        self.assertEqual([python_version(one) for one in ("1.2.0", "1.2.0-rc.1", "1.2.0-alpha2")], ["1.2.0", "1.2.0rc1", "1.2.0a2"])
        self.assertEqual(debian_version("1.2.0-rc.1"), "1.2.0~rc.1-1")
        with self.assertRaisesRegex(ReleaseError, "expected X.Y.Z"):
            python_version("1.2.0-nightly")

    def test_descriptions_have_short_lines(self) -> None:
        lines = wrapped("word " * 60)
        self.assertTrue(len(lines) > 1 and all(line[0] == " " and len(line) < 80 for line in lines), lines)

    def test_server_json_lists_bundles_with_their_digest(self) -> None:
        bundle = make_mcpb(self.given())
        server = json.loads(make_server_json(self.folder, "https://example.com/v1/").read_text())
        self.assertEqual(server_json_faults(server), [])
        last = server["packages"][-1]
        self.assertEqual(last["identifier"], f"https://example.com/v1/{bundle.name}")
        self.assertEqual(last["fileSha256"], hashlib.sha256(bundle.read_bytes()).hexdigest())

    def test_server_json_faults_are_found(self) -> None:
        good = json.loads(make_server_json(self.folder).read_text())
        self.assertEqual(server_json_faults(good), [])
        for change, fault in [
            ({"name": "mimir"}, "`name` is not valid"),
            ({"description": "x" * 101}, "`description` is not valid"),
            ({"version": "^1.0"}, "`version` is not valid"),
            ({"extra": 1}, "unknown key `extra`"),
            ({"packages": [{**good["packages"][0], "version": "latest"}]}, "not an exact version"),
            ({"packages": [{**good["packages"][0], "transport": {}}]}, "`transport`"),
            ({"packages": [{"registryType": "mcpb", "identifier": "x", "transport": {"type": "stdio"}}]}, "`fileSha256`"),
        ]:
            faults = server_json_faults({**good, **change})
            self.assertTrue(any(fault in one for one in faults), (fault, faults))

    def test_build_dependencies_are_not_linked(self) -> None:
        def package(name: str, source: str | None) -> dict:
            return {"id": name, "name": name, "version": "1", "source": source, "manifest_path": f"/w/{name}/Cargo.toml"}

        def edge(name: str, kind: str | None) -> dict:
            return {"pkg": name, "dep_kinds": [{"kind": kind}]}

        nodes = [
            {"id": "mimir-cli", "deps": [edge("core", None), edge("tests", "dev")]},
            {"id": "core", "deps": [edge("serde", None), edge("cc", "build")]},
            *({"id": name, "deps": []} for name in ("serde", "cc", "tests")),
        ]
        packages = [package("mimir-cli", None), package("core", None)]
        packages += [package(name, "registry") for name in ("serde", "cc", "tests")]
        crates = linked_crates({"packages": packages, "resolve": {"nodes": nodes}})
        self.assertEqual([crate["name"] for crate in crates], ["serde"])


if __name__ == "__main__":
    unittest.main()
