//! What a plugin asks for, as the person reads it who grants it.

use std::sync::Arc;

use mimir_core::Tool;
use mimir_core::needs::NeedKind;
use mimir_core::text::visible;
use mimir_wasm::family::proofs;

use super::{FAINT, STRONG, WARN, note, styled};

/// Shows the plugin that has these tools, on stderr: a question follows.
pub fn show(plugin: &[Arc<Tool>], without: &[NeedKind]) {
    let Some(first) = plugin.first() else { return };
    let origin = &first.origin;
    note(format_args!(
        "{} {} ({})",
        styled(STRONG, visible(&origin.plugin)),
        visible(&origin.version),
        visible(&origin.location)
    ));
    note(styled(FAINT, format_args!("sha256 {}", origin.digest)));
    match first.changes.as_deref() {
        None => {}
        Some([]) => note("It was rebuilt since it was granted, and asks for the same as before."),
        Some(changes) => {
            note(styled(WARN, "It has changed since it was granted:"));
            changes
                .iter()
                .for_each(|line| note(format_args!("  - {}", visible(line))));
        }
    }
    for tool in plugin {
        let mut needs = tool.definition.needs.clone();
        without.iter().for_each(|kind| needs.clear(*kind));
        note(format_args!("`{}` may", tool.name()));
        let lines = needs.lines();
        if lines.is_empty() {
            note(styled(FAINT, "  nothing beyond computing"));
        }
        lines
            .iter()
            .for_each(|line| note(format_args!("  - {}", visible(line))));
    }
    let proofs = proofs(&origin.imports);
    if !proofs.is_empty() {
        note("Its imports prove that it");
        proofs
            .iter()
            .for_each(|proof| note(format_args!("  - {proof}")));
    }
}
