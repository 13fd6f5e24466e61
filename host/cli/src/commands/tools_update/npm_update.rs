//! Updates of components that came from a package of npm.

use std::sync::Arc;

use mimir_core::Tool;

use super::offer::{check_version, file_stem, offer};
use super::{PinnedComponent, UpdateReport};
use crate::args::ToolsUpdateArgs;
use crate::commands::tools_add::{NpmPackage, refuse_unloadable};
use crate::exit::CommandResult;
use mimir::setup::HostSetup;

/// Updates one component, if the registry of npm has another version of the range that was asked for. Fills the report.
pub async fn update(
    setup: &HostSetup,
    component: &PinnedComponent,
    request: &str,
    old: &[Arc<Tool>],
    args: &ToolsUpdateArgs,
    report: &mut UpdateReport,
) -> CommandResult<()> {
    let PinnedComponent {
        location, source, ..
    } = component;
    let package = NpmPackage::download(setup, request).await?;
    // The content of a version never changes.
    if source.version.as_deref() == Some(package.version()) {
        return Ok(());
    }
    // Before the new build is loaded to be compared.
    refuse_unloadable(setup, false)?;
    report.to_version = Some(package.version().to_owned());
    check_version(source, Some(package.version().to_owned()), args, report)?;
    let mut fetched = package.read_component(setup).await?;
    fetched.file_stem = file_stem(location)?;
    offer(setup, &fetched, location, old, args, report).await
}
