//! The tool `load_skill`: models see the name and the description of each skill, and load its instructions and files
//! when they need them.

use std::sync::Arc;

use mimir_core::backend::{Backend, BoxFuture, RawResult};
use mimir_core::outcome::{Content, ToolOutput};
use mimir_core::text::{prefix, visible};
use mimir_core::tool::{InvalidToolName, ToolOrigin, ToolTrust};
use mimir_core::{
    Approved, Decision, Needs, RiskLevel, Schema, Tool, ToolDefinition, ToolError, ToolErrorCode,
    ToolGroup, ToolHints, ToolName, ToolSource,
};
use serde_json::json;
use sha2::{Digest, Sha256};

use super::{SKILL_FILE, SkillLibrary, UsableSkill};

/// The name of the tool.
pub const LOAD_SKILL: &str = "load_skill";

/// Maximum number of files that the result lists.
const MAX_LISTED: usize = 50;

impl SkillLibrary {
    /// Creates the tool `load_skill`. `None` if the workspace has no skills that models may load.
    pub fn tool(&self) -> Result<Option<Tool>, InvalidToolName> {
        let skills = self.usable_as(|skill| {
            // The description of a skill that is not trusted is text from outside, and nothing would mark it here.
            let description = match skill.is_trusted {
                true => skill.content.document.shown_description(),
                false => "added, but not trusted; load it to see what it is for".to_owned(),
            };
            let identity = format!(
                "{} {} {}",
                skill.name,
                skill.id,
                skill.content.files.digest()
            );
            (skill.name.clone(), description, identity)
        });
        if skills.is_empty() {
            return Ok(None);
        }
        let mut description = "Loads a skill: instructions for a kind of task, with scripts and documents. Load it before \
            you do a task that its description names. Skills:"
            .to_owned();
        // A stored approval of the tool ends when a skill changes.
        let mut hash = Sha256::new();
        for (name, text, identity) in &skills {
            description.push_str(&format!("\n- {name}: {text}"));
            hash.update(format!("{identity}\n"));
        }
        hash.update(&description);
        let schema = json!({
            "type": "object",
            "properties": {
                "skill": {"type": "string", "description": "The name of the skill."},
                "file": {
                    "type": "string",
                    "minLength": 1,
                    "description": "Only this file of the skill, such as references/forms.md. Without it: the instructions, and a list of the files.",
                },
            },
            "required": ["skill"],
            "additionalProperties": false,
        });
        let definition = ToolDefinition {
            name: ToolName::new(LOAD_SKILL)?,
            title: Some("Load a skill".to_owned()),
            description,
            group: ToolGroup::System,
            input_schema: Schema::unchecked(schema.to_string()),
            output_schema: None,
            silent: false,
            approval: Decision::Allow,
            risk: RiskLevel::Low,
            hints: ToolHints {
                read_only: true,
                idempotent: true,
                ..ToolHints::default()
            },
            needs: Needs::default(),
        };
        let origin = ToolOrigin::compiled_in(LOAD_SKILL, format!("{:x}", hash.finalize()));
        Ok(Some(Tool::new(
            definition,
            ToolSource::BuiltIn,
            Arc::new(origin),
            ToolTrust::Trusted,
            Arc::new(SkillLoader(self.clone())),
        )))
    }
}

struct SkillLoader(SkillLibrary);

impl Backend for SkillLoader {
    fn run(&self, call: Approved) -> BoxFuture<'_, RawResult> {
        Box::pin(async move {
            let library = self.0.clone();
            // Reading and hashing up to 16 MiB blocks.
            let loaded = tokio::task::spawn_blocking(move || load(&library, &call)).await;
            RawResult::from(loaded.unwrap_or_else(|error| Err(ToolError::internal(error))))
        })
    }
}

