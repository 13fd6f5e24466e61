//! Names and versions of interfaces, and the interfaces that this host provides.

use std::collections::HashSet;
use std::fmt;

use serde::{Deserialize, Serialize};
use wasmparser::component_types::{ComponentAnyTypeId, ComponentEntityType, ResourceId};

use super::error::shown;
use super::{CONTRACT, ComponentSurface, FamilyError};

/// The package of the contract.
pub(super) const MIMIR: &str = "mimir:tool";

/// The interfaces of the contract that a plugin may import.
const MIMIR_IMPORTS: &[&str] = &[
    "types", "log", "progress", "commands", "tools", "model", "storage",
];

/// The linked interfaces of WASI 0.2. Without a grant, their functions return errors.
const WASI_IMPORTS: &[(&str, &[&str])] = &[
    (
        "wasi:cli",
        &[
            "environment",
            "exit",
            "stdin",
            "stdout",
            "stderr",
            "terminal-input",
            "terminal-output",
            "terminal-stdin",
            "terminal-stdout",
            "terminal-stderr",
        ],
    ),
    ("wasi:clocks", &["monotonic-clock", "wall-clock"]),
    ("wasi:filesystem", &["types", "preopens"]),
    ("wasi:http", &["types", "outgoing-handler"]),
    ("wasi:io", &["error", "poll", "streams"]),
    ("wasi:random", &["random", "insecure", "insecure-seed"]),
    (
        "wasi:sockets",
        &[
            "network",
            "instance-network",
            "ip-name-lookup",
            "tcp",
            "tcp-create-socket",
            "udp",
            "udp-create-socket",
        ],
    ),
];

/// The linked interfaces of WASI 0.3, under the same restrictions.
const WASI_03_IMPORTS: &[(&str, &[&str])] = &[
    (
        "wasi:cli",
        &[
            "environment",
            "exit",
            "stdin",
            "stdout",
            "stderr",
            "terminal-input",
            "terminal-output",
            "terminal-stdin",
            "terminal-stdout",
            "terminal-stderr",
        ],
    ),
    ("wasi:clocks", &["monotonic-clock", "system-clock"]),
    ("wasi:filesystem", &["types", "preopens"]),
    ("wasi:http", &["types", "client"]),
    ("wasi:random", &["random", "insecure", "insecure-seed"]),
    ("wasi:sockets", &["types", "ip-name-lookup"]),
];

/// The linked versions of `wasi:config/store` and its former name. As pre-releases they count as different interfaces,
/// although they are identical.
pub(crate) const CONFIG_STORES: [&str; 4] = [
    "wasi:config/runtime@0.2.0-draft",
    "wasi:config/store@0.2.0-draft",
    "wasi:config/store@0.2.0-rc.1",
    "wasi:config/store@0.2.0",
];

/// The linked names of `wasi:logging/logging`.
pub(crate) const LOGGING: [&str; 2] = ["wasi:logging/logging", "wasi:logging/logging@0.1.0-draft"];

/// The linked drafts of `wasi:keyvalue`, which differ in some types.
const KEYVALUE: [&str; 6] = [
    "wasi:keyvalue/atomics@0.2.0-draft",
    "wasi:keyvalue/atomics@0.2.0-draft2",
    "wasi:keyvalue/batch@0.2.0-draft",
    "wasi:keyvalue/batch@0.2.0-draft2",
    "wasi:keyvalue/store@0.2.0-draft",
    "wasi:keyvalue/store@0.2.0-draft2",
];

/// A version of an interface, without pre-release or build identifiers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct InterfaceVersion {
    /// Major version: changes with breaking changes.
    pub major: u64,
    /// Minor version: changes with additions.
    pub minor: u64,
    /// Patch version: changes with corrections.
    pub patch: u64,
}

impl InterfaceVersion {
    /// Parses `1.2.3`; omitted parts are 0. Returns `None` for a pre-release, which promises no compatibility.
    fn parse(text: &str) -> Option<Self> {
        let plain = text.split_once('+').map_or(text, |(plain, _)| plain);
        let mut parts = plain.split('.').map(|part| part.parse::<u64>().ok());
        let major = parts.next()??;
        let minor = parts.next().unwrap_or(Some(0))?;
        let patch = parts.next().unwrap_or(Some(0))?;
        parts.next().is_none().then_some(Self {
            major,
            minor,
            patch,
        })
    }
}

