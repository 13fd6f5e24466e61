"""The Inspector's command line against `mimir serve`, over stdio and HTTP, in both eras of the protocol: tools,
resources and prompts, those of a server behind included."""
import json, subprocess

from kit import EVERYTHING, MODULES, NODE, Workspace, expect

CLI = MODULES / "@modelcontextprotocol/inspector/clients/launcher/build/index.js"

allowed = {"approval": "allow", "labels": {"acceptsUntrusted": True}}
readers = ("mcp_everything_resources_read", "mcp_everything_prompts_get")
work = Workspace(settings={
    "toolDiscovery": "off",
    "mcp": {"servers": {"everything": {"command": NODE, "args": [EVERYTHING, "stdio"], "sandbox": "none"}}},
    "tools": {name: allowed for name in (*readers, "mcp_everything_get_sum", "word_count", "careful", "broken")},
})
work.mimir("mcp", "test", "everything")
work.trust_server("everything")


def inspect(target, era, method, *words, code=0):
    """Sends one request with the Inspector; returns the result, or the error for another exit code."""
    before, after = ([], ["--", *target]) if isinstance(target, list) else (["--server-url", target], [])
    ended = subprocess.run([NODE, CLI, "--cli", *before, "--protocol-era", era, "--format", "json", "-q", "--method",
                            method, *words, *after], capture_output=True, text=True, timeout=120,
                           stdin=subprocess.DEVNULL, cwd=work.folder)
    expect(ended.returncode == code, f"the Inspector ends {method} {words} in {era} with {code}", ended.returncode,
           ended.stdout, ended.stderr)
    said = json.loads(ended.stdout if code == 0 or ended.stdout.strip() else ended.stderr)
    return said.get("result", said) if code == 0 else said


def all_of(target, era):
    # Every schema must be usable for the models of other clients: else the Inspector exits with 6.
    tools = inspect(target, era, "tools/list", "--strict")["tools"]
    tools = {tool["name"]: tool for tool in tools}
    expect({"word_count", "read_file", "mcp_everything_get_sum"} <= set(tools), "all tools are listed", sorted(tools))
    expect(not set(readers) & set(tools), "what reads resources and prompts is no tool of a model", sorted(tools))
    counts = tools["word_count"]
    expect(counts["title"] == "Word count" and counts["outputSchema"]["required"] == ["words"]
           and counts["annotations"]["readOnlyHint"] is True, "a tool has all that it says of itself", counts)

    def call(tool, *words, code=0):
        return inspect(target, era, "tools/call", "--tool-name", tool, *words, code=code)

    called = call("word_count", "--tool-arg", "text=over the hills")
    # The tool is not trusted, so its text is marked as untrusted content.
    text = called["content"][0]["text"]
    expect(called["structuredContent"] == {"words": 3} and '{"words":3}' in text and text.startswith("[untrusted "),
           "a result has its structure, and the same as text", called)
    summed = call("mcp_everything_get_sum", "--tool-arg", "a=2", "b=40")
    expect("sum of 2 and 40 is 42" in json.dumps(summed), "a server behind is reached", summed)
    # The Inspector exits with 5 if a tool has failed.
    failed = call("broken", code=5)
    expect("no more paper" in json.dumps(failed), "a failure says why", failed)
    refused = call("delete_file", "--tool-arg", "path=tools.ts", code=5)
    expect("APPROVAL_DENIED" in json.dumps(refused) and (work.folder / "tools.ts").exists(),
           "what nobody can be asked about is refused", refused)
    unknown = call("nothing_of_the_kind", code=5)
    expect("not found" in json.dumps(unknown), "there is no such tool", unknown)

    resources = inspect(target, era, "resources/list")["resources"]
    uri = next((one["uri"] for one in resources if "architecture" in one["uri"]), None)
    expect(uri and uri.startswith("mcp://everything/"), "resources are named after their server", resources)
    read = inspect(target, era, "resources/read", "--uri", uri)
    expect("Everything Server" in json.dumps(read), "a resource is read", read)
    templates = inspect(target, era, "resources/templates/list")["resourceTemplates"]
    expect(len(templates) == 2, "templates are listed", templates)
    prompts = inspect(target, era, "prompts/list")["prompts"]
    expect(any(one["name"] == "mcp_everything_args-prompt" for one in prompts), "prompts are listed", prompts)
    got = inspect(target, era, "prompts/get", "--prompt-name", "mcp_everything_args-prompt", "--prompt-args",
                  "city=Bern")
    expect("Bern" in json.dumps(got["messages"]), "a prompt is got", got)


for era in ("legacy", "modern"):
    all_of(["mimir", "-C", str(work.folder), "serve"], era)
    with work.http() as url:
        all_of(url, era)
    print(f"inspector: {era}, over stdio and HTTP")
