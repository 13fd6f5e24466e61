"""The half of the SDK that runs in a component, on stand-ins for the modules that componentize-py makes."""

import subprocess
import sys
import textwrap
import unittest
from pathlib import Path

ROOT = Path(__file__).parents[1]

STAND_INS = '''
import sys, types, enum
from dataclasses import make_dataclass

class Err(Exception):
    def __init__(self, value): self.value = value
class Ok:
    def __init__(self, value): self.value = value

def module(name, **names):
    made = types.ModuleType(name); made.__dict__.update(names); sys.modules[name] = made; return made

def record(name, *fields): return make_dataclass(name, fields)

codes = "InvalidInput InvalidPath NotFound FileNotFound AlreadyExists PermissionDenied ApprovalDenied Timeout Cancelled LimitExceeded Network Execution Unavailable"
wit = dict(
    Manifest=record("Manifest", "name", "version", "description", "license", "homepage", "tools"),
    Definition=record("Definition", "name", "title", "description", "group", "input_schema", "output_schema", "approval", "risk", "hints", "needs"),
    Needs=record("Needs", "files", "hosts", "commands", "secrets", "variables", "tools", "model"),
    FileNeed=record("FileNeed", "path", "access", "reason"), HostNeed=record("HostNeed", "host", "methods", "reason"),
    CommandNeed=record("CommandNeed", "pattern", "reason"), SecretNeed=record("SecretNeed", "name", "host", "header", "reason"),
    Output=record("Output", "content", "structured", "exit_code"), Error=record("Error", "code", "message", "details"),
    Media=record("Media", "mime_type", "data"), Artifact=record("Artifact", "name", "mime_type", "data"),
    Group=enum.Enum("Group", "RUNTIME FS NET BROWSER MEMORY SYSTEM"), Approval=enum.Enum("Approval", "ALLOW ASK DENY"),
    Risk=enum.Enum("Risk", "LOW MEDIUM HIGH CRITICAL"), FileAccess=enum.Enum("FileAccess", "READ READ_WRITE"),
    Hints=enum.Flag("Hints", "READ_ONLY DESTRUCTIVE IDEMPOTENT OPEN_WORLD"),
    **{f"Content_{kind}": record(f"Content_{kind}", "value") for kind in ("Text", "Image", "Audio", "File")},
    **{f"ErrorCode_{code}": record(f"ErrorCode_{code}") for code in codes.split()}, ErrorCode_Other=record("ErrorCode_Other", "value"),
)
# Standard output is the log, inside of a component.
def show(*what): print(*what, file=sys.__stdout__)
module("componentize_py_types", Err=Err, Ok=Ok)
module("wit_world", exports=types.SimpleNamespace(Toolset=object)); module("wit_world.imports")
module("wit_world.imports.mimir_types", **wit)
lines = []
module("wit_world.imports.mimir_log", Level=enum.Enum("Level", "DEBUG INFO WARN ERROR"), write=lambda level, text: lines.append((level.name, text)))
module("wit_world.imports.mimir_progress", report=lambda *given: lines.append(given))
stored = {}
def refuse(key): raise Err(wit["Error"](wit["ErrorCode_LimitExceeded"](), "full", None))
module("wit_world.imports.mimir_storage", get=stored.get, set=stored.__setitem__, delete=refuse, keys=lambda prefix: [k for k in stored if k.startswith(prefix)])

class Handle:
    def __enter__(self): return self
    def __exit__(self, *_): pass
class Fields:
    def __init__(self, entries): self.list = entries
    @classmethod
    def from_list(cls, entries): return cls(entries)
    def entries(self): return self.list
class Stream(Handle):
    def __init__(self): self.parts = [b'{"current": ', b'{"temperature_2m": 21.5}}']
    def blocking_read(self, size):
        if not self.parts: raise Err(record("StreamError_Closed")())
        return self.parts.pop(0)
class Response:
    def status(self): return 200
    def headers(self): return Fields([("Content-Type", b"application/json")])
    def consume(self): return types.SimpleNamespace(stream=Stream)
class Future:
    def subscribe(self):
        made = Handle(); made.block = lambda: None; return made
    def get(self): return Ok(Ok(Response()))
class Request:
    def __init__(self, headers): self.made = {"headers": headers.list}
    def __getattr__(self, name): return lambda value: self.made.__setitem__(name, value)
sent = []
module("wit_world.imports.wasi_http_types", Fields=Fields, OutgoingRequest=Request, Method_Get=record("Method_Get"), Scheme_Https=record("Scheme_Https"))
def handle(request, options): sent.append(request.made); return Future()
module("wit_world.imports.wasi_http_outgoing_handler", handle=handle)
'''


