//! The data of the console: implements [`ConsoleBackend`] over the settings, stores and logs of a workspace.
//!
//! Each submodule answers the requests about one subject. Roles are checked before. Texts of strangers are made visible
//! here, in one place.

use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, StreamExt as _};
use mimir_console::{
    ConsoleBackend, ConsoleEvents, ConsoleRequest, ConsoleUser, QuestionAnswer, QuestionAnswerKind,
    RecordFilter, RecordLines, ServerAction,
};
use mimir_core::text::{prefix, visible};
use mimir_core::{AuditEvent, BoxFuture, ToolError, ToolErrorCode};
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc};

use mimir::cluster::ClusterMembership;
use mimir::live_calls::{AgentKey, LiveCallHub};
use mimir::setup::HostSetup;
use mimir::shared_approvals::SharedApprovals;
use mimir::shared_questions::QuestionStore;

use crate::commands::approvals;
use crate::output::warn;

mod argument_scope;
mod call_subject;
mod charts;
mod cluster_nodes;
mod cluster_story;
mod events;
mod least_privilege;
mod lists;
pub mod live;
mod log_check;
mod matches;
mod page_entries;
mod policy_edits;
mod policy_layers;
pub mod previews;
mod questions;
mod record;
mod record_source;
mod recorded_calls;
mod servers;
mod stored_approvals;
mod story;
mod story_steps;
mod strangers;
#[cfg(test)]
mod tests;
mod tool_source;
mod tools;
pub mod undo;
mod visible_text;
mod what_if;
pub mod workspace;

use policy_edits::EditScope;
use previews::PreviewCache;
use visible_text::make_visible;
use workspace::{ConsoleWorkspace, LoadedWorkspace, blocking, blocking_future};

/// Time within which a question of another process is seen.
const QUESTION_LATENCY: Duration = Duration::from_millis(20);

/// The console in audit events.
const CONSOLE: &str = "at the console";

/// Maximum number of requests at a time that read much of the log.
const LOG_READERS: usize = 2;

/// Maximum number of exports at a time. Each holds a thread until its client has read everything. The router also limits
/// those of one person.
const EXPORTS: usize = 64;

/// Number of exported lines that are read ahead of a slow client.
const EXPORT_LINES: usize = 64;

/// The data of a console for one workspace. Clones share it.
#[derive(Clone)]
pub struct WorkspaceConsole(Arc<ConsoleState>);

struct ConsoleState {
    workspace: ConsoleWorkspace,
    hub: LiveCallHub,
    questions: QuestionStore,
    previews: PreviewCache,
    cluster: Option<Arc<ClusterMembership>>,
    /// True if workers run the calls.
    has_workers: bool,
    log_readers: Semaphore,
    exports: Semaphore,
    chain: log_check::ChainCache,
    usage: tools::UsageCache,
    edits: EditScope,
}

impl WorkspaceConsole {
    /// Creates the data of the workspace, and of the cluster if the process has joined one. The hub collects the running
    /// calls.
    ///
    /// # Errors
    /// This platform has no folder for the user's settings, in which processes share their questions.
    pub fn new(setup: &HostSetup, hub: LiveCallHub) -> Result<Self, ToolError> {
        Self::with_edits(setup, hub, EditScope::AllSettings)
    }

    /// Like [`Self::new`], for the console of a server, which edits only rules in the settings files.
    pub fn new_for_server(setup: &HostSetup, hub: LiveCallHub) -> Result<Self, ToolError> {
        Self::with_edits(setup, hub, EditScope::RulesOnly)
    }

