//! The load: clients that call tools at the same time, try again as clients should, and record each attempt.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{ClientGeneration, McpClient, ToolRequest, ToolResponse};
use crate::history::{CallAttempt, ClientAnswer, TestTool};
use crate::http::HttpTarget;
use crate::random::SeededRandom;

/// Most attempts of one operation of a patient client.
pub const ATTEMPTS_MAX: usize = 12;

/// Longest pause between two attempts.
const BACKOFF_MAX: Duration = Duration::from_secs(2);

/// The size and the mix of a load.
#[derive(Debug, Clone)]
pub struct LoadPlan {
    /// Number of clients.
    pub clients: usize,
    /// Number of operations of all clients.
    pub operations: usize,
    /// Prefix of the ids of operations.
    pub prefix: &'static str,
    /// Seed of the mix.
    pub seed: u64,
    /// The only tool. `None` for the mix of all.
    pub tool: Option<TestTool>,
    /// Most attempts of one operation.
    pub attempts: usize,
}

impl LoadPlan {
    /// Creates a plan with the mix of all tools and patient clients.
    pub fn mixed(prefix: &'static str, clients: usize, operations: usize, seed: u64) -> Self {
        Self {
            clients,
            operations,
            prefix,
            seed,
            tool: None,
            attempts: ATTEMPTS_MAX,
        }
    }

    /// Creates a plan with one call of one tool per client, which is not repeated.
    pub fn single(prefix: &'static str, tool: TestTool, clients: usize, seed: u64) -> Self {
        Self {
            tool: Some(tool),
            attempts: 1,
            ..LoadPlan::mixed(prefix, clients, clients, seed)
        }
    }
}

/// The calls of a load.
#[derive(Debug, Default)]
pub struct LoadRecord {
    /// All attempts.
    pub attempts: Vec<CallAttempt>,
    /// Number of `once` answers by operation.
    pub answers: BTreeMap<String, usize>,
    /// Errors of sessions that could not begin.
    pub session_errors: Vec<String>,
}

/// Clients that run.
pub struct RunningLoad {
    clients: Vec<tokio::task::JoinHandle<LoadRecord>>,
    finished: Arc<AtomicUsize>,
    operations: Arc<AtomicUsize>,
}

impl RunningLoad {
    /// Starts the clients. Times are relative to `start`.
    pub fn start(plan: &LoadPlan, target: &HttpTarget, start: Instant) -> Self {
        let finished = Arc::new(AtomicUsize::new(0));
        let operations = Arc::new(AtomicUsize::new(0));
        // Loads of the same run have different traces.
        let seed = plan.prefix.bytes().fold(plan.seed, |seed, byte| {
            seed.wrapping_mul(257).wrapping_add(byte.into())
        });
        let clients = (0..plan.clients).map(|number| {
            let share = plan.operations / plan.clients
                + usize::from(number < plan.operations % plan.clients);
            let client = LoadClient {
                number,
                role: ClientRole::of(number),
                tool: plan.tool,
                attempts: plan.attempts,
                prefix: plan.prefix,
                random: SeededRandom::part(seed, number as u64),
                client: McpClient::new(target.clone(), ClientRole::of(number).generation()),
                start,
                record: LoadRecord::default(),
                count: 0,
            };
            let (finished, operations) = (Arc::clone(&finished), Arc::clone(&operations));
            tokio::spawn(async move {
                let record = client.run(share, &operations).await;
                finished.fetch_add(1, Ordering::SeqCst);
                record
            })
        });
        let clients = clients.collect();
        Self {
            clients,
            finished,
            operations,
        }
    }

    /// Returns true once all clients have finished.
    pub fn is_finished(&self) -> bool {
        self.finished.load(Ordering::SeqCst) == self.clients.len()
    }

    /// Returns the number of operations that have ended.
    pub fn ended_operations(&self) -> usize {
        self.operations.load(Ordering::SeqCst)
    }

    /// Waits for all clients, and returns their calls.
    pub async fn finish(self) -> Result<LoadRecord, String> {
        let mut all = LoadRecord::default();
        for client in self.clients {
            let record = client.await.map_err(|error| error.to_string())?;
            all.attempts.extend(record.attempts);
            all.session_errors.extend(record.session_errors);
            for (operation, count) in record.answers {
                *all.answers.entry(operation).or_default() += count;
            }
        }
        Ok(all)
    }
}

/// The part of the mix that a client plays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClientRole {
    /// Calls of all kinds over the stateless protocol.
    Stateless,
    /// Calls of all kinds in a session.
    Session,
    /// Guarded calls in sessions that read untrusted text at some time.
    Labels,
}

impl ClientRole {
    fn of(number: usize) -> Self {
        match number % 16 {
            0..=10 => ClientRole::Stateless,
            11..=14 => ClientRole::Session,
            _ => ClientRole::Labels,
        }
    }

    fn generation(self) -> ClientGeneration {
        match self {
            ClientRole::Stateless => ClientGeneration::Stateless,
            ClientRole::Session | ClientRole::Labels => ClientGeneration::Sessions,
        }
    }
}