def run(code: str) -> str:
    script = STAND_INS + textwrap.dedent(code)
    made = subprocess.run([sys.executable, "-c", script], cwd=ROOT / "examples/weather", env={"PYTHONPATH": f"{ROOT}:."},
                          capture_output=True, text=True)
    if made.returncode:
        raise AssertionError(made.stderr)
    return made.stdout


class ComponentTest(unittest.TestCase):
    def test_describe_and_call(self):
        out = run('''
            import tool
            from mimir._export import Toolset
            toolset = Toolset()
            manifest = toolset.describe()
            forecast = manifest.tools[0]
            show([made.name for made in manifest.tools], forecast.group.name, forecast.approval.name, forecast.hints, forecast.needs.hosts[0].methods)
            context = types.SimpleNamespace(workspace="/w", request_id="r", session_id="s", conversation_id=None, user=None)
            made = toolset.call("forecast", '{"place": "Rome", "latitude": 1, "longitude": 2}', context)
            show(made.content[0].value, made.structured)
            show(sent[0]["set_path_with_query"], sent[0]["set_authority"], lines[0])
            show(toolset.call("last_forecasts", "", context).structured)
        ''')
        self.assertEqual(out.splitlines(), [
            "['forecast', 'last_forecasts', 'describe_file'] NET ASK Hints.READ_ONLY|OPEN_WORLD ['GET']",
            '21.5 degrees celsius in Rome {"place": "Rome", "celsius": 21.5, "cached": false}',
            "/v1/forecast?latitude=1.0&longitude=2.0&current=temperature_2m api.open-meteo.com (0, 1, 'asking api.open-meteo.com')",
            '{"Rome": "21.5"}',
        ])

    def test_errors_have_codes(self):
        out = run('''
            import mimir
            @mimir.tool
            def fails(how: str) -> str:
                """Fails."""
                if how == "own": raise mimir.Error("my-code", "odd", {"a": 1})
                if how == "file": open("/no/such/file")
                if how == "host": mimir.storage.delete("a")
                if how == "world": mimir.commands.run("ls")
                if how == "exit": raise SystemExit(3)
                print("before", how)
                raise KeyError(how)
            from mimir._export import Toolset
            context = types.SimpleNamespace(workspace="/w", request_id="r", session_id="s", conversation_id=None, user=None)
            for tool, how in [("fails", "own"), ("fails", "file"), ("fails", "host"), ("fails", "world"), ("fails", "exit"), ("fails", "fault"), ("none", "")]:
                try: Toolset().call(tool, '{"how": "%s"}' % how, context)
                except Err as error: show(type(error.value.code).__name__, error.value.message, error.value.details)
            show(lines[-2], lines[-1][0], lines[-1][1].splitlines()[0])
        ''')
        self.assertEqual(out.splitlines(), [
            'ErrorCode_Other odd {"a": 1}',
            "ErrorCode_FileNotFound /no/such/file: No such file or directory None",
            "ErrorCode_LimitExceeded full None",
            "ErrorCode_Unavailable run: the tool declares no such need: Needs().command(PATTERN, WHY) None",
            "ErrorCode_Execution SystemExit: 3 None",
            "ErrorCode_Execution KeyError: 'fault' None",
            "ErrorCode_NotFound no tool `none` in this plugin None",
            "('INFO', 'before fault') ERROR KeyError: 'fault'",
        ])


if __name__ == "__main__":
    unittest.main()
