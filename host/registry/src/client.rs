//! Client of a registry: manifests, blobs, pushes, referrers and tags.

mod blob;
mod partial;
mod push;
mod referrers;
mod tags;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode};
use mimir_core::network::RequestTarget;
use mimir_net::{HostClient, RequestLimits};

use crate::auth::{Authenticator, RegistryAction, TokenScope};
use crate::credentials::Credentials;
use crate::digest::OciDigest;
use crate::error::RegistryError;
use crate::manifest::{self, ManifestFault, OciManifest, PulledIndex, PulledManifest};
use crate::reference::{OciReference, is_loopback, parse_registry};
use crate::transport::{self, RegistryHttp, RegistryRequest, RegistryResponse};

pub use push::{NewArtifact, NewLayer};

/// Maximum size of a manifest, in bytes; registries accept the same.
pub const MANIFEST_MAX: u64 = 4 << 20;
/// Maximum size of a component, in bytes.
pub const COMPONENT_MAX: u64 = 256 << 20;
/// Maximum size of an error response that is read for its message.
const ERROR_BODY_MAX: u64 = 64 << 10;
/// Maximum length of a registry's message in an error.
const DETAIL_MAX: usize = 200;
/// Header with the digest of a manifest or blob.
const CONTENT_DIGEST: HeaderName = HeaderName::from_static("docker-content-digest");

/// Mirrors of registries: host of the registry to hosts that are tried first. Never used for pushes.
///
/// Content from a mirror is checked like that of the registry. A tag, however, is what the mirror says: pin a digest, or
/// require signatures, if the mirror is not trusted for that.
pub type Mirrors = BTreeMap<String, Vec<String>>;

/// Client of all registries, for one command or background task. Clones share tokens and connections.
#[derive(Clone)]
pub struct RegistryClient {
    http: RegistryHttp,
    authenticator: Arc<Authenticator>,
    mirrors: Arc<Mirrors>,
}

/// A registry or mirror, with the repository of a reference.
struct RegistryEndpoint {
    /// Host and optional port.
    host: String,
    repository: String,
    /// URL of the repository, with a slash at its end.
    base: RequestTarget,
}

impl RegistryClient {
    /// Creates a client that sends its requests through `http`. Loopback registries are used without TLS, all others
    /// with TLS. The limits of `http` should be [`RegistryClient::limits`].
    pub fn new(http: Arc<HostClient>, credentials: Credentials, mirrors: Mirrors) -> Self {
        // In the spelling of references. A key that is not a host never matches.
        let mirrors: Mirrors = mirrors
            .into_iter()
            .map(|(host, mirrors)| (parse_registry(&host).unwrap_or(host), mirrors))
            .collect();
        Self {
            http: RegistryHttp::new(http),
            authenticator: Arc::new(Authenticator::new(credentials)),
            mirrors: Arc::new(mirrors),
        }
    }

    /// Returns a client that asks only the registries themselves, for decisions that a mirror must not influence.
    #[must_use]
    pub fn without_mirrors(&self) -> Self {
        Self {
            mirrors: Arc::default(),
            ..self.clone()
        }
    }

    /// Returns limits for the HTTP client of a registry client that transfers blobs of at most `blob_bytes` bytes.
    pub fn limits(blob_bytes: u64) -> RequestLimits {
        transport::limits(blob_bytes)
    }

    /// Returns the digest that a reference names now: that of a manifest or of an index
    /// ([`PulledManifest::named_digest`]). It is the claim of the registry, checked when the manifest is fetched.
    pub async fn resolve(&self, reference: &OciReference) -> Result<OciDigest, RegistryError> {
        let (mirrors, registry) = self.endpoints(reference)?;
        for mirror in &mirrors {
            match self.resolve_from(mirror, reference).await {
                Ok(digest) => return Ok(digest),
                Err(error) => mirror.warn_skipped(&error),
            }
        }
        self.resolve_from(&registry, reference).await
    }

