//! Checks of `mimir doctor`, one function each.

use std::fs::OpenOptions;
use std::path::Path;

use jiff::Timestamp;
use mimir_audit::{AuditLog, LogHead};
use mimir_core::config::AuditFailureMode;
use mimir_core::files::{self, LinkPolicy};
use mimir_core::platform;
use mimir_core::tool::ToolSource;
use mimir_core::{Quarantined, Registry, ToolError, text};
use mimir_process::sandbox::{ChosenSandbox, choose_sandbox, survey_sandboxes};
use mimir_wasm::{CacheState, EngineFacts, MemoryAllocation, WASMTIME_VERSION as WASMTIME};

use crate::output::dates::time_with_distance;
use crate::output::doctor::DoctorFinding;
use crate::version::BUILD;
use mimir::call_switch::StopFile;
use mimir::settings::MergedSettings;
use mimir::setup::HostSetup;
use mimir::user_dirs::UserDirs;
use mimir::workspace::WorkspaceFolder;

/// Reports the version and the platform.
pub fn program() -> DoctorFinding {
    let commit = BUILD.commit.map(|commit| format!(" ({commit})"));
    let text = format!(
        "mimir {}{} on {}{}",
        BUILD.version,
        commit.unwrap_or_default(),
        BUILD.target,
        kernel()
    );
    DoctorFinding::good("program", text)
}

/// Describes the kernel, and whether it has PAGEMAP_SCAN (Linux 6.7). That call finds the memory pages that a tool call
/// has touched, which makes resetting them cheaper.
#[cfg(target_os = "linux")]
fn kernel() -> String {
    let name = rustix::system::uname();
    let release = name.release().to_string_lossy();
    let mut numbers = release
        .split(['.', '-'])
        .map_while(|part| part.parse::<u32>().ok());
    let scans = (numbers.next(), numbers.next()) >= (Some(6), Some(7));
    format!(
        ", kernel {release}{}",
        if scans { " with PAGEMAP_SCAN" } else { "" }
    )
}

#[cfg(not(target_os = "linux"))]
fn kernel() -> String {
    String::new()
}

/// Reports the workspace, and warns if it cannot be one, or has no `.mimir`.
pub fn workspace(workspace: &WorkspaceFolder, fault: Option<&ToolError>) -> DoctorFinding {
    if let Some(fault) = fault {
        let text = format!("{}. The other checks use an empty folder", fault.message);
        return DoctorFinding::fair("workspace", text, "run mimir in the folder of your project");
    }
    let root = workspace.root().display().to_string();
    if workspace.has_mimir_dir() {
        DoctorFinding::good("workspace", root)
    } else {
        let text = format!("{root}, which has no .mimir: default settings, no custom tools");
        DoctorFinding::fair("workspace", text, "mimir init")
    }
}

/// Checks the config files.
pub fn config(settings: &Result<MergedSettings, ToolError>, user_dirs: &UserDirs) -> DoctorFinding {
    let user = match &user_dirs.config {
        Some(dir) => format!("your own would be {}", dir.join("config.yml").display()),
        None => "no user config folder (HOME is not set)".to_owned(),
    };
    let own = |settings: &MergedSettings| -> Vec<String> {
        let files = settings.files.iter();
        let own = files.filter(|file| !file.owner.is_team());
        own.map(|file| file.path.display().to_string()).collect()
    };
    match settings {
        Ok(settings) if own(settings).is_empty() && user_dirs.config.is_none() => {
            DoctorFinding::fair(
                "config",
                format!("no file, all defaults; {user}"),
                "set MIMIR_CONFIG_DIR to an absolute path",
            )
        }
        Ok(settings) if own(settings).is_empty() => {
            DoctorFinding::good("config", format!("no file, all defaults; {user}"))
        }
        Ok(settings) if !settings.withheld().is_empty() => DoctorFinding::fair(
            "config",
            format!(
                "permissions in the project's settings do not apply yet: {}",
                settings.withheld().join(", ")
            ),
            "review them, and run `mimir policy accept` to accept them",
        ),
        Ok(settings) => DoctorFinding::good("config", own(settings).join(", ")),
        Err(error) => DoctorFinding::bad(
            "config",
            error.message.as_str(),
            "fix the error; no tool can be called until then",
        ),
    }
}

/// Reports the team policies in force.
pub fn team(settings: &MergedSettings, user_dirs: &UserDirs) -> DoctorFinding {
    let files: Vec<&str> = settings.team().map(|file| file.shown.as_str()).collect();
    let text = match (files.is_empty(), user_dirs.team.first()) {
        (false, _) => format!("{}, above all other settings", files.join(" and ")),
        (true, Some(place)) => format!("none; it would be {}", place.display()),
        (true, None) => "none".to_owned(),
    };
    DoctorFinding::good("team policy", text)
}

