//! Complete configuration of a container, made before a command enters it.
//!
//! A mount refers to the files at its source and target when the container is made. If either is replaced later, as
//! editors do on save, the mount still shows the old file or is gone. So the blueprint records the source and target of
//! every mount, and a prepared container is used only if all of them are unchanged. Before a command enters, the actual
//! mounts are compared with the blueprint (see `planned_mount.rs`).

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use bollard::models::{
    ContainerCreateBody, HealthConfig, HostConfig, HostConfigLogConfig, Mount, MountType,
    ResourcesUlimits,
};
use rustix::process::Resource;

use super::container_owner::{ContainerOwner, LABEL};
use super::engine_facts::ContainerEngineFacts;
use super::planned_mount::PlannedMount;
use super::{HOME, NAME, TEMP, path_text};
use crate::sandbox::mount_mask::{MountMask, OutsideMask, find_masks, find_outside_masks};
use crate::sandbox::special_folders::SYSTEM_FOLDERS;
use crate::sandbox::{CommandSpec, FileIdentity, ResourceBound, SandboxError};

/// Mount options of the temporary folder and the home, of at most 2 GiB each. Their memory counts towards the memory
/// limit of the command.
const TEMP_FOLDER_OPTIONS: &str = "rw,exec,nosuid,nodev,size=2g,mode=1777";

/// Mount options of an empty folder. It can be listed, so that programs that walk a tree do not fail.
const EMPTY_FOLDER_OPTIONS: &str = "ro,noexec,nosuid,nodev,size=4k,mode=555";

/// Mount option that keeps Podman from copying the image's files into such a folder. Docker does not support it.
const NO_COPY_UP: &str = ",notmpcopyup";

/// First process of a container. It ends, with all other processes of the container, when its input closes, which
/// happens when the process that made the container ends. It ignores SIGTERM, so that the other processes have time to
/// handle it. The shell stays as the first process to reap orphaned processes, since not every engine has an init
/// program.
const INIT_COMMAND: [&str; 3] = ["sh", "-c", "trap '' TERM; cat >/dev/null; exit"];

/// Period for the limit of processor time, in microseconds: the kernel's default.
const CPU_PERIOD: i64 = 100_000;

/// Limit of processes per user, across all containers of Podman: Podman's own default. The control group limits the
/// processes of each command.
const MAX_USER_PROCESSES: u64 = 32_768;

/// Further folders that a workspace may not contain, since it would replace those of the image.
const IMAGE_FOLDERS: [&str; 7] = ["/bin", "/lib", "/lib64", "/opt", "/sbin", "/usr", "/var"];

/// Configuration of a container to be made.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ContainerBlueprint {
    pub(super) body: ContainerCreateBody,
    /// Sources and targets of the mounts.
    planned_mounts: Vec<PlannedMount>,
    /// Protected paths outside the workspace.
    outside: Vec<FileIdentity>,
    workspace: PathBuf,
}

impl ContainerBlueprint {
    pub(super) fn new(
        image: &str,
        facts: &ContainerEngineFacts,
        spec: &CommandSpec,
    ) -> Result<Self, SandboxError> {
        let outside = find_outside_masks(NAME, spec)?;
        let mounts = mounts(spec, &outside)?;
        let parts = spec.parts();
        let planned_mounts = mounts.iter().map(|mount| {
            let target = Path::new(mount.target.as_deref().unwrap_or_default());
            let source = mount.source.as_deref().map(Path::new);
            let is_inside =
                |(part, _): &(PathBuf, bool)| target != part && target.starts_with(part);
            // Other folders may be mounted at a target that does not exist.
            let covers =
                parts.iter().any(is_inside) && spec.mounts.iter().all(|mount| mount.at != target);
            let writable = mount.read_only == Some(false);
            PlannedMount::new(target, source, covers, writable)
        });
        let planned_mounts = planned_mounts.collect::<Result<_, _>>()?;
        let strings =
            |values: &[&str]| Some(values.iter().map(|value| (*value).to_owned()).collect());
        let body = ContainerCreateBody {
            image: Some(image.to_owned()),
            entrypoint: strings(&INIT_COMMAND),
            cmd: Some(Vec::new()),
            user: Some(facts.command_user()),
            hostname: Some("mimir".to_owned()),
            working_dir: Some(path_text(spec.workspace.clone())?),
            // The container runs as long as its input is open; nothing is written to it.
            attach_stdin: Some(true),
            open_stdin: Some(true),
            stdin_once: Some(true),
            // The image's own health check would run in parallel with the command.
            healthcheck: Some(HealthConfig {
                test: strings(&["NONE"]),
                ..HealthConfig::default()
            }),
            labels: Some(HashMap::from([(
                LABEL.to_owned(),
                ContainerOwner::this_process().label(),
            )])),
            host_config: Some(host_config(facts, spec, mounts)),
            ..ContainerCreateBody::default()
        };
        Ok(Self {
            body,
            planned_mounts,
            outside: outside
                .iter()
                .filter_map(|one| FileIdentity::of_path(&one.from))
                .collect(),
            workspace: spec.workspace.clone(),
        })
    }

