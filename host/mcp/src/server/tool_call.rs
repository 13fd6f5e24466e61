//! A tool call from its request to its response, with the messages and questions in between.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use mimir_core::call::LogLevel;
use mimir_core::{Call, CallContext, Outcome, RequestId, ToolError, ToolErrorCode};
use rmcp::RoleServer;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ContentBlock,
    CreateTaskResult, ErrorCode, ErrorData, InputRequiredResult, InputResponses,
};
use rmcp::service::RequestContext;
use serde_json::{Value, json};

use crate::call_task::CallTask;
use crate::client_observer::{CallReceivers, ClientObserver, ClientQuestion};
use crate::discovery::DiscoveryReply;
use crate::elicitation::{self, PendingCall, PendingCallKey};
use crate::logs;
use crate::result::{self, StructuredFormat};

use super::session::is_modern;
use super::tasks::TASK_DELAY;
use super::{ClientSession, ToolServer};

pub(super) mod approval_prompt;
mod input_requests;
mod notifications;
mod request_trace;

pub(crate) use request_trace::RequestTrace;

/// Time limit for sending the last messages of a call before the result, and for withdrawing a question.
const NOTIFY_TIMEOUT: Duration = Duration::from_secs(1);

/// A call in progress, from this request or an earlier one.
pub(super) struct RunningCall {
    pub(super) key: PendingCallKey,
    pub(super) task: CallTask,
    pub(super) receivers: CallReceivers,
}

/// A step of a call within one request.
enum CallStep {
    Done(Box<Outcome>),
    Question(CallTask, ClientQuestion),
    /// The call takes longer than a request is to take.
    Slow(CallTask),
    Stopped,
    /// The server ends before the call.
    ServerEnds,
    Broken,
}

/// Outcome of a request.
pub(super) enum RequestOutcome {
    /// The call has ended.
    Outcome(Box<Outcome>),
    /// The call waits for an answer from the client.
    InputRequired(Box<InputRequiredResult>),
    /// The call goes on as a task.
    Task(Box<CreateTaskResult>),
    /// The request was cancelled, so the client expects no response.
    Stopped,
    /// The server that held the call has ended, or ends.
    Lost(Box<ToolError>),
}

/// A call that a request has resumed.
pub(super) enum ResumedCall {
    Running(Box<RunningCall>),
    /// The answer was not valid: the question is asked again.
    InputRequired(Box<InputRequiredResult>),
    /// The server that held the call has ended.
    Lost(Box<ToolError>),
}

/// The method of a request, and the client's answers to earlier questions.
pub(super) struct ClientAnswers {
    pub(super) method: &'static str,
    pub(super) state: Option<String>,
    pub(super) responses: Option<InputResponses>,
}

impl ClientSession {
    /// Handles `tools/call`.
    pub(super) async fn call(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let mut tool = request.name.into_owned();
        let mut arguments = request.arguments.unwrap_or_default();
        match self
            .server
            .catalogue()
            .handle_discovery_call(&tool, &arguments)
        {
            Some(DiscoveryReply::Answer(answer)) => return Ok(answer.into()),
            // A call through `mimir_call_tool` is handled as a call of the named tool.
            Some(DiscoveryReply::Call {
                name,
                arguments: inner,
            }) => (tool, arguments) = (name, inner),
            None => {}
        }
        let arguments = Value::Object(arguments);
        let answers = ClientAnswers {
            method: "tools/call",
            state: request.request_state,
            responses: request.input_responses,
        };
        let becomes_task = is_modern(&context)
            && context
                .client_capabilities()
                .is_some_and(|capabilities| capabilities.supports_tasks());
        let delay = becomes_task.then_some(TASK_DELAY);
        match self.run(&tool, arguments, answers, delay, &context).await? {
            RequestOutcome::Outcome(outcome) => {
                convert_outcome(&self.server, &tool, &outcome, is_modern(&context)).map(Into::into)
            }
            RequestOutcome::InputRequired(input_required) => Ok((*input_required).into()),
            RequestOutcome::Task(task) => Ok(CallToolResponse::Task(*task)),
            RequestOutcome::Stopped => {
                let text = ContentBlock::text(ToolErrorCode::Cancelled.as_str());
                Ok(CallToolResult::error(vec![text]).into())
            }
            RequestOutcome::Lost(error) => Ok(result::error_result(&error).into()),
        }
    }

