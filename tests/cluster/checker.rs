//! The checker: promises of the cluster as pure functions over the history of a run.
//!
//! Each rule returns the violations that it finds. A rule that cannot fail proves nothing, so `tests.rs` plants a
//! violation of each.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::history::{CallAttempt, ClientAnswer, RecordKind, RecordLine, RunHistory, TestTool};

#[cfg(test)]
mod tests;

/// A promise of the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Promise {
    /// An answered call has exactly one outcome on record, with the code that the client saw.
    AnswerOnRecord,
    /// An announced call has exactly one outcome.
    OneOutcome,
    /// A call that is not repeatable ran at most once, and its record says that it may have run.
    OneRun,
    /// A successful call has had its effect.
    EffectOfSuccess,
    /// An approval for one call was used for one call.
    OnceIsOnce,
    /// The chains of the audit record are complete.
    RecordVerifies,
    /// No more calls ran within a minute than the limit.
    LimitHolds,
    /// A session that has read untrusted text stays untrusted.
    LabelsStay,
}

/// A broken promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokenPromise {
    /// The promise.
    pub promise: Promise,
    /// The calls concerned, and the facts.
    pub text: String,
}

impl fmt::Display for BrokenPromise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.promise, self.text)
    }
}

/// The window of limits.
const WINDOW_MS: u64 = 60_000;

/// Checks all promises.
pub fn check(history: &RunHistory) -> Vec<BrokenPromise> {
    let facts = RunFacts::new(history);
    let rules: [fn(&RunFacts<'_>, &mut Vec<BrokenPromise>); 8] = [
        answers_are_on_record,
        announced_calls_have_one_outcome,
        calls_ran_at_most_once,
        successes_have_effects,
        approvals_are_used_once,
        record_verifies,
        limits_hold,
        labels_stay,
    ];
    let mut broken = Vec::new();
    for rule in rules {
        rule(&facts, &mut broken);
    }
    broken
}

/// The history with indexes.
struct RunFacts<'a> {
    history: &'a RunHistory,
    /// Attempts by operation.
    operations: BTreeMap<&'a str, Vec<&'a CallAttempt>>,
    /// Outcomes by trace.
    outcomes_by_trace: BTreeMap<&'a str, Vec<&'a RecordLine>>,
    /// Announcements by trace, except of calls that have not run by their outcome.
    announced_by_trace: BTreeMap<&'a str, Vec<&'a RecordLine>>,
    /// Outcomes by writer and id.
    outcomes_by_call: BTreeMap<(&'a str, &'a str), &'a RecordLine>,
    /// Number of effects by operation.
    effects: BTreeMap<&'a str, Vec<&'a str>>,
}

impl<'a> RunFacts<'a> {
    fn new(history: &'a RunHistory) -> Self {
        let mut facts = Self {
            history,
            operations: BTreeMap::new(),
            outcomes_by_trace: BTreeMap::new(),
            announced_by_trace: BTreeMap::new(),
            outcomes_by_call: BTreeMap::new(),
            effects: BTreeMap::new(),
        };
        for attempt in &history.attempts {
            let attempts = facts.operations.entry(&attempt.operation).or_default();
            attempts.push(attempt);
        }
        let mut announced = Vec::new();
        for line in &history.record {
            if line.trace.is_empty() || line.is_nested {
                continue;
            }
            match line.kind {
                RecordKind::Outcome => {
                    let outcomes = facts.outcomes_by_trace.entry(&line.trace).or_default();
                    outcomes.push(line);
                    facts
                        .outcomes_by_call
                        .insert((&line.writer, &line.id), line);
                }
                RecordKind::Announced => announced.push(line),
                RecordKind::Closed | RecordKind::Other => {}
            }
        }
        for line in announced {
            // The announcement may be stored after the worker has given up.
            let has_not_run = facts.outcome_of(line).is_some_and(|outcome| {
                outcome.code.as_deref() == Some("UNAVAILABLE") && !outcome.may_have_run
            });
            if !has_not_run {
                let announced = facts.announced_by_trace.entry(&line.trace).or_default();
                announced.push(line);
            }
        }
        for effect in &history.effects {
            let workers = facts.effects.entry(&effect.operation).or_default();
            workers.push(&effect.worker);
        }
        facts
    }

