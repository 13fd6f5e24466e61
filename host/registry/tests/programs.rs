//! The client against real programs, which `.ci/registries` installs: Debian's `docker-registry`, which does not have
//! the referrers API, and `oras` in Python.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use mimir_registry::wasm_artifact::find_component;
use mimir_registry::{NewArtifact, NewLayer, OciReference};

use crate::kit::{Downloads, artifact, client, component, layer};

/// Size limit of the tests.
const MAX: u64 = 32 << 20;

/// A running `docker-registry`.
struct DockerRegistry {
    child: Child,
    host: String,
    folder: tempfile::TempDir,
}

impl DockerRegistry {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        // A port that was free a moment ago.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let host = listener.local_addr().unwrap().to_string();
        drop(listener);
        let config = folder.path().join("config.yml");
        let storage = folder.path().join("storage");
        let text = format!(
            "version: 0.1\nlog:\n  level: error\nstorage:\n  filesystem:\n    rootdirectory: {}\n  delete:\n    \
             enabled: true\nhttp:\n  addr: {host}\n",
            storage.display()
        );
        std::fs::write(&config, text).unwrap();
        let child = Command::new("docker-registry")
            .arg("serve")
            .arg(&config)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let registry = Self {
            child,
            host,
            folder,
        };
        for _ in 0..600 {
            if tokio::net::TcpStream::connect(&registry.host).await.is_ok() {
                return registry;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("docker-registry does not listen at {}", registry.host);
    }

    fn reference(&self, path: &str) -> OciReference {
        format!("{}/{path}", self.host).parse().unwrap()
    }

    /// Returns the file in which the registry stores a blob.
    fn blob_file(&self, hex: &str) -> std::path::PathBuf {
        let below = format!("docker/registry/v2/blobs/sha256/{}/{hex}/data", &hex[..2]);
        self.folder.path().join("storage").join(below)
    }
}

impl Drop for DockerRegistry {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
#[ignore = "needs docker-registry"]
async fn docker_registry_stores_and_returns_a_component() {
    let registry = DockerRegistry::start().await;
    let client = client();
    let reference = registry.reference("acme/weather:1.2");
    let content = component(20 << 20);
    let digest = client.push(&reference, &artifact(&content)).await.unwrap();
    client
        .push(&registry.reference("acme/weather:1.3"), &artifact(b"x"))
        .await
        .unwrap();
    assert_eq!(client.resolve(&reference).await.unwrap(), digest);
    let mut tags = client.tags(&reference).await.unwrap();
    tags.sort();
    assert_eq!(tags, ["1.2", "1.3"]);
    let manifest = client.manifest(&reference).await.unwrap();
    let found = find_component(&manifest).unwrap();
    let downloads = Downloads::new();
    client
        .pull_blob(&reference, &found.component, &downloads.target(), MAX)
        .await
        .unwrap();
    assert!(std::fs::read(downloads.target()).unwrap() == content);

    // A partial download is continued.
    let target = downloads.target().with_file_name("other.wasm");
    let name = format!("other.wasm.{}.partial", &found.component.digest.hex()[..16]);
    std::fs::write(target.with_file_name(name), &content[..1 << 20]).unwrap();
    client
        .pull_blob(&reference, &found.component, &target, MAX)
        .await
        .unwrap();
    assert!(std::fs::read(target).unwrap() == content);

    let missing = client
        .manifest(&registry.reference("acme/other:1"))
        .await
        .unwrap_err();
    assert!(missing.is_not_found(), "{missing}");
}

#[tokio::test]
#[ignore = "needs docker-registry"]
async fn docker_registry_with_a_changed_blob_is_noticed() {
    let registry = DockerRegistry::start().await;
    let client = client();
    let reference = registry.reference("acme/weather:1");
    client
        .push(&reference, &artifact(b"content"))
        .await
        .unwrap();
    let blob = layer(&client, &reference).await;
    let downloads = Downloads::new();
    let file = registry.blob_file(&blob.digest.hex());
    for changed in ["contenT", "short", "much longer than before"] {
        std::fs::write(&file, changed).unwrap();
        let pulled = client
            .pull_blob(&reference, &blob, &downloads.target(), MAX)
            .await;
        assert!(pulled.is_err(), "{changed}");
        assert!(!downloads.target().exists());
    }
}

#[tokio::test]
#[ignore = "needs docker-registry"]
async fn docker_registry_lists_referrers_under_the_fallback_tag() {
    let registry = DockerRegistry::start().await;
    let client = client();
    let reference = registry.reference("acme/weather:1");
    let subject = client
        .push(&reference, &artifact(b"content"))
        .await
        .unwrap();
    assert_eq!(client.referrers(&reference, &subject).await.unwrap(), []);
    let mut expected = vec![];
    for number in 0..3 {
        let note = NewArtifact {
            artifact_type: Some("application/vnd.example.note".to_owned()),
            config: NewArtifact::empty_config(),
            layers: vec![NewLayer {
                media_type: "text/plain".to_owned(),
                bytes: vec![number],
                annotations: Default::default(),
            }],
            annotations: Default::default(),
        };
        expected.push(
            client
                .push_referrer(&reference, &subject, &note)
                .await
                .unwrap(),
        );
    }
    let found = client
        .referrers_of_type(&reference, &subject, "application/vnd.example.note")
        .await
        .unwrap();
    assert_eq!(
        found.iter().map(|entry| entry.digest).collect::<Vec<_>>(),
        expected
    );
    let mut tags = client.tags(&reference).await.unwrap();
    tags.sort();
    assert_eq!(tags, ["1", &format!("sha256-{}", subject.hex())]);
    assert_eq!(client.resolve(&reference).await.unwrap(), subject);
}

/// Runs a script with the Python that has `oras`, in a folder.
fn run_python(folder: &Path, script: &str) -> String {
    let python = std::env::var("MIMIR_TEST_ORAS_PYTHON").unwrap();
    let output = Command::new(python)
        .args(["-c", script])
        .current_dir(folder)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{text}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    text
}

#[tokio::test]
#[ignore = "needs docker-registry"]
async fn oras_pulls_what_is_pushed_here_and_pushes_what_is_pulled_here() {
    let registry = DockerRegistry::start().await;
    let client = client();
    let host = &registry.host;
    let content = component(100_000);
    let folder = tempfile::tempdir().unwrap();

    let reference = registry.reference("acme/weather:1");
    let mut ours = artifact(&content);
    // oras names files by this annotation.
    let title = (
        "org.opencontainers.image.title".to_owned(),
        "pulled.wasm".to_owned(),
    );
    ours.layers[0].annotations.extend([title]);
    client.push(&reference, &ours).await.unwrap();
    let script = format!(
        "import oras.client\nc = oras.client.OrasClient(hostname='{host}', insecure=True)\n\
         print(c.pull(target='{host}/acme/weather:1', outdir='out'))"
    );
    run_python(folder.path(), &script);
    let pulled = std::fs::read(folder.path().join("out/pulled.wasm")).unwrap();
    assert!(pulled == content);

    std::fs::write(folder.path().join("theirs.wasm"), &content).unwrap();
    let script = format!(
        "import oras.client\nc = oras.client.OrasClient(hostname='{host}', insecure=True)\n\
         r = c.push(target='{host}/acme/theirs:1', files=['theirs.wasm:application/wasm'], \
         disable_path_validation=True)\nprint(r.status_code)"
    );
    assert!(run_python(folder.path(), &script).contains("201"));
    let theirs = registry.reference("acme/theirs:1");
    let manifest = client.manifest(&theirs).await.unwrap();
    let found = find_component(&manifest).unwrap();
    let downloads = Downloads::new();
    client
        .pull_blob(&theirs, &found.component, &downloads.target(), MAX)
        .await
        .unwrap();
    assert!(std::fs::read(downloads.target()).unwrap() == content);
}
