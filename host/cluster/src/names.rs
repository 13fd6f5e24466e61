//! The names of subjects, buckets and streams. Permissions of keys are given by these names, so they are all here.

use mimir_core::shared_state::StateArea;

/// Name of the stream of the audit log.
pub(crate) const AUDIT_STREAM: &str = "MIMIR_AUDIT";

/// Name of the stream of components and other objects.
pub(crate) const OBJECT_STREAM: &str = "MIMIR_OBJECTS";

/// Subjects of the audit log of all writers.
pub(crate) const AUDIT_SUBJECTS: &str = "mimir.audit.*";

/// Subject of the lines about removals from the audit log, and the name of their writer. Only administrators may publish
/// to it. It is not the name of a process, since it has a `.`.
pub(crate) const AUDIT_RETENTION: &str = "mimir.retention";

/// Subjects of all objects.
pub(crate) const OBJECT_SUBJECTS: &str = "mimir.objects.*.*";

/// Returns the key-value bucket of an area.
pub(crate) fn bucket(area: StateArea) -> String {
    format!("MIMIR_{}", area.as_str().to_uppercase())
}

/// Returns the stream of the bucket of an area.
pub(crate) fn bucket_stream(area: StateArea) -> String {
    format!("KV_{}", bucket(area))
}

/// Returns the subject of a key of an area, or with `>` of all keys.
pub(crate) fn state_subject(area: StateArea, key: &str) -> String {
    format!("$KV.{}.{key}", bucket(area))
}

/// Prefix of the subjects of the audit log of processes.
const AUDIT_PREFIX: &str = "mimir.audit.";

/// Returns the subject of the audit log of one writer.
pub(crate) fn audit_subject(writer: &str) -> String {
    if writer == AUDIT_RETENTION {
        return writer.to_owned();
    }
    format!("{AUDIT_PREFIX}{writer}")
}

/// Returns the writer of a subject of the audit log.
pub(crate) fn audit_writer(subject: &str) -> Option<&str> {
    if subject == AUDIT_RETENTION {
        return Some(subject);
    }
    subject.strip_prefix(AUDIT_PREFIX)
}

/// Returns the subject of a part of an object: the number of a chunk, or `end`.
pub(crate) fn object_subject(digest: &str, part: &str) -> String {
    format!("mimir.objects.{digest}.{part}")
}

/// Returns the subject of calls for one worker, or with `*` for all.
pub(crate) fn worker_calls(node: &str) -> String {
    format!("mimir.worker.{node}.call")
}

/// Returns the subject of cancellations and ended sessions for one worker.
pub(crate) fn worker_control(node: &str) -> String {
    format!("mimir.worker.{node}.control")
}

/// Returns the subject to which workers send the frames of one call. Workers may publish here and nowhere else near a
/// front, so that they cannot forge the answers of NATS to it. A worker refuses calls with any other reply subject: a
/// client that may read a stream could otherwise have NATS deliver its messages as calls ([`is_call_reply`]).
pub(crate) fn call_reply(front: &str, call: &str) -> String {
    format!("mimir.reply.{front}.{call}")
}

/// Returns true if frames of a call may be sent to this subject.
pub(crate) fn is_call_reply(subject: &str) -> bool {
    subject
        .strip_prefix("mimir.reply.")
        .is_some_and(|rest| rest.split('.').count() == 2 && !rest.split('.').any(str::is_empty))
}

/// Returns true for a message that JetStream delivers from a stream. A key that may read a stream can have its messages
/// delivered to subjects that the key may not publish to, so such messages are ignored where only servers may send.
pub(crate) fn is_stored(message: &async_nats::Message) -> bool {
    let reply = message.reply.as_ref();
    reply.is_some_and(|reply| reply.as_str().starts_with("$JS."))
}

/// Returns the subject of messages from other servers of clients to this one.
pub(crate) fn front_messages(node: &str) -> String {
    format!("mimir.front.{node}.message")
}

/// Returns the prefix of the inboxes of a key. Only its owner may subscribe to them, so that processes cannot read the
/// answers to each other.
pub(crate) fn inbox_prefix(public_key: &str) -> String {
    format!("_INBOX_{public_key}")
}

/// Returns true if a text can be one part of a subject, without wildcards.
pub(crate) fn is_token(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}
