"""The reference servers `server-everything` and `server-filesystem` behind mimir: with `mimir call`, and with a client of
`mimir serve`, with images, progress, elicitation, resources and prompts."""
import asyncio, base64, json, os, shutil

import mcp, mcp_types

from kit import EVERYTHING, MODULES, NODE, Workspace, expect, heard_all

# A variable of this process that the server must not see.
os.environ["NOBODYS_BUSINESS"] = "a secret of somebody"

READERS = ["resources_read", "prompts_get"]
TOOLS = ["echo", "get_sum", "get_tiny_image", "get_env", "get_structured_content", "get_resource_reference",
         "get_annotated_message", "trigger_long_running_operation", "trigger_elicitation_request",
         "trigger_sampling_request", "get_roots_list"]
allowed = {"approval": "allow", "labels": {"acceptsUntrusted": True}}
work = Workspace(settings={"tools": {f"mcp_everything_{name}": allowed for name in READERS + TOOLS}, "toolDiscovery": "off",
                           "limits": {"timeMs": 60_000}})


def call(name, code=0, **arguments):
    return work.json("call", name, json.dumps(arguments), code=code)


def texts(outcome):
    return "\n".join(one.get("text", "") for one in outcome["content"])


def everything():
    # It gets only the environment that is named here.
    work.mimir("mcp", "add", "everything", "--sandbox", "none", "--env", "GREETING=hello", "--", NODE, EVERYTHING, "stdio")
    block = work.folder / ".mimir/config.yml"
    block.write_text(block.read_text().replace("sandbox: none", "sandbox: none\n      sampling: true\n      roots: true"))
    work.mimir("policy", "accept", "--yes")
    tested = work.json("mcp", "test", "everything")
    names = [tool["name"] for tool in tested["tools"]]
    expect({"mcp_everything_echo", "mcp_everything_get_sum"} <= set(names), "its tools are seen", names)
    # Before the server is trusted, its tools need approval with any settings; without a terminal they are refused.
    refused = call("mcp_everything_echo", code=3, message="hi")
    expect(refused["error"]["code"] == "APPROVAL_DENIED", "nobody has trusted it", refused)
    work.trust_server("everything")

    echoed = call("mcp_everything_echo", message="over the hills")
    expect("over the hills" in texts(echoed) and echoed["label"]["trust"] == "untrusted", "it echoes", echoed)
    expect("is 42" in texts(call("mcp_everything_get_sum", a=2, b=40)), "it adds")
    wrong = call("mcp_everything_get_sum", code=2, a="two", b=40)
    expect(wrong["error"]["code"] == "INVALID_INPUT", "its schema is held to", wrong)
    picture = next(one for one in call("mcp_everything_get_tiny_image")["content"] if one["type"] == "image")
    expect(base64.b64decode(picture["data"]).startswith(b"\x89PNG"), "a picture comes whole", picture)
    weather = call("mcp_everything_get_structured_content", location="Chicago")
    expect({"temperature", "conditions"} <= set(weather["structured"]), "a structured result", weather)
    seen = texts(call("mcp_everything_get_env"))
    expect('"GREETING": "hello"' in seen and "NOBODYS_BUSINESS" not in seen, "it has its own variables alone", seen)


