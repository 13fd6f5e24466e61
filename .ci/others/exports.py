"""Exports of a tool, each checked by a program of its ecosystem and used as a person would: installed in an empty folder,
listed, called without rights, granted, and called again."""
import asyncio, contextlib, hashlib, json, os, pathlib, re, shlex, shutil, socket, subprocess, time

import mcp
import oras.client
from oras.layout import Layout

from kit import MODULES, PACKAGES, Workspace, expect, run
from mimir_release.server_json import server_json_faults
from model import Model

# The component can read files, which a person has to grant; `version` in its manifest names the bundle.
TOOLS = """
import { defineTool } from "mimir";

export const wordCount = defineTool({
  description: "Counts the words of a file.",
  inputSchema: { type: "object", properties: { path: { type: "string" } }, required: ["path"] },
  outputSchema: { type: "object", properties: { words: { type: "integer" } }, required: ["words"] },
  needs: { files: ["."] },
  needsApproval: false,
  async execute({ path }, { platform }) {
    const text = await platform.fs.readFile(path);
    return { words: text.split(/\\s+/).filter(Boolean).length };
  },
});
"""
TOOL, ARGUMENTS, COUNT = "word_count", {"path": "note.txt"}, {"words": 4}
URL = "https://example.com/releases/words-1.2.0.mcpb"
SERVER = "com.example/words"

author = Workspace("author", tools=False)
source = author.folder / "words"
source.mkdir()
(source / "tools.ts").write_text(TOOLS)
(source / "package.json").write_text(json.dumps({"name": "words", "version": "1.2.0"}))
author.mimir("tools", "build", "words")
report = json.loads(author.mimir(
    "tools", "export", TOOL, "--oci", "out/oci", "--mcpb", "out", "--claude-plugin", "out/plugin", "--skill",
    "out/words", "--server-json", "out", "--server-name", SERVER, "--bundle-url", URL, "--author", "Ada", "--json"))
out = author.folder / "out"
digest = report["digest"]


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def user(name):
    """An empty workspace with a file."""
    folder = pathlib.Path(name).resolve()
    folder.mkdir()
    (folder / "note.txt").write_text("four words are here")
    return folder


def trust(component, workspace):
    expect(sha256(component) == digest, "the same component in every format", component)
    run(os.environ["MIMIR"], "tools", "trust", component, "--digest", digest, cwd=workspace)


async def call_server(command, environment, workspace):
    """Starts a server with the reference client: it has exactly this tool. Returns the result of a call."""
    server = mcp.StdioServerParameters(command=command[0], args=command[1:], env=environment, cwd=str(workspace))
    async with mcp.Client(server) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        expect(names == [TOOL], "exactly the exported tool", names)
        return await client.call_tool(TOOL, ARGUMENTS)


def check_server(command, environment, component, workspace):
    """Calls the server without a grant and with one."""
    refused = asyncio.run(call_server(command, environment, workspace))
    expect(refused.is_error, "a call without a grant is refused", refused)
    trust(component, workspace)
    called = asyncio.run(call_server(command, environment, workspace))
    expect(called.structured_content == COUNT, "the result", called)


def bundle():
    packed = out / report["exported"]["mcpb"]["file"]
    tool = MODULES / ".bin/mcpb"
    unpacked = pathlib.Path("unpacked").resolve()
    run(tool, "unpack", packed, unpacked)
    run(tool, "validate", unpacked / "manifest.json")
    run(tool, "pack", unpacked, "again.mcpb")
    manifest = json.loads((unpacked / "manifest.json").read_text())
    expect([tool["name"] for tool in manifest["tools"]] == [TOOL], "the tools in the manifest", manifest)
    workspace = user("desktop")
    values = {"${__dirname}": str(unpacked), "${user_config.workspace}": str(workspace)}
    start = manifest["server"]["mcp_config"]
    words = [start["command"], *start["args"]]
    for name, value in values.items():
        words = [word.replace(name, value) for word in words]
    expect(not any("${" in word for word in words), "every variable has a value", words)
    # An application starts it anywhere.
    check_server(words, dict(os.environ), unpacked / "tools/words.wasm", workspace)


def whole_bundle():
    """With the program in it, nothing else has to be installed."""
    made = json.loads(author.mimir("tools", "export", TOOL, "--mcpb", "out/whole", "--with-program", "--json"))
    packed = out / "whole" / made["exported"]["mcpb"]["file"]
    unpacked = pathlib.Path("unpacked-whole").resolve()
    run(MODULES / ".bin/mcpb", "unpack", packed, unpacked)
    run(MODULES / ".bin/mcpb", "validate", unpacked / "manifest.json")
    start = json.loads((unpacked / "manifest.json").read_text())["server"]["mcp_config"]
    workspace = user("laptop")
    trust(unpacked / "tools/words.wasm", workspace)
    values = {"${__dirname}": str(unpacked), "${user_config.workspace}": str(workspace)}
    words = [start["command"], *start["args"]]
    for name, value in values.items():
        words = [word.replace(name, value) for word in words]
    environment = {**os.environ, "PATH": "/usr/bin:/bin"}
    expect(shutil.which("mimir", path=environment["PATH"]) is None, "no other mimir on the PATH")
    called = asyncio.run(call_server(words, environment, workspace))
    expect(called.structured_content == COUNT, "the result of the program in the bundle", called)


