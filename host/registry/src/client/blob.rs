//! Downloads of blobs: streamed, hashed, bounded, and continued after an interruption.

use std::path::Path;

use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, StatusCode};
use mimir_net::Error as HttpError;

use super::partial::PartialDownload;
use super::{RegistryClient, RegistryEndpoint};
use crate::auth::RegistryAction;
use crate::digest::OciDigest;
use crate::error::RegistryError;
use crate::manifest::Descriptor;
use crate::reference::OciReference;
use crate::transport::RegistryResponse;

/// Maximum number of requests to one endpoint for one blob, if each makes progress.
const MAX_ATTEMPTS: usize = 4;

impl RegistryClient {
    /// Downloads a blob to `target`, at most `max` bytes. Digest and size are checked before `target` is replaced. An
    /// interrupted download is kept beside `target` and continued, also by a later call.
    pub async fn pull_blob(
        &self,
        reference: &OciReference,
        blob: &Descriptor,
        target: &Path,
        max: u64,
    ) -> Result<(), RegistryError> {
        check_size(reference, blob, max)?;
        let mut partial = PartialDownload::open(target.to_owned(), blob.digest, blob.size).await?;
        match self.pull_first(reference, blob, &mut partial).await {
            Ok(()) => partial.finish(target.to_owned()).await,
            Err(error) => {
                if partial.length() == 0 {
                    partial.discard();
                }
                Err(error)
            }
        }
    }

    async fn pull_first(
        &self,
        reference: &OciReference,
        blob: &Descriptor,
        partial: &mut PartialDownload,
    ) -> Result<(), RegistryError> {
        let (mirrors, registry) = self.endpoints(reference)?;
        for mirror in &mirrors {
            match self.pull_from(mirror, blob, partial).await {
                Ok(()) => return Ok(()),
                Err(error @ RegistryError::Storage { .. }) => return Err(error),
                Err(error) => mirror.warn_skipped(&error),
            }
        }
        self.pull_from(&registry, blob, partial).await
    }

    /// Downloads a small blob into memory, at most `max` bytes.
    pub async fn read_blob(
        &self,
        reference: &OciReference,
        blob: &Descriptor,
        max: u64,
    ) -> Result<Vec<u8>, RegistryError> {
        check_size(reference, blob, max)?;
        let (mirrors, registry) = self.endpoints(reference)?;
        for mirror in &mirrors {
            match self.read_from(mirror, blob).await {
                Ok(bytes) => return Ok(bytes),
                Err(error) => mirror.warn_skipped(&error),
            }
        }
        self.read_from(&registry, blob).await
    }

    async fn read_from(
        &self,
        endpoint: &RegistryEndpoint,
        blob: &Descriptor,
    ) -> Result<Vec<u8>, RegistryError> {
        let response = self.blob_request(endpoint, &blob.digest, 0).await?;
        if response.status != StatusCode::OK {
            return Err(blob_status_error(endpoint, response, &blob.digest).await);
        }
        check_length(endpoint, blob, &response, blob.size)?;
        let what = blob_name(&blob.digest);
        let bytes = match response.read(&endpoint.host, &what, blob.size).await {
            Err(RegistryError::Limit { .. }) => return Err(too_long(endpoint, blob)),
            bytes => bytes?,
        };
        if (bytes.len() as u64) < blob.size {
            return Err(truncated(endpoint, blob, bytes.len() as u64));
        }
        let digest = OciDigest::of_bytes(&bytes);
        if digest != blob.digest {
            return Err(mismatch(endpoint, blob, &digest));
        }
        Ok(bytes.into())
    }

    /// Downloads a blob from one endpoint. Continues after interruptions as long as that makes progress.
    async fn pull_from(
        &self,
        endpoint: &RegistryEndpoint,
        blob: &Descriptor,
        partial: &mut PartialDownload,
    ) -> Result<(), RegistryError> {
        // Bytes of an earlier call, or of a mirror, may be damaged.
        let mut is_mixed = partial.length() > 0;
        let mut attempt = 0;
        loop {
            let before = partial.length();
            let received = if before < blob.size {
                self.receive(endpoint, blob, partial).await
            } else {
                Ok(())
            };
            attempt += 1;
            match received {
                Ok(()) => {}
                Err(error) => {
                    let may_continue = partial.length() > before && attempt < MAX_ATTEMPTS;
                    if may_continue && is_interruption(&error) {
                        continue;
                    }
                    if matches!(error, RegistryError::Size { .. }) {
                        partial.reset()?;
                    }
                    return Err(error);
                }
            }
            let digest = partial.digest();
            if digest == blob.digest {
                return Ok(());
            }
            partial.reset()?;
            if !std::mem::take(&mut is_mixed) {
                return Err(mismatch(endpoint, blob, &digest));
            }
        }
    }