    async fn resolve_from(
        &self,
        endpoint: &RegistryEndpoint,
        reference: &OciReference,
    ) -> Result<OciDigest, RegistryError> {
        let response = self
            .manifest_request(endpoint, Method::HEAD, &reference.version())
            .await?;
        let claimed = response.header(&CONTENT_DIGEST);
        let claimed = claimed.filter(|_| response.status == StatusCode::OK);
        let digest = match claimed {
            Some(claimed) => claimed
                .parse()
                .map_err(|error: RegistryError| endpoint.malformed("a digest", error))?,
            // The header is optional, and some registries do not support HEAD.
            None => self.manifest_from(endpoint, reference).await?.digest,
        };
        match reference.digest() {
            Some(pinned) if pinned != digest => {
                Err(endpoint.digest_mismatch(reference, &digest, &pinned))
            }
            _ => Ok(digest),
        }
    }

    /// Fetches the manifest of a reference. If the reference names an index with a manifest for WebAssembly, that one
    /// is returned.
    pub async fn manifest(
        &self,
        reference: &OciReference,
    ) -> Result<PulledManifest, RegistryError> {
        let named = self.named_manifest(reference).await?;
        let OciManifest::Index(index) = &named.parsed else {
            return Ok(named);
        };
        let Some(entry) = index.wasm_manifest() else {
            return Ok(named);
        };
        let (digest, size) = (entry.digest, entry.size);
        let mut chosen = self.named_manifest(&reference.with_digest(digest)).await?;
        if chosen.bytes.len() as u64 != size {
            return Err(RegistryError::Size {
                registry: reference.registry().to_owned(),
                what: format!("the manifest {digest}"),
                found: format!("{} bytes", chosen.bytes.len()),
                expected: size,
            });
        }
        chosen.index = Some(PulledIndex {
            digest: named.digest,
            bytes: named.bytes,
        });
        Ok(chosen)
    }

    /// Fetches the manifest or index that a reference names.
    async fn named_manifest(
        &self,
        reference: &OciReference,
    ) -> Result<PulledManifest, RegistryError> {
        let (mirrors, registry) = self.endpoints(reference)?;
        for mirror in &mirrors {
            match self.manifest_from(mirror, reference).await {
                Ok(found) => return Ok(found),
                Err(error) => mirror.warn_skipped(&error),
            }
        }
        self.manifest_from(&registry, reference).await
    }

    async fn manifest_from(
        &self,
        endpoint: &RegistryEndpoint,
        reference: &OciReference,
    ) -> Result<PulledManifest, RegistryError> {
        let response = self
            .manifest_request(endpoint, Method::GET, &reference.version())
            .await?;
        if response.status != StatusCode::OK {
            let what = format!("`{reference}`");
            return Err(endpoint
                .status_error(response, &what, "a manifest", RegistryAction::Pull)
                .await);
        }
        let media_type = response.media_type();
        let claimed = response.header(&CONTENT_DIGEST).map(str::to_owned);
        let what = format!("the manifest of `{reference}`");
        let bytes = response.read(&endpoint.host, &what, MANIFEST_MAX).await?;
        let digest = OciDigest::of_bytes(&bytes);
        if let Some(pinned) = reference.digest()
            && pinned != digest
        {
            return Err(endpoint.digest_mismatch(reference, &digest, &pinned));
        }
        if let Some(claimed) = claimed
            && claimed != digest.to_string()
        {
            return Err(RegistryError::DigestMismatch {
                registry: endpoint.host.clone(),
                what,
                found: digest.to_string(),
                expected: mimir_core::text::visible(mimir_core::text::prefix(&claimed, 100)),
            });
        }
        let parsed = OciManifest::parse(&bytes, media_type.as_deref());
        let parsed = parsed.map_err(|fault| match fault {
            ManifestFault::MediaType(found) => RegistryError::MediaType {
                registry: endpoint.host.clone(),
                what: what.clone(),
                found,
                expected: manifest::EXPECTED,
            },
            ManifestFault::Content(why) => endpoint.malformed("a manifest", why),
            ManifestFault::Limit(part, limit) => RegistryError::Limit {
                registry: endpoint.host.clone(),
                what: what.clone(),
                limit: format!("{limit} {part}"),
            },
        })?;
        Ok(PulledManifest {
            digest,
            bytes: bytes.into(),
            parsed,
            index: None,
        })
    }

