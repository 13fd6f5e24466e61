//! `mimir skills update`.

use std::path::Path;

use mimir_core::text::visible;
use mimir_core::{ToolError, ToolErrorCode};
use serde_json::{Value, json};

use crate::args::GlobalOptions;
use crate::exit::{CommandFailure, CommandResult, ExitReason};
use crate::output::note;
use crate::terminal;
use mimir::setup::HostSetup;
use mimir::skills::{FoundSkill, NewSkill, SkillContent, SkillLibrary};

use super::record;
use super::source::SkillSourceName;

/// Installs the content that the sources of skills have now, after the user has seen the differences.
pub async fn run(globals: &GlobalOptions, name: Option<&str>, yes: bool) -> CommandResult {
    let setup = HostSetup::find(globals.workspace.as_deref())?;
    let library = setup.skills();
    let skills = match name {
        Some(name) => vec![library.find(name)?],
        None => library.find_all()?,
    };
    let mut rows = Vec::new();
    let mut has_missing_source = false;
    for skill in &skills {
        // The source in a pin that this user has not accepted is a claim of the lock file.
        if skill.pin.is_some() && !skill.is_accepted {
            if let Some(name) = name {
                return Err(CommandFailure::usage(format!(
                    "you have not accepted what tools.lock says about `{name}`: add it from its source with `mimir skills add SOURCE --force`"
                )));
            }
            continue;
        }
        match update_source(&library, skill) {
            Ok(source) => rows.push(update(globals, &setup, skill, &source, yes).await?),
            Err(error) if name.is_some() => return Err(error.into()),
            // One missing folder does not keep the other skills from their updates.
            Err(error) if error.code == ToolErrorCode::FileNotFound => {
                note(&error.message);
                has_missing_source = true;
            }
            Err(_) => {}
        }
    }
    let printer = globals.printer();
    if rows.is_empty() && !has_missing_source && !printer.is_json() {
        note("No skill of this workspace comes from a registry or a folder of this machine.");
    }
    if printer.is_json() {
        printer.print_json(&json!({ "skills": rows }))?;
    }
    Ok(ExitReason::Done)
}

/// Returns the registry, folder or archive that a skill comes from.
fn update_source(library: &SkillLibrary, skill: &FoundSkill) -> Result<SkillSourceName, ToolError> {
    let name = &skill.name;
    let not_updated = |why: String, remedy: String| {
        Err(
            ToolError::invalid_input(format!("`{name}` cannot be updated: {why}"))
                .with_remedies([remedy]),
        )
    };
    let add = "`mimir skills add SOURCE --force` installs the content of another source".to_owned();
    let Some(pin) = &skill.pin else {
        let remedy = format!("`mimir skills trust {name}` accepts the files as they are");
        return not_updated("no source of it is known".to_owned(), remedy);
    };
    if pin.source == pin.folder {
        let why = format!("its own folder {} is its source", visible(&pin.folder));
        let remedy = format!("`mimir skills trust {name}` shows and accepts the files as they are");
        // A skill that was installed, changed and accepted still has its source.
        let Some(path) = library.local_path(name)? else {
            return not_updated(why, remedy);
        };
        return local_source(name, &path, add);
    }
    if let Some(path) = library.local_path(name)? {
        return local_source(name, &path, add);
    }
    match SkillSourceName::parse(Path::new(&pin.source)) {
        Ok(source @ SkillSourceName::Registry(_)) => Ok(source),
        Ok(SkillSourceName::Url(url)) => not_updated(
            format!("its digest fixes the content of {}", visible(&url)),
            "`mimir skills add URL --digest SHA256 --force` installs another archive".to_owned(),
        ),
        _ => not_updated(
            "the folder that it was added from is not known".to_owned(),
            add,
        ),
    }
}

/// Returns the source at a path of this machine.
fn local_source(name: &str, path: &Path, remedy: String) -> Result<SkillSourceName, ToolError> {
    let found = SkillSourceName::parse(path).ok();
    let found = found.filter(|source| {
        matches!(
            source,
            SkillSourceName::Folder(_) | SkillSourceName::File(_)
        ) && path.exists()
    });
    found.ok_or_else(|| {
        let shown = visible(&path.display().to_string());
        let message = format!("`{name}` was added from {shown}, which was not found");
        ToolError::new(ToolErrorCode::FileNotFound, message).with_remedies([remedy])
    })
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
            "the source of `{name}` now has another skill, `{}`; nothing was changed",
            new.content.document.name
        ))
        .into());
    }
    check_signer(skill, &new)?;
    let mut lines = differences(skill.content.as_ref().ok(), &new.content);
    if !lines.is_empty() {
        lines.extend(signer_change(skill, &new));
    }
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
        let without_terminal = format!("use `mimir skills update {name} --yes`");
        let message = terminal::refusal("nothing was changed", &without_terminal);
        return Err(ToolError::approval_denied(message).into());
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

