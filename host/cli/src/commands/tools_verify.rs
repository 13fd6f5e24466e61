//! `mimir tools verify`: compares the files in `.mimir/tools` with the lock file, without the network.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use mimir_core::ToolError;
use mimir_core::files::{self, LinkPolicy};
use mimir_core::grants::{SourceRecord, ToolsLock};
use mimir_core::text::visible;
use mimir_registry::signature::TrustPolicy;
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::args::GlobalOptions;
use crate::arguments::quote_for_shell;
use crate::exit::{CommandResult, ExitReason};
use crate::output::workspace_option::{all_with_workspace, with_workspace};
use crate::output::{BAD, FAINT, GOOD, styled};
use mimir::file_error::file_error;
use mimir::registries::verify_source;
use mimir::setup::{HostSetup, TOOLS_PREFIX, is_in_tools, missing_file_reason};
use mimir::signing_keys::trust_policy;

use super::tools_add::MAX_COMPONENT_SIZE;

/// Reference of a component that was made or copied on some machine, and has no other source.
pub const LOCAL_REFERENCE: &str = "local";

/// The check of one file or lock entry.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
struct FileCheck {
    file: String,
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reference: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signer: Option<String>,
    granted: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    problems: Vec<String>,
}

/// Checks every file of tools against its lock entry. Exit code 1 if there is a problem.
pub fn run(globals: &GlobalOptions) -> CommandResult {
    let printer = globals.printer();
    let setup = HostSetup::find(globals.workspace.as_deref())?;
    let lock = setup.require_approvals()?.lock().read()?;
    let trust = trust_policy(&setup)?;
    let mut locations: BTreeSet<String> = tool_files(&setup)?.into_iter().collect();
    // Grants of other locations are those of servers and workers.
    let granted = lock.plugins.keys();
    let granted = granted.filter(|location| location.starts_with(TOOLS_PREFIX));
    locations.extend(lock.sources.keys().chain(granted).cloned());
    let checks: Vec<FileCheck> = locations
        .iter()
        .map(|location| check(&setup, &lock, &trust, location))
        .collect();
    let ok = checks.iter().all(|check| check.ok);
    // Scripts show the problems to persons, too.
    let shown = checks.iter().map(|check| FileCheck {
        problems: all_with_workspace(&check.problems),
        ..check.clone()
    });
    let result = serde_json::json!({ "ok": ok, "files": shown.collect::<Vec<_>>() });
    printer.print_result(&result, |out| print_checks(out, &checks))?;
    Ok(ExitReason::done_if(ok))
}

fn print_checks(out: &mut dyn io::Write, checks: &[FileCheck]) -> io::Result<()> {
    if checks.is_empty() {
        return writeln!(out, "No tools in .mimir/tools.");
    }
    for check in checks {
        let mark = if check.ok {
            styled(GOOD, "✓")
        } else {
            styled(BAD, "✗")
        };
        let source = check.reference.as_deref().unwrap_or("without a source");
        let signer = match &check.signer {
            Some(signer) => format!(", signed by {}", visible(signer)),
            None => String::new(),
        };
        let source = styled(FAINT, format_args!("{}{signer}", visible(source)));
        writeln!(out, "{mark} {}  {source}", visible(&check.file))?;
        for problem in &check.problems {
            writeln!(out, "    {}", with_workspace(&visible(problem)))?;
        }
    }
    Ok(())
}

