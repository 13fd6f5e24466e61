//! Expansion of the placeholders in agents' files: folders, environment variables and inputs. Each is expanded once, on
//! import.
//!
//! A secret is never written to mimir's settings: a reference to its name is written instead, with a hint on how to
//! store the value.
//!
//! Out of scope: file formats.

use std::path::Path;

use mimir_core::files::{self, LinkPolicy};
use mimir_core::text::{prefix, visible};
use serde_json::{Map, Value};

use super::dotenv;
use super::secret_names::{ImportedSecret, SecretSource, stored_name};
use crate::commands::mcp::secret_detection;

/// Maximum size of a dotenv file in bytes.
const MAX_FILE_SIZE: u64 = 1 << 20;

/// Expands the placeholders of one server, and collects hints and secrets.
pub struct PlaceholderExpander<'a> {
    /// Folder of the project.
    pub workspace: &'a Path,
    /// Home folder of the user.
    pub home: Option<&'a Path>,
    /// Reads an environment variable.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// The `inputs` of a VS Code file.
    pub inputs: &'a Value,
    /// Path of the file that contains the server.
    pub file: &'a str,
    /// Name of the server.
    pub server: &'a str,
    /// Path of the project folder, relative to the folder in which the server starts.
    pub here: String,
    /// True if `here` was used.
    pub uses_here: bool,
    /// Hints for the user.
    pub hints: Vec<String>,
    /// Secrets that the server receives.
    pub secrets: Vec<ImportedSecret>,
}