/// Returns the instructions of a skill, and applies its permissions to the session; or returns one of its files.
fn load(library: &SkillLibrary, call: &Approved) -> Result<ToolOutput, ToolError> {
    let text = |key: &str| call.arguments()[key].as_str();
    let name = text("skill").unwrap_or_default();
    let skill = usable_skill(library, name)?;
    let file = text("file");
    check_readable(&skill, file.unwrap_or(SKILL_FILE), call)?;
    let content = match file {
        Some(file) => file_content(&skill, file)?,
        None => Content::text(instructions(
            &skill,
            script_folder(library, &skill).as_deref(),
        )),
    };
    if !skill.is_trusted {
        call.mark_untrusted();
    }
    // Reading a file is no use of the skill: only loading its instructions is.
    if file.is_none() {
        call.activate_skill(skill.grant(library));
    }
    Ok(ToolOutput {
        content: vec![content],
        ..ToolOutput::default()
    })
}

/// Returns the skill `name`. The error for an unknown name lists the skills that can be loaded.
fn usable_skill(library: &SkillLibrary, name: &str) -> Result<UsableSkill, ToolError> {
    library.usable_skill(name).map_err(|mut error| {
        if error.code == ToolErrorCode::NotFound {
            let names = library.usable_as(|skill| skill.name);
            error.message = format!(
                "{} The argument `skill` is one of: {}",
                error.message,
                names.join(", ")
            );
        }
        error
    })
}

/// Returns the folder of the workspace in which tools can read the files of the skill. `None` if they cannot.
fn script_folder(library: &SkillLibrary, skill: &UsableSkill) -> Option<String> {
    if !skill.is_trusted {
        return None;
    }
    if skill.is_in_workspace() {
        return Some(skill.folder.clone());
    }
    match library.write_team_skill(skill) {
        Ok(folder) => Some(folder),
        Err(error) => {
            tracing::warn!(%error, skill = skill.name, "the files of a team's skill are not in the workspace");
            None
        }
    }
}

/// Fails if the settings hide the file from tools.
fn check_readable(skill: &UsableSkill, file: &str, call: &Approved) -> Result<(), ToolError> {
    let path = format!("{}/{file}", skill.folder);
    // The folder of a skill that is not trusted is hidden from other tools, because only this one marks its text.
    let rules = call.paths().show_skills([&skill.folder]);
    let rules = rules.map_err(ToolError::internal)?;
    match rules.check(&path).against_reading() {
        Some(rule) => Err(ToolError::permission_denied(format!(
            "`{}` may not be read: {}",
            visible(prefix(&path, 200)),
            rule.text()
        ))),
        None => Ok(()),
    }
}

fn instructions(skill: &UsableSkill, folder: Option<&str>) -> String {
    let mut text = format!("Skill `{}`.", skill.name);
    let files: Vec<&str> = (skill.content.files.iter())
        .map(|(path, _)| path)
        .filter(|path| *path != SKILL_FILE)
        .collect();
    if !files.is_empty() {
        if let Some(folder) = folder {
            text.push_str(&format!(
                " Its files are in `{folder}`, read-only; run scripts from there:"
            ));
        } else {
            text.push_str(" `load_skill` with `file` returns its files:");
        }
        for path in files.iter().take(MAX_LISTED) {
            text.push_str(&format!("\n- {path}"));
        }
        if files.len() > MAX_LISTED {
            text.push_str(&format!("\n- and {} more", files.len() - MAX_LISTED));
        }
    }
    text.push_str("\n\n");
    text.push_str(&skill.content.document.instructions);
    text
}

fn file_content(skill: &UsableSkill, file: &str) -> Result<Content, ToolError> {
    let path = file.strip_prefix("./").unwrap_or(file);
    let Some(bytes) = skill.content.files.get(path) else {
        let known = skill.content.files.iter().map(|(path, _)| path);
        let hint = mimir_core::name_suggestions::did_you_mean(path, known);
        return Err(ToolError::new(
            ToolErrorCode::FileNotFound,
            format!(
                "the skill `{}` has no file `{}`.{hint}",
                skill.name,
                visible(prefix(path, 200))
            ),
        ));
    };
    Ok(match std::str::from_utf8(bytes) {
        Ok(text) => Content::text(text),
        Err(_) => Content::File {
            data: bytes.to_vec(),
            mime_type: super::skill_resources::mime_type(path).to_owned(),
            name: path.rsplit('/').next().unwrap_or(path).to_owned(),
        },
    })
}
