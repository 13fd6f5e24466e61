//! A clean history passes, and each planted violation is found by its rule and by no other.

use super::*;
use crate::history::FoundEffect;

/// A history to which calls are added one by one.
#[derive(Default)]
struct HistoryBuilder {
    history: RunHistory,
    now_ms: u64,
}

impl HistoryBuilder {
    /// Adds an attempt without record and effect.
    fn attempt(&mut self, tool: TestTool, operation: &str, answer: ClientAnswer) -> &mut Self {
        let count = self.history.attempts.len();
        self.history.attempts.push(CallAttempt {
            client: 1,
            session: "s".to_owned(),
            tool,
            operation: operation.to_owned(),
            trace: format!("trace-{count}"),
            start_ms: self.now_ms,
            end_ms: self.now_ms + 5,
            answer,
        });
        self.now_ms += 10;
        self
    }

    /// Adds a line about the newest attempt to the chain of a writer.
    fn line(&mut self, writer: &str, kind: RecordKind, code: Option<&str>) -> &mut Self {
        let attempt = self.history.attempts.last().unwrap();
        let chain = self.history.record.iter();
        let position = chain.filter(|line| line.writer == writer).count() as u64 + 1;
        let line = RecordLine {
            writer: writer.to_owned(),
            position,
            kind,
            id: format!("id-{}", attempt.trace),
            trace: attempt.trace.clone(),
            tool: attempt.tool.name().to_owned(),
            ok: kind == RecordKind::Outcome && code.is_none(),
            code: code.map(str::to_owned),
            may_have_run: code == Some("UNAVAILABLE"),
            time_ms: attempt.start_ms,
            duration_ms: Some(5),
            detail: String::new(),
            is_nested: false,
        };
        self.history.record.push(line);
        self
    }

    /// Adds an effect of the newest attempt.
    fn effect(&mut self, worker: &str) -> &mut Self {
        let operation = self.history.attempts.last().unwrap().operation.clone();
        self.history.effects.push(FoundEffect {
            worker: worker.to_owned(),
            operation,
        });
        self
    }

    /// Adds a call of a tool with an effect that ran and was answered.
    fn run(&mut self, tool: TestTool, operation: &str) -> &mut Self {
        self.attempt(tool, operation, done())
            .line("w1", RecordKind::Announced, None)
            .line("w1", RecordKind::Outcome, None)
            .effect("w1")
    }

    fn broken(&self) -> Vec<Promise> {
        let mut promises: Vec<_> = check(&self.history)
            .iter()
            .map(|broken| broken.promise)
            .collect();
        promises.sort_unstable();
        promises.dedup();
        promises
    }
}

fn done() -> ClientAnswer {
    ClientAnswer::Done { untrusted: false }
}

fn failed(code: &str, may_have_run: bool) -> ClientAnswer {
    ClientAnswer::Failed {
        code: code.to_owned(),
        may_have_run,
        recorded: false,
        message: String::new(),
    }
}

