//! Downloads of blobs: interruptions, lies about size and content, and what they leave on the disk.

use http::{Method, header};
use mimir_core::ToolErrorCode;
use mimir_registry::{Descriptor, RegistryClient, RegistryError};

use crate::kit::{
    Downloads, TestRegistry, artifact, client, component, cut_after, endless, impatient_client,
    layer, stalled, status,
};

/// Size limit of the tests.
const MAX: u64 = 1 << 20;

/// A registry with a component of 100,000 bytes.
struct Published {
    registry: TestRegistry,
    client: RegistryClient,
    reference: mimir_registry::OciReference,
    blob: Descriptor,
    content: Vec<u8>,
    downloads: Downloads,
}

impl Published {
    async fn start() -> Self {
        let registry = TestRegistry::start().await;
        let client = client();
        let reference = registry.reference("acme/weather:1");
        let content = component(100_000);
        client.push(&reference, &artifact(&content)).await.unwrap();
        let blob = layer(&client, &reference).await;
        registry.take_requests();
        Self {
            registry,
            client,
            reference,
            blob,
            content,
            downloads: Downloads::new(),
        }
    }

    async fn pull(&self) -> Result<(), RegistryError> {
        let target = self.downloads.target();
        self.client
            .pull_blob(&self.reference, &self.blob, &target, MAX)
            .await
    }

    fn assert_complete(&self) {
        assert_eq!(self.downloads.names(), ["weather.wasm"]);
        let found = std::fs::read(self.downloads.target()).unwrap();
        assert!(found == self.content, "{} bytes", found.len());
    }

    /// Returns the `Range` headers of the requests so far.
    fn ranges(&self) -> Vec<String> {
        let requests = self.registry.take_requests();
        let ranges = requests.iter().map(|(_, headers)| {
            let range = headers.get(header::RANGE);
            range
                .map_or("all", |range| range.to_str().unwrap())
                .to_owned()
        });
        ranges.collect()
    }
}

#[tokio::test]
async fn download_replaces_the_target() {
    let published = Published::start().await;
    std::fs::write(published.downloads.target(), "old").unwrap();
    published.pull().await.unwrap();
    published.assert_complete();
    let bytes = published
        .client
        .read_blob(&published.reference, &published.blob, MAX)
        .await;
    assert!(bytes.unwrap() == published.content);
}

#[tokio::test]
async fn download_continues_after_a_cut_connection() {
    let published = Published::start().await;
    let content = published.content.clone();
    let mut cuts = 2;
    published.registry.hook(move |_, path, headers| {
        if !path.contains("/blobs/") || cuts == 0 {
            return None;
        }
        cuts -= 1;
        if headers.contains_key(header::RANGE) {
            // The second response is cut, too.
            let mut response = cut_after(content[30_000..60_000].to_vec(), 70_000);
            *response.status_mut() = http::StatusCode::PARTIAL_CONTENT;
            let range = header::HeaderValue::from_static("bytes 30000-99999/100000");
            response.headers_mut().insert(header::CONTENT_RANGE, range);
            return Some(response);
        }
        Some(cut_after(content[..30_000].to_vec(), 100_000))
    });
    published.pull().await.unwrap();
    published.assert_complete();
    assert_eq!(published.ranges(), ["all", "bytes=30000-", "bytes=60000-"]);
}

#[tokio::test]
async fn download_continues_in_a_later_call() {
    let published = Published::start().await;
    std::fs::write(published.downloads.target(), "old").unwrap();
    let content = published.content.clone();
    published.registry.hook(move |_, path, headers| {
        if !path.contains("/blobs/") {
            return None;
        }
        if headers.contains_key(header::RANGE) {
            return Some(status(503));
        }
        Some(cut_after(content[..30_000].to_vec(), 100_000))
    });
    let error = published.pull().await.unwrap_err();
    assert!(error.to_string().contains("status 503"), "{error}");
    // The old file is unchanged, and the part is kept.
    assert_eq!(std::fs::read(published.downloads.target()).unwrap(), b"old");
    assert_eq!(
        std::fs::read(published.downloads.partial()).unwrap().len(),
        30_000
    );
    published.registry.clear_hooks();
    published.registry.take_requests();
    published.pull().await.unwrap();
    published.assert_complete();
    assert_eq!(published.ranges(), ["bytes=30000-"]);
}

