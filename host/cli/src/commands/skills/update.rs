//! `mimir skills update`.

use std::path::Path;

use mimir_core::ToolError;
use mimir_core::text::visible;
use serde_json::{Value, json};

use crate::args::GlobalOptions;
use crate::exit::{CommandFailure, CommandResult, ExitReason};
use crate::output::note;
use crate::terminal;
use mimir::setup::HostSetup;
use mimir::skills::{FoundSkill, SkillContent};

use super::record;
use super::source::SkillSourceName;

/// Installs the content that the references of skills name now, after the user has seen the differences.
pub async fn run(globals: &GlobalOptions, name: Option<&str>, yes: bool) -> CommandResult {
    let setup = HostSetup::find(globals.workspace.as_deref())?;
    let library = setup.skills();
    let skills = match name {
        Some(name) => vec![library.find(name)?],
        None => library.find_all()?,
    };
    let mut rows = Vec::new();
    for skill in &skills {
        let Some(source) = registry_source(skill) else {
            if let Some(name) = name {
                return Err(CommandFailure::usage(format!(
                    "`{name}` does not come from a registry: add the new content with `mimir skills add SOURCE --force`"
                )));
            }
            continue;
        };
        rows.push(update(globals, &setup, skill, &source, yes).await?);
    }
    let printer = globals.printer();
    if rows.is_empty() && !printer.is_json() {
        note("No skill of this workspace comes from a registry.");
    }
    if printer.is_json() {
        printer.print_json(&json!({ "skills": rows }))?;
    }
    Ok(ExitReason::Done)
}

/// Returns the registry that a skill comes from.
fn registry_source(skill: &FoundSkill) -> Option<SkillSourceName> {
    let pin = skill.pin.as_ref()?;
    let source = SkillSourceName::parse(Path::new(&pin.source)).ok()?;
    matches!(source, SkillSourceName::Registry(_)).then_some(source)
}

async fn update(
    globals: &GlobalOptions,
    setup: &HostSetup,
    skill: &FoundSkill,
    source: &SkillSourceName,
    yes: bool,
) -> CommandResult<Value> {
    let name = &skill.name;
    let shows = !globals.printer().is_json();
    let new = source.fetch(setup, None).await?;
    if new.content.document.name != *name {
        return Err(ToolError::permission_denied(format!(
            "the artifact of `{name}` is now another skill, `{}`; nothing was changed",
            new.content.document.name
        ))
        .into());
    }
    let lines = differences(skill.content.as_ref().ok(), &new.content);
    if lines.is_empty() {
        if shows {
            note(format_args!("{name} is up to date"));
        }
        return Ok(json!({ "name": name, "updated": false, "changes": [] }));
    }
    if shows {
        note(format_args!("{name} has changed:"));
        lines.iter().for_each(|line| note(format_args!("  {line}")));
    }
    if !yes && !terminal::confirm(&format!("Install the new content of {name}?"))? {
        return Err(ToolError::approval_denied(format!(
            "nothing was changed; without a terminal, use `mimir skills update {name} --yes`"
        ))
        .into());
    }
    let pinned = setup.skills().install(new, true)?;
    let (folder, digest) = (&pinned.pin.folder, &pinned.pin.digest);
    record(setup, folder, &format!("skill updated, sha256 {digest}"));
    if shows {
        note(format_args!(
            "{name} is updated; `mimir skills trust {name}` accepts its new instructions"
        ));
    }
    Ok(json!({ "name": name, "updated": true, "digest": digest, "changes": lines }))
}

/// Describes the differences between two contents, one line each. Empty if they are equal.
fn differences(old: Option<&SkillContent>, new: &SkillContent) -> Vec<String> {
    let Some(old) = old else {
        return vec!["the installed files are missing or not valid".to_owned()];
    };
    let mut lines = Vec::new();
    for (path, bytes) in new.files.iter() {
        let path_shown = visible(path);
        match old.files.get(path) {
            None => lines.push(format!("new file {path_shown}")),
            Some(before) if before != bytes => lines.push(format!("changed file {path_shown}")),
            Some(_) => {}
        }
    }
    let removed = old
        .files
        .iter()
        .filter(|(path, _)| new.files.get(path).is_none());
    lines.extend(removed.map(|(path, _)| format!("removed file {}", visible(path))));
    if old.document.description != new.document.description {
        let description = new.document.shown_description();
        lines.push(format!("another description: {description}"));
    }
    let (before, after) = (old.requests(), new.requests());
    for request in after.iter().filter(|request| !before.contains(request)) {
        lines.push(format!(
            "requests {}: {}",
            request.entry,
            request.describe()
        ));
    }
    for request in before.iter().filter(|request| !after.contains(request)) {
        lines.push(format!("no longer requests {}", request.entry));
    }
    lines
}
