//! An Agent Skill: a folder with `SKILL.md`, which tells an agent with a shell how to call the tools by `mimir call`.

use std::path::Path;

use mimir_core::text::visible;
use mimir_core::{Tool, ToolError, ToolErrorCode};
use serde_json::{Value, json};

use super::documents;
use super::export_files::ExportFile;
use super::exported_plugin::{ExportedPlugin, first_line};

/// Maximum length of a skill's name.
const MAX_NAME: usize = 64;

/// Maximum length of a skill's description, in characters.
const MAX_DESCRIPTION: usize = 1024;

/// Beginning of the commands that the skill uses. `--approve ask` cannot be given twice, so an agent that may run these
/// commands without a question cannot approve calls itself.
const CALL: &str = "mimir call --approve ask --tools-from";

/// Builds the files of the skill. Its name is that of the folder, as the specification requires.
pub fn build(
    plugin: &ExportedPlugin,
    folder: &Path,
) -> Result<(Vec<ExportFile>, Value), ToolError> {
    let name = skill_name(plugin, folder)?;
    let component = format!("tools/{}", plugin.file_name);
    let mut files = vec![ExportFile::new(
        "SKILL.md",
        skill_text(plugin, &name, &component),
    )];
    for tool in &plugin.tools {
        let definition = &tool.definition;
        let mut reference = json!({ "inputSchema": definition.input_schema.to_value() });
        if let Some(schema) = &definition.output_schema {
            reference["outputSchema"] = schema.to_value();
        }
        files.push(ExportFile::new(
            reference_file(tool),
            documents::json_file(&reference),
        ));
    }
    files.push(ExportFile::new(component, plugin.component.clone()));
    Ok((files, json!({ "name": name })))
}

fn skill_name(plugin: &ExportedPlugin, folder: &Path) -> Result<String, ToolError> {
    // The last name of the path, also of `.`.
    let real = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let name = real.file_name().unwrap_or_default().to_string_lossy();
    let is_part = |part: &str| {
        !part.is_empty()
            && part
                .bytes()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
    };
    if name.len() <= MAX_NAME && name.split('-').all(is_part) {
        return Ok(name.into_owned());
    }
    let message = format!(
        "the folder of a skill has the name of the skill, and `{}` is not one: expected lower-case letters, digits and single hyphens",
        visible(&name)
    );
    let remedy = format!("name a folder such as `--skill {}`", plugin.name);
    Err(ToolError::new(ToolErrorCode::InvalidPath, message).with_remedies([remedy]))
}

fn reference_file(tool: &Tool) -> String {
    format!("references/{}.json", tool.own_name())
}

fn skill_text(plugin: &ExportedPlugin, name: &str, component: &str) -> String {
    let mut description = plugin.summary.clone();
    let names: Vec<&str> = plugin.tools.iter().map(|tool| tool.own_name()).collect();
    let hint = format!(" Use it when a task needs {}.", names.join(", "));
    if description.chars().count() + hint.chars().count() <= MAX_DESCRIPTION {
        if !description.ends_with(['.', '!', '?']) {
            description.push('.');
        }
        description.push_str(&hint);
    }
    let description: String = description.chars().take(MAX_DESCRIPTION).collect();
    // Strings of JSON are strings of YAML.
    let mut text = format!(
        "---\nname: {name}\ndescription: {}\ncompatibility: Requires the program mimir on the PATH, and a shell\n\
         allowed-tools: {}\nmetadata:\n  version: {}\n  component: {}\n---\n\n",
        json!(description),
        json!(format!("Bash({CALL}:*)")),
        json!(plugin.version),
        json!(format!("sha256:{}", plugin.digest)),
    );
    text.push_str(&format!(
        "# {name}\n\n{}\n\n## Calls\n\nEach tool is called by a command. `SKILL_DIR` is the folder of this file:\n\n```sh\n",
        plugin.summary
    ));
    for tool in &plugin.tools {
        text.push_str(&example(tool));
    }
    text.push_str(
        "```\n\nArguments are `key=value`, `key:=JSON` for other types than text, or one JSON object. Add `--json` for the \
         structured result. Exit codes: 0 done, 1 the tool failed, 2 wrong arguments, 3 refused, 4 limit or timeout. If a \
         call is refused, tell the user what the command printed: only the user can grant rights.\n",
    );
    for tool in &plugin.tools {
        text.push_str(&tool_section(tool));
    }
    text.push('\n');
    text.push_str(&documents::component_line(plugin, component));
    text.push('\n');
    text.push_str(&documents::rights_section(
        plugin,
        &format!("SKILL_DIR/{component}"),
    ));
    text
}

/// Returns the command that calls the tool with its required arguments.
fn example(tool: &Tool) -> String {
    let schema = tool.definition.input_schema.to_value();
    let mut line = format!("{CALL} SKILL_DIR/tools {}", tool.own_name());
    let required = schema["required"].as_array().into_iter().flatten();
    for key in required.filter_map(Value::as_str) {
        let is_text = schema["properties"][key]["type"] == "string";
        let key = visible(key);
        line.push_str(&if is_text {
            format!(" {key}=TEXT")
        } else {
            format!(" '{key}:=JSON'")
        });
    }
    line.push('\n');
    line
}

/// Describes one tool and its arguments.
fn tool_section(tool: &Tool) -> String {
    let description = tool.definition.description.lines().map(visible);
    let description: Vec<String> = description.collect();
    let mut text = format!(
        "\n## `{}`\n\n{}\n\nSchemas: [{file}]({file})\n",
        tool.own_name(),
        description.join("\n"),
        file = reference_file(tool)
    );
    let schema = tool.definition.input_schema.to_value();
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let Some(properties) = schema["properties"]
        .as_object()
        .filter(|found| !found.is_empty())
    else {
        return text;
    };
    text.push_str("\n| argument | type | meaning |\n|---|---|---|\n");
    for (name, property) in properties {
        let kind = match &property["type"] {
            Value::String(kind) => kind.clone(),
            _ => "any".to_owned(),
        };
        let optional = if required.contains(&json!(name)) {
            ""
        } else {
            ", optional"
        };
        let meaning = first_line(property["description"].as_str().unwrap_or_default());
        let cell = |text: &str| visible(text).replace('|', "\\|");
        text.push_str(&format!(
            "| `{}` | {kind}{optional} | {} |\n",
            cell(name),
            cell(&meaning)
        ));
    }
    text
}
