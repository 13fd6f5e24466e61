//! Approval questions to the user of a client: by a request from mimir, or, since 2026-07-28, in the response to the
//! client's request.

use std::collections::BTreeMap;

use mimir_core::{ApprovalAnswer, ToolError};
use rmcp::RoleServer;
use rmcp::model::{
    ClientResult, ElicitRequest, ElicitResult, ErrorData, InputRequest, InputRequests,
    InputRequiredResult, InputResponses, ServerRequest,
};
use rmcp::service::{Peer, PeerRequestOptions, RequestContext};
use serde_json::json;
use tokio::sync::mpsc::Receiver;

use crate::client_observer::{ApprovalQuestion, ClientQuestion};
use crate::elicitation::{self, AnswerScope, PendingCall, PendingCallKey};
use crate::http::{SealPurpose, SealedCall};
use crate::metrics::ServerMetrics;
use crate::server::ClientSession;
use crate::server::session::is_modern;

use super::{ResumedCall, RunningCall, input_requests};

/// Key of the approval question and of its answer in a response.
const APPROVAL: &str = "approval";

/// Maximum number of attempts if answers are not valid.
const MAX_ATTEMPTS: usize = 3;

/// Asks the questions of a call one at a time. Returns the first question that has to be sent in the response.
pub(super) async fn ask(
    questions: &mut Receiver<ClientQuestion>,
    context: &RequestContext<RoleServer>,
    metrics: &ServerMetrics,
) -> Option<ClientQuestion> {
    if is_modern(context) {
        return questions.recv().await;
    }
    while let Some(question) = questions.recv().await {
        match question {
            ClientQuestion::Card(question) => {
                let scope = ClientSession::answer_scope(context);
                elicit(question, scope, &context.peer, metrics).await;
            }
            ClientQuestion::Requests(requests) => {
                input_requests::forward_requests(requests, &context.peer).await
            }
        }
    }
    None
}

/// Asks by a request to the client.
async fn elicit(
    mut question: ApprovalQuestion,
    scope: AnswerScope,
    peer: &Peer<RoleServer>,
    metrics: &ServerMetrics,
) {
    let mut note = None;
    for _ in 0..MAX_ATTEMPTS {
        let Some(form) = elicitation::approval_form(&question.card, scope, note) else {
            return refuse_too_long(question);
        };
        let request = ServerRequest::ElicitRequest(ElicitRequest::new(form));
        let options = PeerRequestOptions::no_options();
        let mut pending_request = match peer.send_cancellable_request(request, options).await {
            Ok(pending_request) => pending_request,
            Err(error) => {
                return answer_unavailable(
                    question,
                    format!("The client cannot be asked: {error}."),
                );
            }
        };
        let answer = tokio::select! {
            answer = &mut pending_request.rx => answer,
            () = question.answer.closed() => {
                let _ = pending_request.cancel(Some("the request was withdrawn".to_owned())).await;
                return;
            }
        };
        let result = match answer {
            Ok(Ok(ClientResult::ElicitResult(result))) => result,
            Ok(Err(error)) => {
                return answer_unavailable(
                    question,
                    format!("The client did not ask its user: {error}."),
                );
            }
            Ok(Ok(_)) | Err(_) => {
                return answer_unavailable(question, "The client did not ask its user.".to_owned());
            }
        };
        match elicitation::parse_answer(&question.card, scope, &result) {
            Ok(answer) => {
                metrics.count_answer(&answer);
                return send_answer(question, answer);
            }
            Err(fault) => note = Some(fault),
        }
    }
    answer_unavailable(
        question,
        format!("No valid answer was given in {MAX_ATTEMPTS} attempts."),
    );
}

impl ClientSession {
    /// Resumes the call that waits for this answer. If the answer is not valid, asks again.
    pub(super) fn resume_call(
        &self,
        state: &str,
        key: &PendingCallKey,
        responses: Option<InputResponses>,
    ) -> Result<ResumedCall, ErrorData> {
        let Some(pending) = self.server.0.pending_calls.take(state, key) else {
            let lost = self
                .server
                .lost_call(SealPurpose::PendingCall, state, &key.owner);
            if let Some(call) = lost {
                return Ok(ResumedCall::Lost(Box::new(lost_call_error(&call))));
            }
            return Err(ErrorData::invalid_params(
                "unknown requestState: it was already used, has expired, or belongs to another call. Call again without it",
                None,
            ));
        };
        let PendingCall {
            key,
            task,
            receivers,
            question,
        } = pending;
        let mut responses = responses.unwrap_or_default();
        let metrics = &self.server.0.metrics;
        let (question, note) = match answer(question, key.answer_scope, &mut responses, metrics) {
            Ok(()) => {
                let running = RunningCall {
                    key,
                    task,
                    receivers,
                };
                return Ok(ResumedCall::Running(Box::new(running)));
            }
            Err(repeated) => repeated,
        };
        let pending = PendingCall {
            key,
            task,
            receivers,
            question,
        };
        Ok(match self.suspend_call(pending, note) {
            Ok(running) => ResumedCall::Running(Box::new(running)),
            Err(input_required) => ResumedCall::InputRequired(input_required),
        })
    }

