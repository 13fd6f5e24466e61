"""Popular servers, each added by `mimir mcp add NAME -- npx …|uvx …`, trusted by the digest of its descriptions, and called.

Downloads are kept with their pins for the next run, except for `everything` and `time`, which are downloaded each time. A
server that cannot start anywhere is in BROKEN, with the reason."""
import concurrent.futures, json, os, pathlib, shutil, subprocess, sys, tempfile, time

MIMIR = os.environ["MIMIR"]
KEPT = pathlib.Path(os.environ["MCP_SERVERS"])
# Minimum number of servers that must work: registries are sometimes unavailable.
WANTED = 20
LIMIT = 360

M = "@modelcontextprotocol/server-"
HERE = "WORKSPACE"  # placeholder for the workspace folder in arguments


class Server:
    def __init__(self, line, call=None, says="", arguments=None, network=(), env=None, more=()):
        self.line, self.call, self.says, self.arguments = line.split(), call, says, arguments or {}
        self.network, self.env, self.more = network, env or {}, more


SERVERS = {
    "everything": Server(f"npx -y {M}everything", "echo", "over the hills", {"message": "over the hills"}),
    "filesystem": Server(f"npx -y {M}filesystem .", "read_text_file", "remember the milk", {"path": f"{HERE}/notes.md"}),
    "memory": Server(f"npx -y {M}memory", "create_entities", "Ada",
                     {"entities": [{"name": "Ada", "entityType": "person", "observations": ["counts"]}]},
                     env={"MEMORY_FILE_PATH": "~/memory.jsonl"}),
    "thinking": Server(f"npx -y {M}sequential-thinking", "sequentialthinking", "thoughtNumber",
                       {"thought": "one", "nextThoughtNeeded": False, "thoughtNumber": 1, "totalThoughts": 1}),
    "context7": Server("npx -y @upstash/context7-mcp", network=["context7.com"]),
    # These need a browser, which is not installed here.
    "playwright": Server("npx -y @playwright/mcp --headless", network=["*"]),
    "chrome": Server("npx -y chrome-devtools-mcp", network=["*"]),
    "puppeteer": Server(f"npx -y {M}puppeteer"),
    "desktop": Server("npx -y @wonderwhy-er/desktop-commander", "get_config", "blockedCommands"),
    "github": Server(f"npx -y {M}github", env={"GITHUB_PERSONAL_ACCESS_TOKEN": "dummy"}, network=["api.github.com"]),
    "notion": Server("npx -y @notionhq/notion-mcp-server", env={"NOTION_TOKEN": "dummy"}, network=["api.notion.com"]),
    "postgres": Server(f"npx -y {M}postgres postgresql://localhost/mydb"),
    "slack": Server(f"npx -y {M}slack", env={"SLACK_BOT_TOKEN": "dummy", "SLACK_TEAM_ID": "T0"}, network=["slack.com"]),
    "tavily": Server("npx -y tavily-mcp", env={"TAVILY_API_KEY": "dummy"}, network=["api.tavily.com"]),
    "firecrawl": Server("npx -y firecrawl-mcp", env={"FIRECRAWL_API_KEY": "dummy"}, network=["api.firecrawl.dev"]),
    "kubernetes": Server("npx -y mcp-server-kubernetes"),
    "markitdown": Server("uvx markitdown-mcp", "convert_to_markdown", "# Hello", {"uri": "data:text/html,<h1>Hello</h1>"}),
    "git": Server("uvx mcp-server-git --repository .", "git_status", "notes.md", {"repo_path": HERE}),
    "fetch": Server("uvx mcp-server-fetch", network=["*"]),
    "time": Server("uvx mcp-server-time --local-timezone UTC", "get_current_time", "UTC", {"timezone": "UTC"}),
    "arxiv": Server("uvx arxiv-mcp-server", network=["export.arxiv.org", "arxiv.org"]),
    "duckduckgo": Server("uvx duckduckgo-mcp-server", network=["*"]),
}
BROKEN = {
    "sqlite": "mcp-server-sqlite falls over the current `mcp` package: 'Server' object has no attribute 'list_resources'",
    "docker": "mcp-server-docker needs Python 3.12 and the socket of an engine, which no sandbox has",
}
FRESH = {"everything", "time"}


class Failed(Exception):
    pass


def work(name, server, folder):
    begun = time.monotonic()
    home = folder / name
    place = home / "work"
    place.mkdir(parents=True)
    (place / "notes.md").write_text("remember the milk\n")
    subprocess.run(["git", "init", "-q", str(place)], check=True)
    environment = dict(os.environ, MIMIR_CONFIG_DIR=str(home / "config"), MIMIR_CACHE_DIR=str(KEPT / "cache"), NO_COLOR="1")

    def mimir(*words, codes=(0,)):
        done = subprocess.run([MIMIR, "-C", str(place), *words], env=environment, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=LIMIT)
        if done.returncode not in codes:
            raise Failed(f"{' '.join(words[:3])}: {done.returncode}: {(done.stdout + done.stderr)[-900:]}")
        return done.stdout

    mimir("init")
    kept = KEPT / f"{name}.json"
    if kept.exists() and name not in FRESH:
        config = place / ".mimir/config.yml"
        config.write_text(json.dumps({"mcp": {"servers": {name: json.loads(kept.read_text())}}}))
        mimir("policy", "accept", "--yes")
        mimir("mcp", "install", name, "--json")
    else:
        words = ["mcp", "add", name]
        words += [word for host in server.network for word in ("--network", host)]
        words += [word for pair in server.env.items() for word in ("--env", "=".join(pair))]
        mimir(*words, *server.more, "--", *server.line)
        block = json.loads(mimir("config", "get", f"mcp.servers.{name}", "--json"))
        kept.write_text(json.dumps(block.get("value", block)))
    # Two start at a time, on a machine that may be busy.
    mimir("config", "set", f"mcp.servers.{name}.startTimeoutMs", "120000")
    tested = json.loads(mimir("mcp", "test", name, "--json"))
    tools = [tool["name"] for tool in tested["tools"]]
    if not tools:
        raise Failed("it has no tools")
    flags = [flag for tool in tested["tools"] for flag in tool["flags"]]
    mimir("mcp", "trust", name, "--allow", "all", "--approve", tested["digest"])
    called = ""
    if server.call:
        arguments = json.loads(json.dumps(server.arguments).replace(HERE, str(place)))
        said = mimir("call", f"mcp_{name}_{server.call}", json.dumps(arguments), "--json", codes=(0, 1))
        if server.says not in said:
            raise Failed(f"{server.call}: {said[:700]}")
        called = f", {server.call} answered"
    return f"{len(tools)} tools{called}, {len(flags)} flags, {time.monotonic() - begun:.1f} s"


def main():
    wanted = sys.argv[1:] or list(SERVERS)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="mimir-servers-"))
    failed = []
    try:
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            jobs = {pool.submit(work, name, SERVERS[name], folder): name for name in wanted}
            for job in concurrent.futures.as_completed(jobs):
                name = jobs[job]
                try:
                    print(f"mcp-servers: {name}: {job.result()}", flush=True)
                except (Failed, subprocess.TimeoutExpired, KeyError, ValueError) as error:
                    failed.append(name)
                    print(f"mcp-servers: {name} FAILED: {error}", flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for name, why in BROKEN.items():
        print(f"mcp-servers: {name} is not tried: {why}")
    good = len(wanted) - len(failed)
    print(f"mcp-servers: {good} of {len(wanted)} work in the sandbox")
    sys.exit(0 if good >= min(WANTED, len(wanted)) else 1)


main()
