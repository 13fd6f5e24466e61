//! The browser of the person at the terminal.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};

use mimir_core::text::visible;

use crate::output::warn;

/// The program that opens pages.
pub struct BrowserProgram(String);

impl BrowserProgram {
    /// Returns the named program, or that of `$BROWSER`. `None` without either.
    pub fn find(named: Option<&str>) -> Option<Self> {
        let from_variable = || {
            let browsers = std::env::var("BROWSER").ok()?;
            browsers.split(':').next().map(str::to_owned)
        };
        let program = named.map(str::to_owned).or_else(from_variable);
        program.filter(|program| !program.is_empty()).map(Self)
    }

    /// Opens a URL. Other users of this machine can see it: use [`Self::open_file`] for one with a secret.
    pub fn open_url(&self, url: &str) {
        self.open(url.as_ref());
    }

    /// Opens a file.
    pub fn open_file(&self, path: &Path) {
        self.open(path.as_os_str());
    }

    fn open(&self, page: &OsStr) {
        let started = Command::new(&self.0)
            .arg(page)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        if let Err(error) = started {
            warn(format_args!(
                "cannot start the browser {}: {error}",
                visible(&self.0)
            ));
        }
    }
}
