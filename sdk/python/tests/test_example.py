"""The example of the README's features describes itself."""

import json
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).parents[1]


class ExampleTest(unittest.TestCase):
    def test_describe_prints_the_manifest(self):
        made = subprocess.run([sys.executable, "-m", "mimir.describe", "tool"], cwd=ROOT / "examples/weather",
                              env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
        self.assertEqual(made.returncode, 0, made.stderr)
        report = json.loads(made.stdout)
        self.assertEqual([tool["name"] for tool in report["manifest"]["tools"]], ["forecast", "last_forecasts", "describe_file"])
        self.assertTrue(report["storage"])
        self.assertEqual(report["uses"], ["commands", "hosts", "tools"])

    def test_describe_reports_mistakes_with_one_position(self):
        for source, error in [
            ("@mimir.tool\ndef p() -> str:\n    return ''\n", "tool.py:3:2: p() has no docstring, which is"),
            ("mimir.Needs().host('a')\n", "tool.py:3:1: Needs.host: missing a required argument: 'methods'; each of these needs"),
            ("mimir.storage.get('a')\n", "tool.py:3:1: get: available only inside a component"),
            ("int('a')\n", "tool.py:3:1: ValueError: invalid literal"),
            ("x = (1,\n", "tool.py:3:5: SyntaxError: '(' was never closed\""),
        ]:
            if sys.version_info < (3, 11) and "SyntaxError" not in error:
                # Python 3.10 knows the line only.
                error = re.sub(r"^(tool\.py:3):\d+", r"\1", error)
            with tempfile.TemporaryDirectory() as folder:
                Path(folder, "tool.py").write_text(f"import mimir\n\n{source}")
                made = subprocess.run([sys.executable, "-m", "mimir.describe", "tool"], cwd=folder,
                                      env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
            self.assertTrue(made.stdout.startswith('{"error": "' + error), made.stdout)


    def test_describe_lists_what_the_code_uses(self):
        for source, uses in [
            ("import mimir", []),
            ("import mimir\nf = mimir.fetch", ["hosts"]),
            ("import mimir as m\nf = lambda: m.commands.run('ls')", ["commands"]),
            ("import mimir\nfrom mimir import tools, model as x", ["model", "tools"]),
            ("import mimir\nfrom mimir.commands import run", ["commands"]),
            ("import mimir\nimport mimir.tools as other", ["tools"]),
            ("import mimir\nclass A: fetch = 1\nA.fetch", []),
        ]:
            tool = "@mimir.tool\ndef p() -> str:\n    'x'\n    return ''\n".replace("mimir", "m" if " as m\n" in source else "mimir")
            with tempfile.TemporaryDirectory() as folder:
                Path(folder, "tool.py").write_text(f"{source}\n{tool}")
                made = subprocess.run([sys.executable, "-m", "mimir.describe", "tool"], cwd=folder,
                                      env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
            self.assertEqual(json.loads(made.stdout)["uses"], uses, source)


if __name__ == "__main__":
    unittest.main()
