//! The subjects that each role's key may use. `mimir cluster init` writes them into the configuration of nats-server.
//!
//! Enforced by the servers: only a worker receives calls and only a front sends them; only fronts read the keys of
//! sessions; only an administrator changes the deployment and stops all calls; only a key's owner reads the
//! answers to it; the audit log cannot be changed, and only an administrator removes lines. Not enforced:
//!
//! - Which writer of the audit log a front or worker writes to, because it must be able to close the writer of a process
//!   that has ended. A line in another writer's name breaks that writer's chain, which ends its process and is found by
//!   `mimir audit verify --cluster`.
//! - Who of the processes with one key receives or answers a call: all workers can read and answer the calls of all.
//! - The reply subjects of requests: JetStream publishes its answer there, whatever the key may publish. So any key can
//!   store such an answer under any key of the state. No value is valid in this form: an order to stop remains one, and a
//!   deployment is not used. [`names::is_stored`] is the check for messages of streams.

use mimir_core::shared_state::StateArea;

use crate::names;
use crate::node::NodeRole;

/// The subjects that a key may publish and subscribe to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SubjectPermissions {
    pub(crate) publish: Vec<String>,
    pub(crate) subscribe: Vec<String>,
}

/// The access to an area's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AreaAccess {
    None,
    Read,
    Write,
}

fn area_access(role: NodeRole, area: StateArea) -> AreaAccess {
    use AreaAccess::{None, Read, Write};
    match (role, area) {
        // A process that reads these keys can make up sessions of clients, so administrators have no access either.
        (NodeRole::Worker | NodeRole::Admin, StateArea::Keys) => None,
        (NodeRole::Front | NodeRole::Worker, StateArea::Control | StateArea::Deployment) => Read,
        (NodeRole::Front | NodeRole::Worker | NodeRole::Admin, _) => Write,
    }
}

/// Returns the subjects of a role, for the key with this public part.
pub(crate) fn role_permissions(role: NodeRole, public_key: &str) -> SubjectPermissions {
    let mut publish = vec!["$JS.API.INFO".to_owned()];
    let mut subscribe = vec![format!("{}.>", names::inbox_prefix(public_key))];
    for area in StateArea::ALL {
        let access = area_access(role, area);
        let stream = names::bucket_stream(area);
        if access != AreaAccess::None {
            publish.extend([
                format!("$JS.API.STREAM.INFO.{stream}"),
                format!("$JS.API.STREAM.MSG.GET.{stream}"),
                format!("$JS.API.CONSUMER.CREATE.{stream}"),
                format!("$JS.API.CONSUMER.INFO.{stream}.*"),
                format!("$JS.FC.{stream}.>"),
            ]);
        }
        if access == AreaAccess::Write {
            publish.push(names::state_subject(area, ">"));
        }
    }
    for stream in [names::AUDIT_STREAM, names::OBJECT_STREAM] {
        publish.extend([
            format!("$JS.API.STREAM.INFO.{stream}"),
            format!("$JS.API.STREAM.MSG.GET.{stream}"),
        ]);
    }
    publish.push(names::AUDIT_SUBJECTS.to_owned());
    match role {
        NodeRole::Front => {
            publish.extend([
                names::worker_calls("*"),
                names::worker_control("*"),
                names::front_messages("*"),
            ]);
            subscribe.extend([names::call_reply("*", "*"), names::front_messages("*")]);
        }
        NodeRole::Worker => {
            publish.push(names::call_reply("*", "*"));
            subscribe.extend([names::worker_calls("*"), names::worker_control("*")]);
        }
        NodeRole::Admin => {
            publish.extend([
                names::OBJECT_SUBJECTS.to_owned(),
                names::AUDIT_RETENTION.to_owned(),
                format!("$JS.API.STREAM.PURGE.{}", names::AUDIT_STREAM),
            ]);
            for stream in crate::streams::all_streams() {
                publish.extend([
                    format!("$JS.API.STREAM.CREATE.{}", stream.name),
                    format!("$JS.API.STREAM.UPDATE.{}", stream.name),
                ]);
                // The streams of keys and the audit log are created without a right to read.
                let info = format!("$JS.API.STREAM.INFO.{}", stream.name);
                if !publish.contains(&info) {
                    publish.push(info);
                }
            }
        }
    }
    SubjectPermissions { publish, subscribe }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns true if a pattern of NATS matches a subject.
    fn matches(pattern: &str, subject: &str) -> bool {
        let mut pattern = pattern.split('.');
        let mut subject = subject.split('.');
        loop {
            match (pattern.next(), subject.next()) {
                (Some(">"), Some(_)) | (None, None) => return true,
                (Some(token), Some(found)) if token == "*" || token == found => {}
                _ => return false,
            }
        }
    }

    fn may(role: NodeRole, action: &str, subject: &str) -> bool {
        let permissions = role_permissions(role, "UKEY");
        let list = match action {
            "publish" => permissions.publish,
            _ => permissions.subscribe,
        };
        list.iter().any(|pattern| matches(pattern, subject))
    }

    #[test]
    fn permissions_separate_the_roles() {
        use NodeRole::{Admin, Front, Worker};
        let key = |area, key| names::state_subject(area, key);
        let read = |area| format!("$JS.API.STREAM.MSG.GET.{}", names::bucket_stream(area));
        for (subject, action, allowed) in [
            (names::worker_calls("n"), "publish", vec![Front]),
            (names::worker_calls("n"), "subscribe", vec![Worker]),
            (names::worker_control("n"), "subscribe", vec![Worker]),
            (names::call_reply("n", "c"), "publish", vec![Worker]),
            (names::call_reply("n", "c"), "subscribe", vec![Front]),
            (names::front_messages("n"), "publish", vec![Front]),
            (
                key(StateArea::Deployment, "settings"),
                "publish",
                vec![Admin],
            ),
            (key(StateArea::Control, "stop"), "publish", vec![Admin]),
            (key(StateArea::Keys, "a"), "publish", vec![Front]),
            (read(StateArea::Keys), "publish", vec![Front]),
            (
                read(StateArea::Control),
                "publish",
                vec![Front, Worker, Admin],
            ),
            (names::object_subject("d", "0"), "publish", vec![Admin]),
            (
                "$JS.API.STREAM.CREATE.KV_MIMIR_JOBS".to_owned(),
                "publish",
                vec![Admin],
            ),
            ("$JS.API.STREAM.CREATE.OTHER".to_owned(), "publish", vec![]),
            (
                "$JS.API.STREAM.DELETE.MIMIR_AUDIT".to_owned(),
                "publish",
                vec![],
            ),
            (
                "$JS.API.STREAM.PURGE.MIMIR_AUDIT".to_owned(),
                "publish",
                vec![Admin],
            ),
            (names::AUDIT_RETENTION.to_owned(), "publish", vec![Admin]),
            (
                "$JS.API.STREAM.PURGE.MIMIR_OBJECTS".to_owned(),
                "publish",
                vec![],
            ),
            (
                "$JS.API.STREAM.MSG.DELETE.MIMIR_AUDIT".to_owned(),
                "publish",
                vec![],
            ),
            ("_INBOX_UOTHER.x".to_owned(), "subscribe", vec![]),
            ("_INBOX_UOTHER.x".to_owned(), "publish", vec![]),
            (">".to_owned(), "subscribe", vec![]),
        ] {
            for role in [Front, Worker, Admin] {
                assert_eq!(
                    may(role, action, &subject),
                    allowed.contains(&role),
                    "{role} {action} {subject}"
                );
            }
        }
    }
}
