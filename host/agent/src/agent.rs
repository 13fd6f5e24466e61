//! The agent loop: ask the model, run its tool calls, and repeat until no calls are left or a limit is reached.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mimir_core::call::ParentCall;
use mimir_core::config::{AgentBudget, TokenPrice};
use mimir_core::pipeline::PipelineSnapshot;
use mimir_core::{Pipeline, ToolError};
use tokio::time::{Instant, sleep, timeout};

use crate::call_batch::CallBatch;
use crate::conversation::{Conversation, sent_messages};
use crate::error::ModelError;
use crate::event::{AgentEvent, AgentEventSink};
use crate::image::{limit_images, sendable_images};
use crate::message::{Message, ToolSpec, tokens};
use crate::model::{Model, ModelReply, ModelRequest, StopReason, TokenUsage};
use crate::retry;
use crate::session_budget::SessionBudget;
use crate::task_usage::{BudgetLimit, TaskUsage};
use crate::trim::{fixed_tokens, trim_to_fit};

/// A model with tools, instructions and limits.
#[derive(Clone)]
pub struct Agent {
    /// The language model.
    pub model: Arc<dyn Model>,
    /// The pipeline that all tool calls go through.
    pub pipeline: Pipeline,
    /// The system prompt of every task.
    pub system: String,
    /// The limits of a task.
    pub budget: AgentBudget,
    /// The price of the model, if known.
    pub price: Option<TokenPrice>,
    /// The tools that the model may see; `None` for all listed tools.
    pub tools: Option<BTreeSet<String>>,
    /// The call that this agent runs inside, if any.
    pub parent: Option<ParentCall>,
    /// The budget that the task shares with workers and tools. For a worker, it is the reserved part of its caller's
    /// budget.
    pub session_budget: Option<SessionBudget>,
}

/// Reason why a task ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskEnd {
    /// The model made no further calls.
    Finished,
    /// The last reply was cut off at `agent.maxAnswerTokens`.
    Length,
    /// The provider withheld the rest of the reply.
    Withheld,
    /// A limit was reached.
    LimitReached(BudgetLimit),
}

/// Correction factor for estimated token counts, in thousandths. Providers report exact counts.
#[derive(Clone, Copy)]
pub(crate) struct TokenScale(u64);

impl Default for TokenScale {
    fn default() -> Self {
        Self(1_000)
    }
}

impl TokenScale {
    /// Converts an estimate to the provider's count.
    pub(crate) fn up(self, tokens: u64) -> u64 {
        tokens.saturating_mul(self.0) / 1_000
    }

    /// Converts the provider's count to an estimate.
    pub(crate) fn down(self, tokens: u64) -> u64 {
        tokens.saturating_mul(1_000) / self.0
    }

    /// Raises the factor if the provider counted more tokens than we estimated.
    fn learn(&mut self, estimated: u64, counted: u64) {
        // Capped at 4: estimates are never further off, so a higher count includes something other than the request.
        let ratio = counted.saturating_mul(1_000) / estimated.max(1);
        self.0 = self.0.max(ratio.min(4_000));
    }
}

/// Maximum number of times that a turn's conversation is shortened after the provider rejects it as too long.
const MAX_TRIMS: u32 = 3;

/// Divisor of the token limit of a conversation: new tool results may take up to half of it.
const RESULT_SHARE: u64 = 2;

/// Divisor of the token limit of a conversation: the images of new tool results may take up to a quarter of it.
const IMAGE_SHARE: u64 = 4;

impl Agent {
    /// Runs the task in the last user message of the conversation. Adds all messages and the usage to the conversation,
    /// also those before an error. Dropping the future stops requests and calls in progress.
    pub async fn run_task(
        &self,
        conversation: &mut Conversation,
        event_sink: &dyn AgentEventSink,
    ) -> Result<TaskEnd, ToolError> {
        conversation.answer_open_calls();
        self.model.name().clone_into(&mut conversation.model);
        let mut task_usage = TaskUsage::default();
        let mut settled = task_usage;
        let mut progress = TaskProgress::default();
        if let Some(session_budget) = &self.session_budget {
            session_budget.open(&conversation.id, self.budget).await?;
            // Usage of workers and tools that was reported after an earlier task was stopped.
            conversation
                .spent
                .add(&session_budget.take_side_usage(&conversation.id));
        }
        loop {
            event_sink.conversation_changed(conversation);
            let tools = self.specs(&self.pipeline.snapshot());
            let turn = match self
                .run_turn(
                    conversation,
                    &mut task_usage,
                    &mut progress,
                    &tools,
                    event_sink,
                )
                .await?
            {
                Ok(turn) => turn,
                Err(limit) => return Ok(TaskEnd::LimitReached(limit)),
            };
            self.settle(conversation, &mut task_usage, &mut settled)
                .await?;
            if turn.calls == 0 {
                return Ok(match turn.stop {
                    StopReason::Finished => TaskEnd::Finished,
                    StopReason::Length => TaskEnd::Length,
                    StopReason::Withheld => TaskEnd::Withheld,
                });
            }
            event_sink.conversation_changed(conversation);
            let max_tokens = progress.scale.down(self.budget.context_tokens);
            let max_tokens = max_tokens.saturating_sub(turn.fixed_tokens);
            let hit_call_limit = self
                .run_calls(conversation, &mut task_usage, max_tokens, event_sink)
                .await;
            self.settle(conversation, &mut task_usage, &mut settled)
                .await?;
            if hit_call_limit {
                return Ok(TaskEnd::LimitReached(BudgetLimit::ToolCalls));
            }
        }
    }

