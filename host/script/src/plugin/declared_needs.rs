//! Parsing of the needs that a tool in a module declares, in full or as a string for the defaults.

use mimir_core::needs::{CommandNeed, DirectoryAccess, FileNeed, HostNeed, Needs, SecretNeed};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct DeclaredNeeds {
    files: Vec<Value>,
    hosts: Vec<Value>,
    commands: Vec<Value>,
    secrets: Vec<DeclaredSecret>,
    variables: Vec<String>,
    tools: Vec<String>,
    model: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DeclaredFile {
    path: String,
    #[serde(default = "default_access")]
    access: DirectoryAccess,
    #[serde(default)]
    reason: String,
}

fn default_access() -> DirectoryAccess {
    DirectoryAccess::Read
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DeclaredHost {
    host: String,
    #[serde(default = "default_methods")]
    methods: Vec<String>,
    #[serde(default)]
    reason: String,
}

fn default_methods() -> Vec<String> {
    vec!["GET".to_owned()]
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DeclaredCommand {
    pattern: String,
    #[serde(default)]
    reason: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DeclaredSecret {
    name: String,
    host: String,
    header: String,
    #[serde(default)]
    reason: String,
}

/// Parses the declared needs of a tool. Errors name the key.
pub(super) fn parse_needs(value: &Value) -> Result<Needs, String> {
    if !value.is_object() {
        return Err("`needs` is not an object: write it like `{ files: [\".\"] }`".to_owned());
    }
    let declared: DeclaredNeeds =
        serde_json::from_value(value.clone()).map_err(|error| format!("`needs`: {error}"))?;
    let files = parse_each("files", "path", declared.files)?;
    let hosts = parse_each("hosts", "host", declared.hosts)?;
    let commands = parse_each("commands", "pattern", declared.commands)?;
    Ok(Needs {
        // Only the user can grant environment variables.
        environment: std::collections::BTreeMap::new(),
        config: std::collections::BTreeMap::new(),
        files: files
            .into_iter()
            .map(
                |DeclaredFile {
                     path,
                     access,
                     reason,
                 }| FileNeed {
                    path,
                    access,
                    reason,
                },
            )
            .collect(),
        hosts: hosts
            .into_iter()
            .map(
                |DeclaredHost {
                     host,
                     methods,
                     reason,
                 }| HostNeed {
                    host,
                    methods,
                    reason,
                },
            )
            .collect(),
        commands: commands
            .into_iter()
            .map(|DeclaredCommand { pattern, reason }| CommandNeed { pattern, reason })
            .collect(),
        secrets: declared
            .secrets
            .into_iter()
            .map(|secret| SecretNeed {
                name: secret.name,
                host: secret.host,
                header: secret.header,
                reason: secret.reason,
            })
            .collect(),
        variables: declared.variables,
        tools: declared.tools,
        model: declared.model,
    })
}

/// Parses the needs of one kind. A string stands for an object with only `key`.
fn parse_each<T: for<'a> Deserialize<'a>>(
    kind: &str,
    key: &str,
    entries: Vec<Value>,
) -> Result<Vec<T>, String> {
    let objects = entries.into_iter().map(|entry| match entry {
        Value::String(text) => Ok(json!({ key: text })),
        Value::Object(_) => Ok(entry),
        _ => Err(format!(
            "`needs.{kind}`: each entry must be a string or an object"
        )),
    });
    objects
        .map(|entry| {
            serde_json::from_value(entry?).map_err(|error| format!("`needs.{kind}`: {error}"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needs_accept_strings_as_shorthand() {
        let needs = parse_needs(&json!({
            "files": ["src", {"path": ".", "access": "read-write", "reason": "it formats"}],
            "hosts": ["api.example.com"],
            "commands": ["git status *"],
            "model": true,
        }))
        .unwrap();
        assert_eq!(needs.files[0].access, DirectoryAccess::Read);
        assert_eq!(needs.files[1].access, DirectoryAccess::ReadWrite);
        assert_eq!(needs.hosts[0].methods, ["GET"]);
        assert_eq!(needs.commands[0].pattern, "git status *");
        assert!(needs.model && needs.tools.is_empty());
    }

    #[test]
    fn needs_errors_name_the_key() {
        for (value, expected) in [
            (json!({"file": ["."]}), "unknown field `file`"),
            (
                json!({"files": [{"path": ".", "access": "all"}]}),
                "needs.files",
            ),
            (json!({"hosts": [1]}), "needs.hosts"),
            (
                json!({"commands": [{"pattern": "x", "shell": true}]}),
                "shell",
            ),
            (json!([]), "needs"),
        ] {
            let error = parse_needs(&value).unwrap_err();
            assert!(error.contains(expected), "{value}: {error}");
        }
    }
}
