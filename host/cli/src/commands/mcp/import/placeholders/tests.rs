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

/// What comes of a text in this place, and the hints.
fn told(text: &str, place: ValueSlot<'_>) -> (Result<String, Option<String>>, String) {
    let inputs = json!([
        {"id": "pin", "type": "promptString", "password": true},
        {"id": "region", "type": "promptString", "default": "eu"},
        {"id": "team", "type": "promptString"},
    ]);
    let mut words = PlaceholderExpander {
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
    let taken = words.expand(text, place).map_err(|left| match left {
        ExpansionError::Fault(why) => Some(why),
        ExpansionError::Out => None,
    });
    let hints = words.secrets.iter().map(ImportedSecret::hint);
    let hints: Vec<String> = words.hints.iter().cloned().chain(hints).collect();
    (taken, hints.join("\n"))
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
        for place in [ValueSlot::Open("args"), ValueSlot::Variable("X")] {
            let (taken, hints) = told(text, place);
            assert_eq!(taken.as_deref(), Ok(expected), "{text}");
            assert_eq!(hints, "", "{text}");
        }
    }
}

#[test]
fn placeholders_of_secrets_stay_references() {
    for (text, place, expected) in [
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
        // In plain text.
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
        let (taken, hints) = told(text, place);
        assert_eq!(taken.as_deref(), Ok(expected), "{text}");
        assert!(hints.contains("mimir secrets set "), "{text}: {hints}");
        assert!(
            !hints.contains("hunter2") && !hints.contains("plain\""),
            "{hints}"
        );
    }
    // Names that only look like one.
    for name in ["KEYBOARD", "MAX_TOKENS", "AUTHOR", "MONKEY", "PWD"] {
        let (taken, hints) = told("x", ValueSlot::Variable(name));
        assert_eq!((taken.as_deref(), hints.as_str()), (Ok("x"), ""), "{name}");
    }
}

#[test]
fn placeholders_that_cannot_be_resolved_are_reported() {
    for (text, words) in [
        ("${MISSING}", "`MISSING`, which is not set here"),
        ("${input:team}", "VS Code asks for"),
        (
            "${command:pick}",
            "`${command:pick}`, which mimir does not know",
        ),
        ("${NOPE:-${GITHUB_TOKEN}}", "or else of another variable"),
        (
            "a${NOPE:-b${GITHUB_TOKEN}c}d",
            "or else of another variable",
        ),
        ("${REFERS}", "a value with `${…}` in it"),
        ("$${HALF}", "a value with `${…}` in it"),
    ] {
        let (taken, hints) = told(text, ValueSlot::Variable("X"));
        assert_eq!(taken, Err(None), "{text}");
        assert!(
            hints.contains("`X` is left out") && hints.contains(words),
            "{hints}"
        );
        // A command line without it is another one.
        let (taken, _) = told(text, ValueSlot::Open("args"));
        assert!(
            taken
                .as_ref()
                .is_err_and(|why| why.as_ref().is_some_and(|why| why.contains(words))),
            "{taken:?}"
        );
    }
    let (taken, _) = told("--key=${API_KEY}", ValueSlot::Open("args"));
    let why = taken.unwrap_err().unwrap();
    assert!(
        why.contains("the secret `API_KEY`") && !why.contains("plain"),
        "{why}"
    );
}

#[test]
fn placeholder_variable_with_a_path_is_not_a_secret() {
    for (name, path) in [("SSH_AUTH_SOCK", "/run/x"), ("PUBLIC_KEY_PATH", "/x/y.pem")] {
        let (taken, hints) = told(path, ValueSlot::Variable(name));
        assert_eq!((taken.as_deref(), hints.as_str()), (Ok(path), ""), "{name}");
    }
}

#[test]
fn placeholder_next_to_a_plain_secret_is_refused() {
    let text = "ghp_Zx8Kq2Lm9Rt4Vw7Yp3Bn6Hc1Jd5Fs0Ga2QeU ${API_KEY}";
    let (taken, hints) = told(text, ValueSlot::Variable("X"));
    assert_eq!(taken, Err(None));
    assert!(
        hints.contains("secret in plain text") && !hints.contains("ghp_"),
        "{hints}"
    );
}
