//! Download of a component for `mimir tools add URL`.
//!
//! The user has named the URL and the digest, so neither its host nor redirect targets need to be in `allowedHosts`.
//! Restrictions of the config still apply: private addresses, blocked ports, `mode: none`, and the hosts of a team.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mimir_core::backend::BoxFuture;
use mimir_core::network::NetworkPolicy;
use mimir_core::{ToolError, ToolErrorCode};
use mimir_net::{
    Error, HostClient, OutboundRequest, PolicyGuard, RequestAuthorizer, RequestLimits,
    RequestPermit, TlsRoots,
};

use mimir::setup::HostSetup;

/// Timeout of a download, enough for a large component over a slow connection.
const DOWNLOAD_TIMEOUT: Duration = Duration::from_secs(600);

/// Authorizer of a download: allows every host within the limits of team policies.
struct DownloadAuthorizer {
    teams: Vec<NetworkPolicy>,
}

impl RequestAuthorizer for DownloadAuthorizer {
    fn authorize<'a>(
        &'a self,
        request: OutboundRequest<'a>,
    ) -> BoxFuture<'a, Result<RequestPermit, ToolError>> {
        let verdicts = self.teams.iter();
        let mut verdicts = verdicts.map(|team| team.judge(request.target, request.method.as_str()));
        let refusal = verdicts.find_map(|verdict| verdict.refusal().cloned());
        Box::pin(std::future::ready(match refusal {
            Some(refusal) => Err(Error::Blocked(refusal).into()),
            None => Ok(RequestPermit::Unlisted),
        }))
    }
}

/// Downloads `url`. Fails if the response has more than `max_bytes` or is not a success.
pub async fn download_component(
    setup: &HostSetup,
    url: &str,
    max_bytes: u64,
) -> Result<Vec<u8>, ToolError> {
    let policy = setup.settings.policy()?;
    let limits = RequestLimits {
        whole: DOWNLOAD_TIMEOUT,
        body_bytes: max_bytes,
        ..RequestLimits::default()
    };
    let guard = Arc::new(PolicyGuard::new(policy.own_network()));
    let roots = TlsRoots::from_folder(setup.workspace.root(), &policy.roots(None))?;
    let teams = policy.team_networks(None).collect();
    let client = HostClient::new(
        guard,
        Arc::new(DownloadAuthorizer { teams }),
        roots,
        limits,
        None,
    );
    let response = client.get(url).await?;
    if !response.status.is_success() {
        return Err(ToolError::new(
            ToolErrorCode::Network,
            format!(
                "{} returned {} instead of a file",
                response.target.origin(),
                response.status
            ),
        ));
    }
    Ok(response.body.into())
}

/// Returns the path in a URL, whose last part is the file name; empty if the URL has no path.
pub fn file_name(url: &str) -> &Path {
    let path = url.split(['?', '#']).next().unwrap_or_default();
    let rest = path.split_once("://").map_or(path, |(_, rest)| rest);
    // A host name is not a file name.
    Path::new(rest.split_once('/').map_or("", |(_, path)| path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fetched_file_is_named_after_the_url_path() {
        for (url, stem) in [
            ("https://example.com/a/word_count.wasm", Some("word_count")),
            ("https://example.com/x.wasm?y=/z.wasm#q", Some("x")),
            ("https://example.com/", None),
            ("https://example.com", None),
        ] {
            let found = file_name(url).file_stem().and_then(|stem| stem.to_str());
            assert_eq!(found, stem, "{url}");
        }
    }
}
