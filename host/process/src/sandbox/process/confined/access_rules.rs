//! Landlock rules of a command that runs without mounts: which files it can read, run and change.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use ::landlock::{ABI, Access as _, AccessFs, Scope};
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::io::Errno;

use super::super::NAME;
use super::super::machine_view::{MachineEntry, MachineView};
use crate::sandbox::file_identity::open_by_no_link;
use crate::sandbox::mount_mask::{MountMask, find_masks, find_outside_masks};
use crate::sandbox::{CommandSpec, FileIdentity, SandboxError, sys};

/// Maximum number of rules. A workspace that needs more has folders with thousands of entries next to a hidden path.
const MAX_RULES: usize = 50_000;

/// Access to a path and everything below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AccessGrant {
    /// Listing folders only: the names, no content.
    List,
    Read,
    Write,
    /// A device: bytes can be read and written.
    Device,
}

/// The rules of a command.
pub(super) struct AccessRules {
    abi: ABI,
    grants: Vec<(PathBuf, AccessGrant)>,
    /// The hidden and read-only files, as they were before the command.
    pub(super) masked: Vec<FileIdentity>,
}

impl AccessRules {
    /// Collects the rules. `scratch` is the private folder of the command.
    pub(super) fn new(
        abi: ABI,
        view: &MachineView,
        spec: &CommandSpec,
        scratch: &Path,
    ) -> Result<Self, SandboxError> {
        let parts = spec.parts();
        let may_write = parts.iter().any(|(_, writable)| *writable);
        let mut masks: BTreeMap<PathBuf, MountMask> = BTreeMap::new();
        for (path, with) in find_masks(NAME, &spec.workspace, &spec.path_rules, may_write)? {
            masks.insert(spec.workspace.join(path), with);
        }
        for mask in find_outside_masks(NAME, spec)? {
            masks.insert(mask.from, mask.with);
        }
        let mut rules = Self {
            abi,
            grants: Vec::new(),
            masked: masks
                .keys()
                .filter_map(|path| FileIdentity::of_path(path))
                .collect(),
        };
        rules.grants.push((scratch.to_owned(), AccessGrant::Write));
        let devices = view
            .devices
            .iter()
            .map(|path| (path.clone(), AccessGrant::Device));
        rules.grants.extend(devices);
        // A workspace below a folder of programs, such as `/opt`, has its own rules.
        let mut outside = masks.clone();
        outside.insert(spec.workspace.clone(), MountMask::Nothing { folder: true });
        for entry in view.entries.iter().chain(&view.named) {
            match entry {
                MachineEntry::Existing { from, .. } => rules.grant(from, false, &outside)?,
                MachineEntry::Link { to, .. } if to.is_absolute() => {
                    if let Ok(to) = to.canonicalize() {
                        rules.grant(&to, false, &outside)?;
                    }
                }
                // A link at the top, such as `/bin`, leads to a folder that is listed itself.
                MachineEntry::Link { .. } => {}
            }
        }
        let mounts = spec
            .mounts
            .iter()
            .map(|mount| (mount.from.clone(), mount.writable));
        for (path, writable) in parts.into_iter().chain(mounts) {
            rules.grant(&path, writable, &masks)?;
        }
        Ok(rules)
    }

    /// Grants a path, unless it is below a masked one, and except for what is masked at and below it.
    fn grant(
        &mut self,
        path: &Path,
        writable: bool,
        masks: &BTreeMap<PathBuf, MountMask>,
    ) -> Result<(), SandboxError> {
        let above: Vec<MountMask> = path
            .ancestors()
            .skip(1)
            .filter_map(|folder| masks.get(folder).copied())
            .collect();
        if above
            .iter()
            .any(|with| matches!(with, MountMask::Nothing { .. }))
        {
            return Ok(());
        }
        let writable = writable && !above.contains(&MountMask::ReadOnly);
        self.grant_around(path, writable, masks)
    }

