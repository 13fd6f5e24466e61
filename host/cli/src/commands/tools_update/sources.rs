//! Choice of the components to update, and of the places where their updates come from.

use mimir_core::grants::SourceRecord;
use mimir_core::text::visible;
use mimir_core::{Quarantined, Registry, ToolError, ToolErrorCode};
use mimir_registry::OciReference;

use crate::arguments::quote_for_shell;
use crate::commands::tools_add::{is_component_of, update_request};
use crate::exit::{CommandFailure, CommandResult, ExitReason};
use crate::tools::is_file;
use mimir::setup::HostSetup;

/// An installed component with its lock entry.
pub struct PinnedComponent {
    /// Location of the file.
    pub location: String,
    /// The lock entry.
    pub source: SourceRecord,
    /// The place where updates come from.
    pub kind: UpdateSource,
}

/// A place where updates come from.
#[derive(Debug, PartialEq)]
pub enum UpdateSource {
    /// A tag of a registry.
    Registry(OciReference),
    /// The registry of npm: `NAME@RANGE`.
    Npm(String),
    /// Exact content, with the way to install another build.
    Exact(String),
}

impl UpdateSource {
    /// Returns the source of updates of a lock entry; `None` for a local file.
    fn of_record(source: &SourceRecord) -> Option<Self> {
        let shown = quote_for_shell(&visible(&source.reference));
        if let (Some(_), Ok(reference)) = (&source.manifest, source.reference.parse()) {
            let reference: OciReference = reference;
            return Some(match reference.digest() {
                None => Self::Registry(reference),
                Some(_) => Self::Exact(format!(
                    "to install another build: `mimir tools add REF --force`, where REF is {}/{} with a tag",
                    reference.registry(),
                    reference.repository()
                )),
            });
        }
        if let Some(package) = source.reference.strip_prefix("npm:") {
            if let Some(request) = update_request(source) {
                return Some(Self::Npm(request));
            }
            let name = package.rsplit_once('@').map_or(package, |(name, _)| name);
            let name = quote_for_shell(&visible(&format!("npm:{name}")));
            return Some(Self::Exact(format!(
                "to follow the newest version instead: `mimir tools add {name} --force`"
            )));
        }
        let is_url =
            source.reference.starts_with("https://") || source.reference.starts_with("http://");
        is_url.then(|| {
            Self::Exact(format!(
                "a URL is pinned by its digest; to install another build: `mimir tools add {shown} --digest SHA256 --force`, \
                 with the digest that its author publishes"
            ))
        })
    }
}

/// Returns the components of the lock file that can have updates: that of `name`, or all.
pub fn pinned_components(
    setup: &HostSetup,
    installed: &Registry,
    name: Option<&str>,
) -> CommandResult<Vec<PinnedComponent>> {
    let sources = setup.require_approvals()?.lock().read()?.sources;
    let pinned = |(location, source): (String, SourceRecord)| {
        let kind = UpdateSource::of_record(&source)?;
        Some(PinnedComponent {
            location,
            source,
            kind,
        })
    };
    let Some(name) = name else {
        let all = sources.into_iter().filter(|(it, _)| is_component_of(it));
        return Ok(all.filter_map(pinned).collect());
    };
    let is_named = |location: &str| {
        let of_tool = installed.get(name).map(|tool| &tool.origin.location);
        is_file(location, name) || of_tool.is_some_and(|of_tool| of_tool == location)
    };
    let mut sources = sources.into_iter();
    let found = sources.find(|(location, _)| is_named(location));
    if let Some((location, _)) = &found
        && !is_component_of(location)
    {
        return Err(CommandFailure::usage(format!(
            "{} is not a component in .mimir/tools",
            visible(location)
        )));
    }
    let Some(component) = found.and_then(pinned) else {
        let is_missing = |left_out: &Quarantined| left_out.code == ToolErrorCode::FileNotFound;
        // It may be the name of a tool in a file that is missing.
        if let Err(error) = installed.find(name)
            && installed.quarantined().iter().any(is_missing)
        {
            return Err(CommandFailure::with_exit(error, ExitReason::Usage));
        }
        let name = visible(name);
        let message = format!(
            "`{name}` did not come from a registry, a package or a URL: tools.lock has no such source of it"
        );
        return Err(ToolError::not_found(message).into());
    };
    if let UpdateSource::Exact(remedy) = &component.kind {
        let message = format!(
            "{} came from {}, which names exact content and has no updates",
            visible(&component.location),
            visible(&component.source.reference)
        );
        let error = ToolError::invalid_input(message);
        return Err(error.with_remedies([remedy.clone()]).into());
    }
    Ok(vec![component])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn update_sources_are_tags_and_packages() {
        let record = |reference: &str, manifest: Option<&str>| {
            let mut source = SourceRecord::new(reference, "ab");
            source.manifest = manifest.map(str::to_owned);
            UpdateSource::of_record(&source)
        };
        let digest = format!("sha256:{}", "0".repeat(64));
        let tag = "registry.example.com/acme/weather:1";
        assert_eq!(
            record(tag, Some(&digest)),
            Some(UpdateSource::Registry(tag.parse().unwrap()))
        );
        assert_eq!(
            record("npm:weather@1.0.0", None),
            Some(UpdateSource::Npm("weather@latest".to_owned()))
        );
        for (reference, manifest, remedy) in [
            (
                format!("registry.example.com/acme/weather@{digest}"),
                Some(digest.as_str()),
                "registry.example.com/acme/weather with a tag",
            ),
            (
                "https://example.com/weather.wasm".to_owned(),
                None,
                "`mimir tools add https://example.com/weather.wasm --digest SHA256 --force`",
            ),
        ] {
            let Some(UpdateSource::Exact(found)) = record(&reference, manifest) else {
                panic!("{reference}");
            };
            assert!(found.contains(remedy), "{found}");
        }
        assert_eq!(record("local", None), None);
    }
}
