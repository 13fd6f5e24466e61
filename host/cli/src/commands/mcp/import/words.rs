//! What agents write in place of a value: folders, variables of the environment, what they ask the person for. What each
//! stands for is found out once, when the block is taken over.
//!
//! A secret is never written into our settings: in its place stands its name, and the person is told how to keep it.
//!
//! Never here: the forms of the agents' files.

use std::path::Path;

use mimir_core::files::{self, Links};
use mimir_core::redact::Redactor;
use serde_json::{Map, Value};

/// The longest file of variables that is read.
const FILE_MOST: u64 = 1 << 20;

/// What words stand for.
pub struct Words<'a> {
    /// The folder of the project.
    pub workspace: &'a Path,
    /// The person's home.
    pub home: Option<&'a Path>,
    /// What the environment says.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// What VS Code asks for: the `inputs` of the file.
    pub inputs: &'a Value,
    /// The server that is taken over.
    pub server: &'a str,
    /// How the folder of the project is called where the server starts.
    pub here: String,
    /// Whether that was made use of.
    pub is_here: bool,
    /// What the person should know.
    pub hints: Vec<String>,
}

/// Where a text stands, by its key.
#[derive(Clone, Copy)]
pub enum Place<'a> {
    /// On the command line, or in a URL: all may read it.
    Open(&'a str),
    /// In a variable that the server is given.
    Variable(&'a str),
    /// In a header of each request.
    Header(&'a str),
}

/// Why a text is not taken over.
pub enum Left {
    /// It cannot be left out: the server is not taken.
    Fault(String),
    /// It is left out, and the person was told.
    Out,
}

/// What a word stands for.
enum Meant {
    Value(String),
    /// The secret of this name.
    Secret(String),
}

impl Words<'_> {
    /// The text as our settings have it.
    pub fn replaced(&mut self, text: &str, place: Place<'_>) -> Result<String, Left> {
        if !text.contains("${") {
            return Ok(match self.plain_secret(text, place) {
                Some(kept) => kept,
                None => text.to_owned(),
            });
        }
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            let Some((word, after)) = after.split_once('}') else {
                break;
            };
            out.push_str(before);
            match self.meant(word, place)? {
                Meant::Value(value) => out.push_str(&value),
                Meant::Secret(name) => {
                    self.hint(format!(
                        "`mimir secrets set {name}` keeps the secret that is `{name}` there"
                    ));
                    out.push_str(&format!("${{{name}}}"));
                }
            }
            rest = after;
        }
        out.push_str(rest);
        Ok(out)
    }

    /// Each of these values, without those that are left out.
    pub fn all(
        &mut self,
        values: &Map<String, Value>,
        place: impl Fn(&str) -> Place<'_>,
    ) -> Result<Value, String> {
        let mut taken = Map::new();
        for (name, value) in values {
            let text = match value {
                Value::String(text) => text.clone(),
                // VS Code: the variable is not to be there.
                Value::Null => continue,
                other => other.to_string(),
            };
            match self.replaced(&text, place(name)) {
                Ok(text) => {
                    taken.insert(name.clone(), text.into());
                }
                Err(Left::Out) => {}
                Err(Left::Fault(why)) => return Err(why),
            }
        }
        Ok(taken.into())
    }

    /// The variables of a file of them. One that did not come with the person's own settings is read in the workspace
    /// alone: what lies elsewhere is no business of a project's.
    pub fn file(&mut self, path: &str, own: bool) -> Result<Map<String, Value>, String> {
        // It is read now: the server need not start there for it.
        let is_here = self.is_here;
        let replaced = self.replaced(path, Place::Open("envFile"));
        self.is_here = is_here;
        let path = match replaced {
            Ok(path) => self.workspace.join(path),
            Err(Left::Fault(why)) => return Err(why),
            Err(Left::Out) => return Ok(Map::new()),
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
        match files::read_text(&path, Links::Followed, FILE_MOST) {
            Ok(text) => Ok(variables(&text)),
            Err(error) => {
                self.hint(format!(
                    "its `envFile` {shown} cannot be read ({error}): write what is missing into `env` of its block"
                ));
                Ok(Map::new())
            }
        }
    }

    pub fn hint(&mut self, hint: String) {
        if !self.hints.contains(&hint) {
            self.hints.push(hint);
        }
    }

    fn meant(&mut self, word: &str, place: Place<'_>) -> Result<Meant, Left> {
        let folder = |path: &Path| Ok(Meant::Value(path.display().to_string()));
        match word {
            "workspaceFolder" | "workspaceRoot" => {
                self.is_here = true;
                match place {
                    Place::Header(_) => return folder(self.workspace),
                    _ => return Ok(Meant::Value(self.here.clone())),
                }
            }
            "workspaceFolderBasename" => {
                let name = self.workspace.file_name().unwrap_or_default();
                return Ok(Meant::Value(name.to_string_lossy().into_owned()));
            }
            "userHome" => {
                return match self.home {
                    Some(home) => folder(home),
                    None => Err(Left::Fault(
                        "it needs `${userHome}`, and HOME is not set; set it and import again"
                            .to_owned(),
                    )),
                };
            }
            "pathSeparator" | "/" => {
                return Ok(Meant::Value(std::path::MAIN_SEPARATOR.to_string()));
            }
            _ => {}
        }
        if let Some(id) = word.strip_prefix("input:") {
            return self.input(id, place);
        }
        let (name, default) = match word.strip_prefix("env:").unwrap_or(word).split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (word.strip_prefix("env:").unwrap_or(word), None),
        };
        let good = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.is_empty() || !name.chars().all(good) {
            return self.left(
                place,
                format!("made of `${{{word}}}`, which mimir does not know"),
            );
        }
        self.variable(name, default, place)
    }

    /// A variable of the environment, with what stands for it where it is not set.
    fn variable(
        &mut self,
        name: &str,
        default: Option<&str>,
        place: Place<'_>,
    ) -> Result<Meant, Left> {
        // A header goes over the network, and what is not written down in it is a key in nearly all cases.
        let header = matches!(place, Place::Header(_)) && default.is_none();
        let now = (self.variable)(name).filter(|now| !now.is_empty());
        let value = now.or(default.map(str::to_owned));
        let secret = header
            || is_secret_name(name)
            || place.is_secret()
            || value.as_ref().is_some_and(|value| is_secret(name, value));
        match value {
            _ if secret => self.secret(name, place),
            Some(value) => Ok(Meant::Value(value)),
            None => self.left(
                place,
                format!(
                    "made of the variable `{name}`, which is not set here: set it and import again"
                ),
            ),
        }
    }

    /// What VS Code asks the person for.
    fn input(&mut self, id: &str, place: Place<'_>) -> Result<Meant, Left> {
        let inputs = self.inputs.as_array().into_iter().flatten();
        let input = inputs.into_iter().find(|input| input["id"] == id);
        let hidden = input.is_some_and(|input| input["password"] == true);
        let default = input.and_then(|input| input["default"].as_str());
        if !hidden && !is_secret_name(id) && !place.is_secret() {
            return match default {
                Some(default) if !is_secret(id, default) => Ok(Meant::Value(default.to_owned())),
                None if !matches!(place, Place::Header(_)) => self.left(
                    place,
                    format!(
                        "made of `{id}`, which VS Code asks for: write it there and import again"
                    ),
                ),
                _ => self.secret(id, place),
            };
        }
        self.secret(id, place)
    }

    fn secret(&mut self, name: &str, place: Place<'_>) -> Result<Meant, Left> {
        match place {
            Place::Open(key) => Err(Left::Fault(format!(
                "its `{key}` is made of the secret `{name}`, and all may read that: give it to the server in `env` or in a header, if it takes it there"
            ))),
            _ => Ok(Meant::Secret(kept_as(name))),
        }
    }

    fn left(&mut self, place: Place<'_>, why: String) -> Result<Meant, Left> {
        match place {
            Place::Open(key) => Err(Left::Fault(format!("its `{key}` is {why}"))),
            Place::Variable(key) | Place::Header(key) => {
                self.hint(format!(
                    "`{key}` is left out: it is {why}, or write it into its block"
                ));
                Err(Left::Out)
            }
        }
    }

    /// What stands in place of a secret in plain text.
    fn plain_secret(&mut self, text: &str, place: Place<'_>) -> Option<String> {
        let (key, name) = match place {
            Place::Open(_) => return None,
            Place::Variable(key) => (key, kept_as(key)),
            // All servers have the same headers.
            Place::Header(key) => (key, kept_as(&format!("{}_{key}", self.server))),
        };
        if text.is_empty() || !(place.is_secret() || is_secret(key, text)) {
            return None;
        }
        let (scheme, rest) = match text.split_once(' ') {
            Some((scheme @ ("Bearer" | "bearer" | "Basic" | "token"), _)) => {
                (format!("{scheme} "), " without its first word")
            }
            _ => (String::new(), ""),
        };
        self.hint(format!(
            "`{key}` looks like a secret in plain text, and is not written into the settings: `mimir secrets set {name}` keeps it{rest}"
        ));
        Some(format!("{scheme}${{{name}}}"))
    }
}

