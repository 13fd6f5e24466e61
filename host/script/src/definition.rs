//! Tool definitions in YAML files: parses and validates the keys.

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

/// Maximum length of a description in characters; plugins have the same limit.
const DESCRIPTION_MAX: usize = 8_000;

/// Maximum number of command patterns in a file.
const PATTERNS_MAX: usize = 100;

/// Maximum token cost that a file can declare. No prompt has room for more.
const TOKENS_MAX: u32 = 1_000_000;

/// Error for an allowlist that would not be enforced.
const UNBOUND: &str = "`allowlist` has no effect with `runtime: node`: commands that node starts are not checked. Leave it out, and \
    the command sandbox restricts node; or use `runtime: typescript`, which checks each command";

/// The runtime of a tool, with the compiled code where there is any.
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

/// A validated tool file.
#[derive(Debug)]
pub struct Checked {
    /// The tool's definition.
    pub definition: Definition,
    /// True if the file enables the tool.
    pub enabled: bool,
    /// Declared cost in a prompt, in tokens.
    pub token_cost: Option<u32>,
    /// True if the tool uses storage between calls.
    pub(crate) keeps: bool,
    pub(crate) body: Body,
    /// The code as written.
    pub(crate) code: String,
    pub(crate) places: Places,
}

/// Parses a file and compiles its code. `place` is the name of the file in messages. The error is the first fault.
pub fn check(place: &str, content: &str) -> Result<Checked, ToolError> {
    check_all(place, content).map_err(|mut faults| faults.swap_remove(0))
}

/// Like [`check`], with all faults that can be detected in one pass: at least one.
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
        let message = "`description` is empty: describe what the tool does, because a model chooses it by that";
        wrong("description", message.to_owned());
    }
    if description.chars().count() > DESCRIPTION_MAX {
        let message = format!("`description` is longer than {DESCRIPTION_MAX} characters");
        wrong("description", message);
    }
    if file.token_cost.is_some_and(|tokens| tokens > TOKENS_MAX) {
        wrong(
            "tokenCost",
            format!("`tokenCost` is out of range: expected at most {TOKENS_MAX}"),
        );
    }
    let input_schema = match file.schema["type"] == "object" {
        true => {
            Schema::parse(&file.schema.to_string()).map_err(|error| format!("`schema`: {error}"))
        }
        false => {
            Err("`schema` does not describe an object: begin it with `type: object`".to_owned())
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
        // Imports are resolved by node itself.
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

/// Converts an allowlist to the form of the command policy. Legacy tool files match a whole line with a glob (`yarn
/// test*`), the policy matches word by word: a trailing star lets any words follow here too, and no other star does.
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
            // `vitest*` means vitest with any arguments.
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
