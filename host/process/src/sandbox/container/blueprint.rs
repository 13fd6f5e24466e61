//! What a container is made like: all that is settled before a command enters it.
//!
//! A mount is of what is there when it is made, and over what is there. If that is replaced later, as editors do when
//! they save, the mount is of what was there before, or is gone. So what every mount is of, and over, is kept with it,
//! and a container that waits is used only if nothing of that is another by now. Whether the engine has mounted just that
//! is looked at before a command enters (see `mounted.rs`).

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use bollard::models::{
    ContainerCreateBody, HealthConfig, HostConfig, HostConfigLogConfig, Mount, MountType,
    ResourcesUlimits,
};
use rustix::process::Resource;

use super::facts::Facts;
use super::mounted::Mounted;
use super::owner::{LABEL, Owner};
use super::{HOME, NAME, TEMP, text};
use crate::sandbox::shield::{Beside, Cover, covers, covers_beside};
use crate::sandbox::{Bound, Fault, Seen, Spec};

/// Memory that temporary files and the home may have. It counts as the command's.
const TEMPORARY: &str = "rw,exec,nosuid,nodev,size=2g,mode=1777";

/// An empty folder that can be listed: programs that walk a tree go on.
const NOTHING: &str = "ro,noexec,nosuid,nodev,size=4k,mode=555";

/// Podman copies what is under such a folder into it, unless it is told not to. Docker does not know the word.
const EMPTY: &str = ",notmpcopyup";

/// Waits until nobody holds its input any more, which is when whoever made the container is gone, and then takes all else
/// with it. It does not end when all processes are asked to end, so that they have the time to. The shell stays, as the
/// first process, and collects those that nobody waits for: not every engine has a program that does.
const WAIT: [&str; 3] = ["sh", "-c", "trap '' TERM; cat >/dev/null; exit"];

/// The period over which processor time is measured, in microseconds: the kernel's own.
const PERIOD: i64 = 100_000;

/// Processes that a user may have in all, in containers of Podman: what that allows itself. What a command may have is
/// bounded by its control group.
const PROCESSES: u64 = 32_768;

/// What no workspace may be in: what a container is made of, and what speaks for the whole machine.
const MADE_OF: [&str; 6] = ["/proc", "/sys", "/dev", "/run", "/etc", "/boot"];

/// What no workspace may hold, beside that: it would take the place of the image's.
const IMAGE: [&str; 7] = ["/bin", "/lib", "/lib64", "/opt", "/sbin", "/usr", "/var"];

/// A container that is yet to be made.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Blueprint {
    pub(super) body: ContainerCreateBody,
    /// What its mounts are of, and over.
    mounted: Vec<Mounted>,
    /// What is covered beside the workspace.
    beside: Vec<Seen>,
    workspace: PathBuf,
}

impl Blueprint {
    pub(super) fn new(image: &str, facts: &Facts, spec: &Spec) -> Result<Self, Fault> {
        let beside = covers_beside(NAME, spec)?;
        let mounts = mounts(spec, &beside)?;
        let parts = spec.parts();
        let mounted = mounts.iter().map(|mount| {
            let at = Path::new(mount.target.as_deref().unwrap_or_default());
            let of = mount.source.as_deref().map(Path::new);
            let over = |(part, _): &(PathBuf, bool)| at != part && at.starts_with(part);
            // A folder from elsewhere may be where nothing is.
            let covers = parts.iter().any(over) && spec.mounts.iter().all(|mount| mount.at != at);
            let writable = mount.read_only == Some(false);
            Mounted::new(at, of, covers, writable)
        });
        let mounted = mounted.collect::<Result<_, _>>()?;
        let words = |words: &[&str]| Some(words.iter().map(|word| (*word).to_owned()).collect());
        let body = ContainerCreateBody {
            image: Some(image.to_owned()),
            entrypoint: words(&WAIT),
            cmd: Some(Vec::new()),
            user: Some(facts.user()),
            hostname: Some("mimir".to_owned()),
            working_dir: Some(text(spec.workspace.clone())?),
            // It holds the container open, and what is written to it is nothing.
            attach_stdin: Some(true),
            open_stdin: Some(true),
            stdin_once: Some(true),
            // The image's own would run beside the command.
            healthcheck: Some(HealthConfig {
                test: words(&["NONE"]),
                ..HealthConfig::default()
            }),
            labels: Some(HashMap::from([(LABEL.to_owned(), Owner::own().label())])),
            host_config: Some(host(facts, spec, mounts)),
            ..ContainerCreateBody::default()
        };
        Ok(Self {
            body,
            mounted,
            beside: beside
                .iter()
                .filter_map(|one| Seen::of(&one.from))
                .collect(),
            workspace: spec.workspace.clone(),
        })
    }

