//! An OCI registry in memory, on a local port: with or without the referrers API and a login, and with faults.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// A registry that runs until the test ends.
#[derive(Clone)]
pub struct OciRegistry {
    address: String,
    content: Arc<Mutex<RegistryContent>>,
}

/// Behaviour and content of a registry.
#[derive(Default)]
pub struct RegistryContent {
    /// Manifests by `repository@digest`, with their media types.
    pub manifests: BTreeMap<String, (String, Vec<u8>)>,
    /// Digests by `repository:tag`.
    pub tags: BTreeMap<String, String>,
    /// Blobs by digest.
    pub blobs: BTreeMap<String, Vec<u8>>,
    /// Does not offer the referrers API.
    pub lacks_referrers: bool,
    /// Requires this `user:password`, in base64.
    pub login: Option<String>,
    /// Ends the next downloads of large blobs after this many bytes, once per entry.
    pub cuts: Vec<usize>,
    /// The requests: method and path, with the range if there is one.
    pub requests: Vec<String>,
}

impl OciRegistry {
    /// Starts an empty registry.
    pub fn start() -> Self {
        let content = Arc::new(Mutex::new(RegistryContent::default()));
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let state = Arc::clone(&content);
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                let router = Router::new().fallback(answer).with_state(state);
                axum::serve(listener, router).await.unwrap();
            });
        });
        Self { address, content }
    }

    /// Host and port.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// A reference in this registry.
    pub fn reference(&self, rest: &str) -> String {
        format!("{}/{rest}", self.address)
    }

    /// Reads or changes the content.
    pub fn with<T>(&self, change: impl FnOnce(&mut RegistryContent) -> T) -> T {
        change(&mut self.content.lock().unwrap())
    }

    /// The digest of a tag, such as `acme/weather:1`.
    pub fn digest(&self, tag: &str) -> String {
        self.with(|content| content.tags[tag].clone())
    }

    /// The manifest of a tag.
    pub fn manifest(&self, tag: &str) -> Value {
        let digest = self.digest(tag);
        let repository = tag.split(':').next().unwrap();
        self.with(|content| {
            let (_, bytes) = &content.manifests[&format!("{repository}@{digest}")];
            serde_json::from_slice(bytes).unwrap()
        })
    }

    /// Stores a manifest under a tag, as an attacker with access to the registry could. Returns its digest.
    pub fn put_manifest(&self, tag: &str, manifest: &Value) -> String {
        let bytes = serde_json::to_vec(manifest).unwrap();
        let digest = digest_of(&bytes);
        let repository = tag.split(':').next().unwrap();
        self.with(|content| {
            let key = format!("{repository}@{digest}");
            content.manifests.insert(key, (MANIFEST.to_owned(), bytes));
            content.tags.insert(tag.to_owned(), digest.clone());
        });
        digest
    }

    /// Stores a blob. Returns its descriptor.
    pub fn put_blob(&self, media_type: &str, bytes: &[u8]) -> Value {
        let digest = digest_of(bytes);
        self.with(|content| content.blobs.insert(digest.clone(), bytes.to_vec()));
        json!({"mediaType": media_type, "digest": digest, "size": bytes.len()})
    }

    /// The requests so far.
    pub fn requests(&self) -> Vec<String> {
        self.with(|content| content.requests.clone())
    }
}

/// The digest of some bytes.
pub fn digest_of(bytes: &[u8]) -> String {
    format!("sha256:{:x}", Sha256::digest(bytes))
}

fn reply(status: u16, headers: &[(&str, &str)], body: impl Into<Body>) -> Response {
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(*name, *value);
    }
    response.body(body.into()).unwrap()
}

fn not_found() -> Response {
    let error = json!({"errors": [{"code": "MANIFEST_UNKNOWN", "message": "not found"}]});
    reply(404, &[], error.to_string())
}

async fn answer(State(state): State<Arc<Mutex<RegistryContent>>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    let header = |name: &str| {
        let value = parts.headers.get(name)?;
        Some(value.to_str().unwrap().to_owned())
    };
    let path = parts.uri.path().to_owned();
    let query = parts.uri.query().unwrap_or_default().to_owned();
    let mut content = state.lock().unwrap();
    let mut line = format!("{} {path}", parts.method);
    if let Some(range) = header("range") {
        write!(line, " {range}").unwrap();
    }
    content.requests.push(line);
    if let Some(login) = &content.login
        && header("authorization") != Some(format!("Basic {login}"))
    {
        return reply(401, &[("www-authenticate", "Basic realm=\"test\"")], "");
    }
    let rest = path.strip_prefix("/v2/").unwrap_or_default();
    let method = parts.method.as_str();
    if let Some((repository, version)) = rest.split_once("/manifests/") {
        let media_type = header("content-type").unwrap_or_default();
        return manifests(
            &mut content,
            method,
            (repository, version),
            &media_type,
            body,
        );
    }
    if let Some((_, rest)) = rest.split_once("/blobs/") {
        return blobs(
            &mut content,
            method,
            rest,
            &query,
            header("range"),
            &body,
            &path,
        );
    }
    if let Some((repository, subject)) = rest.split_once("/referrers/") {
        return referrers(&content, repository, subject);
    }
    if let Some(repository) = rest.strip_suffix("/tags/list") {
        let tags = content
            .tags
            .keys()
            .filter_map(|key| key.strip_prefix(&format!("{repository}:")));
        let tags: Vec<&str> = tags.collect();
        return reply(
            200,
            &[],
            json!({"name": repository, "tags": tags}).to_string(),
        );
    }
    reply(if path == "/v2/" { 200 } else { 404 }, &[], "{}")
}

