//! Results with content of strangers, and what they led to: the calls of the session after them that were asked about,
//! refused or stopped, or that may have changed something.

use std::collections::HashMap;

use jiff::Timestamp;
use mimir::undo::UndoStore;
use mimir_core::audit::OutcomeKind;
use serde_json::{Value, json};

use super::call_subject::changed_files;
use super::recorded_calls::AuditedCall;

/// Maximum number of lines of a session that are compared.
const SESSION_LINES_MAX: usize = 5_000;

/// A line about a call that has read content of strangers, or that such content may have led to.
#[derive(Debug, Clone)]
pub struct TaintedLine {
    id: String,
    time: Timestamp,
    tool: String,
    source: String,
    subject: Option<String>,
    decision: String,
    outcome: OutcomeKind,
    /// True if the result of the call has content of strangers.
    is_read: bool,
    /// True for a line about an effect of the call.
    is_effect: bool,
    /// True if such content may have led to the call.
    is_consequence: bool,
    /// True if such content was read before, and the call was allowed without a question. It is a consequence only if it
    /// has changed something.
    is_quiet: bool,
    /// The calls that had read such content. Empty in lines of earlier versions.
    reads: Vec<String>,
}

/// A call that has read content of strangers, with the calls that it led to.
#[derive(Debug, Clone)]
pub struct StrangerRead {
    line: TaintedLine,
    led_to: Vec<TaintedLine>,
    /// Number of later calls that were allowed without a question, and are not known to have changed anything.
    others: usize,
}

/// The lines about content of strangers, by session.
#[derive(Debug, Default)]
pub struct StrangerTrail {
    sessions: HashMap<String, Vec<TaintedLine>>,
    /// Number of lines of calls before which such content was read.
    after: usize,
    /// Subjects that calls may have changed, by the ids of the calls.
    changed: HashMap<String, String>,
}

impl TaintedLine {
    /// Returns the line as JSON.
    pub fn value(&self) -> Value {
        json!({
            "callId": self.id,
            "time": format!("{:.3}", self.time),
            "tool": self.tool,
            "subject": self.subject,
            "decision": self.decision,
            "outcome": self.outcome,
        })
    }
}

impl StrangerRead {
    /// Returns true if the content may have led to a later call.
    pub fn is_relevant(&self) -> bool {
        !self.led_to.is_empty()
    }

    /// Adds a later call, which is listed if the content may have led to it, and else counted.
    fn add(&mut self, line: &TaintedLine) {
        if line.is_quiet {
            self.others += 1;
        } else {
            add_line(&mut self.led_to, line);
        }
    }

    /// Returns the time of the call that has read the content.
    pub fn time(&self) -> Timestamp {
        self.line.time
    }

    /// Returns the row of a table, with at most `max` calls that it led to.
    pub fn value(&self, max: usize) -> Value {
        let led_to: Vec<Value> = self
            .led_to
            .iter()
            .take(max)
            .map(TaintedLine::value)
            .collect();
        let mut value = self.line.value();
        value["origin"] = format!("{}:{}", self.line.source, self.line.tool).into();
        value["ledTo"] = led_to.into();
        value["ledToTotal"] = self.led_to.len().into();
        value["others"] = self.others.into();
        value
    }
}

impl StrangerTrail {
    /// Adds a line, if it is about content of strangers, or about a change. Lines come newest first.
    pub fn add(&mut self, call: &AuditedCall) {
        if call.is_change() && self.after > 0 {
            let subject = call.subject().unwrap_or_default();
            self.changed.insert(call.id.clone(), subject);
        }
        let is_read = call.trust.is_some() && !call.is_effect();
        let is_after = !call.untrusted_reads.is_empty() && !call.is_effect();
        let is_consequence = call.is_tainted() || (is_after && call.was_asked_or_refused());
        if !is_read && !is_consequence && !is_after {
            return;
        }
        let is_quiet = is_after && !is_consequence;
        let lines = self.sessions.entry(call.session.clone()).or_default();
        if lines.len() < SESSION_LINES_MAX {
            self.after += usize::from(is_after);
            lines.push(TaintedLine {
                id: call.id.clone(),
                time: call.time,
                tool: call.tool.clone(),
                source: call.source.clone(),
                subject: call.subject(),
                decision: call.decision.clone().unwrap_or_default(),
                outcome: call.outcome(),
                is_read,
                is_effect: call.is_effect(),
                is_consequence,
                is_quiet,
                reads: call.untrusted_reads.clone(),
            });
        }
    }

