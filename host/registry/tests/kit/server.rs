//! A small registry with the referrers API, and responses of registries that lie or fail.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use bytes::Bytes;
use futures::StreamExt;
use http::{HeaderMap, Method, StatusCode, header};
use mimir_registry::{IMAGE_INDEX, OciDigest, OciReference};
use parking_lot::Mutex;
use serde_json::{Value, json};

/// Maximum size of an upload.
const UPLOAD_MAX: usize = 64 << 20;
/// Entries of a page of tags.
const PAGE: usize = 3;

/// A request, before the registry answers it: method, path with query, and headers.
type TestHook = Box<dyn FnMut(&Method, &str, &HeaderMap) -> Option<Response> + Send>;

/// A registry on a port of its own.
pub struct TestRegistry {
    address: SocketAddr,
    state: Arc<TestRegistryState>,
}

#[derive(Default)]
struct TestRegistryState {
    host: Mutex<String>,
    blobs: Mutex<BTreeMap<String, Bytes>>,
    manifests: Mutex<BTreeMap<String, (String, Bytes)>>,
    hooks: Mutex<Vec<TestHook>>,
    requests: Mutex<Vec<(String, HeaderMap)>>,
    has_referrers: Mutex<bool>,
}

impl TestRegistry {
    /// Starts a registry with the referrers API.
    pub async fn start() -> Self {
        let state = Arc::new(TestRegistryState::default());
        *state.has_referrers.lock() = true;
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        *state.host.lock() = address.to_string();
        let router = Router::new()
            .fallback(answer)
            .with_state(Arc::clone(&state));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { address, state }
    }

    /// Starts a registry without the referrers API.
    pub async fn without_referrers() -> Self {
        let registry = Self::start().await;
        *registry.state.has_referrers.lock() = false;
        registry
    }

    /// Returns host and port.
    pub fn host(&self) -> String {
        self.address.to_string()
    }

    /// Returns a reference to this registry.
    pub fn reference(&self, path: &str) -> OciReference {
        format!("{}/{path}", self.address).parse().unwrap()
    }

    /// Adds a hook. It may answer a request in place of the registry. Hooks are called in order.
    pub fn hook(
        &self,
        hook: impl FnMut(&Method, &str, &HeaderMap) -> Option<Response> + Send + 'static,
    ) {
        self.state.hooks.lock().push(Box::new(hook));
    }

    /// Answers each GET whose path contains `part` with `response`.
    pub fn replace(&self, part: &'static str, response: impl Fn() -> Response + Send + 'static) {
        self.hook(move |method, path, _| {
            (*method == Method::GET && path.contains(part)).then(&response)
        });
    }

    /// Removes all hooks.
    pub fn clear_hooks(&self) {
        self.state.hooks.lock().clear();
    }

    /// Returns method and path of each request so far, and forgets them.
    pub fn take_requests(&self) -> Vec<(String, HeaderMap)> {
        std::mem::take(&mut self.state.requests.lock())
    }

    /// Stores a manifest, or anything else, under a tag.
    pub fn put_manifest(&self, repository: &str, tag: &str, media_type: &str, bytes: &[u8]) {
        let mut manifests = self.state.manifests.lock();
        for version in [tag.to_owned(), OciDigest::of_bytes(bytes).to_string()] {
            let value = (media_type.to_owned(), Bytes::copy_from_slice(bytes));
            manifests.insert(format!("{repository}:{version}"), value);
        }
    }

    /// Copies all blobs and manifests of another registry.
    pub fn copy_from(&self, other: &Self) {
        *self.state.blobs.lock() = other.state.blobs.lock().clone();
        *self.state.manifests.lock() = other.state.manifests.lock().clone();
    }

    /// Returns the stored manifest of a tag.
    pub fn manifest(&self, repository: &str, tag: &str) -> Option<Value> {
        let manifests = self.state.manifests.lock();
        let (_, bytes) = manifests.get(&format!("{repository}:{tag}"))?;
        Some(serde_json::from_slice(bytes).unwrap())
    }
}

/// Returns a response with a status and an error of the registry.
pub fn status(code: u16) -> Response {
    let body = json!({"errors": [{"code": "TEST", "message": "told by the \u{1b}[2Jregistry"}]});
    let mut response = json_response(&body);
    *response.status_mut() = StatusCode::from_u16(code).unwrap();
    response
}

