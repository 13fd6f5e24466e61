//! Shows a bar while a component is compiled, once that takes noticeably long.

use std::collections::HashMap;
use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Duration;

use mimir_core::text::{prefix, visible};
use mimir_wasm::CompileEvent;
use parking_lot::Mutex;

use crate::output::progress::ProgressLine;

/// Bytes of a component that one core compiles in a second.
const BYTES_PER_CORE_SECOND: u64 = 400_000;

/// Most cores that share the work.
const MAX_CORES: u64 = 8;

/// Returns a handler of compile events that shows a bar; `None` if stderr is not a terminal.
pub fn show_compiling() -> Option<Arc<dyn Fn(CompileEvent) + Send + Sync>> {
    if !std::io::stderr().is_terminal() {
        return None;
    }
    let lines: Mutex<HashMap<String, Option<ProgressLine>>> = Mutex::default();
    Some(Arc::new(move |event| {
        let mut lines = lines.lock();
        match event {
            CompileEvent::Started { name, bytes } => {
                let cores =
                    std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
                let usual = usual_time(bytes, cores);
                let message = compile_message(&name, usual);
                lines.insert(name, ProgressLine::timed_bar(message, usual));
            }
            CompileEvent::Finished { name, .. } => drop(lines.remove(&name)),
        }
    }))
}

/// The text beside the bar, short enough for 80 columns.
fn compile_message(name: &str, usual: Duration) -> String {
    let (name, seconds) = (visible(prefix(name, 32)), usual.as_secs());
    format!("compiling {name} (once, usually {seconds} s)")
}

/// The usual time to compile a component, in whole seconds.
fn usual_time(bytes: u64, cores: u64) -> Duration {
    let per_second = BYTES_PER_CORE_SECOND * cores.clamp(1, MAX_CORES);
    Duration::from_secs(bytes.div_ceil(per_second).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compile_message_with_its_bar_fits_in_80_columns() {
        let bar_and_time = "                      100s".len();
        let message = compile_message("the JavaScript engine", Duration::from_secs(5));
        assert_eq!(
            message,
            "compiling the JavaScript engine (once, usually 5 s)"
        );
        assert!(message.len() + bar_and_time <= 80);
    }

    #[test]
    fn usual_compile_time_grows_with_size_and_shrinks_with_cores() {
        let seconds = |bytes, cores| usual_time(bytes, cores).as_secs();
        assert_eq!(seconds(1, 2), 1);
        assert_eq!(seconds(8_000_000, 2), 10);
        assert_eq!(seconds(8_000_000, 4), 5);
        assert_eq!(seconds(8_000_000, 100), seconds(8_000_000, 8));
    }
}
