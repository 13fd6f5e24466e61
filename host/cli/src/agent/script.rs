//! Events of a task for programs: a line of JSON for each event.

use parking_lot::Mutex;
use std::io::{self, Write as _};

use mimir_agent::{Event, Face};
use serde::Serialize;

/// Prints events as lines of JSON on stdout.
#[derive(Default)]
pub struct Lines {
    /// First write error: the reader is gone.
    broken: Mutex<Option<io::Error>>,
}

impl Lines {
    /// Prints a line.
    pub fn line<T: Serialize>(&self, line: &T) {
        let printed = serde_json::to_string(line)
            .map_err(io::Error::from)
            .and_then(|text| {
                let mut out = io::stdout().lock();
                out.write_all(format!("{text}\n").as_bytes())?;
                out.flush()
            });
        if let Err(error) = printed {
            self.broken.lock().get_or_insert(error);
        }
    }

    /// Returns an error if a line could not be printed.
    pub fn end(self) -> io::Result<()> {
        self.broken.into_inner().map_or(Ok(()), Err)
    }
}

impl Face for Lines {
    fn on(&self, event: Event<'_>) {
        self.line(&event);
    }
}