/// Fails if the pinned content has a signer, and no trust rule of this machine accepts one of the new content.
fn check_signer(skill: &FoundSkill, new: &NewSkill) -> CommandResult<()> {
    let pinned = skill.pin.as_ref().and_then(|pin| pin.signer.as_ref());
    let (Some(pinned), None) = (pinned, &new.signer) else {
        // A signer that the trust policy has accepted.
        return Ok(());
    };
    let message = format!(
        "`{}` was signed by {}, and the signer of the new content is not known; nothing was changed",
        skill.name,
        visible(&pinned.to_string())
    );
    let source = visible(&new.source);
    Err(ToolError::policy_denied(message)
        .with_remedies([
            format!(
                "add a `trust` rule with the key of the signer for {source} (mimir help signatures)"
            ),
            format!("to accept it without a signature: `mimir skills add {source} --force`"),
        ])
        .into())
}

/// Describes a change of the signer.
fn signer_change(skill: &FoundSkill, new: &NewSkill) -> Option<String> {
    let pinned = skill.pin.as_ref()?.signer.as_ref();
    let line = match (pinned, new.signer.as_ref()?) {
        (Some(pinned), signer) if pinned.is_same(signer) => return None,
        (Some(pinned), signer) => {
            format!("the signer changes from {pinned} to {signer}; a `trust` rule accepts both")
        }
        (None, signer) => format!("it is now signed by {signer}"),
    };
    Some(visible(&line))
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
            Some(_) if old.files.is_executable(path) != new.files.is_executable(path) => {
                let action = match new.files.is_executable(path) {
                    true => "becomes executable",
                    false => "is no longer executable",
                };
                lines.push(format!("file {path_shown} {action}"));
            }
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

#[cfg(test)]
mod tests {
    use super::*;
    use mimir::skills::{SKILL_FILE, SkillFiles, SkillState};
    use mimir_core::grants::{SkillPin, SourceSigner};

    fn content() -> SkillContent {
        let mut files = SkillFiles::default();
        let text = "---\nname: forms\ndescription: Fills forms.\n---\nDo it.\n";
        files.insert(SKILL_FILE, text.into()).unwrap();
        SkillContent::new(files, "forms").unwrap()
    }

    fn key(id: &str) -> SourceSigner {
        SourceSigner::Key {
            key: id.to_owned(),
            name: Some(format!("name of {id}")),
        }
    }

    fn installed(signer: Option<SourceSigner>) -> FoundSkill {
        FoundSkill {
            name: "forms".to_owned(),
            folder: ".mimir/skills/forms".to_owned(),
            pin: Some(SkillPin {
                folder: ".mimir/skills/forms".to_owned(),
                source: "registry.example.com/acme/forms:1".to_owned(),
                artifact: None,
                signer,
                digest: content().files.digest(),
                trusted: true,
                allowed_tools: Vec::new(),
            }),
            is_accepted: true,
            content: Ok(content()),
            state: SkillState::Trusted,
        }
    }

    fn fetched(signer: Option<SourceSigner>) -> NewSkill {
        NewSkill {
            source: "registry.example.com/acme/forms:1".to_owned(),
            artifact: None,
            signer,
            local_path: None,
            content: content(),
        }
    }

    #[test]
    fn skill_update_refuses_content_without_the_signer() {
        let signed = installed(Some(key("a")));
        let failure = check_signer(&signed, &fetched(None)).unwrap_err();
        let CommandFailure::Reported { error, .. } = failure else {
            panic!("expected an error with a code")
        };
        assert_eq!(error.code, ToolErrorCode::PolicyDenied);
        assert!(
            error.message.contains("was signed by key name of a"),
            "{error}"
        );
        // Others are signers that a trust rule accepts.
        for (pinned, new) in [
            (Some(key("a")), Some(key("a"))),
            (Some(key("a")), Some(key("b"))),
            (None, Some(key("b"))),
            (None, None),
        ] {
            assert!(check_signer(&installed(pinned), &fetched(new)).is_ok());
        }
    }

    #[test]
    fn skill_update_shows_another_signer() {
        let change = |pinned, new| signer_change(&installed(pinned), &fetched(new));
        assert_eq!(change(Some(key("a")), Some(key("a"))), None);
        assert_eq!(change(None, None), None);
        let text = change(Some(key("a")), Some(key("b"))).unwrap();
        assert!(
            text.contains("from key name of a (a) to key name of b (b)"),
            "{text}"
        );
        assert!(
            change(None, Some(key("b")))
                .unwrap()
                .contains("now signed by")
        );
    }
}
