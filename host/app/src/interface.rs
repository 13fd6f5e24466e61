//! Messages and progress for the user of the program.
//!
//! The library prints nothing itself: notes and warnings go to the [`Interface`] that the program has installed, or to
//! `tracing` if it has not installed one.

use std::fmt::Display;
use std::sync::{Arc, OnceLock};

use mimir_wasm::{CompileEvent, ComponentCompiler, InProcessCompiler};

/// Handler that is called when the compilation of a component starts and ends.
pub type CompileHandler = Arc<dyn Fn(CompileEvent) + Send + Sync>;

/// Progress display of a long operation. Dropping it removes the display.
pub trait Progress: Send + Sync {
    /// Advances the display by one step.
    fn step(&self);
}

/// Receiver of messages and progress, implemented by the program.
pub trait Interface: Send + Sync {
    /// Shows a line of information.
    fn note(&self, line: &str);

    /// Shows a warning.
    fn warn(&self, line: &str);

    /// Returns the handler of compile events, if there is one.
    fn compile_handler(&self) -> Option<CompileHandler> {
        None
    }

    /// Returns the compiler of components. By default, components are compiled in this process. A program that can run
    /// itself as a child process should compile there, with limits of memory and time.
    fn compiler(&self) -> Arc<dyn ComponentCompiler> {
        Arc::new(InProcessCompiler::default())
    }

    /// Starts a progress display. `description` describes the operation, without a full stop.
    fn progress(&self, description: &str) -> Box<dyn Progress>;
}

static INSTALLED: OnceLock<Box<dyn Interface>> = OnceLock::new();

/// Installs the receiver of messages for this process. Only the first call has an effect.
pub fn install(interface: impl Interface + 'static) {
    let _ = INSTALLED.set(Box::new(interface));
}

/// Shows a line of information.
pub fn note(line: impl Display) {
    match INSTALLED.get() {
        Some(interface) => interface.note(&line.to_string()),
        None => tracing::info!("{line}"),
    }
}

/// Shows a warning.
pub fn warn(line: impl Display) {
    match INSTALLED.get() {
        Some(interface) => interface.warn(&line.to_string()),
        None => tracing::warn!("{line}"),
    }
}

pub(crate) fn compile_handler() -> Option<CompileHandler> {
    INSTALLED
        .get()
        .and_then(|interface| interface.compile_handler())
}

pub(crate) fn progress(description: &str) -> Option<Box<dyn Progress>> {
    INSTALLED
        .get()
        .map(|interface| interface.progress(description))
}

pub(crate) fn compiler() -> Arc<dyn ComponentCompiler> {
    match INSTALLED.get() {
        Some(interface) => interface.compiler(),
        None => Arc::new(InProcessCompiler::default()),
    }
}
