//! Concurrent commands in one workspace.
//!
//! The creator of a file is unknown. So a forbidden path found while several commands run ends none of them: the path
//! is renamed, and each command reports it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::{ForbiddenPath, MAX_RENAMED};

/// Forbidden paths found during a command while others were running.
type Findings = Mutex<Vec<ForbiddenPath>>;

/// The running commands, each with its workspace.
static RUNNING: Mutex<Vec<(PathBuf, Weak<Findings>)>> = Mutex::new(Vec::new());

/// Entry of a running command. Removed from the list on drop.
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

    /// Reports forbidden paths to all commands in the workspace. Returns false, and reports nothing, if this is the
    /// only command.
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

    /// Returns true if more paths were found than a command may continue with.
    pub(super) fn must_end(&self) -> bool {
        self.findings.lock().len() > MAX_RENAMED
    }

    /// Removes and returns the forbidden paths created by this command or a concurrent one.
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
        assert!(
            !elsewhere.report(found),
            "no other command runs in this workspace"
        );
        assert_eq!(one.take(), found);
        assert_eq!(other.take(), found);
        assert_eq!(elsewhere.take(), []);
        drop(other);
        assert!(!one.report(found), "the other command has ended");
        assert!(!one.must_end());
    }
}
