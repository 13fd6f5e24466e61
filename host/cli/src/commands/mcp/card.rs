//! What a server is, in lines for whoever is to say yes to it: what runs and where, what it is given, where it is
//! reached, and which secrets go there.
//!
//! Never here: whether it is taken.

use std::path::Path;

use mimir_core::config::{McpServer, SandboxMode};
use mimir_core::redact::Redactor;
use mimir_core::text::{prefix, visible};
use serde_json::Value;

/// Characters of a line. What is longer says so.
const LINE_MOST: usize = 400;

/// What stands in place of a credential.
const HIDDEN: &str = "[REDACTED]";

/// A block, in lines. One that describes no server has none.
pub fn lines(block: &Value) -> Vec<String> {
    let Ok(server) = serde_json::from_value::<McpServer>(block.clone()) else {
        return Vec::new();
    };
    let mut lines = Vec::new();
    if let Some(command) = &server.command {
        let words = std::iter::once(command).chain(&server.args);
        let words: Vec<String> = words.map(|word| quoted(word)).collect();
        lines.push(format!("runs {}", words.join(" ")));
        lines.push(match &server.cwd {
            Some(cwd) => format!("in {} of the workspace", quoted(cwd)),
            None => "in an empty folder of its own".to_owned(),
        });
        if server.sandbox == Some(SandboxMode::None) {
            lines.push("in no sandbox: with all that you may do".to_owned());
        }
        let given = server
            .env
            .iter()
            .map(|(name, value)| format!("{name}={value}"));
        lines.extend(given.map(|pair| format!("given {pair}")));
        for (name, value) in &server.env {
            lines.extend(secrets(value).map(|it| format!("your secret {it} goes to it as {name}")));
        }
        let open = server.sandbox == Some(SandboxMode::None)
            || server.env.values().any(|value| value.contains("${"));
        match server.workspace_code {
            Some(true) => lines.push(
                "may run what lies in the workspace: whoever writes a file there runs code as it"
                    .to_owned(),
            ),
            _ if open && server.cwd.is_some() => lines.push(
                "will not start so: without a sandbox, or with secrets, it may not start in the workspace; \
                 `workspaceCode: true` in its block takes the risk"
                    .to_owned(),
            ),
            _ => {}
        }
    }
    if let Some(url) = &server.url {
        lines.push(format!("reached at {}", self::url(url)));
        let host = host(url);
        for (name, value) in &server.headers {
            lines.push(match is_credential(name) && !value.contains("${") {
                true => format!("sent the header {name}, with a value that is not shown"),
                false => format!("sent the header {name}: {value}"),
            });
            lines.extend(secrets(value).map(|it| format!("your secret {it} goes to {host}")));
        }
    }
    if let Some(oauth) = &server.oauth {
        if let Some(issuer) = &oauth.issuer {
            lines.push(format!("logged in at by {issuer} alone"));
        }
        if let Some(client) = oauth
            .client_id
            .as_ref()
            .or(oauth.client_metadata_url.as_ref())
        {
            lines.push(format!("logged in at as the client {client}"));
        }
        let to = oauth.issuer.as_deref().unwrap_or_default();
        let named = oauth.secret_name();
        lines.extend(named.map(|it| format!("your secret {it} goes to {}", host(to))));
    }
    if !server.is_enabled() {
        lines.push("switched off".to_owned());
    }
    lines.into_iter().map(|line| shown(&line)).collect()
}

/// A block whose words name what lies in the workspace starts there, as it does with agents.
pub fn root(block: &mut Value, workspace: &Path) {
    if block["cwd"] != Value::Null || block["command"] == Value::Null {
        return;
    }
    let args = block["args"].as_array().into_iter().flatten();
    let words = std::iter::once(&block["command"]).chain(args);
    let mut words = words.filter_map(Value::as_str);
    // A plain word that happens to be the name of a file is none.
    let is_path = |word: &str| word.contains(['.', '/']) && !Path::new(word).is_absolute();
    if words.any(|word| is_path(word) && workspace.join(word).exists()) {
        block["cwd"] = ".".into();
    }
}

/// Words that can be shown: secrets in plain text are masked.
pub fn masked(words: &str) -> String {
    let mut words = visible(words);
    Redactor::new().text(&mut words);
    words
}

/// The words of a command that can be shown: without what follows an option that is named like a credential. Where
/// somebody is to say yes to them, all of them are shown.
pub fn words<'a>(words: impl IntoIterator<Item = &'a String>) -> Vec<String> {
    let mut hides = false;
    let each = words.into_iter().map(|word| {
        let option = word.starts_with('-');
        let hidden = std::mem::take(&mut hides) && !option;
        match word.split_once('=') {
            _ if hidden => HIDDEN.to_owned(),
            Some((name, _)) if option && is_credential(name) => format!("{name}={HIDDEN}"),
            _ => {
                hides = option && is_credential(word);
                url(word)
            }
        }
    });
    each.collect()
}

