//! `mimir:tool/log`.

use mimir_core::call::LogLevel;

use crate::bindings::log::{Host, Level};
use crate::guest::Guest;

impl Host for Guest {
    async fn write(&mut self, level: Level, message: String) -> wasmtime::Result<()> {
        let level = match level {
            Level::Debug => LogLevel::Debug,
            Level::Info => LogLevel::Info,
            Level::Warn => LogLevel::Warn,
            Level::Error => LogLevel::Error,
        };
        self.logs.line(level, &message);
        Ok(())
    }
}
