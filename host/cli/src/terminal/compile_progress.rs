//! Shows a progress line while a component is compiled, once that takes noticeably long.

use std::collections::HashMap;
use std::io::IsTerminal;
use std::sync::Arc;

use mimir_core::text::{bytes as size, visible};
use mimir_wasm::CompileEvent;
use parking_lot::Mutex;

use crate::output::progress::ProgressLine;

/// Handler of compile events. On a terminal it shows a progress line; elsewhere it prints nothing.
pub fn show_compiling() -> Option<Arc<dyn Fn(CompileEvent) + Send + Sync>> {
    if !std::io::stderr().is_terminal() {
        return None;
    }
    let lines: Mutex<HashMap<String, Option<ProgressLine>>> = Mutex::default();
    Some(Arc::new(move |event| {
        let mut lines = lines.lock();
        match event {
            CompileEvent::Started { name, bytes } => {
                let (shown, size) = (visible(&name), size(bytes));
                let message = format!("compiling {shown} ({size}); this is done once");
                lines.insert(name, ProgressLine::spinner(message));
            }
            CompileEvent::Finished { name, .. } => drop(lines.remove(&name)),
        }
    }))
}
