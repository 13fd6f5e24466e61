//! Ends a command when this process is gone, however it ended.
//!
//! A process that is killed cleans up nothing. So a shell waits beside each command for the end of its input, which
//! this process holds open: the kernel closes it with us, whatever happens. Then the shell kills the group of the command
//! and whatever carries its mark.

use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

/// The shell's part. Its first line of input is the group of the command; the end of the input is the end of mimir.
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

/// The shell that waits. Dropping it is the usual end: the command is gone, and nothing is killed.
#[derive(Debug)]
pub(super) struct Watch {
    shell: Child,
}

impl Watch {
    /// Begins to wait, before the command is started. `mark` is the variable that all of the command inherits.
    pub(super) fn begin(mark: &str) -> io::Result<Self> {
        let shell = Command::new("/bin/sh")
            .args(["-c", SCRIPT, "mimir-watch", mark])
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // What ends our group, such as Ctrl-C, must not end it.
            .process_group(0)
            .spawn()?;
        Ok(Self { shell })
    }

    /// Says which group the command leads.
    pub(super) fn follow(&mut self, group: u32) -> io::Result<()> {
        match &mut self.shell.stdin {
            Some(to) => writeln!(to, "{group}"),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // Before its input ends: it must not take that for the end of this process.
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}
