//! `mimir policy check --watch`.
#![cfg(unix)]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use crate::kit::{mimir, run};

/// Kills the program even if the test fails.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn policy_check_watch_checks_changes_until_ctrl_c() {
    let home = tempfile::tempdir().unwrap();
    let (code, ..) = run(home.path(), &["init"]);
    assert_eq!(code, 0);
    let config = home.path().join(".mimir/config.yml");
    let mut command = mimir(home.path(), &["policy", "check", "--watch"]);
    // Both streams into one pipe, in the order in which a person sees them.
    let (output, to) = std::io::pipe().unwrap();
    command.stdout(to.try_clone().unwrap()).stderr(to);
    let mut running = Running(command.stdin(Stdio::null()).spawn().unwrap());
    drop(command);
    let mut lines = BufReader::new(output).lines();
    let mut says = |wanted: &str| {
        let line = lines.next().unwrap().unwrap();
        assert!(line.contains(wanted), "{line}, and not {wanted}");
    };
    // Moved into place: a file that is being written would be checked while it is empty.
    let replace = |text: &str| {
        let new = home.path().join("new.yml");
        fs::write(&new, text).unwrap();
        fs::rename(&new, &config).unwrap();
    };
    says("ok 1 file, 0 examples hold");
    replace("policy:\n  deny: [git_nothing]\n");
    // From the rules on stderr, and from the check.
    says("unknown tool `git_nothing`");
    says("ok 1 file");
    says("unknown tool `git_nothing`");
    replace("policy:\n  dney: []\n");
    says("config.yml:2:3: policy: unknown key `dney`");
    replace("policy: {rules: [{when: {path: {glob: a}}, decision: deny, match: [{path: a}]}]}\n");
    says("ok 1 file, 1 example hold");
    let pid = running.0.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-INT", &pid])
            .status()
            .unwrap()
            .success()
    );
    assert_eq!(running.0.wait().unwrap().code(), Some(130));
}
