//! Messages of sessions that several replicas may hold one after another: the ids of requests to the client, and those
//! of events, contain the id of the replica, so that no answer reaches a request of another replica with the same
//! number.

use std::sync::Arc;

use rmcp::model::{
    ClientJsonRpcMessage, NumberOrString, RequestId, ServerJsonRpcMessage, ServerNotification,
};
use rmcp::transport::common::server_side_http::ServerSseMessage;

/// Character between the original id and the id of the replica.
const SEPARATOR: char = '~';

/// Adds the id of the replica to the ids in a message for the client.
pub(in crate::http) fn with_node(mut event: ServerSseMessage, node: &str) -> ServerSseMessage {
    if let Some(id) = &mut event.event_id {
        id.push(SEPARATOR);
        id.push_str(node);
    }
    let Some(message) = &mut event.message else {
        return event;
    };
    let has_own_id = match &**message {
        ServerJsonRpcMessage::Request(_) => true,
        ServerJsonRpcMessage::Notification(notification) => matches!(
            notification.notification,
            ServerNotification::CancelledNotification(_)
        ),
        _ => false,
    };
    if !has_own_id {
        return event;
    }
    match Arc::make_mut(message) {
        ServerJsonRpcMessage::Request(request) => request.id = id_with_node(&request.id, node),
        ServerJsonRpcMessage::Notification(notification) => {
            if let ServerNotification::CancelledNotification(cancelled) =
                &mut notification.notification
                && let Some(id) = &mut cancelled.params.request_id
            {
                *id = id_with_node(id, node);
            }
        }
        _ => {}
    }
    event
}

/// Restores the ids in a message of the client. Returns `None` for the answer to a request of another replica.
pub(in crate::http) fn original_message(
    mut message: ClientJsonRpcMessage,
    is_own: impl Fn(&str) -> bool,
) -> Option<ClientJsonRpcMessage> {
    match &mut message {
        ClientJsonRpcMessage::Response(response) => {
            response.id = original_id(&response.id, &is_own)?;
        }
        ClientJsonRpcMessage::Error(error) => {
            if let Some(id) = &mut error.id {
                *id = original_id(id, &is_own)?;
            }
        }
        _ => {}
    }
    Some(message)
}

/// Restores the id of an event. Returns `None` for an event of another replica.
pub(in crate::http) fn original_event_id(
    id: &str,
    is_own: impl Fn(&str) -> bool,
) -> Option<String> {
    match id.rsplit_once(SEPARATOR) {
        Some((original, node)) => is_own(node).then(|| original.to_owned()),
        // The first event of the session's own stream.
        None => Some(id.to_owned()),
    }
}

/// Returns the replica in the id of a request to the client.
pub(super) fn node_of(id: &str) -> Option<&str> {
    Some(id.rsplit_once(SEPARATOR)?.1)
}

fn id_with_node(id: &RequestId, node: &str) -> RequestId {
    NumberOrString::String(format!("{id}{SEPARATOR}{node}").into())
}

fn original_id(id: &RequestId, is_own: impl Fn(&str) -> bool) -> Option<RequestId> {
    let NumberOrString::String(text) = id else {
        return None;
    };
    let (original, node) = text.rsplit_once(SEPARATOR)?;
    let original = original.parse().ok()?;
    is_own(node).then_some(NumberOrString::Number(original))
}