    pub(super) fn workspace(&self) -> &Path {
        &self.workspace
    }

    /// Returns the host folders that commands in the container can write to.
    pub(super) fn writable(&self) -> Vec<PathBuf> {
        let host = self.body.host_config.as_ref();
        let mounts = host.and_then(|host| host.mounts.as_deref());
        let writable = mounts.unwrap_or_default().iter();
        writable
            .filter(|mount| mount.read_only == Some(false))
            .filter_map(|mount| mount.source.as_ref().map(PathBuf::from))
            .collect()
    }

    /// Returns the mounts that the container must have.
    pub(super) fn planned_mounts(&self) -> &[PlannedMount] {
        &self.planned_mounts
    }

    /// Returns the masked paths that no program may replace while a command runs, in the workspace and outside. Below a
    /// read-only folder, a new file is as protected as the old one.
    pub(super) fn covered(&self) -> Vec<FileIdentity> {
        let mounts = self.planned_mounts.iter();
        let read_only: HashSet<&Path> = mounts
            .clone()
            .filter(|mount| !mount.is_writable())
            .filter_map(PlannedMount::shown_unchanged)
            .collect();
        let is_below_read_only = |at: &Path| {
            at.ancestors()
                .skip(1)
                .any(|above| read_only.contains(above))
        };
        let covered = mounts
            .filter(|mount| !mount.shown_unchanged().is_some_and(is_below_read_only))
            .filter_map(PlannedMount::covers);
        covered.chain(&self.outside).cloned().collect()
    }

    /// Returns true if a later replacement of a source or target can be detected.
    pub(super) fn can_verify_mounts(&self) -> bool {
        self.planned_mounts
            .iter()
            .flat_map(PlannedMount::identities)
            .all(FileIdentity::is_unambiguous)
    }
}

fn host_config(facts: &ContainerEngineFacts, spec: &CommandSpec, mounts: Vec<Mount>) -> HostConfig {
    let if_enforced =
        |enforced: bool, bound: ResourceBound| enforced.then(|| saturating_i64(bound.value()));
    let memory = if_enforced(facts.memory, spec.bounds.memory);
    let options = |size: &str| {
        if facts.podman {
            format!("{size}{NO_COPY_UP}")
        } else {
            size.to_owned()
        }
    };
    let (empty_folders, mounts): (Vec<_>, Vec<_>) = mounts
        .into_iter()
        .partition(|mount| mount.typ == Some(MountType::TMPFS));
    let empty_folders = empty_folders.into_iter().filter_map(|mount| mount.target);
    let temporary = [HOME, TEMP].map(|at| (at.to_owned(), options(TEMP_FOLDER_OPTIONS)));
    let folders = empty_folders
        .map(|at| (at, options(EMPTY_FOLDER_OPTIONS)))
        .chain(temporary);
    let mut security = vec!["no-new-privileges".to_owned()];
    if facts.selinux {
        // Otherwise, SELinux denies all access to mounted files; relabelling would change the user's files.
        security.push("label=disable".to_owned());
    }
    HostConfig {
        memory,
        // Memory and swap together; equal to `memory`, so that no swap is available.
        memory_swap: memory,
        pids_limit: if_enforced(facts.pids, spec.bounds.processes),
        cpu_period: spec.bounds.cpu.map(|_| CPU_PERIOD),
        cpu_quota: spec
            .bounds
            .cpu
            .map(|percent| i64::from(percent) * CPU_PERIOD / 100),
        ulimits: Some(limits(facts, spec)),
        mounts: Some(mounts),
        tmpfs: Some(folders.collect()),
        readonly_rootfs: Some(true),
        network_mode: Some("none".to_owned()),
        cap_drop: Some(vec!["ALL".to_owned()]),
        security_opt: Some(security),
        userns_mode: facts.userns_mode().map(str::to_owned),
        init: Some(false),
        // Output goes only to the attached client, not to a log file of the engine.
        log_config: Some(HostConfigLogConfig {
            typ: Some("none".to_owned()),
            config: None,
        }),
        ..HostConfig::default()
    }
}

