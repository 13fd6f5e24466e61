//! The manifest section of plugins: written when a plugin is built, read when tools are listed, and compared with the
//! component's own answer when a person is about to trust it.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use mimir_core::{Needs, ToolErrorCode};

use super::plugin_manifest::PluginManifest;
use super::{ComponentKind, DescribedToolset, query_manifest};
use crate::compile;
use crate::componentize::manifest_section::{self, SECTION};
use crate::componentize::seal;
use crate::digest::Sha256Digest;
use crate::error::WasmHostError;
use crate::family::{self, ComponentFamily};
use crate::host::WasmHost;
use crate::plugin::ComponentBytes;

/// Displayed location of a component that is in no file yet.
const BUILT: &str = "the built component";

/// Finishes the component of a plugin that was just built: [seals](seal) the imports that no need of its tools asks for,
/// and adds the description of its tools as a section, with which `tools list` compiles nothing. The component is compiled
/// and asked for the description; its compiled code is cached for the result.
///
/// # Errors
///
/// A file that is not a component of a known kind, or a plugin whose description is not valid. A component that does not
/// export `mimir:tool/toolset` is returned as it is.
pub async fn finish_plugin(
    host: &Arc<WasmHost>,
    component: &[u8],
) -> Result<Vec<u8>, WasmHostError> {
    if !is_toolset(component)? {
        return Ok(component.to_vec());
    }
    let open = manifest_section::without_manifest(component).map_err(invalid)?;
    let seal_for = |needs: &[&Needs]| {
        seal(&open, needs.iter().copied()).unwrap_or_else(|error| {
            tracing::warn!(%error, "the plugin imports files and sockets, whatever it needs");
            open.clone()
        })
    };
    // Few plugins need files, and compiling may take seconds: the component is asked for its needs without them.
    let mut sealed = seal_for(&[]);
    let mut manifest = match query(host, &sealed).await {
        // It may use a file or a socket before it describes itself.
        Err(_) if sealed != open => {
            sealed.clone_from(&open);
            query(host, &open).await?
        }
        manifest => manifest?,
    };
    DescribedToolset::new(manifest.clone())?;
    let needs: Vec<&Needs> = manifest.tools.iter().map(|tool| &tool.needs).collect();
    let needed = seal_for(&needs);
    if needed != sealed && sealed != open {
        sealed = needed;
        manifest = query(host, &sealed).await?;
    }
    let content = serde_json::to_vec(&manifest).map_err(invalid)?;
    let plain = Sha256Digest::of_bytes(&sealed);
    manifest_section::append(&mut sealed, &content).map_err(invalid)?;
    // A custom section does not change the code.
    let described = Sha256Digest::of_bytes(&sealed);
    let mode = family::detect(&sealed).map_err(invalid)?.mode;
    let engine = &host.running(mode)?.engine;
    compile::copy_cached(engine, host.cache(), &plain, &described);
    Ok(sealed)
}

fn is_toolset(component: &[u8]) -> Result<bool, WasmHostError> {
    let detected = family::detect(component).map_err(invalid)?;
    Ok(matches!(detected.family, ComponentFamily::Toolset { .. }))
}

/// Returns the error for a component that cannot be used.
fn invalid(error: impl fmt::Display) -> WasmHostError {
    WasmHostError::Component(error.to_string(), ToolErrorCode::InvalidInput)
}

/// Returns the description that a component gives itself.
async fn query(host: &Arc<WasmHost>, component: &[u8]) -> Result<PluginManifest, WasmHostError> {
    let detected = family::detect(component).map_err(invalid)?;
    let ComponentFamily::Toolset { assessor, .. } = detected.family else {
        let reason = "it does not export `mimir:tool/toolset`, so it has no description";
        return Err(invalid(reason));
    };
    let kind = ComponentKind::Toolset { assessor };
    let digest = Sha256Digest::of_bytes(component);
    let bytes = ComponentBytes::Memory(Bytes::copy_from_slice(component));
    query_manifest(host, &bytes, BUILT, digest, (kind, detected.mode)).await
}

/// Returns the validated content of a component's manifest section; `None` without a section, or the reason why it cannot
/// be used.
pub(super) fn listed_toolset(component: &[u8]) -> Result<Option<DescribedToolset>, String> {
    let section = manifest_section::read(component).map_err(|error| error.to_string())?;
    let Some(section) = section else {
        return Ok(None);
    };
    let unusable =
        |error: &dyn fmt::Display| format!("the section `{SECTION}` is not valid: {error}");
    let manifest = PluginManifest::parse(section).map_err(|error| unusable(&error))?;
    let toolset = DescribedToolset::new(manifest).map_err(|error| unusable(&error))?;
    Ok(Some(toolset))
}

/// Compares the manifest section of a component with the component's own answer. Without a section, there is nothing to
/// compare.
pub(crate) async fn verify_manifest(
    host: &Arc<WasmHost>,
    component: &[u8],
) -> Result<(), WasmHostError> {
    let section = manifest_section::read(component).ok().flatten();
    // A section that cannot be read was not listed.
    let Some(listed) = section.and_then(|section| PluginManifest::parse(section).ok()) else {
        return Ok(());
    };
    let own = query(host, component).await?;
    if own == listed {
        return Ok(());
    }
    let differs = listed
        .tools
        .iter()
        .find(|tool| !own.tools.contains(tool))
        .or_else(|| own.tools.iter().find(|tool| !listed.tools.contains(tool)));
    let subject = differs.map_or_else(
        || "its name or version".to_owned(),
        |tool| format!("the tool `{}`", family::shown(&tool.name)),
    );
    Err(WasmHostError::Manifest(
        format!(
            "the description in the file (section `{SECTION}`) differs from what the component itself answers about {subject}: build it again with `mimir tools build`, or remove it"
        ),
        ToolErrorCode::InvalidInput,
    ))
}

#[cfg(test)]
mod tests;
