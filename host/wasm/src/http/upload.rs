//! The request body that a guest writes.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::Method;
use http_body::{Body, Frame, SizeHint};
use mimir_core::ToolError;
use mimir_core::network::RequestTarget;
use mimir_core::pipeline::{self, EffectGate, OutgoingRequest};
use mimir_net::{BoxError, Error};
use wasmtime_wasi_http::WasiBody;

use super::clients::ClientLink;

/// Passes a body on chunk by chunk. A chunk with text in the form of a secret waits for approval.
pub(super) struct GuestUploadBody {
    body: WasiBody,
    effects: EffectGate,
    link: ClientLink,
    secrets: pipeline::UploadScanner,
    /// The method and the URL of the request.
    target: (Method, String),
    /// A chunk that needs an approval.
    pending: Option<PendingChunk>,
}

struct PendingChunk {
    frame: Frame<Bytes>,
    rule: String,
    answer: Pin<Box<dyn Future<Output = Result<(), ToolError>> + Send>>,
}

impl GuestUploadBody {
    pub(super) fn new(
        body: WasiBody,
        effects: &EffectGate,
        link: &ClientLink,
        target: (Method, String),
    ) -> Self {
        Self {
            body,
            secrets: effects.upload_scanner(),
            effects: effects.clone(),
            link: link.clone(),
            target,
            pending: None,
        }
    }

    /// Scans a chunk. Returns the matching rule if the chunk contains text in the form of a secret.
    fn scan_chunk(&mut self, frame: &Frame<Bytes>) -> Result<Option<String>, ToolError> {
        if let Some(data) = frame.data_ref() {
            return self.secrets.scan_chunk(data);
        }
        let mut trailers = Vec::new();
        for (name, value) in frame.trailers_ref().into_iter().flatten() {
            for text in [name.as_str().as_bytes(), value.as_bytes()] {
                trailers.extend_from_slice(text);
                trailers.push(b'\n');
            }
        }
        self.secrets.scan_chunk(&trailers)
    }

    /// Requests approval for a chunk, which is retained until the answer.
    fn begin_approval(&mut self, frame: Frame<Bytes>, rule: String) {
        let (effects, (method, url)) = (self.effects.clone(), self.target.clone());
        let pending_rule = rule.clone();
        let answer = async move { approve_upload(&effects, &method, &url, &pending_rule).await };
        self.pending = Some(PendingChunk {
            frame,
            rule,
            answer: Box::pin(answer),
        });
    }
}

/// Requests approval for sending a body that contains text in the form of a secret.
pub(super) async fn approve_upload(
    effects: &EffectGate,
    method: &Method,
    url: &str,
    rule: &str,
) -> Result<(), ToolError> {
    let target = RequestTarget::parse(url).map_err(Error::from)?;
    let egress = OutgoingRequest {
        target: &target,
        method: method.as_str(),
        headers: &[],
        body: true,
    };
    effects.approve_body(egress, rule).await
}

impl Body for GuestUploadBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.get_mut();
        let refused = |refusal| Poll::Ready(Some(Err(Error::Denied(refusal).into())));
        loop {
            if let Some(pending) = &mut this.pending {
                let answer = ready!(pending.answer.as_mut().poll(cx));
                let Some(PendingChunk { frame, rule, .. }) = this.pending.take() else {
                    continue;
                };
                if let Err(refusal) = answer {
                    return refused(refusal);
                }
                this.link.update_access(&this.effects);
                if let Some(next) = this.secrets.allow_rule(&rule) {
                    this.begin_approval(frame, next);
                    continue;
                }
                return Poll::Ready(Some(Ok(frame)));
            }
            let frame = match Pin::new(&mut this.body).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => frame,
                other => return other.map_err(Into::into),
            };
            this.link.update_access(&this.effects);
            match this.scan_chunk(&frame) {
                Ok(None) => return Poll::Ready(Some(Ok(frame))),
                Ok(Some(rule)) => this.begin_approval(frame, rule),
                Err(refusal) => return refused(refusal),
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.pending.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        if self.pending.is_some() {
            SizeHint::default()
        } else {
            self.body.size_hint()
        }
    }
}
