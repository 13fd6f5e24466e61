//! Resolves the placeholders in agents' files: folders, environment variables and inputs. Each is resolved once, on
//! import.
//!
//! A secret is never written to our settings: its name is written instead, and the person is told how to store the
//! value.
//!
//! Out of scope: file formats.

use std::path::Path;

use mimir_core::files::{self, LinkPolicy};
use mimir_core::text::{prefix, visible};
use serde_json::{Map, Value};

use super::dotenv;
use super::secret_names::{ImportedSecret, SecretSource, stored_name};
use crate::commands::mcp::secret_detection;

/// Size limit of a file of variables.
const MAX_FILE_SIZE: u64 = 1 << 20;

/// Values of placeholders.
pub struct PlaceholderExpander<'a> {
    /// Folder of the project.
    pub workspace: &'a Path,
    /// The person's home folder.
    pub home: Option<&'a Path>,
    /// Reads an environment variable.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// The `inputs` of a VS Code file.
    pub inputs: &'a Value,
    /// The file that contains the server.
    pub file: &'a str,
    /// The server being imported.
    pub server: &'a str,
    /// Path of the project folder, as seen from the folder that the server starts in.
    pub here: String,
    /// True if that path was used.
    pub is_here: bool,
    /// Hints for the person.
    pub hints: Vec<String>,
    /// Secrets that it receives.
    pub secrets: Vec<ImportedSecret>,
}

