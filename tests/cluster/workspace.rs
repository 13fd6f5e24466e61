//! The workspace of every node: the test's tools, and the settings that decide about them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::history::{FoundEffect, TestTool};
use crate::processes::output_of;

/// Bearer token of all fronts.
pub const TOKEN: &str = "cluster-test-token-0123456789abcdef";

/// A tool that leaves a file for each run, and can take its time before and after.
const EFFECT_TOOL: &str = r#"
description: Leaves a file for each run.
runtime: javascript
schema:
  type: object
  properties:
    operation: {type: string}
    beforeMs: {type: integer}
    afterMs: {type: integer}
  required: [operation]
code: |
  export async function execute(args, { platform }) {
    const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
    if (args.beforeMs) await wait(args.beforeMs);
    const exists = (path) => platform.fs.readFile(path).then(() => true, () => false);
    let run = 0;
    while (await exists(`effects/${args.operation}.${run}`)) run += 1;
    await platform.fs.writeFile(`effects/${args.operation}.${run}`, "x");
    if (args.afterMs) await wait(args.afterMs);
    return "recorded";
  }
"#;

/// A tool whose result is labelled untrusted, as results of scripts are.
const UNTRUSTED_TOOL: &str = r#"
description: Returns a text of a stranger.
runtime: javascript
schema: {type: object}
code: |
  export async function execute() { return "a text of a stranger"; }
"#;

/// A tool that computes.
const WORK_TOOL: &str = r#"
description: Computes for some time.
runtime: javascript
schema: {type: object, properties: {rounds: {type: integer}}, required: [rounds]}
code: |
  export async function execute(args) {
    let sum = 0;
    for (let round = 0; round < args.rounds; round += 1) sum = (sum * 31 + round) % 1000003;
    return `${sum}`;
  }
"#;

/// The folder of a node: its workspace, and the settings, grants and cache of its user.
#[derive(Debug, Clone)]
pub struct NodeFolder {
    /// Name of the node.
    pub name: String,
    folder: PathBuf,
    program: PathBuf,
}

impl NodeFolder {
    /// Creates the folder of a node.
    pub fn create(
        parent: &Path,
        name: &str,
        program: &Path,
        settings: &Value,
    ) -> Result<Self, String> {
        let node = Self {
            name: name.to_owned(),
            folder: parent.join(name),
            program: program.to_owned(),
        };
        let failed = |error: std::io::Error| format!("{name}: {error}");
        let tools = node.workspace().join(".mimir/tools");
        let [effects, written] = ["effects", "written"].map(|name| node.workspace().join(name));
        for folder in [&tools, &effects, &written, &node.config()] {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        fs::write(node.workspace().join("notes.md"), "one two three\n").map_err(failed)?;
        for tool in script_tools() {
            let body = match tool {
                TestTool::Untrusted => UNTRUSTED_TOOL,
                TestTool::Work => WORK_TOOL,
                _ => EFFECT_TOOL,
            };
            let text = format!("name: {}{body}", tool.name());
            fs::write(tools.join(format!("{}.yml", tool.name())), text).map_err(failed)?;
        }
        fs::write(node.config().join("config.yml"), settings.to_string()).map_err(failed)?;
        let token = node.config().join("serve.token");
        fs::write(&token, format!("{TOKEN}\n")).map_err(failed)?;
        fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).map_err(failed)?;
        Ok(node)
    }

    /// Grants what the tools need, as a person does. Tools without effects need nothing.
    pub fn trust_tools(&self) -> Result<(), String> {
        for tool in script_tools().filter(|tool| tool.has_effect()) {
            let shown = self.mimir_output(&["tools", "info", tool.name(), "--json"])?;
            let shown: Value = serde_json::from_str(&shown).map_err(|error| error.to_string())?;
            let digest = shown["digest"].as_str().ok_or("a tool has no digest")?;
            self.mimir_output(&["tools", "trust", tool.name(), "--digest", digest])?;
        }
        Ok(())
    }

    /// Compiles the tools into the shared cache, so that the first calls of a run are not slower than the others.
    pub fn compile_tools(&self) -> Result<(), String> {
        for (tool, arguments) in [
            (TestTool::Read, r#"{"path": "notes.md"}"#),
            (TestTool::Write, r#"{"path": "x", "content": ""}"#),
            (TestTool::Effect, r#"{"operation": "compile"}"#),
        ] {
            self.mimir_output(&["call", tool.name(), arguments, "--approve", "always"])?;
        }
        Ok(())
    }

    /// Returns the workspace.
    pub fn workspace(&self) -> PathBuf {
        // The name of the folder is the name of the workspace.
        self.folder.join("workspace")
    }

    fn config(&self) -> PathBuf {
        self.folder.join("config")
    }

    /// Sets the folders of the node for a command that runs mimir.
    pub fn prepare(&self, command: &mut Command) {
        command
            .current_dir(self.workspace())
            .env("MIMIR_CONFIG_DIR", self.config())
            .env("MIMIR_CACHE_DIR", self.cache())
            .env("HOME", &self.folder)
            .env_remove("MIMIR_LOG")
            .env_remove("MIMIR_NATS");
    }

    /// Returns the cache of compiled code, which all nodes share: they are on one machine, and it is not tested here.
    fn cache(&self) -> PathBuf {
        let parent = self.folder.parent().unwrap_or(&self.folder);
        parent.join("cache")
    }

    /// Runs mimir on this node, outside of namespaces, and returns its output.
    pub fn mimir_output(&self, arguments: &[&str]) -> Result<String, String> {
        let mut command = Command::new(&self.program);
        self.prepare(&mut command);
        output_of(command.args(arguments))
    }

    /// Returns the effects in the workspace.
    pub fn effects(&self) -> Result<Vec<FoundEffect>, String> {
        let entries = fs::read_dir(self.workspace().join("effects"));
        let entries = entries.map_err(|error| format!("{}: {error}", self.name))?;
        let mut effects = Vec::new();
        for entry in entries {
            let name = entry.map_err(|error| error.to_string())?.file_name();
            let name = name.to_string_lossy().into_owned();
            // `OPERATION.RUN`; other files are those that a killed process was writing.
            if let Some((operation, run)) = name.rsplit_once('.')
                && run.parse::<u32>().is_ok()
            {
                effects.push(FoundEffect {
                    worker: self.name.clone(),
                    operation: operation.to_owned(),
                });
            }
        }
        effects.sort();
        Ok(effects)
    }
}

/// The tools that are scripts of the workspace.
fn script_tools() -> impl Iterator<Item = TestTool> {
    TestTool::ALL
        .into_iter()
        .filter(|tool| !tool.is_repeatable())
}

/// Returns the user's settings. `calls_per_minute` limits the limited tool.
pub fn settings(calls_per_minute: Option<usize>) -> Value {
    let mut tools = serde_json::Map::new();
    for tool in TestTool::ALL {
        let approval = match tool {
            TestTool::Approved => "ask",
            _ => "allow",
        };
        let trust = match tool {
            TestTool::Untrusted => "untrusted",
            _ => "user",
        };
        let accepts = tool != TestTool::Guarded;
        let mut entry = json!({
            "approval": approval,
            "labels": {"outputTrust": trust, "acceptsUntrusted": accepts},
        });
        if let (TestTool::Limited, Some(limit)) = (tool, calls_per_minute) {
            entry["limits"] = json!({"callsPerMinute": limit});
        }
        tools.insert(tool.name().to_owned(), entry);
    }
    // The load of the test is more than that of one agent.
    json!({"tools": tools, "limits": {"concurrent": 64}})
}
