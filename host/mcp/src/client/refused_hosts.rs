//! The hosts that the sandbox refused to servers. Programs seldom report why a connection failed, so the error of a
//! failed call names these hosts.

use std::collections::BTreeMap;
use std::sync::Arc;

use mimir_core::ToolError;
use mimir_core::backend::RawResult;
use mimir_core::text::visible;
use parking_lot::Mutex;

/// Maximum number of hosts that are recorded for one server.
const MAX_HOSTS: usize = 20;

/// The hosts that were refused to each server since its last call. Clones share the record.
#[derive(Debug, Clone, Default)]
pub struct RefusedHosts(Arc<Mutex<BTreeMap<String, BTreeMap<String, ToolError>>>>);

impl RefusedHosts {
    /// Records a refusal. Further refusals of the host are ignored.
    pub fn add(&self, server: &str, host: String, error: ToolError) {
        let mut servers = self.0.lock();
        let hosts = servers.entry(server.to_owned()).or_default();
        if hosts.len() < MAX_HOSTS {
            hosts.entry(host).or_insert(error);
        }
    }

    /// Removes the refusals of a server, and adds them to the error of its call or start.
    pub(super) fn add_to_error(&self, server: &str, mut error: ToolError) -> ToolError {
        let hosts = self.0.lock().remove(server).unwrap_or_default();
        let mut remedies = error.remedies.to_vec();
        for (host, refusal) in hosts {
            let note = format!(
                "; `{}` was not reached: {}",
                visible(&host),
                refusal.message
            );
            error.message.push_str(&note);
            remedies.extend(refusal.remedies);
        }
        error.with_remedies(remedies)
    }

    /// Removes the refusals of a server, and adds them to the result if the call failed.
    pub(super) fn add_to_result(&self, server: &str, mut result: RawResult) -> RawResult {
        match result.result {
            Ok(_) => drop(self.0.lock().remove(server)),
            Err(error) => result.result = Err(self.add_to_error(server, error)),
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use mimir_core::outcome::ToolOutput;

    use super::*;

    fn refused() -> RefusedHosts {
        let refused = RefusedHosts::default();
        for number in 0..100 {
            let why = format!("the server a has no access to it ({number})");
            let error = ToolError::policy_denied(why)
                .with_remedies(["add it to mcp.servers.a.network".to_owned()]);
            refused.add("a", format!("host{}.example", number / 2), error);
        }
        refused
    }

    fn failed() -> ToolError {
        let error = ToolError::execution("fetch failed");
        error.with_remedies(["its own".to_owned()])
    }

    #[test]
    fn refused_hosts_are_named_once_in_a_failed_call() {
        let refused = refused();
        let other = refused.add_to_error("b", failed());
        assert_eq!(other.message, "fetch failed");
        let error = refused.add_to_error("a", failed());
        assert!(
            error.message.starts_with(
                "fetch failed; `host0.example` was not reached: the server a has no access to it (0); `"
            ),
            "{error}"
        );
        assert_eq!(error.message.matches("not reached").count(), MAX_HOSTS);
        assert_eq!(error.remedies.len(), 1 + MAX_HOSTS);
        assert_eq!(&*error.remedies[0], "its own");
        let next = refused.add_to_error("a", failed());
        assert_eq!(next.message, "fetch failed");
    }

    #[test]
    fn refused_hosts_of_a_successful_call_are_forgotten() {
        let refused = refused();
        let output = ToolOutput {
            content: Vec::new(),
            structured: None,
            exit_code: None,
        };
        let result = refused.add_to_result("a", Ok(output).into());
        assert!(result.result.is_ok());
        let error = refused.add_to_error("a", failed());
        assert_eq!(error.message, "fetch failed");
    }
}
