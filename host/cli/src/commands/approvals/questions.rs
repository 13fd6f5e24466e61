//! `mimir approvals pending` and `mimir approvals answer`.

use std::sync::Arc;
use std::time::SystemTime;

use jiff::Timestamp;
use mimir_cluster::{ClusterConnection, NatsState};
use mimir_core::ToolError;
use mimir_core::audit::{AuditEvent, EventKind};
use mimir_core::shared_state::StateArea;
use mimir_core::text::{prefix, visible};
use serde_json::json;

use crate::args::{ApprovalAnswerArgs, ClusterScope, GlobalOptions};
use crate::commands::cluster_record::record_in_cluster;
use crate::exit::{CommandResult, ExitReason};
use crate::output::{approvals, note};
use crate::terminal;
use mimir::cluster::{self, cluster_error, state_error};
use mimir::process_identity::{machine_name, user_name};
use mimir::setup::HostSetup;
use mimir::shared_questions::{GivenAnswer, QuestionStore};

/// Maximum length of a reason in bytes.
const REASON_MAX: usize = 300;

/// The questions of a workspace on this machine, or of a cluster.
struct QuestionSource {
    origin: QuestionOrigin,
    store: QuestionStore,
}

enum QuestionOrigin {
    /// All workspaces of a cluster, so that the current folder need not be one.
    Cluster(ClusterConnection),
    Workspace(Box<HostSetup>),
}

impl QuestionSource {
    async fn find(globals: &GlobalOptions, scope: &ClusterScope) -> CommandResult<Self> {
        if let Some(options) = scope.cluster.connection()? {
            let connection = cluster::connect(options).await?;
            let exists = connection.require_area(StateArea::Questions).await;
            exists.map_err(cluster_error)?;
            return Ok(Self {
                store: QuestionStore::new(Arc::new(NatsState::new(connection.clone()))),
                origin: QuestionOrigin::Cluster(connection),
            });
        }
        let setup = HostSetup::find(globals.workspace.as_deref())?;
        setup.require_approvals()?;
        let state = setup.local_state().ok_or_else(|| {
            ToolError::unavailable("this platform has no folder for your own settings")
        })?;
        Ok(Self {
            store: QuestionStore::new(state),
            origin: QuestionOrigin::Workspace(Box::new(setup)),
        })
    }

    async fn record(&self, event: &AuditEvent) {
        match &self.origin {
            QuestionOrigin::Cluster(connection) => record_in_cluster(connection, event).await,
            QuestionOrigin::Workspace(setup) => setup.record_event(event),
        }
    }
}

/// Lists the open questions.
pub async fn pending(globals: &GlobalOptions, scope: &ClusterScope) -> CommandResult {
    let source = QuestionSource::find(globals, scope).await?;
    let questions = source.store.open_questions().await;
    let mut questions = questions.map_err(|error| state_error(&error))?;
    if let Some(name) = &scope.workspace_name {
        questions.retain(|question| question.workspace == *name);
    }
    approvals::list_questions(globals.printer(), &questions, Timestamp::now())?;
    Ok(ExitReason::Done)
}

/// Answers a question, after the user has seen it and confirmed the answer.
pub async fn answer(globals: &GlobalOptions, args: &ApprovalAnswerArgs) -> CommandResult {
    let source = QuestionSource::find(globals, &args.scope).await?;
    let question = source.store.find(&args.id).await?;
    let answer = args.answer.to_answer();
    let name = answer.as_str();
    let (id, tool) = (visible(&question.id), visible(&question.card.tool));
    if !args.yes && question.is_open(Timestamp::now()) {
        terminal::card_lines(&question.card).iter().for_each(note);
        if !terminal::confirm(&format!("Answer `{name}` for `{tool}`?"))? {
            let message = terminal::refusal(
                "the question was not answered",
                &format!("use `mimir approvals answer {id} {name} --yes`"),
            );
            return Err(ToolError::approval_denied(message).into());
        }
    }
    let reason = args.reason.as_deref().map(str::trim);
    let reason = reason.filter(|reason| !reason.is_empty());
    let reason = reason.map(|reason| visible(prefix(reason, REASON_MAX)));
    let by = format!("{} on {}", user_name(), machine_name());
    let given = GivenAnswer {
        answer: answer.clone(),
        by: by.clone(),
        at: Timestamp::now(),
        reason: reason.clone(),
    };
    source.store.answer(&question.id, given).await?;
    let because = reason.map_or(String::new(), |reason| format!(": {reason}"));
    let detail = format!("question {id} about `{tool}` was answered by {by}{because}");
    let mut event = AuditEvent::new(EventKind::Approval, SystemTime::now())
        .with_subject(question.card.fingerprint.as_str())
        .with_detail(&detail);
    event.answer = Some(answer.as_str());
    source.record(&event).await;
    globals.printer().print_done(
        &json!({ "answered": id, "answer": name }),
        format_args!("answered `{name}` for `{tool}`"),
    )
}
