//! Files of tools that the lock file names, and that do not exist, such as in a clone of a repository that ignores them.

use mimir_core::grants::{SourceRecord, ToolsLock};
use mimir_core::text::{prefix, visible};
use mimir_core::{Quarantined, ToolErrorCode};

use super::HostSetup;

/// Beginning of the locations of installed files.
pub const TOOLS_PREFIX: &str = ".mimir/tools/";

/// Maximum length of a reference that is shown, in bytes.
const MAX_REFERENCE: usize = 200;

/// Returns a report for each missing file. With the name of a called tool, also one for this tool of a missing file.
pub(super) fn missing_files(setup: &HostSetup, called: Option<&str>) -> Vec<Quarantined> {
    if setup.has_only_components() || !setup.settings.loads_custom_tools() {
        return Vec::new();
    }
    // An unreadable lock file is reported with the grants.
    let lock = setup.approvals().map(|store| store.lock().read());
    let Some(Ok(lock)) = lock else {
        return Vec::new();
    };
    let root = setup.workspace.settings_root();
    let mut locations: Vec<&String> = lock.sources.keys().chain(lock.plugins.keys()).collect();
    locations.sort_unstable();
    locations.dedup();
    let mut missing = Vec::new();
    for location in locations {
        // A lock file from a checkout may name other files.
        if !is_in_tools(location) || root.join(location).symlink_metadata().is_ok() {
            continue;
        }
        let reason = missing_file_reason(setup, &lock, location);
        let report = |location: String| Quarantined {
            location,
            code: ToolErrorCode::FileNotFound,
            reason: reason.clone(),
        };
        missing.push(report(location.clone()));
        if let Some(name) = called.filter(|name| has_tool(&lock, location, name)) {
            missing.push(report(format!("{location} ({name})")));
        }
    }
    missing
}

/// Returns true for the location of a file in the tools folder itself. A lock file from a checkout may name others.
pub fn is_in_tools(location: &str) -> bool {
    let name = location.strip_prefix(TOOLS_PREFIX);
    name.is_some_and(|name| {
        !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\\'])
    })
}

/// Returns true if the file had a tool of this name when it was granted.
fn has_tool(lock: &ToolsLock, location: &str, name: &str) -> bool {
    let prefix = lock.prefixes.get(location).map_or("", String::as_str);
    let own_name = name.strip_prefix(prefix);
    let grant = lock.plugins.get(location);
    own_name.is_some_and(|own_name| grant.is_some_and(|grant| grant.tools.contains_key(own_name)))
}

/// The grant of a missing file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MissingFileGrant {
    /// The lock file has no grant.
    Absent,
    /// This user has given it in this workspace.
    GivenHere,
    /// It comes with the lock file, and counts where it was given.
    GivenElsewhere,
}

/// Describes a missing file that the lock file names, with the steps that a person can take.
pub fn missing_file_reason(setup: &HostSetup, lock: &ToolsLock, location: &str) -> String {
    if setup.workspace.deployment().is_some() {
        // A command on a node would change other files.
        return describe_unpublished(location);
    }
    let is_given = || setup.approvals()?.has_given_grant(location).ok();
    let grant = match lock.plugins.get(location) {
        None => MissingFileGrant::Absent,
        Some(_) if is_given() == Some(true) => MissingFileGrant::GivenHere,
        Some(_) => MissingFileGrant::GivenElsewhere,
    };
    describe(location, lock.sources.get(location), grant)
}

fn describe(location: &str, source: Option<&SourceRecord>, grant: MissingFileGrant) -> String {
    let stem = file_stem(location);
    match source {
        Some(source) if can_be_fetched(source) => {
            let then = match grant {
                MissingFileGrant::Absent => String::new(),
                MissingFileGrant::GivenHere => ", and its grant counts again".to_owned(),
                MissingFileGrant::GivenElsewhere => format!(
                    "; then `mimir tools trust {}` grants its rights, because the grant in tools.lock was not given by you in this folder",
                    visible(stem)
                ),
            };
            let reference = visible(prefix(&source.reference, MAX_REFERENCE));
            format!(
                "tools.lock names this file, but it is missing: `mimir tools vendor` fetches exactly this build again from {reference}{then}"
            )
        }
        _ => format!(
            "tools.lock names this file, but it is missing: restore it from version control or build it again; \
             `mimir tools remove {}` removes its entry",
            visible(stem)
        ),
    }
}

/// Describes a file that the lock file of a deployment names, and that was not published with it.
fn describe_unpublished(location: &str) -> String {
    format!(
        "the published tools.lock names this file, but it was not published: in the project, restore the file, or run \
         `mimir tools remove {}`; then `mimir cluster publish`",
        visible(file_stem(location))
    )
}

fn file_stem(location: &str) -> &str {
    let name = location.rsplit('/').next().unwrap_or(location);
    name.rsplit_once('.').map_or(name, |(stem, _)| stem)
}

fn can_be_fetched(source: &SourceRecord) -> bool {
    let is_package_or_url = |prefix: &&str| source.reference.starts_with(*prefix);
    source.manifest.is_some()
        || ["npm:", "https://", "http://"]
            .iter()
            .any(is_package_or_url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_files_are_those_of_the_tools_folder_only() {
        assert!(is_in_tools(".mimir/tools/weather.wasm"));
        for location in [
            "weather.wasm",
            ".mimir/tools/",
            ".mimir/tools/../x.wasm",
            ".mimir/tools/.hidden",
            ".mimir/tools/a\\b.wasm",
            "mcp:weather",
        ] {
            assert!(!is_in_tools(location), "{location}");
        }
    }

    #[test]
    fn missing_file_has_the_remedy_of_its_source() {
        let reason = |reference: &str| {
            let source = SourceRecord::new(reference, "ab");
            let location = ".mimir/tools/weather.wasm";
            describe(location, Some(&source), MissingFileGrant::GivenElsewhere)
        };
        for reference in ["npm:weather@1.0.0", "https://example.com/weather.wasm"] {
            let text = reason(reference);
            assert!(
                text.contains("mimir tools vendor")
                    && text.contains(reference)
                    && text.contains("mimir tools trust weather"),
                "{text}"
            );
        }
        let text = describe_unpublished(".mimir/tools/weather.wasm");
        assert!(
            text.contains("in the project") && text.ends_with("then `mimir cluster publish`"),
            "{text}"
        );
        let text = reason("local");
        assert!(text.contains("mimir tools remove weather"), "{text}");
    }
}
