//! Checks of the browsers that the browser tools can use, for `mimir doctor`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use mimir_browser::{InstalledBrowser, installed_browsers, trial_launch};
use mimir_core::launch::{LaunchedProgram, ProcessLauncher as _};
use mimir_core::text;
use mimir_process::ProgramLauncher;
use tokio::io::AsyncReadExt as _;

use crate::packages::registry;
use crate::servers::empty_folders;
use crate::setup::HostSetup;

/// The state of a browser.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrowserCheck {
    /// The product.
    pub name: String,
    /// The path of the program.
    pub program: PathBuf,
    /// The version that the program prints, or the reason why it does not.
    pub version: Result<String, String>,
    /// The error of a start in the sandbox. `None` for a browser that the tools do not use.
    pub start: Option<Result<(), String>>,
}

/// Maximum time of a start.
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// Maximum size of the output of a start that is read.
const OUTPUT_MAX: u64 = 64 << 10;

/// Maximum length of a version or an error, in characters.
const SHOWN_MAX: usize = 200;

/// Checks the installed browsers. The one in the settings, or else the first, is started in the sandbox, which takes
/// about a second.
pub async fn check_browsers(setup: &HostSetup) -> Vec<BrowserCheck> {
    let mut browsers = installed_browsers();
    let block = setup.settings.config.browser.as_ref();
    if let Some(program) = block.and_then(|block| block.program.as_ref()) {
        let program = PathBuf::from(program);
        browsers.retain(|browser| browser.program != program);
        let name = "browser.program";
        browsers.insert(0, InstalledBrowser { name, program });
    }
    let mut checks = Vec::new();
    for (at, browser) in browsers.into_iter().enumerate() {
        let program = browser.program;
        let version = registry::output(&program.display().to_string(), &["--version"]).await;
        let start = match at {
            0 if version.is_ok() => Some(try_start(setup, &program).await),
            _ => None,
        };
        checks.push(BrowserCheck {
            name: browser.name.to_owned(),
            version: version.map(|version| shorten(&version)),
            start,
            program,
        });
    }
    checks
}

/// Starts a browser in the sandbox, where it loads an empty page.
async fn try_start(setup: &HostSetup, program: &Path) -> Result<(), String> {
    let folders = empty_folders(&setup.user_dirs);
    let launcher = ProgramLauncher::new(setup.workspace.root(), folders);
    let trial = async {
        let launched = launcher.launch(trial_launch(program)).await;
        let LaunchedProgram {
            stdin,
            stdout,
            stderr,
            mut handle,
        } = launched.map_err(|error| error.message)?;
        drop(stdin);
        let (mut page, mut errors) = (Vec::new(), Vec::new());
        let (mut stdout, mut stderr) = (stdout.take(OUTPUT_MAX), stderr.take(OUTPUT_MAX));
        let (_, _, code) = tokio::join!(
            stdout.read_to_end(&mut page),
            stderr.read_to_end(&mut errors),
            handle.wait()
        );
        match code.map_err(|error| error.message)? {
            0 if page.windows(5).any(|part| part == b"<html") => Ok(()),
            code => Err(start_error(code, &String::from_utf8_lossy(&errors))),
        }
    };
    let finished = tokio::time::timeout(START_TIMEOUT, trial).await;
    finished.unwrap_or_else(|_| {
        let seconds = START_TIMEOUT.as_secs();
        Err(format!("it did not load a page within {seconds} s"))
    })
}

/// Returns the reason of a failed start: the line about the sandbox, if there is one.
fn start_error(code: i32, errors: &str) -> String {
    let mut lines = errors.lines();
    let about_sandbox = lines.find(|line| {
        let line = line.to_lowercase();
        line.contains("sandbox") || line.contains("namespace")
    });
    match about_sandbox.or_else(|| errors.lines().last()) {
        Some(line) => format!("exit code {code}: {}", shorten(line)),
        None => format!("exit code {code}"),
    }
}

fn shorten(shown: &str) -> String {
    text::visible(text::prefix(shown.trim(), SHOWN_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browser_start_error_names_the_sandbox() {
        let errors = "[1] ERROR: dbus\n[2] FATAL: No usable sandbox!\n[3] more\n";
        assert_eq!(
            start_error(133, errors),
            "exit code 133: [2] FATAL: No usable sandbox!"
        );
        assert_eq!(start_error(1, ""), "exit code 1");
        assert_eq!(start_error(1, "a\nb\n"), "exit code 1: b");
    }
}