/// Resource limits of each process. They do not exceed the limits of this process: an engine with the same rights could
/// not start the container.
fn limits(facts: &ContainerEngineFacts, spec: &CommandSpec) -> Vec<ResourcesUlimits> {
    let own = |resource| rustix::process::getrlimit(resource).maximum;
    let files = spec.bounds.open_files;
    let files = own(Resource::Nofile).map_or(files, |own_limit| files.min(own_limit));
    let mut limits = vec![
        limit("fsize", spec.bounds.file_size),
        limit("nofile", files),
        limit("core", 0),
    ];
    if facts.podman {
        // Podman would otherwise set a limit above its own.
        let own_limit = own(Resource::Nproc).unwrap_or(MAX_USER_PROCESSES);
        limits.push(limit("nproc", own_limit.min(MAX_USER_PROCESSES)));
    }
    limits
}

fn saturating_i64(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn limit(name: &str, value: u64) -> ResourcesUlimits {
    ResourcesUlimits {
        name: Some(name.to_owned()),
        soft: Some(saturating_i64(value)),
        hard: Some(saturating_i64(value)),
    }
}

/// Collects the mounts: workspace, additional folders, and masks over protected paths.
fn mounts(spec: &CommandSpec, outside: &[OutsideMask]) -> Result<Vec<Mount>, SandboxError> {
    let parts = spec.parts();
    let mut mounts = Vec::new();
    for (at, writable) in &parts {
        mounts.push(bind(at.clone(), at.clone(), *writable)?);
    }
    for mount in &spec.mounts {
        mounts.push(bind(mount.from.clone(), mount.at.clone(), mount.writable)?);
    }
    let may_write = parts.iter().any(|(_, writable)| *writable);
    for (path, with) in find_masks(NAME, &spec.workspace, &spec.path_rules, may_write)? {
        let at = spec.workspace.join(path);
        if parts.iter().any(|(part, _)| at.starts_with(part)) {
            let stand_in = spec.stand_ins.get(&at).cloned();
            mounts.push(mask_mount(at.clone(), at, with, stand_in)?);
        }
    }
    for mask in outside {
        mounts.push(mask_mount(
            mask.from.clone(),
            mask.at.clone(),
            mask.with,
            None,
        )?);
    }
    // Keeps one mount per target; a mask replaces a mount of the same part.
    let mut by_target = HashMap::new();
    for mount in mounts {
        by_target.insert(mount.target.clone(), mount);
    }
    let mut mounts: Vec<_> = by_target.into_values().collect();
    mounts.sort_by(|one, other| one.target.cmp(&other.target));
    Ok(mounts)
}

fn bind(from: PathBuf, at: PathBuf, writable: bool) -> Result<Mount, SandboxError> {
    Ok(Mount {
        source: Some(path_text(from)?),
        target: Some(path_text(at)?),
        typ: Some(MountType::BIND),
        read_only: Some(!writable),
        ..Mount::default()
    })
}

fn mask_mount(
    from: PathBuf,
    at: PathBuf,
    with: MountMask,
    stand_in: Option<PathBuf>,
) -> Result<Mount, SandboxError> {
    if let (MountMask::Nothing { .. }, Some(stand_in)) = (with, stand_in) {
        return bind(stand_in, at, false);
    }
    match with {
        MountMask::Pin => bind(from, at, true),
        MountMask::ReadOnly => bind(from, at, false),
        // An empty file that discards writes.
        MountMask::Nothing { folder: false } => bind("/dev/null".into(), at, false),
        MountMask::Nothing { folder: true } => Ok(Mount {
            target: Some(path_text(at)?),
            typ: Some(MountType::TMPFS),
            ..Mount::default()
        }),
    }
}

/// Checks that the workspace and the mounts do not expose the engine's `socket` or replace system folders.
pub(super) fn check_mounts(spec: &CommandSpec, socket: &Path) -> Result<(), SandboxError> {
    let workspace = &spec.workspace;
    let inside = SYSTEM_FOLDERS
        .iter()
        .any(|system_folder| workspace.starts_with(system_folder));
    let mut reserved = SYSTEM_FOLDERS
        .iter()
        .chain(&IMAGE_FOLDERS)
        .chain(&[HOME, TEMP]);
    if inside || reserved.any(|at| Path::new(at).starts_with(workspace)) {
        return Err(SandboxError::Workspace(workspace.clone()));
    }
    // Access to the engine's socket is access to the whole machine.
    if socket.starts_with(workspace) {
        return Err(SandboxError::Mount {
            at: workspace.clone(),
            why: format!(
                "it contains the socket of the container engine: `{}`",
                socket.display()
            ),
        });
    }
    for mount in &spec.mounts {
        let fault = |why: String| {
            Err(SandboxError::Mount {
                at: mount.at.clone(),
                why,
            })
        };
        if socket.starts_with(&mount.from) {
            return fault(format!(
                "`{}` contains the socket of the container engine",
                mount.from.display()
            ));
        }
        if [HOME, TEMP]
            .iter()
            .any(|at| Path::new(at).starts_with(&mount.at))
        {
            return fault(
                "the container creates this folder itself; mount at another path".to_owned(),
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