fn manifests(
    content: &mut RegistryContent,
    method: &str,
    (repository, version): (&str, &str),
    media_type: &str,
    body: Bytes,
) -> Response {
    let tag = format!("{repository}:{version}");
    if method == "PUT" {
        let digest = digest_of(&body);
        let subject = serde_json::from_slice::<Value>(&body).unwrap()["subject"]["digest"].clone();
        if !version.starts_with("sha256:") {
            content.tags.insert(tag, digest.clone());
        }
        let key = format!("{repository}@{digest}");
        content
            .manifests
            .insert(key, (media_type.to_owned(), body.into()));
        let mut headers = vec![("docker-content-digest", digest.as_str())];
        if let Some(subject) = subject.as_str().filter(|_| !content.lacks_referrers) {
            headers.push(("oci-subject", subject));
        }
        return reply(201, &headers, "");
    }
    let digest = match content.tags.get(&tag) {
        Some(digest) => digest.clone(),
        None => version.to_owned(),
    };
    match content.manifests.get(&format!("{repository}@{digest}")) {
        Some((media_type, bytes)) => {
            let headers = [
                ("content-type", media_type.as_str()),
                ("docker-content-digest", digest.as_str()),
            ];
            reply(200, &headers, bytes.clone())
        }
        None => not_found(),
    }
}

fn blobs(
    content: &mut RegistryContent,
    method: &str,
    rest: &str,
    query: &str,
    range: Option<String>,
    body: &[u8],
    path: &str,
) -> Response {
    match method {
        "POST" => return reply(202, &[("location", &format!("{path}1"))], ""),
        "PUT" => {
            let digest = query
                .split('&')
                .find_map(|pair| pair.strip_prefix("digest="));
            let digest = digest.unwrap().replace("%3A", ":");
            if digest != digest_of(body) {
                return reply(400, &[], "");
            }
            content.blobs.insert(digest, body.to_vec());
            return reply(201, &[], "");
        }
        _ => {}
    }
    let Some(bytes) = content.blobs.get(rest).cloned() else {
        return not_found();
    };
    let start: usize = match &range {
        Some(range) => {
            let start = range.strip_prefix("bytes=").unwrap();
            start.strip_suffix('-').unwrap().parse().unwrap()
        }
        None => 0,
    };
    let total = bytes.len();
    let mut part = bytes[start..].to_vec();
    if method == "GET" && total > 100_000 && !content.cuts.is_empty() {
        let length = content.cuts.remove(0).min(part.len());
        part.truncate(length);
        // The body ends early, although more was announced.
        let stream = cut_body(part);
        let announced = (total - start).to_string();
        let mut headers = vec![("content-length", announced)];
        let range = format!("bytes {start}-{}/{total}", total - 1);
        if start > 0 {
            headers.push(("content-range", range));
        }
        let headers: Vec<(&str, &str)> = headers
            .iter()
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        return reply(if start > 0 { 206 } else { 200 }, &headers, stream);
    }
    if start > 0 {
        let range = format!("bytes {start}-{}/{total}", total - 1);
        return reply(206, &[("content-range", &range)], part);
    }
    reply(200, &[], part)
}

/// A body that ends with an error after these bytes, as a lost connection does.
fn cut_body(bytes: Vec<u8>) -> Body {
    Body::new(CutBody {
        bytes: Some(bytes.into()),
        pauses: 5,
    })
}

struct CutBody {
    bytes: Option<Bytes>,
    /// Number of polls without a result before the end, in which the server sends what it has.
    pauses: u8,
}

impl http_body::Body for CutBody {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, std::io::Error>>> {
        if let Some(bytes) = self.bytes.take() {
            return Poll::Ready(Some(Ok(http_body::Frame::data(bytes))));
        }
        if self.pauses > 0 {
            self.pauses -= 1;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(Some(Err(std::io::Error::other("cut"))))
    }
}

fn referrers(content: &RegistryContent, repository: &str, subject: &str) -> Response {
    if content.lacks_referrers {
        return not_found();
    }
    let prefix = format!("{repository}@");
    let mut found = Vec::new();
    for (key, (media_type, bytes)) in &content.manifests {
        let Some(digest) = key.strip_prefix(&prefix) else {
            continue;
        };
        let manifest: Value = serde_json::from_slice(bytes).unwrap_or_default();
        if manifest["subject"]["digest"] == subject {
            found.push(json!({
                "mediaType": media_type, "digest": digest, "size": bytes.len(),
                "artifactType": manifest["artifactType"],
            }));
        }
    }
    let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": found});
    reply(200, &[("content-type", INDEX)], index.to_string())
}