    pub(super) fn workspace(&self) -> &Path {
        &self.workspace
    }

    /// Folders of this machine that can be written to in it.
    pub(super) fn writable(&self) -> Vec<PathBuf> {
        let host = self.body.host_config.as_ref();
        let mounts = host.and_then(|host| host.mounts.as_deref());
        let writable = mounts.unwrap_or_default().iter();
        writable
            .filter(|mount| mount.read_only == Some(false))
            .filter_map(|mount| mount.source.as_ref().map(PathBuf::from))
            .collect()
    }

    /// What it is to have mounted.
    pub(super) fn mounted(&self) -> &[Mounted] {
        &self.mounted
    }

    /// What is covered, in the workspace and beside it.
    pub(super) fn covered(&self) -> Vec<Seen> {
        let covered = self.mounted.iter().filter_map(Mounted::covers);
        covered.chain(&self.beside).cloned().collect()
    }

    /// Whether it can be told if what its mounts are of and over is still there.
    pub(super) fn keeps(&self) -> bool {
        self.mounted
            .iter()
            .flat_map(Mounted::seen)
            .all(Seen::is_sure)
    }
}

fn host(facts: &Facts, spec: &Spec, mounts: Vec<Mount>) -> HostConfig {
    let held = |holds: bool, bound: Bound| holds.then(|| number(bound.value()));
    let memory = held(facts.memory, spec.bounds.memory);
    let options = |most: &str| match facts.podman {
        true => format!("{most}{EMPTY}"),
        false => most.to_owned(),
    };
    let (hidden, mounts): (Vec<_>, Vec<_>) = mounts
        .into_iter()
        .partition(|mount| mount.typ == Some(MountType::TMPFS));
    let hidden = hidden.into_iter().filter_map(|mount| mount.target);
    let temporary = [HOME, TEMP].map(|at| (at.to_owned(), options(TEMPORARY)));
    let folders = hidden.map(|at| (at, options(NOTHING))).chain(temporary);
    let mut security = vec!["no-new-privileges".to_owned()];
    if facts.selinux {
        // Else nothing of this machine can be read, and to label it anew would change the person's files.
        security.push("label=disable".to_owned());
    }
    HostConfig {
        memory,
        // As much as the memory alone, which is none beside it.
        memory_swap: memory,
        pids_limit: held(facts.pids, spec.bounds.processes),
        cpu_period: spec.bounds.cpu.map(|_| PERIOD),
        cpu_quota: spec
            .bounds
            .cpu
            .map(|percent| i64::from(percent) * PERIOD / 100),
        ulimits: Some(limits(facts, spec)),
        mounts: Some(mounts),
        tmpfs: Some(folders.collect()),
        readonly_rootfs: Some(true),
        network_mode: Some("none".to_owned()),
        cap_drop: Some(vec!["ALL".to_owned()]),
        security_opt: Some(security),
        userns_mode: facts.user_space().map(str::to_owned),
        init: Some(false),
        // What is said by a command goes to whoever asked for it, and to no file of the engine's.
        log_config: Some(HostConfigLogConfig {
            typ: Some("none".to_owned()),
            config: None,
        }),
        ..HostConfig::default()
    }
}

/// What a process may use up by itself. Nothing is more than whoever runs us may have: an engine with no more rights
/// than that could start nothing.
fn limits(facts: &Facts, spec: &Spec) -> Vec<ResourcesUlimits> {
    let own = |resource| rustix::process::getrlimit(resource).maximum;
    let files = spec.bounds.open_files;
    let files = own(Resource::Nofile).map_or(files, |most| files.min(most));
    let mut limits = vec![
        limit("fsize", spec.bounds.file_size),
        limit("nofile", files),
        limit("core", 0),
    ];
    if facts.podman {
        // It would set one that is more than it may have itself.
        let most = own(Resource::Nproc).unwrap_or(PROCESSES);
        limits.push(limit("nproc", most.min(PROCESSES)));
    }
    limits
}

fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn limit(name: &str, value: u64) -> ResourcesUlimits {
    ResourcesUlimits {
        name: Some(name.to_owned()),
        soft: Some(number(value)),
        hard: Some(number(value)),
    }
}

/// All that a command sees beside the image, and what covers some of that.
fn mounts(spec: &Spec, beside: &[Beside]) -> Result<Vec<Mount>, Fault> {
    let parts = spec.parts();
    let mut mounts = Vec::new();
    for (at, writable) in &parts {
        mounts.push(bind(at.clone(), at.clone(), *writable)?);
    }
    for mount in &spec.mounts {
        mounts.push(bind(mount.from.clone(), mount.at.clone(), mount.writable)?);
    }
    let writes = parts.iter().any(|(_, writable)| *writable);
    for (path, with) in covers(NAME, &spec.workspace, &spec.shield, writes)? {
        let at = spec.workspace.join(path);
        if parts.iter().any(|(seen, _)| at.starts_with(seen)) {
            let stand_in = spec.stand_ins.get(&at).cloned();
            mounts.push(cover(at.clone(), at, with, stand_in)?);
        }
    }
    for one in beside {
        mounts.push(cover(one.from.clone(), one.at.clone(), one.with, None)?);
    }
    // A part that was asked for twice is one, and the cover of a part goes before it.
    let mut seen = HashMap::new();
    for mount in mounts {
        seen.insert(mount.target.clone(), mount);
    }
    let mut mounts: Vec<_> = seen.into_values().collect();
    mounts.sort_by(|one, other| one.target.cmp(&other.target));
    Ok(mounts)
}

fn bind(from: PathBuf, at: PathBuf, writable: bool) -> Result<Mount, Fault> {
    Ok(Mount {
        source: Some(text(from)?),
        target: Some(text(at)?),
        typ: Some(MountType::BIND),
        read_only: Some(!writable),
        ..Mount::default()
    })
}

fn cover(
    from: PathBuf,
    at: PathBuf,
    with: Cover,
    stand_in: Option<PathBuf>,
) -> Result<Mount, Fault> {
    if let (Cover::Nothing { .. }, Some(stand_in)) = (with, stand_in) {
        return bind(stand_in, at, false);
    }
    match with {
        Cover::Pin => bind(from, at, true),
        Cover::ReadOnly => bind(from, at, false),
        // An empty one, that takes what is written to it and keeps nothing.
        Cover::Nothing { folder: false } => bind("/dev/null".into(), at, false),
        Cover::Nothing { folder: true } => Ok(Mount {
            target: Some(text(at)?),
            typ: Some(MountType::TMPFS),
            ..Mount::default()
        }),
    }
}

/// Whether a container with this workspace and these mounts would still be one. `socket` is the engine's.
pub(super) fn fits(spec: &Spec, socket: &Path) -> Result<(), Fault> {
    let workspace = &spec.workspace;
    let inside = MADE_OF.iter().any(|made| workspace.starts_with(made));
    let mut ours = MADE_OF.iter().chain(&IMAGE).chain(&[HOME, TEMP]);
    if inside || ours.any(|at| Path::new(at).starts_with(workspace)) {
        return Err(Fault::Workspace(workspace.clone()));
    }
    // Who speaks with the engine has the whole machine.
    if socket.starts_with(workspace) {
        return Err(Fault::Mount {
            at: workspace.clone(),
            why: format!(
                "the socket of the container engine is in it: `{}`",
                socket.display()
            ),
        });
    }
    for mount in &spec.mounts {
        let fault = |why: String| {
            Err(Fault::Mount {
                at: mount.at.clone(),
                why,
            })
        };
        if socket.starts_with(&mount.from) {
            return fault(format!(
                "`{}` holds the socket of the container engine",
                mount.from.display()
            ));
        }
        if [HOME, TEMP]
            .iter()
            .any(|at| Path::new(at).starts_with(&mount.at))
        {
            return fault("the container has one of its own there".to_owned());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
