//! The text of a tool, for the person who is about to trust it.

use mimir_core::Tool;
use mimir_core::files::{LinkPolicy, read_text};
use mimir_core::redact::Redactor;
use mimir_core::tool::ToolSource;
use mimir_wasm::Sha256Digest;

use super::workspace::LoadedWorkspace;

/// Maximum size of a shown text in bytes.
const SIZE_MAX: u64 = 512 << 10;

/// Returns the text of a tool's file, with secrets masked. `None` if the file is not text, is too large, is not below the
/// workspace, or is not the version that was loaded.
pub fn source_text(
    workspace: &LoadedWorkspace,
    tool: &Tool,
    redactor: &Redactor,
) -> Option<String> {
    if tool.source != ToolSource::Custom {
        return None;
    }
    let root = workspace.setup.workspace.settings_root();
    let path = root.join(&tool.origin.location);
    let mut text = read_text(&path, LinkPolicy::Follow, SIZE_MAX).ok()?;
    if Sha256Digest::of_bytes(text.as_bytes()).to_string() != tool.origin.digest {
        return None;
    }
    redactor.mask_text(&mut text);
    Some(text)
}
