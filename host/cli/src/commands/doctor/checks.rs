//! The checks of `doctor`, one function each.

use std::fs::OpenOptions;
use std::path::Path;

use mimir_core::audit::{Head, Log};
use mimir_core::config::OnFailure;
use mimir_core::files::{self, Links};
use mimir_core::tool::Source;
use mimir_core::{Quarantined, Registry, ToolError, text};
use mimir_process::sandbox::{choose, survey};
use mimir_wasm::{Allocation, CacheState, EngineFacts, WASMTIME_VERSION as WASMTIME};

use crate::commands::tools_build::has_target;
use crate::output::doctor::Finding;
use crate::places::Places;
use crate::sdk::TARGET;
use crate::settings::Settings;
use crate::setup::Setup;
use crate::workspace::Workspace;

/// The program and the platform.
pub fn program() -> Finding {
    let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    let text = format!(
        "mimir {} on {os} {arch}{}",
        env!("CARGO_PKG_VERSION"),
        kernel()
    );
    Finding::good("program", text)
}

/// The kernel, and whether it can tell which pages of memory a call has touched (since Linux 6.7): that
/// makes the end of a call cheaper.
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

/// The folder that tools see.
pub fn workspace(workspace: &Workspace) -> Finding {
    let root = workspace.root().display().to_string();
    if workspace.is_made() {
        Finding::good("workspace", root)
    } else {
        let text = format!(
            "{root}, which has no .mimir; settings are defaults and there are no tools of yours"
        );
        Finding::fair("workspace", text, "mimir init")
    }
}

/// The config files.
pub fn config(settings: &Result<Settings, ToolError>, places: &Places) -> Finding {
    let user = match &places.config {
        Some(dir) => format!("your own would be {}", dir.join("config.yml").display()),
        None => "no folder for your own settings (HOME is not set)".to_owned(),
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
            "set MIMIR_CONFIG_DIR to an absolute path of yours",
        ),
        Ok(settings) if own(settings).is_empty() => {
            Finding::good("config", format!("no file, all defaults; {user}"))
        }
        Ok(settings) if !settings.withheld().is_empty() => Finding::fair(
            "config",
            format!(
                "what the project's settings allow does not count: {}",
                settings.withheld().join(", ")
            ),
            "look at it, and run `mimir policy accept` if you want it",
        ),
        Ok(settings) => Finding::good("config", own(settings).join(", ")),
        Err(error) => Finding::bad(
            "config",
            error.message.as_str(),
            "mend it; nothing can be called until then",
        ),
    }
}

/// Which of a team's files count.
pub fn team(settings: &Settings, places: &Places) -> Finding {
    let there: Vec<&str> = settings.team().map(|file| file.shown.as_str()).collect();
    let text = match (there.is_empty(), places.team.first()) {
        (false, _) => format!("{}, above all other settings", there.join(" and ")),
        (true, Some(place)) => format!("none; it would be {}", place.display()),
        (true, None) => "none".to_owned(),
    };
    Finding::good("team policy", text)
}

/// Whether what this user has approved and granted can be kept and read.
pub fn ledger(setup: &Setup) -> Finding {
    let Some(ledger) = setup.ledger() else {
        return Finding::fair(
            "approvals",
            "there is no folder to keep approvals and grants in",
            "set MIMIR_CONFIG_DIR",
        );
    };
    let read = ledger
        .book()
        .and_then(|book| Ok((book, ledger.lock().read()?)));
    // The first approval makes the file, in the nearest folder that exists.
    let folder = ledger.path().ancestors().skip(1).find(|dir| dir.is_dir());
    match (read, may_write(folder.unwrap_or(Path::new("/")))) {
        (Ok(_), Err(why)) => Finding::bad(
            "approvals",
            format!("{} cannot be written: {why}", ledger.path().display()),
            "make it writable for you, or set MIMIR_CONFIG_DIR to another folder; until then no approval or grant can be stored",
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
            "repair the file or move it away; until then nothing in it counts",
        ),
    }
}

/// The engine and its memory.
pub fn engine(facts: &EngineFacts) -> Finding {
    match &facts.allocation {
        Ok(Allocation::Pooled) => {
            Finding::good("engine", format!("wasmtime {WASMTIME}, memory from a pool"))
        }
        Ok(Allocation::OnDemand { why }) => Finding::fair(
            "engine",
            format!("wasmtime {WASMTIME}, memory on demand: {why}"),
            "calls work and are slower; a pool needs address space: see `ulimit -v` and the limits of your container",
        ),
        Err(error) => Finding::bad(
            "engine",
            format!("wasmtime {WASMTIME} cannot run: {error}"),
            "nothing can be called here; see `ulimit -a` for what is scarce",
        ),
    }
}

/// The cache of compiled code.
pub fn cache(facts: &EngineFacts) -> Finding {
    let place = facts
        .cache_dir
        .as_ref()
        .map(|dir| dir.display().to_string())
        .unwrap_or_default();
    match &facts.cache {
        CacheState::Off => Finding::fair(
            "cache",
            "there is no place for one: everything is compiled for each call",
            "set MIMIR_CACHE_DIR to a folder of yours",
        ),
        CacheState::Absent => Finding::good("cache", format!("{place} (made when it is needed)")),
        CacheState::Good { entries, bytes } => Finding::good(
            "cache",
            format!("{place} ({entries} entries, {})", text::bytes(*bytes)),
        ),
        CacheState::Bad { why } => Finding::bad(
            "cache",
            format!("{place} is not used: {why}"),
            "code in it is run, so only you may be able to write to it: chown it to you, chmod 0700, or set MIMIR_CACHE_DIR to another folder",
        ),
    }
}

