//! A tool in a YAML file: its keys, read once into what is checked here and nowhere else.

use mimir_core::command::CommandPattern;
use mimir_core::tool::{Definition, Group, Hints, Risk, ToolName};
use mimir_core::{Code, Decision, Schema, ToolError, text};

use crate::compile::{self, Compiled, Mentions};
use crate::{needs, words, yaml};

mod faults;
mod file;
mod places;

pub use file::schema;
use file::{File, Runtime};
use places::Places;

/// The longest description, in characters: what a plugin may say, too.
const DESCRIPTION_MAX: usize = 8_000;

/// Patterns of commands that a file may have.
const PATTERNS_MAX: usize = 100;

/// Tokens that a tool may be said to cost. More fits into no prompt.
const TOKENS_MAX: u32 = 1_000_000;

/// What is said of commands that nobody would look at.
const UNBOUND: &str = "`allowlist` bounds nothing with `runtime: node`: what node starts, no gate sees. Leave it out, and \
    the sandbox of commands bounds what node does; or use `runtime: typescript`, where each command is judged";

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
    /// Whether it keeps something between calls.
    pub(crate) keeps: bool,
    pub(crate) body: Body,
    /// As it is written.
    pub(crate) code: String,
    pub(crate) places: Places,
}

/// Reads a file, and compiles its code. `place` is how messages call it. The error is the first of its faults.
pub fn check(place: &str, content: &str) -> Result<Checked, ToolError> {
    check_all(place, content).map_err(|mut faults| faults.swap_remove(0))
}

/// The same, with all the faults that can be seen at once: at least one.
pub fn check_all(place: &str, content: &str) -> Result<Checked, Vec<ToolError>> {
    yaml::fit(content).map_err(|unfit| {
        vec![ToolError::new(
            Code::InvalidInput,
            format!("{place}:{unfit}"),
        )]
    })?;
    let places = Places::of(content);
    let file: File = match serde_yaml::from_str(content) {
        Ok(file) => file,
        Err(error) => return Err(faults::of_unread(place, content, &places, &error)),
    };
    let mut faults = Vec::new();
    let mut wrong = |key: &str, message: String| {
        let line = places.line(key);
        let error = ToolError::new(Code::InvalidInput, format!("{place}:{line}: {message}"));
        faults.push(error);
    };
    let name = ToolName::new(&file.name);
    if let Err(error) = &name {
        wrong("name", error.to_string());
    }
    let description = file.description.trim();
    if description.is_empty() {
        let message = "`description` is empty; a model chooses the tool by it";
        wrong("description", message.to_owned());
    }
    if description.chars().count() > DESCRIPTION_MAX {
        let message = format!("`description` has more than {DESCRIPTION_MAX} characters");
        wrong("description", message);
    }
    if file.token_cost.is_some_and(|tokens| tokens > TOKENS_MAX) {
        wrong("tokenCost", format!("`tokenCost` is at most {TOKENS_MAX}"));
    }
    let input_schema = match file.schema["type"] == "object" {
        true => {
            Schema::parse(&file.schema.to_string()).map_err(|error| format!("`schema`: {error}"))
        }
        false => {
            Err("`schema` is no schema of an object; it begins with `type: object`".to_owned())
        }
    };
    if let Err(message) = &input_schema {
        wrong("schema", message.clone());
    }
    let permissions = file.permissions;
    let patterns = match (file.runtime, &permissions.allowlist) {
        (Runtime::Node, Some(_)) => Err(UNBOUND.to_owned()),
        (_, allowlist) => patterns(allowlist.as_deref()),
    };
    if let Err(message) = &patterns {
        wrong("permissions.allowlist", message.clone());
    }
    let made = match file.runtime {
        Runtime::Typescript => compile::compile(&file.code, true).map(Body::script),
        Runtime::Javascript => compile::compile(&file.code, false).map(Body::script),
        Runtime::Python => Ok((Body::Python, words::of_python(&file.code))),
        Runtime::Bash => Ok((Body::Bash, words::of_bash(&file.code))),
        // What it imports is node's to find.
        Runtime::Node => compile::parsed(&file.code).map(|()| (Body::Node, Mentions::default())),
    };
    let made = made.map_err(|found| {
        let found = found.into_iter();
        faults.extend(found.map(|fault| faults::wrong_code(place, &places, fault)));
    });
    let (Ok(name), Ok(input_schema), Ok(patterns), Ok((body, mentions)), []) =
        (name, input_schema, patterns, made, faults.as_slice())
    else {
        return Err(faults);
    };
    let needs = match body {
        Body::Node => needs::of_node(),
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
        keeps: mentions.words.contains("storage"),
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

#[cfg(test)]
mod tests;
