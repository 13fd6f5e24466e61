//! Processes of the cluster: started with a log of their own, killed, paused, and ended with the test.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Number of lines of a log that failures show.
const LOG_LINES: usize = 30;

/// A process that can be started again.
pub struct ManagedProcess {
    /// Name for messages and of the log.
    pub name: String,
    /// Machine on which it runs.
    pub machine: usize,
    command: Box<dyn Fn() -> Command + Send + Sync>,
    log: PathBuf,
    child: Option<Child>,
}

impl ManagedProcess {
    /// Declares a process. Its output goes into `NAME.log` in a folder.
    pub fn new(
        name: &str,
        machine: usize,
        logs: &Path,
        command: impl Fn() -> Command + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.to_owned(),
            machine,
            command: Box::new(command),
            log: logs.join(format!("{name}.log")),
            child: None,
        }
    }

    /// Starts the process, if it does not run.
    pub fn start(&mut self) -> Result<(), String> {
        if self.is_running() {
            return Ok(());
        }
        let failed = |error: std::io::Error| format!("{}: {error}", self.name);
        let log = OpenOptions::new().create(true).append(true).open(&self.log);
        let log: File = log.map_err(failed)?;
        let errors = log.try_clone().map_err(failed)?;
        let spawned = (self.command)()
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors)
            .spawn();
        self.child = Some(spawned.map_err(failed)?);
        Ok(())
    }

    /// Returns true if the process has been started and has not ended.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.as_mut().map(Child::try_wait), Some(Ok(None)))
    }

    /// Ends the process at once.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Stops the process without its knowledge. Returns once all of its threads have stopped, at most after a second.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
        let start = Instant::now();
        while !self.has_stopped() && start.elapsed() < Duration::from_secs(1) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Returns true if each thread of the process is stopped by a signal, or if it has ended.
    fn has_stopped(&self) -> bool {
        let id = self.child.as_ref().map(Child::id).unwrap_or_default();
        let Ok(threads) = fs::read_dir(format!("/proc/{id}/task")) else {
            return true;
        };
        threads.flatten().all(|thread| {
            let text = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
            // The name of the program, which may contain anything, ends with the last parenthesis.
            let fields = text.rsplit(')').next().unwrap_or_default();
            matches!(
                fields.trim_start().chars().next(),
                None | Some('T' | 'Z' | 'X')
            )
        })
    }

    /// Continues a paused process.
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Asks the process to end.
    pub fn ask_to_end(&self) {
        self.signal(Signal::TERM);
    }

    /// Waits until the process has ended. Kills it after `timeout`, and returns false.
    pub fn await_end(&mut self, timeout: Duration) -> bool {
        let start = Instant::now();
        while start.elapsed() < timeout {
            if !self.is_running() {
                self.child = None;
                return true;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        self.kill();
        false
    }

    fn signal(&self, signal: Signal) {
        let pid = self
            .child
            .as_ref()
            .and_then(|child| i32::try_from(child.id()).ok());
        if let Some(pid) = pid.and_then(Pid::from_raw) {
            let _ = kill_process(pid, signal);
        }
    }

    /// Returns the CPU time that the process has used, in milliseconds.
    pub fn cpu_ms(&self) -> f64 {
        let id = self.child.as_ref().map(Child::id).unwrap_or_default();
        let text = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        // The name of the program, which may contain anything, ends with the last parenthesis.
        let fields = text.rsplit(')').next().unwrap_or_default();
        let fields: Vec<u64> = fields
            .split(' ')
            .skip(1)
            .map(|field| field.parse().unwrap_or(0))
            .collect();
        // User and system time, in ticks of 10 ms.
        let ticks = fields.get(11).unwrap_or(&0) + fields.get(12).unwrap_or(&0);
        ticks as f64 * 10.0
    }

    /// Returns the last lines of the log.
    pub fn log_end(&self) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        let from = lines.len().saturating_sub(LOG_LINES);
        format!("{}:\n{}", self.log.display(), lines[from..].join("\n"))
    }
}

impl Drop for ManagedProcess {
    fn drop(&mut self) {
        self.resume();
        self.kill();
    }
}

/// Returns the output of a command that must succeed.
pub fn output_of(command: &mut Command) -> Result<String, String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{command:?}: {error}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(format!(
            "{command:?}: {}\n{}{}",
            output.status,
            text(&output.stdout),
            text(&output.stderr)
        )),
    }
}