    fn with_edits(
        setup: &HostSetup,
        hub: LiveCallHub,
        edits: EditScope,
    ) -> Result<Self, ToolError> {
        let cluster = setup.cluster().cloned();
        let state = match &cluster {
            Some(cluster) => Some(Arc::clone(cluster.state())),
            None => setup.console_state(QUESTION_LATENCY),
        };
        let state = state.ok_or_else(|| {
            ToolError::unavailable(
                "this platform has no folder for your own settings, where questions are shared; set MIMIR_CONFIG_DIR",
            )
        })?;
        let questions = match &cluster {
            Some(cluster) => QuestionStore::new(state).of_workspace(cluster.workspace()),
            None => QuestionStore::new(state),
        };
        Ok(Self(Arc::new(ConsoleState {
            workspace: ConsoleWorkspace::new(setup),
            hub,
            questions,
            previews: PreviewCache::default(),
            cluster,
            has_workers: setup.has_remote_tools(),
            log_readers: Semaphore::new(LOG_READERS),
            exports: Semaphore::new(EXPORTS),
            chain: log_check::ChainCache::default(),
            usage: tools::UsageCache::default(),
            edits,
        })))
    }
}

impl ConsoleBackend for WorkspaceConsole {
    fn handle<'a>(
        &'a self,
        user: &'a ConsoleUser,
        request: ConsoleRequest,
    ) -> BoxFuture<'a, Result<Value, ToolError>> {
        Box::pin(async move {
            let mut value = self.0.answer(user, request).await?;
            make_visible(&mut value);
            Ok(value)
        })
    }

    fn export_record(&self, filter: RecordFilter) -> Result<RecordLines, ToolError> {
        record::LineFilter::new(filter.clone())?;
        let (send, receive) = mpsc::channel(EXPORT_LINES);
        let state = Arc::clone(&self.0);
        tokio::spawn(async move {
            let _permit = tokio::select! {
                permit = state.exports.acquire() => permit,
                () = send.closed() => return,
            };
            let setup = match state.workspace.setup().await {
                Ok(setup) => setup,
                Err(error) => {
                    let _ = send.send(Err(error)).await;
                    return;
                }
            };
            let exported = blocking(move || {
                let sent =
                    record::export(&setup, filter, |line| send.blocking_send(Ok(line)).is_ok());
                if let Err(error) = sent {
                    // Fails if the client is gone.
                    let _ = send.blocking_send(Err(error));
                }
                Ok(())
            });
            if let Err(error) = exported.await {
                tracing::warn!(%error, "an export of the record was interrupted");
            }
        });
        let lines = stream::unfold(receive, |mut receive| async move {
            let line = receive.recv().await?;
            Some((line, receive))
        });
        Ok(lines.boxed())
    }

    fn events(&self) -> ConsoleEvents {
        events::follow(Arc::clone(&self.0))
    }
}

