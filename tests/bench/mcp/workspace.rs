//! A workspace for the program itself, with `echo` as a plugin and with rmcp alone as a configured server.

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::bare;
use crate::{guests, program};

/// The tool of the configured server.
pub const MCP_TOOL: &str = "mcp_bare_echo";

/// A workspace, and a home with the settings.
pub struct BenchWorkspace(TempDir);

impl BenchWorkspace {
    /// Creates a workspace with the plugin alone.
    pub fn new() -> Self {
        let fixture = Self(
            tempfile::Builder::new()
                .prefix("mimir-bench-")
                .tempdir()
                .unwrap(),
        );
        let tools = fixture.workspace().join(".mimir/tools");
        std::fs::create_dir_all(&tools).unwrap();
        std::fs::create_dir_all(fixture.home().join("config")).unwrap();
        std::fs::write(tools.join("echo.wasm"), guests::ECHO.bytes()).unwrap();
        fixture.set(json!({"tools": {"echo": {"approval": "allow"}}}));
        fixture
    }

    /// Creates a workspace with the configured server, whose tool a person has reviewed.
    pub fn with_server() -> Self {
        let fixture = Self::new();
        let server = bare::command("stdio");
        let program = server.as_std().get_program().to_str().unwrap().to_owned();
        let allowed = json!({"approval": "allow", "labels": {"acceptsUntrusted": true}});
        fixture.set(json!({
            "tools": {"echo": {"approval": "allow"}, MCP_TOOL: allowed},
            "mcp": {"servers": {"bare": {
                "command": program, "args": [bare::CHILD, "stdio"], "sandbox": "none",
            }}},
        }));
        program::printed(&mut fixture.mimir(&["mcp", "test", "bare"]));
        let info = program::printed(&mut fixture.mimir(&["tools", "info", MCP_TOOL, "--json"]));
        let info: Value = serde_json::from_str(&info).unwrap();
        let digest = info["digest"].as_str().unwrap();
        program::printed(&mut fixture.mimir(&["tools", "trust", MCP_TOOL, "--digest", digest]));
        fixture
    }

    /// mimir, in this workspace.
    pub fn mimir(&self, arguments: &[&str]) -> Command {
        program::call(&self.workspace(), &self.home(), arguments)
    }

    fn workspace(&self) -> PathBuf {
        self.0.path().join("workspace")
    }

    fn home(&self) -> PathBuf {
        self.0.path().join("home")
    }

    /// Writes the person's own settings, which need no acceptance.
    fn set(&self, settings: Value) {
        let file = self.home().join("config/config.yml");
        std::fs::write(file, settings.to_string()).unwrap();
    }
}
