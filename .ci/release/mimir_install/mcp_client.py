"""Starts the server given as arguments with the reference client of MCP, lists its tools, and reads a file by one."""

import asyncio
import os
import sys

import mcp


async def main() -> None:
    command, *arguments = sys.argv[1:]
    server = mcp.StdioServerParameters(command=command, args=arguments, env=dict(os.environ), cwd=os.getcwd())
    async with mcp.Client(server) as client:
        tools = [tool.name for tool in (await client.list_tools()).tools]
        if "read_file" not in tools:
            sys.exit(f"expected the tool read_file, found {tools}")
        result = await client.call_tool("read_file", {"path": "note.txt"})
        print(f"{len(tools)} tools;", *(part.text for part in result.content))


asyncio.run(main())
