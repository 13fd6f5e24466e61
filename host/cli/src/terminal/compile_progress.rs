//! Shows a progress line if the compilation of a component takes noticeably long.

use std::collections::HashMap;
use std::io::IsTerminal;
use std::sync::Arc;

use mimir_core::text::{bytes as size, visible};
use mimir_wasm::CompileEvent;
use parking_lot::Mutex;

use crate::output::progress::ProgressLine;

/// Returns a handler of compile events that shows a progress line; `None` if stderr is not a terminal.
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
                let message = format!("compiling {shown} ({size}), needed only once");
                lines.insert(name, ProgressLine::spinner(message));
            }
            CompileEvent::Finished { name, .. } => drop(lines.remove(&name)),
        }
    }))
}
