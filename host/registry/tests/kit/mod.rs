//! Clients and artifacts for the tests.

mod server;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mimir_core::ToolError;
use mimir_core::backend::BoxFuture;
use mimir_core::network::{NetworkPolicy, NetworkRules};
use mimir_net::{
    HostClient, OutboundRequest, PolicyGuard, RequestAuthorizer, RequestLimits, RequestPermit,
    TlsRoots,
};
use mimir_registry::wasm_artifact::{ComponentFacts, pack};
use mimir_registry::{
    COMPONENT_MAX, Credentials, Mirrors, NewArtifact, OciReference, RegistryClient,
};

pub use server::{TestRegistry, cut_after, endless, json, stalled, status};

/// Allows every host that the policy does not block, as commands do for a registry that the user names.
struct AnyHost;

impl RequestAuthorizer for AnyHost {
    fn authorize<'a>(
        &'a self,
        _: OutboundRequest<'a>,
    ) -> BoxFuture<'a, Result<RequestPermit, ToolError>> {
        Box::pin(std::future::ready(Ok(RequestPermit::Unlisted)))
    }
}

/// Returns an HTTP client that reaches this machine by its address, and other hosts as the default policy allows.
pub fn http_client(limits: RequestLimits) -> Arc<HostClient> {
    let rules = NetworkRules {
        allowed: vec![
            "127.0.0.1"
                .parse::<mimir_core::network::HostPattern>()
                .unwrap()
                .into(),
        ],
        ..NetworkRules::default()
    };
    let guard = Arc::new(PolicyGuard::new(NetworkPolicy::new(rules)));
    let client = HostClient::new(guard, Arc::new(AnyHost), TlsRoots::default(), limits, None);
    Arc::new(client)
}

/// Returns a client without credentials and mirrors.
pub fn client() -> RegistryClient {
    client_with(Credentials::default(), Mirrors::new())
}

/// Returns a client with these credentials and mirrors.
pub fn client_with(credentials: Credentials, mirrors: Mirrors) -> RegistryClient {
    let limits = RegistryClient::limits(COMPONENT_MAX);
    RegistryClient::new(http_client(limits), credentials, mirrors)
}

/// Returns a client that waits only for a moment for the next bytes.
pub fn impatient_client() -> RegistryClient {
    let limits = RequestLimits {
        between_bytes: Duration::from_millis(200),
        ..RegistryClient::limits(COMPONENT_MAX)
    };
    RegistryClient::new(http_client(limits), Credentials::default(), Mirrors::new())
}

/// Returns a component of some size, with content that does not repeat.
pub fn component(size: usize) -> Vec<u8> {
    let mut state = 1_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    };
    std::iter::repeat_with(&mut next).take(size).collect()
}

/// Returns a packed component.
pub fn artifact(component: &[u8]) -> NewArtifact {
    let facts = ComponentFacts {
        title: Some("weather".to_owned()),
        exports: vec!["mimir:plugin/tools@1.0.0".to_owned()],
        ..ComponentFacts::default()
    };
    pack(component, &facts)
}

/// Returns the only layer of an artifact in a registry.
pub async fn layer(
    client: &RegistryClient,
    reference: &OciReference,
) -> mimir_registry::Descriptor {
    let manifest = client.manifest(reference).await.unwrap();
    manifest.image().unwrap().layers.first().unwrap().clone()
}

/// A folder for downloads.
pub struct Downloads {
    folder: tempfile::TempDir,
}

impl Downloads {
    pub fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    /// Returns the path of the download.
    pub fn target(&self) -> PathBuf {
        self.folder.path().join("weather.wasm")
    }

    /// Returns the names in the folder.
    pub fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.folder.path()).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// Returns the path of the only partial download.
    pub fn partial(&self) -> PathBuf {
        let names = self.names();
        let name = names.iter().find(|name| name.ends_with(".partial"));
        self.folder.path().join(name.unwrap())
    }
}
