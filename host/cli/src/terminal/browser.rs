//! The browser of the person at the terminal.

use std::process::{Command, Stdio};

use mimir_core::text::visible;

use crate::output::warn;

/// Opens a URL in the named browser or in `$BROWSER`. Without either, does nothing.
pub fn open(browser: Option<&str>, url: &str) {
    let browser = browser.map(str::to_owned);
    let from_variable = || {
        let browsers = std::env::var("BROWSER").ok()?;
        browsers.split(':').next().map(str::to_owned)
    };
    let program = browser.or_else(from_variable);
    let Some(program) = program.filter(|program| !program.is_empty()) else {
        return;
    };
    let started = Command::new(&program)
        .arg(url)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    if let Err(error) = started {
        warn(format_args!(
            "cannot start the browser {}: {error}",
            visible(&program)
        ));
    }
}
