//! Watchdog that kills a command when this process dies for any reason.
//!
//! A killed process cannot clean up. So each command has a shell that reads from a pipe held open by this process. When
//! this process dies, the kernel closes the pipe, and the shell kills the process group of the command, all processes
//! with its mark, and on Linux all processes of the session that the command leads, if it leads one. Then it removes the
//! temporary folder of the command.

use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Watchdog script. The first input line is the process group of the command. End of input means that mimir died. The
/// arguments are the mark of the command, and its temporary folder if it has one.
///
/// In `/proc/PID/stat`, the name of the program can contain anything, even line breaks, but the fields after it contain
/// no bracket: the first is the state, the fourth the session.
const SCRIPT: &str = r#"
trap '' HUP INT QUIT TERM PIPE
mark=$1 folder=$2
read -r group
while read -r _; do :; done
[ -n "$group" ] && kill -KILL -- "-$group" 2>/dev/null
round=0
while [ "$round" -lt 50 ]; do
  found=
  for process in $(grep -lzxF -- "$mark" /proc/[0-9]*/environ 2>/dev/null); do
    process=${process%/environ}
    found="$found ${process#/proc/}"
  done
  for stat in /proc/[0-9]*/stat; do
    [ -n "$group" ] || break
    last=
    while read -r line || [ -n "$line" ]; do last=$line; done 2>/dev/null <"$stat" || continue
    set -- ${last##*)}
    [ "$4" = "$group" ] || continue
    case $1 in Z|X) continue ;; esac
    process=${stat%/stat}
    found="$found ${process#/proc/}"
  done
  [ -n "$found" ] || break
  for process in $found; do
    kill -KILL "$process" 2>/dev/null
  done
  round=$((round + 1))
done
if [ -n "$folder" ]; then
  chmod -R u+rwX -- "$folder"
  rm -rf -- "$folder"
fi
"#;

/// Watchdog shell. Dropping it after the command has ended kills only the shell.
#[derive(Debug)]
pub(super) struct WatchdogShell {
    shell: Child,
}

impl WatchdogShell {
    /// Starts the shell before the command. `mark` is the variable that all processes of the command inherit, `folder`
    /// its temporary folder.
    pub(super) fn begin(mark: &str, folder: Option<&Path>) -> io::Result<Self> {
        let shell = Command::new("/bin/sh")
            .args(["-c", SCRIPT, "mimir-watch", mark])
            .arg(folder.unwrap_or(Path::new("")))
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

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// The shell must find a process of the session that has neither the mark nor the group of the command, and whose
    /// name looks like the end of the name in `/proc/PID/stat`.
    #[test]
    fn watchdog_kills_the_session_and_removes_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let scratch = folder.path().join("scratch");
        std::fs::create_dir_all(scratch.join("a/b")).unwrap();
        let (program, ready) = (
            folder.path().join(") S 1\n1 1 ("),
            folder.path().join("ready"),
        );
        std::os::unix::fs::symlink("/bin/sleep", &program).unwrap();
        let script = "import os, sys
if os.fork() == 0:
    os.setpgid(0, 0)
    open(sys.argv[2], 'w').close()
    os.execve(sys.argv[1], ['x', '1000'], {})
os.wait()";
        let mut watch =
            WatchdogShell::begin("MIMIR_COMMAND=none-of-this-test", Some(&scratch)).unwrap();
        let mut session = Command::new("setsid")
            .args(["python3", "-c", script])
            .args([&program, &ready])
            .spawn()
            .unwrap();
        watch.follow(session.id()).unwrap();
        wait_for(|| ready.exists());
        let leader = rustix::process::Pid::from_child(&session);
        let count = || super::super::members(Some(leader), b"no variable").count();
        assert_eq!(count(), 2);
        // As if this process had been killed.
        drop(watch.shell.stdin.take());
        assert!(watch.shell.wait().unwrap().success());
        session.wait().unwrap();
        wait_for(|| count() == 0);
        assert!(!scratch.exists());
    }

    fn wait_for(condition: impl Fn() -> bool) {
        for _ in 0..500 {
            if condition() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        panic!("the condition did not become true");
    }
}
