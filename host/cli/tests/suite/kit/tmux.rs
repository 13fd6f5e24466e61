//! A terminal of tmux: what stands on it, and keys for it.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// A terminal with one program on it. It is ended with this.
pub struct Tmux {
    folder: tempfile::TempDir,
}

/// Nothing that is waited for takes this long.
const PATIENCE: Duration = Duration::from_secs(60);

impl Tmux {
    /// Runs shell text in this folder on a terminal of this size.
    pub fn start(home: &Path, (width, height): (u16, u16), script: &str) -> Self {
        let tmux = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        let (width, height) = (width.to_string(), height.to_string());
        let home = home.display().to_string();
        let size = ["-x", &width, "-y", &height];
        let start = [&["-f", "/dev/null", "-u", "new-session", "-d"][..], &size];
        let rest = ["-c", &home, "--", "sh", "-c", script];
        tmux.tell(&[start.concat(), rest.to_vec()].concat());
        // What it has written stays when it has ended.
        tmux.tell(&["set", "-g", "remain-on-exit", "on"]);
        tmux
    }

    /// Gives tmux a command; what it answers.
    pub fn tell(&self, words: &[&str]) -> String {
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

    /// Types keys, by tmux's names.
    pub fn keys(&self, keys: &[&str]) {
        self.tell(&[&["send-keys"][..], keys].concat());
    }

    /// What stands on it.
    pub fn screen(&self) -> String {
        self.tell(&["capture-pane", "-p"])
    }

    /// What a variable of tmux's is, such as `alternate_on`.
    pub fn is(&self, variable: &str) -> String {
        let format = format!("#{{{variable}}}");
        self.tell(&["display-message", "-p", &format])
            .trim()
            .to_owned()
    }

    /// Waits until this stands on it; gives all that does.
    pub fn until(&self, words: &str) -> String {
        self.wait(words, |screen| screen.contains(words))
    }

    /// The same for what is not a text.
    pub fn wait(&self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            let screen = self.screen();
            if is_so(&screen) {
                return screen;
            }
            assert!(Instant::now() < end, "never {what:?}:\n{screen}");
            std::thread::sleep(Duration::from_millis(30));
        }
    }

    /// The program that the shell on it waits for.
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