/// A history with every kind of correct call.
fn clean() -> HistoryBuilder {
    let mut builder = HistoryBuilder::default();
    builder.history.answers.insert("approved".to_owned(), 1);
    builder.history.calls_per_minute = Some(2);
    builder
        .attempt(TestTool::Read, "read", done())
        .line("w1", RecordKind::Outcome, None);
    // The first worker was lost, after it had recorded the call.
    builder
        .attempt(TestTool::Read, "read-again", done())
        .line("w1", RecordKind::Outcome, None)
        .line("w2", RecordKind::Outcome, None);
    builder.run(TestTool::Effect, "effect");
    builder.run(TestTool::Approved, "approved");
    builder.run(TestTool::Guarded, "guarded");
    builder
        .run(TestTool::Limited, "limited-1")
        .run(TestTool::Limited, "limited-2");
    builder
        .attempt(
            TestTool::Limited,
            "limited-3",
            failed("LIMIT_EXCEEDED", false),
        )
        .line("w2", RecordKind::Outcome, Some("LIMIT_EXCEEDED"));
    // Refused by a worker that was lost, and by the next one.
    builder
        .attempt(
            TestTool::Limited,
            "limited-4",
            failed("LIMIT_EXCEEDED", false),
        )
        .line("w1", RecordKind::Outcome, Some("LIMIT_EXCEEDED"))
        .line("w2", RecordKind::Outcome, Some("LIMIT_EXCEEDED"));
    // Waited for an approval at a server that was lost.
    builder
        .attempt(TestTool::Effect, "asked", failed("UNAVAILABLE", false))
        .line("w1", RecordKind::Outcome, Some("CANCELLED"));
    // Announced after the worker had given up, and done by the next attempt.
    builder
        .attempt(TestTool::Effect, "late", failed("UNAVAILABLE", false))
        .line("w1", RecordKind::Announced, None)
        .line("w1", RecordKind::Outcome, Some("UNAVAILABLE"));
    builder.history.record.last_mut().unwrap().may_have_run = false;
    builder.run(TestTool::Effect, "late");
    // A lost worker, with and without an effect, and closed by another node.
    for operation in ["lost", "lost-before"] {
        builder
            .attempt(TestTool::Effect, operation, failed("UNAVAILABLE", true))
            .line("w3", RecordKind::Announced, None)
            .line("w3", RecordKind::Outcome, Some("UNAVAILABLE"));
    }
    builder.effect("w3").line("w3", RecordKind::Closed, None);
    // Refused without a record, then done by the next attempt.
    builder.attempt(TestTool::Effect, "retried", failed("UNAVAILABLE", false));
    builder.run(TestTool::Effect, "retried");
    // The client's own server was lost.
    builder
        .attempt(
            TestTool::Effect,
            "cut",
            ClientAnswer::Unknown("closed".to_owned()),
        )
        .line("w1", RecordKind::Announced, None)
        .line("w1", RecordKind::Outcome, None)
        .effect("w1");
    builder
        .attempt(
            TestTool::Untrusted,
            "untrusted",
            ClientAnswer::Done { untrusted: true },
        )
        .line("w1", RecordKind::Announced, None)
        .line("w1", RecordKind::Outcome, None);
    builder
        .attempt(
            TestTool::Guarded,
            "guarded-later",
            failed("APPROVAL_DENIED", false),
        )
        .line("w1", RecordKind::Outcome, Some("APPROVAL_DENIED"));
    builder
}

#[test]
fn clean_history_keeps_all_promises() {
    assert_eq!(check(&clean().history), Vec::new());
}

#[test]
fn answer_without_record_is_found() {
    let mut builder = clean();
    builder.attempt(TestTool::Read, "x", done());
    assert_eq!(builder.broken(), [Promise::AnswerOnRecord]);
}

#[test]
fn refusal_without_record_is_found_unless_the_record_was_unavailable() {
    let mut builder = clean();
    builder.attempt(TestTool::Effect, "x", failed("POLICY_DENIED", false));
    assert_eq!(builder.broken(), [Promise::AnswerOnRecord]);
}

#[test]
fn answer_with_another_code_than_the_record_is_found() {
    let mut builder = clean();
    builder
        .attempt(TestTool::Read, "x", failed("EXECUTION_ERROR", false))
        .line("w1", RecordKind::Outcome, Some("TIMEOUT"));
    assert_eq!(builder.broken(), [Promise::AnswerOnRecord]);
}

#[test]
fn two_outcomes_of_one_call_are_found() {
    let mut builder = clean();
    builder
        .run(TestTool::Effect, "x")
        .line("w1", RecordKind::Outcome, None);
    assert_eq!(
        builder.broken(),
        [Promise::AnswerOnRecord, Promise::OneOutcome]
    );
}

#[test]
fn announced_call_without_outcome_is_found() {
    let mut builder = clean();
    builder
        .attempt(
            TestTool::Effect,
            "x",
            ClientAnswer::Unknown("closed".to_owned()),
        )
        .line("w1", RecordKind::Announced, None);
    assert_eq!(builder.broken(), [Promise::OneOutcome]);
}

#[test]
fn outcome_before_its_announcement_is_found() {
    let mut builder = clean();
    builder
        .attempt(TestTool::Effect, "x", done())
        .line("w1", RecordKind::Outcome, None)
        .line("w1", RecordKind::Announced, None)
        .effect("w1");
    assert_eq!(builder.broken(), [Promise::OneOutcome]);
}

#[test]
fn second_run_on_another_worker_is_found() {
    let mut builder = clean();
    builder.run(TestTool::Effect, "x").effect("w2");
    assert_eq!(builder.broken(), [Promise::OneRun]);
}