def claude_plugin():
    claude = MODULES / "@anthropic-ai/claude-code/bin/claude.exe"
    quiet = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1", "DO_NOT_TRACK": "1",
             "TERM": "dumb"}
    plugin = out / "plugin"
    run(claude, "plugin", "validate", plugin)
    workspace = user("project")
    component = plugin / "tools/words.wasm"
    trust(component, workspace)
    # The program loads the plugin, starts its server, and has a scripted model call the tool.
    model = Model((TOOL, ARGUMENTS))
    named = f"mcp__plugin_words_words__{TOOL}"
    ended = subprocess.run(
        [str(claude), "--plugin-dir", str(plugin), "-p", "How many words?", "--allowedTools", named], cwd=workspace,
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=180,
        env={**os.environ, **quiet, "ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": "none", "PWD": str(workspace)})
    seen = (ended.returncode, ended.stdout, ended.stderr, model.names(), model.results())
    expect(ended.returncode == 0 and '"words":4' in ended.stdout.replace(" ", "").replace("\\", ""),
           "Claude Code calls the tool of the plugin", *seen)
    # Installed from a marketplace, it is in another place, so its rights are granted there.
    market = pathlib.Path("market").resolve()
    (market / ".claude-plugin").mkdir(parents=True)
    shutil.copytree(plugin, market / "words")
    (market / ".claude-plugin/marketplace.json").write_text(json.dumps({
        "name": "market", "owner": {"name": "Ada"}, "plugins": [{"name": "words", "source": "./words"}]}))
    environment = {**os.environ, **quiet}
    run(claude, "plugin", "validate", market, env=environment)
    run(claude, "plugin", "marketplace", "add", market, cwd=workspace, env=environment)
    run(claude, "plugin", "install", "words@market", cwd=workspace, env=environment)
    shown = run(claude, "mcp", "list", cwd=workspace, env=environment)
    line = next((line for line in shown.splitlines() if "--tools-from" in line), "")
    expect("Connected" in line, "Claude Code connects to the server of the installed plugin", shown)


def skill():
    folder = out / "words"
    run(PACKAGES / "python/bin/agentskills", "validate", folder)
    properties = json.loads(run(PACKAGES / "python/bin/agentskills", "read-properties", folder))
    expect(properties["name"] == "words", "the name of the folder", properties)
    allowed = re.fullmatch(r"Bash\((.*):\*\)", properties["allowed-tools"])[1]
    command = re.search(r"^mimir call .*$", (folder / "SKILL.md").read_text(), re.M)[0]
    expect(command.startswith(allowed), "the command is one of those that the skill may run", command, allowed)
    words = shlex.split(command.replace("SKILL_DIR", str(folder)).replace("TEXT", "note.txt"))
    workspace = user("shell")
    run(*words, cwd=workspace, code=3)
    trust(folder / "tools/words.wasm", workspace)
    result = json.loads(run(*words, "--json", cwd=workspace))
    expect(result["structured"] == COUNT, "the result", result)


def registry_entry():
    entry = json.loads((out / "server.json").read_text())
    faults = server_json_faults(entry)
    expect(faults == [], "an entry that the registry accepts", faults)
    package = entry["packages"][0]
    packed = out / report["exported"]["mcpb"]["file"]
    expect(entry["version"] == "1.2.0" and package["fileSha256"] == sha256(packed), "the digest of the bundle", entry)
    for spoiled in ({"fileSha256": "0"}, {"identifier": "words"}, {"registryType": "zip"}):
        faults = server_json_faults({**entry, "packages": [{**package, **spoiled}]})
        expect(faults, "the rules find a mistake", spoiled)


@contextlib.contextmanager
def docker_registry():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = pathlib.Path("registry.yml")
    config.write_text(json.dumps({
        "version": 0.1, "log": {"level": "error"}, "storage": {"filesystem": {"rootdirectory": os.path.abspath("store")}},
        "http": {"addr": f"127.0.0.1:{port}"}}))
    server = subprocess.Popen(["docker-registry", "serve", config], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.1)
        yield f"127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()


def oci():
    layout = Layout(str(out / "oci"))
    with docker_registry() as host:
        client = oras.client.OrasClient(hostname=host, insecure=True)
        target = f"{host}/acme/words:1.2.0"
        layout.push_to_registry(provider=client, target=target, tag="1.2.0")
        manifest = client.get_manifest(target)
        expect([layer["mediaType"] for layer in manifest["layers"]] == ["application/wasm"], "one layer", manifest)
        files = client.pull(target=target, outdir="pulled")
        pulled = [sha256(pathlib.Path(file)) for file in files]
        expect(pulled == [digest], "oras pulls the component", files, pulled, digest)
        reachable = {**os.environ, "MIMIR_NETWORK__ALLOWED_HOSTS": f"[{host}]"}
        words = ("tools", "add", target, "--json")
        added = json.loads(run(os.environ["MIMIR"], *words, cwd=user("registry"), env=reachable))
        expect(added["digest"] == digest, "mimir pulls the component", added)
        # A push has the same manifest as a layout without the name of a server.
        plain = json.loads(author.mimir("tools", "export", TOOL, "--oci", "out/plain", "--json"))
        pushed = json.loads(author.mimir("tools", "push", ".mimir/tools/words.wasm", f"{host}/acme/pushed:1", "--json",
                                         env=reachable))
        expect(pushed["digest"] == plain["exported"]["oci"]["manifest"], "the manifest of a push", pushed, plain)


for part in (bundle, whole_bundle, claude_plugin, skill, registry_entry, oci):
    part()
    print(f"exports: {part.__name__}")
