//! A tmux terminal: its text, and key presses.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// A terminal that runs one program. Dropping it ends the program.
pub struct Tmux {
    folder: tempfile::TempDir,
}

/// Longer than any successful step.
const PATIENCE: Duration = Duration::from_secs(60);

impl Tmux {
    /// Runs shell text in this folder in a terminal of this size.
    pub fn start(home: &Path, (width, height): (u16, u16), script: &str) -> Self {
        let tmux = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        let (width, height) = (width.to_string(), height.to_string());
        let home = home.display().to_string();
        let size = ["-x", &width, "-y", &height];
        let start = [&["-f", "/dev/null", "-u", "new-session", "-d"][..], &size];
        let rest = ["-c", &home, "--", "sh", "-c", script];
        tmux.run(&[start.concat(), rest.to_vec()].concat());
        // The text stays after the program has ended.
        tmux.run(&["set", "-g", "remain-on-exit", "on"]);
        tmux
    }

    /// Runs a tmux command and returns its output.
    pub fn run(&self, words: &[&str]) -> String {
        let output = Command::new("tmux")
            .arg("-S")
            .arg(self.folder.path().join("socket"))
            .args(words)
            .env("LC_ALL", "C.UTF-8")
            .env("TERM", "xterm-256color")
            .env_remove("TMUX")
            .output()
            .unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "tmux {words:?}: {err}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Types keys, by their tmux names.
    pub fn keys(&self, keys: &[&str]) {
        self.run(&[&["send-keys"][..], keys].concat());
    }

    /// The text on the screen.
    pub fn screen(&self) -> String {
        self.run(&["capture-pane", "-p"])
    }

    /// The value of a tmux variable, such as `alternate_on`.
    pub fn is(&self, variable: &str) -> String {
        let format = format!("#{{{variable}}}");
        self.run(&["display-message", "-p", &format])
            .trim()
            .to_owned()
    }

    /// Waits until the screen shows this text; returns the whole text.
    pub fn wait_for_text(&self, words: &str) -> String {
        self.wait(words, |screen| screen.contains(words))
    }

    /// Waits for a condition on the screen; returns the whole text.
    pub fn wait(&self, what: &str, condition: impl Fn(&str) -> bool) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            let screen = self.screen();
            if condition(&screen) {
                return screen;
            }
            assert!(Instant::now() < end, "never {what:?}:\n{screen}");
            std::thread::sleep(Duration::from_millis(30));
        }
    }

    /// The process id of the program that the shell runs.
    pub fn program(&self) -> i32 {
        let shell = self.is("pane_pid");
        let end = Instant::now() + PATIENCE;
        loop {
            let children = format!("/proc/{shell}/task/{shell}/children");
            let children = std::fs::read_to_string(children).unwrap_or_default();
            if let Some(first) = children.split_whitespace().next() {
                return first.parse().unwrap();
            }
            assert!(Instant::now() < end, "nothing runs");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        let mut end = Command::new("tmux");
        end.arg("-S").arg(self.folder.path().join("socket"));
        let _ = end.arg("kill-server").output();
    }
}