impl Place<'_> {
    /// Whether what stands there is a secret by the name of the place.
    fn is_secret(self) -> bool {
        match self {
            Place::Open(_) => false,
            Place::Variable(key) | Place::Header(key) => is_secret_name(key),
        }
    }
}

/// The name that a secret is kept by.
fn kept_as(name: &str) -> String {
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
    let name = name.chars().take(64);
    name.map(|c| if good(c) { c.to_ascii_uppercase() } else { '_' })
        .collect()
}

/// Whether a name is one of a secret, by one of its words: `API_KEY` is, and `KEYBOARD` or `MAX_TOKENS` is not.
fn is_secret_name(name: &str) -> bool {
    const WORDS: [&str; 21] = [
        "key",
        "keys",
        "apikey",
        "token",
        "secret",
        "secrets",
        "password",
        "passwd",
        "passphrase",
        "pass",
        "pwd",
        "auth",
        "authorization",
        "credential",
        "credentials",
        "cookie",
        "bearer",
        "pat",
        "dsn",
        "jwt",
        "accesstoken",
    ];
    // The folder that somebody is in.
    if name == "PWD" {
        return false;
    }
    let mut word = String::new();
    let mut small = false;
    let mut words = Vec::new();
    for c in name.chars() {
        let begins = !c.is_ascii_alphanumeric() || (c.is_ascii_uppercase() && small);
        if begins {
            words.push(std::mem::take(&mut word));
        }
        if c.is_ascii_alphanumeric() {
            word.push(c.to_ascii_lowercase());
        }
        small = c.is_ascii_lowercase() || c.is_ascii_digit();
    }
    words.push(word);
    words.iter().any(|word| WORDS.contains(&word.as_str()))
}

