"""The mimir API for Python programs: `context` for a tool, and `call`, `execute`, `fetch` for any program.

Files are accessed with Python's own functions; `platform.fs` offers them under the names used in TypeScript scripts.
"""

import base64 as _base64
import json as _json
import sys as _sys
from types import SimpleNamespace as _Names

import _bashkit


class HostError(Exception):
    """A request that the host refused, or that failed there."""

    def __init__(self, told):
        super().__init__(told.get("message", ""))
        self.code = told.get("code")
        self.details = told.get("details")


def _ask(kind, **fields):
    wish = _json.dumps({"kind": kind, **fields}).encode("utf-8", "replace")
    try:
        _, _, answer = _bashkit.http("mimir", "", [], wish, None)
    except ValueError as error:
        raise HostError(_json.loads(str(error))) from None
    return _json.loads(answer)


class Result(dict):
    """A dict whose keys are attributes, too."""

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


def execute(command, args=None, cwd=None, timeout=None, env=None, stdin=None):
    """Runs a program of the machine, after the policy checks. `timeout` is in milliseconds, as in scripts."""
    if isinstance(command, dict):
        return execute(**command)
    return Result(
        _ask(
            "execute",
            command=str(command),
            args=[str(arg) for arg in args or []],
            cwd=cwd,
            timeout=timeout,
            env=[[name, str(value)] for name, value in (env or {}).items()],
            stdin=stdin,
        )
    )


class Response:
    """The response to a request."""

    def __init__(self, answer):
        self.status = answer["status"]
        self.ok = 200 <= self.status < 300
        self.headers = {name.lower(): value for name, value in answer["headers"]}
        self.url = answer["url"]
        text = answer.get("text")
        self.content = text.encode() if text is not None else _base64.b64decode(answer.get("base64", ""))

    @property
    def text(self):
        return self.content.decode("utf-8", "replace")

    def json(self):
        return _json.loads(self.content)


def fetch(url, method="GET", headers=None, body=None, json=None):
    """Sends a request, after the policy checks."""
    headers = dict(headers or {})
    if json is not None:
        body = _json.dumps(json)
        headers.setdefault("content-type", "application/json")
    if isinstance(body, bytes):
        data = {"base64": _base64.b64encode(body).decode()}
    else:
        data = {"text": body}
    return Response(_ask("fetch", url=url, method=method.upper(), headers=list(headers.items()), **data))


def call(name, args=None):
    """Calls another tool, after the policy checks."""
    return Result(_ask("call", name=name, args=args or {}))


class _Storage:
    """Stores JSON values between calls of the tool, by name."""

    def get(self, key, default=None):
        return _ask("keep", how="get", key=str(key)).get("value", default)

    def set(self, key, value):
        _ask("keep", how="set", key=str(key), value=value)

    def delete(self, key):
        _ask("keep", how="delete", key=str(key))

    def keys(self, prefix=""):
        return _ask("keep", how="keys", prefix=str(prefix))


storage = _Storage()


def complete(prompt, max_tokens=None):
    """Returns the language model's completion of a text, after the policy checks."""
    return _ask("complete", prompt=str(prompt), most=max_tokens)


def _log(level):
    return lambda *values: _ask("log", level=level, message=" ".join(map(str, values))) and None


logger = _Names(**{level: _log(level) for level in ("debug", "info", "warn", "warning", "error")})


def report(done, total=None, message=None):
    """Reports progress."""
    _ask("progress", done=int(done), total=None if total is None else int(total), message=message)


def _here(path):
    # Relative to the root of the workspace, however it is written.
    return "/workspace/" + str(path).lstrip("/")


def _read(path, encoding="utf-8"):
    with open(_here(path), "rb") as file:
        content = file.read()
    if encoding is None:
        return content
    if encoding == "base64":
        return _base64.b64encode(content).decode()
    return content.decode(encoding)


