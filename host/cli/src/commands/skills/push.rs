//! `mimir skills push`: publishes a skill in a registry, with a signature if requested.

use std::path::Path;

use mimir_core::ToolError;
use mimir_core::text::visible;

use crate::args::{GlobalOptions, SkillsPushArgs};
use crate::commands::tools_push::{PushedContent, check_reference, publish};
use crate::exit::{CommandFailure, CommandResult};
use mimir::setup::HostSetup;
use mimir::skills::{SkillContent, skill_artifact, skill_version};

use super::source::SkillSourceName;

/// Pushes the files of a skill as an artifact that `mimir skills add` installs, and signs it.
pub async fn run(globals: &GlobalOptions, args: &SkillsPushArgs) -> CommandResult {
    let setup = HostSetup::find(globals.workspace.as_deref())?;
    check_reference(&args.target.reference)?;
    let SkillContent { files, document } = read_content(&setup, &args.source).await?;
    let (files, left_out) = files.without_private_files();
    let artifact = skill_artifact(&files, &document)?;
    let content = PushedContent {
        version: skill_version(&document),
        name: document.name,
        artifact,
        facts: None,
        files: files.iter().map(|(path, _)| path.to_owned()).collect(),
        left_out,
    };
    publish(globals.printer(), &setup, content, &args.target).await
}

/// Reads a skill: a folder or an archive with this path, or the skill of the workspace with this name.
async fn read_content(setup: &HostSetup, source: &Path) -> CommandResult<SkillContent> {
    if let Some(name) = source.to_str().filter(|_| !source.exists())
        && mimir::skills::check_name(name).is_ok()
    {
        // Content that no person has accepted is not published in the name of the user.
        let skill = setup.skills().usable_skill(name).map_err(|error| {
            let message = format!("nothing was pushed: {}", error.message);
            ToolError::new(error.code, message).with_remedies(error.remedies)
        })?;
        return Ok(skill.content);
    }
    match SkillSourceName::parse(source)? {
        source @ (SkillSourceName::Folder(_) | SkillSourceName::File(_)) => {
            Ok(source.fetch(setup, None).await?.content)
        }
        SkillSourceName::Url(_) | SkillSourceName::Registry(_) => {
            Err(CommandFailure::usage(format!(
                "`{}` is not on this machine: expected the folder of a skill, an archive of it, or the name of a skill \
                 of `mimir skills list`",
                visible(&source.display().to_string())
            )))
        }
    }
}