    /// Requests the rest of a blob and appends it.
    async fn receive(
        &self,
        endpoint: &RegistryEndpoint,
        blob: &Descriptor,
        partial: &mut PartialDownload,
    ) -> Result<(), RegistryError> {
        let offset = partial.length();
        let mut response = self.blob_request(endpoint, &blob.digest, offset).await?;
        if response.status == StatusCode::RANGE_NOT_SATISFIABLE && offset > 0 {
            partial.reset()?;
            response = self.blob_request(endpoint, &blob.digest, 0).await?;
        }
        match response.status {
            StatusCode::PARTIAL_CONTENT if partial.length() > 0 => {
                check_range(endpoint, &response, offset, blob.size)?;
            }
            // Ranges are optional: the registry sends everything again.
            StatusCode::OK => partial.reset()?,
            _ => return Err(blob_status_error(endpoint, response, &blob.digest).await),
        }
        check_length(endpoint, blob, &response, blob.size - partial.length())?;
        loop {
            let chunk = response.next_chunk().await;
            let chunk = chunk.map_err(|error| RegistryError::http(&endpoint.host, error))?;
            let Some(chunk) = chunk else { break };
            if chunk.len() as u64 > blob.size - partial.length() {
                return Err(too_long(endpoint, blob));
            }
            partial.write(&chunk)?;
        }
        if partial.length() < blob.size {
            return Err(truncated(endpoint, blob, partial.length()));
        }
        Ok(())
    }

    async fn blob_request(
        &self,
        endpoint: &RegistryEndpoint,
        digest: &OciDigest,
        offset: u64,
    ) -> Result<RegistryResponse, RegistryError> {
        let mut headers = HeaderMap::new();
        if offset > 0
            && let Ok(range) = HeaderValue::from_str(&format!("bytes={offset}-"))
        {
            headers.insert(header::RANGE, range);
        }
        let target = endpoint.join(&format!("blobs/{digest}"))?;
        self.request(endpoint, RegistryAction::Pull, Method::GET, target, headers)
            .await
    }
}

/// Returns true for errors after which the received bytes are still good.
fn is_interruption(error: &RegistryError) -> bool {
    match error {
        RegistryError::Truncated { .. } | RegistryError::RateLimited { .. } => true,
        RegistryError::Status { status, .. } => *status >= 500,
        RegistryError::Http { error, .. } => matches!(
            **error,
            HttpError::Protocol(_)
                | HttpError::Timeout { .. }
                | HttpError::Unreachable { .. }
                | HttpError::Refused { .. }
                | HttpError::Dns { .. }
        ),
        _ => false,
    }
}

fn blob_name(digest: &OciDigest) -> String {
    format!("the blob {digest}")
}

fn check_size(reference: &OciReference, blob: &Descriptor, max: u64) -> Result<(), RegistryError> {
    if blob.size <= max {
        return Ok(());
    }
    Err(RegistryError::Limit {
        registry: reference.registry().to_owned(),
        what: format!(
            "{} ({})",
            blob_name(&blob.digest),
            mimir_core::text::bytes(blob.size)
        ),
        limit: mimir_core::text::bytes(max),
    })
}

/// Checks the announced length of a body.
fn check_length(
    endpoint: &RegistryEndpoint,
    blob: &Descriptor,
    response: &RegistryResponse,
    expected: u64,
) -> Result<(), RegistryError> {
    match response.content_length() {
        Some(length) if length != expected => Err(RegistryError::Size {
            registry: endpoint.host.clone(),
            what: blob_name(&blob.digest),
            found: format!("{} bytes", length.saturating_add(blob.size - expected)),
            expected: blob.size,
        }),
        _ => Ok(()),
    }
}

/// Checks that a partial response begins at `offset`.
fn check_range(
    endpoint: &RegistryEndpoint,
    response: &RegistryResponse,
    offset: u64,
    size: u64,
) -> Result<(), RegistryError> {
    let value = response.header(&header::CONTENT_RANGE).unwrap_or_default();
    let parts = value
        .strip_prefix("bytes ")
        .and_then(|range| range.split_once('/'))
        .and_then(|(range, total)| Some((range.split_once('-')?.0, total)));
    let begins_at_offset = parts.is_some_and(|(start, total)| {
        start.parse() == Ok(offset) && (total == "*" || total.parse() == Ok(size))
    });
    if begins_at_offset {
        return Ok(());
    }
    let value = mimir_core::text::visible(mimir_core::text::prefix(value, 100));
    let why = format!("its range is `{value}`, expected the bytes from {offset} of {size}");
    Err(endpoint.malformed("a part of a blob", why))
}

fn too_long(endpoint: &RegistryEndpoint, blob: &Descriptor) -> RegistryError {
    RegistryError::Size {
        registry: endpoint.host.clone(),
        what: blob_name(&blob.digest),
        found: "more bytes".to_owned(),
        expected: blob.size,
    }
}

fn truncated(endpoint: &RegistryEndpoint, blob: &Descriptor, received: u64) -> RegistryError {
    RegistryError::Truncated {
        registry: endpoint.host.clone(),
        what: blob_name(&blob.digest),
        received,
        expected: blob.size,
    }
}

fn mismatch(endpoint: &RegistryEndpoint, blob: &Descriptor, found: &OciDigest) -> RegistryError {
    RegistryError::DigestMismatch {
        registry: endpoint.host.clone(),
        what: blob_name(&blob.digest),
        found: found.to_string(),
        expected: blob.digest.to_string(),
    }
}

async fn blob_status_error(
    endpoint: &RegistryEndpoint,
    response: RegistryResponse,
    digest: &OciDigest,
) -> RegistryError {
    let what = blob_name(digest);
    endpoint
        .status_error(response, &what, "a blob", RegistryAction::Pull)
        .await
}
