//! Root file system of a command, as steps for the child.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::path::{Path, PathBuf};

use rustix::fd::OwnedFd;

use super::child_plan::{ChildPlan, MountAttributes, RootStep, c_path};
use super::machine_view::{MachineEntry, MachineView};
use super::{NAME, TrialResult};
use crate::sandbox::mount_mask::{MountMask, find_masks, find_outside_masks};
use crate::sandbox::{CommandSpec, FileIdentity, SandboxError};

/// Steps that build a root, each with a name.
pub(super) struct RootPlan {
    pub(super) steps: Vec<RootStep>,
    pub(super) step_names: Vec<String>,
    /// Writable paths.
    pub(super) writable: Vec<PathBuf>,
    /// Covered files, as they were before the command.
    pub(super) covered: Vec<FileIdentity>,
    folders: BTreeSet<PathBuf>,
}

/// Mount options of the temporary folder and the home. Both are in memory, and count against the memory limit.
pub(super) const TEMPORARY: [(&str, &str); 2] = [("mode", "0700"), ("size", "2g")];

/// User and group ids of a command: those of the current user, but never root, since programs would expect permissions
/// that they lack here.
#[derive(Debug, Clone, Copy)]
pub(super) struct SandboxIdentity {
    pub(super) user: u32,
    pub(super) group: u32,
}

/// First uid that systems assign to a user.
const FIRST_USER_ID: u32 = 1000;

impl SandboxIdentity {
    pub(super) fn for_commands() -> Self {
        let unless_root = |id: u32| if id == 0 { FIRST_USER_ID } else { id };
        Self {
            user: unless_root(rustix::process::geteuid().as_raw()),
            group: unless_root(rustix::process::getegid().as_raw()),
        }
    }
}

impl RootPlan {
    /// Plans the root. `temporary` is a mount of the session's shared temporary folder; without it, the command gets a
    /// private one.
    pub(super) fn new(
        view: &MachineView,
        spec: &CommandSpec,
        trial: TrialResult,
        temporary: Option<OwnedFd>,
    ) -> Result<Self, SandboxError> {
        let mut root = Self {
            steps: Vec::with_capacity(128),
            step_names: Vec::with_capacity(128),
            writable: Vec::new(),
            covered: Vec::new(),
            folders: BTreeSet::new(),
        };
        root.void()?;
        root.system(view, spec, temporary)?;
        root.proc(trial, spec.nested_sandbox)?;
        root.settings(view)?;
        // Parents are mounted before their children, so that no mount hides another.
        let mut mounts: Vec<(&Path, &Path, MountAttributes)> = Vec::new();
        let is_outside_workspace = |entry: &&MachineEntry| !entry.at().starts_with(&spec.workspace);
        for entry in view
            .entries
            .iter()
            .chain(view.named.iter().filter(is_outside_workspace))
        {
            match entry {
                MachineEntry::Existing { from, at } => {
                    mounts.push((from, at, MountAttributes::SYSTEM))
                }
                MachineEntry::Link { at, to } => root.link(at, to)?,
            }
        }
        let read_write = MountAttributes::PLAIN;
        root.folder(&spec.workspace, 0o755)?;
        let parts = spec.parts();
        for (at, writable) in &parts {
            let attributes = if *writable {
                read_write
            } else {
                MountAttributes::SYSTEM
            };
            mounts.push((at, at, attributes));
            root.writable.extend(writable.then(|| at.clone()));
        }
        for mount in &spec.mounts {
            let attributes = if mount.writable {
                read_write
            } else {
                MountAttributes::SYSTEM
            };
            mounts.push((&mount.from, &mount.at, attributes));
            root.writable
                .extend(mount.writable.then(|| mount.at.clone()));
        }
        let is_requested = |at: &Path| {
            let mounted = spec.mounts.iter().any(|mount| mount.at == at);
            mounted || parts.iter().any(|(part, _)| part == at)
        };
        mounts.sort_by_key(|(_, at, _)| at.components().count());
        for (from, at, attributes) in mounts {
            match root.bind(from, at, attributes) {
                // A toolchain may have been removed since the view was built.
                Err(SandboxError::Mount { .. }) if !is_requested(at) && !from.exists() => {}
                bound => bound?,
            }
        }
        let may_write = parts.iter().any(|(_, writable)| *writable);
        let mut read_only: Option<PathBuf> = None;
        for (path, with) in find_masks(NAME, &spec.workspace, &spec.path_rules, may_write)? {
            let at = spec.workspace.join(path);
            if !parts.iter().any(|(part, _)| at.starts_with(part)) {
                continue;
            }
            // Files below a read-only path are already protected, and cannot be moved. Programs outside may replace them.
            let is_below_read_only = read_only
                .as_ref()
                .is_some_and(|above| at.starts_with(above));
            if is_below_read_only && matches!(with, MountMask::Pin | MountMask::ReadOnly) {
                continue;
            }
            root.covered.extend(FileIdentity::of_path(&at));
            root.cover(&at, with, spec.stand_ins.get(&at))?;
            if with == MountMask::ReadOnly {
                read_only = Some(at);
            }
        }
        for mask in find_outside_masks(NAME, spec)? {
            root.covered.extend(FileIdentity::of_path(&mask.from));
            root.cover(&mask.at, mask.with, None)?;
        }
        Ok(root)
    }

