//! Rights that a person grants by name to a component that was not written for mimir and cannot declare its needs:
//! hosts, folders, variables, settings, and a prefix for the names of its tools.

use std::sync::Arc;

use super::ToolsLock;
use crate::error::ToolErrorCode;
use crate::needs::{DirectoryAccess, FileNeed, HostNeed, NeedKind, Needs};
use crate::network::HostPattern;
use crate::registry::Quarantined;
use crate::tool::{Tool, ToolName, ToolSource};

/// HTTP methods that a component without declared needs may use for its hosts.
const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/// Creates the need for a host that a person names for a component, with all methods.
pub fn named_host(host: &HostPattern) -> HostNeed {
    HostNeed {
        host: host.to_string(),
        methods: METHODS.map(str::to_owned).to_vec(),
        reason: "named by a person".to_owned(),
    }
}

/// Creates the need for a folder that a person names for a component.
pub fn named_folder(path: &str, access: DirectoryAccess) -> FileNeed {
    FileNeed {
        path: path.to_owned(),
        access,
        reason: "named by a person".to_owned(),
    }
}

/// Returns true if the tool belongs to a component that was not written for mimir and cannot declare its needs. A
/// person grants rights to it by name.
pub fn is_foreign(tool: &Tool) -> bool {
    !tool.origin.declares_needs && matches!(tool.source, ToolSource::Custom | ToolSource::Teams)
}

/// Returns true if hosts can be named for a tool: it can send requests, but cannot declare hosts.
pub fn takes_hosts(tool: &Tool) -> bool {
    let interfaces = [
        "wasi:http/outgoing-handler",
        "wasi:http/client",
        "near:agent/host",
    ];
    interfaces
        .iter()
        .any(|interface| is_foreign_with(tool, interface))
}

/// Returns true if folders can be named for a tool: it can open files, but cannot declare folders.
pub fn takes_files(tool: &Tool) -> bool {
    let interfaces = ["wasi:filesystem/", "near:agent/host"];
    interfaces
        .iter()
        .any(|interface| is_foreign_with(tool, interface))
}

/// Returns true if variables can be named for a tool: it can read variables, but cannot declare them.
pub fn takes_variables(tool: &Tool) -> bool {
    is_foreign_with(tool, "wasi:cli/environment")
}

/// Returns true if settings can be named for a tool: it can read settings, but cannot declare them.
pub fn takes_config(tool: &Tool) -> bool {
    is_foreign_with(tool, "wasi:config/")
}

fn is_foreign_with(tool: &Tool, interface: &str) -> bool {
    let mut imports = tool.origin.imports.iter();
    is_foreign(tool) && imports.any(|import| import.starts_with(interface))
}

/// Returns true if folders can be named for a tool, but `rights` include none.
pub fn lacks_files(tool: &Tool, rights: &Needs) -> bool {
    takes_files(tool) && rights.files.is_empty()
}

/// Returns the remedy for a tool without granted folders.
pub fn files_remedy(tool: &Tool) -> String {
    let name = tool.name();
    format!(
        "`{name}` was granted no files; `mimir tools trust {} --read DIR` (or `--write DIR`) grants it a folder",
        tool.trust_argument()
    )
}

/// Removes the named rights that the tool has no import for.
pub fn retain_importable(tool: &Tool, mut named: Needs) -> Needs {
    let sends_requests = takes_hosts(tool);
    for (is_supported, kind) in [
        (sends_requests, NeedKind::Hosts),
        (sends_requests, NeedKind::Secrets),
        (takes_files(tool), NeedKind::Files),
    ] {
        if !is_supported {
            named.clear(kind);
        }
    }
    if !takes_variables(tool) {
        named.environment.clear();
    }
    if !takes_config(tool) {
        named.config.clear();
    }
    named
}

/// Adds the prefixes of the lock file to the tool names of components. A tool whose name becomes invalid is moved to
/// `quarantined`.
pub fn apply_prefixes(lock: &ToolsLock, tools: &mut Vec<Tool>, quarantined: &mut Vec<Quarantined>) {
    tools.retain_mut(|tool| {
        let Some(prefix) = lock.prefixes.get(&tool.origin.location) else {
            return true;
        };
        if tool.source != ToolSource::Custom {
            return true;
        }
        match ToolName::new(&format!("{prefix}{}", tool.own_name())) {
            Ok(name) => {
                tool.definition.name = name;
                Arc::make_mut(&mut tool.origin).prefix.clone_from(prefix);
                true
            }
            Err(error) => {
                let location = &tool.origin.location;
                quarantined.push(Quarantined {
                    location: format!("{location} ({})", tool.name()),
                    code: ToolErrorCode::InvalidInput,
                    reason: format!(
                        "the prefix `{}` does not fit: {error}; `mimir tools trust {location} --prefix PREFIX` sets another",
                        crate::text::visible(prefix)
                    ),
                });
                false
            }
        }
    });
}
