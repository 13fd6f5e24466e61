//! The desktop keyring, through `secret-tool` of libsecret. Values are passed over pipes, so that they never appear in
//! an argument list.

use std::io::{ErrorKind, Write as _};
use std::process::{Command, Output, Stdio};

use mimir_core::ToolError;

use super::{SERVICE, keyring_error, refused_error};

/// An available keyring.
pub struct SystemKeyring {
    program: &'static str,
}

const PROGRAM: &str = "secret-tool";

impl SystemKeyring {
    /// Finds the keyring of this session. Requires `secret-tool` on the PATH and a D-Bus session bus.
    pub fn find() -> Option<Self> {
        std::env::var_os("DBUS_SESSION_BUS_ADDRESS")?;
        let path = std::env::var_os("PATH")?;
        let mut folders = std::env::split_paths(&path);
        folders
            .any(|folder| folder.is_absolute() && folder.join(PROGRAM).is_file())
            .then_some(Self { program: PROGRAM })
    }

    /// Stores a value under a name.
    pub fn set(&self, name: &str, value: &str) -> Result<(), ToolError> {
        let label = format!("--label=mimir: {name}");
        let output = self.run(&["store", &label, "service", SERVICE, "name", name], value)?;
        check_status(&output, "did not accept the value")
    }

    /// Reads the value under a name.
    pub fn get(&self, name: &str) -> Result<String, ToolError> {
        let output = self.run(&["lookup", "service", SERVICE, "name", name], "")?;
        check_status(&output, "did not return the value")?;
        String::from_utf8(output.stdout)
            .map_err(|_| keyring_error("returned a value that is not text"))
    }

    /// Removes the value under a name.
    pub fn remove(&self, name: &str) -> Result<(), ToolError> {
        let output = self.run(&["clear", "service", SERVICE, "name", name], "")?;
        check_status(&output, "did not remove the value")
    }

    fn run(&self, arguments: &[&str], input: &str) -> Result<Output, ToolError> {
        let failed = |error: std::io::Error| keyring_error(&format!("cannot be reached: {error}"));
        let mut child = Command::new(self.program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        if let Some(mut stdin) = child.stdin.take() {
            match stdin.write_all(input.as_bytes()) {
                // The program closed its stdin because it needs no input.
                Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
                result => result.map_err(failed)?,
            }
        }
        child.wait_with_output().map_err(failed)
    }
}

fn check_status(output: &Output, action: &str) -> Result<(), ToolError> {
    if output.status.success() {
        return Ok(());
    }
    Err(refused_error(
        action,
        &String::from_utf8_lossy(&output.stderr),
    ))
}
