//! Description of a server for the user who decides about it: the program and its folder, its inputs, its network
//! access and its secrets.
//!
//! Out of scope: the decision.

use std::collections::BTreeSet;
use std::path::Path;

use mimir_core::config::{McpServerSettings, SandboxMode};
use mimir_core::text::prefix;
use mimir_process::inherited_env;
use serde_json::Value;

use super::secret_detection;
use crate::arguments::quote_for_shell;

/// Maximum length of a line in characters; a longer line is cut, with a note.
const MAX_LINE_CHARS: usize = 400;

/// Describes a settings block; empty if the block is not a valid server.
pub fn block_lines(block: &Value) -> Vec<String> {
    match serde_json::from_value::<McpServerSettings>(block.clone()) {
        Ok(server) => server_lines(&server),
        Err(_) => Vec::new(),
    }
}

/// Describes a server in several lines, with credentials masked.
pub fn server_lines(server: &McpServerSettings) -> Vec<String> {
    let mut lines = Vec::new();
    if server.command.is_some() || server.package.is_some() {
        let words = server.command.iter().chain(&server.args);
        let words = secret_detection::mask_words(words);
        let words: Vec<String> = words.iter().map(|word| quote_for_shell(word)).collect();
        let is_unsandboxed = server.sandbox == Some(SandboxMode::None);
        match &server.package {
            Some(package) => {
                let words = [std::slice::from_ref(&package.program), &words[..]].concat();
                lines.push(format!("runs {} of the package {package}", words.join(" ")));
                lines.push(format!("pinned to {}", package.integrity));
                if package.install_scripts {
                    lines.push(
                        "its install scripts ran in a sandbox during the download".to_owned(),
                    );
                }
                if !is_unsandboxed {
                    lines.push("in a sandbox, with a home of its own".to_owned());
                }
            }
            None => {
                lines.push(format!("runs {}", words.join(" ")));
                lines.push(match &server.cwd {
                    Some(cwd) => format!("in {} of the workspace", quote_for_shell(cwd)),
                    None => "in an empty folder of its own".to_owned(),
                });
            }
        }
        if is_unsandboxed {
            lines.push("without a sandbox: with all of your permissions".to_owned());
            lines.extend(inherited_variable_lines());
        } else {
            lines.push(network_line(server));
        }
        let folders = server.launch_folders().unwrap_or_default();
        for folder in folders.iter().filter(|_| !is_unsandboxed) {
            let may = if folder.writable {
                "read and change"
            } else {
                "read"
            };
            lines.push(match folder.path.as_str() {
                "." => format!("may {may} the whole workspace"),
                path => format!("may {may} {} of the workspace", quote_for_shell(path)),
            });
        }
        if server.package.is_some() && folders.is_empty() && !is_unsandboxed {
            lines.push("no access to the workspace".to_owned());
        }
        for mount in &server.bind_mounts {
            let may = if mount.writable {
                "read and change"
            } else {
                "read"
            };
            lines.push(format!("may {may} {}", quote_for_shell(&mount.from)));
        }
        let given = server.env.iter();
        lines.extend(given.map(|(name, value)| {
            if secret_detection::value_has_secret(name, value) {
                format!("given {name}, with a value that is not shown")
            } else {
                format!("given {name}={value}")
            }
        }));
        for (name, value) in &server.env {
            lines.extend(
                secret_names(value).map(|it| format!("your secret {it} goes to it as {name}")),
            );
        }
        let open = server.sandbox == Some(SandboxMode::None)
            || server.env.values().any(|value| value.contains("${"));
        match server.workspace_code {
            Some(true) => lines.push(
                "may run files from the workspace: anyone who can write there can run code as this server"
                    .to_owned(),
            ),
            _ if open && server.cwd.is_some() && server.package.is_none() => lines.push(
                "will not start: a server without a sandbox, or with secrets, may not start in the workspace; \
                 set `workspaceCode: true` in its block to accept the risk"
                    .to_owned(),
            ),
            _ => {}
        }
    }
    if let Some(url) = &server.url {
        lines.push(format!("reached at {}", secret_detection::mask_text(url)));
        let host = host(url);
        for (name, value) in &server.headers {
            lines.push(if secret_detection::value_has_secret(name, value) {
                format!("sent the header {name}, with a value that is not shown")
            } else {
                format!("sent the header {name}: {value}")
            });
            lines.extend(secret_names(value).map(|it| format!("your secret {it} goes to {host}")));
        }
    }
    if let Some(oauth) = &server.oauth {
        if let Some(issuer) = &oauth.issuer {
            lines.push(format!("its only authorization server is {issuer}"));
        }
        if let Some(client) = oauth
            .client_id
            .as_ref()
            .or(oauth.client_metadata_url.as_ref())
        {
            lines.push(format!("logs in with the client ID {client}"));
        }
        let to = oauth.issuer.as_deref().unwrap_or_default();
        let named = oauth.secret_name();
        lines.extend(named.map(|it| format!("your secret {it} goes to {}", host(to))));
    }
    if !server.is_enabled() {
        lines.push("switched off".to_owned());
    }
    lines
        .into_iter()
        .map(|line| printable_line(&line))
        .collect()
}

/// Describes the network access from the server's sandbox.
fn network_line(server: &McpServerSettings) -> String {
    match (server.network.is_empty(), server.network_access) {
        (false, _) => {
            let hosts: Vec<&str> = server.network.iter().map(String::as_str).collect();
            if hosts.contains(&"*") {
                "reaches every public network host".to_owned()
            } else {
                format!("reaches these network hosts: {}", hosts.join(", "))
            }
        }
        (true, Some(true)) => "reaches the hosts of `network.allowedHosts`".to_owned(),
        (true, _) => "reaches no network".to_owned(),
    }
}

