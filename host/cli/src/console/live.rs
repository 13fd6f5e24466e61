//! Running calls, and the orders to stop an agent or all calls.

use std::time::SystemTime;

use mimir_console::ConsoleUser;
use mimir_core::audit::AuditEvent;
use mimir_core::call_switch::StopNotice;
use mimir_core::text::{prefix, visible};
use mimir_core::{RequestId, ToolError};
use serde_json::{Value, json};

use mimir::call_switch::{ClusterStop, StopFile};
use mimir::cluster::{ClusterMembership, state_error};
use mimir::live_calls::{AgentKey, LiveAgent, LiveCallHub};
use mimir::user_dirs::UserDirs;

use super::workspace::LoadedWorkspace;

/// Maximum length of a reason in characters.
const REASON_MAX: usize = 300;

/// Cancels a running call.
pub fn cancel_call(hub: &LiveCallHub, user: &ConsoleUser, id: &str) -> Result<(), ToolError> {
    let id = RequestId::try_from(id.to_owned()).map_err(|_| {
        ToolError::not_found("the id is not that of a call: expected an id from the list of calls")
    })?;
    hub.cancel(&id, &user.name)
}

/// Refuses the calls of one agent. `place` is where the person `by` gives the order. Returns the event for the audit log.
pub fn stop_agent(
    hub: &LiveCallHub,
    key: &AgentKey,
    by: &str,
    place: &str,
    reason: Option<&str>,
) -> Result<AuditEvent, ToolError> {
    let reason = shown_reason(reason);
    let because = because(reason.as_deref());
    let notice = StopNotice::new(by.to_owned(), SystemTime::now(), reason);
    let agent = hub.stop_agent(key, notice)?;
    let agent = agent_text(&agent);
    let detail = format!("all calls of {agent} are refused, by {by} {place}{because}");
    Ok(LoadedWorkspace::change_event("calls", &visible(&detail)))
}

/// Allows the calls of an agent again. Returns the event for the audit log.
pub fn start_agent(
    hub: &LiveCallHub,
    key: &AgentKey,
    by: &str,
    place: &str,
) -> Result<AuditEvent, ToolError> {
    let agent = agent_text(&hub.start_agent(key)?);
    let detail = format!("calls of {agent} are allowed again, by {by} {place}");
    Ok(LoadedWorkspace::change_event("calls", &visible(&detail)))
}

/// Returns the agent for the audit log.
fn agent_text(agent: &LiveAgent) -> String {
    let client = match &agent.client {
        Some(client) => format!(" ({client})"),
        None => String::new(),
    };
    format!(
        "the session `{}` of {}{client}",
        agent.session, agent.process
    )
}

fn shown_reason(reason: Option<&str>) -> Option<String> {
    let reason = reason.map(str::trim).filter(|reason| !reason.is_empty());
    reason.map(|reason| visible(prefix(reason, REASON_MAX)))
}

fn because(reason: Option<&str>) -> String {
    reason.map_or(String::new(), |reason| format!(": {reason}"))
}

/// The order to refuse all calls: of a cluster, or of the user on this machine.
pub enum ConsoleStop {
    /// The order in a cluster.
    Cluster(ClusterStop),
    /// The order in a file of the user.
    Machine(StopFile),
}

impl ConsoleStop {
    /// Returns the order of the cluster, or of this user.
    pub fn new(
        cluster: Option<&ClusterMembership>,
        user_dirs: &UserDirs,
    ) -> Result<Self, ToolError> {
        if let Some(cluster) = cluster {
            let state = std::sync::Arc::clone(cluster.state());
            return Ok(Self::Cluster(ClusterStop::new(state)));
        }
        let file = StopFile::of_user(user_dirs);
        file.map(Self::Machine).ok_or_else(|| {
            ToolError::unavailable(
                "this platform has no folder for your own settings, where the order is stored; set MIMIR_CONFIG_DIR",
            )
        })
    }

    /// Reads the order.
    pub async fn read(&self) -> Result<Option<StopNotice>, ToolError> {
        match self {
            Self::Cluster(order) => order.read().await.map_err(|error| state_error(&error)),
            Self::Machine(file) => Ok(file.read()),
        }
    }

    /// Refuses all calls. Returns the event for the audit log.
    pub async fn stop(
        &self,
        user: &ConsoleUser,
        reason: Option<&str>,
    ) -> Result<AuditEvent, ToolError> {
        let reason = shown_reason(reason);
        let because = because(reason.as_deref());
        let notice = StopNotice::new(user.name.clone(), SystemTime::now(), reason);
        match self {
            Self::Cluster(order) => {
                let stopped = order.stop(&notice).await;
                stopped.map_err(|error| state_error(&error))?;
            }
            Self::Machine(file) => {
                file.stop(&notice)?;
            }
        }
        let detail = format!(
            "all calls are refused, by {} at the console{because}",
            notice.by
        );
        Ok(LoadedWorkspace::change_event("calls", &visible(&detail)))
    }

    /// Allows calls again. Returns the event for the audit log, if there was an order.
    pub async fn start(&self, user: &ConsoleUser) -> Result<Option<AuditEvent>, ToolError> {
        let notice = match self {
            Self::Cluster(order) => order.start().await.map_err(|error| state_error(&error))?,
            Self::Machine(file) => file.start()?,
        };
        let detail = format!("calls are allowed again, by {} at the console", user.name);
        Ok(notice.map(|_| LoadedWorkspace::change_event("calls", &visible(&detail))))
    }
}

/// Returns the order as the page shows it.
pub fn stop_value(notice: Option<&StopNotice>) -> Value {
    notice.map_or(
        Value::Null,
        |notice| json!({ "by": notice.by, "atMs": notice.at_ms, "reason": notice.reason }),
    )
}