/// Whether a value looks like a secret, or has one in it.
fn is_secret(name: &str, value: &str) -> bool {
    let login = value
        .split_once("://")
        .and_then(|(_, rest)| rest.split(['/', '?', '#']).next())
        .is_some_and(|place| place.contains('@'));
    login
        || !Redactor::new()
            .find(format!("{name}={value}").as_bytes())
            .is_empty()
}

/// The lines `NAME=value` of a file, with or without quotes, `export` and comments.
fn variables(text: &str) -> Map<String, Value> {
    let mut all = Map::new();
    for line in text.lines() {
        let line = line.trim();
        let line = line.strip_prefix("export ").unwrap_or(line);
        let Some((name, value)) = line.split_once('=') else {
            continue;
        };
        let (name, value) = (name.trim(), value.trim());
        if name.is_empty() || name.starts_with('#') {
            continue;
        }
        let quoted = |quote: char| {
            let inner = value.strip_prefix(quote)?;
            inner.split_once(quote).map(|(inner, _)| inner)
        };
        let value = match quoted('"').or_else(|| quoted('\'')) {
            Some(inner) => inner,
            None => value.split(" #").next().unwrap_or(value).trim_end(),
        };
        all.insert(name.to_owned(), value.into());
    }
    all
}

#[cfg(test)]
mod tests;
