use mimir_audit::{LineDraft, LogHead};
use serde_json::{Value, json};

use super::super::log_message::{AnnouncedAt, OpenCalls, message_headers};
use super::*;

/// A stream as its writers would write it.
#[derive(Default)]
struct StreamKit {
    heads: BTreeMap<String, LogHead>,
    messages: Vec<AuditMessage>,
}

impl StreamKit {
    fn push(&mut self, writer: &str, events: &[Value]) {
        let mut head = self.heads.get(writer).copied().unwrap_or(LogHead::START);
        let (first, mut payload) = (head.seq + 1, Vec::new());
        for event in events {
            head = LineDraft::new(event)
                .unwrap()
                .seal(&head, &mut payload)
                .unwrap();
        }
        self.heads.insert(writer.to_owned(), head);
        let open = OpenCalls::new(Vec::<AnnouncedAt>::new());
        self.messages.push(AuditMessage {
            writer: writer.to_owned(),
            sequence: self.messages.len() as u64 + 1,
            time: String::new(),
            headers: message_headers(first, &head, writer, &open),
            payload: payload.into(),
        });
    }

    /// A stream with two writers, of which one is closed.
    fn sample() -> Self {
        let mut kit = Self::default();
        kit.push("a", &[opened("a"), announced("1"), announced("2")]);
        kit.push("b", &[opened("b"), outcome("9")]);
        kit.push("a", &[outcome("1")]);
        kit.push("a", &[json!({"event": "effect", "id": "2"})]);
        kit.push("b", &[outcome("8"), announced("7")]);
        kit.push("a", &[outcome("2"), closed("a")]);
        kit
    }
}

fn opened(writer: &str) -> Value {
    json!({"event": "opened", "subject": writer, "ok": true})
}

fn closed(writer: &str) -> Value {
    json!({"event": "closed", "subject": writer, "ok": true})
}

fn announced(id: &str) -> Value {
    json!({"event": "announced", "id": id, "ok": true})
}

fn outcome(id: &str) -> Value {
    json!({"event": "call", "id": id, "ok": true})
}

fn check(messages: &[AuditMessage]) -> ClusterVerifyReport {
    check_noted(messages, None)
}

fn check_noted(messages: &[AuditMessage], noted: Option<&str>) -> ClusterVerifyReport {
    let mut check = ClusterLogCheck::new(noted);
    messages.iter().for_each(|message| check.add(message));
    let live = LiveNodes::from([("b".to_owned(), 5)]);
    check.finish(None, &live)
}

fn faults(messages: &[AuditMessage]) -> Vec<ClusterFault> {
    let mut faults: Vec<_> = check(messages)
        .findings
        .iter()
        .map(|finding| finding.fault)
        .collect();
    faults.sort_unstable();
    faults.dedup();
    faults
}

/// Changes a line of a message, and the hash in its headers, as an attacker would.
fn change_line(message: &mut AuditMessage, from: &str, to: &str) {
    let text = String::from_utf8(message.payload.to_vec()).unwrap();
    assert!(text.contains(from), "{text}");
    message.payload = text.replacen(from, to, 1).into();
    let first = ChainLink::read(message.lines().next().unwrap())
        .unwrap()
        .seq;
    let (head, open) = (message.head().unwrap(), message.open_calls().unwrap());
    message.headers = message_headers(first, &head, &message.writer, &open);
}

#[test]
fn cluster_log_that_is_intact_verifies() {
    let report = check(&StreamKit::sample().messages);
    assert!(report.ok && report.findings.is_empty(), "{report:?}");
    assert_eq!((report.messages, report.lines), (6, 11));
    assert_eq!((report.writers, report.closed_writers), (2, 1));
    assert_eq!((report.announced_calls, report.running_calls), (3, 1));
    assert!(check(&[]).findings.iter().all(|finding| {
        // The live node has written more than there is.
        finding.fault == ClusterFault::Truncated
    }));
}

#[test]
fn cluster_log_noted_head_is_found_later_and_missed_after_a_rewrite() {
    let mut kit = StreamKit::sample();
    let noted = check(&kit.messages[..4]).head.hash.to_string();
    let report = check_noted(&kit.messages, Some(&noted[..16]));
    assert_eq!((report.noted, report.ok), (Some(4), true));
    kit.messages.swap(1, 2);
    kit.messages[1].sequence = 2;
    kit.messages[2].sequence = 3;
    let report = check_noted(&kit.messages, Some(&noted));
    assert_eq!(report.findings[0].fault, ClusterFault::NotNoted);
}