    fn outcomes(&self, attempt: &CallAttempt) -> &[&'a RecordLine] {
        let outcomes = self.outcomes_by_trace.get(attempt.trace.as_str());
        outcomes.map_or(&[], Vec::as_slice)
    }

    /// Returns the outcome of an announced call.
    fn outcome_of(&self, announcement: &RecordLine) -> Option<&'a RecordLine> {
        let call = (announcement.writer.as_str(), announcement.id.as_str());
        self.outcomes_by_call.get(&call).copied()
    }

    fn announced(&self, attempt: &CallAttempt) -> &[&'a RecordLine] {
        let announced = self.announced_by_trace.get(attempt.trace.as_str());
        announced.map_or(&[], Vec::as_slice)
    }
}

fn report(broken: &mut Vec<BrokenPromise>, promise: Promise, text: String) {
    broken.push(BrokenPromise { promise, text });
}

/// Describes an attempt for messages.
fn describe(attempt: &CallAttempt) -> String {
    format!(
        "{} {} of client {} (trace {}, {} to {} ms) was answered with {:?}",
        attempt.tool.name(),
        attempt.operation,
        attempt.client,
        attempt.trace,
        attempt.start_ms,
        attempt.end_ms,
        attempt.answer
    )
}

/// Describes lines of the record for messages.
fn describe_lines(lines: &[&RecordLine]) -> String {
    let lines = lines.iter().map(|line| {
        let code = line
            .code
            .as_deref()
            .unwrap_or(if line.ok { "ok" } else { "-" });
        format!(
            "{}#{} id {} {code} {}",
            line.writer, line.position, line.id, line.detail
        )
    });
    format!("[{}]", lines.collect::<Vec<_>>().join("; "))
}

/// Returns true if an answer may mean that no record could be written.
fn is_unavailable(answer: &ClientAnswer) -> bool {
    matches!(answer, ClientAnswer::Failed { code, .. } if code == "UNAVAILABLE")
}

/// Returns true if several outcomes of an attempt are the record of a call that was sent again: a repeatable one, or one
/// that was refused before it ran. Each of them was recorded by another process.
fn may_have_outcomes(facts: &RunFacts<'_>, attempt: &CallAttempt) -> bool {
    let outcomes = facts.outcomes(attempt);
    let writers: BTreeSet<&str> = outcomes.iter().map(|line| line.writer.as_str()).collect();
    let is_distinct = writers.len() == outcomes.len();
    let is_harmless = attempt.tool.is_repeatable() || facts.announced(attempt).len() <= 1;
    outcomes.len() <= 1 || (is_distinct && is_harmless)
}

/// Returns true if an outcome is the record of what the client was told.
fn matches_answer(facts: &RunFacts<'_>, attempt: &CallAttempt, line: &RecordLine) -> bool {
    match &attempt.answer {
        ClientAnswer::Done { .. } => line.ok,
        // The outcome was recorded, and its content lost with a process; or the call was still running at a worker that
        // did not answer.
        ClientAnswer::Failed {
            may_have_run: true, ..
        } => true,
        // The server that waited for an approval was lost, and its worker recorded that the call has not run.
        ClientAnswer::Failed { code, .. }
            if code == "UNAVAILABLE" && facts.announced(attempt).is_empty() =>
        {
            !line.ok
        }
        ClientAnswer::Failed { code, .. } => line.code.as_ref() == Some(code),
        // Nothing was promised to the client.
        ClientAnswer::Rejected(_) | ClientAnswer::Unknown(_) => true,
    }
}

fn answers_are_on_record(facts: &RunFacts<'_>, broken: &mut Vec<BrokenPromise>) {
    for attempt in &facts.history.attempts {
        let outcomes = facts.outcomes(attempt);
        let needs_record = match &attempt.answer {
            ClientAnswer::Done { .. } => true,
            ClientAnswer::Failed { .. } => !is_unavailable(&attempt.answer),
            ClientAnswer::Rejected(_) | ClientAnswer::Unknown(_) => false,
        };
        let is_recorded = outcomes
            .iter()
            .any(|line| matches_answer(facts, attempt, line))
            || (outcomes.is_empty() && !needs_record);
        if !is_recorded || !may_have_outcomes(facts, attempt) {
            let text = format!(
                "{}, but the record has {}",
                describe(attempt),
                describe_lines(outcomes)
            );
            report(broken, Promise::AnswerOnRecord, text);
        }
    }
}

