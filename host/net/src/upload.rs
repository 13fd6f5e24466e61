//! Request body with a size limit, sent only while the policy allows the request.

use std::error::Error as StdError;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::time::Instant;

use crate::authorized_request::AuthorizedRequest;
use crate::error::{Error, OversizedPart, RequestStage};

/// Error type of a caller's body.
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// Body of a request, limited in size and checked against the announced length.
pub(crate) struct UploadBody {
    inner: UploadSource,
    sent: u64,
    limit: u64,
    announced: Option<u64>,
    authorized: Option<AuthorizedRequest>,
}

enum UploadSource {
    Full(Option<Bytes>),
    Stream(Pin<Box<dyn HttpBody<Data = Bytes, Error = BoxError> + Send>>),
}

impl UploadBody {
    pub(crate) fn full(bytes: Bytes, limit: u64) -> Self {
        let bytes = Some(bytes).filter(|bytes| !bytes.is_empty());
        Self::new(UploadSource::Full(bytes), limit)
    }

    pub(crate) fn stream(
        body: Pin<Box<dyn HttpBody<Data = Bytes, Error = BoxError> + Send>>,
        limit: u64,
    ) -> Self {
        Self::new(UploadSource::Stream(body), limit)
    }

    fn new(inner: UploadSource, limit: u64) -> Self {
        Self {
            inner,
            sent: 0,
            limit,
            announced: None,
            authorized: None,
        }
    }

    /// Returns true if the body is not known to be empty.
    pub(crate) fn has_bytes(&self) -> bool {
        !HttpBody::is_end_stream(self) && HttpBody::size_hint(self).exact() != Some(0)
    }

    /// Binds the body to an authorization: sending fails once the authorization is revoked or its deadline has passed.
    pub(crate) fn with_authorization(mut self, authorized: AuthorizedRequest) -> Self {
        self.authorized = Some(authorized);
        self
    }

    fn check_authorization(&mut self) -> Result<(), Error> {
        let Some(authorized) = &mut self.authorized else {
            return Ok(());
        };
        if Instant::now() >= authorized.deadline {
            let (stage, after) = (RequestStage::Whole, authorized.whole);
            return Err(Error::Timeout { stage, after });
        }
        authorized.recheck_policy()
    }

    /// Sets the announced length. Fails if the body is known to exceed the limit or to differ from the length.
    pub(crate) fn announce(&mut self, length: Option<u64>) -> Result<(), Error> {
        let size = HttpBody::size_hint(self);
        if size.lower() > self.limit {
            return Err(self.too_large());
        }
        self.announced = length;
        match (length, size.exact()) {
            (Some(length), Some(exact)) if length != exact => Err(length_mismatch()),
            _ => Ok(()),
        }
    }

    fn too_large(&self) -> Error {
        Error::TooLarge {
            part: OversizedPart::RequestBody,
            limit: self.limit,
        }
    }
}

fn length_mismatch() -> Error {
    Error::InvalidRequest("the length of the body differs from `content-length`".to_owned())
}

impl HttpBody for UploadBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.get_mut();
        let frame = match &mut this.inner {
            UploadSource::Full(bytes) => {
                Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes))))
            }
            UploadSource::Stream(body) => body.as_mut().poll_frame(cx),
        };
        match &frame {
            Poll::Ready(Some(Ok(frame))) => {
                if let Err(error) = this.check_authorization() {
                    return Poll::Ready(Some(Err(error.into())));
                }
                if let Some(data) = frame.data_ref() {
                    this.sent = this.sent.saturating_add(data.remaining() as u64);
                }
                if this.sent > this.limit {
                    return Poll::Ready(Some(Err(this.too_large().into())));
                }
                if this
                    .announced
                    .is_some_and(|announced| this.sent > announced)
                {
                    return Poll::Ready(Some(Err(length_mismatch().into())));
                }
            }
            Poll::Ready(None)
                if this
                    .announced
                    .is_some_and(|announced| this.sent != announced) =>
            {
                return Poll::Ready(Some(Err(length_mismatch().into())));
            }
            _ => {}
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        match &self.inner {
            UploadSource::Full(bytes) => bytes.is_none(),
            // With an announced length, the end must be polled to be checked.
            UploadSource::Stream(body) => self.announced.is_none() && body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.inner {
            UploadSource::Full(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |b| b.len() as u64))
            }
            UploadSource::Stream(body) => body.size_hint(),
        }
    }
}