/// Returns a response with JSON.
pub fn json(body: &Value) -> Response {
    json_response(body)
}

/// Returns a response that announces `announced` bytes and closes the connection after `bytes`.
pub fn cut_after(bytes: Vec<u8>, announced: usize) -> Response {
    let chunks = [Ok(Bytes::from(bytes)), Err(io::Error::other("cut"))];
    // The pause makes the server send the first chunk before it fails.
    let chunks = futures::stream::iter(chunks).then(|chunk| async {
        tokio::task::yield_now().await;
        chunk
    });
    let response = Response::builder().header(header::CONTENT_LENGTH, announced);
    response.body(Body::from_stream(chunks)).unwrap()
}

/// Returns a response whose body does not end.
pub fn endless() -> Response {
    let chunk = Bytes::from_static(&[7; 4096]);
    let chunks = futures::stream::repeat(chunk).map(Ok::<_, io::Error>);
    Response::new(Body::from_stream(chunks))
}

/// Returns a response whose body has some bytes, and then nothing for ever.
pub fn stalled(bytes: Vec<u8>) -> Response {
    let first = futures::stream::iter([Ok::<_, io::Error>(Bytes::from(bytes))]);
    Response::new(Body::from_stream(first.chain(futures::stream::pending())))
}

fn json_response(body: &Value) -> Response {
    let response = Response::builder().header(header::CONTENT_TYPE, "application/json");
    response.body(Body::from(body.to_string())).unwrap()
}

fn empty(code: u16) -> Response {
    let response = Response::builder().status(code);
    response.body(Body::empty()).unwrap()
}

async fn answer(State(state): State<Arc<TestRegistryState>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let uri = parts.uri.path_and_query().unwrap().as_str().to_owned();
    let line = format!("{} {uri}", parts.method);
    state.requests.lock().push((line, parts.headers.clone()));
    let body = axum::body::to_bytes(body, UPLOAD_MAX).await.unwrap();
    let hooks = &mut *state.hooks.lock();
    let hooked = hooks
        .iter_mut()
        .find_map(|hook| hook(&parts.method, &uri, &parts.headers));
    hooked.unwrap_or_else(|| state.answer(&parts.method, &uri, &parts.headers, body))
}

impl TestRegistryState {
    fn answer(&self, method: &Method, uri: &str, headers: &HeaderMap, body: Bytes) -> Response {
        let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
        let Some(path) = path.strip_prefix("/v2/") else {
            return empty(404);
        };
        if let Some((repository, version)) = path.rsplit_once("/manifests/") {
            return self.manifests(method, repository, version, headers, body);
        }
        if path.ends_with("/blobs/uploads/") {
            let location = "/uploads/1?state=%3Astate";
            let response = Response::builder().status(202);
            let location = format!("/v2/{}{location}", path.trim_end_matches("/blobs/uploads/"));
            let response = response.header(header::LOCATION, location);
            return response.body(Body::empty()).unwrap();
        }
        if path.contains("/uploads/") && *method == Method::PUT {
            let digest = query
                .split('&')
                .find_map(|pair| pair.strip_prefix("digest="));
            let digest = digest.unwrap().replace("%3A", ":");
            if digest != OciDigest::of_bytes(&body).to_string() || !query.contains("state=%3Astate")
            {
                return status(400);
            }
            self.blobs.lock().insert(digest, body);
            return empty(201);
        }
        if let Some((_, digest)) = path.rsplit_once("/blobs/") {
            return self.blob(digest, headers);
        }
        if let Some((repository, digest)) = path.rsplit_once("/referrers/") {
            return self.referrers(repository, digest, query);
        }
        if let Some(repository) = path.strip_suffix("/tags/list") {
            return self.tags(repository, query);
        }
        empty(404)
    }