    /// Adds the usage of a dropped task's workers and tools to the conversation.
    pub fn absorb_side_usage(&self, conversation: &mut Conversation) {
        if let Some(session_budget) = &self.session_budget {
            conversation
                .spent
                .add(&session_budget.take_side_usage(&conversation.id));
        }
    }

    /// Deducts the usage since the last settlement from the session's budget, and adds the usage of workers and tools.
    async fn settle(
        &self,
        conversation: &mut Conversation,
        task_usage: &mut TaskUsage,
        settled: &mut TaskUsage,
    ) -> Result<(), ToolError> {
        let Some(session_budget) = &self.session_budget else {
            return Ok(());
        };
        session_budget
            .deduct(&conversation.id, &task_usage.since(settled))
            .await?;
        let side_usage = session_budget.take_side_usage(&conversation.id);
        task_usage.add(&side_usage);
        conversation.spent.add(&side_usage);
        *settled = *task_usage;
        Ok(())
    }

    /// Requests one reply and adds it to the conversation. The inner error is the limit that forbids the request.
    async fn run_turn(
        &self,
        conversation: &mut Conversation,
        task_usage: &mut TaskUsage,
        progress: &mut TaskProgress,
        tools: &[ToolSpec],
        event_sink: &dyn AgentEventSink,
    ) -> Result<Result<TurnResult, BudgetLimit>, ToolError> {
        let fixed_tokens = fixed_tokens(&self.system, tools);
        let context_tokens = progress.scale.down(self.budget.context_tokens);
        let mut max_conversation_tokens = context_tokens.saturating_sub(fixed_tokens);
        self.compact_if_long(
            conversation,
            task_usage,
            progress,
            tools,
            max_conversation_tokens,
            event_sink,
        )
        .await;
        let scale = &mut progress.scale;
        let sent = sent_messages(&conversation.messages, &conversation.summaries);
        let has_summary = !conversation.summaries.is_empty();
        let mut trims = 0;
        let (reply, estimated) = loop {
            let reads_images = self.model.reads_images() && !progress.images_rejected;
            let sendable = sendable_images(&sent, reads_images);
            let Some(fitted) = trim_to_fit(&sendable, has_summary, max_conversation_tokens) else {
                return Err(too_long());
            };
            let estimated = fixed_tokens + fitted.tokens;
            let price = self.model.estimate_price(self.price);
            let max_tokens =
                match task_usage.answer_tokens_left(&self.budget, price, scale.up(estimated)) {
                    Ok(max_tokens) => max_tokens,
                    Err(bound) => return Ok(Err(bound)),
                };
            if fitted.left_out > 0 {
                event_sink.handle_event(AgentEvent::LeftOut {
                    messages: fitted.left_out,
                });
            }
            event_sink.handle_event(AgentEvent::Turn {
                turn: task_usage.turns + 1,
            });
            let request = ModelRequest {
                system: &self.system,
                messages: &fitted.messages,
                tools,
                max_tokens,
                session: &conversation.id,
            };
            let reply = self.send_with_retries(
                request,
                scale.up(estimated),
                task_usage,
                &mut conversation.spent,
                event_sink,
            );
            match reply.await {
                Ok(reply) => break (reply, estimated),
                Err(FailedReply { error, received })
                    if error.is_too_long() && trims < MAX_TRIMS =>
                {
                    trims += 1;
                    if received {
                        event_sink.handle_event(AgentEvent::Retry {
                            reason: &error.to_string(),
                            after_ms: 0,
                            received,
                        });
                    }
                    // Based on the sent size, because a conversation below the configured limit has to shrink as well.
                    max_conversation_tokens = fitted.tokens / 5 * 3;
                }
                Err(FailedReply { error, received })
                    if error.is_about_images() && has_images(&fitted.messages) =>
                {
                    progress.images_rejected = true;
                    event_sink.handle_event(AgentEvent::Retry {
                        reason: &format!("{error}; the images are left out"),
                        after_ms: 0,
                        received,
                    });
                }
                Err(FailedReply { error, .. }) => return Err(error.into()),
            }
        };
        drop(sent);
        if let Some(usage) = reply.usage {
            scale.learn(estimated, usage.input);
        }
        let mut turn = append_reply(conversation, reply);
        turn.fixed_tokens = fixed_tokens;
        Ok(Ok(turn))
    }