fn announced_calls_have_one_outcome(facts: &RunFacts<'_>, broken: &mut Vec<BrokenPromise>) {
    /// The announcements and the outcomes of a call.
    type CallLines<'a> = (Vec<&'a RecordLine>, Vec<&'a RecordLine>);
    let mut calls: BTreeMap<(&str, &str), CallLines<'_>> = BTreeMap::new();
    for line in &facts.history.record {
        let call = (line.writer.as_str(), line.id.as_str());
        match line.kind {
            RecordKind::Announced => calls.entry(call).or_default().0.push(line),
            RecordKind::Outcome => calls.entry(call).or_default().1.push(line),
            RecordKind::Closed | RecordKind::Other => {}
        }
    }
    for ((writer, id), (announced, outcomes)) in &calls {
        let is_ordered = || announced[0].position < outcomes[0].position;
        let is_right = match announced.len() {
            0 => outcomes.len() == 1,
            1 => outcomes.len() == 1 && is_ordered(),
            _ => false,
        };
        if !is_right {
            let text = format!(
                "call {id} of writer {writer} was announced as {} and has the outcomes {}",
                describe_lines(announced),
                describe_lines(outcomes)
            );
            report(broken, Promise::OneOutcome, text);
        }
    }
}

fn calls_ran_at_most_once(facts: &RunFacts<'_>, broken: &mut Vec<BrokenPromise>) {
    for (operation, workers) in &facts.effects {
        let Some(attempts) = facts.operations.get(operation) else {
            let text = format!("{operation} had an effect in {workers:?}, but no client called it");
            report(broken, Promise::OneRun, text);
            continue;
        };
        let described = || {
            attempts
                .iter()
                .map(|attempt| describe(attempt))
                .collect::<Vec<_>>()
        };
        if workers.len() > 1 {
            let text = format!(
                "{operation} ran {} times, in {workers:?}: {:#?}",
                workers.len(),
                described()
            );
            report(broken, Promise::OneRun, text);
        }
        if attempts.iter().all(|attempt| attempt.has_surely_not_run()) {
            let text = format!(
                "{operation} had an effect in {workers:?}, but its client was told that it did not run: {:#?}",
                described()
            );
            report(broken, Promise::OneRun, text);
        }
        let announced = attempts
            .iter()
            .map(|attempt| facts.announced(attempt).len())
            .sum::<usize>();
        if announced != 1 {
            let text = format!(
                "{operation} had an effect in {workers:?}, but {announced} announced runs: {:#?}",
                described()
            );
            report(broken, Promise::OneRun, text);
        }
    }
}

fn successes_have_effects(facts: &RunFacts<'_>, broken: &mut Vec<BrokenPromise>) {
    for (operation, attempts) in &facts.operations {
        let Some(first) = attempts.first() else {
            continue;
        };
        if !first.tool.has_effect() || facts.effects.contains_key(operation) {
            continue;
        }
        for attempt in attempts {
            let is_done = matches!(attempt.answer, ClientAnswer::Done { .. });
            let is_recorded = facts.outcomes(attempt).iter().any(|line| line.ok);
            if is_done || is_recorded {
                let text = format!(
                    "{}, on record as {}, but has no effect",
                    describe(attempt),
                    describe_lines(facts.outcomes(attempt))
                );
                report(broken, Promise::EffectOfSuccess, text);
            }
        }
    }
}

fn approvals_are_used_once(facts: &RunFacts<'_>, broken: &mut Vec<BrokenPromise>) {
    for (operation, attempts) in &facts.operations {
        if attempts
            .first()
            .is_none_or(|attempt| attempt.tool != TestTool::Approved)
        {
            continue;
        }
        let answers = facts.history.answers.get(*operation).copied().unwrap_or(0);
        let ran = attempts.iter().map(|attempt| {
            let outcomes = facts.outcomes(attempt);
            let succeeded = outcomes.iter().filter(|line| line.ok).count();
            facts.announced(attempt).len().max(succeeded)
        });
        let runs = ran
            .sum::<usize>()
            .max(facts.effects.get(operation).map_or(0, Vec::len));
        if runs > answers {
            let attempts = attempts.iter().map(|attempt| describe(attempt));
            let text = format!(
                "{operation} ran {runs} times with {answers} answers: {:#?}",
                attempts.collect::<Vec<_>>()
            );
            report(broken, Promise::OnceIsOnce, text);
        }
    }
}

