//! Download of a component for `mimir tools add URL`.
//!
//! The user has named the URL and the digest, so neither its host nor redirect targets need to be in `allowedHosts`.
//! Restrictions of the config still apply: private addresses, blocked ports, `mode: none`, and the hosts of a team.

use std::path::Path;

use mimir_core::{ToolError, ToolErrorCode};

use mimir::registries::{named_target_client, transfer_limits};
use mimir::setup::HostSetup;

/// Downloads `url`. Fails if the response has more than `max_bytes` or is not a success.
pub async fn download_component(
    setup: &HostSetup,
    url: &str,
    max_bytes: u64,
) -> Result<Vec<u8>, ToolError> {
    let policy = setup.settings.policy()?;
    let root = setup.workspace.root();
    let client = named_target_client(&policy, root, transfer_limits(max_bytes))?;
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

/// Returns a URL without query and user, which may contain secrets, for the lock file.
pub fn without_query(url: &str) -> String {
    let plain = url.split(['?', '#']).next().unwrap_or_default();
    let Some((scheme, rest)) = plain.split_once("://") else {
        return plain.to_owned();
    };
    let end = rest.find('/').unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let host = authority
        .rsplit_once('@')
        .map_or(authority, |(_, host)| host);
    format!("{scheme}://{host}{path}")
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
    fn fetched_url_is_recorded_without_secrets() {
        let url = "https://user:pass@example.com/a/x.wasm?token=abc#f";
        assert_eq!(without_query(url), "https://example.com/a/x.wasm");
    }

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
