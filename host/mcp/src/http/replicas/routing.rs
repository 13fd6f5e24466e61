//! The replica that answers a request, and the response of another replica.

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderValue, Method, StatusCode};
use http_body_util::{BodyExt as _, Full};
use mimir_core::ToolErrorCode;
use mimir_core::peer_messages::{PeerError, PeerReply};
use rmcp::model::{ErrorCode, InitializeRequestParams};
use serde_json::json;

use crate::http::{BoxedResponse, HttpRefusal, Principal, empty_response, text_response};

use super::envelope::{accepts_json, decode_head, encode_request, is_event_stream};
use super::message_peek::MessagePeek;
use super::reply_body::{ReplyBody, collect};
use super::{ReplicaSet, SealPurpose, SealedCall, SealedSession};

/// Maximum number of replicas that a request is sent to, of which all but the last one have ended.
const MAX_ATTEMPTS: usize = 8;

/// Maximum size of a response in JSON.
const MAX_RESPONSE_SIZE: usize = 64 << 20;

/// A request whose route is chosen.
pub(in crate::http) struct RouteRequest<'a> {
    pub(in crate::http) parts: &'a Parts,
    pub(in crate::http) body: &'a Bytes,
    pub(in crate::http) session: Option<&'a str>,
    pub(in crate::http) principal: &'a Principal,
}

/// The decision about a request.
pub(in crate::http) enum RequestRoute {
    /// This replica answers, in this session or with this handshake.
    Local {
        session: Option<Box<SealedSession>>,
        handshake: Option<Box<InitializeRequestParams>>,
    },
    /// The request is answered already.
    Answered(BoxedResponse),
    /// The request is refused.
    Refused(HttpRefusal),
}

impl RequestRoute {
    fn local(session: Option<SealedSession>) -> Self {
        Self::Local {
            session: session.map(Box::new),
            handshake: None,
        }
    }
}

impl ReplicaSet {
    /// Returns the session of an id, if it is valid for the principal.
    pub(in crate::http) async fn session_of(
        &self,
        id: &str,
        principal: &Principal,
    ) -> Option<SealedSession> {
        let session = SealedSession::open(id, self.keys()).await?;
        session
            .belongs_to(principal, self.keys())
            .then_some(session)
    }

    /// Decides which replica answers a request, and gets the response if that is another one.
    pub(in crate::http) async fn route(&self, request: RouteRequest<'_>) -> RequestRoute {
        let peek = MessagePeek::read(request.body);
        let session = match request.session {
            None => None,
            Some(id) => match self.session_of(id, request.principal).await {
                Some(session) => Some(session),
                None => return RequestRoute::Refused(HttpRefusal::NoSession),
            },
        };
        match session {
            Some(session) => self.route_session(request, &peek, session).await,
            None => self.route_call(request, &peek).await,
        }
    }

    /// Routes a request of a session to the replica that holds the session.
    async fn route_session(
        &self,
        request: RouteRequest<'_>,
        peek: &MessagePeek,
        session: SealedSession,
    ) -> RequestRoute {
        if request.parts.method == Method::DELETE
            && let Err(refusal) = self.end_everywhere(&request, &session).await
        {
            return RequestRoute::Refused(refusal);
        }
        // The answer to a request of a replica, which may have lost the session since.
        if let Some(node) = peek.asking_node() {
            if self.peers.is_own(node) {
                return RequestRoute::local(Some(session));
            }
            let answered = match self.live_peers().iter().any(|peer| peer == node) {
                true => self.forward(node, &request, peek).await,
                false => None,
            };
            let response = answered.unwrap_or_else(|| empty_response(StatusCode::ACCEPTED));
            return RequestRoute::Answered(response);
        }
        for _ in 0..MAX_ATTEMPTS {
            let Some(holder) = self.holder_of(&session) else {
                break;
            };
            if let Some(response) = self.forward(&holder, &request, peek).await {
                return RequestRoute::Answered(response);
            }
        }
        RequestRoute::local(Some(session))
    }

    /// Routes a request about a pending call or a task to the replica that holds it. If that one has ended, this one
    /// tells so.
    async fn route_call(&self, request: RouteRequest<'_>, peek: &MessagePeek) -> RequestRoute {
        let name = peek
            .pending_call()
            .map(|name| (SealPurpose::PendingCall, name))
            .or_else(|| Some((SealPurpose::Task, peek.task()?)));
        if let Some((purpose, name)) = name
            && self.keys().open_with_reload(purpose, name).await.is_some()
            && let Some(call) = SealedCall::open(purpose, name, self.keys())
            && !self.peers.is_own(&call.node)
            && self.live_peers().contains(&call.node)
            && let Some(response) = self.forward(&call.node, &request, peek).await
        {
            return RequestRoute::Answered(response);
        }
        let handshake = peek.handshake(request.body);
        RequestRoute::Local {
            session: None,
            handshake: handshake.map(Box::new),
        }
    }