/// The tools.
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
        (true, false) => format!("{folder} is not there"),
        (true, true) => format!("{} from {folder}", count(Source::Custom)),
    };
    Finding::good(
        "tools",
        format!("{} built in, {custom}", count(Source::BuiltIn)),
    )
}

/// A file that is left out.
pub fn quarantined(left_out: &Quarantined) -> Finding {
    let text = format!("{} is left out [{}]", left_out.location, left_out.code);
    Finding::bad("tools", text, left_out.reason.as_str())
}

/// Rules about tools that are not there: a slip in a name is a rule that rules nothing.
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
            let text = format!(
                "{key} in {} names `{name}`, and there is no such tool",
                file.shown
            );
            findings.push(Finding::fair(
                "config",
                text,
                format!("check the name.{near}"),
            ));
        }
    }
    findings
}

/// The record of calls.
pub fn audit(setup: &Setup) -> Finding {
    let path = setup.workspace.audit();
    let shown = setup.workspace.shown(&path);
    let unrecorded = setup.settings.config.audit.on_failure == OnFailure::Run;
    let text = match kept(&path) {
        Ok(text) => format!("{shown} ({text})"),
        Err(why) if unrecorded => {
            let text = format!(
                "{shown} cannot be written: {why}; calls are made without a record (audit.onFailure: run)"
            );
            return Finding::bad("audit", text, "make it writable for you");
        }
        Err(why) => return unwritable(&shown, &why),
    };
    if is_cut(&path, setup.memory.read()) {
        let text = format!(
            "{text}; it is not the log that was written here before, or its end is missing (`mimir audit verify` says more)"
        );
        return Finding::bad("audit", text, setup.memory.way_out());
    }
    if unrecorded {
        let text = format!("{text}; a call that cannot be recorded is made all the same");
        return Finding::fair("audit", text, "audit.onFailure: refuse");
    }
    Finding::good("audit", text)
}

/// Whether the line that is remembered as the last is not there.
fn is_cut(path: &Path, remembered: Option<Head>) -> bool {
    let has = |head| Log::at(path).snapshot().and_then(|log| log.has(head));
    // That it cannot be read is found elsewhere.
    remembered.is_some_and(|head| !has(head).unwrap_or(true))
}

/// What there is of the record, if it can be written to.
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
    // The first call makes it, in the nearest folder that is there.
    let folder = path.ancestors().skip(1).find(|folder| folder.is_dir());
    may_write(folder.unwrap_or(Path::new("/")))?;
    Ok("made by the first call".to_owned())
}

/// Room for the lines of the calls that may be under way at a time, without which no call is made.
#[cfg(unix)]
const ROOM: u64 = 128 << 10;

/// Whether the disk has room for more of the record.
#[cfg(unix)]
fn has_room(path: &Path) -> Result<(), String> {
    let free = rustix::fs::statvfs(path).map(|disk| disk.f_bavail.saturating_mul(disk.f_frsize));
    match free {
        Ok(free) if free < ROOM => Err("the disk is full".to_owned()),
        // What cannot be asked is found by the call.
        _ => Ok(()),
    }
}

#[cfg(not(unix))]
fn has_room(_: &Path) -> Result<(), String> {
    Ok(())
}

fn unwritable(shown: &str, why: &str) -> Finding {
    let fix =
        "make it writable for you, or free some space: a call that cannot be recorded is not made";
    Finding::bad("audit", format!("{shown} cannot be written: {why}"), fix)
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

/// What `tools build` needs.
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
            "https://rustup.rs installs it",
        ),
    }
}

/// Where commands run, and what each sandbox gives here, or why it is not to be had.
pub fn sandboxes(setup: &Setup) -> Vec<Finding> {
    let settings = &setup.settings.config.sandbox;
    let (used, chosen) = match choose(settings) {
        Ok(chosen) => {
            let name = chosen.sandbox.name();
            let finding = match name {
                "none" => Finding::fair(
                    "sandbox",
                    "none, as the settings say",
                    "`sandbox: auto` in your config takes the strongest that this machine has",
                ),
                _ => Finding::good("sandbox", name),
            };
            (Some(name), finding)
        }
        Err(fault) => (
            None,
            Finding::fair(
                "sandbox",
                format!("commands do not run: {fault}"),
                "`sandbox` in your config names another one; `none` runs them as they are",
            ),
        ),
    };
    let each = survey(settings).map(|(name, gives)| {
        let use_of_it = if used == Some(name) { "" } else { "not used; " };
        let text = match gives {
            Ok(gives) => format!("{name}: {use_of_it}{}", gives.join("; ")),
            // What is not used need not be mended.
            Err(fault) => format!("{name}: {use_of_it}{fault}"),
        };
        Finding::good("sandboxes", text)
    });
    [chosen].into_iter().chain(each).collect()
}