    fn step(&mut self, name: impl std::fmt::Display, step: RootStep) {
        self.step_names.push(name.to_string());
        self.steps.push(step);
    }

    fn void(&mut self) -> Result<(), SandboxError> {
        self.folder(Path::new("/.void"), 0o755)?;
        let at = ChildPlan::VOID_FOLDER.to_owned();
        self.step("an empty folder", RootStep::Directory { at, mode: 0o555 });
        let at = ChildPlan::VOID_FILE.to_owned();
        let content = Vec::new();
        self.step(
            "an empty file",
            RootStep::File {
                at,
                content,
                mode: 0,
            },
        );
        Ok(())
    }

    fn system(
        &mut self,
        view: &MachineView,
        spec: &CommandSpec,
        temporary: Option<OwnedFd>,
    ) -> Result<(), SandboxError> {
        let tmp = Path::new("/tmp");
        self.folder(tmp, 0o700)?;
        match temporary {
            Some(mount) => {
                let at = relative(tmp)?;
                self.step(tmp.display(), RootStep::Attach { mount, at });
            }
            None => self.fresh("tmpfs", tmp, &TEMPORARY, MountAttributes::PLAIN)?,
        }
        self.writable.push(tmp.to_owned());
        let var_tmp = Path::new("/var/tmp");
        if has_mounts_below(view, spec, var_tmp) {
            // Nothing can be mounted below a link.
            self.folder(var_tmp, 0o700)?;
            self.fresh("tmpfs", var_tmp, &TEMPORARY, MountAttributes::PLAIN)?;
            self.writable.push(var_tmp.to_owned());
        } else {
            self.link(var_tmp, tmp)?;
        }
        self.link(Path::new("/dev/shm"), tmp)?;
        self.link(Path::new("/var/run"), Path::new("/run"))?;
        // The home may be below a temporary folder.
        self.folder(&view.home, 0o700)?;
        self.fresh("tmpfs", &view.home, &TEMPORARY, MountAttributes::PLAIN)?;
        self.writable.push(view.home.clone());
        self.folder(Path::new("/run"), 0o755)?;
        for device in &view.devices {
            self.bind(device, device, MountAttributes::DEVICE)?;
        }
        self.writable.push("/dev".into());
        for (name, to) in [
            ("fd", ""),
            ("stdin", "/0"),
            ("stdout", "/1"),
            ("stderr", "/2"),
        ] {
            let to = format!("/proc/self/fd{to}");
            self.link(&Path::new("/dev").join(name), Path::new(&to))?;
        }
        let pts = Path::new("/dev/pts");
        self.folder(pts, 0o755)?;
        let options = [("ptmxmode", "0666"), ("mode", "0620")];
        self.fresh("devpts", pts, &options, MountAttributes::DEVICE)?;
        self.link(Path::new("/dev/ptmx"), Path::new("pts/ptmx"))?;
        Ok(())
    }

    /// Adds `/proc`, read-only. For a program that builds a sandbox of its own, the files of its processes are writable,
    /// since it sets the ids of its namespaces there; everything about the machine stays read-only.
    fn proc(&mut self, trial: TrialResult, nested_sandbox: bool) -> Result<(), SandboxError> {
        let proc = Path::new("/proc");
        self.folder(proc, 0o555)?;
        if !trial.proc {
            return Ok(());
        }
        let attributes = if nested_sandbox {
            MountAttributes::DEVICE
        } else {
            MountAttributes::NOTHING
        };
        self.fresh("proc", proc, &[("hidepid", "invisible")], attributes)?;
        if nested_sandbox {
            let unreadable = SandboxError::io_error("cannot list /proc");
            for entry in std::fs::read_dir(proc).map_err(unreadable)? {
                let entry = entry.map_err(SandboxError::io_error("cannot list /proc"))?;
                let name = entry.file_name();
                let is_process = name.as_encoded_bytes().iter().all(u8::is_ascii_digit);
                let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
                if !is_process && !is_link {
                    self.cover(&proc.join(name), MountMask::ReadOnly, None)?;
                }
            }
            self.writable.push(proc.to_owned());
        }
        Ok(())
    }

    /// Adds the files in `/etc` that describe the user and the host.
    fn settings(&mut self, view: &MachineView) -> Result<(), SandboxError> {
        let SandboxIdentity { user, group } = SandboxIdentity::for_commands();
        let home = view.home.display();
        self.folder(Path::new("/etc"), 0o755)?;
        for (name, content) in [
            (
                "passwd",
                format!(
                    "mimir:x:{user}:{group}:mimir:{home}:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n"
                ),
            ),
            ("group", format!("mimir:x:{group}:\nnogroup:x:65534:\n")),
            (
                "hosts",
                "127.0.0.1 localhost mimir\n::1 localhost\n".to_owned(),
            ),
            ("gitconfig", view.git_identity.settings()),
        ] {
            let at = relative(&Path::new("/etc").join(name))?;
            let content = content.into_bytes();
            self.step(
                name,
                RootStep::File {
                    at,
                    content,
                    mode: 0o444,
                },
            );
        }
        Ok(())
    }