/// Checks one file against its lock entries.
fn check(setup: &HostSetup, lock: &ToolsLock, trust: &TrustPolicy, location: &str) -> FileCheck {
    let source = lock.sources.get(location);
    let grant = lock.plugins.get(location);
    let mut problems = Vec::new();
    let digest = if is_in_tools(location) {
        file_digest(setup, location).unwrap_or_else(|error| {
            problems.push(error.message);
            None
        })
    } else {
        problems.push("the lock entry does not name a file in .mimir/tools itself".to_owned());
        None
    };
    let name = location.rsplit('/').next().unwrap_or(location);
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    match (&digest, source) {
        (None, _) if problems.is_empty() => problems.push(missing_file_reason(setup, lock, location)),
        (None, _) => {}
        (Some(digest), Some(source)) if digest != source.layer_hex() => problems.push(format!(
            "the file is another than the one that was installed: it has sha256 {digest}, expected {}; {}",
            source.layer_hex(),
            changed_file_remedy(source, name, stem)
        )),
        (Some(_), None) if grant.is_none() => problems.push(
            "the file is unknown: tools.lock has neither a source nor a grant of it; review it, then `mimir tools vendor` pins it"
                .to_owned(),
        ),
        (Some(_), _) => {}
    }
    if let (Some(digest), Some(grant)) = (&digest, grant)
        && *digest != grant.digest
    {
        problems.push(format!(
            "its grant is for another build: `mimir tools trust {stem}` shows the differences"
        ));
    }
    let mut signer = None;
    if let Some(source) = source
        && is_in_tools(location)
    {
        match verify_source(setup, trust, location, source) {
            Ok(found) => signer = found,
            Err(error) => problems.push(error.message),
        }
        if let Err(problem) = check_policy_file(setup, stem, source) {
            problems.push(problem);
        }
    }
    FileCheck {
        file: location.to_owned(),
        ok: problems.is_empty(),
        digest: digest.map(|digest| format!("sha256:{digest}")),
        reference: source.map(|source| source.reference.clone()),
        signer,
        granted: grant.is_some(),
        problems,
    }
}

/// Returns the ways to restore a changed file, or to accept it.
fn changed_file_remedy(source: &SourceRecord, name: &str, stem: &str) -> String {
    let file = quote_for_shell(&visible(&format!("{TOOLS_PREFIX}{name}")));
    let stem = quote_for_shell(&visible(stem));
    if source.reference == LOCAL_REFERENCE {
        return format!(
            "if you have changed it yourself, `mimir tools trust {stem}` accepts it; else restore it from version control"
        );
    }
    format!(
        "to restore it, remove it and run `mimir tools vendor`; to accept it as your own, `mimir tools add {file} --force` \
         and then `mimir tools trust {stem}`"
    )
}

/// Compares the policy file that came with a component.
fn check_policy_file(setup: &HostSetup, stem: &str, source: &SourceRecord) -> Result<(), String> {
    let Some(expected) = &source.policy else {
        return Ok(());
    };
    let location = format!("{TOOLS_PREFIX}{stem}.policy.yaml");
    match file_digest(setup, &location).map_err(|error| error.message)? {
        Some(digest) if format!("sha256:{digest}") == *expected => Ok(()),
        Some(_) => Err(format!(
            "{location} is another than the one that was installed"
        )),
        None => Err(format!("{location} is missing")),
    }
}

/// Returns the SHA-256 of a file of the workspace in lower-case hex; `None` if it does not exist.
pub fn file_digest(setup: &HostSetup, location: &str) -> Result<Option<String>, ToolError> {
    let path = setup.workspace.root().join(location);
    setup.workspace.check_no_links(&path)?;
    match files::read(&path, LinkPolicy::Follow, MAX_COMPONENT_SIZE) {
        Ok(bytes) => Ok(Some(format!("{:x}", Sha256::digest(bytes)))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(file_error("read", &path, &error)),
    }
}

/// Returns the locations of the files in `.mimir/tools` that tools are loaded from.
pub fn tool_files(setup: &HostSetup) -> Result<Vec<String>, ToolError> {
    let folder = setup.workspace.tools();
    setup.workspace.check_no_links(&folder.join("file"))?;
    let entries = match std::fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(file_error("read", &folder, &error)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| file_error("read", &folder, &error))?;
        let name = entry.file_name();
        // A file whose name is not valid Unicode is not loaded.
        if let Some(name) = name.to_str().filter(|name| is_tool_file(name)) {
            found.push(format!("{TOOLS_PREFIX}{name}"));
        }
    }
    found.sort();
    Ok(found)
}

/// Returns true for the names of components and of tools in YAML files.
fn is_tool_file(name: &str) -> bool {
    let extension = Path::new(name).extension().and_then(|it| it.to_str());
    let extension = extension.unwrap_or_default().to_ascii_lowercase();
    let is_loaded = matches!(extension.as_str(), "wasm" | "wat" | "yml" | "yaml");
    is_loaded && !name.starts_with('.') && !name.ends_with(".policy.yaml")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verified_files_are_those_that_are_loaded() {
        for name in [
            "weather.wasm",
            "A.WAT",
            "greet.yml",
            "api.openapi.yml",
            "b.yaml",
        ] {
            assert!(is_tool_file(name), "{name}");
        }
        for name in ["fetch.policy.yaml", "README.md", ".hidden.wasm", "weather"] {
            assert!(!is_tool_file(name), "{name}");
        }
    }
}