impl fmt::Display for InterfaceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// The parts of `namespace:package/interface@version`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InterfaceName<'a> {
    /// `namespace:package`.
    pub package: &'a str,
    /// The name of the interface.
    pub name: &'a str,
    version: Option<&'a str>,
}

impl<'a> InterfaceName<'a> {
    /// Parses a qualified name; `None` for a plain one.
    pub fn parse(text: &'a str) -> Option<Self> {
        let (path, version) = match text.split_once('@') {
            Some((path, version)) => (path, Some(version)),
            None => (text, None),
        };
        let (package, name) = path.split_once('/')?;
        package.contains(':').then_some(Self {
            package,
            name,
            version,
        })
    }

    /// Returns true if this is `package/name` in any version.
    pub fn matches(&self, package: &str, name: &str) -> bool {
        self.package == package && self.name == name
    }

    /// Returns true if the version is one of WASI 0.2. All of them can be linked to the host's version.
    pub fn is_wasi_02(&self) -> bool {
        self.version
            .and_then(InterfaceVersion::parse)
            .is_some_and(|version| (version.major, version.minor) == (0, 2))
    }

    /// Returns true if the version is one of WASI 0.3. All of them can be linked to the host's version.
    pub fn is_wasi_03(&self) -> bool {
        self.package.starts_with("wasi:")
            && self
                .version
                .and_then(InterfaceVersion::parse)
                .is_some_and(|version| (version.major, version.minor) == (0, 3))
    }

    /// Returns true if this is an interface of ironclaw's world, in a version that can be linked to the host's.
    pub fn is_agent(&self, name: &str) -> bool {
        let version = self.version.and_then(InterfaceVersion::parse);
        self.matches("near:agent", name)
            && version.is_some_and(|version| (version.major, version.minor) == (0, 4))
    }

    /// Returns true if this host links some version of the interface.
    fn is_known_wasi(&self) -> bool {
        self.is_listed(WASI_IMPORTS) || self.is_listed(WASI_03_IMPORTS)
    }

    /// Returns true if this host links this version of the interface.
    fn is_linked(&self) -> bool {
        (self.is_wasi_02() && self.is_listed(WASI_IMPORTS))
            || (self.is_wasi_03() && self.is_listed(WASI_03_IMPORTS))
    }

    fn is_listed(&self, list: &[(&str, &[&str])]) -> bool {
        list.iter()
            .any(|(package, names)| *package == self.package && names.contains(&self.name))
    }
}

impl fmt::Display for InterfaceName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.package, self.name)?;
        match self.version {
            Some(version) => write!(f, "@{}", shown(version)),
            None => Ok(()),
        }
    }
}

/// Returns the version of a contract interface. Fails if this host does not offer the version.
pub(super) fn check_contract(
    interface: &InterfaceName<'_>,
) -> Result<InterfaceVersion, FamilyError> {
    let shown_name = || shown(&interface.to_string());
    match interface.version.and_then(InterfaceVersion::parse) {
        Some(version) if version.major != CONTRACT.major => Err(FamilyError::ContractUnknown {
            found: shown_name(),
        }),
        Some(version) if version.minor > CONTRACT.minor => Err(FamilyError::ContractNewer {
            found: shown_name(),
        }),
        Some(version) => Ok(version),
        None => Err(FamilyError::ContractUnknown {
            found: shown_name(),
        }),
    }
}