/// Checks the bundles of the joined teams.
pub fn joined_teams(settings: &MergedSettings) -> Vec<DoctorFinding> {
    let now = Timestamp::now();
    let shown = |time: Timestamp| time_with_distance(time, now);
    let teams = settings.teams.iter();
    let findings = teams.map(|team| match team.outdated_now() {
        Some(outdated) => DoctorFinding::fair("team", outdated.text, "run `mimir team sync`"),
        None if team.last_fault.is_some() => {
            let fault = team.last_fault.as_ref();
            let fault = fault.map_or("", |fault| fault.text.as_str());
            let (name, version) = (&team.bundle.team.name, team.bundle.version);
            let text = format!(
                "{name}: version {version} stays in force, because the last check failed: {fault}"
            );
            let fix = "run `mimir team sync`; if it fails again, ask the team's administrator";
            DoctorFinding::fair("team", text, fix)
        }
        None if team.bundle.expires_soon(now) => DoctorFinding::fair(
            "team",
            format!(
                "{}: the bundle is valid until {}",
                team.bundle.team.name,
                shown(team.bundle.expires_at)
            ),
            "run `mimir team sync`, or ask the team's administrator to publish again",
        ),
        None => DoctorFinding::good(
            "team",
            format!(
                "{}: version {}, checked at {}, valid until {}",
                team.bundle.team.name,
                team.bundle.version,
                shown(team.checked_at),
                shown(team.bundle.expires_at)
            ),
        ),
    });
    findings.collect()
}

/// Checks that approvals and grants can be read and stored.
pub fn approval_store(setup: &HostSetup) -> DoctorFinding {
    let Some(approval_store) = setup.approvals() else {
        return DoctorFinding::fair(
            "approvals",
            "no folder to store approvals and grants in",
            "set MIMIR_CONFIG_DIR",
        );
    };
    let read = approval_store
        .read()
        .and_then(|approvals| Ok((approvals, approval_store.lock().read()?)));
    // The first approval creates the file, so check the nearest existing folder.
    let folder = approval_store
        .path()
        .ancestors()
        .skip(1)
        .find(|dir| dir.is_dir());
    match (read, may_write(folder.unwrap_or(Path::new("/")))) {
        (Ok(_), Err(why)) => DoctorFinding::bad(
            "approvals",
            format!("cannot write {}: {why}", approval_store.path().display()),
            "make it writable, or set MIMIR_CONFIG_DIR to another folder; until then no approval or grant can be stored",
        ),
        (Ok((approvals, lock)), Ok(())) => DoctorFinding::good(
            "approvals",
            format!(
                "{} approvals and {} grants, in {} and {}",
                approvals.leases.len(),
                lock.plugins.len(),
                approval_store.path().display(),
                approval_store.lock().path().display()
            ),
        ),
        (Err(error), _) => DoctorFinding::bad(
            "approvals",
            error.to_string(),
            "repair the file or move it away; until then its content is ignored",
        ),
    }
}

/// Reports that all calls are stopped.
pub fn call_switch(user_dirs: &UserDirs) -> Option<DoctorFinding> {
    let notice = StopFile::of_user(user_dirs)?.read()?;
    Some(DoctorFinding::bad(
        "calls",
        crate::commands::call_switch::describe(&notice),
        "`mimir start` allows calls again",
    ))
}

/// Reports whether the memory of compiling is bounded here.
pub fn compiling() -> Option<DoctorFinding> {
    let guarantee = platform::memory_guarantee();
    (!guarantee.is_enforced())
        .then(|| DoctorFinding::note("engine", format!("not in full: {guarantee}")))
}

/// Checks the engine and its memory.
pub fn engine(facts: &EngineFacts) -> DoctorFinding {
    match &facts.allocation {
        Ok(MemoryAllocation::Pooled) => {
            DoctorFinding::good("engine", format!("wasmtime {WASMTIME}, memory from a pool"))
        }
        Ok(MemoryAllocation::OnDemand { why }) => DoctorFinding::fair(
            "engine",
            format!("wasmtime {WASMTIME}, memory on demand: {why}"),
            "calls work but are slower; a pool needs address space: see `ulimit -v` and the limits of your container",
        ),
        Err(error) => DoctorFinding::bad(
            "engine",
            format!("wasmtime {WASMTIME} cannot run: {error}"),
            "no tool can be called here; see `ulimit -a` for exhausted limits",
        ),
    }
}

