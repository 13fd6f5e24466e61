//! What each sandbox gives on this machine, in words that a person reads.

use std::sync::Arc;

use super::{Fault, Sandbox};

/// What one sandbox gives here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The name that settings have for it.
    pub sandbox: &'static str,
    /// What it gives, line by line; or why it is not to be had.
    pub gives: Result<Vec<String>, String>,
}

/// Asks each sandbox, the strongest first.
pub fn doctor(sandboxes: &[Arc<dyn Sandbox>]) -> Vec<Report> {
    let ask = |sandbox: &Arc<dyn Sandbox>| Report {
        sandbox: sandbox.name(),
        gives: sandbox.available().map_err(|fault| match fault {
            Fault::Unavailable { why, .. } => why,
            other => other.to_string(),
        }),
    };
    sandboxes.iter().map(ask).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::NoSandbox;

    #[test]
    fn each_sandbox_has_lines_or_a_reason() {
        let reports = doctor(&[Arc::new(NoSandbox::new())]);
        assert_eq!(reports[0].sandbox, "none");
        assert!(
            reports[0]
                .gives
                .as_ref()
                .is_ok_and(|lines| !lines.is_empty())
        );
    }
}
