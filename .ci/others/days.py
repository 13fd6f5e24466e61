"""Three scripted days of work with the real Claude Code, the real Codex and a local scripted model: fixing a bug in a
repository with tests, reading ten pages of two listed hosts, and installing a package and requesting its server. Each
question to the user is answered as a user would and counted: those of mimir and those of the agent."""
import base64, contextlib, functools, hashlib, http.server, io, json, os, pathlib, re, ssl, subprocess, sys, tarfile, threading

from kit import MODULES, NODE, Workspace, expect, run
from model import Model

HOME = pathlib.Path.home()
QUIET = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1", "DO_NOT_TRACK": "1", "TERM": "dumb",
    "HTTPS_PROXY": "http://127.0.0.1:9", "HTTP_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1,localhost",
    # Programs of the day come from the machine.
    "PATH": os.pathsep.join(one for one in os.environ["PATH"].split(os.pathsep) if "node_modules" not in one),
}

# Claude Code shows questions on its screen; without a screen, a hook answers.
HOOK = """
import json, sys
asked = json.load(sys.stdin)
with open(sys.argv[1], "a") as log:
    log.write(json.dumps(asked["message"]) + "\\n")
answer = "session" if "session" in json.dumps(asked["requested_schema"]) else "once"
said = {"hookEventName": "Elicitation", "action": "accept", "content": {"answer": answer}}
print(json.dumps({"hookSpecificOutput": said}))
"""


class Claude:
    """`claude -p`, with mimir by the command of `mimir mcp config`."""

    program = MODULES / "@anthropic-ai/claude-code/bin/claude.exe"

    def work(self, folder, model):
        """Runs the work; returns the questions of mimir and those of the agent."""
        own = folder.json("mcp", "config", "claude")
        log = HOME / f"{folder.folder.name}.questions"
        hook = HOME / "hook.py"
        hook.write_text(HOOK)
        answers = f"'{sys.executable}' '{hook}' '{log}'"
        settings = json.loads(own["askOnce"]["text"])
        settings["hooks"] = {"Elicitation": [{"hooks": [{"type": "command", "command": answers}]}]}
        place = HOME / ".claude/settings.json"
        place.parent.mkdir(exist_ok=True)
        place.write_text(json.dumps(settings))
        there = {**os.environ, **QUIET, "ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": "none",
                 "PWD": str(folder.folder)}
        run(self.program, *own["command"].split()[1:], cwd=folder.folder, env=there)
        said = json.loads(run(self.program, "-p", "Go on.", "--output-format", "json", cwd=folder.folder, env=there))
        denied = [json.dumps(one) for one in said["permission_denials"]]
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else [], denied


class Codex:
    """`codex app-server`, which is how editors show its questions, with mimir by the lines of `mimir mcp config`."""

    def work(self, folder, model):
        own = folder.json("mcp", "config", "codex")
        place = HOME / ".codex/config.toml"
        place.parent.mkdir(exist_ok=True)
        place.write_text(
            f'model = "scripted"\nmodel_provider = "scripted"\n[analytics]\nenabled = false\n'
            f'[model_providers.scripted]\nname = "scripted"\nbase_url = "{model.url}/v1"\nwire_api = "responses"\n'
            f'env_key = "SCRIPTED_KEY"\n{own["text"]}\n{own["askOnce"]["text"]}\n')
        there = {**os.environ, **QUIET, "SCRIPTED_KEY": "none", "PWD": str(folder.folder)}
        server = subprocess.Popen([NODE, MODULES / "@openai/codex/bin/codex.js", "app-server"], cwd=folder.folder, env=there,
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        late = threading.Timer(300, server.kill)
        late.start()
        try:
            return self.talk(server, folder)
        finally:
            late.cancel()
            server.stdin.close()
            server.kill()
            server.wait()

    def talk(self, server, folder):
        asked, others = [], []

        def send(**message):
            server.stdin.write(json.dumps(message) + "\n")
            server.stdin.flush()

        def until(is_it):
            for line in server.stdout:
                message = json.loads(line)
                if "id" in message and "method" in message:
                    send(id=message["id"], result=self.answer(message, asked, others))
                elif is_it(message):
                    return message
            expect(False, "Codex goes on", asked, others)

        def request(id, method, **params):
            send(id=id, method=method, params=params)
            return until(lambda message: message.get("id") == id)

        request(1, "initialize", clientInfo={"name": "days", "title": "days", "version": "1"})
        send(method="initialized")
        thread = request(2, "thread/start", cwd=str(folder.folder))["result"]["thread"]["id"]
        request(3, "turn/start", threadId=thread, input=[{"type": "text", "text": "Go on."}])
        until(lambda message: message.get("method") == "turn/completed")
        return asked, others

    def answer(self, message, asked, others):
        form = message["params"].get("requestedSchema") or {}
        offered = (form.get("properties") or {}).get("answer")
        if offered is None:
            # Codex's own questions, of any method.
            others.append(json.dumps(message))
            return {"action": "accept", "content": {}, "decision": "accept"}
        asked.append(message["params"]["message"])
        answer = "session" if "session" in offered["enum"] else "once"
        return {"action": "accept", "content": {"answer": answer}}


class Pages(http.server.BaseHTTPRequestHandler):
    """Answers with the content of a path and records the request."""

    protocol_version = "HTTP/1.1"

    def __init__(self, files, seen, *more):
        self.files, self.seen = files, seen
        super().__init__(*more)

    def do_GET(self):
        path = self.path.split("?")[0]
        self.seen.append((self.command, self.headers["host"], path))
        kind, body = self.files.get(path, ("text/plain", b"there is nothing here"))
        self.send_response(200 if path in self.files else 404)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        self.rfile.read(int(self.headers.get("content-length") or 0))
        self.do_GET()

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def site(files, certificate=None):
    """Serves these files on a loopback port; returns the port and the recorded requests."""
    seen = []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Pages, files, seen))
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1], seen
    finally:
        server.shutdown()
        server.server_close()