/// Checks the cache of compiled code.
pub fn cache(facts: &EngineFacts) -> DoctorFinding {
    let folder = facts
        .cache_dir
        .as_ref()
        .map(|dir| dir.display().to_string())
        .unwrap_or_default();
    match &facts.cache {
        CacheState::Off => DoctorFinding::fair(
            "cache",
            "no cache folder: components are compiled for each call",
            "set MIMIR_CACHE_DIR to a folder",
        ),
        CacheState::Absent => {
            DoctorFinding::good("cache", format!("{folder} (created when needed)"))
        }
        CacheState::Good { entries, bytes } => DoctorFinding::good(
            "cache",
            format!("{folder} ({entries} entries, {})", text::bytes(*bytes)),
        ),
        CacheState::Bad { why } => DoctorFinding::bad(
            "cache",
            format!("{folder} is not used: {why}"),
            "code in it is executed, so only you may have write access: chown it to you, chmod 0700, or set MIMIR_CACHE_DIR to another folder",
        ),
    }
}

/// Reports the number of tools.
pub fn tools(setup: &HostSetup, registry: &Registry) -> DoctorFinding {
    let count = |source: ToolSource| {
        registry
            .tools()
            .iter()
            .filter(|tool| tool.source == source)
            .count()
    };
    let folder = setup.workspace.display_path(&setup.workspace.tools());
    let custom = match (
        setup.settings.config.tools.auto_load_custom_tools,
        setup.workspace.tools().is_dir(),
    ) {
        (false, _) => format!("{folder} is not read (tools.autoLoadCustomTools: false)"),
        (true, false) => format!("{folder} does not exist"),
        (true, true) => format!("{} from {folder}", count(ToolSource::Custom)),
    };
    DoctorFinding::good(
        "tools",
        format!("{} built in, {custom}", count(ToolSource::BuiltIn)),
    )
}

/// Reports a file that was left out.
pub fn quarantined(left_out: &Quarantined) -> DoctorFinding {
    let text = format!("{} is left out [{}]", left_out.location, left_out.code);
    DoctorFinding::bad("tools", text, left_out.reason.as_str())
}

/// Reports a built-in tool that a granted tool replaces.
pub fn replaced(replaced: &Quarantined) -> DoctorFinding {
    let text = format!("{} is replaced", replaced.location);
    DoctorFinding::fair("tools", text, replaced.reason.as_str())
}

/// Finds settings that name unknown tools, because a typo makes such a setting ineffective.
pub fn unknown_names(settings: &MergedSettings, registry: &Registry) -> Vec<DoctorFinding> {
    let known: Vec<&str> = registry
        .tools()
        .iter()
        .map(|tool| tool.name().as_str())
        .collect();
    let mut findings = Vec::new();
    for file in &settings.files {
        let config = &file.config;
        let blocks = config.tools.each.keys().map(|name| ("tools", name));
        let allow = config
            .policy
            .allow
            .iter()
            .map(|name| ("policy.allow", name));
        let deny = config.policy.deny.iter().map(|name| ("policy.deny", name));
        for (key, name) in blocks
            .chain(allow)
            .chain(deny)
            .filter(|(_, name)| registry.get(name).is_none())
        {
            let near = mimir_core::name_suggestions::did_you_mean(name, known.iter().copied());
            let text = format!("{key} in {} names the unknown tool `{name}`", file.shown);
            findings.push(DoctorFinding::fair(
                "config",
                text,
                format!("check the name.{near}"),
            ));
        }
    }
    findings
}

/// Checks the audit log.
pub fn audit(setup: &HostSetup) -> DoctorFinding {
    let path = setup.workspace.audit();
    let shown = setup.workspace.display_path(&path);
    let unrecorded = setup.settings.config.audit.on_failure == AuditFailureMode::Run;
    let text = match check_audit_log(&path) {
        Ok(text) => format!("{shown} ({text})"),
        Err(why) if unrecorded => {
            let text = format!(
                "cannot write {shown}: {why}; calls run without being recorded (audit.onFailure: run)"
            );
            return DoctorFinding::bad("audit", text, "make it writable");
        }
        Err(why) => return unwritable(&shown, &why),
    };
    if is_truncated(&path, setup.audit_watermark.read()) {
        let text = format!(
            "{text}; the log was replaced, or its end is missing (see `mimir audit verify`)"
        );
        return DoctorFinding::bad("audit", text, setup.audit_watermark.remedy());
    }
    if unrecorded {
        let text = format!("{text}; calls that cannot be recorded still run");
        return DoctorFinding::fair("audit", text, "audit.onFailure: refuse");
    }
    DoctorFinding::good("audit", text)
}

/// Returns true if the log does not contain the line that was stored as the last one.
fn is_truncated(path: &Path, remembered: Option<LogHead>) -> bool {
    let contains = |head| {
        AuditLog::at(path)
            .snapshot()
            .and_then(|log| log.has_line(head))
    };
    // An unreadable log counts as complete, because another check reports it.
    remembered.is_some_and(|head| !contains(head).unwrap_or(true))
}

