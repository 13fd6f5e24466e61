//! Parsing and validation of tool definitions in YAML files.

use mimir_core::command::CommandPattern;
use mimir_core::tool::{RiskLevel, ToolDefinition, ToolGroup, ToolHints, ToolName};
use mimir_core::{Decision, Schema, ToolError, ToolErrorCode, text};

use crate::compile::{self, CodeMentions, CompiledCode};
use crate::{needs, word_scan, yaml};

mod docker_platform;
mod file_errors;
mod file_positions;
mod yaml_file;

pub(crate) use docker_platform::{ContainerInterpreter, ToolContainer};
use file_positions::FilePositions;
pub use yaml_file::schema;
use yaml_file::{ScriptRuntime, YamlToolFile};

/// Maximum length of a description in characters; plugins have the same limit.
const MAX_DESCRIPTION_CHARS: usize = 8_000;

/// Maximum number of command patterns in a file.
const MAX_PATTERNS: usize = 100;

/// Maximum token cost that a file can declare.
const MAX_TOKENS: u32 = 1_000_000;

/// Error for an allowlist that would not be enforced.
const ALLOWLIST_WITHOUT_EFFECT: &str = "`allowlist` has no effect with `runtime: node` or `platform`: commands that the code starts are not checked. Leave it out, and \
    the command sandbox restricts node; or use `runtime: typescript`, which checks each command";

/// The runtime of a tool, with the compiled code of a script.
#[derive(Debug)]
pub(crate) enum ScriptBody {
    Script(CompiledCode),
    Python,
    Bash,
    Node,
    Container(ToolContainer),
}

impl ScriptBody {
    fn script(mut compiled: CompiledCode) -> (Self, CodeMentions) {
        let mentions = std::mem::take(&mut compiled.mentions);
        (Self::Script(compiled), mentions)
    }
}

/// A validated tool file.
#[derive(Debug)]
pub struct CheckedScript {
    /// The tool's definition.
    pub definition: ToolDefinition,
    /// True if the file enables the tool.
    pub enabled: bool,
    /// Declared cost in a prompt, in tokens.
    pub token_cost: Option<u32>,
    /// True if the tool uses storage between calls.
    pub(crate) has_storage: bool,
    pub(crate) body: ScriptBody,
    /// The code as written.
    pub(crate) code: String,
    pub(crate) positions: FilePositions,
}

/// Parses a file and compiles its code. `file_name` is used in messages. Fails with the first fault.
pub fn check(file_name: &str, content: &str) -> Result<CheckedScript, ToolError> {
    check_all(file_name, content).map_err(|mut faults| faults.swap_remove(0))
}

