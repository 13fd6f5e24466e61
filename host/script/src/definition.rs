//! A tool in a YAML file: its keys, read once into what is checked here and nowhere else.

use mimir_core::command::CommandPattern;
use mimir_core::names::nearer;
use mimir_core::tool::{Definition, Group, Hints, Risk, ToolName};
use mimir_core::{Code, Decision, Schema, ToolError, text};
use serde::Deserialize;
use serde_json::Value;

use crate::compile::{self, Compiled, Fault, Mentions};
use crate::{needs, words, yaml};

mod places;

use places::Places;

/// The longest description, in characters: what a plugin may say, too.
const DESCRIPTION_MAX: usize = 8_000;

/// Patterns of commands that a file may have.
const PATTERNS_MAX: usize = 100;

/// Tokens that a tool may be said to cost. More fits into no prompt.
const TOKENS_MAX: u32 = 1_000_000;

/// The file as it is written. A key that is not here is an error: it would promise what nobody does.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct File {
    name: String,
    description: String,
    #[serde(default = "yes")]
    enabled: bool,
    token_cost: Option<u32>,
    schema: Value,
    #[serde(default)]
    runtime: Runtime,
    #[serde(default)]
    permissions: Permissions,
    code: String,
}

fn yes() -> bool {
    true
}

/// What runs the code.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Runtime {
    #[default]
    Typescript,
    Javascript,
    Python,
    Bash,
    Node,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Permissions {
    allowlist: Option<Vec<String>>,
    auto_accept: Option<bool>,
    risk_level: Option<Risk>,
}

/// What runs the code, with what had to be made of it.
#[derive(Debug)]
pub(crate) enum Body {
    Script(Compiled),
    Python,
    Bash,
    Node,
}

impl Body {
    fn script(mut compiled: Compiled) -> (Self, Mentions) {
        let mentions = std::mem::take(&mut compiled.mentions);
        (Self::Script(compiled), mentions)
    }
}

/// A file that can be used.
#[derive(Debug)]
pub struct Checked {
    /// What is said of the tool.
    pub definition: Definition,
    /// Whether the file says that it is in use.
    pub enabled: bool,
    /// What it is said to cost in a prompt.
    pub token_cost: Option<u32>,
    pub(crate) body: Body,
    /// As it is written.
    pub(crate) code: String,
    pub(crate) places: Places,
}

/// Reads a file, and compiles its code. `place` is how messages call it.
pub fn check(place: &str, content: &str) -> Result<Checked, ToolError> {
    yaml::fit(content)
        .map_err(|unfit| ToolError::new(Code::InvalidInput, format!("{place}:{unfit}")))?;
    let file: File = serde_yaml::from_str(content).map_err(|error| unread(place, &error))?;
    let places = Places::of(content);
    let wrong = |key: &str, message: String| {
        let line = places.line(key);
        ToolError::new(Code::InvalidInput, format!("{place}:{line}: {message}"))
    };
    let name = ToolName::new(&file.name).map_err(|error| wrong("name", error.to_string()))?;
    let description = file.description.trim();
    if description.is_empty() {
        let message = "`description` is empty; a model chooses the tool by it".to_owned();
        return Err(wrong("description", message));
    }
    if description.chars().count() > DESCRIPTION_MAX {
        let message = format!("`description` has more than {DESCRIPTION_MAX} characters");
        return Err(wrong("description", message));
    }
    if file.token_cost.is_some_and(|tokens| tokens > TOKENS_MAX) {
        let message = format!("`tokenCost` is at most {TOKENS_MAX}");
        return Err(wrong("tokenCost", message));
    }
    if file.schema["type"] != "object" {
        let message = "`schema` is no schema of an object; it begins with `type: object`";
        return Err(wrong("schema", message.to_owned()));
    }
    let input_schema = Schema::parse(&file.schema.to_string())
        .map_err(|error| wrong("schema", format!("`schema`: {error}")))?;
    let permissions = file.permissions;
    let patterns = patterns(permissions.allowlist.as_deref())
        .map_err(|message| wrong("permissions.allowlist", message))?;
    let script = |typed| {
        let compiled = compile::compile(&file.code, typed);
        compiled.map_err(|fault| wrong_code(place, &places, fault))
    };
    let (body, mentions) = match file.runtime {
        Runtime::Typescript => Body::script(script(true)?),
        Runtime::Javascript => Body::script(script(false)?),
        Runtime::Python => (Body::Python, words::of_python(&file.code)),
        Runtime::Bash => (Body::Bash, words::of_bash(&file.code)),
        Runtime::Node => (Body::Node, Mentions::default()),
    };
    let needs = match body {
        Body::Node => needs::of_node(patterns.as_deref()),
        _ => needs::of(&mentions, patterns.as_deref()),
    };
    let approval = match permissions.auto_accept {
        Some(true) => Decision::Allow,
        Some(false) => Decision::Ask,
        None if needs.is_empty() => Decision::Allow,
        None => Decision::Ask,
    };
    let group = match () {
        () if !needs.commands.is_empty() => Group::Runtime,
        () if !needs.hosts.is_empty() => Group::Net,
        () if !needs.files.is_empty() => Group::Fs,
        () => Group::System,
    };
    let definition = Definition {
        name,
        title: None,
        description: text::sanitize(description.to_owned()),
        group,
        input_schema,
        output_schema: None,
        approval,
        silent: permissions.auto_accept.is_none(),
        risk: permissions.risk_level.unwrap_or(Risk::Medium),
        hints: Hints::default(),
        needs,
    };
    Ok(Checked {
        definition,
        enabled: file.enabled,
        token_cost: file.token_cost,
        body,
        code: file.code,
        places,
    })
}