/// Position of a text, with its key.
#[derive(Clone, Copy)]
pub enum ValueSlot<'a> {
    /// On the command line, or in a URL: readable by others.
    Open(&'a str),
    /// In a variable of the server.
    Variable(&'a str),
    /// In a header of each request.
    Header(&'a str),
}

/// Reason why a text is not imported.
pub enum ExpansionError {
    /// The server cannot do without it, so it is not imported.
    Fault(String),
    /// It was left out, with a hint.
    Out,
}

/// Value of a placeholder.
enum PlaceholderValue {
    Value(String),
    /// A secret with this name, from this origin.
    Secret(String, SecretSource),
}

impl PlaceholderExpander<'_> {
    /// Resolves a text for our settings.
    pub fn expand(&mut self, text: &str, place: ValueSlot<'_>) -> Result<String, ExpansionError> {
        if !text.contains("${") {
            return Ok(match self.plain_secret(text, place) {
                Some(kept) => kept,
                None => text.to_owned(),
            });
        }
        let mut out = String::with_capacity(text.len());
        // Checks the text without our secret references: none of it may look like one.
        let mut literal = String::with_capacity(text.len());
        let mut given = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            let Some((word, after)) = split_placeholder(after) else {
                break;
            };
            out.push_str(before);
            literal.push_str(before);
            match self.resolve_placeholder(word, place)? {
                PlaceholderValue::Value(value) => {
                    out.push_str(&value);
                    literal.push_str(&value);
                }
                PlaceholderValue::Secret(name, source) => {
                    let name = self.free_secret_name(name, &source);
                    out.push_str(&format!("${{{name}}}"));
                    literal.push('\0');
                    given.push((name, source));
                }
            }
            rest = after;
        }
        out.push_str(rest);
        literal.push_str(rest);
        let refers = literal.split_once("${");
        if refers.is_some_and(|(_, after)| after.contains('}')) {
            let why = "made of a value with `${…}` in it, which would refer to a secret here";
            self.leave_out(place, why.to_owned())?;
        }
        if given.is_empty()
            && let Some(kept) = self.plain_secret(&out, place)
        {
            return Ok(kept);
        }
        // A secret reference must be the whole value.
        if !given.is_empty() && secret_detection::mask_secrets(&literal) != visible(&literal) {
            let why = "made of a secret in plain text and of others".to_owned();
            self.leave_out(place, why)?;
        }
        let key = place.key();
        for (name, source) in given {
            self.add_secret(name, source, key, false);
        }
        Ok(out)
    }

    /// Resolves these values, without those that are left out.
    pub fn expand_values(
        &mut self,
        values: &Map<String, Value>,
        place: impl Fn(&str) -> ValueSlot<'_>,
    ) -> Result<Value, String> {
        let mut taken = Map::new();
        for (name, value) in values {
            let text = match value {
                Value::String(text) => text.clone(),
                // VS Code removes a variable with the value null.
                Value::Null => continue,
                other => other.to_string(),
            };
            match self.expand(&text, place(name)) {
                Ok(text) => {
                    taken.insert(name.clone(), text.into());
                }
                Err(ExpansionError::Out) => {}
                Err(ExpansionError::Fault(why)) => return Err(why),
            }
        }
        Ok(taken.into())
    }

    /// Reads a file of variables. For project settings, only files inside the workspace are read.
    pub fn read_env_file(&mut self, path: &str, own: bool) -> Result<Map<String, Value>, String> {
        // Read on import, because the server need not start there.
        let is_here = self.is_here;
        let replaced = self.expand(path, ValueSlot::Open("envFile"));
        self.is_here = is_here;
        let path = match replaced {
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
                "its `envFile` {shown} is not in the project, and is not read for it; take it over with an `env` instead"
            ));
        }
        match files::read_text(&path, LinkPolicy::Follow, MAX_FILE_SIZE) {
            Ok(text) => dotenv::variables(&text).map_err(|why| {
                format!("its `envFile` {shown}, {why}; rewrite that line, or use `env`")
            }),
            Err(error) => {
                self.add_hint(format!(
                    "its `envFile` {shown} cannot be read ({error}): write what is missing into `env` of its block"
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
        word: &str,
        place: ValueSlot<'_>,
    ) -> Result<PlaceholderValue, ExpansionError> {
        let folder = |path: &Path| Ok(PlaceholderValue::Value(path.display().to_string()));
        match word {
            "workspaceFolder" | "workspaceRoot" => {
                self.is_here = true;
                match place {
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
                        "it needs `${userHome}`, and HOME is not set; set it and import again"
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
        if let Some(id) = word.strip_prefix("input:") {
            return self.resolve_input(id, place);
        }
        let (name, default) = match word.strip_prefix("env:").unwrap_or(word).split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (word.strip_prefix("env:").unwrap_or(word), None),
        };
        let good = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.is_empty() || !name.chars().all(good) {
            let word = visible(prefix(word, 64));
            return self.leave_out(
                place,
                format!("made of `${{{word}}}`, which mimir does not know"),
            );
        }
        if default.is_some_and(|default| default.contains("${")) {
            let why =
                format!("made of `{name}` or else of another variable, which mimir does not take");
            return self.leave_out(place, why);
        }
        self.variable(name, default, place)
    }

    /// An environment variable, with its default.
    fn variable(
        &mut self,
        name: &str,
        default: Option<&str>,
        place: ValueSlot<'_>,
    ) -> Result<PlaceholderValue, ExpansionError> {
        // Headers are sent over the network, and a variable in a header is nearly always a key.
        let header = matches!(place, ValueSlot::Header(_)) && default.is_none();
        let now = (self.variable)(name).filter(|now| !now.is_empty());
        let value = now.or(default.map(str::to_owned));
        let secret = match &value {
            _ if header => true,
            Some(value) => {
                secret_detection::value_has_secret(name, value)
                    || secret_detection::value_has_secret(place.key(), value)
            }
            None => secret_detection::is_secret_name(name) || place.is_secret(),
        };
        match value {
            _ if secret => secret_at(name, SecretSource::Variable(name.to_owned()), place),
            Some(value) => Ok(PlaceholderValue::Value(value)),
            None => self.leave_out(
                place,
                format!(
                    "made of the variable `{name}`, which is not set here: set it and import again"
                ),
            ),
        }
    }

    /// An input that VS Code asks for.
    fn resolve_input(
        &mut self,
        id: &str,
        place: ValueSlot<'_>,
    ) -> Result<PlaceholderValue, ExpansionError> {
        let inputs = self.inputs.as_array().into_iter().flatten();
        let input = inputs.into_iter().find(|input| input["id"] == id);
        let hidden = input.is_some_and(|input| input["password"] == true);
        let default = input.and_then(|input| input["default"].as_str());
        let asked = SecretSource::Input(self.file.to_owned(), id.to_owned());
        if !hidden && !secret_detection::is_secret_name(id) && !place.is_secret() {
            return match default {
                Some(default) if !secret_detection::value_has_secret(id, default) => {
                    Ok(PlaceholderValue::Value(default.to_owned()))
                }
                None if !matches!(place, ValueSlot::Header(_)) => self.leave_out(
                    place,
                    format!(
                        "made of `{id}`, which VS Code asks for: write it there and import again"
                    ),
                ),
                _ => secret_at(id, asked, place),
            };
        }
        secret_at(id, asked, place)
    }

    /// Picks a secret name that is unique for this server.
    fn free_secret_name(&self, name: String, source: &SecretSource) -> String {
        let taken = |name: &str| {
            let mut all = self.secrets.iter();
            all.any(|kept| kept.name == name && kept.source != *source)
        };
        let mut free = name.clone();
        let mut number = 1;
        while taken(&free) {
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

    fn leave_out(
        &mut self,
        place: ValueSlot<'_>,
        why: String,
    ) -> Result<PlaceholderValue, ExpansionError> {
        match place {
            ValueSlot::Open(key) => Err(ExpansionError::Fault(format!("its `{key}` is {why}"))),
            ValueSlot::Variable(key) | ValueSlot::Header(key) => {
                self.add_hint(format!(
                    "`{key}` is left out: it is {why}, or write it into its block"
                ));
                Err(ExpansionError::Out)
            }
        }
    }

    /// Replaces a plain-text secret by a reference.
    fn plain_secret(&mut self, text: &str, place: ValueSlot<'_>) -> Option<String> {
        let (key, name) = match place {
            ValueSlot::Open(_) => return None,
            ValueSlot::Variable(key) => (key, stored_name(key)),
            // Headers have the same name in all servers.
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
        let kept = format!("{scheme}${{{name}}}");
        self.add_secret(name, source, key, !scheme.is_empty());
        Some(kept)
    }
}

/// Splits a placeholder at its closing brace: placeholders may be nested.
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

/// A secret where it may stand.
fn secret_at(
    name: &str,
    source: SecretSource,
    place: ValueSlot<'_>,
) -> Result<PlaceholderValue, ExpansionError> {
    match place {
        ValueSlot::Open(key) => Err(ExpansionError::Fault(format!(
            "its `{key}` is made of the secret `{name}`, and all may read that: give it to the server in `env` or in a header, if it takes it there"
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