    async fn manifest_request(
        &self,
        endpoint: &RegistryEndpoint,
        method: Method,
        version: &str,
    ) -> Result<RegistryResponse, RegistryError> {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_static(manifest::ACCEPT));
        let target = endpoint.join(&format!("manifests/{version}"))?;
        self.request(endpoint, RegistryAction::Pull, method, target, headers)
            .await
    }

    /// Returns the mirrors of a reference, which are tried first, and its registry.
    fn endpoints(
        &self,
        reference: &OciReference,
    ) -> Result<(Vec<RegistryEndpoint>, RegistryEndpoint), RegistryError> {
        let repository = reference.repository();
        let hosts = self.mirrors.get(reference.registry()).into_iter().flatten();
        let mirrors = hosts.map(|host| RegistryEndpoint::new(host, repository));
        let mirrors = mirrors.collect::<Result<_, _>>()?;
        Ok((mirrors, RegistryEndpoint::of(reference)?))
    }

    /// Sends a request without a body. See [`Self::request_with_body`].
    async fn request(
        &self,
        endpoint: &RegistryEndpoint,
        action: RegistryAction,
        method: Method,
        target: RequestTarget,
        headers: HeaderMap,
    ) -> Result<RegistryResponse, RegistryError> {
        self.request_with_body(endpoint, action, method, target, headers, Bytes::new())
            .await
    }

    /// Sends a request, and answers a challenge once. Credentials are sent to the endpoint only.
    async fn request_with_body(
        &self,
        endpoint: &RegistryEndpoint,
        action: RegistryAction,
        method: Method,
        target: RequestTarget,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<RegistryResponse, RegistryError> {
        let mut request = RegistryRequest {
            registry: &endpoint.host,
            method,
            target,
            headers,
            body,
        };
        if request.target.origin() != endpoint.base.origin() {
            return self.http.send(request).await;
        }
        let scope = TokenScope {
            registry: endpoint.host.clone(),
            repository: endpoint.repository.clone(),
            action,
        };
        if let Some(authorization) = self.authenticator.cached(&scope) {
            request.headers.insert(header::AUTHORIZATION, authorization);
        }
        let response = self.http.send(request.clone()).await?;
        // A redirect may have led to another host, whose challenge must not be answered.
        let is_challenge = response.status == StatusCode::UNAUTHORIZED
            && response.target.origin() == endpoint.base.origin();
        if !is_challenge {
            return Ok(response);
        }
        self.authenticator.forget(&scope);
        let unauthorized = |had_login| RegistryError::Unauthorized {
            registry: endpoint.host.clone(),
            had_login,
        };
        let answer = self
            .authenticator
            .answer(&self.http, &scope, &response.headers)
            .await?;
        let (authorization, had_login) = answer.ok_or_else(|| unauthorized(false))?;
        request.headers.insert(header::AUTHORIZATION, authorization);
        let response = self.http.send(request).await?;
        if response.status == StatusCode::UNAUTHORIZED {
            self.authenticator.forget(&scope);
            return Err(unauthorized(had_login));
        }
        Ok(response)
    }
}

impl RegistryEndpoint {
    /// Returns the registry of a reference.
    fn of(reference: &OciReference) -> Result<Self, RegistryError> {
        Self::new(reference.registry(), reference.repository())
    }

    fn new(host: &str, repository: &str) -> Result<Self, RegistryError> {
        let host = parse_registry(host).map_err(|why| RegistryError::Reference {
            text: mimir_core::text::visible(host),
            why,
        })?;
        let scheme = if is_loopback(&host) { "http" } else { "https" };
        let url = format!("{scheme}://{host}/v2/{repository}/");
        let base = RequestTarget::parse(&url).map_err(|error| RegistryError::http(&host, error))?;
        Ok(Self {
            host,
            repository: repository.to_owned(),
            base,
        })
    }

    /// Records that the next endpoint is tried.
    fn warn_skipped(&self, error: &RegistryError) {
        tracing::warn!(mirror = self.host, %error, "the mirror is skipped");
    }