/// Returns the names of imports that give a capability. Fails if this host does not provide all of them.
pub(super) fn check_imports(surface: &ComponentSurface) -> Result<Vec<String>, FamilyError> {
    let mut imports = Vec::new();
    let mut missing = Vec::new();
    let mut resources = ImportedResources::new();
    for (name, ty) in surface.imports() {
        if only_names_types(surface, ty, &resources) {
            continue;
        }
        collect_resources(surface, ty, &mut resources);
        match InterfaceName::parse(name) {
            Some(interface) if interface.package == MIMIR => {
                check_contract(&interface)?;
                if MIMIR_IMPORTS.contains(&interface.name) {
                    imports.push(name.to_owned());
                } else {
                    missing.push(shown(name));
                }
            }
            Some(interface) if interface.is_known_wasi() => {
                if !interface.is_linked() {
                    return Err(FamilyError::Wasi { found: shown(name) });
                }
                imports.push(name.to_owned());
            }
            Some(interface) if interface.is_agent("host") => imports.push(name.to_owned()),
            _ if is_linked_draft(name) => imports.push(name.to_owned()),
            _ => missing.push(shown(name)),
        }
    }
    if missing.is_empty() {
        Ok(imports)
    } else {
        Err(FamilyError::Imports { missing })
    }
}

/// Returns true if this is an interface without a final version that this host provides.
fn is_linked_draft(name: &str) -> bool {
    CONFIG_STORES.contains(&name) || LOGGING.contains(&name) || KEYVALUE.contains(&name)
}

/// Returns true if one of these imports is of WASI 0.3, which wasmtime calls experimental.
pub fn uses_wasi_03(imports: &[String]) -> bool {
    let mut names = imports.iter().filter_map(|name| InterfaceName::parse(name));
    names.any(|name| name.is_wasi_03())
}

/// Resources of earlier imports.
type ImportedResources = HashSet<ResourceId>;

/// Returns true if an import only names types, including resources of earlier imports. Such an import needs no
/// implementation and gives no capability.
fn only_names_types(
    surface: &ComponentSurface,
    ty: ComponentEntityType,
    known: &ImportedResources,
) -> bool {
    let names_type = |ty| match ty {
        ComponentEntityType::Type { created, .. } => match created {
            ComponentAnyTypeId::Resource(id) => known.contains(&id.resource()),
            ComponentAnyTypeId::Defined(_) | ComponentAnyTypeId::Func(_) => true,
            ComponentAnyTypeId::Instance(_) | ComponentAnyTypeId::Component(_) => false,
        },
        _ => false,
    };
    match ty {
        ComponentEntityType::Instance(id) => surface
            .types()
            .get(id)
            .is_some_and(|instance| instance.exports.values().all(|item| names_type(item.ty))),
        ty => names_type(ty),
    }
}

/// Records the resources that an imported interface names.
fn collect_resources(
    surface: &ComponentSurface,
    ty: ComponentEntityType,
    known: &mut ImportedResources,
) {
    let ComponentEntityType::Instance(id) = ty else {
        return;
    };
    let items = surface
        .types()
        .get(id)
        .into_iter()
        .flat_map(|instance| instance.exports.values());
    known.extend(items.filter_map(|item| match item.ty {
        ComponentEntityType::Type {
            created: ComponentAnyTypeId::Resource(id),
            ..
        } => Some(id.resource()),
        _ => None,
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_is_parsed() {
        let v = |major, minor, patch| {
            Some(InterfaceVersion {
                major,
                minor,
                patch,
            })
        };
        assert_eq!(InterfaceVersion::parse("1.2.3"), v(1, 2, 3));
        assert_eq!(InterfaceVersion::parse("0.2"), v(0, 2, 0));
        assert_eq!(InterfaceVersion::parse("1.0.0+build"), v(1, 0, 0));
        for bad in [
            "",
            "1.0.0-rc.1",
            "a",
            "1..2",
            "1.2.3.4",
            "99999999999999999999",
        ] {
            assert_eq!(InterfaceVersion::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn interface_name_is_parsed() {
        let interface = InterfaceName::parse("wasi:io/streams@0.2.6").unwrap();
        assert!(
            interface.matches("wasi:io", "streams")
                && interface.is_wasi_02()
                && interface.is_known_wasi()
        );
        assert!(
            !InterfaceName::parse("wasi:io/streams@0.3.0")
                .unwrap()
                .is_wasi_02()
        );
        assert!(
            !InterfaceName::parse("wasi:io/streams")
                .unwrap()
                .is_wasi_02()
        );
        assert_eq!(InterfaceName::parse("streams"), None);
        assert_eq!(InterfaceName::parse("url=a/b"), None);
    }
}
