//! The body of a request, as the guest writes it.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use mimir_core::ToolError;
use mimir_core::pipeline::{self, Effects};
use mimir_net::{BoxError, Error};
use wasmtime_wasi_http::WasiBody;

use super::clients::Link;

/// Passes a body on, piece by piece, as long as what the call may reach is what it was, and no secret is in it.
pub(super) struct Upload {
    body: WasiBody,
    effects: Effects,
    link: Link,
    secrets: Option<pipeline::Upload>,
}

impl Upload {
    pub(super) fn new(body: WasiBody, effects: &Effects, link: &Link) -> Self {
        Self {
            body,
            secrets: effects.upload(),
            effects: effects.clone(),
            link: link.clone(),
        }
    }

    fn look(&mut self, frame: &Frame<Bytes>) -> Result<(), ToolError> {
        let Some(secrets) = &mut self.secrets else {
            return Ok(());
        };
        if let Some(data) = frame.data_ref() {
            secrets.look(data)?;
        }
        for (name, value) in frame.trailers_ref().into_iter().flatten() {
            secrets.look(name.as_str().as_bytes())?;
            secrets.look(value.as_bytes())?;
        }
        Ok(())
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.get_mut();
        let frame = match Pin::new(&mut this.body).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => frame,
            other => return other.map_err(Into::into),
        };
        this.link.renew(&this.effects);
        Poll::Ready(Some(match this.look(&frame) {
            Ok(()) => Ok(frame),
            Err(refusal) => Err(Error::Denied(refusal).into()),
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
