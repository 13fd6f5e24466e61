//! Messages and progress for the person in front of the program.
//!
//! The library prints nothing by itself: notes and warnings go to the [`Interface`] that the program installs once, and
//! to `tracing` where it installs none.

use std::fmt::Display;
use std::sync::{Arc, OnceLock};

use mimir_wasm::{CompileEvent, ComponentCompiler, InProcessCompiler};

/// A handler of compile events.
pub type CompileHandler = Arc<dyn Fn(CompileEvent) + Send + Sync>;

/// Progress of work that takes a while. Dropping it ends the work.
pub trait Progress: Send + Sync {
    /// Advances the progress by one step.
    fn step(&self);
}

/// A receiver of messages and progress.
pub trait Interface: Send + Sync {
    /// Shows a line of information.
    fn note(&self, line: &str);

    /// Shows a warning.
    fn warn(&self, line: &str);

    /// The handler that is called when a component is compiled, if there is one.
    fn compile_handler(&self) -> Option<CompileHandler> {
        None
    }

    /// The compiler of components. A program that can start itself again compiles in a child process, whose memory and
    /// time are limited; others compile in their own process.
    fn compiler(&self) -> Arc<dyn ComponentCompiler> {
        Arc::new(InProcessCompiler::default())
    }

    /// Shows that something is being done, `description` without a full stop.
    fn progress(&self, description: &str) -> Box<dyn Progress>;
}

static INSTALLED: OnceLock<Box<dyn Interface>> = OnceLock::new();

/// Installs the receiver of messages. Only the first call has an effect.
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
