//! Tags of a repository, and pages of lists.

use http::header::{self, HeaderMap};
use http::{Method, StatusCode};
use mimir_core::network::RequestTarget;
use serde::Deserialize;

use super::{MANIFEST_MAX, RegistryClient, RegistryEndpoint};
use crate::auth::RegistryAction;
use crate::error::RegistryError;
use crate::reference::OciReference;
use crate::transport::RegistryResponse;

/// Maximum number of tags of a repository.
const MAX_TAGS: usize = 10_000;
/// Maximum number of pages of a list.
const MAX_PAGES: usize = 100;

/// A page of tags.
#[derive(Deserialize)]
struct TagPage {
    // Some registries write `null` for a repository without tags.
    tags: Option<Vec<String>>,
}

impl RegistryClient {
    /// Lists the tags of the repository, in the order of the registry.
    pub async fn tags(&self, reference: &OciReference) -> Result<Vec<String>, RegistryError> {
        let (mirrors, registry) = self.endpoints(reference)?;
        for mirror in &mirrors {
            match self.tags_from(mirror).await {
                Ok(tags) => return Ok(tags),
                Err(error) => mirror.warn_skipped(&error),
            }
        }
        self.tags_from(&registry).await
    }

    async fn tags_from(&self, endpoint: &RegistryEndpoint) -> Result<Vec<String>, RegistryError> {
        let mut target = endpoint.join("tags/list?n=1000")?;
        let mut tags = Vec::new();
        for _ in 0..MAX_PAGES {
            let action = RegistryAction::Pull;
            let response = self
                .request(endpoint, action, Method::GET, target, HeaderMap::new())
                .await?;
            if response.status != StatusCode::OK {
                let what = format!("the repository `{}`", endpoint.repository);
                return Err(endpoint
                    .status_error(response, &what, "a list of tags", action)
                    .await);
            }
            let next = next_page(endpoint, &response)?;
            let what = "the list of tags";
            let bytes = response.read(&endpoint.host, what, MANIFEST_MAX).await?;
            let page: TagPage = serde_json::from_slice(&bytes).map_err(|error| {
                endpoint.malformed(what, mimir_core::text::visible(&error.to_string()))
            })?;
            tags.extend(page.tags.unwrap_or_default());
            if tags.len() > MAX_TAGS {
                break;
            }
            match next {
                Some(next) => target = next,
                None => return Ok(tags),
            }
        }
        Err(RegistryError::Limit {
            registry: endpoint.host.clone(),
            what: format!("the list of tags of `{}`", endpoint.repository),
            limit: format!("{MAX_TAGS} tags on {MAX_PAGES} pages"),
        })
    }
}

/// Returns the URL of the next page of a list, from the `Link` header (RFC 8288).
pub(super) fn next_page(
    endpoint: &RegistryEndpoint,
    response: &RegistryResponse,
) -> Result<Option<RequestTarget>, RegistryError> {
    let Some(link) = response.header(&header::LINK) else {
        return Ok(None);
    };
    let Some(path) = next_link(link) else {
        return Ok(None);
    };
    let target = response.target.join(path);
    let target = target.map_err(|error| endpoint.malformed("a link to the next page", error))?;
    // Otherwise, credentials would have to be withheld, and a registry could send clients anywhere.
    if target.origin() != endpoint.base.origin() {
        return Err(endpoint.malformed("a link to the next page", "it leads to another host"));
    }
    Ok(Some(target))
}

fn next_link(header: &str) -> Option<&str> {
    header.split(',').find_map(|link| {
        let (path, parameters) = link.trim().strip_prefix('<')?.split_once('>')?;
        let is_next = parameters.split(';').any(|parameter| {
            let parameter = parameter.trim();
            parameter.eq_ignore_ascii_case("rel=next")
                || parameter.eq_ignore_ascii_case("rel=\"next\"")
        });
        is_next.then_some(path)
    })
}

/// Parses a URL that was built from the registry's.
pub(super) fn parse_target(
    endpoint: &RegistryEndpoint,
    url: &str,
) -> Result<RequestTarget, RegistryError> {
    RequestTarget::parse(url).map_err(|error| RegistryError::http(&endpoint.host, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_header_names_the_next_page() {
        for (header, expected) in [
            (
                r#"</v2/a/tags/list?n=1&last=b>; rel="next""#,
                Some("/v2/a/tags/list?n=1&last=b"),
            ),
            ("</x>; rel=prev, </y>; title=z; rel=next", Some("/y")),
            ("</x>; rel=prev", None),
            ("nonsense", None),
            ("<", None),
        ] {
            assert_eq!(next_link(header), expected, "{header}");
        }
    }
}