    /// Returns the target of a path below the repository.
    fn join(&self, path: &str) -> Result<RequestTarget, RegistryError> {
        // A digest in a relative reference would be read as a scheme.
        let target = RequestTarget::parse(&format!("{}{path}", self.base));
        target.map_err(|error| RegistryError::http(&self.host, error))
    }

    fn malformed(&self, what: &str, why: impl fmt::Display) -> RegistryError {
        RegistryError::Malformed {
            registry: self.host.clone(),
            what: what.to_owned(),
            why: why.to_string(),
        }
    }

    fn digest_mismatch(
        &self,
        reference: &OciReference,
        found: &OciDigest,
        expected: &OciDigest,
    ) -> RegistryError {
        RegistryError::DigestMismatch {
            registry: self.host.clone(),
            what: format!("the manifest of `{reference}`"),
            found: found.to_string(),
            expected: expected.to_string(),
        }
    }

    /// Converts a response with an unexpected status into an error.
    async fn status_error(
        &self,
        response: RegistryResponse,
        what: &str,
        expected: &'static str,
        action: RegistryAction,
    ) -> RegistryError {
        let status = response.status.as_u16();
        let retry = response
            .header(&header::RETRY_AFTER)
            .and_then(|value| value.parse::<u32>().ok())
            .map_or_else(|| "later".to_owned(), |wait| format!("in {wait} s"));
        let registry = self.host.clone();
        let detail = error_detail(response, &registry).await;
        match status {
            401 => RegistryError::Unauthorized {
                registry,
                had_login: false,
            },
            403 => RegistryError::Forbidden {
                registry,
                repository: self.repository.clone(),
                action: action.as_str(),
                detail,
            },
            404 => RegistryError::NotFound {
                registry,
                what: what.to_owned(),
                detail,
            },
            429 => RegistryError::RateLimited { registry, retry },
            status => RegistryError::Status {
                registry,
                status,
                expected,
                detail,
            },
        }
    }
}

/// Returns the code and message of a registry's error response, escaped, in parentheses; or an empty text.
async fn error_detail(response: RegistryResponse, registry: &str) -> String {
    #[derive(serde::Deserialize)]
    struct ErrorList {
        errors: Vec<ErrorEntry>,
    }
    #[derive(serde::Deserialize)]
    struct ErrorEntry {
        #[serde(default)]
        code: String,
        #[serde(default)]
        message: String,
    }
    let body = response.read(registry, "an error", ERROR_BODY_MAX).await;
    let list = body
        .ok()
        .and_then(|body| serde_json::from_slice::<ErrorList>(&body).ok());
    let Some(entry) = list.and_then(|list| list.errors.into_iter().next()) else {
        return String::new();
    };
    let text = format!("{} {}", entry.code, entry.message);
    let text = mimir_core::text::prefix(text.trim(), DETAIL_MAX);
    if text.is_empty() {
        return String::new();
    }
    format!(" ({})", mimir_core::text::visible(text))
}

impl fmt::Debug for RegistryClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegistryClient")
            .field("mirrors", &self.mirrors)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoint_of_another_machine_has_tls() {
        for (host, base) in [
            (
                "registry.example.com",
                "https://registry.example.com/v2/a/b/",
            ),
            (
                "registry.example.com:80",
                "https://registry.example.com:80/v2/a/b/",
            ),
            ("10.0.0.1:5000", "https://10.0.0.1:5000/v2/a/b/"),
            (
                "localhost.example.com:5000",
                "https://localhost.example.com:5000/v2/a/b/",
            ),
            ("localhost:5000", "http://localhost:5000/v2/a/b/"),
            ("127.0.0.1", "http://127.0.0.1/v2/a/b/"),
            ("[::1]:5000", "http://[::1]:5000/v2/a/b/"),
        ] {
            let endpoint = RegistryEndpoint::new(host, "a/b").unwrap();
            assert_eq!(endpoint.base.to_string(), base);
        }
        assert!(RegistryEndpoint::new("registry.example.com/x", "a").is_err());
    }
}