#[test]
fn run_after_a_refusal_that_excluded_it_is_found() {
    let mut builder = clean();
    builder
        .attempt(TestTool::Effect, "x", failed("UNAVAILABLE", false))
        .line("w1", RecordKind::Announced, None)
        .line("w1", RecordKind::Outcome, Some("UNAVAILABLE"))
        .effect("w1");
    assert_eq!(builder.broken(), [Promise::OneRun]);
}

#[test]
fn effect_whose_record_excludes_a_run_is_found() {
    let mut builder = clean();
    builder
        .attempt(TestTool::Effect, "x", failed("UNAVAILABLE", true))
        .line("w1", RecordKind::Announced, None)
        .line("w1", RecordKind::Outcome, Some("UNAVAILABLE"))
        .effect("w1");
    assert_eq!(builder.broken(), []);
    builder.history.record.last_mut().unwrap().may_have_run = false;
    assert_eq!(builder.broken(), [Promise::OneRun]);
}

#[test]
fn effect_that_was_not_announced_is_found() {
    let mut builder = clean();
    builder
        .attempt(TestTool::Effect, "x", done())
        .line("w1", RecordKind::Outcome, None)
        .effect("w1");
    assert_eq!(builder.broken(), [Promise::OneRun]);
}

#[test]
fn effect_that_no_client_called_is_found() {
    let mut builder = clean();
    builder.history.effects.push(FoundEffect {
        worker: "w1".to_owned(),
        operation: "stranger".to_owned(),
    });
    assert_eq!(builder.broken(), [Promise::OneRun]);
}

#[test]
fn success_without_effect_is_found() {
    let mut builder = clean();
    builder.run(TestTool::Effect, "x");
    builder.history.effects.pop();
    assert_eq!(builder.broken(), [Promise::EffectOfSuccess]);
}

#[test]
fn approval_used_twice_is_found() {
    let mut builder = clean();
    builder
        .attempt(
            TestTool::Approved,
            "approved",
            ClientAnswer::Unknown("closed".to_owned()),
        )
        .line("w2", RecordKind::Announced, None)
        .line("w2", RecordKind::Outcome, Some("UNAVAILABLE"));
    assert_eq!(builder.broken(), [Promise::OneRun, Promise::OnceIsOnce]);
}

#[test]
fn approved_call_without_answer_is_found() {
    let mut builder = clean();
    builder.run(TestTool::Approved, "x");
    assert_eq!(builder.broken(), [Promise::OnceIsOnce]);
}

#[test]
fn gap_in_a_chain_is_found() {
    let mut builder = clean();
    builder.run(TestTool::Effect, "x");
    builder
        .history
        .record
        .retain(|line| (line.writer.as_str(), line.position) != ("w1", 3));
    assert!(builder.broken().contains(&Promise::RecordVerifies));
}

#[test]
fn line_after_the_end_of_a_chain_is_found() {
    let mut builder = clean();
    builder
        .attempt(TestTool::Effect, "x", done())
        .line("w3", RecordKind::Announced, None)
        .line("w3", RecordKind::Outcome, None)
        .effect("w3");
    assert_eq!(builder.broken(), [Promise::RecordVerifies]);
}

#[test]
fn failed_verification_is_reported() {
    let mut builder = clean();
    builder
        .history
        .verify_errors
        .push("line 7 was changed".to_owned());
    assert_eq!(builder.broken(), [Promise::RecordVerifies]);
}

#[test]
fn call_over_the_limit_is_found() {
    let mut builder = clean();
    builder.run(TestTool::Limited, "x");
    assert_eq!(builder.broken(), [Promise::LimitHolds]);
    // A minute later, it is within the limit.
    let mut builder = clean();
    builder.now_ms += 60_000;
    builder.run(TestTool::Limited, "x");
    assert_eq!(builder.broken(), []);
}

#[test]
fn guarded_call_after_untrusted_text_is_found() {
    let mut builder = clean();
    builder.run(TestTool::Guarded, "x");
    assert_eq!(builder.broken(), [Promise::LabelsStay]);
}

#[test]
fn guarded_call_in_a_new_session_is_clean() {
    let mut builder = clean();
    // The client starts a new session, since the server did not know the one that has read untrusted text.
    let unknown = ClientAnswer::Rejected("HTTP 404: session not found".to_owned());
    builder.attempt(TestTool::Guarded, "x", unknown);
    builder.run(TestTool::Guarded, "x");
    builder.history.attempts.last_mut().unwrap().session = "new".to_owned();
    assert_eq!(builder.broken(), []);
}