async def gateway():
    forms, models = [], []

    async def elicit(_, params):
        forms.append(params.message)
        return mcp_types.ElicitResult(action="accept", content={"name": "Ada"})

    async def sample(_, params):
        models.append(json.dumps(params.model_dump(mode="json")))
        said = mcp_types.TextContent(type="text", text="a model says so")
        return mcp_types.CreateMessageResult(role="assistant", content=said, model="scripted")

    async def roots(_):
        return mcp_types.ListRootsResult(roots=[])

    logged = []

    async def log(params):
        logged.append(params)

    start = mcp.StdioServerParameters(command="mimir", args=["-C", str(work.folder), "serve"], env=dict(os.environ))
    client = mcp.Client(start, mode="legacy", elicitation_callback=elicit, sampling_callback=sample,
                        list_roots_callback=roots, logging_callback=log)
    async with client:
        async def call(name, arguments=None, **more):
            done = await client.call_tool(f"mcp_everything_{name}", arguments or {}, **more)
            return done, "\n".join(getattr(one, "text", "") for one in done.content)

        listed = {tool.name for tool in (await client.list_tools()).tools}
        # Some tools exist only for clients with elicitation, which mimir has.
        expect({f"mcp_everything_{name}" for name in TOOLS} <= listed, "all its tools are listed", sorted(listed))
        expect(not {f"mcp_everything_{name}" for name in READERS} & listed, "and none that reads for clients", listed)

        done, said = await call("echo", {"message": "over the hills"})
        expect("over the hills" in said and "[untrusted" in said and not done.is_error, "marked as a stranger's", said)
        done, _ = await call("get_tiny_image")
        picture = next(one for one in done.content if one.type == "image")
        expect(base64.b64decode(picture.data).startswith(b"\x89PNG"), "a picture", done)
        done, _ = await call("get_resource_reference", {"resourceType": "Text", "resourceId": 1})
        resource = next(one for one in done.content if one.type == "resource")
        expect("plaintext resource" in resource.resource.text, "an embedded resource", done)
        done, _ = await call("get_structured_content", {"location": "Chicago"})
        expect("temperature" in (done.structured_content or {}), "a structured result", done)
        conditions = done.structured_content["conditions"]
        expect(conditions.startswith("[untrusted ") and "[end of untrusted " in conditions, "its words are marked", done)

        heard = []

        async def progress(step, total, _):
            heard.append((step, total))

        done, said = await call("trigger_long_running_operation", {"duration": 1, "steps": 4}, progress_callback=progress)
        expect("completed" in said, "it runs long", said)
        await heard_all(heard, 4)
        expect(heard == [(step, 4) for step in range(1, 5)], "its progress is passed on, each step of it", heard)

        done, said = await call("trigger_elicitation_request")
        expect("Ada" in said and len(forms) == 1 and "everything" in forms[0], "its form says whose it is", said, forms)
        done, said = await call("trigger_sampling_request", {"prompt": "why?", "maxTokens": 20})
        expect("a model says so" in said and len(models) == 1, "the client's model is asked", said, models)
        # It asks for the roots when it starts, which is outside of any call, so mimir does not answer.
        done, said = await call("get_roots_list")
        expect("no roots are currently configured" in said, "it is told nothing outside of a call", said)

        resources = (await client.list_resources()).resources
        uri = next((one.uri for one in resources if "architecture" in str(one.uri)), None)
        expect(uri and str(uri).startswith("mcp://everything/"), "resources have their server's name", resources)
        read = await client.read_resource(uri)
        words = read.contents[0].text
        expect("Everything Server" in words and words.startswith("[untrusted "), "a resource is read", read)
        templates = (await client.list_resource_templates()).resource_templates
        expect(len(templates) == 2, "templates", templates)
        prompts = {prompt.name for prompt in (await client.list_prompts()).prompts}
        expect("mcp_everything_args-prompt" in prompts, "prompts", prompts)
        got = await client.get_prompt("mcp_everything_args-prompt", {"city": "Bern"})
        expect("Bern" in got.messages[0].content.text, "a prompt", got)
        place = mcp_types.PromptReference(type="ref/prompt", name="mcp_everything_completable-prompt")
        proposed = await client.complete(place, {"name": "department", "value": "E"})
        expect("Engineering" in proposed.completion.values, "a proposal", proposed)


def filesystem():
    """An installed server, visible in the sandbox of commands, needs only the workspace."""
    place = work.folder / "server"
    shutil.copytree(MODULES, place / "node_modules", symlinks=True, ignore=shutil.ignore_patterns(
        "opencode*", "@openai", "@anthropic-ai", "inspector", ".bin"))
    (work.folder / "notes.md").write_text("remember the milk\n")
    outside = work.folder.parent / "outside.txt"
    outside.write_text("nobody's business\n")
    script = "server/node_modules/@modelcontextprotocol/server-filesystem/dist/index.js"
    work.mimir("mcp", "add", "files", "--cwd", ".", "--", "server/node_modules/node/bin/node", script, ".")
    tested = work.json("mcp", "test", "files")
    names = [tool["name"] for tool in tested["tools"]]
    expect({"mcp_files_read_text_file", "mcp_files_write_file"} <= set(names), "its tools are seen", names)
    work.trust("mcp_files_read_text_file")
    yes = ["--approve", "always", "--json"]
    call = lambda name, code=0, **arguments: json.loads(
        work.mimir("call", f"mcp_files_{name}", json.dumps(arguments), *yes, code=code))
    read = call("read_text_file", path="notes.md")
    expect("remember the milk" in texts(read), "it reads", read)
    call("write_file", path="made.md", content="by a server\n")
    expect((work.folder / "made.md").read_text() == "by a server\n", "it writes")
    found = call("search_files", path=".", pattern="*.md")
    expect("notes.md" in texts(found) and "made.md" in texts(found), "it finds", found)
    away = call("read_text_file", code=1, path=str(outside))
    expect("nobody's business" not in json.dumps(away) and "outside allowed" in json.dumps(away), "it has nothing outside", away)
    # The server checks paths itself; the sandbox holds even if it did not.
    hooks = work.folder / ".git/hooks"
    hooks.mkdir(parents=True)
    (work.folder / "hooks").mkdir()
    call("write_file", path="hooks/pre-commit", content="#!/bin/sh\n")
    expect((work.folder / "hooks/pre-commit").exists(), "it writes beside that")
    hook = call("write_file", code=1, path=".git/hooks/pre-commit", content="#!/bin/sh\n")
    refused = any(word in json.dumps(hook) for word in ("EROFS", "EACCES", "EPERM"))
    expect(refused and not (hooks / "pre-commit").exists(), "it plants no hook", hook)


everything()
print("servers: server-everything, by calls")
asyncio.run(gateway())
print("servers: server-everything, through the gateway")
filesystem()
print("servers: server-filesystem, in the sandbox of commands")
