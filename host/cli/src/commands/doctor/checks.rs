//! Checks of `mimir doctor`, one function each.

use std::fs::OpenOptions;
use std::path::Path;

use mimir_audit::{Head, Log};
use mimir_core::config::OnFailure;
use mimir_core::files::{self, Links};
use mimir_core::tool::Source;
use mimir_core::{Quarantined, Registry, ToolError, text};
use mimir_process::sandbox::{choose, survey};
use mimir_wasm::{Allocation, CacheState, EngineFacts, WASMTIME_VERSION as WASMTIME};

use crate::commands::tools_build::has_target;
use crate::output::doctor::Finding;
use crate::sdk::TARGET;
use mimir::places::Places;
use mimir::settings::Settings;
use mimir::setup::Setup;
use mimir::workspace::Workspace;

/// Checks the program and the platform.
pub fn program() -> Finding {
    let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    let text = format!(
        "mimir {} on {os} {arch}{}",
        env!("CARGO_PKG_VERSION"),
        kernel()
    );
    Finding::good("program", text)
}

/// Checks the kernel for PAGEMAP_SCAN (Linux 6.7), which finds the memory pages that a call has touched and makes the
/// end of a call cheaper.
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

/// Checks the workspace.
pub fn workspace(workspace: &Workspace) -> Finding {
    let root = workspace.root().display().to_string();
    if workspace.is_made() {
        Finding::good("workspace", root)
    } else {
        let text = format!("{root}, which has no .mimir: default settings, no custom tools");
        Finding::fair("workspace", text, "mimir init")
    }
}

/// Checks the config files.
pub fn config(settings: &Result<Settings, ToolError>, places: &Places) -> Finding {
    let user = match &places.config {
        Some(dir) => format!("your own would be {}", dir.join("config.yml").display()),
        None => "no user config folder (HOME is not set)".to_owned(),
    };
    let own = |settings: &Settings| -> Vec<String> {
        let files = settings.files.iter();
        let own = files.filter(|file| !file.whose.is_team());
        own.map(|file| file.path.display().to_string()).collect()
    };
    match settings {
        Ok(settings) if own(settings).is_empty() && places.config.is_none() => Finding::fair(
            "config",
            format!("no file, all defaults; {user}"),
            "set MIMIR_CONFIG_DIR to an absolute path",
        ),
        Ok(settings) if own(settings).is_empty() => {
            Finding::good("config", format!("no file, all defaults; {user}"))
        }
        Ok(settings) if !settings.withheld().is_empty() => Finding::fair(
            "config",
            format!(
                "permissions in the project's settings do not apply yet: {}",
                settings.withheld().join(", ")
            ),
            "review them, and run `mimir policy accept` to accept them",
        ),
        Ok(settings) => Finding::good("config", own(settings).join(", ")),
        Err(error) => Finding::bad(
            "config",
            error.message.as_str(),
            "fix the error; no tool can be called until then",
        ),
    }
}

/// Finds the team's policy file that applies.
pub fn team(settings: &Settings, places: &Places) -> Finding {
    let there: Vec<&str> = settings.team().map(|file| file.shown.as_str()).collect();
    let text = match (there.is_empty(), places.team.first()) {
        (false, _) => format!("{}, above all other settings", there.join(" and ")),
        (true, Some(place)) => format!("none; it would be {}", place.display()),
        (true, None) => "none".to_owned(),
    };
    Finding::good("team policy", text)
}

/// Checks that approvals and grants can be stored and read.
pub fn ledger(setup: &Setup) -> Finding {
    let Some(ledger) = setup.ledger() else {
        return Finding::fair(
            "approvals",
            "no folder to store approvals and grants in",
            "set MIMIR_CONFIG_DIR",
        );
    };
    let read = ledger
        .book()
        .and_then(|book| Ok((book, ledger.lock().read()?)));
    // The first approval creates the file, in the nearest existing folder.
    let folder = ledger.path().ancestors().skip(1).find(|dir| dir.is_dir());
    match (read, may_write(folder.unwrap_or(Path::new("/")))) {
        (Ok(_), Err(why)) => Finding::bad(
            "approvals",
            format!("cannot write {}: {why}", ledger.path().display()),
            "make it writable, or set MIMIR_CONFIG_DIR to another folder; until then no approval or grant can be stored",
        ),
        (Ok((book, lock)), Ok(())) => Finding::good(
            "approvals",
            format!(
                "{} approvals and {} grants, in {} and {}",
                book.leases.len(),
                lock.plugins.len(),
                ledger.path().display(),
                ledger.lock().path().display()
            ),
        ),
        (Err(error), _) => Finding::bad(
            "approvals",
            error.to_string(),
            "repair the file or move it away; until then its content is ignored",
        ),
    }
}

