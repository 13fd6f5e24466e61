"""The Python clients `mcp` and `fastmcp` against `mimir serve`, over stdio and HTTP, in both eras of the protocol:
a list, a structured result, progress, a question to the user, a failure, and a cancelled call."""
import asyncio, json, os

import anyio, fastmcp, mcp_types
import mcp
from fastmcp.client.transports import StdioTransport
from mcp import MCPError

from kit import Workspace, expect, heard_all

work = Workspace()
ERAS = {"legacy": "2025-11-25", "auto": "2026-07-28"}
ARGS = ["-C", str(work.folder), "serve"]


class Mcp:
    """The reference client, `mcp`."""

    def __init__(self, url, mode, answer):
        async def elicit(_, params):
            return mcp_types.ElicitResult(action="accept", content=answer(params.message, params.requested_schema))

        target = url or mcp.StdioServerParameters(command="mimir", args=ARGS, env=dict(os.environ))
        self.client = mcp.Client(target, mode=mode, elicitation_callback=elicit)

    def version(self):
        return self.client.protocol_version

    async def tools(self):
        return (await self.client.list_tools()).tools

    async def call(self, name, arguments, progress=None):
        return await self.client.call_tool(name, arguments, progress_callback=progress)


class FastMcp:
    """The client `fastmcp`."""

    def __init__(self, url, mode, answer):
        async def elicit(message, _, params, __):
            return answer(message, params.requested_schema)

        target = url or StdioTransport("mimir", ARGS, env=dict(os.environ))
        self.client = fastmcp.Client(target, mode=mode, elicitation_handler=elicit)

    def version(self):
        return self.client.session.protocol_version

    async def tools(self):
        return await self.client.list_tools()

    async def call(self, name, arguments, progress=None):
        return await self.client.call_tool_mcp(name, arguments, progress_handler=progress)


async def all_of(kind, url, mode):
    asked, said = [], ["once", "no"]
    # Over HTTP, clients without a session of the protocol share one: an answer for it would count for others.
    shared = url and ERAS[mode] == "2026-07-28"
    expected = ["once", "always", "no"] if shared else ["once", "session", "always", "no"]

    def answer(message, schema):
        asked.append(message)
        choices = json.dumps(schema)
        offered = [one for one in ("once", "session", "always", "no") if f'"{one}"' in choices]
        expect(offered == expected, f"{url or 'stdio'}, {mode}: the answers", schema)
        return {"answer": said.pop(0)}

    ours = kind(url, mode, answer)
    async with ours.client:
        where = f"{kind.__name__} {mode} {url or 'stdio'}"
        expect(ours.version() == ERAS[mode], f"{where}: {ERAS[mode]} is spoken", ours.version())
        tools = {tool.name: tool for tool in await ours.tools()}
        expect("read_file" in tools and tools["word_count"].output_schema["required"] == ["words"],
               f"{where}: tools are listed whole", tools)

        counted = await ours.call("word_count", {"text": "over the hills"})
        expect(counted.structured_content == {"words": 3} and '{"words":3}' in counted.content[0].text
               and not counted.is_error, f"{where}: a structured result", counted)

        heard = []

        async def progress(done, total, message):
            heard.append((done, total, message))

        stepped = await ours.call("steps", {}, progress)
        expect("all taken" in stepped.content[0].text, f"{where}: it takes its steps", stepped)
        await heard_all(heard, 3)
        expect(heard == [(step, 3, f"step {step}") for step in (1, 2, 3)], f"{where}: each step is told", heard)

        done = await ours.call("careful", {"text": "it"})
        expect("done: it" in done.content[0].text and not done.is_error, f"{where}: yes means yes", done)
        refused = await ours.call("careful", {"text": "that"})
        expect(refused.is_error and "APPROVAL_DENIED" in refused.content[0].text, f"{where}: no means no", refused)
        expect(len(asked) == 2 and all("careful" in one for one in asked), f"{where}: a person was asked", asked)

        broken = await ours.call("broken", {})
        expect(broken.is_error and "no more paper" in broken.content[0].text, f"{where}: a failure", broken)
        try:
            unknown = await ours.call("nothing_of_the_kind", {})
            expect(False, f"{where}: no such tool is an error", unknown)
        except MCPError as error:
            expect(error.error.code == -32602, f"{where}: the error's code", error)

        stopped = lambda: work.codes("endless").count("CANCELLED")
        before = stopped()
        with anyio.move_on_after(2):
            ended = await ours.call("endless", {})
            expect(False, f"{where}: it never ends", ended)
        # Beside the client, which has still to say so.
        await asyncio.to_thread(work.until, lambda: stopped() == before + 1,
                                f"{where}: a call that nobody waits for is stopped")
        again = await ours.call("word_count", {"text": "one"})
        expect(again.structured_content == {"words": 1}, f"{where}: the session goes on", again)


for mode, version in ERAS.items():
    for kind in (Mcp, FastMcp):
        asyncio.run(all_of(kind, None, mode))
        with work.http() as url:
            asyncio.run(all_of(kind, url, mode))
        print(f"clients: {kind.__name__.lower()} in {version}, over stdio and HTTP")