/// Parses a file and compiles its code. Fails with all faults that can be detected in one pass, unlike [`check`].
pub fn check_all(file_name: &str, content: &str) -> Result<CheckedScript, Vec<ToolError>> {
    yaml::check_yaml(content).map_err(|rejection| {
        vec![ToolError::new(
            ToolErrorCode::InvalidInput,
            format!("{file_name}:{rejection}"),
        )]
    })?;
    let positions = FilePositions::from_yaml(content);
    let file: YamlToolFile = match serde_yaml::from_str(content) {
        Ok(file) => file,
        Err(error) => {
            return Err(file_errors::unreadable_file_errors(
                file_name, content, &positions, &error,
            ));
        }
    };
    let mut faults = Vec::new();
    let mut add_fault = |key: &str, message: String| {
        let line = positions.line(key);
        let error = ToolError::new(
            ToolErrorCode::InvalidInput,
            format!("{file_name}:{line}: {message}"),
        );
        faults.push(error);
    };
    let name = ToolName::new(&file.name);
    if let Err(error) = &name {
        add_fault("name", error.to_string());
    }
    let description = file.description.trim();
    if description.is_empty() {
        let message = "`description` is empty: describe what the tool does, because a model chooses it by that";
        add_fault("description", message.to_owned());
    }
    if description.chars().count() > MAX_DESCRIPTION_CHARS {
        let message = format!("`description` is longer than {MAX_DESCRIPTION_CHARS} characters");
        add_fault("description", message);
    }
    if file.token_cost.is_some_and(|tokens| tokens > MAX_TOKENS) {
        add_fault(
            "tokenCost",
            format!("`tokenCost` is out of range: expected at most {MAX_TOKENS}"),
        );
    }
    let input_schema = if file.schema["type"] == "object" {
        Schema::parse(&file.schema.to_string()).map_err(|error| format!("`schema`: {error}"))
    } else {
        Err("`schema` does not describe an object: begin it with `type: object`".to_owned())
    };
    if let Err(message) = &input_schema {
        add_fault("schema", message.clone());
    }
    let permissions = file.permissions;
    let platform = file.platform.as_ref();
    let container = platform.map(|platform| ToolContainer::new(platform, file.runtime));
    let container = container.transpose().unwrap_or_else(|(key, message)| {
        add_fault(key, message);
        None
    });
    let runs_as_command = file.runtime == ScriptRuntime::Node || container.is_some();
    let patterns = match &permissions.allowlist {
        Some(_) if runs_as_command => Err(ALLOWLIST_WITHOUT_EFFECT.to_owned()),
        allowlist => command_patterns(allowlist.as_deref()),
    };
    if let Err(message) = &patterns {
        add_fault("permissions.allowlist", message.clone());
    }
    let compiled_body = match file.runtime {
        ScriptRuntime::Python if container.is_some() => {
            Ok((ScriptBody::Python, CodeMentions::default()))
        }
        ScriptRuntime::Typescript => compile::compile(&file.code, true).map(ScriptBody::script),
        ScriptRuntime::Javascript => compile::compile(&file.code, false).map(ScriptBody::script),
        ScriptRuntime::Python => Ok((ScriptBody::Python, word_scan::python_mentions(&file.code))),
        ScriptRuntime::Bash => Ok((ScriptBody::Bash, word_scan::bash_mentions(&file.code))),
        // Imports are allowed, because node resolves them.
        ScriptRuntime::Node => {
            compile::check_syntax(&file.code).map(|()| (ScriptBody::Node, CodeMentions::default()))
        }
    };
    let compiled_body = compiled_body.map_err(|code_faults| {
        let code_faults = code_faults.into_iter();
        faults
            .extend(code_faults.map(|fault| file_errors::code_error(file_name, &positions, fault)));
    });
    let (Ok(name), Ok(input_schema), Ok(patterns), Ok((body, mentions)), []) = (
        name,
        input_schema,
        patterns,
        compiled_body,
        faults.as_slice(),
    ) else {
        return Err(faults);
    };
    let body = container.map_or(body, ScriptBody::Container);
    let needs = match &body {
        ScriptBody::Node => needs::node_needs(),
        ScriptBody::Container(container) => container.needs(),
        ScriptBody::Bash => needs::bash_needs(&mentions, patterns.as_deref()),
        _ => needs::script_needs(&mentions, patterns.as_deref()),
    };
    let approval = match permissions.auto_accept {
        Some(true) => Decision::Allow,
        Some(false) => Decision::Ask,
        None if needs.is_empty() => Decision::Allow,
        None => Decision::Ask,
    };
    let group = if !needs.commands.is_empty() {
        ToolGroup::Runtime
    } else if !needs.hosts.is_empty() {
        ToolGroup::Net
    } else if !needs.files.is_empty() {
        ToolGroup::Fs
    } else {
        ToolGroup::System
    };
    let definition = ToolDefinition {
        name,
        title: None,
        description: text::sanitize(description.to_owned()),
        group,
        input_schema,
        output_schema: None,
        approval,
        silent: permissions.auto_accept.is_none(),
        risk: permissions.risk_level.unwrap_or(RiskLevel::Medium),
        hints: ToolHints::default(),
        needs,
    };
    Ok(CheckedScript {
        definition,
        has_storage: mentions.words.contains("storage"),
        enabled: file.enabled,
        token_cost: file.token_cost,
        body,
        code: file.code,
        positions,
    })
}

/// Converts an allowlist to patterns of the command policy. Legacy tool files match a whole line with a glob (`yarn
/// test*`), but the policy matches word by word: only a trailing star lets any words follow.
fn command_patterns(allowlist: Option<&[String]>) -> Result<Option<Vec<String>>, String> {
    let Some(allowlist) = allowlist else {
        return Ok(None);
    };
    if allowlist.len() > MAX_PATTERNS {
        return Err(format!("`allowlist` has more than {MAX_PATTERNS} patterns"));
    }
    let mut patterns = Vec::new();
    for glob in allowlist {
        let mut words: Vec<&str> = glob.split_whitespace().collect();
        if words
            .first()
            .is_some_and(|program| program.trim_matches('*').is_empty())
        {
            return Err(format!(
                "`allowlist`: `{}` does not name a program: begin it with one, or leave out `allowlist` to allow every command",
                text::visible(glob)
            ));
        }
        let ends_with_star = words.last().is_some_and(|last| last.ends_with('*'));
        let is_one_word = words.len() == 1;
        if is_one_word && let Some(program) = words.first_mut() {
            // `vitest*` means vitest with any arguments.
            *program = program.trim_end_matches('*');
        }
        if ends_with_star && words.last() != Some(&"*") {
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