#[test]
fn cluster_log_changed_line_is_found() {
    let intact = check(&StreamKit::sample().messages).head.hash.to_string();
    for index in 0..6 {
        let mut kit = StreamKit::sample();
        let message = &mut kit.messages[index];
        if index == 3 {
            change_line(message, r#""effect""#, r#""approval""#);
        } else {
            change_line(message, r#""ok":true"#, r#""ok":false"#);
        }
        assert_eq!(faults(&kit.messages), [ClusterFault::Changed], "{index}");
    }
    // The newest line of a writer is protected by a noted hash only.
    let mut kit = StreamKit::sample();
    change_line(
        &mut kit.messages[4],
        r#""id":"7","ok":true"#,
        r#""id":"7","ok":null"#,
    );
    assert_eq!(faults(&kit.messages), []);
    let report = check_noted(&kit.messages, Some(&intact));
    assert_eq!(report.findings[0].fault, ClusterFault::NotNoted);
    // Without correct headers.
    let mut kit = StreamKit::sample();
    let text = String::from_utf8(kit.messages[4].payload.to_vec()).unwrap();
    kit.messages[4].payload = text.replace("\"7\"", "\"6\"").into();
    assert_eq!(faults(&kit.messages), [ClusterFault::Changed]);
}

#[test]
fn cluster_log_removed_message_is_found() {
    for index in 1..5 {
        let mut kit = StreamKit::sample();
        kit.messages.remove(index);
        assert!(
            faults(&kit.messages).contains(&ClusterFault::Removed),
            "{index}"
        );
        // With new sequences, as in a stream that was made again, the chain shows the gap.
        for (message, sequence) in kit.messages.iter_mut().zip(1..) {
            message.sequence = sequence;
        }
        assert!(!check(&kit.messages).ok, "{index}");
    }
    // The end, which the live writer knows.
    let kit = StreamKit::sample();
    assert_eq!(
        faults(&kit.messages[..4]),
        [ClusterFault::Truncated, ClusterFault::NoOutcome]
    );
    let extent = StreamExtent {
        first: 1,
        last: 6,
        messages: 6,
        bytes: 0,
    };
    let report = ClusterLogCheck::new(None).finish(Some(extent), &LiveNodes::new());
    assert!(!report.ok, "{report:?}");
}

#[test]
fn cluster_log_reordered_messages_are_found() {
    let mut kit = StreamKit::sample();
    kit.messages.swap(2, 3);
    assert!(faults(&kit.messages).contains(&ClusterFault::Reordered));
    kit.messages[2].sequence = 3;
    kit.messages[3].sequence = 4;
    assert!(faults(&kit.messages).contains(&ClusterFault::Reordered));
}

#[test]
fn cluster_log_second_outcome_is_found() {
    // On the same chain.
    let mut kit = StreamKit::sample();
    kit.push("b", &[outcome("7"), outcome("7")]);
    assert_eq!(faults(&kit.messages), [ClusterFault::SecondOutcome]);
    // By another writer, before and after the first.
    let mut kit = StreamKit::sample();
    kit.push("c", &[opened("c"), outcome("7"), outcome("1")]);
    kit.push("b", &[outcome("7")]);
    let report = check(&kit.messages);
    let second = |finding: &&ClusterFinding| finding.fault == ClusterFault::SecondOutcome;
    assert_eq!(
        report.findings.iter().filter(second).count(),
        2,
        "{report:?}"
    );
    // A call that changes nothing may be sent to another worker, and both may record it.
    let mut kit = StreamKit::sample();
    kit.push("c", &[opened("c"), outcome("9")]);
    let report = check(&kit.messages);
    assert_eq!((report.ok, report.repeated_calls), (true, 1));
}

#[test]
fn cluster_log_call_that_may_have_run_twice_is_found() {
    for writer in ["b", "c"] {
        let mut kit = StreamKit::sample();
        let first = if writer == "c" {
            vec![opened("c"), announced("1"), outcome("1")]
        } else {
            vec![announced("1"), outcome("1")]
        };
        kit.push(writer, &first);
        assert!(faults(&kit.messages).contains(&ClusterFault::AnnouncedTwice));
    }
}

#[test]
fn cluster_log_forged_writers_are_found() {
    // Without an opening line, with the opening line of another writer, and with the name of a path.
    for (writer, events) in [
        ("c", vec![outcome("5")]),
        ("c", vec![opened("a"), outcome("5")]),
        ("../c", vec![opened("../c")]),
    ] {
        let mut kit = StreamKit::sample();
        kit.push(writer, &events);
        assert_eq!(faults(&kit.messages), [ClusterFault::Forged], "{writer}");
    }
    // Lines with a chain of their own on the subject of another writer.
    let mut kit = StreamKit::sample();
    kit.heads.remove("b");
    kit.push("b", &[outcome("5")]);
    assert!(!check(&kit.messages).ok);
    // No line of the log at all.
    let mut kit = StreamKit::sample();
    kit.push("b", &[outcome("5")]);
    kit.messages[6].payload = "hello\n".into();
    assert!(!check(&kit.messages).ok);
}

#[test]
fn cluster_log_ends_of_writers_are_checked() {
    // A writer that goes on after it was closed.
    let mut kit = StreamKit::sample();
    kit.push("a", &[outcome("6")]);
    assert_eq!(faults(&kit.messages), [ClusterFault::AfterClosed]);
    // A closed writer with an open call, and an ended node that nobody has closed.
    let mut kit = StreamKit::sample();
    kit.push("b", &[closed("b")]);
    assert_eq!(faults(&kit.messages), [ClusterFault::NoOutcome]);
    let mut kit = StreamKit::sample();
    kit.push("c", &[opened("c"), announced("5")]);
    assert_eq!(faults(&kit.messages), [ClusterFault::NoOutcome]);
}

#[test]
fn cluster_log_whose_oldest_messages_expired_verifies() {
    let kit = StreamKit::sample();
    let mut check = ClusterLogCheck::new(None);
    kit.messages[2..]
        .iter()
        .for_each(|message| check.add(message));
    let extent = StreamExtent {
        first: 3,
        last: 6,
        messages: 4,
        bytes: 0,
    };
    let live = LiveNodes::from([("b".to_owned(), 5)]);
    let report = check.finish(Some(extent), &live);
    let dropped = |finding: &ClusterFinding| finding.fault == ClusterFault::Dropped;
    assert!(
        report.ok && report.findings.iter().all(dropped),
        "{report:?}"
    );
}

/// The sample after a removal of the messages before 5: the last of `a` and `b` before it are kept.
fn removed_sample() -> (Vec<AuditMessage>, PrunedLog) {
    let kit = StreamKit::sample();
    let head = check(&kit.messages[..4]).head.hash;
    let removed = |message: &AuditMessage| {
        let link = ChainLink::read(message.lines().next().unwrap()).unwrap();
        super::super::retention::RemovedLines {
            line: link.seq - 1,
            hash: link.prev,
        }
    };
    // `a` has one message from 5 on, and `b` also one.
    let writers = BTreeMap::from([
        ("a".to_owned(), removed(&kit.messages[5])),
        ("b".to_owned(), removed(&kit.messages[4])),
    ]);
    let pruned = PrunedLog {
        before: 5,
        head,
        writers,
    };
    (kit.messages, pruned)
}

fn check_removed(
    messages: &[AuditMessage],
    pruned: &PrunedLog,
    noted: Option<&str>,
) -> ClusterVerifyReport {
    let mut check = ClusterLogCheck::after_removal(noted, Some(pruned.clone()));
    messages.iter().for_each(|message| check.add(message));
    let extent = StreamExtent {
        first: messages.first().map_or(7, |message| message.sequence),
        last: 6,
        messages: messages.len() as u64,
        bytes: 0,
    };
    check.finish(Some(extent), &LiveNodes::from([("b".to_owned(), 5)]))
}

#[test]
fn cluster_log_after_a_removal_verifies_at_each_step() {
    let (messages, pruned) = removed_sample();
    let intact = check(&messages).head;
    let noted = pruned.head.to_string();
    // Nothing, some and all of it was removed when the command was killed.
    for kept in [
        &messages[..],
        &messages[1..],
        &messages[2..],
        &messages[4..],
    ] {
        let report = check_removed(kept, &pruned, Some(&noted));
        assert!(report.ok, "{report:?}");
        assert_eq!((report.head, report.noted), (intact, Some(4)));
        let faults: Vec<_> = report.findings.iter().map(|found| found.fault).collect();
        assert!(faults.contains(&ClusterFault::Dropped), "{report:?}");
    }
    let writer_by_writer: Vec<AuditMessage> = [1, 4, 5].map(|at| messages[at].clone()).to_vec();
    assert!(check_removed(&writer_by_writer, &pruned, None).ok);
}

#[test]
fn cluster_log_loss_beyond_a_removal_is_found() {
    let (messages, pruned) = removed_sample();
    let removed = |messages: &[AuditMessage]| {
        let report = check_removed(messages, &pruned, None);
        let mut findings = report.findings.iter();
        findings.any(|found| found.fault == ClusterFault::Removed)
    };
    assert!(removed(&messages[5..]), "all of `b`, and a gap");
    assert!(removed(&[]), "everything");
    assert!(!removed(&messages[4..]));
    // A chain that was made anew does not continue the removed lines.
    let mut other = pruned.clone();
    if let Some(lines) = other.writers.get_mut("a") {
        lines.hash = LineHash::digest_line(b"other");
    }
    assert!(!check_removed(&messages[4..], &other, None).ok);
    if let Some(lines) = other.writers.get_mut("a") {
        lines.line -= 1;
    }
    assert!(!check_removed(&messages[4..], &other, None).ok);
    // A writer that begins late without a removal.
    other.writers.remove("a");
    assert!(!check_removed(&messages[4..], &other, None).ok);
}