#[tokio::test]
async fn download_restarts_if_its_part_is_damaged() {
    for (part, ranges) in [
        (vec![0; 30_000], &["bytes=30000-", "all"][..]),
        (vec![0; 100_000], &["all"]),
        (vec![0; 200_000], &["all"]),
    ] {
        let published = Published::start().await;
        let target = published.downloads.target();
        let name = format!(
            "weather.wasm.{}.partial",
            &published.blob.digest.hex()[..16]
        );
        std::fs::write(target.with_file_name(name), part).unwrap();
        published.pull().await.unwrap();
        published.assert_complete();
        assert_eq!(published.ranges(), ranges);
    }
}

#[tokio::test]
async fn download_restarts_if_the_registry_ignores_ranges() {
    let published = Published::start().await;
    let content = published.content.clone();
    let mut is_first = true;
    published.registry.hook(move |_, path, _| {
        path.contains("/blobs/").then(|| {
            let is_cut = std::mem::take(&mut is_first);
            let body = if is_cut {
                &content[..30_000]
            } else {
                &content[..]
            };
            cut_after(body.to_vec(), content.len())
        })
    });
    published.pull().await.unwrap();
    published.assert_complete();
}

#[cfg(unix)]
#[tokio::test]
async fn download_does_not_write_through_a_link() {
    let published = Published::start().await;
    let target = published.downloads.target();
    let victim = tempfile::NamedTempFile::new().unwrap();
    let name = format!(
        "weather.wasm.{}.partial",
        &published.blob.digest.hex()[..16]
    );
    std::os::unix::fs::symlink(victim.path(), target.with_file_name(name)).unwrap();
    published.pull().await.unwrap();
    published.assert_complete();
    assert_eq!(std::fs::read(victim.path()).unwrap(), b"");
}

#[tokio::test]
async fn download_of_another_process_is_left_alone() {
    let published = Published::start().await;
    let target = published.downloads.target();
    let name = format!(
        "weather.wasm.{}.partial",
        &published.blob.digest.hex()[..16]
    );
    let partial = target.with_file_name(name);
    std::fs::write(&partial, "theirs").unwrap();
    let other = std::fs::File::open(&partial).unwrap();
    other.lock().unwrap();
    published.pull().await.unwrap();
    assert!(std::fs::read(target).unwrap() == published.content);
    drop(other);
    assert_eq!(std::fs::read(&partial).unwrap(), b"theirs");
}

#[tokio::test]
async fn download_with_a_lie_about_content_or_size_keeps_the_old_file() {
    let other = component(100_001)[1..].to_vec();
    let longer = component(100_001);
    let response = |body: Vec<u8>, announced: Option<usize>| {
        move || match announced {
            Some(announced) => cut_after(body.clone(), announced),
            None => axum::response::Response::new(axum::body::Body::from_stream(
                futures::stream::iter([Ok::<_, std::io::Error>(bytes::Bytes::from(body.clone()))]),
            )),
        }
    };
    for (name, body, announced, expected) in [
        ("digest", other.clone(), None, "with the digest sha256:"),
        (
            "announced size",
            longer.clone(),
            Some(100_001),
            "100001 bytes, expected 100000",
        ),
        ("streamed size", longer, None, "more bytes, expected 100000"),
        (
            "truncated",
            other[..10].to_vec(),
            None,
            "only 10 of 100000 bytes",
        ),
    ] {
        let published = Published::start().await;
        std::fs::write(published.downloads.target(), "old").unwrap();
        published
            .registry
            .replace("/blobs/", response(body, announced));
        let error = published.pull().await.unwrap_err();
        assert!(error.to_string().contains(expected), "{name}: {error}");
        assert!(
            error.to_string().contains(&published.registry.host()),
            "{error}"
        );
        // A body that ends early is continued by the next attempt.
        let code = match name {
            "truncated" => ToolErrorCode::Network,
            _ => ToolErrorCode::PermissionDenied,
        };
        assert_eq!(error.code(), code, "{name}");
        assert_eq!(
            std::fs::read(published.downloads.target()).unwrap(),
            b"old",
            "{name}"
        );
        let read = published
            .client
            .read_blob(&published.reference, &published.blob, MAX)
            .await;
        assert!(read.is_err(), "{name}");
        // After that, an honest registry is enough.
        published.registry.clear_hooks();
        published.pull().await.unwrap();
        published.assert_complete();
    }
}