    /// Sends one request. Retries transient errors up to `budget.retries` times while time is left. `input` is the
    /// estimated number of tokens sent, for providers that report no usage.
    pub(crate) async fn send_with_retries(
        &self,
        request: ModelRequest<'_>,
        input: u64,
        task_usage: &mut TaskUsage,
        conversation_usage: &mut TaskUsage,
        event_sink: &dyn AgentEventSink,
    ) -> Result<ModelReply, FailedReply> {
        let mut attempt = 0;
        loop {
            let start = Instant::now();
            let received = AtomicUsize::new(0);
            let on_text = |text: &str| {
                received.fetch_add(text.len(), Ordering::Relaxed);
                event_sink.handle_event(AgentEvent::Text { text });
            };
            let time_left = task_usage.time_left(&self.budget);
            let pending = PendingReply {
                usages: [&mut *task_usage, &mut *conversation_usage],
                input,
                received: &received,
                price: self.price,
                start,
                is_over: false,
            };
            let answer = timeout(time_left, self.model.answer(request, &on_text)).await;
            pending.finish();
            let elapsed = start.elapsed();
            let late = || ModelError::Late {
                provider: self.model.name().to_owned(),
            };
            let error = match answer.unwrap_or_else(|_| Err(late())) {
                Ok(reply) => {
                    let usage = reply
                        .usage
                        .unwrap_or_else(|| estimated_usage(input, &reply));
                    task_usage.add_reply(usage, self.price, elapsed);
                    conversation_usage.add_reply(usage, self.price, elapsed);
                    event_sink.handle_event(AgentEvent::Answered { usage, task_usage });
                    return Ok(reply);
                }
                Err(error) => error,
            };
            let received_bytes = received.into_inner();
            let received = received_bytes > 0;
            for usage in [&mut *task_usage, &mut *conversation_usage] {
                usage.add_time(elapsed);
                if received {
                    // Providers bill the sent tokens even if the reply fails.
                    usage.add_tokens(partial_usage(input, received_bytes), self.price);
                }
            }
            let wait = (error.is_transient() && attempt < self.budget.retries)
                .then(|| retry::backoff(attempt, error.after()))
                .flatten()
                .filter(|wait| *wait + elapsed < time_left);
            let Some(wait) = wait else {
                return Err(FailedReply { error, received });
            };
            event_sink.handle_event(AgentEvent::Retry {
                reason: &error.to_string(),
                after_ms: millis(wait),
                received,
            });
            sleep(wait).await;
            task_usage.add_time(wait);
            conversation_usage.add_time(wait);
            attempt += 1;
        }
    }

    /// Runs the calls of the last reply. `max_tokens` is the token limit of the whole conversation. Returns true if
    /// calls were skipped because the task's call limit was reached.
    async fn run_calls(
        &self,
        conversation: &mut Conversation,
        task_usage: &mut TaskUsage,
        max_tokens: u64,
        event_sink: &dyn AgentEventSink,
    ) -> bool {
        let Some(last @ Message::Assistant { calls, .. }) = conversation.messages.last() else {
            return false;
        };
        // The reply is always sent together with its results; older messages can be left out.
        let max_result_tokens = max_tokens.saturating_sub(last.estimate_tokens()) / RESULT_SHARE;
        let batch = CallBatch {
            pipeline: &self.pipeline,
            parent: self.parent.as_ref(),
            events: event_sink,
            session: &conversation.id,
            calls_left: self.budget.tool_calls.saturating_sub(task_usage.tool_calls),
            // Four characters are counted as one token.
            max_chars: usize::try_from(max_result_tokens.saturating_mul(4)).unwrap_or(usize::MAX),
        };
        let outcome = batch.run(calls).await;
        for usage in [task_usage, &mut conversation.spent] {
            usage.tool_calls = usage.tool_calls.saturating_add(outcome.calls_made);
            usage.add_time(outcome.time);
        }
        let mut results = outcome.results;
        limit_images(
            &mut results,
            usize::MAX,
            usize::MAX,
            max_tokens / IMAGE_SHARE,
        );
        conversation.messages.extend(results);
        outcome.hit_call_limit
    }