    /// Grants a path, except for what is masked at and below it.
    fn grant_around(
        &mut self,
        path: &Path,
        writable: bool,
        masks: &BTreeMap<PathBuf, MountMask>,
    ) -> Result<(), SandboxError> {
        let writable = match masks.get(path) {
            Some(MountMask::Nothing { .. }) => return Ok(()),
            Some(MountMask::ReadOnly) => false,
            Some(MountMask::Pin) | None => writable,
        };
        // The order of paths is that of their parts, so everything below a folder follows it.
        let mut below = masks
            .range(path.to_owned()..)
            .take_while(|(at, _)| at.starts_with(path));
        let is_relevant = |(at, with): (&PathBuf, &MountMask)| {
            at != path && (writable || matches!(with, MountMask::Nothing { .. }))
        };
        if !below.any(is_relevant) {
            let grant = if writable {
                AccessGrant::Write
            } else {
                AccessGrant::Read
            };
            return self.push(path.to_owned(), grant);
        }
        self.push(path.to_owned(), AccessGrant::List)?;
        let failed = SandboxError::io_error("cannot search a folder of the command");
        let entries = path
            .read_dir()
            .and_then(|entries| entries.collect::<io::Result<Vec<_>>>());
        for entry in entries.map_err(failed)? {
            self.grant_around(&entry.path(), writable, masks)?;
        }
        Ok(())
    }

    fn push(&mut self, path: PathBuf, grant: AccessGrant) -> Result<(), SandboxError> {
        if self.grants.len() >= MAX_RULES {
            let why = format!("more than {MAX_RULES} files are next to hidden or read-only ones");
            return Err(SandboxError::unsupported(NAME, SandboxError::RULES, why));
        }
        self.grants.push((path, grant));
        Ok(())
    }

    /// Converts the rules for the kernel.
    pub(super) fn ruleset(&self) -> io::Result<OwnedFd> {
        let all = AccessFs::from_all(self.abi).bits();
        let ruleset = sys::landlock_ruleset(all, Scope::from_all(self.abi).bits())?;
        for (path, grant) in &self.grants {
            // A link leads to a path that has a rule of its own or none.
            let entry = match open_by_no_link(path.as_path()) {
                Ok(entry) => File::from(entry),
                Err(Errno::NOENT | Errno::LOOP | Errno::NOTDIR) => continue,
                Err(error) => return Err(error.into()),
            };
            let metadata = entry.metadata()?;
            let access = self.access(*grant, metadata.is_dir());
            if metadata.is_symlink() || access == 0 {
                continue;
            }
            sys::landlock_allow(ruleset.as_fd(), entry.as_fd(), access)?;
        }
        Ok(ruleset)
    }

