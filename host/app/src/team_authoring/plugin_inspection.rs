//! Facts about a component for its reviewer, read from its bytes.

use std::sync::Arc;

use mimir_core::grants::{self, Grant};
use mimir_core::needs::{NeedKind, Needs};
use mimir_core::text::visible;
use mimir_core::{Tool, ToolError, ToolErrorCode};
use mimir_registry::OciDigest;
use mimir_registry::team::MAX_BLOB_SIZE;

use crate::file_error::file_error;
use crate::setup::HostSetup;

use super::authoring_folder::check_file_name;

/// A component, and the tools that it has when it is loaded without others.
#[derive(Debug, Clone)]
pub struct InspectedPlugin {
    /// Name of the file.
    pub file: String,
    /// The component.
    pub bytes: Vec<u8>,
    /// Digest of the component.
    pub digest: OciDigest,
    /// Its tools.
    pub tools: Vec<Arc<Tool>>,
    /// Reasons of the host to leave out some of its tools, one line each.
    pub left_out: Vec<String>,
}

impl InspectedPlugin {
    /// Loads a component as a member would, and compares the description in its file with its own answer. Compiles it,
    /// if it is not in the cache. `named` are rights that a person names for a component that cannot declare its needs.
    ///
    /// # Errors
    ///
    /// Fails if the component cannot be loaded, has no tools, or answers with other tools than its file describes.
    pub async fn inspect(
        setup: &HostSetup,
        file: &str,
        bytes: Vec<u8>,
        named: &Needs,
    ) -> Result<Self, ToolError> {
        check_file_name(file)?;
        let size = bytes.len() as u64;
        if size == 0 || size > MAX_BLOB_SIZE {
            return Err(ToolError::limit_exceeded(format!(
                "{file} has {size} bytes: a bundle can have components of 1 to {MAX_BLOB_SIZE} bytes"
            )));
        }
        // A file of this process only, so that the inspected bytes are those of the digest.
        let temporary = std::env::temp_dir();
        let folder = tempfile::Builder::new()
            .prefix("mimir-review-")
            .tempdir()
            .map_err(|error| file_error("create a folder in", &temporary, &error))?;
        let path = folder.path().join(file);
        std::fs::write(&path, &bytes).map_err(|error| file_error("write", &path, &error))?;
        let toolbox = setup.toolbox_in(setup.host(), None);
        let mut loaded = toolbox.load_component(&path, file).await;
        if let Some(fault) = loaded
            .quarantined
            .iter()
            .find(|left_out| left_out.location == file)
        {
            let message = format!("{file} cannot be loaded: {}", visible(&fault.reason));
            return Err(ToolError::new(fault.code, message));
        }
        if loaded.tools.is_empty() {
            let message = format!("{file} has no tools");
            return Err(ToolError::new(ToolErrorCode::InvalidInput, message));
        }
        toolbox.verify_description(file).await?;
        let digest = OciDigest::of_bytes(&bytes);
        if let Some(tool) = loaded
            .tools
            .iter_mut()
            .find(|tool| tool.origin.digest != digest.hex())
        {
            let message = format!(
                "{file} changed while it was read: sha256 {} instead of {digest}",
                tool.origin.digest
            );
            return Err(ToolError::new(ToolErrorCode::ExecutionError, message));
        }
        for tool in loaded
            .tools
            .iter_mut()
            .filter(|tool| grants::is_foreign(tool))
        {
            tool.definition.needs = grants::retain_importable(tool, named.clone());
        }
        let left_out = loaded.quarantined.iter();
        let left_out = left_out
            .map(|left_out| visible(&format!("{}: {}", left_out.location, left_out.reason)));
        Ok(Self {
            file: file.to_owned(),
            digest,
            left_out: left_out.collect(),
            tools: loaded.tools.into_iter().map(Arc::new).collect(),
            bytes,
        })
    }

    /// Returns the grant of the rights that the tools request, without the withheld kinds.
    ///
    /// # Errors
    ///
    /// Fails if there are no tools, which [`Self::inspect`] rules out.
    pub fn grant(&self, named: &Needs, without: &[NeedKind]) -> Result<Grant, ToolError> {
        let mut without = without.to_vec();
        without.sort();
        without.dedup();
        let named = match self.tools.first() {
            Some(tool) if grants::is_foreign(tool) => {
                grants::retain_importable(tool, named.clone())
            }
            _ => Needs::default(),
        };
        let grant = Grant::new(&self.tools, without)
            .ok_or_else(|| ToolError::invalid_input(format!("{} has no tools", self.file)))?;
        Ok(grant.with_named(named))
    }

    /// Returns an error if a grant gives a tool more than it requests, or is for another build.
    pub fn check_grant(&self, grant: &Grant) -> Result<(), ToolError> {
        let fault = |text: &str| {
            let message = format!("the grant of {} {text}", self.file);
            ToolError::new(ToolErrorCode::PermissionDenied, message)
        };
        if grant.digest != self.digest.hex() {
            return Err(fault("is for another build; review this one"));
        }
        let expected = self.grant(&grant.named(), &grant.withheld)?;
        if expected.tools != grant.tools || expected.imports != grant.imports {
            return Err(fault(
                "differs from what the component requests; review it again",
            ));
        }
        if expected.named() != grant.named() {
            return Err(fault(
                "names rights that the component has no import for; review it again",
            ));
        }
        Ok(())
    }
}
