"""The example of the README's features describes itself."""

import json
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
        self.assertEqual(report["wasi"], ["os"])

    def test_describe_reports_mistakes_with_one_position(self):
        for source, error in [
            ("@mimir.tool\ndef p() -> str:\n    return ''\n", "tool.py:3: p() has no docstring, which is"),
            ("mimir.Needs().host('a')\n", "tool.py:3: Needs.host: missing a required argument: 'methods'; each of these needs"),
            ("mimir.storage.get('a')\n", "tool.py:3: get: available only inside a component"),
            ("int('a')\n", "tool.py:3: ValueError: invalid literal"),
        ]:
            with tempfile.TemporaryDirectory() as folder:
                Path(folder, "tool.py").write_text(f"import mimir\n\n{source}")
                made = subprocess.run([sys.executable, "-m", "mimir.describe", "tool"], cwd=folder,
                                      env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
            self.assertTrue(json.loads(made.stdout)["error"].startswith(error), made.stdout)


if __name__ == "__main__":
    unittest.main()