/// A URL that can be shown: without a login in it, and without what a parameter has that is named like one.
pub fn url(url: &str) -> String {
    let (head, query) = match url.split_once('?') {
        Some((head, query)) => (head, Some(query)),
        None => (url, None),
    };
    // What is no URL has no login before an `@`.
    let login = head.split_once("://").and_then(|(scheme, rest)| {
        let (place, path) = rest.split_at(rest.find(['/', '#']).unwrap_or(rest.len()));
        let (_, host) = place.rsplit_once('@')?;
        Some(format!("{scheme}://{HIDDEN}@{host}{path}"))
    });
    let mut shown = login.unwrap_or_else(|| head.to_owned());
    if let Some(query) = query {
        let each = query.split('&').map(|pair| match pair.split_once('=') {
            Some((name, value)) if is_credential(name) && !value.is_empty() => {
                format!("{name}={HIDDEN}")
            }
            _ => pair.to_owned(),
        });
        let pairs: Vec<String> = each.collect();
        shown.push('?');
        shown.push_str(&pairs.join("&"));
    }
    masked(&shown)
}

/// A line that can be shown: what is cut says so.
fn shown(line: &str) -> String {
    let line = masked(line);
    let head = prefix(&line, LINE_MOST);
    match head.len() < line.len() {
        true => format!(
            "{head}… and {} characters more",
            line[head.len()..].chars().count()
        ),
        false => line,
    }
}

fn quoted(word: &str) -> String {
    match word.is_empty() || word.contains(char::is_whitespace) {
        true => format!("'{word}'"),
        false => word.to_owned(),
    }
}

/// The names of secrets in a value.
fn secrets(value: &str) -> impl Iterator<Item = &str> {
    let parts = value.split("${").skip(1);
    parts.filter_map(|part| part.split_once('}').map(|(name, _)| name))
}

/// Whether a header is one that says who sends a request.
fn is_credential(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let words = ["auth", "cookie", "key", "token", "secret", "password"];
    words.iter().any(|word| name.contains(word))
}

fn host(url: &str) -> String {
    let target = mimir_core::network::Target::parse(url);
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
    fn a_card_says_what_runs_and_where_secrets_go() {
        let card = lines(&json!({
            "url": "https://evil.example/mcp", "headers": {"Authorization": "Bearer ${GITHUB_TOKEN}"},
        }));
        let card = card.join("\n");
        assert!(card.contains("https://evil.example/mcp"), "{card}");
        assert!(
            card.contains("your secret GITHUB_TOKEN goes to https://evil.example"),
            "{card}"
        );
        let card = lines(&json!({"url": "https://h.example/mcp", "oauth": {
            "issuer": "https://as.example/x", "clientId": "me", "clientSecret": "${KEY}"}}));
        let card = card.join("\n");
        assert!(card.contains("https://as.example/x alone"), "{card}");
        assert!(
            card.contains("your secret KEY goes to https://as.example"),
            "{card}"
        );
        let card = lines(&json!({
            "command": "npx", "args": ["-y", "a b\u{1b}[2J"], "sandbox": "none",
            "env": {"NODE_OPTIONS": "--require /x", "TOKEN": "${T}"},
        }));
        let card = card.join("\n");
        assert!(
            card.contains("runs npx -y 'a b") && !card.contains('\u{1b}'),
            "{card}"
        );
        assert!(
            card.contains("in an empty folder") && card.contains("in no sandbox"),
            "{card}"
        );
        assert!(card.contains("NODE_OPTIONS=--require /x"), "{card}");
        assert!(card.contains("your secret T goes to it as TOKEN"), "{card}");
        let plain = json!({"url": "https://h.example", "headers": {"Authorization": "Bearer sk-plain-1", "X-Kind": "a"}});
        let card = lines(&plain).join("\n");
        assert!(
            !card.contains("sk-plain-1") && card.contains("header Authorization, with a value"),
            "{card}"
        );
        assert!(card.contains("header X-Kind: a"), "{card}");
        let long = lines(&json!({"command": "sh", "args": ["-c", "x".repeat(1_000)]}));
        assert!(long[0].contains("characters more"), "{long:?}");
    }

    #[test]
    fn a_url_is_shown_without_what_lets_somebody_in() {
        for (theirs, expected) in [
            ("https://h.example/mcp?a=b#c", "https://h.example/mcp?a=b#c"),
            (
                "https://me:pw@h.example/x",
                "https://[REDACTED]@h.example/x",
            ),
            ("https://tok3n@h.example", "https://[REDACTED]@h.example"),
            (
                "https://h.example/mcp?api_key=abc&x=1&accessToken=d",
                "https://h.example/mcp?api_key=[REDACTED]&x=1&accessToken=[REDACTED]",
            ),
            (
                "https://h.example/@me?to=a@b",
                "https://h.example/@me?to=a@b",
            ),
        ] {
            assert_eq!(url(theirs), expected);
        }
    }

    #[test]
    fn words_are_shown_without_what_lets_somebody_in() {
        let shown = |list: &[&str]| {
            let list: Vec<String> = list.iter().map(|word| (*word).to_owned()).collect();
            words(&list).join(" ")
        };
        assert_eq!(
            shown(&[
                "npx",
                "-y",
                "@scope/server",
                "me@host",
                "--api-key",
                "abc",
                "--token=x",
                "-v",
                "b"
            ]),
            "npx -y @scope/server me@host --api-key [REDACTED] --token=[REDACTED] -v b"
        );
        assert_eq!(shown(&["--key", "--other", "x"]), "--key --other x");
    }

    #[test]
    fn words_that_name_what_is_in_the_workspace_are_meant_from_there() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("server.py"), "").unwrap();
        std::fs::write(folder.path().join("run"), "").unwrap();
        let cwd = |mut block: Value| {
            root(&mut block, folder.path());
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
