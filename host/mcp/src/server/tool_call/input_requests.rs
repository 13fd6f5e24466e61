//! Forwarding of requests from the server behind a tool to the client: by requests from mimir, or, since 2026-07-28, in
//! the response to the client's request.
//!
//! Out of scope: permission for the requests, which the input request broker has checked and recorded.
#![expect(
    deprecated,
    reason = "the newest protocol has no sampling and roots by requests; clients of the older ones still do"
)]

use mimir_core::ToolError;
use mimir_core::upstream_request::{UpstreamRequest, UpstreamRequestKind};
use rmcp::RoleServer;
use rmcp::model::{
    ClientResult, CreateMessageRequest, ElicitRequest, InputRequest, InputRequests, InputResponses,
    ListRootsRequest, ServerRequest,
};
use rmcp::service::{Peer, PeerRequestOptions};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::client_observer::{ForwardedRequests, collect_answers};

/// Channel for the answers.
type RepliesSender = tokio::sync::oneshot::Sender<Result<Vec<Value>, ToolError>>;

/// Forwards requests one after the other, because the user reads one form at a time.
pub(super) async fn forward_requests(mut forwarded: ForwardedRequests, peer: &Peer<RoleServer>) {
    let mut answers = Vec::new();
    for upstream in &forwarded.requests {
        match forward_request(upstream, peer, &mut forwarded.answer).await {
            Ok(Some(answer)) => answers.push(answer),
            Ok(None) => return,
            Err(error) => {
                // An error means that the call no longer waits.
                let _ = forwarded.answer.send(Err(error));
                return;
            }
        }
    }
    let _ = forwarded.answer.send(Ok(answers));
}

/// Forwards one request. Returns `None` if the call no longer waits for the answer.
async fn forward_request(
    upstream: &UpstreamRequest,
    peer: &Peer<RoleServer>,
    answer_sender: &mut RepliesSender,
) -> Result<Option<Value>, ToolError> {
    let request = match to_input_request(upstream) {
        Some(InputRequest::Elicitation(request)) => ServerRequest::ElicitRequest(request),
        Some(InputRequest::CreateMessage(request)) => ServerRequest::CreateMessageRequest(request),
        Some(InputRequest::ListRoots(request)) => ServerRequest::ListRootsRequest(request),
        _ => return Err(invalid_request(upstream)),
    };
    let options = PeerRequestOptions::no_options();
    let pending = peer.send_cancellable_request(request, options).await;
    let mut pending = pending
        .map_err(|error| ToolError::unavailable(format!("the client cannot be asked: {error}")))?;
    let answer = tokio::select! {
        answer = &mut pending.rx => answer,
        () = answer_sender.closed() => {
            let _ = pending.cancel(Some("the request was withdrawn".to_owned())).await;
            return Ok(None);
        }
    };
    let answer = answer.map_err(|_| ToolError::unavailable("the client has disconnected"))?;
    let answer = answer
        .map_err(|error| ToolError::unavailable(format!("the client did not answer: {error}")))?;
    let value = match (upstream.kind, answer) {
        (
            UpstreamRequestKind::Form | UpstreamRequestKind::Page,
            ClientResult::ElicitResult(answer),
        ) => serde_json::to_value(answer),
        (UpstreamRequestKind::Model, ClientResult::CreateMessageResult(answer)) => {
            serde_json::to_value(answer)
        }
        (UpstreamRequestKind::Roots, ClientResult::ListRootsResult(answer)) => {
            serde_json::to_value(answer)
        }
        _ => {
            return Err(ToolError::unavailable(
                "the client sent an answer of another kind",
            ));
        }
    };
    value.map(Some).map_err(ToolError::unavailable)
}

/// Converts the requests to the form of a response. Returns `None` if a request cannot be parsed.
pub(super) fn to_input_requests(forwarded: &ForwardedRequests) -> Option<InputRequests> {
    let upstream_requests = forwarded.requests.iter();
    upstream_requests
        .map(|upstream| Some((upstream.name.clone(), to_input_request(upstream)?)))
        .collect()
}

/// Delivers the client's answers to the call. Returns the requests if an answer is missing.
pub(super) fn deliver_responses(
    forwarded: ForwardedRequests,
    responses: &InputResponses,
) -> Result<(), ForwardedRequests> {
    let answers = collect_answers(&forwarded.requests, responses);
    let Some(answers) = answers else {
        return Err(forwarded);
    };
    // An error means that the receiver has stopped waiting.
    let _ = forwarded.answer.send(Ok(answers));
    Ok(())
}

/// Fails the requests, because they cannot be forwarded.
pub(super) fn refuse(forwarded: ForwardedRequests) {
    let message = "the server's request cannot be forwarded to the client: too many questions are pending, or the request is not valid";
    let _ = forwarded.answer.send(Err(ToolError::unavailable(message)));
}

fn to_input_request(upstream: &UpstreamRequest) -> Option<InputRequest> {
    let params = upstream.params.clone();
    Some(match upstream.kind {
        UpstreamRequestKind::Form | UpstreamRequestKind::Page => {
            InputRequest::Elicitation(ElicitRequest::new(parse(params)?))
        }
        UpstreamRequestKind::Model => {
            InputRequest::CreateMessage(CreateMessageRequest::new(parse(params)?))
        }
        UpstreamRequestKind::Roots => InputRequest::ListRoots(ListRootsRequest::default()),
    })
}

fn parse<T: DeserializeOwned>(value: Value) -> Option<T> {
    serde_json::from_value(value).ok()
}

fn invalid_request(upstream: &UpstreamRequest) -> ToolError {
    let method = upstream.kind.method();
    ToolError::execution(format!("the server's {method} request cannot be parsed"))
}
