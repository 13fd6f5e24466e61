//! Sources of skills, and fetching from them.

use std::path::{Path, PathBuf};
use std::str::FromStr as _;

use mimir_core::ToolError;
use mimir_core::files::{self, LinkPolicy};
use mimir_core::text::visible;
use mimir_registry::OciReference;
use mimir_registry::wasm_artifact::WASM_LAYER;
use sha2::{Digest, Sha256};

use crate::arguments::quote_for_shell;
use crate::exit::{CommandFailure, CommandResult};
use mimir::file_error::file_error;
use mimir::registries::{Registries, source_signer};
use mimir::setup::HostSetup;
use mimir::skills::{
    MAX_TOTAL_SIZE, NewSkill, SkillContent, SkillFiles, pull_skill, read_skill_archive,
};

/// Maximum size of an archive in bytes. Its files are bounded separately.
const MAX_ARCHIVE_SIZE: u64 = MAX_TOTAL_SIZE + (4 << 20);

/// The source in the lock file for a folder or file outside of the workspace, which others do not have.
const LOCAL: &str = "local";

/// A source of a skill.
#[derive(Debug, PartialEq)]
pub enum SkillSourceName {
    /// The folder of a skill.
    Folder(PathBuf),
    /// An archive.
    File(PathBuf),
    /// A URL of an archive.
    Url(String),
    /// An artifact in a registry.
    Registry(OciReference),
}

impl SkillSourceName {
    /// Parses the argument. Paths that exist are paths; a name without a registry is never looked up in one.
    pub fn parse(argument: &Path) -> CommandResult<Self> {
        if argument.is_dir() {
            return Ok(Self::Folder(argument.to_owned()));
        }
        let Some(text) = argument.to_str().filter(|_| !argument.exists()) else {
            return Ok(Self::File(argument.to_owned()));
        };
        if text.contains("://") && !text.starts_with("oci://") {
            return Ok(Self::Url(text.to_owned()));
        }
        let has_host = text.split_once('/').is_some_and(|(host, _)| {
            host == "localhost" || (host.contains(['.', ':']) && !host.starts_with('.'))
        });
        if text.starts_with("oci://") || has_host {
            let reference = OciReference::from_str(text).map_err(ToolError::from)?;
            return Ok(Self::Registry(reference));
        }
        Err(CommandFailure::usage(format!(
            "`{}` was not found: name a folder, an archive, an https URL with --digest, or a reference with its registry, such as registry.example.com/acme/pdf-forms:1.2",
            visible(text)
        )))
    }

    /// Fetches the skill. `digest` is the expected SHA-256 of an archive.
    pub async fn fetch(&self, setup: &HostSetup, digest: Option<&str>) -> CommandResult<NewSkill> {
        if digest.is_some() && !matches!(self, Self::Url(_) | Self::File(_)) {
            return Err(CommandFailure::usage(
                "`--digest` is for archives; a reference can contain a digest: NAME@sha256:…",
            ));
        }
        match self {
            Self::Folder(folder) => {
                let files = SkillFiles::read_source(folder)?;
                check_folder_name(folder, &files)?;
                from_path(folder, new_skill(files, LOCAL.to_owned(), None)?)
            }
            Self::File(file) => {
                let bytes = files::read(file, LinkPolicy::Follow, MAX_ARCHIVE_SIZE)
                    .map_err(|error| file_error("read", file, &error))?;
                check_digest(&bytes, digest)?;
                if bytes.starts_with(b"\0asm") {
                    return Err(component(&file.display().to_string()).into());
                }
                let files = read_skill_archive(&bytes)?;
                from_path(file, new_skill(files, LOCAL.to_owned(), None)?)
            }
            Self::Url(url) => {
                if digest.is_none() {
                    return Err(CommandFailure::usage(
                        "a URL requires `--digest SHA256`, because the file behind it can change: \
                         use the digest that the author publishes",
                    ));
                }
                let bytes = crate::commands::tools_add::fetch::download_component(
                    setup,
                    url,
                    MAX_ARCHIVE_SIZE,
                )
                .await?;
                check_digest(&bytes, digest)?;
                let artifact = format!("sha256:{:x}", Sha256::digest(&bytes));
                new_skill(read_skill_archive(&bytes)?, url.clone(), Some(artifact))
            }
            Self::Registry(reference) => from_registry(setup, reference).await,
        }
    }
}