#[tokio::test]
async fn download_of_an_endless_body_ends_at_the_expected_size() {
    let published = Published::start().await;
    published.registry.replace("/blobs/", endless);
    let error = published.pull().await.unwrap_err();
    assert!(matches!(error, RegistryError::Size { .. }), "{error}");
    assert!(published.downloads.names().is_empty());
    let read = published
        .client
        .read_blob(&published.reference, &published.blob, MAX)
        .await;
    assert!(matches!(read, Err(RegistryError::Size { .. })), "{read:?}");
}

#[tokio::test]
async fn download_of_a_stalled_body_times_out() {
    let mut published = Published::start().await;
    published.client = impatient_client();
    published
        .registry
        .replace("/blobs/", || stalled(vec![1; 10]));
    let error = published.pull().await.unwrap_err();
    assert_eq!(error.code(), ToolErrorCode::Timeout, "{error}");
}

#[tokio::test]
async fn download_above_the_limit_sends_no_request() {
    let published = Published::start().await;
    let large = Descriptor {
        size: MAX + 1,
        ..published.blob.clone()
    };
    let target = published.downloads.target();
    let error = published
        .client
        .pull_blob(&published.reference, &large, &target, MAX)
        .await;
    assert_eq!(error.unwrap_err().code(), ToolErrorCode::LimitExceeded);
    let error = published
        .client
        .read_blob(&published.reference, &large, MAX)
        .await;
    assert_eq!(error.unwrap_err().code(), ToolErrorCode::LimitExceeded);
    assert!(published.registry.take_requests().is_empty());
    assert!(published.downloads.names().is_empty());
}

#[tokio::test]
async fn download_with_a_wrong_range_is_refused() {
    let published = Published::start().await;
    let content = published.content.clone();
    published.registry.hook(move |method, path, headers| {
        let is_blob = *method == Method::GET && path.contains("/blobs/");
        is_blob.then(|| {
            if !headers.contains_key(header::RANGE) {
                return cut_after(content[..30_000].to_vec(), 100_000);
            }
            let mut response = cut_after(content[40_000..].to_vec(), 60_000);
            *response.status_mut() = http::StatusCode::PARTIAL_CONTENT;
            let range = header::HeaderValue::from_static("bytes 40000-99999/100000");
            response.headers_mut().insert(header::CONTENT_RANGE, range);
            response
        })
    });
    let error = published.pull().await.unwrap_err();
    assert!(
        error.to_string().contains("expected the bytes from 30000"),
        "{error}"
    );
}

#[tokio::test]
async fn download_to_a_folder_that_cannot_be_written_is_a_storage_error() {
    let published = Published::start().await;
    let file = tempfile::NamedTempFile::new().unwrap();
    let target = file.path().join("weather.wasm");
    let error = published
        .client
        .pull_blob(&published.reference, &published.blob, &target, MAX)
        .await;
    assert!(
        matches!(error, Err(RegistryError::Storage { .. })),
        "{error:?}"
    );
}