/// Position of a value in a server block, with its key.
#[derive(Clone, Copy)]
pub enum ValueSlot<'a> {
    /// On the command line or in a URL: other programs can read the value.
    Open(&'a str),
    /// In a variable of the server.
    Variable(&'a str),
    /// In a header of each request.
    Header(&'a str),
}

/// Reason why a value is not imported.
pub enum ExpansionError {
    /// The server does not work without the value, so the server is not imported.
    Fault(String),
    /// The value is left out, with a hint.
    Out,
}

/// Value of a placeholder.
enum PlaceholderValue {
    Value(String),
    /// A secret with this name, from this source.
    Secret(String, SecretSource),
}

impl PlaceholderExpander<'_> {
    /// Expands the placeholders of a value, and replaces secrets with references.
    pub fn expand(&mut self, text: &str, slot: ValueSlot<'_>) -> Result<String, ExpansionError> {
        if !text.contains("${") {
            return Ok(match self.plain_secret(text, slot) {
                Some(reference) => reference,
                None => text.to_owned(),
            });
        }
        let mut out = String::with_capacity(text.len());
        // The value without mimir's own secret references, to check that no other part looks like one.
        let mut literal = String::with_capacity(text.len());
        let mut used_secrets = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            let Some((placeholder, after)) = split_placeholder(after) else {
                break;
            };
            out.push_str(before);
            literal.push_str(before);
            match self.resolve_placeholder(placeholder, slot)? {
                PlaceholderValue::Value(value) => {
                    out.push_str(&value);
                    literal.push_str(&value);
                }
                PlaceholderValue::Secret(name, source) => {
                    let name = self.free_secret_name(name, &source);
                    out.push_str(&format!("${{{name}}}"));
                    literal.push('\0');
                    used_secrets.push((name, source));
                }
            }
            rest = after;
        }
        out.push_str(rest);
        literal.push_str(rest);
        let refers = literal.split_once("${");
        if refers.is_some_and(|(_, after)| after.contains('}')) {
            let why =
                "made of a value with `${…}` in it, which would be read as a secret reference";
            self.leave_out(slot, why.to_owned())?;
        }
        if used_secrets.is_empty()
            && let Some(reference) = self.plain_secret(&out, slot)
        {
            return Ok(reference);
        }
        // A plain-text secret next to a reference cannot be replaced by a second one.
        if !used_secrets.is_empty() && secret_detection::mask_secrets(&literal) != visible(&literal)
        {
            let why = "made of a secret in plain text and other secrets".to_owned();
            self.leave_out(slot, why)?;
        }
        let key = slot.key();
        for (name, source) in used_secrets {
            self.add_secret(name, source, key, false);
        }
        Ok(out)
    }

    /// Expands these values. Values that are left out are missing in the result.
    pub fn expand_values(
        &mut self,
        values: &Map<String, Value>,
        slot: impl Fn(&str) -> ValueSlot<'_>,
    ) -> Result<Value, String> {
        let mut expanded = Map::new();
        for (name, value) in values {
            let text = match value {
                Value::String(text) => text.clone(),
                // In VS Code, null removes a variable.
                Value::Null => continue,
                other => other.to_string(),
            };
            match self.expand(&text, slot(name)) {
                Ok(text) => {
                    expanded.insert(name.clone(), text.into());
                }
                Err(ExpansionError::Out) => {}
                Err(ExpansionError::Fault(why)) => return Err(why),
            }
        }
        Ok(expanded.into())
    }

    /// Reads a dotenv file. For project settings, the file must be inside the workspace.
    pub fn read_env_file(&mut self, path: &str, own: bool) -> Result<Map<String, Value>, String> {
        // The file is read now, so its path does not require the server to start in the workspace.
        let was_used = self.uses_here;
        let expanded = self.expand(path, ValueSlot::Open("envFile"));
        self.uses_here = was_used;
        let path = match expanded {
            Ok(path) => self.workspace.join(path),
            Err(ExpansionError::Fault(why)) => return Err(why),
            Err(ExpansionError::Out) => return Ok(Map::new()),
        };
        let shown = path.display();
        let inside = path
            .canonicalize()
            .ok()
            .zip(self.workspace.canonicalize().ok());
        if !own && !inside.is_none_or(|(path, root)| path.starts_with(root)) {
            return Err(format!(
                "its `envFile` {shown} is not in the project, so it is not read: use `env` instead"
            ));
        }
        match files::read_text(&path, LinkPolicy::Follow, MAX_FILE_SIZE) {
            Ok(text) => dotenv::variables(&text).map_err(|why| {
                format!(
                    "its `envFile` {shown} is not valid: {why}; rewrite that line, or use `env`"
                )
            }),
            Err(error) => {
                self.add_hint(format!(
                    "its `envFile` {shown} cannot be read ({error}): add the variables to `env` in the server's block"
                ));
                Ok(Map::new())
            }
        }
    }

    pub fn add_hint(&mut self, hint: String) {
        if !self.hints.contains(&hint) {
            self.hints.push(hint);
        }
    }

    fn resolve_placeholder(
        &mut self,
        placeholder: &str,
        slot: ValueSlot<'_>,
    ) -> Result<PlaceholderValue, ExpansionError> {
        let folder = |path: &Path| Ok(PlaceholderValue::Value(path.display().to_string()));
        match placeholder {
            "workspaceFolder" | "workspaceRoot" => {
                self.uses_here = true;
                match slot {
                    ValueSlot::Header(_) => return folder(self.workspace),
                    _ => return Ok(PlaceholderValue::Value(self.here.clone())),
                }
            }
            "workspaceFolderBasename" => {
                let name = self.workspace.file_name().unwrap_or_default();
                return Ok(PlaceholderValue::Value(name.to_string_lossy().into_owned()));
            }
            "userHome" => {
                return match self.home {
                    Some(home) => folder(home),
                    None => Err(ExpansionError::Fault(
                        "it uses `${userHome}`, but HOME is not set: set HOME and import again"
                            .to_owned(),
                    )),
                };
            }
            "pathSeparator" | "/" => {
                return Ok(PlaceholderValue::Value(
                    std::path::MAIN_SEPARATOR.to_string(),
                ));
            }
            _ => {}
        }
        if let Some(id) = placeholder.strip_prefix("input:") {
            return self.resolve_input(id, slot);
        }
        let (name, default) = match placeholder
            .strip_prefix("env:")
            .unwrap_or(placeholder)
            .split_once(":-")
        {
            Some((name, default)) => (name, Some(default)),
            None => (
                placeholder.strip_prefix("env:").unwrap_or(placeholder),
                None,
            ),
        };
        let is_valid = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.is_empty() || !name.chars().all(is_valid) {
            let placeholder = visible(prefix(placeholder, 64));
            return self.leave_out(
                slot,
                format!("made of `${{{placeholder}}}`, which mimir does not support"),
            );
        }
        if default.is_some_and(|default| default.contains("${")) {
            let why = format!(
                "made of `{name}` with another variable as its default, which mimir does not support"
            );
            return self.leave_out(slot, why);
        }
        self.variable(name, default, slot)
    }

    /// Resolves an environment variable with an optional default.
    fn variable(
        &mut self,
        name: &str,
        default: Option<&str>,
        slot: ValueSlot<'_>,
    ) -> Result<PlaceholderValue, ExpansionError> {
        // A variable in a header is nearly always a key.
        let header = matches!(slot, ValueSlot::Header(_)) && default.is_none();
        let current = (self.variable)(name).filter(|current| !current.is_empty());
        let value = current.or(default.map(str::to_owned));
        let secret = match &value {
            _ if header => true,
            Some(value) => {
                secret_detection::value_has_secret(name, value)
                    || secret_detection::value_has_secret(slot.key(), value)
            }
            None => secret_detection::is_secret_name(name) || slot.is_secret(),
        };
        match value {
            _ if secret => secret_at(name, SecretSource::Variable(name.to_owned()), slot),
            Some(value) => Ok(PlaceholderValue::Value(value)),
            None => self.leave_out(
                slot,
                format!(
                    "made of the variable `{name}`, which is not set here: set it and import again"
                ),
            ),
        }
    }

    /// Resolves an input for which VS Code prompts.
    fn resolve_input(
        &mut self,
        id: &str,
        slot: ValueSlot<'_>,
    ) -> Result<PlaceholderValue, ExpansionError> {
        let inputs = self.inputs.as_array().into_iter().flatten();
        let input = inputs.into_iter().find(|input| input["id"] == id);
        let hidden = input.is_some_and(|input| input["password"] == true);
        let default = input.and_then(|input| input["default"].as_str());
        let source = SecretSource::Input(self.file.to_owned(), id.to_owned());
        if !hidden && !secret_detection::is_secret_name(id) && !slot.is_secret() {
            return match default {
                Some(default) if !secret_detection::value_has_secret(id, default) => {
                    Ok(PlaceholderValue::Value(default.to_owned()))
                }
                None if !matches!(slot, ValueSlot::Header(_)) => self.leave_out(
                    slot,
                    format!(
                        "made of `{id}`, which VS Code asks for: write the value into the file and import again"
                    ),
                ),
                _ => secret_at(id, source, slot),
            };
        }
        secret_at(id, source, slot)
    }

    /// Returns a secret name that this server does not use for another secret.
    fn free_secret_name(&self, name: String, source: &SecretSource) -> String {
        let is_taken = |name: &str| {
            let mut secrets = self.secrets.iter();
            secrets.any(|secret| secret.name == name && secret.source != *source)
        };
        let mut free = name.clone();
        let mut number = 1;
        while is_taken(&free) {
            number += 1;
            free = format!("{name}_{number}");
        }
        free
    }

    fn add_secret(&mut self, name: String, source: SecretSource, key: &str, scheme: bool) {
        self.secrets.push(ImportedSecret {
            name,
            source,
            key: key.to_owned(),
            scheme,
        });
    }

    /// Leaves out a value with a hint. Fails for a value that the server requires.
    fn leave_out(
        &mut self,
        slot: ValueSlot<'_>,
        why: String,
    ) -> Result<PlaceholderValue, ExpansionError> {
        match slot {
            ValueSlot::Open(key) => Err(ExpansionError::Fault(format!("its `{key}` is {why}"))),
            ValueSlot::Variable(key) | ValueSlot::Header(key) => {
                self.add_hint(format!(
                    "`{key}` is left out: it is {why}, or set it in the server's block"
                ));
                Err(ExpansionError::Out)
            }
        }
    }

    /// Replaces a plain-text secret with a reference. Returns `None` if the text is not a secret.
    fn plain_secret(&mut self, text: &str, slot: ValueSlot<'_>) -> Option<String> {
        let (key, name) = match slot {
            ValueSlot::Open(_) => return None,
            ValueSlot::Variable(key) => (key, stored_name(key)),
            // Header names are the same for all servers.
            ValueSlot::Header(key) => (key, stored_name(&format!("{}_{key}", self.server))),
        };
        if text.is_empty() || !secret_detection::value_has_secret(key, text) {
            return None;
        }
        let (scheme, value) = match text.split_once(' ') {
            Some((scheme @ ("Bearer" | "bearer" | "Basic" | "token"), value)) => {
                (format!("{scheme} "), value)
            }
            _ => (String::new(), text),
        };
        let source = SecretSource::Plain(value.to_owned());
        let name = self.free_secret_name(name, &source);
        let reference = format!("{scheme}${{{name}}}");
        self.add_secret(name, source, key, !scheme.is_empty());
        Some(reference)
    }
}

