//! The agents behind the calls: sessions of clients, and the orders to stop them.

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;
use mimir_core::call_monitor::LiveProcess;
use mimir_core::call_switch::{SessionStops, StopNotice};
use mimir_core::{ToolError, ToolErrorCode};
use serde::Serialize;

use super::hub::{HubState, LiveCallHub};
use super::live_call::LiveCallStatus;

/// The identity of an agent: a session of a process. Most processes have one session; `mimir serve --http` has one for
/// each client.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AgentKey {
    /// The id of the process.
    pub pid: u32,
    /// The session, as consoles show it.
    pub session: String,
}

/// An agent whose calls are known, or that is stopped.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LiveAgent {
    /// The process.
    pub process: LiveProcess,
    /// The session.
    pub session: String,
    /// The name of the client, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The user, if the front end has users.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The number of calls that run.
    pub running: u32,
    /// The number of calls that wait for a person.
    pub waiting: u32,
    /// The time of the last call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<Timestamp>,
    /// The order to refuse the calls of the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop: Option<StopNotice>,
}

impl LiveAgent {
    fn new(process: LiveProcess, session: String) -> Self {
        Self {
            process,
            session,
            client: None,
            user: None,
            running: 0,
            waiting: 0,
            last: None,
            stop: None,
        }
    }

    /// Returns the identity.
    pub fn key(&self) -> AgentKey {
        AgentKey {
            pid: self.process.pid,
            session: self.session.clone(),
        }
    }
}

impl LiveCallHub {
    /// Returns all agents whose processes are connected, the last used first.
    pub fn agents(&self) -> Vec<LiveAgent> {
        let mut agents: Vec<_> = self.with_state(|state| state.agents().into_values().collect());
        agents.sort_by(|one: &LiveAgent, other| {
            (other.last, &one.session).cmp(&(one.last, &other.session))
        });
        agents
    }

    /// Orders the process of an agent to end its calls and to refuse new ones. The order ends with the session or the
    /// process; in a cluster, the process passes it on to the others, and it ends with the session. Returns when the order
    /// was sent.
    ///
    /// # Errors
    /// The agent is not known, or its process cannot be reached.
    pub fn stop_agent(&self, key: &AgentKey, notice: StopNotice) -> Result<LiveAgent, ToolError> {
        let notice = notice.for_session(&key.session);
        // In a cluster, several processes have the same ones.
        let stopped = self.with_state(|state| {
            let sessions = state.session_stops().map(|(_, notice)| notice.session);
            sessions.collect::<HashSet<_>>().len()
        });
        if stopped >= SessionStops::MAX {
            return Err(ToolError::unavailable(format!(
                "{stopped} agents are stopped already: let some of them work again, or stop all calls"
            )));
        }
        self.order(key, |source| source.stop_session(&notice))
    }

    /// Orders the process of an agent to accept its calls again. Returns when the order was sent.
    ///
    /// # Errors
    /// The agent is not known or not stopped, or its process cannot be reached.
    pub fn start_agent(&self, key: &AgentKey) -> Result<LiveAgent, ToolError> {
        let agent = self.find_agent(key)?;
        if agent.stop.is_none() {
            return Err(ToolError::unavailable("the agent is not stopped"));
        }
        self.order(key, |source| source.start_session(&key.session))
    }

    /// Sends an order to all pipelines of the process. Only one of them knows the session.
    fn order(
        &self,
        key: &AgentKey,
        send: impl Fn(&dyn super::LiveCallSource) -> bool,
    ) -> Result<LiveAgent, ToolError> {
        let agent = self.find_agent(key)?;
        let sources = self.with_state(|state| state.sources_of_process(key.pid));
        let is_sent = sources
            .iter()
            .fold(false, |is_sent, source| send(&**source) | is_sent);
        if is_sent {
            Ok(agent)
        } else {
            Err(ToolError::unavailable(
                "the process of the agent cannot be reached; `mimir stop` stops all calls",
            ))
        }
    }

    fn find_agent(&self, key: &AgentKey) -> Result<LiveAgent, ToolError> {
        let agent = self.with_state(|state| state.agents().remove(key));
        agent.ok_or_else(|| {
            let message = format!(
                "the session `{}` of process {} is not known here: expected an agent whose process runs, from the list of agents",
                key.session, key.pid
            );
            ToolError::new(ToolErrorCode::NotFound, message)
        })
    }
}

impl HubState {
    fn agents(&self) -> HashMap<AgentKey, LiveAgent> {
        let mut agents: HashMap<AgentKey, LiveAgent> = HashMap::new();
        for call in self.calls_of_connected() {
            let started = &call.started;
            let key = AgentKey {
                pid: started.process.pid,
                session: started.session.clone(),
            };
            let agent = agents.entry(key).or_insert_with(|| {
                LiveAgent::new(started.process.clone(), started.session.clone())
            });
            if started.client.is_some() {
                agent.client.clone_from(&started.client);
            }
            if started.user.is_some() {
                agent.user.clone_from(&started.user);
            }
            agent.last = agent.last.max(Some(started.at));
            match call.state {
                LiveCallStatus::Running => agent.running += 1,
                LiveCallStatus::Waiting => agent.waiting += 1,
                LiveCallStatus::Finished | LiveCallStatus::Lost => {}
            }
        }
        for (process, notice) in self.session_stops() {
            let Some(session) = notice.session.clone() else {
                continue;
            };
            let key = AgentKey {
                pid: process.pid,
                session: session.clone(),
            };
            let agent = agents
                .entry(key)
                .or_insert_with(|| LiveAgent::new(process, session));
            agent.stop = Some(notice);
        }
        agents
    }
}