def _write(path, content):
    import os

    path = _here(path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(content if isinstance(content, bytes) else str(content).encode())


def _stat(path):
    import os

    found = os.stat(_here(path))
    folder = os.path.isdir(_here(path))
    return Result(type="directory" if folder else "file", size=found.st_size, modified=found.st_mtime)


def _glob(pattern):
    import glob

    return sorted(glob.glob(pattern, root_dir="/workspace", recursive=True))


def _remove(path, recursive=False):
    import os
    import shutil

    path = _here(path)
    if not os.path.isdir(path):
        os.remove(path)
    elif recursive:
        shutil.rmtree(path)
    else:
        os.rmdir(path)


def _exists(path):
    import os

    return os.path.exists(_here(path))


def _list(path="."):
    import os

    return sorted(os.listdir(_here(path)))


_fs = _Names(
    readFile=_read,
    read_file=_read,
    writeFile=_write,
    write_file=_write,
    exists=_exists,
    list=_list,
    glob=_glob,
    stat=_stat,
    remove=_remove,
)


def _context(given):
    http = _Names(fetch=fetch, get=lambda url, **more: fetch(url, **more))
    for method in ("post", "put", "patch", "delete"):
        setattr(http, method, lambda url, body=None, method=method, **more: fetch(url, method, body=body, **more))
    return _Names(
        platform=_Names(fs=_fs, executor=_Names(execute=execute), http=http),
        fetch=fetch,
        logger=logger,
        progress=_Names(report=report),
        tools=_Names(call=call),
        storage=storage,
        llm=_Names(complete=complete),
        config=Result(given["config"]),
        conversation=Result(given["conversation"]),
    )


def run(path, place, first):
    """Runs the tool whose code is in a file, as requested by the host."""
    import traceback

    with open("/input.json", encoding="utf-8") as file:
        given = _json.load(file)
    with open(path, encoding="utf-8") as file:
        source = file.read()
    told = {}
    try:
        import linecache

        lines = [""] * (first - 1) + source.splitlines()
        linecache.cache[place] = (len(source), None, [line + "\n" for line in lines], place)
        # Keeps line numbers in the code equal to those of its file.
        code = compile("\n" * (first - 1) + source, place, "exec", dont_inherit=True)
        names = {"__name__": "tool", "__file__": place}
        exec(code, names)
        function = names.get("execute")
        if not callable(function):
            raise TypeError("the code has no function `execute(args, context)`")
        value = function(given["args"], _context(given["context"]))
        if hasattr(value, "__await__"):
            import asyncio

            async def whole():
                return await value

            value = asyncio.run(whole())
        if value is None:
            value = ""
        told["text"] = value if isinstance(value, str) else _json.dumps(value, ensure_ascii=False)
        told["text"] = told["text"].encode("utf-8", "replace").decode()
    except SyntaxError as error:
        if error.filename != place:
            raise
        told["syntax"] = {"message": error.msg, "line": error.lineno}
    except BaseException as error:
        name = type(error).__name__
        said = str(error)
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == place]
        told["error"] = {
            "message": said if name in ("Exception", "HostError") and said else f"{name}: {said}" if said else name,
            "code": getattr(error, "code", None) if isinstance(error, HostError) else None,
            "stack": [f"{frame.name} ({place}:{frame.lineno})" for frame in reversed(frames)][:20],
        }
    _sys.stdout.flush()
    _ask("result", value=told)


def serve():
    """Runs the code of one session, each part when the host provides it, with the names defined by earlier parts."""
    import io
    import linecache
    import os
    import types

    module = types.ModuleType("__main__")
    _sys.modules["__main__"] = module
    done, count = None, 0
    while True:
        try:
            job = _ask("next", done=done)
        except HostError:
            return
        count += 1
        if count == 1:
            # The code of a session may import modules of the workspace; the session itself has loaded its own by now.
            _sys.path.append("")
        place = f"main.py, run {count}"
        code = job["code"]
        linecache.cache[place] = (len(code), None, [line + "\n" for line in code.split("\n")], place)
        _sys.argv = ["main.py", *job["args"]]
        # Changes to `os.environ` by a run persist; variables set for a call apply to that call only.
        before = {name: os.environ.get(name) for name, _ in job["env"]}
        os.environ.update(dict(job["env"]))
        _sys.stdin = io.TextIOWrapper(io.BytesIO(job["stdin"].encode("utf-8", "surrogateescape")), encoding="utf-8")
        try:
            os.chdir(job["cwd"])
            exec(compile(code, place, "exec", dont_inherit=True), module.__dict__)
            done = 0
        except SystemExit as end:
            done = end.code if isinstance(end.code, int) else 0
            if end.code is not None and not isinstance(end.code, int):
                print(end.code, file=_sys.stderr)
                done = 1
        except BaseException as error:
            trace = error.__traceback__
            while trace is not None and trace.tb_frame.f_code.co_filename != place:
                trace = trace.tb_next
            _sys.__excepthook__(type(error), error.with_traceback(trace), trace)
            done = 1
        for stream in (_sys.stdout, _sys.stderr):
            try:
                stream.flush()
            except Exception:
                done = done or 120
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
