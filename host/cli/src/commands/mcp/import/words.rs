//! What agents write in place of a value: folders, variables of the environment, what they ask the person for. What each
//! stands for is found out once, when the block is taken over.
//!
//! A secret is never written into our settings: in its place stands its name, and the person is told how to keep it.
//!
//! Never here: the forms of the agents' files.

use std::path::Path;

use mimir_core::files::{self, Links};
use mimir_core::text::{prefix, visible};
use serde_json::{Map, Value};

use super::dotenv;
use super::names::{Kept, Source, kept_as};
use crate::commands::mcp::secret;

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
    /// The file that it stands in.
    pub file: &'a str,
    /// The server that is taken over.
    pub server: &'a str,
    /// How the folder of the project is called where the server starts.
    pub here: String,
    /// Whether that was made use of.
    pub is_here: bool,
    /// What the person should know.
    pub hints: Vec<String>,
    /// The secrets that it is given.
    pub secrets: Vec<Kept>,
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
    /// The secret of this name, from there.
    Secret(String, Source),
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
        // The same without what are secrets of ours: nothing of it may be read as one.
        let mut literal = String::with_capacity(text.len());
        let mut given = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            let Some((word, after)) = word(after) else {
                break;
            };
            out.push_str(before);
            literal.push_str(before);
            match self.meant(word, place)? {
                Meant::Value(value) => {
                    out.push_str(&value);
                    literal.push_str(&value);
                }
                Meant::Secret(name, source) => {
                    let name = self.free(name, &source);
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
            let why = "made of a value with `${…}` in it, which would be a secret here";
            self.left(place, why.to_owned())?;
        }
        if given.is_empty()
            && let Some(kept) = self.plain_secret(&out, place)
        {
            return Ok(kept);
        }
        // What is named does not cover what stands beside it.
        if !given.is_empty() && secret::masked(&literal) != visible(&literal) {
            let why = "made of a secret in plain text and of others".to_owned();
            self.left(place, why)?;
        }
        let key = place.key();
        for (name, source) in given {
            self.keep(name, source, key, false);
        }
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
            Ok(text) => dotenv::variables(&text).map_err(|why| {
                format!("its `envFile` {shown}, {why}; write it in another way, or into `env`")
            }),
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
            let word = visible(prefix(word, 64));
            return self.left(
                place,
                format!("made of `${{{word}}}`, which mimir does not know"),
            );
        }
        if default.is_some_and(|default| default.contains("${")) {
            let why =
                format!("made of `{name}` or else of another variable, which mimir does not take");
            return self.left(place, why);
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
        let secret = match &value {
            _ if header => true,
            Some(value) => secret::is_in(name, value) || secret::is_in(place.key(), value),
            None => secret::is_name(name) || place.is_secret(),
        };
        match value {
            _ if secret => secret_at(name, Source::Variable(name.to_owned()), place),
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
        let asked = Source::Input(self.file.to_owned(), id.to_owned());
        if !hidden && !secret::is_name(id) && !place.is_secret() {
            return match default {
                Some(default) if !secret::is_in(id, default) => {
                    Ok(Meant::Value(default.to_owned()))
                }
                None if !matches!(place, Place::Header(_)) => self.left(
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

    /// A name for a secret that no other of this server has.
    fn free(&self, name: String, source: &Source) -> String {
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

    fn keep(&mut self, name: String, source: Source, key: &str, scheme: bool) {
        self.secrets.push(Kept {
            name,
            source,
            key: key.to_owned(),
            scheme,
        });
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
        if text.is_empty() || !secret::is_in(key, text) {
            return None;
        }
        let (scheme, value) = match text.split_once(' ') {
            Some((scheme @ ("Bearer" | "bearer" | "Basic" | "token"), value)) => {
                (format!("{scheme} "), value)
            }
            _ => (String::new(), text),
        };
        let source = Source::Plain(value.to_owned());
        let name = self.free(name, &source);
        let kept = format!("{scheme}${{{name}}}");
        self.keep(name, source, key, !scheme.is_empty());
        Some(kept)
    }
}

/// A word up to the brace that ends it, and what follows: words may stand in words.
fn word(text: &str) -> Option<(&str, &str)> {
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
    // What is not closed ends where it first could.
    text.split_once('}')
}

/// A secret where it may stand.
fn secret_at(name: &str, source: Source, place: Place<'_>) -> Result<Meant, Left> {
    match place {
        Place::Open(key) => Err(Left::Fault(format!(
            "its `{key}` is made of the secret `{name}`, and all may read that: give it to the server in `env` or in a header, if it takes it there"
        ))),
        _ => Ok(Meant::Secret(kept_as(name), source)),
    }
}

impl<'a> Place<'a> {
    fn key(self) -> &'a str {
        match self {
            Place::Open(key) | Place::Variable(key) | Place::Header(key) => key,
        }
    }

    /// Whether what stands there is a secret by the name of the place.
    fn is_secret(self) -> bool {
        match self {
            Place::Open(_) => false,
            Place::Variable(key) | Place::Header(key) => secret::is_name(key),
        }
    }
}

#[cfg(test)]
mod tests;
