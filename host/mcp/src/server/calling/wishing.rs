//! Forwards requests of a server behind a tool to the client: by requests of this server, or, since 2026-07-28, by the
//! response to the client's request.
//!
//! Out of scope: permission for the request. The server's input request broker has checked and recorded it.
#![expect(
    deprecated,
    reason = "the newest protocol has no sampling and roots by requests; clients of the older ones still do"
)]

use mimir_core::wish::{Want, Wish};
use mimir_core::{Code, ToolError};
use rmcp::RoleServer;
use rmcp::model::{
    ClientResult, CreateMessageRequest, ElicitRequest, InputRequest, InputRequests, InputResponses,
    ListRootsRequest, ServerRequest,
};
use rmcp::service::{Peer, PeerRequestOptions};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::progress::{Wanted, answers};

/// Receiver of the answers.
type Waiting = tokio::sync::oneshot::Sender<Result<Vec<Value>, ToolError>>;

/// Forwards requests one after the other: a person reads one form at a time.
pub(super) async fn pass(mut wanted: Wanted, peer: &Peer<RoleServer>) {
    let mut answers = Vec::new();
    for wish in &wanted.wishes {
        match one(wish, peer, &mut wanted.answer).await {
            Ok(Some(answer)) => answers.push(answer),
            Ok(None) => return,
            Err(error) => {
                // An error means that the receiver has stopped waiting.
                let _ = wanted.answer.send(Err(error));
                return;
            }
        }
    }
    let _ = wanted.answer.send(Ok(answers));
}

/// Forwards one request; none if the answer is no longer awaited.
async fn one(
    wish: &Wish,
    peer: &Peer<RoleServer>,
    waiting: &mut Waiting,
) -> Result<Option<Value>, ToolError> {
    let failed = |why: String| ToolError::new(Code::Unavailable, why);
    let request = match request(wish) {
        Some(InputRequest::Elicitation(request)) => ServerRequest::ElicitRequest(request),
        Some(InputRequest::CreateMessage(request)) => ServerRequest::CreateMessageRequest(request),
        Some(InputRequest::ListRoots(request)) => ServerRequest::ListRootsRequest(request),
        _ => return Err(unreadable(wish)),
    };
    let options = PeerRequestOptions::no_options();
    let asked = peer.send_cancellable_request(request, options).await;
    let mut asked =
        asked.map_err(|error| failed(format!("the client cannot be asked: {error}")))?;
    let answer = tokio::select! {
        answer = &mut asked.rx => answer,
        () = waiting.closed() => {
            let _ = asked.cancel(Some("the request was withdrawn".to_owned())).await;
            return Ok(None);
        }
    };
    let answer = answer.map_err(|_| failed("the client has disconnected".to_owned()))?;
    let answer = answer.map_err(|error| failed(format!("the client did not answer: {error}")))?;
    let value = match (wish.want, answer) {
        (Want::Form, ClientResult::ElicitResult(answer)) => serde_json::to_value(answer),
        (Want::Model, ClientResult::CreateMessageResult(answer)) => serde_json::to_value(answer),
        (Want::Roots, ClientResult::ListRootsResult(answer)) => serde_json::to_value(answer),
        _ => {
            return Err(failed(
                "the client sent an answer of another kind".to_owned(),
            ));
        }
    };
    value.map(Some).map_err(|error| failed(error.to_string()))
}

/// Converts the requests to the form of a response; none if one of them cannot be parsed.
pub(super) fn requests(wanted: &Wanted) -> Option<InputRequests> {
    let each = wanted.wishes.iter();
    each.map(|wish| Some((wish.name.clone(), request(wish)?)))
        .collect()
}

/// Delivers the client's answers; returns the requests if an answer is missing.
pub(super) fn answered(wanted: Wanted, responses: &InputResponses) -> Result<(), Wanted> {
    let answers = answers(&wanted.wishes, responses);
    let Some(answers) = answers else {
        return Err(wanted);
    };
    // An error means that the receiver has stopped waiting.
    let _ = wanted.answer.send(Ok(answers));
    Ok(())
}

/// Answers the requests with an error, because the client cannot be asked.
pub(super) fn refuse(wanted: Wanted) {
    let message = "the server's request cannot be forwarded to the client: too many questions are pending, or the request is not valid";
    let _ = wanted
        .answer
        .send(Err(ToolError::new(Code::Unavailable, message)));
}

fn request(wish: &Wish) -> Option<InputRequest> {
    let params = wish.params.clone();
    Some(match wish.want {
        Want::Form => InputRequest::Elicitation(ElicitRequest::new(read(params)?)),
        Want::Model => InputRequest::CreateMessage(CreateMessageRequest::new(read(params)?)),
        Want::Roots => InputRequest::ListRoots(ListRootsRequest::default()),
    })
}

fn read<T: DeserializeOwned>(value: Value) -> Option<T> {
    serde_json::from_value(value).ok()
}

fn unreadable(wish: &Wish) -> ToolError {
    let method = wish.want.method();
    let message = format!("the server's {method} request cannot be parsed");
    ToolError::new(Code::ExecutionError, message)
}