fn record_verifies(facts: &RunFacts<'_>, broken: &mut Vec<BrokenPromise>) {
    for error in &facts.history.verify_errors {
        report(broken, Promise::RecordVerifies, error.clone());
    }
    let mut positions: BTreeMap<&str, Vec<&RecordLine>> = BTreeMap::new();
    for line in &facts.history.record {
        positions.entry(&line.writer).or_default().push(line);
    }
    for (writer, lines) in positions {
        for pair in lines.windows(2) {
            if pair[1].position != pair[0].position + 1 {
                let text = format!(
                    "writer {writer}: line {} follows line {}",
                    pair[1].position, pair[0].position
                );
                report(broken, Promise::RecordVerifies, text);
            }
            if pair[0].kind == RecordKind::Closed {
                let text = format!("writer {writer}: line {} follows its end", pair[1].position);
                report(broken, Promise::RecordVerifies, text);
            }
        }
    }
}

fn limits_hold(facts: &RunFacts<'_>, broken: &mut Vec<BrokenPromise>) {
    let Some(limit) = facts.history.calls_per_minute else {
        return;
    };
    let refusals = [
        "LIMIT_EXCEEDED",
        "UNAVAILABLE",
        "POLICY_DENIED",
        "INVALID_ARGS",
    ];
    let announced: BTreeSet<(&str, &str)> = (facts.history.record.iter())
        .filter(|line| line.kind == RecordKind::Announced)
        .map(|line| (line.writer.as_str(), line.id.as_str()))
        .collect();
    let ran = facts.history.record.iter().filter(|line| {
        let is_refused = line
            .code
            .as_deref()
            .is_some_and(|code| refusals.contains(&code));
        let is_announced = announced.contains(&(line.writer.as_str(), line.id.as_str()));
        line.kind == RecordKind::Outcome
            && line.tool == TestTool::Limited.name()
            && (is_announced || !is_refused)
    });
    // A call is counted between its arrival and its outcome. The calls that certainly were counted within a minute after
    // an arrival are those that had ended by then.
    let mut times: Vec<(u64, u64)> = ran
        .map(|line| {
            (
                line.time_ms,
                line.time_ms + line.duration_ms.unwrap_or(WINDOW_MS),
            )
        })
        .collect();
    times.sort_unstable();
    for (index, (from, _)) in times.iter().enumerate() {
        let counted = times[index..]
            .iter()
            .filter(|(_, end)| *end < from + WINDOW_MS)
            .count();
        if counted > limit {
            let text = format!(
                "{counted} calls of {} ran within a minute after {from}, and {limit} are allowed",
                TestTool::Limited.name()
            );
            report(broken, Promise::LimitHolds, text);
            return;
        }
    }
}

fn labels_stay(facts: &RunFacts<'_>, broken: &mut Vec<BrokenPromise>) {
    let mut untrusted_since: BTreeMap<&str, u64> = BTreeMap::new();
    for attempt in &facts.history.attempts {
        if attempt.session.is_empty() {
            continue;
        }
        if let ClientAnswer::Done { untrusted: true } = attempt.answer {
            let since = untrusted_since.entry(&attempt.session).or_insert(u64::MAX);
            *since = (*since).min(attempt.end_ms);
        }
    }
    for attempt in &facts.history.attempts {
        let since = untrusted_since.get(attempt.session.as_str());
        let is_later = since.is_some_and(|since| attempt.start_ms > *since);
        if attempt.tool != TestTool::Guarded || !is_later {
            continue;
        }
        // An effect alone may be that of a later attempt in a new session. Each effect has an announced run, see
        // `calls_ran_at_most_once`.
        let has_run = matches!(attempt.answer, ClientAnswer::Done { .. })
            || !facts.announced(attempt).is_empty();
        if has_run {
            let text = format!(
                "{}, although its session {} has read untrusted text before",
                describe(attempt),
                attempt.session
            );
            report(broken, Promise::LabelsStay, text);
        }
    }
}