/// Checks the engine and its memory.
pub fn engine(facts: &EngineFacts) -> Finding {
    match &facts.allocation {
        Ok(Allocation::Pooled) => {
            Finding::good("engine", format!("wasmtime {WASMTIME}, memory from a pool"))
        }
        Ok(Allocation::OnDemand { why }) => Finding::fair(
            "engine",
            format!("wasmtime {WASMTIME}, memory on demand: {why}"),
            "calls work but are slower; a pool needs address space: see `ulimit -v` and the limits of your container",
        ),
        Err(error) => Finding::bad(
            "engine",
            format!("wasmtime {WASMTIME} cannot run: {error}"),
            "no tool can be called here; see `ulimit -a` for exhausted limits",
        ),
    }
}

/// Checks the cache of compiled code.
pub fn cache(facts: &EngineFacts) -> Finding {
    let place = facts
        .cache_dir
        .as_ref()
        .map(|dir| dir.display().to_string())
        .unwrap_or_default();
    match &facts.cache {
        CacheState::Off => Finding::fair(
            "cache",
            "no cache folder: components are compiled for each call",
            "set MIMIR_CACHE_DIR to a folder",
        ),
        CacheState::Absent => Finding::good("cache", format!("{place} (created when needed)")),
        CacheState::Good { entries, bytes } => Finding::good(
            "cache",
            format!("{place} ({entries} entries, {})", text::bytes(*bytes)),
        ),
        CacheState::Bad { why } => Finding::bad(
            "cache",
            format!("{place} is not used: {why}"),
            "code in it is executed, so only you may have write access: chown it to you, chmod 0700, or set MIMIR_CACHE_DIR to another folder",
        ),
    }
}

/// Checks the tools.
pub fn tools(setup: &Setup, registry: &Registry) -> Finding {
    let count = |source: Source| {
        registry
            .tools()
            .iter()
            .filter(|tool| tool.source == source)
            .count()
    };
    let folder = setup.workspace.shown(&setup.workspace.tools());
    let custom = match (
        setup.settings.config.tools.auto_load_custom_tools,
        setup.workspace.tools().is_dir(),
    ) {
        (false, _) => format!("{folder} is not read (tools.autoLoadCustomTools: false)"),
        (true, false) => format!("{folder} does not exist"),
        (true, true) => format!("{} from {folder}", count(Source::Custom)),
    };
    Finding::good(
        "tools",
        format!("{} built in, {custom}", count(Source::BuiltIn)),
    )
}

/// Finding about a skipped file.
pub fn quarantined(left_out: &Quarantined) -> Finding {
    let text = format!("{} is left out [{}]", left_out.location, left_out.code);
    Finding::bad("tools", text, left_out.reason.as_str())
}

/// Finds rules about tools that do not exist: a typo in a name makes a rule ineffective.
pub fn unknown_names(settings: &Settings, registry: &Registry) -> Vec<Finding> {
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
            let near = mimir_core::names::did_you_mean(name, known.iter().copied());
            let text = format!("{key} in {} names the unknown tool `{name}`", file.shown);
            findings.push(Finding::fair(
                "config",
                text,
                format!("check the name.{near}"),
            ));
        }
    }
    findings
}

/// Checks the audit log.
pub fn audit(setup: &Setup) -> Finding {
    let path = setup.workspace.audit();
    let shown = setup.workspace.shown(&path);
    let unrecorded = setup.settings.config.audit.on_failure == OnFailure::Run;
    let text = match kept(&path) {
        Ok(text) => format!("{shown} ({text})"),
        Err(why) if unrecorded => {
            let text = format!(
                "cannot write {shown}: {why}; calls run without being recorded (audit.onFailure: run)"
            );
            return Finding::bad("audit", text, "make it writable");
        }
        Err(why) => return unwritable(&shown, &why),
    };
    if is_cut(&path, setup.memory.read()) {
        let text = format!(
            "{text}; the log was replaced, or its end is missing (see `mimir audit verify`)"
        );
        return Finding::bad("audit", text, setup.memory.way_out());
    }
    if unrecorded {
        let text = format!("{text}; a call that cannot be recorded is made all the same");
        return Finding::fair("audit", text, "audit.onFailure: refuse");
    }
    Finding::good("audit", text)
}