    fn manifests(
        &self,
        method: &Method,
        repository: &str,
        version: &str,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Response {
        let digest = OciDigest::of_bytes(&body).to_string();
        if *method != Method::PUT {
            let manifests = self.manifests.lock();
            let Some((media_type, bytes)) = manifests.get(&format!("{repository}:{version}"))
            else {
                return status(404);
            };
            let digest = OciDigest::of_bytes(bytes).to_string();
            let response = Response::builder()
                .header(header::CONTENT_TYPE, media_type)
                .header("docker-content-digest", digest);
            return response.body(Body::from(bytes.clone())).unwrap();
        }
        let media_type = headers.get(header::CONTENT_TYPE).unwrap().to_str().unwrap();
        for version in [version, &digest] {
            let value = (media_type.to_owned(), body.clone());
            let mut manifests = self.manifests.lock();
            manifests.insert(format!("{repository}:{version}"), value);
        }
        let mut response = Response::builder()
            .status(201)
            .header("docker-content-digest", digest);
        let manifest: Value = serde_json::from_slice(&body).unwrap();
        if let Some(subject) = manifest.pointer("/subject/digest").and_then(Value::as_str)
            && *self.has_referrers.lock()
        {
            response = response.header("oci-subject", subject);
        }
        response.body(Body::empty()).unwrap()
    }

    fn blob(&self, digest: &str, headers: &HeaderMap) -> Response {
        let Some(bytes) = self.blobs.lock().get(digest).cloned() else {
            return status(404);
        };
        let range = headers
            .get(header::RANGE)
            .map(|range| range.to_str().unwrap());
        let Some(range) = range else {
            return Response::new(Body::from(bytes));
        };
        let start = range
            .strip_prefix("bytes=")
            .and_then(|range| range.strip_suffix('-'));
        let start: usize = start.unwrap().parse().unwrap();
        if start >= bytes.len() {
            return empty(416);
        }
        let value = format!("bytes {start}-{}/{}", bytes.len() - 1, bytes.len());
        let response = Response::builder().status(206);
        let response = response.header(header::CONTENT_RANGE, value);
        response.body(Body::from(bytes.slice(start..))).unwrap()
    }

    fn referrers(&self, repository: &str, subject: &str, query: &str) -> Response {
        if !*self.has_referrers.lock() {
            return empty(404);
        }
        let filter = query.strip_prefix("artifactType=");
        let filter = filter.map(|filter| filter.replace("%2F", "/").replace("%2B", "+"));
        let manifests = self.manifests.lock();
        let prefix = format!("{repository}:sha256:");
        let stored = manifests.iter().filter(|(key, _)| key.starts_with(&prefix));
        let entries = stored.filter_map(|(key, (media_type, bytes))| {
            let manifest: Value = serde_json::from_slice(bytes).ok()?;
            let digest = key.strip_prefix(&format!("{repository}:"))?;
            let artifact_type = manifest
                .get("artifactType")
                .or_else(|| manifest.pointer("/config/mediaType"))?;
            let is_wanted = manifest.pointer("/subject/digest")? == subject
                && filter.as_ref().is_none_or(|filter| artifact_type == filter);
            is_wanted.then(|| {
                json!({"mediaType": media_type, "digest": digest, "size": bytes.len(),
                       "artifactType": artifact_type})
            })
        });
        let entries: Vec<Value> = entries.collect();
        let index = json!({"schemaVersion": 2, "mediaType": IMAGE_INDEX, "manifests": entries});
        let response = Response::builder().header(header::CONTENT_TYPE, IMAGE_INDEX);
        response.body(Body::from(index.to_string())).unwrap()
    }

    fn tags(&self, repository: &str, query: &str) -> Response {
        let manifests = self.manifests.lock();
        let keys = manifests.keys();
        let names = keys.filter_map(|key| key.strip_prefix(&format!("{repository}:")));
        let last = query.split('&').find_map(|pair| pair.strip_prefix("last="));
        let after =
            names.filter(|name| !name.contains(':') && last.is_none_or(|last| *name > last));
        let after: Vec<&str> = after.collect();
        if after.is_empty() {
            return status(404);
        }
        let page: Vec<&str> = after.iter().copied().take(PAGE).collect();
        let mut response = Response::builder().header(header::CONTENT_TYPE, "application/json");
        if after.len() > PAGE {
            let last = page.last().unwrap();
            let link = format!("</v2/{repository}/tags/list?n=3&last={last}>; rel=\"next\"");
            response = response.header(header::LINK, link);
        }
        let body = json!({"name": repository, "tags": page});
        response.body(Body::from(body.to_string())).unwrap()
    }
}
