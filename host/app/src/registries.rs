//! Registries of components: the client that the settings describe, and components that it pulls.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use mimir_core::backend::BoxFuture;
use mimir_core::network::NetworkPolicy;
use mimir_core::{Policy, ToolError};
use mimir_net::{
    HostClient, OutboundRequest, PolicyGuard, RequestAuthorizer, RequestLimits, RequestPermit,
    TlsRoots,
};
use mimir_registry::{Credentials, RegistryClient};

use crate::servers::without_project_network;
use crate::settings::MergedSettings;
use crate::setup::HostSetup;

mod catalog;
mod credential_helper;
mod download_cache;
mod pull;
mod signature_state;
mod stored_signatures;

pub use crate::signing_keys::trust_policy;
pub use catalog::{CATALOG_MEDIA_TYPE, CatalogTool, MAX_CATALOG_SIZE, ToolCatalog, fetch_catalog};
use credential_helper::DockerCredentialHelper;
pub use pull::{InspectedArtifact, PulledComponent, Registries, describe_signer, source_signer};
pub use signature_state::SignatureState;
pub use stored_signatures::{
    installed_signature_state, stored_signatures_path, verify_source, verify_stored,
    write_stored_signatures,
};

/// Maximum size of a component in bytes. The loader also refuses larger ones.
pub const MAX_COMPONENT_SIZE: u64 = 256 << 20;

/// Timeout of a transfer, enough for a large component over a slow connection.
const TRANSFER_TIMEOUT: Duration = Duration::from_secs(600);

/// Authorizer of requests that a person has started by naming the target, such as a registry: allows every host within
/// the limits of team policies. The guard of the client still refuses private addresses and blocked ports.
struct NamedTargetAuthorizer {
    teams: Vec<NetworkPolicy>,
}

impl RequestAuthorizer for NamedTargetAuthorizer {
    fn authorize<'a>(
        &'a self,
        request: OutboundRequest<'a>,
    ) -> BoxFuture<'a, Result<RequestPermit, ToolError>> {
        let checked = request.check_teams(&self.teams);
        let permit = checked.map(|()| RequestPermit::Unlisted);
        Box::pin(std::future::ready(permit.map_err(Into::into)))
    }
}

/// Creates a client for requests to targets that the user has named. Neither they nor redirect targets need to be in
/// `allowedHosts`; other restrictions of the config apply. Certificate files are relative to `root`.
pub fn named_target_client(
    policy: &Policy,
    root: &Path,
    limits: RequestLimits,
) -> Result<HostClient, ToolError> {
    let guard = Arc::new(PolicyGuard::new(policy.own_network()));
    let roots = TlsRoots::from_folder(root, &policy.roots(None))?;
    let teams = policy.team_networks(None).collect();
    let authorizer = Arc::new(NamedTargetAuthorizer { teams });
    Ok(HostClient::new(guard, authorizer, roots, limits, None))
}

/// Returns the limits of a transfer of at most `max_bytes` bytes.
pub fn transfer_limits(max_bytes: u64) -> RequestLimits {
    RequestLimits {
        whole: TRANSFER_TIMEOUT,
        body_bytes: max_bytes,
        upload_bytes: max_bytes,
        ..RequestLimits::default()
    }
}

/// Creates the client of registries that the settings of a workspace describe.
pub fn registry_client(setup: &HostSetup) -> Result<RegistryClient, ToolError> {
    registry_client_for(&setup.settings, setup.workspace.root())
}

/// Creates the client of registries that these settings describe. Certificate files are relative to `root`, and programs
/// in it are not used as credential helpers.
pub fn registry_client_for(
    settings: &MergedSettings,
    root: &Path,
) -> Result<RegistryClient, ToolError> {
    // Passwords are sent to registries, so that a project must not redirect them.
    let policy = without_project_network(settings).policy()?;
    let limits = RegistryClient::limits(MAX_COMPONENT_SIZE);
    let http = named_target_client(&policy, root, limits)?;
    let helper = DockerCredentialHelper::outside(root);
    let credentials = Credentials::from_files(credential_files(), Some(Arc::new(helper)));
    let mirrors = settings.config.registries.mirrors.clone();
    Ok(RegistryClient::new(Arc::new(http), credentials, mirrors))
}

/// Returns the files in which Docker and similar programs store logins of this user, in order of preference. Relative
/// paths are ignored, because a checkout could contain such files.
fn credential_files() -> Vec<PathBuf> {
    credential_files_from(|name| std::env::var_os(name).map(PathBuf::from))
}

fn credential_files_from(variable: impl Fn(&str) -> Option<PathBuf>) -> Vec<PathBuf> {
    let folder = |name: &str| variable(name).filter(|path| path.is_absolute());
    let home = folder("HOME").or_else(|| folder("USERPROFILE"));
    let below_home = |path: &str| home.as_ref().map(|home| home.join(path));
    let docker = folder("DOCKER_CONFIG").or_else(|| below_home(".docker"));
    let files = [
        docker.map(|folder| folder.join("config.json")),
        folder("REGISTRY_AUTH_FILE"),
        folder("XDG_RUNTIME_DIR").map(|folder| folder.join("containers/auth.json")),
        below_home(".config/containers/auth.json"),
    ];
    files.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn credential_files_are_those_of_docker_and_containers() {
        let files = |set: &[(&str, &str)]| {
            let found = credential_files_from(|name| {
                let value = set.iter().find(|(key, _)| *key == name);
                value.map(|(_, value)| PathBuf::from(value))
            });
            let found = found.iter().map(|file| file.display().to_string());
            found.collect::<Vec<_>>()
        };
        assert_eq!(
            files(&[("HOME", "/h")]),
            ["/h/.docker/config.json", "/h/.config/containers/auth.json"]
        );
        assert_eq!(
            files(&[("DOCKER_CONFIG", "/d"), ("XDG_RUNTIME_DIR", "/run/u")]),
            ["/d/config.json", "/run/u/containers/auth.json"]
        );
        let relative = files(&[("DOCKER_CONFIG", "checkout"), ("HOME", ".")]);
        assert!(relative.is_empty(), "{relative:?}");
    }
}
