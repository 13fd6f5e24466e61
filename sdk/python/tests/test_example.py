"""The example of the README's features describes itself."""

import json
import subprocess
import sys
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


if __name__ == "__main__":
    unittest.main()
