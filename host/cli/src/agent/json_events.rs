//! Events of a task as JSON, one line per event, for programs.

use std::io::{self, Write as _};

use mimir_agent::{AgentEvent, AgentEventSink};
use parking_lot::Mutex;
use serde::Serialize;

/// Prints events as lines of JSON on stdout.
#[derive(Default)]
pub struct JsonEventWriter {
    /// First write error, usually because the reader has closed the pipe.
    write_error: Mutex<Option<io::Error>>,
}

impl JsonEventWriter {
    /// Prints a value as a line of JSON. [`Self::finish`] reports errors.
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

    /// Returns the first write error, if a line could not be printed.
    pub fn finish(self) -> io::Result<()> {
        self.write_error.into_inner().map_or(Ok(()), Err)
    }
}

impl AgentEventSink for JsonEventWriter {
    fn handle_event(&self, event: AgentEvent<'_>) {
        self.write_line(&event);
    }
}
