//! Fetching a component for `mimir tools add URL`, through the one way out.
//!
//! The person has named the URL and what must be there, so that hosts need not be on a list, nor those that the
//! server sends us to. What the config refuses stays refused: private addresses, blocked ports, `mode: none`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use mimir_core::backend::BoxFuture;
use mimir_core::{Code, ToolError};
use mimir_net::{Ask, Authorize, Client, Guard, Limits, Permit, Roots};

use crate::setup::Setup;

/// A large component over a slow line.
const TIME: Duration = Duration::from_secs(600);

/// A person has asked for this by name.
struct Asked;

impl Authorize for Asked {
    fn authorize<'a>(&'a self, _: Ask<'a>) -> BoxFuture<'a, Result<Permit, ToolError>> {
        Box::pin(std::future::ready(Ok(Permit::Unlisted)))
    }
}

/// The bytes at `url`, at most so many.
pub async fn component(setup: &Setup, url: &str, most: u64) -> Result<Vec<u8>, ToolError> {
    let config = &setup.settings.config;
    let roots: Vec<PathBuf> = config
        .network
        .extra_roots
        .iter()
        .map(|file| setup.workspace.root().join(file))
        .collect();
    let limits = Limits {
        whole: TIME,
        body_bytes: most,
        ..Limits::default()
    };
    let guard = Arc::new(Guard::new(config.network(None)));
    let roots = Roots::with_extra(&roots)?;
    let client = Client::new(guard, Arc::new(Asked), roots, limits, None);
    let fetched = client.get(url).await?;
    if !fetched.status.is_success() {
        let message = format!(
            "{} answered {} instead of a file",
            fetched.target.origin(),
            fetched.status
        );
        return Err(ToolError::new(Code::Network, message));
    }
    Ok(fetched.body.into())
}

/// The part of a URL that names the file.
pub fn name(url: &str) -> &Path {
    let path = url.split(['?', '#']).next().unwrap_or_default();
    let rest = path.split_once("://").map_or(path, |(_, rest)| rest);
    // A host is no name of a file.
    Path::new(rest.split_once('/').map_or("", |(_, path)| path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_named_by_the_path_of_its_url() {
        for (url, stem) in [
            ("https://example.com/a/word_count.wasm", Some("word_count")),
            ("https://example.com/x.wasm?y=/z.wasm#q", Some("x")),
            ("https://example.com/", None),
            ("https://example.com", None),
        ] {
            let found = name(url).file_stem().and_then(|stem| stem.to_str());
            assert_eq!(found, stem, "{url}");
        }
    }
}