impl ConsoleState {
    async fn answer(
        self: &Arc<Self>,
        user: &ConsoleUser,
        request: ConsoleRequest,
    ) -> Result<Value, ToolError> {
        use ConsoleRequest as Request;
        match request {
            Request::State => self.state().await,
            Request::Calls => Ok(serde_json::to_value(self.hub.snapshot()).unwrap_or_default()),
            Request::CancelCall { id } => {
                live::cancel_call(&self.hub, user, &id).map(|()| Value::Null)
            }
            Request::Agents => Ok(json!({ "agents": self.hub.agents() })),
            Request::StopAgent {
                pid,
                session,
                reason,
            } => {
                let key = AgentKey { pid, session };
                let event =
                    live::stop_agent(&self.hub, &key, &user.name, CONSOLE, reason.as_deref())?;
                self.record_event(&event).await;
                Ok(Value::Null)
            }
            Request::StartAgent { pid, session } => {
                let key = AgentKey { pid, session };
                let event = live::start_agent(&self.hub, &key, &user.name, CONSOLE)?;
                self.record_event(&event).await;
                Ok(Value::Null)
            }
            Request::StopAll { reason } => {
                let order = self.stop_order()?;
                let event = order.stop(user, reason.as_deref()).await?;
                self.record_event(&event).await;
                Ok(live::stop_value(order.read().await?.as_ref()))
            }
            Request::StartAll => {
                if let Some(event) = self.stop_order()?.start(user).await? {
                    self.record_event(&event).await;
                }
                Ok(Value::Null)
            }
            Request::Questions => {
                let workspace = self.workspace.load().await?;
                questions::open_questions(&self.questions, &workspace, &self.previews).await
            }
            Request::AnswerQuestion { id, answer } => self.answer_question(user, &id, answer).await,
            Request::QuestionMatches { id, pattern } => {
                let _permit = self.log_permit().await;
                let question = self.questions.find(&id).await?;
                let workspace = self.workspace.load().await?;
                matches::find_matches(workspace, &question, pattern).await
            }
            Request::Record(filter) => self.read(move |setup| record::page(setup, filter)).await,
            Request::CallStory { id } => {
                let chain = self.chain().await;
                // After the chain, which has a permit of its own.
                let permit = self.log_permit().await;
                let story = self.read(move |setup| story::call_story(setup, &id, chain));
                let mut story = story.await?;
                drop(permit);
                if let Some(cluster) = &self.cluster
                    && log_check::is_older_than(&story["chain"], &story["lastMessage"])
                {
                    self.verify_in_background(cluster);
                    story["chain"] = log_check::pending_chain();
                }
                if !story["undoElsewhere"].is_null() {
                    let workspace = self.workspace.recent().await?;
                    cluster_story::drop_undo_of_reader(&mut story, &workspace.snapshot());
                }
                Ok(story)
            }
            Request::VerifyRecord => {
                let _permit = self.log_permit().await;
                if let Some(cluster) = &self.cluster {
                    let report = log_check::verify_cluster(cluster).await;
                    self.chain.store(&log_check::cluster_chain(&report));
                    return Ok(serde_json::to_value(report?).unwrap_or_default());
                }
                let report = self.read(record::verify_log).await?;
                Ok(serde_json::to_value(&report).unwrap_or_default())
            }
            Request::Charts { days } => {
                let _permit = self.log_permit().await;
                self.read(move |setup| charts::charts(setup, days)).await
            }
            Request::Tools => {
                let state = Arc::clone(self);
                self.read_loaded(move |workspace| tools::list(workspace, &state.usage))
                    .await
            }
            Request::ToolDetails { name } => {
                let state = Arc::clone(self);
                let uses = self.read_loaded(move |workspace| state.usage.get(workspace));
                let uses = uses.await?;
                let workspace = self.workspace.load().await?;
                tools::details(&workspace, &uses, &name).await
            }
            Request::SwitchTool { name, on } => {
                let by = user.name.clone();
                self.change(move |workspace| tools::switch(workspace, &name, on, &by))
                    .await
            }
            Request::TrustTool { name, digest } => {
                let workspace = self.workspace.load().await?;
                let trusted = tools::trust(&workspace, &name, &digest, &user.name).await;
                self.workspace.mark_changed();
                trusted
            }
            Request::Servers => self.read(servers::list).await,
            Request::ControlServer { name, action } => {
                self.control_server(user, name, action).await
            }
            Request::Sessions => {
                let agents = self.hub.agents();
                self.read(move |setup| lists::sessions(setup, agents)).await
            }
            Request::Workers => self.workers().await,
            Request::Memory => self.read(lists::memory).await,
            Request::Packages => self.read(|setup| Ok(lists::packages(setup))).await,
            Request::UndoRecords => self.read(undo::records).await,
            Request::UndoDetails { id } => {
                self.read_loaded(move |workspace| {
                    let redactor = workspace.redactor()?;
                    undo::details(&workspace.setup, &id, &redactor)
                })
                .await
            }
            Request::Undo { id } => {
                let by = user.name.clone();
                self.read(move |setup| undo::undo(setup, &id, &by)).await
            }
            Request::Policy => {
                let scope = self.edits;
                self.read_loaded(move |workspace| policy_layers::layers(workspace, scope))
                    .await
            }
            Request::ExplainCall {
                tool,
                arguments,
                edit,
            } => {
                let workspace = self.workspace.load().await?;
                blocking_future(move || async move {
                    what_if::explain(&workspace, &tool, arguments, edit.as_ref()).await
                })
                .await
            }
            Request::WhatIf { edit, days } => {
                let _permit = self.log_permit().await;
                let (workspace, scope) = (self.workspace.load().await?, self.edits);
                blocking_future(move || async move {
                    what_if::what_if(&workspace, &edit, days, scope).await
                })
                .await
            }
            Request::ProposeEdit { edit } => {
                let scope = self.edits;
                self.read_loaded(move |workspace| policy_edits::propose(workspace, &edit, scope))
                    .await
            }
            Request::ApplyEdit { edit, digest } => {
                let by = user.name.clone();
                let scope = self.edits;
                self.change(move |workspace| {
                    policy_edits::apply(workspace, &edit, scope, &digest, &by)
                })
                .await
            }
            Request::LeastPrivilege => {
                let _permit = self.log_permit().await;
                self.read_loaded(least_privilege::report).await
            }
            Request::RevokeApproval { id } => self.revoke_approval(user, id).await,
        }
    }