def folder(agent, day, settings=None):
    return Workspace(f"{day}-{type(agent).__name__.lower()}", settings, tools=False)


def went_well(agent, day, model, asked, others, most):
    """Checks that nothing failed, and that there were at most so many questions."""
    name = f"{type(agent).__name__} on the day `{day}`"
    results = model.results()
    expect(model.at == len(model.steps), f"{name}: all steps are taken", model.at, model.names(), *results[-3:])
    expect(not others, f"{name}: the agent itself asks nothing", *others)
    expect(len(asked) <= most, f"{name}: at most {most} questions, not {len(asked)}", *asked)
    first = [" ".join(one.split("source:")[0].replace("│", " ").split())[:100] for one in asked]
    print(f"days: {type(agent).__name__.lower()}: {day}: {len(results)} calls, {len(asked)} questions of {most}: {first}")
    return results


def fix(agent):
    """Fixes a bug in a repository that tracks a `.env`, with unreadable folders."""
    work = folder(agent, "fix")
    git = functools.partial(run, "git", cwd=work.folder)
    for path, text in {
        "prices.py": "def total(prices):\n    return sum(prices[1:])\n",
        "test_prices.py": "import unittest\nfrom prices import total\n\nclass Total(unittest.TestCase):\n"
                          "    def test_total(self):\n        self.assertEqual(total([1, 2, 3]), 6)\n",
        ".env": "API_KEY=quite-a-secret-of-the-team\n",
        ".gitignore": "node_modules/\ntarget/\n__pycache__/\n",
        "node_modules/left/index.js": "module.exports = total => total\n",
        "target/debug/total.d": "total\n",
        ".cache/left/total": "total\n",
    }.items():
        (work.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (work.folder / path).write_text(text)
    (HOME / ".gitconfig").write_text("[user]\n  name = Ada\n  email = ada@example.com\n")
    git("init", "-q", "-b", "main")
    git("add", "-A")
    git("commit", "-q", "-m", "First")
    shell = lambda text: ("exec", {"command": text})
    model = Model(
        shell("git status"), shell("git log --oneline -5"), shell("git diff"),
        ("file_search", {"mode": "grep", "query": "def total", "path": "."}),
        shell("grep -rn total ."), shell("find . -name '*.py'"),
        ("read_file", {"path": "prices.py"}),
        shell("python3 -m unittest"),
        ("edit_file", {"path": "prices.py", "pattern": "prices[1:]", "replacement": "prices"}),
        shell("python3 -m unittest"),
        shell("git diff"), shell("git add -A"), shell("git commit -m 'Add up all prices'"),
        shell("git status --short"), shell("git log --format=%s"))
    results = went_well(agent, "fix", model, *agent.work(work, model), most=3)
    expect("working tree clean" in results[0], "the clone is clean, its .env included", results[0])
    expect(all("exit code" not in results[at] for at in (4, 5)), "what looks through all of it succeeds", results[4], results[5])
    expect("FAILED" in results[7] and "OK" in results[9], "the tests say what is so", results[7], results[9])
    expect("Add up all prices" in results[-1], "the agent sees its commit", results[-1])
    changed = git("show", "--format=%an", "--name-only", "HEAD").split()
    expect(changed == ["Ada", "prices.py"], "one file was committed, by the person", changed)
    expect(git("status", "--short") == "" and "quite-a-secret" in (work.folder / ".env").read_text(), "and all is as it was")
    expect(not any("quite-a-secret" in result for result in results), "no secret was read")


def read(agent):
    """Reads ten pages of two listed hosts and writes a summary."""
    page = lambda at: f"<html><title>Page {at}</title><p>Fact {at}. <a href='/page/{at + 1}?from=here'>Next</a></p></html>"
    with site({f"/page/{at}": ("text/html", page(at).encode()) for at in range(10)}) as (port, seen):
        hosts = ["docs.test", "news.test"]
        work = folder(agent, "read", {"network": {
            "allowedHosts": [f"{host}:{port}" for host in hosts], "hosts": {host: "127.0.0.1" for host in hosts}}})
        facts = "".join(f"- Fact {at}\n" for at in range(10))
        pages = [("web_fetch", {"url": f"http://{hosts[at % 2]}:{port}/page/{at}"}) for at in range(10)]
        model = Model(*pages, ("write_file", {"path": "summary.md", "content": facts}))
        results = went_well(agent, "read", model, *agent.work(work, model), most=1)
    expect(all(f"Fact {at}" in results[at] and "[untrusted" in results[at] for at in range(10)), "ten pages, marked", *results)
    expect(len(seen) == 10, "each was fetched once", seen)
    expect((work.folder / "summary.md").read_text() == facts, "the summary is there")


def package(port):
    """Returns the files of a registry with one small package."""
    texts = {"package.json": json.dumps({"name": "small-words", "version": "1.0.0", "main": "index.js"}),
             "index.js": "module.exports = () => 'hello from a package'\n"}
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, text in texts.items():
            entry = tarfile.TarInfo(f"package/{name}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    digest = base64.b64encode(hashlib.sha512(packed.getvalue()).digest()).decode()
    dist = {"tarball": f"https://registry.test:{port}/small-words/-/small-words-1.0.0.tgz", "integrity": f"sha512-{digest}"}
    version = {**json.loads(texts["package.json"]), "dist": dist}
    document = {"name": "small-words", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}
    return {"/small-words": ("application/json", json.dumps(document).encode()),
            "/small-words/-/small-words-1.0.0.tgz": ("application/octet-stream", packed.getvalue()),
            "/-/npm/v1/security/advisories/bulk": ("application/json", b"{}")}


SERVER = """
const words = require("small-words");
require("http").createServer((_, answer) => answer.end(words())).listen(5173, () => console.log("listening"));
"""


def start(agent):
    """Installs a package from an unlisted registry and requests a page of the server that uses it."""
    certificate = HOME / "registry.pem"
    made = run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=registry.test",
               "-addext", "subjectAltName=DNS:registry.test", "-keyout", "/dev/stdout", "-out", "/dev/stdout")
    certificate.write_text(made)
    public = HOME / "registry.crt"
    public.write_text(re.search(r"-----BEGIN CERTIFICATE-----.*", made, re.S)[0])
    files = {}
    with site(files, certificate) as (port, seen):
        files.update(package(port))
        work = folder(agent, "start", {
            "sandbox": {"networkAccess": True}, "tools": {"exec": {"reveal": [".npmrc"]}},
            "network": {"hosts": {"registry.test": "127.0.0.1"}, "extraRoots": [str(public)]}})
        manifest = {"name": "app", "version": "1.0.0", "scripts": {"dev": "node server.js"}}
        (work.folder / "package.json").write_text(json.dumps(manifest))
        (work.folder / "server.js").write_text(SERVER)
        # npm checks for a newer npm on each run, which would be a second tunnel, after untrusted content.
        settings = f"registry=https://registry.test:{port}/\nupdate-notifier=false\n"
        (work.folder / ".npmrc").write_text(settings)
        model = Model(
            ("exec", {"command": "npm install small-words"}),
            ("exec", {"command": "npm run dev", "background": True, "ports": [5173]}),
            ("exec_output", {"job": 1, "wait": 10}, "listening"),
            ("web_fetch", {"url": "http://localhost:5173/"}),
            ("exec_stop", {"job": 1}))
        results = went_well(agent, "start", model, *agent.work(work, model), most=3)
    expect((work.folder / "node_modules/small-words/index.js").exists(), "the package is there", results[0], seen)
    expect("hello from a package" in results[-2], "the server answers", *results)
    expect('"running":false' in results[-1].replace(" ", ""), "and is stopped", results[-1])


for agent in (Claude(), Codex()):
    for day in (fix, read, start):
        day(agent)
