//! Installs, pins and removes skills. Each change is complete or has no effect, and a new content of a skill starts
//! without the trust and the permissions of the previous one.

use std::path::{Path, PathBuf};

use mimir_core::grants::{SkillPin, SourceSigner};
use mimir_core::paths::SHARED_SKILL_FOLDERS;
use mimir_core::text::visible;
use mimir_core::{ToolError, ToolErrorCode, files};

use super::{FOLDER, FoundSkill, SkillContent, SkillLibrary, consent_key};
use crate::approval_store::UserApprovalStore;
use crate::file_error::file_error;

/// A skill to install.
pub struct NewSkill {
    /// The source that a person has named.
    pub source: String,
    /// The digest of the artifact in the registry, or of the file behind a URL.
    pub artifact: Option<String>,
    /// The signer of the artifact.
    pub signer: Option<SourceSigner>,
    /// The folder or archive of this machine that the files come from, for updates.
    pub local_path: Option<PathBuf>,
    /// The files.
    pub content: SkillContent,
}

/// A skill that was pinned.
#[derive(Debug)]
pub struct PinnedSkill {
    /// The name.
    pub name: String,
    /// The pin.
    pub pin: SkillPin,
    /// True if it replaced other content.
    pub has_replaced: bool,
}

/// A change of the recorded path that a skill was added from.
enum PathChange {
    /// The content has another source.
    Set(Option<PathBuf>),
    /// The content is accepted as it is.
    Keep,
}

impl SkillLibrary {
    /// Installs a skill into `.mimir/skills`, and pins it. With `replace`, an installed skill of this name is replaced.
    pub fn install(&self, new: NewSkill, replace: bool) -> Result<PinnedSkill, ToolError> {
        let name = new.content.document.name.clone();
        let folder = format!("{FOLDER}/{name}");
        let mut shared = SHARED_SKILL_FOLDERS
            .map(|folder| format!("{folder}/{name}"))
            .into_iter();
        if let Some(shared) = shared.find(|path| self.workspace.root().join(path).exists()) {
            return Err(ToolError::new(
                ToolErrorCode::AlreadyExists,
                format!(
                    "the workspace already has a skill `{name}` in {shared}: remove or rename it first"
                ),
            ));
        }
        let target = self.workspace.root().join(&folder);
        self.workspace.check_no_links(&target)?;
        let exists = std::fs::symlink_metadata(&target).is_ok();
        if exists && !replace {
            return Err(ToolError::new(
                ToolErrorCode::AlreadyExists,
                format!(
                    "{folder} already exists; use --force to replace it, or `mimir skills update {name}`"
                ),
            ));
        }
        let pin = SkillPin {
            folder,
            source: new.source,
            artifact: new.artifact,
            signer: new.signer,
            digest: new.content.files.digest(),
            trusted: false,
            allowed_tools: Vec::new(),
        };
        // An unreadable lock file or record is reported before any file changes.
        self.check_store()?;
        if exists {
            replace_folder(&target, |target| {
                new.content.files.write(target)?;
                self.pin(&name, &pin, PathChange::Set(new.local_path))
            })?;
        } else {
            new.content.files.write(&target)?;
            if let Err(error) = self.pin(&name, &pin, PathChange::Set(new.local_path)) {
                let _ = std::fs::remove_dir_all(&target);
                return Err(error);
            }
        }
        Ok(PinnedSkill {
            name,
            pin,
            has_replaced: exists,
        })
    }

    /// Pins the current content of a skill that is in a folder of the workspace already.
    pub fn pin_in_place(&self, skill: &FoundSkill) -> Result<PinnedSkill, ToolError> {
        let content = skill.content.as_ref().map_err(Clone::clone)?;
        let pin = SkillPin {
            folder: skill.folder.clone(),
            source: skill.folder.clone(),
            artifact: None,
            signer: None,
            digest: content.files.digest(),
            trusted: false,
            allowed_tools: Vec::new(),
        };
        self.pin(&skill.name, &pin, PathChange::Set(None))?;
        Ok(PinnedSkill {
            name: skill.name.clone(),
            pin,
            has_replaced: skill.pin.is_some(),
        })
    }

    /// Accepts the current content of a skill as trusted, with these entries of its `allowed-tools`. Its content must be
    /// the one that the person was shown.
    pub fn trust(&self, skill: &FoundSkill, allowed: Vec<String>) -> Result<SkillPin, ToolError> {
        let content = skill.content.as_ref().map_err(Clone::clone)?;
        let digest = content.files.digest();
        let shown = self.find(&skill.name)?;
        let current = shown.content.as_ref().map_err(Clone::clone)?;
        if current.files.digest() != digest || shown.folder != skill.folder {
            return Err(ToolError::permission_denied(format!(
                "the files of `{}` changed while you read them; nothing was accepted",
                skill.name
            )));
        }
        // The source of other content says nothing about this content, and a pin that this user has not accepted says
        // what its author likes.
        let accepted = shown.pin.as_ref().filter(|_| shown.is_accepted);
        let same = accepted.filter(|pin| pin.digest == digest);
        let pin = SkillPin {
            folder: skill.folder.clone(),
            source: same.map_or_else(|| skill.folder.clone(), |pin| pin.source.clone()),
            artifact: same.and_then(|pin| pin.artifact.clone()),
            signer: same.and_then(|pin| pin.signer.clone()),
            digest,
            trusted: true,
            allowed_tools: allowed,
        };
        self.pin(&skill.name, &pin, PathChange::Keep)?;
        Ok(pin)
    }

