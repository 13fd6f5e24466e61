//! The entries of `allowed-tools`, mapped to permissions of mimir's tools.

use mimir_core::command::CommandPattern;
use mimir_core::network::RequestTarget;
use mimir_core::skill_grant::SkillPermission;
use mimir_core::text::{prefix, visible};

/// Maximum number of entries that are looked at.
const MAX_ENTRIES: usize = 64;

/// Maximum number of characters of an entry in messages.
const MAX_SHOWN: usize = 120;

/// Names of tools in other agents, with the tool of mimir that does the same.
const EQUIVALENTS: [(&str, &str); 10] = [
    ("Read", "read_file"),
    ("Glob", "file_search"),
    ("Grep", "file_search"),
    ("LS", "list_directory"),
    ("Write", "write_file"),
    ("Edit", "edit_file"),
    ("MultiEdit", "edit_file"),
    ("NotebookEdit", "edit_file"),
    ("WebSearch", "web_search"),
    ("Skill", "load_skill"),
];

/// Tools of mimir that a skill can request by their own name. Tools that run code or commands, and those that ask each
/// time, are not among them.
const OWN_NAMES: [&str; 10] = [
    "read_file",
    "read_document",
    "file_info",
    "file_search",
    "search_code",
    "list_directory",
    "write_file",
    "edit_file",
    "apply_patch",
    "web_search",
];

/// Programs that run other commands, so that a pattern for them would allow every command.
const COMMAND_RUNNERS: [&str; 37] = [
    "sh",
    "bash",
    "zsh",
    "dash",
    "ash",
    "ksh",
    "fish",
    "csh",
    "tcsh",
    "pwsh",
    "powershell",
    "cmd",
    "sudo",
    "doas",
    "su",
    "env",
    "xargs",
    "eval",
    "exec",
    "command",
    "builtin",
    "source",
    ".",
    "nohup",
    "time",
    "timeout",
    "nice",
    "setsid",
    "stdbuf",
    "watch",
    "parallel",
    "busybox",
    "ssh",
    "find",
    "docker",
    "podman",
    "nerdctl",
];

/// One entry of `allowed-tools`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolRequest {
    /// The entry as the author wrote it, without control characters.
    pub entry: String,
    /// The permission that it requests, or the reason why it is ignored.
    pub permission: Result<SkillPermission, &'static str>,
}

impl ToolRequest {
    /// Maps the entries. An entry that mimir cannot map, or that would allow everything, is ignored with a reason.
    pub fn from_entries(entries: &[String]) -> Vec<Self> {
        let requests = entries.iter().enumerate().map(|(at, entry)| Self {
            entry: visible(prefix(entry, MAX_SHOWN)),
            permission: if at >= MAX_ENTRIES {
                Err("more entries than a person can review")
            } else if entry.chars().count() > MAX_SHOWN || visible(entry) != *entry {
                Err("too long, or with control characters")
            } else {
                permission(entry)
            },
        });
        requests.take(MAX_ENTRIES + 1).collect()
    }

    /// Describes the permission in one line.
    pub fn describe(&self) -> String {
        match &self.permission {
            Ok(SkillPermission::Tool(tool)) => format!("`{tool}` without a question"),
            Ok(SkillPermission::ServerTool { server, tool }) => {
                format!("the tool `{tool}` of the MCP server `{server}` without a question")
            }
            Ok(SkillPermission::Command(pattern)) => {
                format!("commands `{pattern}` without a question")
            }
            Ok(SkillPermission::Host(host)) => {
                format!("`web_fetch` of https://{host} without a question")
            }
            Err(why) => format!("ignored: {why}"),
        }
    }
}

fn permission(entry: &str) -> Result<SkillPermission, &'static str> {
    let (name, argument) = match entry.split_once('(') {
        Some((name, rest)) => match rest.strip_suffix(')') {
            Some(argument) => (name, Some(argument.trim())),
            None => return Err("its parentheses do not match"),
        },
        None => (entry, None),
    };
    match (name, argument) {
        ("Bash" | "exec", Some(pattern)) => command(pattern),
        ("Bash" | "exec", None) => Err(EVERY_COMMAND),
        ("WebFetch" | "web_fetch", Some(argument)) => host(argument),
        ("WebFetch" | "web_fetch", None) => {
            Err("it would allow every host: name one, as in WebFetch(domain:docs.example.com)")
        }
        ("Skill", Some(_)) => Ok(SkillPermission::Tool("load_skill".to_owned())),
        (_, Some(_)) => Err("mimir grants this tool without arguments only"),
        (name, None) if name.starts_with("mcp__") => server_tool(name),
        (name, None) => {
            let equivalent = EQUIVALENTS.iter().find(|(known, _)| *known == name);
            let own = OWN_NAMES.iter().find(|known| **known == name);
            let tool = equivalent.map(|(_, tool)| tool).or(own);
            tool.map(|tool| SkillPermission::Tool((*tool).to_owned()))
                .ok_or("not a tool that mimir grants to skills")
        }
    }
}

const EVERY_COMMAND: &str = "it would allow every command: name programs, as in Bash(git:*)";