/// Splits a text after `${` at the closing brace. Placeholders may be nested.
fn split_placeholder(text: &str) -> Option<(&str, &str)> {
    let mut depth = 1;
    for (at, c) in text.char_indices() {
        match c {
            '{' if text[..at].ends_with('$') => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some((&text[..at], &text[at + 1..]));
        }
    }
    // An unclosed placeholder ends at the first possible position.
    text.split_once('}')
}

/// Returns a reference to a secret, or an error if other programs could read a value in that slot.
fn secret_at(
    name: &str,
    source: SecretSource,
    slot: ValueSlot<'_>,
) -> Result<PlaceholderValue, ExpansionError> {
    match slot {
        ValueSlot::Open(key) => Err(ExpansionError::Fault(format!(
            "its `{key}` contains the secret `{name}`, which other programs could read there: if the server supports it, pass the secret in `env` or in a header"
        ))),
        _ => Ok(PlaceholderValue::Secret(stored_name(name), source)),
    }
}

impl<'a> ValueSlot<'a> {
    fn key(self) -> &'a str {
        match self {
            ValueSlot::Open(key) | ValueSlot::Variable(key) | ValueSlot::Header(key) => key,
        }
    }

    /// Returns true if the key's name marks the value as a secret.
    fn is_secret(self) -> bool {
        match self {
            ValueSlot::Open(_) => false,
            ValueSlot::Variable(key) | ValueSlot::Header(key) => {
                secret_detection::is_secret_name(key)
            }
        }
    }
}

#[cfg(test)]
mod tests;
