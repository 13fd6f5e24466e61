//! Shows that something is being compiled, once it takes long enough to wonder.

use std::collections::HashMap;
use std::io::IsTerminal;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use mimir_wasm::CompileEvent;

use crate::output::aside::is_held;

/// Shorter waits need no explanation.
const PATIENCE: Duration = Duration::from_millis(500);

/// How often the sign of life moves.
const TICK: Duration = Duration::from_millis(100);

/// Hears what is compiled. On a terminal it shows a line while it lasts; elsewhere it is silent.
pub fn show_compiling() -> Option<Arc<dyn Fn(CompileEvent) + Send + Sync>> {
    if !std::io::stderr().is_terminal() {
        return None;
    }
    let bars: Arc<Mutex<HashMap<String, Option<ProgressBar>>>> = Arc::default();
    Some(Arc::new(move |event| match event {
        CompileEvent::Started { name, bytes } => {
            lock(&bars).insert(name.clone(), None);
            let bars = Arc::clone(&bars);
            // Without it there is no line, and nothing else is missing.
            let _ = std::thread::Builder::new().spawn(move || {
                std::thread::sleep(PATIENCE);
                if is_held() {
                    return;
                }
                if let Some(slot) = lock(&bars).get_mut(&name) {
                    *slot = Some(bar(&name, bytes));
                }
            });
        }
        CompileEvent::Finished { name, .. } => {
            if let Some(Some(bar)) = lock(&bars).remove(&name) {
                bar.finish_and_clear();
            }
        }
    }))
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn bar(name: &str, bytes: u64) -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
        bar.set_style(style);
    }
    let name = mimir_core::text::visible(name);
    let size = mimir_core::text::bytes(bytes);
    bar.set_message(format!("compiling {name} ({size}); this is done once"));
    bar.enable_steady_tick(TICK);
    bar
}
