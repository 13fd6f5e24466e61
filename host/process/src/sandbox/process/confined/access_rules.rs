//! Landlock rules of a command that runs without mounts: which files it can read, run and change.

use std::collections::{BTreeMap, HashSet};
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

/// Paths that a command may change, with everything below them.
pub(super) struct WritablePaths(HashSet<PathBuf>);

impl WritablePaths {
    /// Returns true if the command may change the file at a canonical path.
    pub(super) fn contains(&self, path: &Path) -> bool {
        path.ancestors().any(|folder| self.0.contains(folder))
    }
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
        // Below a read-only folder, a new file is as protected as the old one.
        let is_read_only = |path: &Path| masks.get(path) == Some(&MountMask::ReadOnly);
        let may_be_replaced = |path: &Path, with: MountMask| {
            matches!(with, MountMask::Pin | MountMask::ReadOnly)
                && path.ancestors().skip(1).any(is_read_only)
        };
        let masked = masks
            .iter()
            .filter(|(path, with)| !may_be_replaced(path, **with))
            .filter_map(|(path, _)| FileIdentity::of_path(path));
        let mut rules = Self {
            abi,
            grants: Vec::new(),
            masked: masked.collect(),
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
        let mut read_only = Vec::new();
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
        let is_outside_workspace = |entry: &&MachineEntry| !entry.at().starts_with(&spec.workspace);
        let named = view.named.iter().filter(is_outside_workspace);
        for entry in view.entries.iter().chain(named) {
            // Neither the folder nor a link to it can be replaced.
            read_only.push(entry.at().to_owned());
            if let MachineEntry::Existing { from, .. } = entry {
                read_only.push(from.clone());
            }
        }
        let mounts = spec
            .mounts
            .iter()
            .map(|mount| (mount.from.clone(), mount.writable));
        let requested: Vec<(PathBuf, bool)> = parts.into_iter().chain(mounts).collect();
        for (path, writable) in &requested {
            if *writable && requested.contains(&(path.clone(), false)) {
                let what = "a folder that is both read-only and writable";
                let why = format!("`{}`: select one of them", path.display());
                return Err(SandboxError::unsupported(NAME, what, why));
            }
            if !writable {
                read_only.push(path.clone());
            }
        }
        for (path, writable) in &requested {
            if *writable {
                rules.grant(path, true, &with_read_only(&masks, path, &read_only))?;
            } else {
                rules.grant(path, false, &masks)?;
            }
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

    /// Returns the paths that the command may change, with everything below them.
    pub(super) fn writable(&self) -> WritablePaths {
        let writable = self.grants.iter();
        let writable = writable.filter(|(_, grant)| *grant == AccessGrant::Write);
        WritablePaths(writable.map(|(path, _)| path.clone()).collect())
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

/// Adds the read-only paths below a writable one to the masks. Rules add up along a path, so a rule that lets a command
/// write to a folder would apply to them, too.
fn with_read_only(
    masks: &BTreeMap<PathBuf, MountMask>,
    writable: &Path,
    read_only: &[PathBuf],
) -> BTreeMap<PathBuf, MountMask> {
    let mut all = masks.clone();
    for path in read_only {
        if path != writable && path.starts_with(writable) {
            let mask = all.entry(path.clone()).or_insert(MountMask::ReadOnly);
            *mask = MountMask::ReadOnly.max(*mask);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use mimir_core::command::CommandProgram;

    use crate::sandbox::environment::AmbientEnvironment;
    use crate::sandbox::{HostMount, WorkspacePart};

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

    /// Collects the rules of a command on a machine whose user has this home, with toolchains in it.
    fn rules_with_home(home: &Path, spec: &CommandSpec) -> Result<AccessRules, SandboxError> {
        for file in [".cargo/bin/cargo", ".local/share/bin/x", "src/a"] {
            std::fs::create_dir_all(home.join(file).parent().unwrap()).unwrap();
            std::fs::write(home.join(file), "x").unwrap();
        }
        let link = home.join(".local/bin");
        if !link.is_symlink() {
            std::os::unix::fs::symlink("share/bin", link).unwrap();
        }
        let mut ambient = AmbientEnvironment::of_this_process();
        ambient.home = Some(home.to_owned());
        let view = MachineView::of_this_machine(&ambient);
        AccessRules::new(ABI::V6, &view, spec, &home.join("scratch"))
    }

    fn spec(workspace: &Path) -> CommandSpec {
        std::fs::create_dir_all(workspace).unwrap();
        CommandSpec::new(CommandProgram::Vector(vec!["true".into()]), workspace)
    }

    #[test]
    fn toolchains_in_a_workspace_that_is_the_home_stay_read_only() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().canonicalize().unwrap().join("home");
        let rules = rules_with_home(&home, &spec(&home)).unwrap();
        let writable = rules.writable();
        // The link `.local/bin` leads to `.local/share/bin`; its folder must not be writable, or the command could
        // replace the link.
        for toolchain in [".cargo/bin/cargo", ".local/share/bin/x", ".cargo", ".local"] {
            assert!(!writable.contains(&home.join(toolchain)), "{toolchain}");
        }
        let readable = |path: &Path| {
            let grants = [AccessGrant::Read, AccessGrant::Write];
            let mut rules = rules.grants.iter();
            rules.any(|(at, grant)| grants.contains(grant) && path.starts_with(at))
        };
        assert!(readable(&home.join(".cargo/bin/cargo")));
        assert!(readable(&home.join(".local/share/bin/x")));
        assert!(writable.contains(&home.join("src/a")));
    }

    #[test]
    fn read_only_paths_in_writable_ones_stay_read_only() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let workspace = root.join("work");
        for name in ["work/a/fixed/open", "data/vendor/out", "data/free"] {
            std::fs::create_dir_all(root.join(name)).unwrap();
        }
        let mut spec = spec(&workspace);
        let part = |below: &str, writable| WorkspacePart {
            below: below.into(),
            writable,
        };
        spec.visible_parts = vec![part("", true), part("a/fixed", false)];
        let mount = |path: &str, writable| HostMount {
            writable,
            ..HostMount::read_only(root.join(path))
        };
        spec.mounts = vec![
            mount("data", true),
            mount("data/vendor", false),
            mount("data/vendor/out", true),
            mount("work/a/fixed/open", true),
        ];
        let writable = rules_with_home(&root.join("home"), &spec)
            .unwrap()
            .writable();
        for (path, expected) in [
            ("work/a", false),
            ("work/a/fixed", false),
            ("work/a/fixed/x", false),
            ("work/a/fixed/open/x", true),
            ("data", false),
            ("data/vendor/x", false),
            ("data/vendor/out/x", true),
            ("data/free/x", true),
        ] {
            assert_eq!(writable.contains(&root.join(path)), expected, "{path}");
        }
        // A mount above the workspace does not make a read-only workspace writable.
        spec.visible_parts = vec![part("", false)];
        spec.mounts = vec![mount("", true)];
        let writable = rules_with_home(&root.join("home"), &spec)
            .unwrap()
            .writable();
        assert!(!writable.contains(&workspace.join("a")));
        assert!(writable.contains(&root.join("data/vendor")));
        // The same path with both modes is an error.
        spec.mounts = vec![mount("data", true), mount("data", false)];
        let refused = rules_with_home(&root.join("home"), &spec).err().unwrap();
        assert!(refused.to_string().contains("/data"), "{refused}");
    }
}