    /// Notes the files that calls have changed. Add all lines before.
    pub fn add_changes(&mut self, changes: &UndoStore) {
        if self.after == 0 {
            return;
        }
        // Without the records, only commands and requests are known.
        let records = changes.read_history().unwrap_or_default().records;
        for record in records {
            let subject = changed_files(&record).unwrap_or_default();
            self.changed.insert(record.id, subject);
        }
    }

    /// Attributes each consequence to the newest content of strangers before it, and returns all reads of such content.
    pub fn into_reads(self) -> Vec<StrangerRead> {
        let mut all = Vec::new();
        for lines in self.sessions.into_values() {
            let lines = sorted(lines, &self.changed);
            let mut reads: Vec<StrangerRead> = Vec::new();
            let mut by_id: HashMap<String, usize> = HashMap::new();
            for line in lines {
                if line.is_consequence || line.is_quiet {
                    let named = line.reads.last().and_then(|id| by_id.get(id));
                    let last = reads.len().checked_sub(1);
                    // A call is no consequence of what it has read itself.
                    let last = last.filter(|last| reads[*last].line.id != line.id);
                    if let Some(read) = named.copied().or(last) {
                        reads[read].add(&line);
                    }
                }
                if line.is_read {
                    by_id.insert(line.id.clone(), reads.len());
                    reads.push(StrangerRead {
                        line,
                        led_to: Vec::new(),
                        others: 0,
                    });
                }
            }
            all.extend(reads);
        }
        all
    }

    /// Returns the reads before a call of a session, and the calls that its own content may have led to. `reads` are the
    /// reads that its line names.
    pub fn around(
        self,
        session: &str,
        id: &str,
        reads: &[String],
    ) -> (Vec<TaintedLine>, Vec<TaintedLine>) {
        let mut sessions = self.sessions;
        let lines = sorted(sessions.remove(session).unwrap_or_default(), &self.changed);
        let (mut before, mut led_to) = (Vec::new(), Vec::<TaintedLine>::new());
        let mut last_read: Option<&TaintedLine> = None;
        for line in &lines {
            if line.id == id && line.is_consequence && reads.is_empty() {
                before.extend(last_read.cloned());
            }
            if line.is_read && reads.contains(&line.id) {
                before.push(line.clone());
            }
            let is_caused = match line.reads.as_slice() {
                [] => last_read.is_some_and(|read| read.id == id),
                reads => reads.iter().any(|read| read == id),
            };
            if line.is_consequence && is_caused {
                add_line(&mut led_to, line);
            }
            if line.is_read {
                last_read = Some(line);
            }
        }
        (before, led_to)
    }
}

/// Adds a line, once for each call. The line of a call has its outcome, those of its effects may name its subject.
fn add_line(lines: &mut Vec<TaintedLine>, line: &TaintedLine) {
    let Some(known) = lines.iter_mut().find(|known| known.id == line.id) else {
        lines.push(line.clone());
        return;
    };
    let is_better = known.is_effect && !line.is_effect;
    let other = if is_better {
        std::mem::replace(known, line.clone())
    } else {
        line.clone()
    };
    if known.subject.is_none() {
        known.subject = other.subject;
    }
}