    /// Drives a call as far as one request can. A call that takes longer than `task_delay` becomes a task.
    pub(super) async fn run(
        &self,
        tool: &str,
        arguments: Value,
        answers: ClientAnswers,
        task_delay: Option<Duration>,
        context: &RequestContext<RoleServer>,
    ) -> Result<RequestOutcome, ErrorData> {
        let key = PendingCallKey {
            owner: self.pipeline_session(context),
            answer_scope: Self::answer_scope(context),
            tool: tool.to_owned(),
            arguments,
        };
        let method = answers.method;
        let mut next = match answers.state {
            Some(state) if is_modern(context) => {
                match self.resume_call(&state, &key, answers.responses)? {
                    ResumedCall::Running(running) => Ok(*running),
                    ResumedCall::InputRequired(input_required) => Err(input_required),
                    ResumedCall::Lost(error) => return Ok(RequestOutcome::Lost(error)),
                }
            }
            // A client may send answers to a server's requests in advance, but not an approval.
            _ if is_modern(context) => {
                Ok(self.start_call(key, method, answers.responses.unwrap_or_default(), context))
            }
            _ => Ok(self.start_call(key, method, InputResponses::new(), context)),
        };
        let mut task_delay = task_delay;
        loop {
            let RunningCall {
                key,
                task,
                mut receivers,
            } = match next {
                Ok(running) => running,
                Err(input_required) => return Ok(RequestOutcome::InputRequired(input_required)),
            };
            let step = self
                .drive_call(task, &mut receivers, tool, task_delay, context)
                .await;
            next = match step {
                CallStep::Slow(task) => {
                    let running = RunningCall {
                        key,
                        task,
                        receivers,
                    };
                    let made = tokio::select! {
                        biased;
                        made = self.make_task(running) => made,
                        () = context.ct.cancelled() => return Ok(self.stopped(tool, context)),
                    };
                    match made {
                        Ok(created) => return Ok(RequestOutcome::Task(Box::new(created))),
                        Err(running) => {
                            task_delay = None;
                            Ok(*running)
                        }
                    }
                }
                CallStep::Done(outcome) => {
                    self.count_outcome(tool, &outcome, context).await;
                    return Ok(RequestOutcome::Outcome(outcome));
                }
                CallStep::Question(task, question) => {
                    let pending = PendingCall {
                        key,
                        task: task.detach(),
                        receivers,
                        question,
                    };
                    self.suspend_call(pending, None)
                }
                CallStep::Stopped => return Ok(self.stopped(tool, context)),
                CallStep::ServerEnds => return Ok(self.lost(tool)),
                CallStep::Broken => {
                    return Err(ErrorData::internal_error(
                        "the call failed unexpectedly",
                        None,
                    ));
                }
            };
        }
    }

    /// Counts a call that was stopped for its client.
    fn stopped(&self, tool: &str, context: &RequestContext<RoleServer>) -> RequestOutcome {
        self.server.count_stopped(tool);
        Self::expect_no_response(context);
        RequestOutcome::Stopped
    }

    /// Counts a call that is stopped because the server ends.
    fn lost(&self, tool: &str) -> RequestOutcome {
        self.server.count_stopped(tool);
        let message = "the server was stopped while it ran the call, so the call may have taken effect: check before you repeat it";
        let error = ToolError::unavailable(message).with_details(json!({"mayHaveRun": true}));
        RequestOutcome::Lost(Box::new(error))
    }

    /// Starts a call for a request with this method.
    fn start_call(
        &self,
        key: PendingCallKey,
        method: &'static str,
        early_answers: InputResponses,
        context: &RequestContext<RoleServer>,
    ) -> RunningCall {
        let server = &self.server;
        let capabilities = context.client_capabilities();
        let can_ask = elicitation::can_ask(capabilities.as_ref());
        let supported = elicitation::supported_requests(capabilities.as_ref());
        let wants_progress = context.meta.get_progress_token().is_some();
        let make_approver = |client| server.approver(can_ask.then_some(client));
        let (min_level, separate_answers) = (self.min_log_level(context), is_modern(context));
        let trace = RequestTrace::read(method, context);
        let (observer, receivers) = ClientObserver::new(
            wants_progress,
            min_level,
            trace,
            supported,
            separate_answers,
            early_answers,
            make_approver,
        );
        let call_context = CallContext {
            request_id: RequestId::new(SystemTime::now()),
            session_id: key.owner.clone(),
            conversation_id: None,
            user: Self::user(context),
        };
        let mut call = Call::new(key.tool.clone(), key.arguments.clone(), call_context);
        call.observer = Arc::new(observer);
        call.caller = Self::caller(context);
        call.sharing = Self::session_sharing(context);
        let (server, guard) = (server.clone(), server.begin_call());
        let request_id = call.context.request_id.clone();
        let task = CallTask::new(request_id, async move {
            let _guard = guard;
            server.wait_for_tool(&call.tool).await;
            server.0.pipeline.call(call).await
        });
        RunningCall {
            key,
            task,
            receivers,
        }
    }