/// Returns true if the line remembered as the last one is missing.
fn is_cut(path: &Path, remembered: Option<Head>) -> bool {
    let has = |head| Log::at(path).snapshot().and_then(|log| log.has(head));
    // Another check reports an unreadable log.
    remembered.is_some_and(|head| !has(head).unwrap_or(true))
}

/// Describes the log, if it can be written.
fn kept(path: &Path) -> Result<String, String> {
    let log = Log::at(path)
        .snapshot()
        .map_err(|error| error.to_string())?;
    if path.symlink_metadata().is_ok() {
        let open = files::open_with(path, Links::Refused, OpenOptions::new().append(true));
        open.map_err(|error| error.to_string())?;
        has_room(path)?;
        return Ok(match log.files() {
            1 => text::bytes(log.bytes()),
            files => format!("{} in {files} files", text::bytes(log.bytes())),
        });
    }
    // The first call creates it, in the nearest existing folder.
    let folder = path.ancestors().skip(1).find(|folder| folder.is_dir());
    may_write(folder.unwrap_or(Path::new("/")))?;
    Ok("created by the first call".to_owned())
}

/// Disk space for the lines of concurrent calls; with less, no call runs.
#[cfg(unix)]
const ROOM: u64 = 128 << 10;

/// Checks the free disk space for the log.
#[cfg(unix)]
fn has_room(path: &Path) -> Result<(), String> {
    let free = rustix::fs::statvfs(path).map(|disk| disk.f_bavail.saturating_mul(disk.f_frsize));
    match free {
        Ok(free) if free < ROOM => Err("the disk is full".to_owned()),
        // If the free space is unknown, the call itself finds out.
        _ => Ok(()),
    }
}

#[cfg(not(unix))]
fn has_room(_: &Path) -> Result<(), String> {
    Ok(())
}

fn unwritable(shown: &str, why: &str) -> Finding {
    let fix =
        "make it writable, or free some disk space: a call that cannot be recorded does not run";
    Finding::bad("audit", format!("cannot write {shown}: {why}"), fix)
}

#[cfg(unix)]
fn may_write(folder: &Path) -> Result<(), String> {
    rustix::fs::access(folder, rustix::fs::Access::WRITE_OK)
        .map_err(|e| std::io::Error::from(e).to_string())
}

#[cfg(not(unix))]
fn may_write(folder: &Path) -> Result<(), String> {
    match std::fs::metadata(folder) {
        Ok(meta) if meta.permissions().readonly() => Err("the folder is read-only".to_owned()),
        Ok(_) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

/// Checks the toolchain for `mimir tools build`.
pub fn building(root: &Path) -> Finding {
    match has_target(root) {
        Some(true) => Finding::good("building", format!("Rust with {TARGET}")),
        Some(false) => Finding::fair(
            "building",
            format!("Rust has no target {TARGET}, which `mimir tools build` needs"),
            format!("rustup target add {TARGET}"),
        ),
        None => Finding::fair(
            "building",
            "no Rust, which `mimir tools build` needs",
            "install it from https://rustup.rs",
        ),
    }
}

/// Checks the configured sandbox, and reports each sandbox's features, or why it is not available.
pub fn sandboxes(setup: &Setup) -> Vec<Finding> {
    let settings = &setup.settings.config.sandbox;
    let (used, chosen) = match choose(settings) {
        Ok(chosen) => {
            let name = chosen.sandbox.name();
            let finding = match name {
                "none" => Finding::fair(
                    "sandbox",
                    "none, as configured",
                    "set `sandbox: auto` in your config to use the strongest one available",
                ),
                _ => Finding::good("sandbox", name),
            };
            (Some(name), finding)
        }
        Err(fault) => (
            None,
            Finding::fair(
                "sandbox",
                format!("commands cannot run: {fault}"),
                "choose another `sandbox` in your config; `none` runs commands without one",
            ),
        ),
    };
    let each = survey(settings).map(|(name, gives)| {
        let use_of_it = if used == Some(name) { "" } else { "not used; " };
        let text = match gives {
            Ok(gives) => format!("{name}: {use_of_it}{}", gives.join("; ")),
            // An unused sandbox needs no fix.
            Err(fault) => format!("{name}: {use_of_it}{fault}"),
        };
        Finding::good("sandboxes", text)
    });
    [chosen].into_iter().chain(each).collect()
}