    /// Ends a session at all replicas that hold a copy.
    async fn end_everywhere(
        &self,
        request: &RouteRequest<'_>,
        session: &SealedSession,
    ) -> Result<(), HttpRefusal> {
        if let Err(error) = self.record_end(session).await {
            tracing::warn!(%error, "a session cannot be ended");
            return Err(HttpRefusal::NoState);
        }
        let holder = self.holder_of(session);
        let others = self.live_peers();
        let others = others.iter().filter(|peer| holder.as_ref() != Some(*peer));
        let ended = others.map(|peer| async {
            let RouteRequest {
                parts,
                body,
                principal,
                ..
            } = request;
            let message = encode_request(parts, body, principal, true, self.keys());
            if let Ok(mut reply) = self.send(peer, message).await {
                let _ = reply.next().await;
            }
        });
        futures::future::join_all(ended).await;
        Ok(())
    }

    /// Sends a request to another replica and returns its response. Returns `None` if the replica has ended before it
    /// got the request.
    async fn forward(
        &self,
        node: &str,
        request: &RouteRequest<'_>,
        peek: &MessagePeek,
    ) -> Option<BoxedResponse> {
        let RouteRequest {
            parts,
            body,
            principal,
            ..
        } = request;
        let message = encode_request(parts, body, principal, false, self.keys());
        let answered = match self.send(node, message).await {
            Ok(reply) => {
                let failed = || {
                    let message = unavailable_message(peek, true)?;
                    Some(Bytes::from(format!("data: {message}\n\n")))
                };
                receive_response(node, reply, failed).await
            }
            Err(PeerError::Gone(_)) => return None,
            Err(error) => Err(error),
        };
        Some(match answered {
            Ok(response) => response,
            Err(error) => {
                tracing::warn!(%error, "a request could not be forwarded");
                unavailable_response(request, peek, &error)
            }
        })
    }
}

/// Returns the response in a reply.
async fn receive_response(
    node: &str,
    mut reply: Box<dyn PeerReply>,
    failed: impl FnOnce() -> Option<Bytes>,
) -> Result<BoxedResponse, PeerError> {
    let no_answer = |text: &str| PeerError::NoAnswer {
        node: node.to_owned(),
        text: text.to_owned(),
    };
    let head = reply.next().await;
    let head = head.unwrap_or_else(|| Err(no_answer("the reply is empty")))?;
    let response = decode_head(&head).ok_or_else(|| no_answer("the reply is not valid"))?;
    if is_event_stream(&response) {
        return Ok(response.map(|()| ReplyBody::new(reply, failed()).boxed()));
    }
    let body = collect(&mut reply, MAX_RESPONSE_SIZE).await?;
    let body = body.ok_or_else(|| no_answer("the response is too large"))?;
    Ok(response.map(|()| Full::new(body).boxed()))
}

/// Returns the response to a request that another replica got or should have got, and did not answer.
fn unavailable_response(
    request: &RouteRequest<'_>,
    peek: &MessagePeek,
    error: &PeerError,
) -> BoxedResponse {
    let may_have_run = !matches!(error, PeerError::NotSent { .. });
    let message = unavailable_message(peek, may_have_run);
    let Some(message) = message.filter(|_| accepts_json(&request.parts.headers)) else {
        let text = "the server that holds this session does not answer: try again\n";
        return text_response(StatusCode::SERVICE_UNAVAILABLE, text);
    };
    let mut response = text_response(StatusCode::OK, &message);
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

/// Returns the error response to a request whose replica does not answer, in JSON. `None` if the message needs no
/// response.
fn unavailable_message(peek: &MessagePeek, may_have_run: bool) -> Option<String> {
    let id = peek.request_id()?;
    let may_have_run = may_have_run && !peek.only_reads();
    let message = if may_have_run {
        "the server that holds this call or session does not answer; the request may have had an effect"
    } else {
        "the server that holds this call or session does not answer; the request had no effect: try again"
    };
    let data = json!({"code": ToolErrorCode::Unavailable, "mayHaveRun": may_have_run});
    let error = json!({"code": ErrorCode::INTERNAL_ERROR.0, "message": message, "data": data});
    Some(json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string())
}