struct LoadClient {
    number: usize,
    role: ClientRole,
    tool: Option<TestTool>,
    attempts: usize,
    prefix: &'static str,
    random: SeededRandom,
    client: McpClient,
    start: Instant,
    record: LoadRecord,
    count: usize,
}

impl LoadClient {
    async fn run(mut self, operations: usize, ended: &AtomicUsize) -> LoadRecord {
        for _ in 0..operations {
            let tool = self.choose_tool();
            self.operate(tool).await;
            ended.fetch_add(1, Ordering::SeqCst);
        }
        self.record
    }

    fn choose_tool(&mut self) -> TestTool {
        if let Some(tool) = self.tool {
            return tool;
        }
        if self.role == ClientRole::Labels {
            // A session that is untrusted for good is of no use after some calls.
            if self.random.once_in(20) {
                self.client.forget_session();
            }
            return match self.random.below(10) {
                0 => TestTool::Untrusted,
                1..=4 => TestTool::Guarded,
                _ => TestTool::Read,
            };
        }
        match self.random.below(100) {
            0..=44 => TestTool::Read,
            45..=59 => TestTool::Write,
            60..=89 => TestTool::Effect,
            90..=94 => TestTool::Approved,
            _ => TestTool::Limited,
        }
    }

    fn arguments(&mut self, tool: TestTool, operation: &str) -> Value {
        match tool {
            TestTool::Read => json!({"path": "notes.md"}),
            TestTool::Write => json!({
                "path": format!("written/{}.txt", self.number),
                "content": format!("client {}\n", self.number),
            }),
            TestTool::Untrusted => json!({}),
            TestTool::Work => json!({"rounds": 1000}),
            _ => {
                // Some calls take their time, so that faults meet them before and after their effect.
                let mut wait = |often: u64, most: u64| match self.random.once_in(often) {
                    true => self.random.below(most),
                    false => 0,
                };
                let (before, after) = (wait(10, 300), wait(10, 300));
                json!({"operation": operation, "beforeMs": before, "afterMs": after})
            }
        }
    }

    /// Calls a tool until it is answered, or until another attempt could run it twice.
    async fn operate(&mut self, tool: TestTool) {
        self.count += 1;
        let operation = format!("{}-{}-{}", self.prefix, self.number, self.count);
        let arguments = self.arguments(tool, &operation);
        for attempt in 0..self.attempts {
            if let Err(error) = self.client.initialize().await {
                self.record.session_errors.push(error);
                self.pause(attempt, None).await;
                continue;
            }
            let trace = format!("{:016x}{:016x}", self.random.next(), self.random.next());
            let request = ToolRequest {
                tool,
                arguments: arguments.clone(),
                trace: trace.clone(),
            };
            let session = self.client.session().to_owned();
            let start_ms = self.elapsed_ms();
            let response = self.client.call(&request).await;
            if response.approvals > 0 {
                let answers = self.record.answers.entry(operation.clone()).or_default();
                *answers += response.approvals;
            }
            let recorded = CallAttempt {
                client: self.number,
                session,
                tool,
                operation: operation.clone(),
                trace,
                start_ms,
                end_ms: self.elapsed_ms(),
                answer: response.answer.clone(),
            };
            let next = next_step(&recorded, &response);
            self.record.attempts.push(recorded);
            match next {
                NextStep::Done => return,
                NextStep::Again { new_session } => {
                    if new_session {
                        self.client.forget_session();
                    }
                    self.pause(attempt, response.retry_after).await;
                }
            }
        }
    }

    async fn pause(&mut self, attempt: usize, retry_after: Option<Duration>) {
        let backoff = Duration::from_millis(50 << attempt.min(6)).min(BACKOFF_MAX);
        let pause = retry_after.unwrap_or(backoff).min(BACKOFF_MAX);
        // Clients that were refused together do not come back together.
        let spread = 0.5 + self.random.unit();
        tokio::time::sleep(pause.mul_f64(spread)).await;
    }

    fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// The next step of a client after an attempt.
enum NextStep {
    Done,
    Again { new_session: bool },
}

fn next_step(attempt: &CallAttempt, response: &ToolResponse) -> NextStep {
    let again = NextStep::Again { new_session: false };
    match &response.answer {
        ClientAnswer::Done { .. } => NextStep::Done,
        ClientAnswer::Failed {
            code, may_have_run, ..
        } => {
            let is_busy = code == "UNAVAILABLE" || code == "LIMIT_EXCEEDED";
            let is_certain = !may_have_run || attempt.tool.is_repeatable();
            match is_busy && is_certain && attempt.tool != TestTool::Limited {
                true => again,
                false => NextStep::Done,
            }
        }
        // The session is unknown: the server did not take the request.
        ClientAnswer::Rejected(text) if text.starts_with("HTTP 404") => {
            NextStep::Again { new_session: true }
        }
        ClientAnswer::Rejected(_) | ClientAnswer::Unknown(_) => {
            match attempt.tool.is_repeatable() || attempt.has_surely_not_run() {
                true => again,
                false => NextStep::Done,
            }
        }
    }
}
