//! `mimir:tool/log`.

use mimir_core::call::LogLevel;
use mimir_core::command::Stream;

use crate::bindings::log::{Host, Level};
use crate::guest::Guest;
use crate::pipes::Take as _;

impl Host for Guest {
    async fn write(&mut self, level: Level, message: String) -> wasmtime::Result<()> {
        let level = match level {
            Level::Debug => LogLevel::Debug,
            Level::Info => LogLevel::Info,
            Level::Warn => LogLevel::Warn,
            Level::Error => LogLevel::Error,
        };
        match &self.console {
            Some(console) => {
                let stream = match level {
                    LogLevel::Debug | LogLevel::Info => Stream::Stdout,
                    LogLevel::Warn | LogLevel::Error => Stream::Stderr,
                };
                console.half(stream).take(message.as_bytes());
            }
            None => self.logs.line(level, &message),
        }
        Ok(())
    }
}