    /// Adds a folder and its parents.
    fn folder(&mut self, at: &Path, mode: u32) -> Result<(), SandboxError> {
        if at.parent().is_none() || !self.folders.insert(at.to_owned()) {
            return Ok(());
        }
        if let Some(above) = at.parent() {
            self.folder(above, 0o755)?;
        }
        let path = relative(at)?;
        self.step(at.display(), RootStep::Directory { at: path, mode });
        Ok(())
    }

    fn link(&mut self, at: &Path, to: &Path) -> Result<(), SandboxError> {
        if let Some(above) = at.parent() {
            self.folder(above, 0o755)?;
        }
        let (path, to) = (relative(at)?, c_path(to).map_err(unfit(at))?);
        self.step(at.display(), RootStep::Link { at: path, to });
        Ok(())
    }

    fn bind(
        &mut self,
        from: &Path,
        at: &Path,
        attributes: MountAttributes,
    ) -> Result<(), SandboxError> {
        let missing = |error: std::io::Error| SandboxError::Mount {
            at: from.to_owned(),
            why: error.to_string(),
        };
        let path = relative(at)?;
        if from.symlink_metadata().map_err(missing)?.is_dir() {
            self.folder(at, 0o755)?;
        } else {
            if let Some(above) = at.parent() {
                self.folder(above, 0o755)?;
            }
            let (at, content) = (path.clone(), Vec::new());
            self.step(
                path.to_string_lossy().into_owned(),
                RootStep::File {
                    at,
                    content,
                    mode: 0o644,
                },
            );
        }
        let from = c_path(from).map_err(unfit(from))?;
        self.step(
            at.display(),
            RootStep::Bind {
                from,
                at: path,
                attributes,
            },
        );
        Ok(())
    }

    fn fresh(
        &mut self,
        kind: &str,
        at: &Path,
        options: &[(&str, &str)],
        attributes: MountAttributes,
    ) -> Result<(), SandboxError> {
        let text = |text: &str| CString::new(text).map_err(|error| unfit(at)(error.into()));
        let options = options
            .iter()
            .map(|(name, value)| Ok((text(name)?, text(value)?)));
        let step = RootStep::Fresh {
            kind: text(kind)?,
            at: relative(at)?,
            options: options.collect::<Result<_, SandboxError>>()?,
            attributes,
        };
        self.step(at.display(), step);
        Ok(())
    }

    fn cover(
        &mut self,
        at: &Path,
        with: MountMask,
        stand_in: Option<&PathBuf>,
    ) -> Result<(), SandboxError> {
        let stand_in = stand_in.map(|path| c_path(path).map_err(unfit(path)));
        let step = RootStep::Cover {
            at: relative(at)?,
            with,
            stand_in: stand_in.transpose()?,
        };
        self.step(at.display(), step);
        Ok(())
    }
}

/// Returns true if the workspace, the home or another folder of the command is in the folder `above`.
fn has_mounts_below(view: &MachineView, spec: &CommandSpec, above: &Path) -> bool {
    let machine = view.entries.iter().chain(&view.named);
    let mut mounted = machine
        .map(MachineEntry::at)
        .chain(spec.mounts.iter().map(|mount| mount.at.as_path()))
        .chain([spec.workspace.as_path(), &view.home]);
    mounted.any(|at| at.starts_with(above))
}

/// Converts a path for the child: relative to the root that it builds.
fn relative(at: &Path) -> Result<CString, SandboxError> {
    let below = at.strip_prefix("/").unwrap_or(at);
    c_path(below).map_err(unfit(at))
}

fn unfit(at: &Path) -> impl FnOnce(std::io::Error) -> SandboxError {
    let at = at.to_owned();
    move |error| SandboxError::Mount {
        at,
        why: error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::environment::AmbientEnvironment;
    use crate::sandbox::process::SandboxMaker;
    use mimir_core::command::CommandProgram;

    #[test]
    fn root_plan_rejects_missing_mounts_but_not_missing_toolchains() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = folder.path().canonicalize().unwrap();
        let mut view = MachineView::of_this_machine(&AmbientEnvironment::of_this_process());
        let gone = workspace.parent().unwrap().join("gone");
        view.entries.push(MachineEntry::Existing {
            from: gone.clone(),
            at: gone.clone(),
        });
        let trial = TrialResult {
            maker: SandboxMaker::Native,
            proc: true,
        };
        let mut spec = CommandSpec::new(CommandProgram::Vector(vec!["true".into()]), workspace);
        assert!(RootPlan::new(&view, &spec, trial, None).is_ok());
        spec.mounts.push(crate::sandbox::HostMount {
            from: gone.clone(),
            at: gone,
            writable: false,
        });
        assert!(matches!(
            RootPlan::new(&view, &spec, trial, None),
            Err(SandboxError::Mount { .. })
        ));
    }
}