/// Creates the skill to install: its files, with the name in `SKILL.md`.
fn new_skill(
    files: SkillFiles,
    source: String,
    artifact: Option<String>,
) -> CommandResult<NewSkill> {
    let name = files.document()?.name;
    Ok(NewSkill {
        source,
        artifact,
        signer: None,
        local_path: None,
        content: SkillContent::new(files, &name)?,
    })
}

/// Remembers the path that a skill comes from, so that `mimir skills update` reads it again.
fn from_path(path: &Path, skill: NewSkill) -> CommandResult<NewSkill> {
    let absolute = std::path::absolute(path).map_err(|error| file_error("read", path, &error))?;
    Ok(NewSkill {
        local_path: Some(absolute),
        ..skill
    })
}

/// Fails if the folder has another name than the skill, as the specification forbids.
fn check_folder_name(folder: &Path, files: &SkillFiles) -> Result<(), ToolError> {
    let name = files.document()?.name;
    let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let folder_name = folder.file_name().and_then(|name| name.to_str());
    match folder_name {
        Some(folder_name) if folder_name != name => Err(ToolError::invalid_input(format!(
            "the folder is named `{}`, but the `name` in SKILL.md is `{name}`: they must be equal",
            visible(folder_name)
        ))),
        _ => Ok(()),
    }
}

fn check_digest(bytes: &[u8], expected: Option<&str>) -> Result<(), ToolError> {
    let digest = format!("{:x}", Sha256::digest(bytes));
    match expected.filter(|expected| *expected != digest) {
        None => Ok(()),
        Some(expected) => Err(ToolError::permission_denied(format!(
            "digest mismatch: the file has {digest}, expected {expected}; nothing was added"
        ))),
    }
}

/// Returns the error for a WebAssembly component, which another command adds.
fn component(source: &str) -> ToolError {
    let message = format!(
        "{} is a WebAssembly component, not a skill",
        visible(source)
    );
    let remedy = format!(
        "add it as a tool: `mimir tools add {}`",
        quote_for_shell(&visible(source))
    );
    ToolError::invalid_input(message).with_remedies([remedy])
}

/// Fetches a skill from a registry. Its signature is checked before its files are downloaded.
async fn from_registry(setup: &HostSetup, reference: &OciReference) -> CommandResult<NewSkill> {
    let registries = Registries::from_setup(setup)?;
    let artifact = registries.inspect(reference).await?;
    let layers = artifact.manifest.image().map(|image| &image.layers);
    if layers.is_some_and(|layers| layers.iter().any(|it| it.media_type == WASM_LAYER)) {
        return Err(component(&reference.to_string()).into());
    }
    let pulled = pull_skill(registries.client(), &artifact.reference, &artifact.manifest).await?;
    let artifact_digest = pulled.manifest.to_string();
    let mut skill = new_skill(pulled.files, reference.to_string(), Some(artifact_digest))?;
    skill.signer = artifact.signer.clone().map(source_signer);
    Ok(skill)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skill_sources_are_told_apart_by_their_spelling() {
        let parse = |text: &str| SkillSourceName::parse(Path::new(text)).unwrap();
        for text in [
            "registry.example.com/acme/forms:1.2",
            "oci://registry.example.com/acme/forms",
            "localhost/forms",
            "127.0.0.1:5000/forms",
        ] {
            assert!(
                matches!(parse(text), SkillSourceName::Registry(_)),
                "{text}"
            );
        }
        assert!(matches!(
            parse("https://example.com/forms.tar.gz"),
            SkillSourceName::Url(_)
        ));
        let folder = tempfile::tempdir().unwrap();
        let found = SkillSourceName::parse(folder.path()).unwrap();
        assert_eq!(found, SkillSourceName::Folder(folder.path().to_owned()));
        for text in ["forms", "./forms", "../a/forms"] {
            assert!(SkillSourceName::parse(Path::new(text)).is_err(), "{text}");
        }
    }
}