/// Sorts lines by time, and marks those of calls in `changed` as consequences. An effect comes before the line of its
/// call, which is written at its end.
fn sorted(mut lines: Vec<TaintedLine>, changed: &HashMap<String, String>) -> Vec<TaintedLine> {
    for line in &mut lines {
        let Some(subject) = changed.get(&line.id) else {
            continue;
        };
        if line.is_quiet {
            (line.is_quiet, line.is_consequence) = (false, true);
        }
        if line.subject.is_none() && !subject.is_empty() {
            line.subject = Some(subject.clone());
        }
    }
    lines.reverse();
    lines.sort_by_key(|line| line.time);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(second: i64, id: &str) -> AuditedCall {
        AuditedCall {
            id: id.to_owned(),
            time: Timestamp::from_second(second).unwrap(),
            session: "s".to_owned(),
            tool: format!("tool_{id}"),
            source: "built-in".to_owned(),
            ok: true,
            ..AuditedCall::default()
        }
    }

    fn read(second: i64, id: &str) -> AuditedCall {
        AuditedCall {
            trust: Some("untrusted".to_owned()),
            ..line(second, id)
        }
    }

    /// A consequence as earlier versions recorded it.
    fn old(second: i64, id: &str) -> AuditedCall {
        AuditedCall {
            rule: Some("taint: untrusted content".to_owned()),
            ..line(second, id)
        }
    }

    fn tainted(second: i64, id: &str, reads: &[&str]) -> AuditedCall {
        AuditedCall {
            rule: Some("web_fetch: ask".to_owned()),
            tainted: true,
            untrusted_reads: reads.iter().map(ToString::to_string).collect(),
            ..line(second, id)
        }
    }

    fn trail(lines: &[AuditedCall]) -> StrangerTrail {
        let mut trail = StrangerTrail::default();
        lines.iter().rev().for_each(|line| trail.add(line));
        trail
    }

    fn ids(lines: &[TaintedLine]) -> Vec<&str> {
        lines.iter().map(|line| line.id.as_str()).collect()
    }

    #[test]
    fn strangers_content_led_to_calls_that_other_rules_decided() {
        let lines = [
            tainted(1, "early", &[]),
            read(2, "a"),
            tainted(3, "x", &["a"]),
            read(4, "b"),
            tainted(5, "y", &["a", "b"]),
            old(6, "z"),
            line(7, "plain"),
        ];
        let mut reads = trail(&lines).into_reads();
        reads.sort_by_key(StrangerRead::time);
        let led_to: Vec<_> = reads
            .iter()
            .map(|read| (read.line.id.as_str(), ids(&read.led_to)))
            .collect();
        assert_eq!(led_to, [("a", vec!["x"]), ("b", vec!["y", "z"])]);
        assert_eq!(reads[1].value(1)["ledToTotal"], 2);
        assert_eq!(reads[1].value(1)["ledTo"].as_array().unwrap().len(), 1);
    }

    #[test]
    fn strangers_content_of_a_call_is_linked_both_ways() {
        let lines = [
            read(2, "a"),
            read(4, "b"),
            tainted(5, "y", &["a", "b"]),
            old(6, "z"),
        ];
        let around = |id: &str, reads: &[&str]| {
            let reads: Vec<String> = reads.iter().map(ToString::to_string).collect();
            let (before, after) = trail(&lines).around("s", id, &reads);
            (ids(&before).join(" "), ids(&after).join(" "))
        };
        assert_eq!(around("y", &["a", "b"]), ("a b".into(), String::new()));
        assert_eq!(around("z", &[]), ("b".into(), String::new()));
        assert_eq!(around("a", &[]), (String::new(), "y".into()));
        assert_eq!(around("b", &[]), (String::new(), "y z".into()));
        let (before, after) = trail(&lines).around("other", "a", &[]);
        assert!(before.is_empty() && after.is_empty());
    }

    #[test]
    fn strangers_content_led_to_what_was_asked_refused_or_changed() {
        let after = |second: i64, id: &str, decision: &str| AuditedCall {
            decision: Some(decision.to_owned()),
            untrusted_reads: vec!["a".to_owned()],
            event: "call".to_owned(),
            ..line(second, id)
        };
        let effect = |second: i64, id: &str, subject: &str| AuditedCall {
            event: "effect".to_owned(),
            subject: Some(subject.to_owned()),
            ..line(second, id)
        };
        let lines = [
            read(2, "a"),
            AuditedCall {
                answer: Some("once".to_owned()),
                ..after(3, "edited", "ask")
            },
            AuditedCall {
                ok: false,
                code: Some("POLICY_DENIED".to_owned()),
                ..after(4, "denied", "deny")
            },
            AuditedCall {
                ok: false,
                code: Some("APPROVAL_DENIED".to_owned()),
                answer: Some("no".to_owned()),
                ..after(5, "said_no", "ask")
            },
            after(6, "read", "allow"),
            effect(7, "ran", "run git"),
            after(7, "ran", "allow"),
            effect(8, "fetched", "GET https://docs.rs"),
            after(8, "fetched", "allow"),
            after(9, "wrote", "allow"),
        ];
        let mut trail = trail(&lines);
        trail.changed.insert("wrote".into(), "a.txt".into());
        let reads = trail.into_reads();
        let value = reads[0].value(10);
        assert_eq!(
            ids(&reads[0].led_to),
            ["edited", "denied", "said_no", "ran", "wrote"]
        );
        assert_eq!(value["others"], 2);
        assert_eq!(value["ledTo"][3]["subject"], "run git");
        assert_eq!(value["ledTo"][4]["subject"], "a.txt");
        let outcomes: Vec<_> = reads[0].led_to.iter().map(|line| line.outcome).collect();
        let refused = OutcomeKind::Refused;
        let ok = OutcomeKind::Ok;
        assert_eq!(outcomes, [ok, refused, refused, ok, ok]);
    }

    #[test]
    fn strangers_content_is_no_cause_of_its_own_call() {
        let mut own = tainted(3, "b", &["a"]);
        own.trust = Some("untrusted".to_owned());
        let reads = trail(&[read(2, "a"), own]).into_reads();
        let relevant: Vec<_> = reads.iter().filter(|read| read.is_relevant()).collect();
        assert_eq!(relevant.len(), 1);
        assert_eq!(relevant[0].line.id, "a");
    }
}
