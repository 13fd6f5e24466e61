//! The keyring of the desktop, through `secret-tool` of libsecret: values go over pipes and never stand in an
//! argument list.

use std::io::{ErrorKind, Write as _};
use std::process::{Command, Output, Stdio};

use mimir_core::ToolError;

use super::{SERVICE, fault, refused};

/// A keyring that answers.
pub struct Keyring {
    program: &'static str,
}

const PROGRAM: &str = "secret-tool";

impl Keyring {
    /// The keyring of this session, if there is one: the program on the path and a bus to speak over.
    pub fn find() -> Option<Self> {
        std::env::var_os("DBUS_SESSION_BUS_ADDRESS")?;
        let path = std::env::var_os("PATH")?;
        let mut places = std::env::split_paths(&path);
        places
            .any(|folder| folder.is_absolute() && folder.join(PROGRAM).is_file())
            .then_some(Self { program: PROGRAM })
    }

    /// Keeps a value under a name.
    pub fn set(&self, name: &str, value: &str) -> Result<(), ToolError> {
        let label = format!("--label=mimir: {name}");
        let output = self.run(&["store", &label, "service", SERVICE, "name", name], value)?;
        done(&output, "did not take the value")
    }

    /// The value under a name.
    pub fn get(&self, name: &str) -> Result<String, ToolError> {
        let output = self.run(&["lookup", "service", SERVICE, "name", name], "")?;
        done(&output, "does not give the value")?;
        String::from_utf8(output.stdout).map_err(|_| fault("gave something that is no text"))
    }

    /// Forgets the value under a name.
    pub fn remove(&self, name: &str) -> Result<(), ToolError> {
        let output = self.run(&["clear", "service", SERVICE, "name", name], "")?;
        done(&output, "did not forget the value")
    }

    fn run(&self, arguments: &[&str], input: &str) -> Result<Output, ToolError> {
        let failed = |error: std::io::Error| fault(&format!("cannot be asked: {error}"));
        let mut child = Command::new(self.program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        if let Some(mut stdin) = child.stdin.take() {
            match stdin.write_all(input.as_bytes()) {
                // It wanted to know nothing.
                Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
                other => other.map_err(failed)?,
            }
        }
        child.wait_with_output().map_err(failed)
    }
}

fn done(output: &Output, what: &str) -> Result<(), ToolError> {
    if output.status.success() {
        return Ok(());
    }
    Err(refused(what, &String::from_utf8_lossy(&output.stderr)))
}
