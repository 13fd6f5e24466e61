//! Watchdog that kills a command when this process dies for any reason.
//!
//! A killed process cannot clean up. So each command has a shell that reads from a pipe held open by this process. When
//! this process dies, the kernel closes the pipe, and the shell kills the process group of the command and all
//! processes with its mark.

use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

/// Watchdog script. The first input line is the process group of the command. End of input means that mimir died.
const SCRIPT: &str = r#"
trap '' HUP INT QUIT TERM PIPE
read -r group
while read -r _; do :; done
[ -n "$group" ] && kill -KILL -- "-$group" 2>/dev/null
round=0
while [ "$round" -lt 50 ]; do
  found=$(grep -lzxF -- "$1" /proc/[0-9]*/environ 2>/dev/null)
  [ -n "$found" ] || exit 0
  for process in $found; do
    process=${process#/proc/}
    kill -KILL "${process%/environ}" 2>/dev/null
  done
  round=$((round + 1))
done
"#;

/// Watchdog shell. Dropping it after the command has ended kills only the shell.
#[derive(Debug)]
pub(super) struct WatchdogShell {
    shell: Child,
}

impl WatchdogShell {
    /// Starts the shell before the command. `mark` is the variable that all processes of the command inherit.
    pub(super) fn begin(mark: &str) -> io::Result<Self> {
        let shell = Command::new("/bin/sh")
            .args(["-c", SCRIPT, "mimir-watch", mark])
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Signals to our process group, such as Ctrl-C, must not kill the shell.
            .process_group(0)
            .spawn()?;
        Ok(Self { shell })
    }

    /// Passes the process group of the command to the shell.
    pub(super) fn follow(&mut self, group: u32) -> io::Result<()> {
        match &mut self.shell.stdin {
            Some(stdin) => writeln!(stdin, "{group}"),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }
}

impl Drop for WatchdogShell {
    fn drop(&mut self) {
        // Must be killed before its input is closed, which the shell would treat as the death of this process.
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}
