"""Tests of the SDK itself: `python3 -m unittest discover -s tests`."""

import enum
import importlib
import json
import sys
import tempfile
import unittest
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, TypedDict

sys.path.insert(0, str(Path(__file__).parents[1]))
import mimir  # noqa: E402
from mimir._preload import preload  # noqa: E402
from mimir._streams import LogStream  # noqa: E402
from mimir._tool import TOOLS  # noqa: E402


class Unit(enum.Enum):
    KM = "km"
    MI = "mi"


@dataclass
class Stats:
    """Counts."""

    words: int
    lines: int = 0


class Point(TypedDict):
    x: float
    y: float


@mimir.tool(needs=mimir.Needs().read("docs", "to read"), hints=("read-only",))
def measure(cx: mimir.Context, points: list[Point], unit: Unit = Unit.KM, mode: Literal["a", "b"] = "a",
            note: Annotated[str | None, "A note."] = None, count: Annotated[int, {"minimum": 1}] = 1) -> mimir.Json[Stats]:
    """Measures a
    path.

    Second paragraph.

    Args:
        points: Points of the
            path.
        mode: One of two.
    """
    return mimir.Json(Stats(len(points), count), f"{len(points)} {unit.value} {mode} {note}")


class SdkTest(unittest.TestCase):
    def test_schema_comes_from_type_hints(self):
        made = TOOLS["measure"].definition()
        schema = json.loads(made["input-schema"])
        self.assertEqual(made["description"], "Measures a path.\n\nSecond paragraph.")
        self.assertEqual(schema["required"], ["points"])
        self.assertEqual(schema["properties"]["points"]["description"], "Points of the path.")
        self.assertEqual(schema["properties"]["points"]["items"]["required"], ["x", "y"])
        self.assertEqual(schema["properties"]["unit"], {"enum": ["km", "mi"]})
        self.assertEqual(schema["properties"]["mode"]["default"], "a")
        self.assertEqual(schema["properties"]["count"], {"type": "integer", "minimum": 1, "default": 1})
        self.assertEqual(json.loads(made["output-schema"])["required"], ["words"])
        self.assertEqual(made["approval"], "ask")

    def test_arguments_are_converted(self):
        output = TOOLS["measure"].run('{"points": [{"x": 1, "y": 2}], "unit": "mi", "count": 3.0}', mimir.Context.at("."))
        self.assertEqual(output.texts(), ["1 mi a None"])
        self.assertEqual(output.structured, {"words": 1, "lines": 3})

    def test_errors_name_the_argument(self):
        for arguments, message in [
            ("{}", "points: missing"),
            ('{"points": 1}', "points: expected array, found integer"),
            ('{"points": [{"x": "a", "y": 1}]}', "points[0].x: expected number, found string"),
            ('{"points": [], "extra": 1}', "extra: unknown argument"),
            ('{"points": [], "unit": "yd"}', "unit: expected one of"),
            ("[]", "arguments: expected object"),
            ("{", "arguments: "),
        ]:
            with self.assertRaises(mimir.Error) as caught:
                TOOLS["measure"].run(arguments, mimir.Context.at("."))
            self.assertEqual(caught.exception.code, "invalid-input")
            self.assertIn(message, caught.exception.message)

    def test_faults_of_a_definition_name_the_place(self):
        for bad, message in [
            (lambda x: x, "is not a valid name"),
            (_no_docstring, "_no_docstring() has no docstring"),
            (_no_hint, "`x` has no type hint"),
            (_odd_type, "`x`: the type complex has no JSON Schema"),
            (_returns_number, "the return type int is not supported: return `str`, a dataclass"),
            (_returns_bytes, "the return type bytes is not supported: return `str`, a dataclass"),
            (_returns_odd_fields, "the result: the type bytes has no JSON Schema"),
            (measure, "two tools are called `measure`"),
        ]:
            with self.assertRaises(ValueError) as caught:
                mimir.tool(bad)
            self.assertIn(message, str(caught.exception))

    def test_needs_without_a_reason_show_an_example(self):
        for bad, message in [
            (lambda: mimir.Needs().host("api.example.com"), 'each of these needs has a reason: expected .host("api.example.com", ["GET"], "why")'),
            (lambda: mimir.Needs().read("docs"), "missing a required argument: 'reason'"),
            (lambda: mimir.Needs().tool(), 'expected .tool("read_file")'),
            (lambda: mimir.Needs().host("api.example.com", "GET", "to ask"), 'expected ["GET"]'),
        ]:
            with self.assertRaises(ValueError) as caught:
                bad()
            self.assertIn(message, str(caught.exception))

    def test_storage_is_in_memory_in_tests(self):
        mimir.storage.set("a/2", "two")
        mimir.storage.set("a/1", b"one")
        mimir.storage.set("b", "")
        self.assertEqual(mimir.storage.keys("a/"), ["a/1", "a/2"])
        self.assertEqual((mimir.storage.get("a/2"), mimir.storage.get("b"), mimir.storage.get("c")), (b"two", b"", None))
        mimir.storage.delete("a/2")
        mimir.storage.delete("a/2")
        self.assertEqual(mimir.storage.keys(), ["a/1", "b"])

    def test_host_is_unavailable_in_tests(self):
        for run in (lambda: mimir.commands.run("ls"), lambda: mimir.tools.call("a"),
                    lambda: mimir.model.complete("a"), lambda: mimir.fetch("https://example.com")):
            with self.assertRaises(mimir.Error) as caught:
                run()
            self.assertEqual(caught.exception.code, "unavailable")

    def test_exceptions_get_codes(self):
        try:
            open("/no/such/file")
        except OSError as error:
            made = mimir.Error.of(error)
        self.assertEqual((made.code, made.message), ("file-not-found", "/no/such/file: No such file or directory"))
        self.assertEqual(mimir.Error.of(KeyError("x")).code, "execution")


    def test_modules_that_functions_import_are_imported_early(self):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "lazy_tool.py").write_text("def run():\n    import colorsys\n    from lazy_part import there\n    import no_such_module\n")
            Path(folder, "lazy_part.py").write_text("def there():\n    import sndhdr_or_not\n    import rlcompleter\n")
            sys.path.insert(0, folder)
            self.addCleanup(sys.path.remove, folder)
            for name in ("colorsys", "rlcompleter"):
                sys.modules.pop(name, None)
            importlib.import_module("lazy_tool")
            preload("lazy_tool")
        self.assertLessEqual({"colorsys", "lazy_part", "rlcompleter"}, set(sys.modules))

    def test_lines_of_output_are_logged_when_they_end(self):
        lines: list[str] = []
        stream = LogStream(lines.append)
        print("one\ntwo", end="", file=stream)
        self.assertEqual(lines, ["one"])
        stream.end()
        stream.end()
        self.assertEqual(lines, ["one", "two"])


def _no_docstring(x: int) -> str:
    return ""


def _no_hint(x) -> str:
    """Says."""


def _odd_type(x: complex) -> str:
    """Says."""


def _returns_number(x: int) -> int:
    """Says."""


def _returns_bytes() -> bytes:
    """Says."""


def _returns_odd_fields() -> dict[str, bytes]:
    """Says."""


if __name__ == "__main__":
    unittest.main()
