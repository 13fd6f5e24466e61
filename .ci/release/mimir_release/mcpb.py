"""The MCP bundle (MCPB), which desktop applications install with a double click."""

import json
from pathlib import Path

from .archives import Entry, write_zip
from .documents import readme
from .project import AUTHOR, DESCRIPTION, SUMMARY, licence
from .release_input import ReleaseInput


def make_mcpb(given: ReleaseInput) -> Path:
    """Writes the bundle: the manifest, and the program that it starts."""
    files = {
        "manifest.json": Entry((json.dumps(mcpb_manifest(given), indent=2) + "\n").encode()),
        f"server/{given.target.program}": given.program_entry,
        "README.md": Entry(readme()),
    }
    for name, text in given.documents.licences.items():
        files[name] = Entry(text)
    path = given.out / f"mimir-{given.version}-{'-'.join(given.target.npm)}.mcpb"
    write_zip(path, files)
    return path


def mcpb_manifest(given: ReleaseInput) -> dict:
    """manifest.json. The application asks for the workspace folder and passes it on."""
    program = f"server/{given.target.program}"
    return {
        "manifest_version": "0.3",
        "name": "mimir",
        "display_name": "mimir",
        "version": given.version,
        "description": SUMMARY,
        "long_description": DESCRIPTION,
        "author": {"name": AUTHOR},
        "license": licence(),
        "keywords": ["tools", "sandbox", "webassembly"],
        "server": {
            "type": "binary",
            "entry_point": program,
            "mcp_config": {
                "command": "${__dirname}/" + program,
                "args": ["-C", "${user_config.workspace}", "serve"],
                "env": {},
            },
        },
        # The tools depend on the workspace.
        "tools_generated": True,
        "user_config": {
            "workspace": {
                "type": "directory",
                "title": "Workspace",
                "description": "The folder whose files the tools can reach. Its own tools and settings are in .mimir.",
                "required": True,
            }
        },
        "compatibility": {"platforms": [given.target.npm[0]]},
    }
