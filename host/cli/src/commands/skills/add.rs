//! `mimir skills add`.

use mimir_core::paths::SHARED_SKILL_FOLDERS;
use mimir_core::text::visible;
use mimir_core::{ToolError, ToolErrorCode};
use serde_json::json;

use crate::args::{GlobalOptions, SkillsAddArgs};
use crate::exit::{CommandResult, ExitReason};
use crate::output::note;
use mimir::setup::HostSetup;
use mimir::skills::{FOLDER, PinnedSkill, SkillContent, SkillLibrary, SkillState};

use super::source::SkillSourceName;
use super::{disabled_line, record};

/// Installs a skill, or pins it where it is, if it is in one of the workspace's folders for skills.
pub async fn run(globals: &GlobalOptions, args: SkillsAddArgs) -> CommandResult {
    let setup = HostSetup::find(globals.workspace.as_deref())?;
    let library = setup.skills();
    let source = SkillSourceName::parse(&args.source)?;
    let (pinned, content) = match local_skill(&setup, &source) {
        Some((name, folder)) => pin_in_place(&library, &name, &folder)?,
        None => {
            let new = source.fetch(&setup, args.digest.as_deref()).await?;
            refuse_team_name(&library, &new.content.document.name)?;
            let content = new.content.clone();
            (library.install(new, args.force)?, content)
        }
    };
    let action = if pinned.has_replaced {
        "skill replaced"
    } else {
        "skill added"
    };
    let (folder, digest) = (&pinned.pin.folder, &pinned.pin.digest);
    record(&setup, folder, &format!("{action}, sha256 {digest}"));
    show(globals, &setup, &pinned, &content)
}

/// Returns the name and the folder of the skill if the source is its folder in the workspace.
fn local_skill(setup: &HostSetup, source: &SkillSourceName) -> Option<(String, String)> {
    let SkillSourceName::Folder(folder) = source else {
        return None;
    };
    let folder = folder.canonicalize().ok()?;
    let root = setup.workspace.root().canonicalize().ok()?;
    let parent = folder.parent()?;
    let mut known = [FOLDER].into_iter().chain(SHARED_SKILL_FOLDERS);
    let above = known.find(|below| root.join(below) == parent)?;
    let name = folder.file_name()?.to_str()?;
    Some((name.to_owned(), format!("{above}/{name}")))
}

fn pin_in_place(
    library: &SkillLibrary,
    name: &str,
    folder: &str,
) -> Result<(PinnedSkill, SkillContent), ToolError> {
    refuse_team_name(library, name)?;
    let skill = library.find(name)?;
    if skill.folder != folder {
        return Err(ToolError::new(
            ToolErrorCode::AlreadyExists,
            format!(
                "nothing was added: the skill `{name}` in {} comes before the one in {folder}; remove or rename one of them",
                skill.folder
            ),
        ));
    }
    let content = skill.content.clone()?;
    if skill.state == SkillState::Trusted {
        return Err(ToolError::new(
            ToolErrorCode::AlreadyExists,
            format!("the skill `{name}` is already added and trusted"),
        ));
    }
    Ok((library.pin_in_place(&skill)?, content))
}

/// Fails for the name of a team's skill, which takes precedence.
fn refuse_team_name(library: &SkillLibrary, name: &str) -> Result<(), ToolError> {
    let is_of_team = library
        .find(name)
        .is_ok_and(|skill| skill.state == SkillState::Team);
    if is_of_team {
        return Err(ToolError::new(
            ToolErrorCode::AlreadyExists,
            format!(
                "nothing was added: your team has a skill `{}`",
                visible(name)
            ),
        ));
    }
    Ok(())
}

/// Prints what was added, and what it requests.
fn show(
    globals: &GlobalOptions,
    setup: &HostSetup,
    pinned: &PinnedSkill,
    content: &SkillContent,
) -> CommandResult {
    let requests = content.requests();
    let printer = globals.printer();
    if printer.is_json() {
        let requests = requests.iter();
        let requests = requests
            .map(|request| json!({ "entry": request.entry, "meaning": request.describe() }));
        printer.print_json(&json!({
            "added": pinned.name,
            "folder": pinned.pin.folder,
            "source": pinned.pin.source,
            "artifact": pinned.pin.artifact,
            "signer": pinned.pin.signer.as_ref().map(ToString::to_string),
            "digest": pinned.pin.digest,
            "replaced": pinned.has_replaced,
            "requests": requests.collect::<Vec<_>>(),
        }))?;
        return Ok(ExitReason::Done);
    }
    note(format_args!(
        "{}: {}",
        pinned.pin.folder,
        content.document.shown_description()
    ));
    if let Some(signer) = &pinned.pin.signer {
        note(format_args!("Signer: {}", visible(&signer.to_string())));
    }
    if !requests.is_empty() {
        note("It requests:");
    }
    for request in &requests {
        note(format_args!("  {}: {}", request.entry, request.describe()));
    }
    if let Some(line) = disabled_line(setup) {
        note(line);
        return Ok(ExitReason::Done);
    }
    note(format_args!(
        "Models can load it, marked as content from outside. `mimir skills trust {}` shows its instructions, accepts them as yours and grants what it requests.",
        pinned.name
    ));
    Ok(ExitReason::Done)
}
