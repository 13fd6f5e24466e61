//! Pipeline ports for tests: an in-memory audit log, an approver with a fixed answer, a command runner that only
//! parses.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mimir_core::approval::NoApprovalStore;
use mimir_core::audit::AuditError;
use mimir_core::command::{CommandProgram, CommandRunner, ParsedProgram};
use mimir_core::language_model::NoLanguageModel;
use mimir_core::pipeline::{PipelinePorts, PipelineSnapshot};
use mimir_core::{
    ApprovalAnswer, Approver, AuditEvent, AuditSink, BoxFuture, Card, Pipeline, Redactor, ToolError,
};
use mimir_testkit::Value;
use mimir_wasm::SystemClock;
use parking_lot::Mutex;

/// An in-memory audit log.
#[derive(Default)]
pub struct MemoryAudit(Mutex<Vec<Value>>);

impl MemoryAudit {
    /// Returns the events of a kind, such as `call`.
    pub fn events(&self, kind: &str) -> Vec<Value> {
        let events = self.0.lock();
        let of_kind = events.iter().filter(|event| event["event"] == kind);
        of_kind.cloned().collect()
    }
}

impl AuditSink for MemoryAudit {
    fn record(&self, event: &AuditEvent) -> Result<(), AuditError> {
        let event = serde_json::to_value(event).expect("events are plain data");
        self.0.lock().push(event);
        Ok(())
    }
}

/// An approver with a fixed answer.
pub struct FixedApprover {
    answer: ApprovalAnswer,
    questions: AtomicUsize,
}

impl FixedApprover {
    /// Creates an approver with this answer.
    pub fn new(answer: ApprovalAnswer) -> Arc<Self> {
        let questions = AtomicUsize::new(0);
        Arc::new(Self { answer, questions })
    }

    /// Returns the number of questions so far.
    pub fn questions(&self) -> usize {
        self.questions.load(Ordering::SeqCst)
    }
}

impl Approver for FixedApprover {
    fn ask<'a>(&'a self, _: &'a Card) -> BoxFuture<'a, ApprovalAnswer> {
        self.questions.fetch_add(1, Ordering::SeqCst);
        Box::pin(std::future::ready(self.answer.clone()))
    }
}

/// A command runner that parses programs but cannot run them.
pub struct ParsingRunner;

impl CommandRunner for ParsingRunner {
    fn parse_program(&self, program: &CommandProgram) -> Result<ParsedProgram, ToolError> {
        Ok(mimir_commands::shell::read_script(program)?)
    }

    fn root(&self) -> Option<&str> {
        Some("/work")
    }
}

/// A pipeline with the fakes of this module.
pub struct TestPipeline {
    /// The pipeline.
    pub pipeline: Pipeline,
    /// The recorded events.
    pub audit: Arc<MemoryAudit>,
    /// The approver.
    pub approver: Arc<FixedApprover>,
}

impl TestPipeline {
    /// Creates a pipeline with this snapshot and an approver with this answer.
    pub fn new(snapshot: PipelineSnapshot, answer: ApprovalAnswer) -> Self {
        let audit = Arc::new(MemoryAudit::default());
        let approver = FixedApprover::new(answer);
        let ports = PipelinePorts {
            approver: Arc::clone(&approver) as Arc<_>,
            approval_store: Arc::new(NoApprovalStore),
            vault: Arc::new(Redactor::new()),
            audit: Arc::clone(&audit) as Arc<_>,
            clock: Arc::new(SystemClock),
            runner: Arc::new(ParsingRunner),
            model: Arc::new(NoLanguageModel),
        };
        Self {
            pipeline: Pipeline::new(snapshot, ports),
            audit,
            approver,
        }
    }
}
