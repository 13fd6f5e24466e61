//! `mimir:tool/log`.

use mimir_core::call::LogLevel;
use mimir_core::command::CommandStream;

use crate::bindings::log::{Host, Level};
use crate::output_pipes::OutputTarget as _;
use crate::store_state::StoreState;

impl Host for StoreState {
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
                    LogLevel::Debug | LogLevel::Info => CommandStream::Stdout,
                    LogLevel::Warn | LogLevel::Error => CommandStream::Stderr,
                };
                console.stream(stream).take(message.as_bytes());
            }
            None => self.logs.write_line(level, &message),
        }
        Ok(())
    }
}