    /// Runs a function on the current settings, on a thread on which it may block.
    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&HostSetup) -> Result<T, ToolError> + Send + 'static,
    ) -> Result<T, ToolError> {
        let setup = self.workspace.setup().await?;
        blocking(move || work(&setup)).await
    }

    /// Runs a function on the current tools and rules, on a thread on which it may block.
    async fn read_loaded<T: Send + 'static>(
        &self,
        work: impl FnOnce(&LoadedWorkspace) -> Result<T, ToolError> + Send + 'static,
    ) -> Result<T, ToolError> {
        let workspace = self.workspace.load().await?;
        blocking(move || work(&workspace)).await
    }

    /// Like [`Self::read_loaded`], for a function that changes settings or tools.
    async fn change<T: Send + 'static>(
        &self,
        work: impl FnOnce(&LoadedWorkspace) -> Result<T, ToolError> + Send + 'static,
    ) -> Result<T, ToolError> {
        let changed = self.read_loaded(work).await;
        self.workspace.mark_changed();
        changed
    }

    /// Revokes a stored approval, as `mimir approvals revoke` does. Calls that run by it end.
    async fn revoke_approval(&self, user: &ConsoleUser, id: String) -> Result<Value, ToolError> {
        let shown = visible(prefix(&id, stored_approvals::ID_LENGTH));
        let ids = [id];
        let revoked = match &self.cluster {
            Some(cluster) => {
                let state = Arc::clone(cluster.state());
                let shared = SharedApprovals::new(state, cluster.workspace());
                approvals::revoke_shared(&shared, &ids).await
            }
            None => {
                self.read(move |setup| approvals::revoke_in_workspace(setup, &ids))
                    .await
            }
        };
        let revoked = revoked.map_err(|error| match error.code {
            ToolErrorCode::NotFound => ToolError::not_found(format!(
                "unknown approval `{shown}`: it may have been revoked already; the list shows the approvals that apply"
            )),
            _ => error,
        })?;
        let event = approvals::revoke_event(revoked, Some(&user.name));
        self.record_event(&event).await;
        Ok(Value::Null)
    }

    /// Returns the workers of the workspace, and the nodes of the cluster.
    async fn workers(&self) -> Result<Value, ToolError> {
        let mut workers = self.read(|setup| Ok(lists::workers(setup))).await?;
        if let Some(cluster) = &self.cluster {
            let nodes = cluster_nodes::cluster_nodes(cluster).await?;
            if let (Some(workers), Value::Object(nodes)) = (workers.as_object_mut(), nodes) {
                workers.extend(nodes);
            }
        }
        Ok(workers)
    }

    async fn log_permit(&self) -> Option<tokio::sync::SemaphorePermit<'_>> {
        self.log_readers.acquire().await.ok()
    }

    fn stop_order(&self) -> Result<live::ConsoleStop, ToolError> {
        live::ConsoleStop::new(self.cluster.as_deref(), self.workspace.user_dirs())
    }

    async fn state(&self) -> Result<Value, ToolError> {
        let notice = self.stop_order()?.read().await?;
        let folder = self.workspace.folder();
        let cluster = self.cluster.as_ref().map(|cluster| {
            json!({
                "servers": cluster.connection().servers(),
                "workspace": cluster.workspace(),
                "node": cluster.node().id(),
                "pool": self.has_workers,
                "otherServers": cluster_nodes::other_servers(cluster),
            })
        });
        Ok(json!({
            "workspace": folder.root().display().to_string(),
            "stop": live::stop_value(notice.as_ref()),
            "cluster": cluster,
        }))
    }

    async fn answer_question(
        &self,
        user: &ConsoleUser,
        id: &str,
        answer: QuestionAnswer,
    ) -> Result<Value, ToolError> {
        // Edited arguments are asked about again.
        let is_approval = !matches!(
            answer.answer,
            QuestionAnswerKind::Edit | QuestionAnswerKind::No
        );
        if is_approval {
            self.check_preview(id, &answer).await?;
        }
        let event = questions::answer_question(&self.questions, user, id, answer).await?;
        self.record_event(&event).await;
        Ok(json!({ "counted": true }))
    }

    /// Fails if the change that a person has seen is not the one that the call would make now.
    async fn check_preview(&self, id: &str, answer: &QuestionAnswer) -> Result<(), ToolError> {
        let question = self.questions.find(id).await?;
        // Others do not count in any case, for another reason.
        if question.card.fingerprint.as_str() != answer.fingerprint
            || !self.questions.takes_answer(&question).await
        {
            return Ok(());
        }
        let workspace = self.workspace.load().await?;
        let shown = answer.preview.as_deref();
        let is_current = self.previews.is_current(&workspace, &question, shown);
        if is_current.await? {
            return Ok(());
        }
        Err(ToolError::unavailable(match shown {
            Some(_) => {
                "a file has changed since the difference was shown, so the answer does not count; look at the difference again"
            }
            None => {
                "the answer names no difference, so it does not count; look at the difference, and answer with its digest as `preview`"
            }
        }))
    }

    async fn control_server(
        &self,
        user: &ConsoleUser,
        name: String,
        action: ServerAction,
    ) -> Result<Value, ToolError> {
        let by = user.name.clone();
        let done = self.read(move |setup| servers::control(setup, &name, action, &by));
        done.await.map(|()| Value::Null)
    }

    /// Records an action that has happened already, so that a failure only causes a warning.
    async fn record_event(&self, event: &AuditEvent) {
        let recorded = match &self.cluster {
            Some(cluster) => {
                let settings = mimir_core::config::AuditSettings::default();
                let sink = cluster.audit(settings);
                let recorded = sink.record_with_others(event).await;
                recorded.map_err(ToolError::unavailable)
            }
            None => {
                let event = event.clone();
                self.read(move |setup| {
                    setup.record_event(&event);
                    Ok(())
                })
                .await
            }
        };
        if let Err(error) = recorded {
            warn(format_args!(
                "an action at the console was not recorded: {error}"
            ));
        }
    }

    /// Returns whether the log is intact, as of the last verification.
    async fn chain(self: &Arc<Self>) -> Value {
        if let Some(chain) = self.chain.recent(self.cluster.is_some()) {
            return chain;
        }
        if let Some(cluster) = &self.cluster {
            self.verify_in_background(cluster);
            return log_check::pending_chain();
        }
        let _permit = self.log_permit().await;
        let chain = match self.read(record::verify_log).await {
            Ok(report) if report.ok => json!({
                "state": "intact",
                "text": format!("all {} lines of the log are unchanged and in their order", report.lines),
            }),
            Ok(report) => {
                let faults = report
                    .findings
                    .iter()
                    .filter(|finding| finding.fault.is_fault());
                let texts: Vec<&str> = faults.take(3).map(|fault| fault.text.as_str()).collect();
                json!({ "state": "broken", "text": texts.join("; ") })
            }
            Err(error) => json!({ "state": "unknown", "text": error.message }),
        };
        self.chain.store(&chain);
        chain
    }

    /// Verifies the log of the cluster for stories of calls, unless that is under way.
    fn verify_in_background(self: &Arc<Self>, cluster: &Arc<ClusterMembership>) {
        let Some(verifying) = self.chain.begin_verification() else {
            return;
        };
        let (state, cluster) = (Arc::clone(self), Arc::clone(cluster));
        tokio::spawn(async move {
            let _verifying = verifying;
            let _permit = state.log_permit().await;
            let report = log_check::verify_cluster(&cluster).await;
            state.chain.store(&log_check::cluster_chain(&report));
        });
    }
}
