//! Events of a task for programs: a line of JSON for each event.

use std::io::{self, Write as _};

use mimir_agent::{AgentEvent, AgentEventSink};
use parking_lot::Mutex;
use serde::Serialize;

/// Prints events as lines of JSON on stdout.
#[derive(Default)]
pub struct JsonEventWriter {
    /// First write error. It usually means that the reader is gone.
    write_error: Mutex<Option<io::Error>>,
}

impl JsonEventWriter {
    /// Prints a line.
    pub fn write_line<T: Serialize>(&self, line: &T) {
        let written = serde_json::to_string(line)
            .map_err(io::Error::from)
            .and_then(|text| {
                let mut out = io::stdout().lock();
                out.write_all(format!("{text}\n").as_bytes())?;
                out.flush()
            });
        if let Err(error) = written {
            self.write_error.lock().get_or_insert(error);
        }
    }

    /// Returns an error if a line could not be printed.
    pub fn finish(self) -> io::Result<()> {
        self.write_error.into_inner().map_or(Ok(()), Err)
    }
}

impl AgentEventSink for JsonEventWriter {
    fn handle_event(&self, event: AgentEvent<'_>) {
        self.write_line(&event);
    }
}