/// The patterns of an allowlist as the command gates read them. A file of the seeds matches a whole line with a glob
/// (`yarn test*`), the gates match word by word: a star at the end lets any words follow here, too, but only a star.
fn patterns(allowlist: Option<&[String]>) -> Result<Option<Vec<String>>, String> {
    let Some(allowlist) = allowlist else {
        return Ok(None);
    };
    if allowlist.len() > PATTERNS_MAX {
        return Err(format!("`allowlist` has more than {PATTERNS_MAX} patterns"));
    }
    let mut patterns = Vec::new();
    for written in allowlist {
        let mut words: Vec<&str> = written.split_whitespace().collect();
        let open = words.last().is_some_and(|last| last.ends_with('*'));
        let single = words.len() == 1;
        if single && let Some(program) = words.first_mut() {
            // `vitest*` is vitest with any words.
            *program = program.trim_end_matches('*');
        }
        if open && words.last() != Some(&"*") {
            words.push("*");
        }
        let pattern = words.join(" ");
        CommandPattern::parse(&pattern).map_err(|error| format!("`allowlist`: {error}"))?;
        patterns.push(pattern);
    }
    Ok(Some(patterns))
}

/// What the YAML reader says, with its place in front.
fn unread(place: &str, error: &serde_yaml::Error) -> ToolError {
    let said = error.to_string();
    let message = match error.location() {
        Some(at) => {
            let tail = format!(" at line {} column {}", at.line(), at.column());
            let said = said.strip_suffix(&tail).unwrap_or(&said);
            format!("{place}:{}:{}: {}", at.line(), at.column(), withheld(said))
        }
        None => format!("{place}: {}", withheld(&said)),
    };
    ToolError::new(Code::InvalidInput, text::visible(&message))
}

/// Letters of a key that may be one misspelt.
const KEY_MAX: usize = 30;

/// What the YAML reader says, without what stands in the file: that need not be a tool, but a secret that somebody has
/// linked to, or copied to the wrong place. A key is told if it looks like one that is known.
fn withheld(said: &str) -> String {
    if said.starts_with("missing field ") || said.starts_with("duplicate field ") {
        return said.to_owned();
    }
    // What is expected, this program says.
    let (found, expected) = match said.rfind(", expected ") {
        Some(at) => said.split_at(at),
        None => (said, ""),
    };
    let quoted = found.find(['`', '"']).and_then(|open| {
        let close = found.rfind(found[open..].chars().next()?)?;
        (close > open).then_some((open, close))
    });
    let Some((open, close)) = quoted else {
        return said.to_owned();
    };
    let word = &found[open + 1..close];
    let known = expected.split('`').skip(1).step_by(2);
    if is_misspelt(word, known) {
        return nearer(said);
    }
    let said = format!(
        "{}{}{expected}",
        found[..open].trim_end(),
        &found[close + 1..]
    );
    said.replacen("unknown field", "unknown key", 1)
        .replacen("unknown variant", "unknown value", 1)
}

/// Whether a word is a known one but for a letter in three.
fn is_misspelt<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let plain = word.len() <= KEY_MAX && word.chars().all(fits);
    let mut known = known.into_iter();
    plain && known.any(|one| distance(word.as_bytes(), one.as_bytes()) <= one.len() / 3)
}

/// Letters to change, add or leave out to make one word of the other.
fn distance(one: &[u8], other: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, a) in one.iter().enumerate() {
        let mut corner = at;
        row[0] = at + 1;
        for (to, b) in other.iter().enumerate() {
            let changed = corner + usize::from(!a.eq_ignore_ascii_case(b));
            corner = row[to + 1];
            row[to + 1] = changed.min(corner + 1).min(row[to] + 1);
        }
    }
    row[other.len()]
}

fn wrong_code(place: &str, places: &Places, fault: Fault) -> ToolError {
    let at = places.in_code(fault.line, fault.column);
    let message = format!("{place}:{at}: {}", fault.message);
    ToolError::new(fault.code, text::visible(&message))
}

#[cfg(test)]
mod tests;