    /// Returns the listed tools that the agent may use, as sent to the model, sorted by name.
    pub(crate) fn specs(&self, snapshot: &PipelineSnapshot) -> Vec<ToolSpec> {
        let listed = snapshot.registry.tools().iter();
        let listed = listed.filter(|tool| snapshot.policy.is_listed(tool));
        let visible_tools = listed.filter(|tool| {
            let only = self.tools.as_ref();
            only.is_none_or(|only| only.contains(tool.name().as_str()))
        });
        let specs = visible_tools.map(|tool| ToolSpec {
            name: tool.name().to_string(),
            description: tool.definition.description.clone(),
            schema: tool.definition.input_schema.for_models(),
        });
        let mut specs: Vec<ToolSpec> = specs.collect();
        // Tools that are loaded again may come in another order, which would invalidate the provider's cache.
        specs.sort_by(|one, other| one.name.cmp(&other.name));
        specs
    }
}

/// The error of a request that is not sent again unchanged.
pub(crate) struct FailedReply {
    pub(crate) error: ModelError,
    /// True if text of the failed reply was received.
    received: bool,
}

/// Facts about the model that a task has learned.
#[derive(Default)]
pub(crate) struct TaskProgress {
    pub(crate) scale: TokenScale,
    /// True after the provider rejected a request with images.
    images_rejected: bool,
    /// True after a summary failed. The task makes no further attempt.
    pub(crate) compaction_failed: bool,
}

fn has_images(messages: &[Message]) -> bool {
    messages.iter().any(|message| !message.images().is_empty())
}

/// A reply in progress. If it is dropped, the tokens sent and received so far are still counted.
struct PendingReply<'a> {
    usages: [&'a mut TaskUsage; 2],
    input: u64,
    /// Number of bytes of text received so far.
    received: &'a AtomicUsize,
    price: Option<TokenPrice>,
    start: Instant,
    is_over: bool,
}

impl PendingReply<'_> {
    /// Marks the reply as finished or failed. The caller counts its usage.
    fn finish(mut self) {
        self.is_over = true;
    }
}

impl Drop for PendingReply<'_> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let usage = partial_usage(self.input, self.received.load(Ordering::Relaxed));
        for usages in &mut self.usages {
            usages.add_reply(usage, self.price, self.start.elapsed());
        }
    }
}

/// Estimates the usage of an incomplete reply of which `received` bytes have arrived.
fn partial_usage(input: u64, received: usize) -> TokenUsage {
    TokenUsage::new(input, tokens(received))
}

/// Result of one turn.
struct TurnResult {
    /// Number of requested calls.
    calls: usize,
    stop: StopReason,
    /// Estimated number of tokens of the system prompt and the tools.
    fixed_tokens: u64,
}

/// Adds a reply to the conversation. Calls with a duplicate id get a new one.
fn append_reply(conversation: &mut Conversation, mut reply: ModelReply) -> TurnResult {
    let mut ids: HashSet<String> = HashSet::new();
    for message in &conversation.messages {
        if let Message::Assistant { calls, .. } = message {
            ids.extend(calls.iter().map(|call| call.id.clone()));
        }
    }
    for (at, call) in reply.calls.iter_mut().enumerate() {
        if !ids.insert(call.id.clone()) {
            call.id = format!("{}_{}_{at}", call.id, conversation.messages.len());
            ids.insert(call.id.clone());
        }
    }
    let turn = TurnResult {
        calls: reply.calls.len(),
        stop: reply.stop,
        fixed_tokens: 0,
    };
    conversation.messages.push(Message::Assistant {
        text: reply.text,
        calls: reply.calls,
    });
    turn
}

/// Estimates the usage of a reply without reported usage.
fn estimated_usage(input: u64, reply: &ModelReply) -> TokenUsage {
    let calls = reply.calls.iter();
    let calls: usize = calls
        .map(|call| call.name.len() + call.arguments.len())
        .sum();
    partial_usage(input, reply.text.len() + calls)
}

fn too_long() -> ToolError {
    let message = "the last message and its tool calls do not fit into `agent.contextTokens`";
    let remedy = "raise `agent.contextTokens` if the model accepts more, or send a shorter message";
    ToolError::limit_exceeded(message).with_remedies([remedy.to_owned()])
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
