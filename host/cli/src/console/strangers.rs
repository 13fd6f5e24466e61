//! Results with content of strangers, and the calls and effects that were decided because of it.

use std::collections::HashMap;

use jiff::Timestamp;
use mimir_core::audit::OutcomeKind;
use serde_json::{Value, json};

use super::recorded_calls::AuditedCall;

/// Maximum number of lines of a session that are compared.
const SESSION_LINES_MAX: usize = 5_000;

/// A line about a call that has read content of strangers, or that was decided because of such content.
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
    /// True if such content was a reason of the decision.
    is_consequence: bool,
    /// The calls that had read such content. Empty in lines of earlier versions.
    reads: Vec<String>,
}

/// A call that has read content of strangers, with the calls that it led to.
#[derive(Debug, Clone)]
pub struct StrangerRead {
    line: TaintedLine,
    led_to: Vec<TaintedLine>,
}

/// The lines about content of strangers, by session.
#[derive(Debug, Default)]
pub struct StrangerTrail(HashMap<String, Vec<TaintedLine>>);

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
    /// Returns true if a later call was decided because of the content.
    pub fn is_relevant(&self) -> bool {
        !self.led_to.is_empty()
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
        value
    }
}

impl StrangerTrail {
    /// Adds a line, if it is about content of strangers. Lines come newest first.
    pub fn add(&mut self, call: &AuditedCall) {
        let is_read = call.trust.is_some() && !call.is_effect();
        let is_consequence = call.is_tainted();
        if !is_read && !is_consequence {
            return;
        }
        let lines = self.0.entry(call.session.clone()).or_default();
        if lines.len() < SESSION_LINES_MAX {
            lines.push(TaintedLine {
                id: call.id.clone(),
                time: call.time,
                tool: call.tool.clone(),
                source: call.source.clone(),
                subject: call.subject(),
                decision: call.decision.clone().unwrap_or_default(),
                outcome: call.outcome(),
                is_read,
                is_consequence,
                reads: call.untrusted_reads.clone(),
            });
        }
    }

    /// Attributes each consequence to the newest content of strangers before it, and returns all reads of such content.
    pub fn into_reads(self) -> Vec<StrangerRead> {
        let mut all = Vec::new();
        for lines in self.0.into_values() {
            let lines = sorted(lines);
            let mut reads: Vec<StrangerRead> = Vec::new();
            let mut by_id: HashMap<String, usize> = HashMap::new();
            for line in lines {
                if line.is_consequence {
                    let named = line.reads.last().and_then(|id| by_id.get(id));
                    let last = reads.len().checked_sub(1);
                    // A call is no consequence of what it has read itself.
                    let last = last.filter(|last| reads[*last].line.id != line.id);
                    if let Some(read) = named.copied().or(last) {
                        let led_to = &mut reads[read].led_to;
                        if led_to.iter().all(|known| known.id != line.id) {
                            led_to.push(line.clone());
                        }
                    }
                }
                if line.is_read {
                    by_id.insert(line.id.clone(), reads.len());
                    reads.push(StrangerRead {
                        line,
                        led_to: Vec::new(),
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
        let mut lines = self.0;
        let lines = sorted(lines.remove(session).unwrap_or_default());
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
            if line.is_consequence && is_caused && led_to.iter().all(|known| known.id != line.id) {
                led_to.push(line.clone());
            }
            if line.is_read {
                last_read = Some(line);
            }
        }
        (before, led_to)
    }
}

/// Sorts lines by time. An effect comes before the line of its call, which is written at its end.
fn sorted(mut lines: Vec<TaintedLine>) -> Vec<TaintedLine> {
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
    fn strangers_content_is_no_cause_of_its_own_call() {
        let mut own = tainted(3, "b", &["a"]);
        own.trust = Some("untrusted".to_owned());
        let reads = trail(&[read(2, "a"), own]).into_reads();
        let relevant: Vec<_> = reads.iter().filter(|read| read.is_relevant()).collect();
        assert_eq!(relevant.len(), 1);
        assert_eq!(relevant[0].line.id, "a");
    }
}