    /// Waits for a call, forwards its messages, and asks its questions as far as this request allows.
    async fn drive_call(
        &self,
        mut task: CallTask,
        receivers: &mut CallReceivers,
        tool: &str,
        task_delay: Option<Duration>,
        context: &RequestContext<RoleServer>,
    ) -> CallStep {
        let metrics = &self.server.0.metrics;
        let mut send_updates = pin!(notifications::send_updates(
            &mut receivers.updates,
            &receivers.latest,
            tool,
            context
        ));
        let mut next_question = pin!(approval_prompt::ask(
            &mut receivers.questions,
            context,
            metrics
        ));
        let mut delay = pin!(tokio::time::sleep(task_delay.unwrap_or_default()));
        let (mut sends_updates, mut may_ask) = (true, true);
        let step = loop {
            tokio::select! {
                biased;
                () = context.ct.cancelled() => break CallStep::Stopped,
                () = self.close_signal().closed() => break CallStep::Stopped,
                () = self.server.0.close_signal.closed() => break CallStep::ServerEnds,
                () = Self::http_session_closed(context) => break CallStep::Stopped,
                outcome = task.outcome() => break outcome.map_or(CallStep::Broken, |outcome| CallStep::Done(Box::new(outcome))),
                () = &mut send_updates, if sends_updates => sends_updates = false,
                question = &mut next_question, if may_ask => match question {
                    Some(question) => return CallStep::Question(task, question),
                    None => may_ask = false,
                },
                () = &mut delay, if task_delay.is_some() => return CallStep::Slow(task),
            }
        };
        // Dropping the task also drops everything that could still send a message or wait for an answer.
        drop(task);
        let last_messages = async {
            while sends_updates || may_ask {
                tokio::select! {
                    () = &mut send_updates, if sends_updates => sends_updates = false,
                    _ = &mut next_question, if may_ask => may_ask = false,
                }
            }
        };
        let _ = tokio::time::timeout(NOTIFY_TIMEOUT, last_messages).await;
        step
    }

    /// Counts the outcome of a call. Reports a denial to the user, with the remedies, which the model must not read.
    async fn count_outcome(
        &self,
        name: &str,
        outcome: &Outcome,
        context: &RequestContext<RoleServer>,
    ) {
        let Some(error) = self.server.record_outcome(name, outcome) else {
            return;
        };
        // Clients show logs to the user, but pass the result to the model.
        let level = LogLevel::Warn;
        if self
            .min_log_level(context)
            .is_some_and(|min_level| min_level.accepts(level))
        {
            let report = json!({
                "tool": name,
                "code": error.code,
                "message": error.message,
                "wayOut": error.remedies,
            });
            logs::send(&context.peer, "mimir", level, report).await;
        }
    }
}

impl ToolServer {
    fn count_stopped(&self, tool: &str) {
        let shared = &self.0;
        let snapshot = shared.pipeline.snapshot();
        let registered = snapshot.registry.get(tool);
        let registered = registered.map(|registered| registered.name().as_str());
        shared.metrics.count_stopped(registered);
    }

    /// Counts the outcome of a call. Returns the error of a denial, with remedies, after it was reported to the user.
    pub(super) fn record_outcome<'a>(
        &self,
        name: &str,
        outcome: &'a Outcome,
    ) -> Option<&'a ToolError> {
        let shared = &self.0;
        let snapshot = shared.pipeline.snapshot();
        let tool = snapshot.registry.get(name);
        shared
            .metrics
            .count_call(tool.map(|tool| tool.name().as_str()), outcome);
        let error = outcome.result().err()?;
        if error.remedies.is_empty() || (error.code == ToolErrorCode::NotFound && tool.is_none()) {
            return None;
        }
        (shared.on_refusal)(name, error);
        Some(error)
    }
}

/// Converts an outcome to the result for the client.
pub(super) fn convert_outcome(
    server: &ToolServer,
    name: &str,
    outcome: &Outcome,
    is_modern: bool,
) -> Result<CallToolResult, ErrorData> {
    let snapshot = server.0.pipeline.snapshot();
    let tool = snapshot.registry.get(name);
    if let Err(error) = outcome.result() {
        if error.code == ToolErrorCode::NotFound && tool.is_none() {
            let data = json!({ "code": error.code });
            return Err(ErrorData::invalid_params(error.message.clone(), Some(data)));
        }
        if let Some(error) = missing_capability_error(error).filter(|_| is_modern) {
            return Err(error);
        }
    }
    let structure = StructuredFormat {
        schema: tool.and_then(|tool| tool.definition.output_schema.as_ref()),
        marks: snapshot.policy.untrusted_marking(),
    };
    Ok(result::to_tool_result(
        outcome,
        structure,
        login_url(server, outcome),
    ))
}

/// Returns the URL of the link in the error of a call, if it is one of this server. Tools choose the details of their
/// errors.
fn login_url<'a>(server: &ToolServer, outcome: &'a Outcome) -> Option<&'a str> {
    let error = outcome.result().err()?;
    let url = error.details.as_ref()?.get("url")?.as_str()?;
    let links = server.servers()?.login_links();
    links.has_url(url).then_some(url)
}

/// Returns the protocol's own error if the server behind the tool requires a capability that this client did not
/// declare.
fn missing_capability_error(error: &ToolError) -> Option<ErrorData> {
    let details = error.details.as_ref()?;
    let code = ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY;
    if details["protocolCode"] != code.0 {
        return None;
    }
    let capabilities = details["data"]["requiredCapabilities"].clone();
    let capabilities: ClientCapabilities = serde_json::from_value(capabilities).ok()?;
    Some(ErrorData::missing_required_client_capability(capabilities))
}