/// Checks that the log can be written, and describes its size.
fn check_audit_log(path: &Path) -> Result<String, String> {
    let log = AuditLog::at(path)
        .snapshot()
        .map_err(|error| error.to_string())?;
    if path.symlink_metadata().is_ok() {
        let open = files::open_with(path, LinkPolicy::Refuse, OpenOptions::new().append(true));
        open.map_err(|error| error.to_string())?;
        has_room(path)?;
        return Ok(match log.files() {
            1 => text::bytes(log.bytes()),
            files => format!("{} in {files} files", text::bytes(log.bytes())),
        });
    }
    // The first call creates the log, so check the nearest existing folder.
    let folder = path.ancestors().skip(1).find(|folder| folder.is_dir());
    may_write(folder.unwrap_or(Path::new("/")))?;
    Ok("created by the first call".to_owned())
}

/// Minimum free disk space in bytes, for the lines of concurrent calls. With less, calls are refused.
const MIN_FREE_DISK: u64 = 128 << 10;

/// Checks the free disk space for the log.
fn has_room(path: &Path) -> Result<(), String> {
    match platform::free_space(path) {
        Ok(free) if free < MIN_FREE_DISK => Err("the disk is full".to_owned()),
        // If the free space cannot be determined, a call reports the error.
        _ => Ok(()),
    }
}

fn unwritable(shown: &str, why: &str) -> DoctorFinding {
    let fix =
        "make it writable, or free some disk space: a call that cannot be recorded does not run";
    DoctorFinding::bad("audit", format!("cannot write {shown}: {why}"), fix)
}

#[cfg(unix)]
fn may_write(folder: &Path) -> Result<(), String> {
    rustix::fs::access(folder, rustix::fs::Access::WRITE_OK)
        .map_err(|e| std::io::Error::from(e).to_string())
}

/// Creates a file and removes it: an access control list can refuse what an attribute of the folder allows.
#[cfg(windows)]
fn may_write(folder: &Path) -> Result<(), String> {
    let probe = folder.join(format!("mimir-doctor-{}.tmp", std::process::id()));
    let created = platform::create_private_file(&probe).map(drop);
    let _ = std::fs::remove_file(&probe);
    created.map_err(|error| error.to_string())
}

/// Checks the configured sandbox, with each guarantee that it does not enforce in full here, and reports the features of
/// each sandbox, or why it is not available.
pub fn sandboxes(setup: &HostSetup) -> Vec<DoctorFinding> {
    let settings = &setup.settings.config.sandbox;
    let chosen = choose_sandbox(settings);
    let used = chosen.as_ref().ok().map(|chosen| chosen.sandbox.name());
    let mut findings = match &chosen {
        Ok(chosen) => chosen_sandbox(chosen),
        Err(fault) => vec![DoctorFinding::fair(
            "sandbox",
            format!("commands cannot run: {fault}"),
            "choose another `sandbox` in your config; `none` runs commands without one",
        )],
    };
    findings.extend(survey_sandboxes(settings).map(|(name, features)| {
        let usage_note = if used == Some(name) { "" } else { "not used; " };
        let text = match features {
            Ok(features) => format!("{name}: {usage_note}{}", features.join("; ")),
            // Without a hint, because only the chosen sandbox needs to work.
            Err(fault) => format!("{name}: {usage_note}{fault}"),
        };
        DoctorFinding::good("sandboxes", text)
    }));
    findings
}

/// Reports the sandbox in use, and each of its guarantees that this machine does not enforce in full.
fn chosen_sandbox(chosen: &ChosenSandbox) -> Vec<DoctorFinding> {
    let sandbox = &chosen.sandbox;
    let finding = match sandbox.name() {
        "none" => DoctorFinding::fair(
            "sandbox",
            "none, as configured",
            "set `sandbox: auto` in your config to use the strongest one available",
        ),
        name if sandbox.is_last_resort() => DoctorFinding::fair(
            "sandbox",
            format!("{name}, without namespaces: this machine does not allow them"),
            "allow user namespaces (`sysctl kernel.apparmor_restrict_unprivileged_userns=0` on Ubuntu, \
             `--security-opt seccomp=unconfined` for a container), or set `sandbox: {mode: container, image: NAME}`",
        ),
        name => DoctorFinding::good("sandbox", name),
    };
    let mut findings = vec![finding];
    match sandbox.guarantees(&chosen.bounds) {
        Ok(guarantees) => {
            let lost = guarantees.iter().filter(|it| !it.is_enforced());
            findings.extend(
                lost.map(|it| DoctorFinding::note("sandbox", format!("not in full: {it}"))),
            );
        }
        Err(fault) => findings.push(DoctorFinding::note(
            "sandbox",
            format!("what it enforces is unknown: {fault}"),
        )),
    }
    findings
}