    /// Returns the kernel's kinds of access.
    fn access(&self, grant: AccessGrant, is_folder: bool) -> u64 {
        let access = match grant {
            AccessGrant::List => AccessFs::ReadDir.into(),
            AccessGrant::Read => AccessFs::from_read(self.abi),
            AccessGrant::Write => {
                let special = AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::MakeSock;
                AccessFs::from_all(self.abi) & !(special | AccessFs::IoctlDev)
            }
            AccessGrant::Device => AccessFs::ReadFile | AccessFs::WriteFile,
        };
        let of_kind = if is_folder {
            access.bits()
        } else {
            access.bits() & AccessFs::from_file(self.abi).bits()
        };
        of_kind & AccessFs::from_all(self.abi).bits()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grants(masks: &[(&str, MountMask)], writable: bool) -> Vec<(String, AccessGrant)> {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for file in [
            "a/b/secret",
            "a/b/c",
            "a/d",
            "e/f",
            "git/config",
            "git/objects/x",
        ] {
            std::fs::create_dir_all(root.join(file).parent().unwrap()).unwrap();
            std::fs::write(root.join(file), "x").unwrap();
        }
        let masks = masks
            .iter()
            .map(|(path, with)| (root.join(path), *with))
            .collect();
        let (abi, grants, masked) = (ABI::V3, Vec::new(), Vec::new());
        let mut rules = AccessRules {
            abi,
            grants,
            masked,
        };
        rules.grant_around(&root, writable, &masks).unwrap();
        assert!(rules.ruleset().is_ok() || super::super::super::landlock::abi().is_none());
        let relative = |path: PathBuf| path.strip_prefix(&root).unwrap().display().to_string();
        let mut grants: Vec<_> = rules
            .grants
            .into_iter()
            .map(|(path, grant)| (relative(path), grant))
            .collect();
        grants.sort_by(|(a, _), (b, _)| a.cmp(b));
        grants
    }

    #[test]
    fn grants_leave_out_hidden_and_read_only_paths() {
        let owned = |list: &[(&str, AccessGrant)]| -> Vec<(String, AccessGrant)> {
            list.iter()
                .map(|(path, grant)| ((*path).to_owned(), *grant))
                .collect()
        };
        assert_eq!(grants(&[], true), owned(&[("", AccessGrant::Write)]));
        let masks = [
            ("a/b/secret", MountMask::Nothing { folder: false }),
            ("git", MountMask::Pin),
            ("git/config", MountMask::ReadOnly),
        ];
        assert_eq!(
            grants(&masks, true),
            owned(&[
                ("", AccessGrant::List),
                ("a", AccessGrant::List),
                ("a/b", AccessGrant::List),
                ("a/b/c", AccessGrant::Write),
                ("a/d", AccessGrant::Write),
                ("e", AccessGrant::Write),
                ("git", AccessGrant::List),
                ("git/config", AccessGrant::Read),
                ("git/objects", AccessGrant::Write),
            ])
        );
        // Without write access, only hidden paths matter.
        assert_eq!(
            grants(&masks[1..], false),
            owned(&[("", AccessGrant::Read)])
        );
        let read_only_above = [("a", MountMask::ReadOnly), ("a/b/secret", masks[0].1)];
        assert_eq!(
            grants(&read_only_above, true)[1..5],
            owned(&[
                ("a", AccessGrant::List),
                ("a/b", AccessGrant::List),
                ("a/b/c", AccessGrant::Read),
                ("a/d", AccessGrant::Read),
            ])
        );
    }

    #[test]
    fn workspace_below_a_folder_of_programs_is_granted_by_its_own_rules() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let workspace = root.join("opt/work");
        for file in ["opt/bin/program", "opt/work/src/a", "opt/work/secret/key"] {
            std::fs::create_dir_all(root.join(file).parent().unwrap()).unwrap();
            std::fs::write(root.join(file), "x").unwrap();
        }
        let hidden = MountMask::Nothing { folder: true };
        let masks = BTreeMap::from([(workspace.join("secret"), hidden)]);
        let mut outside = masks.clone();
        outside.insert(workspace.clone(), hidden);
        let (abi, grants, masked) = (ABI::V3, Vec::new(), Vec::new());
        let mut rules = AccessRules {
            abi,
            grants,
            masked,
        };
        rules.grant(&root.join("opt"), false, &outside).unwrap();
        rules
            .grant(&workspace.join("src"), false, &outside)
            .unwrap();
        let of_programs = [
            (root.join("opt"), AccessGrant::List),
            (root.join("opt/bin"), AccessGrant::Read),
        ];
        assert_eq!(rules.grants, of_programs);
        rules
            .grant(&workspace.join("secret/key"), true, &masks)
            .unwrap();
        assert_eq!(rules.grants, of_programs);
        let read_only = BTreeMap::from([(workspace.clone(), MountMask::ReadOnly)]);
        rules
            .grant(&workspace.join("src"), true, &read_only)
            .unwrap();
        assert_eq!(
            rules.grants[2..],
            [(workspace.join("src"), AccessGrant::Read)]
        );
    }
}
