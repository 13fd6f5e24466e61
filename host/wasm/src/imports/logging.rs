//! `wasi:logging`: the call's log, for a component that was not written for mimir.

use mimir_core::call::LogLevel;
use wasmtime::StoreContextMut;
use wasmtime::component::{ComponentType, Lift, Linker, Lower};

use crate::family::LOGGING;
use crate::store_state::StoreState;

#[derive(Debug, Clone, Copy, ComponentType, Lift, Lower)]
#[component(enum)]
#[repr(u8)]
#[expect(dead_code, reason = "guests create the values")]
enum LoggingLevel {
    #[component(name = "trace")]
    Trace,
    #[component(name = "debug")]
    Debug,
    #[component(name = "info")]
    Info,
    #[component(name = "warn")]
    Warn,
    #[component(name = "error")]
    Error,
    #[component(name = "critical")]
    Critical,
}

impl From<LoggingLevel> for LogLevel {
    fn from(level: LoggingLevel) -> Self {
        match level {
            LoggingLevel::Trace | LoggingLevel::Debug => LogLevel::Debug,
            LoggingLevel::Info => LogLevel::Info,
            LoggingLevel::Warn => LogLevel::Warn,
            LoggingLevel::Error | LoggingLevel::Critical => LogLevel::Error,
        }
    }
}

/// Links the interface under each of its names.
pub(crate) fn add_to_linker(linker: &mut Linker<StoreState>) -> wasmtime::Result<()> {
    for name in LOGGING {
        linker.instance(name)?.func_wrap(
            "log",
            |guest: StoreContextMut<'_, StoreState>,
             (level, context, message): (LoggingLevel, String, String)| {
                let line = if context.is_empty() {
                    message
                } else {
                    format!("{context}: {message}")
                };
                guest.data().logs.write_line(level.into(), &line);
                Ok(())
            },
        )?;
    }
    Ok(())
}
