use super::*;
use serde_json::json;

fn environment(name: &str) -> Option<String> {
    let value = match name {
        "HOME" => "/home/me",
        "LEVEL" => "debug",
        "DATABASE" => "postgres://me:hunter2@db.example/x",
        "API_KEY" => "plain",
        "REFERS" => "${OTHER}",
        "HALF" => "{OTHER}",
        "SOCK_AUTH" => "/run/x",
        _ => return None,
    };
    Some(value.to_owned())
}

/// Expands a text in a slot. Returns the result and the hints.
fn expand(text: &str, slot: ValueSlot<'_>) -> (Result<String, Option<String>>, String) {
    let inputs = json!([
        {"id": "pin", "type": "promptString", "password": true},
        {"id": "region", "type": "promptString", "default": "eu"},
        {"id": "team", "type": "promptString"},
    ]);
    let mut expander = PlaceholderExpander {
        workspace: Path::new("/work/it"),
        home: Some(Path::new("/home/me")),
        variable: &environment,
        inputs: &inputs,
        file: "mcp.json",
        server: "web",
        here: ".".to_owned(),
        uses_here: false,
        hints: Vec::new(),
        secrets: Vec::new(),
    };
    let expanded = expander.expand(text, slot).map_err(|error| match error {
        ExpansionError::Fault(why) => Some(why),
        ExpansionError::Out => None,
    });
    let hints = expander.secrets.iter().map(ImportedSecret::hint);
    let hints: Vec<String> = expander.hints.iter().cloned().chain(hints).collect();
    (expanded, hints.join("\n"))
}

#[test]
fn placeholders_expand_folders_and_variables() {
    for (text, expected) in [
        ("${workspaceFolder}/server.js", "./server.js"),
        ("--root=${workspaceFolder}", "--root=."),
        ("${workspaceFolderBasename}", "it"),
        ("${userHome}${/}x", "/home/me/x"),
        ("${HOME}/x", "/home/me/x"),
        ("${env:HOME}", "/home/me"),
        ("${LEVEL}", "debug"),
        ("${LEVEL:-info}", "debug"),
        ("${SOCK_AUTH}", "/run/x"),
        ("${MISSING:-info}", "info"),
        ("a${MISSING:-}b", "ab"),
        ("${input:region}", "eu"),
        ("$5 {x} ${", "$5 {x} ${"),
    ] {
        for slot in [ValueSlot::Open("args"), ValueSlot::Variable("X")] {
            let (expanded, hints) = expand(text, slot);
            assert_eq!(expanded.as_deref(), Ok(expected), "{text}");
            assert_eq!(hints, "", "{text}");
        }
    }
}

#[test]
fn placeholders_with_secrets_become_references() {
    for (text, slot, expected) in [
        ("${API_KEY}", ValueSlot::Variable("X"), "${API_KEY}"),
        ("${env:API_KEY}", ValueSlot::Variable("X"), "${API_KEY}"),
        (
            "${MISSING}",
            ValueSlot::Variable("DB_PASSWORD"),
            "${MISSING}",
        ),
        ("${API_KEY:-none}", ValueSlot::Variable("X"), "${API_KEY}"),
        ("${DATABASE}", ValueSlot::Variable("X"), "${DATABASE}"),
        ("Bearer ${LEVEL}", ValueSlot::Header("X"), "Bearer ${LEVEL}"),
        ("${input:pin}", ValueSlot::Variable("X"), "${PIN}"),
        ("${input:api-key}", ValueSlot::Header("X"), "${API_KEY}"),
        // Plain-text secrets.
        ("hunter2", ValueSlot::Variable("apiKey"), "${APIKEY}"),
        (
            "Bearer hunter2",
            ValueSlot::Header("Authorization"),
            "Bearer ${WEB_AUTHORIZATION}",
        ),
        ("postgres://me:x@db", ValueSlot::Variable("X"), "${X}"),
        (
            "postgres://me:${LEVEL}@db",
            ValueSlot::Variable("X"),
            "${X}",
        ),
    ] {
        let (expanded, hints) = expand(text, slot);
        assert_eq!(expanded.as_deref(), Ok(expected), "{text}");
        assert!(hints.contains("mimir secrets set "), "{text}: {hints}");
        assert!(
            !hints.contains("hunter2") && !hints.contains("plain\""),
            "{hints}"
        );
    }
    // Names that only resemble names of secrets.
    for name in ["KEYBOARD", "MAX_TOKENS", "AUTHOR", "MONKEY", "PWD"] {
        let (expanded, hints) = expand("x", ValueSlot::Variable(name));
        assert_eq!(
            (expanded.as_deref(), hints.as_str()),
            (Ok("x"), ""),
            "{name}"
        );
    }
}

#[test]
fn placeholders_that_cannot_be_resolved_are_reported() {
    for (text, words) in [
        ("${MISSING}", "`MISSING`, which is not set here"),
        ("${input:team}", "VS Code asks for"),
        (
            "${command:pick}",
            "`${command:pick}`, which mimir does not support",
        ),
        (
            "${NOPE:-${GITHUB_TOKEN}}",
            "with another variable as its default",
        ),
        (
            "a${NOPE:-b${GITHUB_TOKEN}c}d",
            "with another variable as its default",
        ),
        ("${REFERS}", "a value with `${…}` in it"),
        ("$${HALF}", "a value with `${…}` in it"),
    ] {
        let (expanded, hints) = expand(text, ValueSlot::Variable("X"));
        assert_eq!(expanded, Err(None), "{text}");
        assert!(
            hints.contains("`X` is left out") && hints.contains(words),
            "{hints}"
        );
        // An argument cannot be left out of a command line.
        let (expanded, _) = expand(text, ValueSlot::Open("args"));
        assert!(
            expanded
                .as_ref()
                .is_err_and(|why| why.as_ref().is_some_and(|why| why.contains(words))),
            "{expanded:?}"
        );
    }
    let (expanded, _) = expand("--key=${API_KEY}", ValueSlot::Open("args"));
    let why = expanded.unwrap_err().unwrap();
    assert!(
        why.contains("the secret `API_KEY`") && !why.contains("plain"),
        "{why}"
    );
}

#[test]
fn placeholder_variable_with_a_path_is_not_a_secret() {
    for (name, path) in [("SSH_AUTH_SOCK", "/run/x"), ("PUBLIC_KEY_PATH", "/x/y.pem")] {
        let (expanded, hints) = expand(path, ValueSlot::Variable(name));
        assert_eq!(
            (expanded.as_deref(), hints.as_str()),
            (Ok(path), ""),
            "{name}"
        );
    }
}

#[test]
fn placeholder_next_to_a_plain_secret_is_refused() {
    let text = "ghp_Zx8Kq2Lm9Rt4Vw7Yp3Bn6Hc1Jd5Fs0Ga2QeU ${API_KEY}";
    let (expanded, hints) = expand(text, ValueSlot::Variable("X"));
    assert_eq!(expanded, Err(None));
    assert!(
        hints.contains("secret in plain text") && !hints.contains("ghp_"),
        "{hints}"
    );
}
