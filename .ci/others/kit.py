"""Shared code of these scripts: a workspace with tools in WebAssembly, running mimir in it, and failing."""
import asyncio, contextlib, json, os, pathlib, subprocess, sys, time

PACKAGES = pathlib.Path(os.environ["PACKAGES"])
MODULES = PACKAGES / "node_modules"
NODE = str(MODULES / "node/bin/node")
EVERYTHING = str(MODULES / "@modelcontextprotocol/server-everything/dist/index.js")

# Tools as a user writes them; `mimir tools build` makes one component of the file.
TOOLS = """
import { defineTool } from "mimir";

const text = { type: "object", properties: { text: { type: "string" } }, required: ["text"] };

export const wordCount = defineTool({
  title: "Word count",
  description: "Counts the words of a text.",
  inputSchema: text,
  outputSchema: { type: "object", properties: { words: { type: "integer" } }, required: ["words"] },
  needsApproval: false,
  hints: { readOnly: true },
  execute: ({ text }) => ({ words: text.split(/\\s+/).filter(Boolean).length }),
});

export const textReport = defineTool({
  description: "Reports on a text.",
  inputSchema: text,
  outputSchema: {
    type: "object",
    properties: { summary: { type: "string" }, words: { type: "integer" } },
    required: ["summary", "words"],
  },
  needsApproval: false,
  hints: { readOnly: true },
  execute: ({ text }) => ({ summary: text, words: text.split(/\\s+/).filter(Boolean).length }),
});

export const careful = defineTool({
  description: "Does what a person has to agree to.",
  inputSchema: text,
  execute: ({ text }) => `done: ${text}`,
});

export const steps = defineTool({
  description: "Takes three steps.",
  inputSchema: { type: "object", properties: {} },
  needsApproval: false,
  async execute(_, { progress, logger }) {
    for (const step of [1, 2, 3]) {
      logger.warn(`step ${step}`);
      progress.report(step, 3, `step ${step}`);
      await new Promise((done) => setTimeout(done, 100));
    }
    return "all taken";
  },
});

export const endless = defineTool({
  description: "Never ends.",
  inputSchema: { type: "object", properties: {} },
  needsApproval: false,
  execute() {
    for (;;) {}
  },
});

export const broken = defineTool({
  description: "Fails.",
  inputSchema: { type: "object", properties: {} },
  needsApproval: false,
  execute() {
    throw new Error("there is no more paper");
  },
});
"""


def fail(why):
    print(f"{pathlib.Path(sys.argv[0]).stem}: {why}", file=sys.stderr)
    sys.exit(1)


def expect(is_so, what, *seen):
    """Fails with `what` and the value that was seen, unless the condition holds."""
    if not is_so:
        fail("\n  ".join([f"expected: {what}", *(str(one)[:4000] for one in seen)]))


async def heard_all(heard, steps):
    """Waits until all steps of a call were heard: a client may tell of the last one after the result."""
    for _ in range(200):
        if len(heard) >= steps:
            return
        await asyncio.sleep(0.05)


def run(*words, code=0, cwd=None, timeout=300, **more):
    """Runs a program, checks its exit code and returns its output."""
    ended = subprocess.run([str(word) for word in words], cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True,
                           text=True, timeout=timeout, **more)
    expect(ended.returncode == code, f"{' '.join(map(str, words))} ends with {code}", ended.returncode, ended.stdout,
           ended.stderr)
    return ended.stdout


class Workspace:
    """A folder with `.mimir` and, unless told otherwise, the tools above, built: they need nothing, so there is
    nothing to grant. `settings` are the user's."""

    def __init__(self, folder="work", settings=None, tools=True):
        self.folder = pathlib.Path(folder).resolve()
        self.folder.mkdir()
        self.settings(settings or {})
        self.mimir("init")
        if tools:
            (self.folder / "tools.ts").write_text(TOOLS)
            self.mimir("tools", "build", "tools.ts")

    def settings(self, settings):
        """Writes the user's own settings, which need no approval."""
        file = pathlib.Path.home() / ".config/mimir/config.yml"
        file.parent.mkdir(parents=True, exist_ok=True)
        # The endless tool must be stopped by its client and not by a timeout.
        file.write_text(json.dumps({"limits": {"timeMs": 120_000, "fuel": 10**15}, **settings}))

    def mimir(self, *words, code=0, **more):
        return run(os.environ["MIMIR"], *words, code=code, cwd=self.folder, **more)

    def json(self, *words, code=0):
        return json.loads(self.mimir(*words, "--json", code=code))

    def trust(self, tool):
        """Grants a tool what it needs."""
        digest = self.json("tools", "info", tool)["digest"]
        self.mimir("tools", "trust", tool, "--digest", digest)

    def trust_server(self, name):
        """Trusts a server with all its tools, prompts and resources, without a change of settings."""
        file = pathlib.Path.home() / ".config/mimir/config.yml"
        settings = file.read_text()
        digest = self.json("mcp", "test", name)["digest"]
        self.mimir("mcp", "trust", name, "--approve", digest, "--allow", "all", "--user")
        file.write_text(settings)

    def codes(self, tool):
        """Returns the outcome of each call of a tool from the audit log."""
        events = self.json("audit", "show")
        events = events["events"] if isinstance(events, dict) else events
        return [event.get("code") for event in events if event.get("tool") == tool]

    def until(self, is_so, what, seconds=60):
        end = time.monotonic() + seconds
        while not is_so():
            expect(time.monotonic() < end, what)
            time.sleep(0.05)

    @contextlib.contextmanager
    def http(self):
        """Starts `mimir serve --http`; returns its URL."""
        words = [os.environ["MIMIR"], "-C", str(self.folder), "serve", "--http", "127.0.0.1:0"]
        with open(self.folder / "serve.log", "w+") as log:
            server = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log)
            try:
                said = lambda: (self.folder / "serve.log").read_text()
                self.until(lambda: "/mcp\n" in said() or server.poll() is not None, "it listens")
                line = next((line for line in said().splitlines() if line.startswith("mimir serves MCP at ")), None)
                expect(line, "it says where it listens", said())
                yield line.split()[-1]
            finally:
                server.terminate()
                try:
                    server.wait(20)
                except subprocess.TimeoutExpired:
                    server.kill()
                    server.wait()
