//! A simulated person whose agent has started `mimir serve`: answers each prompt and records it.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::agent::Agent;

/// The agent and the prompts of its person.
pub struct Person {
    agent: Agent,
    /// The approval cards as they were shown.
    pub prompts: Vec<String>,
}

impl Person {
    /// Starts the agent with a server that this command starts.
    pub fn start(mut serve: Command) -> Self {
        serve.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut agent = Agent::attach(serve.stderr(Stdio::null()).spawn().unwrap());
        agent.hello(json!({"elicitation": {"form": {}}}));
        let prompts = Vec::new();
        Self { agent, prompts }
    }

    /// Calls a tool and returns the result. Prompts are approved for the session if that is offered, else once.
    pub fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let id = self
            .agent
            .send("tools/call", json!({"name": tool, "arguments": arguments}));
        loop {
            let mut message = self.agent.wait_for(|message| {
                message["method"] == "elicitation/create" || message["id"] == id
            });
            if message["method"] != "elicitation/create" {
                return message["result"].take();
            }
            let params = &message["params"];
            self.prompts
                .push(params["message"].as_str().unwrap().to_owned());
            let offered = &params["requestedSchema"]["properties"]["answer"]["enum"];
            let offered = offered.as_array().unwrap();
            let answer = match offered.contains(&json!("session")) {
                true => "session",
                false => "once",
            };
            let response = json!({"action": "accept", "content": {"answer": answer}});
            self.agent.answer(&message, response);
        }
    }

    /// Runs shell text; returns its exit code and output.
    pub fn shell(&mut self, text: &str) -> (i64, String) {
        let result = self.call("exec", json!({ "command": text }));
        let outcome = &result["structuredContent"];
        let code = outcome["exitCode"].as_i64();
        let code = code.unwrap_or_else(|| panic!("`{text}`: {result:#}"));
        let [out, err] = ["stdout", "stderr"].map(|key| outcome[key].as_str().unwrap());
        (code, format!("{out}{err}"))
    }

    /// Runs shell text that must succeed; returns its output.
    pub fn output(&mut self, text: &str) -> String {
        let (code, output) = self.shell(text);
        assert_eq!(code, 0, "`{text}`: {output}");
        output
    }

    /// Calls a tool that must succeed; returns its text.
    pub fn text(&mut self, tool: &str, arguments: Value) -> String {
        let result = self.call(tool, arguments);
        assert_eq!(result["isError"], false, "{result:#}");
        result["content"][0]["text"].as_str().unwrap().to_owned()
    }

    /// Ends the day and asserts the most prompts allowed.
    pub fn assert_prompts_at_most(&self, max: usize) {
        let all = self.prompts.join("\n\n");
        assert!(
            self.prompts.len() <= max,
            "{} questions:\n{all}",
            self.prompts.len()
        );
    }
}

/// Writes the person's settings for a workspace, and removes them when dropped.
pub struct Settings(std::path::PathBuf);

impl Settings {
    pub fn of(home: &Path, settings: &Value) -> Self {
        let folder = crate::kit::config(home);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("config.yml"), settings.to_string()).unwrap();
        Self(folder)
    }
}

impl Drop for Settings {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
