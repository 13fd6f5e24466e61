//! Commands that run in one workspace at the same time.
//!
//! The creator of a file is not known. So a forbidden path that is found while several commands run does not end any of
//! them: it is renamed, and each command reports it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::{ForbiddenPath, MAX_RENAMED};

/// The forbidden paths that were found while a command ran beside others.
type Findings = Mutex<Vec<ForbiddenPath>>;

/// The running commands, each with its workspace.
static RUNNING: Mutex<Vec<(PathBuf, Weak<Findings>)>> = Mutex::new(Vec::new());

/// A running command. It is removed from the list when this is dropped.
pub(super) struct ConcurrentCommand {
    workspace: PathBuf,
    findings: Arc<Findings>,
}

impl ConcurrentCommand {
    pub(super) fn new(workspace: &Path) -> Self {
        let findings = Arc::default();
        let entry = (workspace.to_owned(), Arc::downgrade(&findings));
        RUNNING.lock().push(entry);
        Self {
            workspace: workspace.to_owned(),
            findings,
        }
    }

    /// Reports forbidden paths to all commands that run in the workspace. Returns false, and reports nothing, if this
    /// is the only one.
    pub(super) fn report(&self, findings: &[ForbiddenPath]) -> bool {
        let running = RUNNING.lock();
        let commands = running.iter().filter(|(at, _)| *at == self.workspace);
        let commands: Vec<_> = commands
            .filter_map(|(_, command)| command.upgrade())
            .collect();
        let has_others = commands.len() > 1;
        if has_others {
            for command in commands {
                command.lock().extend_from_slice(findings);
            }
        }
        has_others
    }

    /// Returns true if more paths were found than commands may continue with.
    pub(super) fn must_end(&self) -> bool {
        self.findings.lock().len() > MAX_RENAMED
    }

    /// Returns the forbidden paths that this command or another one has created.
    pub(super) fn take(&self) -> Vec<ForbiddenPath> {
        std::mem::take(&mut self.findings.lock())
    }
}

impl Drop for ConcurrentCommand {
    fn drop(&mut self) {
        let own = Arc::as_ptr(&self.findings);
        RUNNING
            .lock()
            .retain(|(_, command)| command.as_ptr() != own);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finding_is_reported_to_all_commands_of_the_workspace() {
        let found = ForbiddenPath {
            path: ".bashrc".to_owned(),
            rule: String::new(),
            renamed_to: String::new(),
            more: 0,
        };
        let found = std::slice::from_ref(&found);
        let [one, other, elsewhere] = ["/concurrent/a", "/concurrent/a", "/concurrent/b"]
            .map(|at| ConcurrentCommand::new(Path::new(at)));
        assert!(one.report(found));
        assert!(!elsewhere.report(found), "it runs alone");
        assert_eq!(one.take(), found);
        assert_eq!(other.take(), found);
        assert_eq!(elsewhere.take(), []);
        drop(other);
        assert!(!one.report(found), "the other one has ended");
        assert!(!one.must_end());
    }
}