    /// Removes the consent and the pin of a skill, and its folder if mimir installed it. Returns false if there was
    /// nothing to remove.
    pub fn remove(&self, name: &str) -> Result<bool, ToolError> {
        let folder = format!("{FOLDER}/{name}");
        let path = self.workspace.root().join(&folder);
        self.workspace.check_no_links(&path)?;
        let store = self.store()?;
        // The consent first: the skill cannot be used even if removing its files fails.
        let consent = store
            .change(|approvals| {
                approvals.skill_sources.remove(name);
                approvals.grants.remove(&consent_key(name))
            })
            .map_err(ToolError::unavailable)?;
        let known = store.lock().read().map_err(ToolError::unavailable)?;
        let was_pinned = known.skills.contains_key(name);
        if was_pinned {
            store
                .lock()
                .change(|lock| lock.skills.remove(name))
                .map_err(ToolError::unavailable)?;
        }
        let had_folder = std::fs::symlink_metadata(&path).is_ok();
        if had_folder {
            // A link is removed, not followed.
            let removed = match path.is_symlink() {
                true => std::fs::remove_file(&path),
                false => std::fs::remove_dir_all(&path),
            };
            removed.map_err(|error| file_error("remove", &path, &error))?;
        }
        Ok(consent.is_some() || was_pinned || had_folder)
    }

    /// Returns the folder or archive of this machine that the skill was added from.
    pub fn local_path(&self, name: &str) -> Result<Option<PathBuf>, ToolError> {
        let approvals = self.store()?.read().map_err(ToolError::unavailable)?;
        Ok(approvals.skill_sources.get(name).cloned())
    }

    /// Writes a pin and records that this user has accepted it.
    fn pin(&self, name: &str, pin: &SkillPin, path: PathChange) -> Result<(), ToolError> {
        let store = self.store()?;
        let id = pin.id(name);
        let previous = store
            .lock()
            .change(|lock| lock.skills.insert(name.to_owned(), pin.clone()))
            .map_err(ToolError::unavailable)?;
        let recorded = store.change(|approvals| {
            match path {
                PathChange::Set(Some(path)) => {
                    approvals.skill_sources.insert(name.to_owned(), path);
                }
                PathChange::Set(None) => {
                    approvals.skill_sources.remove(name);
                }
                PathChange::Keep => {}
            }
            approvals.grants.insert(consent_key(name), id)
        });
        if let Err(error) = recorded {
            let restored = store.lock().change(|lock| match previous {
                Some(previous) => lock.skills.insert(name.to_owned(), previous),
                None => lock.skills.remove(name),
            });
            if let Err(error) = restored {
                tracing::error!(%error, "the previous pin is not restored");
            }
            return Err(ToolError::unavailable(error));
        }
        Ok(())
    }

    fn check_store(&self) -> Result<(), ToolError> {
        let store = self.store()?;
        store.lock().read().map_err(ToolError::unavailable)?;
        store.read().map_err(ToolError::unavailable)?;
        Ok(())
    }

    fn store(&self) -> Result<UserApprovalStore, ToolError> {
        self.approval_store().ok_or_else(|| {
            ToolError::unavailable(
                "this platform has no folder for your own settings, where accepted skills are stored; set MIMIR_CONFIG_DIR",
            )
        })
    }
}

/// Moves the folder `target` aside while `write` creates it again, and back if that fails.
fn replace_folder(
    target: &Path,
    write: impl FnOnce(&Path) -> Result<(), ToolError>,
) -> Result<(), ToolError> {
    let failed = |error| file_error("replace", target, &error);
    let parent = target.parent().unwrap_or(Path::new(""));
    let aside = tempfile::Builder::new()
        .prefix(".old-skill-")
        .tempdir_in(parent)
        .map_err(failed)?;
    let previous = aside.path().join("skill");
    std::fs::rename(target, &previous).map_err(failed)?;
    let written = write(target);
    if written.is_err() {
        if files::reject_links(parent, target).is_ok() {
            let _ = std::fs::remove_dir_all(target);
        }
        if let Err(error) = std::fs::rename(&previous, target) {
            // The previous files must not be removed with the temporary folder.
            let kept = aside.keep();
            tracing::error!(%error, "the previous skill is in {}", visible(&kept.display().to_string()));
        }
    }
    written
}