/// Describes the network variables, such as proxies, that a program without a sandbox inherits.
fn inherited_variable_lines() -> Vec<String> {
    let (passed, withheld): (Vec<_>, Vec<_>) = inherited_env::variables()
        .into_iter()
        .partition(|variable| variable.value.is_some());
    let names = |all: Vec<inherited_env::AmbientVariable>| {
        let names: Vec<String> = all.into_iter().map(|variable| variable.name).collect();
        names.join(", ")
    };
    let mut lines = Vec::new();
    if !passed.is_empty() {
        lines.push(format!("given your variables {}", names(passed)));
    }
    if !withheld.is_empty() {
        lines.push(format!(
            "not given your variables {}, which contain credentials: `--env` passes one by name",
            names(withheld)
        ));
    }
    lines
}

/// Sets the start folder of a block to the workspace if its command line names workspace files, as agents do.
pub fn set_workspace_root(block: &mut Value, workspace: &Path) {
    if block["cwd"] != Value::Null || block["command"] == Value::Null {
        return;
    }
    let args = block["args"].as_array().into_iter().flatten();
    let words = std::iter::once(&block["command"]).chain(args);
    let mut words = words.filter_map(Value::as_str);
    // A plain word that happens to be a file name does not count.
    let is_path = |word: &str| word.contains(['.', '/']) && !Path::new(word).is_absolute();
    if words.any(|word| is_path(word) && workspace.join(word).exists()) {
        block["cwd"] = ".".into();
    }
}

/// Returns the names of the secrets that these servers receive.
pub fn secrets_of<'a>(servers: impl Iterator<Item = &'a McpServerSettings>) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for server in servers {
        let values = server.env.values().chain(server.headers.values());
        all.extend(
            values
                .flat_map(|value| secret_names(value))
                .map(str::to_owned),
        );
        let login = server.oauth.as_ref().and_then(|oauth| oauth.secret_name());
        all.extend(login.map(str::to_owned));
    }
    all
}

/// Masks secrets in a line, makes the line printable, and cuts it to [`MAX_LINE_CHARS`].
fn printable_line(line: &str) -> String {
    let line = secret_detection::mask_secrets(line);
    let head = prefix(&line, MAX_LINE_CHARS);
    if head.len() < line.len() {
        format!(
            "{head}… and {} more characters",
            line[head.len()..].chars().count()
        )
    } else {
        line
    }
}

/// Returns the names of the secrets that a value refers to.
fn secret_names(value: &str) -> impl Iterator<Item = &str> {
    let parts = value.split("${").skip(1);
    parts.filter_map(|part| part.split_once('}').map(|(name, _)| name))
}

fn host(url: &str) -> String {
    let target = mimir_core::network::RequestTarget::parse(url);
    target.map_or_else(
        |_| "no host".to_owned(),
        |target| target.origin().to_string(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn server_card_shows_the_command_and_where_secrets_go() {
        let card = block_lines(&json!({
            "url": "https://evil.example/mcp", "headers": {"Authorization": "Bearer ${GITHUB_TOKEN}"},
        }));
        let card = card.join("\n");
        assert!(card.contains("https://evil.example/mcp"), "{card}");
        assert!(
            card.contains("your secret GITHUB_TOKEN goes to https://evil.example"),
            "{card}"
        );
        let card = block_lines(&json!({"url": "https://h.example/mcp", "oauth": {
            "issuer": "https://as.example/x", "clientId": "me", "clientSecret": "${KEY}"}}));
        let card = card.join("\n");
        assert!(
            card.contains("its only authorization server is https://as.example/x"),
            "{card}"
        );
        assert!(
            card.contains("your secret KEY goes to https://as.example"),
            "{card}"
        );
        let card = block_lines(&json!({
            "command": "npx", "args": ["-y", "a b\u{1b}[2J"], "sandbox": "none",
            "env": {"NODE_OPTIONS": "--require /x", "TOKEN": "${T}"},
        }));
        let card = card.join("\n");
        assert!(
            card.contains("runs npx -y 'a b") && !card.contains('\u{1b}'),
            "{card}"
        );
        assert!(
            card.contains("in an empty folder") && card.contains("without a sandbox"),
            "{card}"
        );
        assert!(card.contains("NODE_OPTIONS=--require /x"), "{card}");
        assert!(card.contains("your secret T goes to it as TOKEN"), "{card}");
        let plain = json!({"url": "https://h.example", "headers": {"Authorization": "Bearer sk-plain-1", "X-Kind": "a"}});
        let card = block_lines(&plain).join("\n");
        assert!(
            !card.contains("sk-plain-1") && card.contains("header Authorization, with a value"),
            "{card}"
        );
        assert!(card.contains("header X-Kind: a"), "{card}");
        let long = block_lines(&json!({"command": "sh", "args": ["-c", "x".repeat(1_000)]}));
        assert!(long[0].contains("more characters"), "{long:?}");
    }

    #[test]
    fn server_cwd_is_the_workspace_for_arguments_inside_it() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("server.py"), "").unwrap();
        std::fs::write(folder.path().join("run"), "").unwrap();
        let cwd = |mut block: Value| {
            set_workspace_root(&mut block, folder.path());
            block["cwd"].clone()
        };
        assert_eq!(
            cwd(json!({"command": "python3", "args": ["server.py"]})),
            "."
        );
        assert_eq!(cwd(json!({"command": "./server.py"})), ".");
        assert_eq!(cwd(json!({"command": "uv", "args": ["run"]})), Value::Null);
        assert_eq!(
            cwd(json!({"command": "x", "args": ["server.py"], "cwd": "sub"})),
            "sub"
        );
        assert_eq!(cwd(json!({"url": "https://h"})), Value::Null);
    }
}
