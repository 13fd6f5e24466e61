//! `mimir telemetry`.

use std::io::Write as _;

use mimir_telemetry::DASHBOARD;

use crate::args::TelemetryCommand;
use crate::exit::{CommandResult, ExitReason};

/// Prints the dashboard.
pub fn run(command: &TelemetryCommand) -> CommandResult {
    match command {
        TelemetryCommand::Dashboard => {
            let mut out = std::io::stdout().lock();
            out.write_all(DASHBOARD.as_bytes())?;
            out.flush()?;
            Ok(ExitReason::Done)
        }
    }
}