/// Maps `git:*`, `git add:*`, `git add *` and `git status`.
fn command(argument: &str) -> Result<SkillPermission, &'static str> {
    let pattern = match argument.strip_suffix(":*") {
        Some(start) => format!("{} *", start.trim_end()),
        None => argument.to_owned(),
    };
    let program = pattern.split_whitespace().next().unwrap_or_default();
    if program.is_empty() || program.contains(['*', '?', '[', '{']) {
        return Err(EVERY_COMMAND);
    }
    let base = program.rsplit(['/', '\\']).next().unwrap_or_default();
    let base = base.strip_suffix(".exe").unwrap_or(base);
    if COMMAND_RUNNERS
        .iter()
        .any(|runner| base.eq_ignore_ascii_case(runner))
    {
        return Err("its program runs any other command");
    }
    if pattern.contains(['|', '&', ';', '<', '>', '$', '`', '(', ')', '\n']) {
        return Err("it is more than one simple command");
    }
    match CommandPattern::parse(&pattern) {
        Ok(pattern) => Ok(SkillPermission::Command(pattern.as_str().to_owned())),
        Err(_) => Err("it is not a valid command pattern"),
    }
}

fn host(argument: &str) -> Result<SkillPermission, &'static str> {
    let invalid = "expected one host, as in WebFetch(domain:docs.example.com)";
    let host = argument.strip_prefix("domain:").ok_or(invalid)?.trim();
    let is_name = !host.is_empty()
        && host.contains('.')
        && host
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-'));
    let target = RequestTarget::parse(&format!("https://{host}")).map_err(|_| invalid)?;
    if !is_name || target.origin().to_string() != format!("https://{}", host.to_ascii_lowercase()) {
        return Err(invalid);
    }
    Ok(SkillPermission::Host(host.to_ascii_lowercase()))
}

fn server_tool(name: &str) -> Result<SkillPermission, &'static str> {
    let mut parts = name.splitn(3, "__").skip(1);
    match (parts.next(), parts.next()) {
        (Some(server), Some(tool)) if !server.is_empty() && !tool.is_empty() && tool != "*" => {
            Ok(SkillPermission::ServerTool {
                server: server.to_owned(),
                tool: tool.to_owned(),
            })
        }
        _ => Err("it would allow every tool of the server: name one, as in mcp__files__search"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(entry: &str) -> Result<SkillPermission, &'static str> {
        let [request] = &ToolRequest::from_entries(&[entry.to_owned()])[..] else {
            panic!("expected one request")
        };
        request.permission.clone()
    }

    #[test]
    fn tool_requests_are_mapped_to_tools_of_mimir() {
        let tool = |name: &str| SkillPermission::Tool(name.to_owned());
        let command = |pattern: &str| SkillPermission::Command(pattern.to_owned());
        for (entry, permission) in [
            ("Read", tool("read_file")),
            ("Grep", tool("file_search")),
            ("Write", tool("write_file")),
            ("Edit", tool("edit_file")),
            ("apply_patch", tool("apply_patch")),
            ("Skill(other)", tool("load_skill")),
            ("Bash(git:*)", command("git *")),
            ("Bash(git add:*)", command("git add *")),
            ("Bash(git  status)", command("git status")),
            ("exec(npm test *)", command("npm test *")),
            (
                "WebFetch(domain:Docs.Example.com)",
                SkillPermission::Host("docs.example.com".to_owned()),
            ),
            (
                "mcp__files__search_all",
                SkillPermission::ServerTool {
                    server: "files".to_owned(),
                    tool: "search_all".to_owned(),
                },
            ),
        ] {
            assert_eq!(map(entry), Ok(permission), "{entry}");
        }
    }

    #[test]
    fn tool_requests_for_everything_are_ignored() {
        for entry in [
            "Bash",
            "Bash(*)",
            "Bash(:*)",
            "Bash()",
            "Bash(g*t push)",
            "Bash(bash:*)",
            "Bash(/bin/sh:*)",
            "Bash(sudo git:*)",
            "Bash(env:*)",
            "Bash(xargs:*)",
            "Bash(find:*)",
            "Bash(docker run:*)",
            "Bash(podman:*)",
            "Bash(git status; curl x)",
            "Bash(git $(x))",
            "Bash(git:*",
            "WebFetch",
            "WebFetch(domain:*)",
            "WebFetch(domain:*.example.com)",
            "WebFetch(domain:a.example:8443)",
            "WebFetch(domain:a.example/x)",
            "WebFetch(domain:localhost)",
            "WebFetch(https://a.example)",
            "mcp__files",
            "mcp__files__*",
            "mcp____x",
            "Write(/etc/passwd)",
            "Task",
            "run_code",
            "delete_file",
            "install_package",
            "*",
            "Read\u{202e}",
        ] {
            assert!(map(entry).is_err(), "{entry}");
        }
        let many = vec!["Read".to_owned(); 1_000];
        let requests = ToolRequest::from_entries(&many);
        assert_eq!(requests.len(), MAX_ENTRIES + 1);
        assert!(requests.last().is_some_and(|last| last.permission.is_err()));
    }
}