    /// Asks in the response: the call waits for the client's next request. If too many calls wait, the question counts
    /// as unanswered.
    pub(super) fn suspend_call(
        &self,
        pending: PendingCall,
        note: Option<&'static str>,
    ) -> Result<RunningCall, Box<InputRequiredResult>> {
        let resume = |pending: PendingCall, refuse: fn(ClientQuestion)| {
            refuse(pending.question);
            Ok(RunningCall {
                key: pending.key,
                task: pending.task,
                receivers: pending.receivers,
            })
        };
        let requests = to_requests(&pending.question, pending.key.answer_scope, note);
        let Some(requests) = requests else {
            return resume(pending, self::refuse);
        };
        let may_have_run = pending.question.is_asked_during_run();
        let owner = &pending.key.owner;
        let name = self
            .server
            .new_call_name(SealPurpose::PendingCall, owner, may_have_run);
        match self.server.0.pending_calls.insert(name, pending) {
            Ok(state) => Err(Box::new(InputRequiredResult::new(
                Some(requests),
                Some(state),
            ))),
            Err(pending) => resume(*pending, |question| match question {
                ClientQuestion::Card(question) => answer_unavailable(
                    question,
                    "Too many questions are waiting for an answer.".to_owned(),
                ),
                ClientQuestion::Requests(requests) => input_requests::refuse(requests),
            }),
        }
    }
}

/// Returns the error of a call whose server has ended.
pub(in crate::server) fn lost_call_error(call: &SealedCall) -> ToolError {
    let message = if call.may_have_run {
        "the server that held this call has ended; the call may have taken effect in part: check before calling again"
    } else {
        "the server that held this call has ended before the call was allowed, so it did not run: call again without the request state"
    };
    let details = json!({"mayHaveRun": call.may_have_run});
    ToolError::unavailable(message).with_details(details)
}

/// Delivers the answers to a question. Returns the question if an answer is missing or not valid, with the fault.
pub(in crate::server) fn answer(
    question: ClientQuestion,
    scope: AnswerScope,
    responses: &mut InputResponses,
    metrics: &ServerMetrics,
) -> Result<(), (ClientQuestion, Option<&'static str>)> {
    let question = match question {
        ClientQuestion::Requests(requests) => {
            // Requests again the answers that are missing.
            return input_requests::deliver_responses(requests, responses)
                .map_err(|requests| (ClientQuestion::Requests(requests), None));
        }
        ClientQuestion::Card(question) => question,
    };
    let answer = responses.remove(APPROVAL);
    let answer = answer.and_then(|answer| serde_json::from_value::<ElicitResult>(answer).ok());
    match answer.map(|answer| elicitation::parse_answer(&question.card, scope, &answer)) {
        Some(Ok(answer)) => {
            metrics.count_answer(&answer);
            send_answer(question, answer);
            Ok(())
        }
        Some(Err(fault)) => Err((ClientQuestion::Card(question), Some(fault))),
        None => Err((ClientQuestion::Card(question), None)),
    }
}

/// Converts a question to the form of a response. Returns `None` if it is too long or cannot be parsed. `note`
/// describes the fault in the previous answer.
pub(in crate::server) fn to_requests(
    question: &ClientQuestion,
    scope: AnswerScope,
    note: Option<&'static str>,
) -> Option<InputRequests> {
    match question {
        ClientQuestion::Card(question) => {
            let form = elicitation::approval_form(&question.card, scope, note)?;
            let request = InputRequest::Elicitation(ElicitRequest::new(form));
            Some(BTreeMap::from([(APPROVAL.to_owned(), request)]))
        }
        ClientQuestion::Requests(requests) => input_requests::to_input_requests(requests),
    }
}

/// Refuses a question that cannot be converted to requests.
pub(in crate::server) fn refuse(question: ClientQuestion) {
    match question {
        ClientQuestion::Card(question) => refuse_too_long(question),
        ClientQuestion::Requests(requests) => input_requests::refuse(requests),
    }
}

// An error means that the call no longer waits.
fn send_answer(question: ApprovalQuestion, answer: ApprovalAnswer) {
    let _ = question.answer.send(answer);
}

fn answer_unavailable(question: ApprovalQuestion, remedy: String) {
    send_answer(question, ApprovalAnswer::Unattended { remedy });
}

fn refuse_too_long(question: ApprovalQuestion) {
    let remedy = "The arguments are too long for an MCP client to show: use `mimir call`, which shows them on a terminal.";
    answer_unavailable(question, remedy.to_owned());
}
