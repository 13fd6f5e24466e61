//! Fetching a component for `mimir tools add URL`, through the one way out.
//!
//! The person has named the URL and what must be there, so that hosts need not be on a list, nor those that the
//! server sends us to. What the config refuses stays refused: private addresses, blocked ports, `mode: none`, and all that a team
//! does not list.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mimir_core::backend::BoxFuture;
use mimir_core::network::NetworkPolicy;
use mimir_core::{Code, ToolError};
use mimir_net::{Ask, Authorize, Client, Error, Guard, Limits, Permit, Roots};

use crate::setup::Setup;

/// A large component over a slow line.
const TIME: Duration = Duration::from_secs(600);

/// A person has asked for this by name, which goes as far as the teams let it.
struct Asked {
    teams: Vec<NetworkPolicy>,
}

impl Authorize for Asked {
    fn authorize<'a>(&'a self, ask: Ask<'a>) -> BoxFuture<'a, Result<Permit, ToolError>> {
        let verdicts = self.teams.iter();
        let mut verdicts = verdicts.map(|team| team.judge(ask.target, ask.method.as_str()));
        let refusal = verdicts.find_map(|verdict| verdict.refusal().cloned());
        Box::pin(std::future::ready(match refusal {
            Some(refusal) => Err(Error::Blocked(refusal).into()),
            None => Ok(Permit::Unlisted),
        }))
    }
}

/// The bytes at `url`, at most so many.
pub async fn component(setup: &Setup, url: &str, most: u64) -> Result<Vec<u8>, ToolError> {
    let policy = setup.settings.policy()?;
    let limits = Limits {
        whole: TIME,
        body_bytes: most,
        ..Limits::default()
    };
    let guard = Arc::new(Guard::new(policy.own_network()));
    let roots = Roots::below(setup.workspace.root(), &policy.roots(None))?;
    let teams = policy.team_networks(None).collect();
    let client = Client::new(guard, Arc::new(Asked { teams }), roots, limits, None);
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
