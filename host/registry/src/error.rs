//! Errors of registries: each with the registry, the expectation and a remedy.

use std::path::PathBuf;

use mimir_core::{ToolError, ToolErrorCode};

/// A reference, a registry's response or a credential file that cannot be used.
///
/// No message contains a secret, a query or a token. Texts of a registry are shortened and escaped.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// The reference is not valid.
    #[error(
        "`{text}` is not a valid reference: {why}; write it as `registry.example.com/team/tool:1.2` or with `@sha256:…`"
    )]
    Reference {
        /// The reference.
        text: String,
        /// The fault.
        why: &'static str,
    },
    /// The digest is not valid or not supported.
    #[error(
        "`{text}` is not a valid digest: {why}; write it as `sha256:` and 64 hexadecimal digits"
    )]
    Digest {
        /// The digest.
        text: String,
        /// The fault.
        why: &'static str,
    },
    /// The request failed, or was not sent.
    #[error("the registry `{registry}` could not be used: {error}")]
    Http {
        /// The registry.
        registry: String,
        /// The error of the client.
        error: Box<mimir_net::Error>,
    },
    /// The registry wants a login.
    #[error(
        "`{registry}` did not accept {}", login_remedy(.had_login)
    )]
    Unauthorized {
        /// The registry.
        registry: String,
        /// True if credentials were found and sent.
        had_login: bool,
    },
    /// The login is not sufficient.
    #[error(
        "`{registry}` does not allow this for `{repository}`{detail}; ask its owner for the right to {action}"
    )]
    Forbidden {
        /// The registry.
        registry: String,
        /// The repository.
        repository: String,
        /// `pull` or `push`.
        action: &'static str,
        /// The registry's message, in parentheses, or empty.
        detail: String,
    },
    /// The registry does not have the artifact.
    #[error("`{registry}` does not have {what}{detail}; check the name, the tag and the digest")]
    NotFound {
        /// The registry.
        registry: String,
        /// The missing thing.
        what: String,
        /// The registry's message, in parentheses, or empty.
        detail: String,
    },
    /// The registry limits the number of requests.
    #[error(
        "`{registry}` received too many requests; try again {retry}, or log in for a higher limit"
    )]
    RateLimited {
        /// The registry.
        registry: String,
        /// The wait that the registry asks for, such as `in 30 s`, or `later`.
        retry: String,
    },
    /// The registry answered with an unexpected status.
    #[error("`{registry}` answered with status {status} instead of {expected}{detail}; {}", status_remedy(.status))]
    Status {
        /// The registry.
        registry: String,
        /// The status.
        status: u16,
        /// The expected answer.
        expected: &'static str,
        /// The registry's message, in parentheses, or empty.
        detail: String,
    },
    /// The response has another media type.
    #[error(
        "`{registry}` sent {what} with the media type `{found}`, expected {expected}; check the reference: its host is \
         used as it is written, so it must be that of the registry itself"
    )]
    MediaType {
        /// The registry.
        registry: String,
        /// The thing with the wrong type.
        what: String,
        /// The type.
        found: String,
        /// The expected types.
        expected: &'static str,
    },
    /// The content has another digest.
    #[error(
        "`{registry}` sent {what} with the digest {found}, expected {expected}; it was damaged or replaced: nothing was \
         kept"
    )]
    DigestMismatch {
        /// The registry.
        registry: String,
        /// The thing with the wrong digest.
        what: String,
        /// The digest of the content, or the digest that the registry claims.
        found: String,
        /// The expected digest.
        expected: String,
    },
    /// The content has another size.
    #[error(
        "`{registry}` sent {what} with {found}, expected {expected} bytes; it was damaged or replaced: nothing was kept"
    )]
    Size {
        /// The registry.
        registry: String,
        /// The thing with the wrong size.
        what: String,
        /// The size, such as `7 bytes` or `more bytes`.
        found: String,
        /// The expected size in bytes.
        expected: u64,
    },
    /// The content ended too early.
    #[error(
        "`{registry}` sent only {received} of {expected} bytes of {what}; run the command again to continue"
    )]
    Truncated {
        /// The registry.
        registry: String,
        /// The incomplete thing.
        what: String,
        /// The number of received bytes.
        received: u64,
        /// The expected size in bytes.
        expected: u64,
    },
    /// A limit was exceeded.
    #[error("{what} of `{registry}` exceeds the limit of {limit}; use a smaller artifact")]
    Limit {
        /// The registry.
        registry: String,
        /// The thing that is too large or too many.
        what: String,
        /// The limit, with its unit.
        limit: String,
    },
    /// The response does not follow the specification.
    #[error(
        "`{registry}` sent {what} that cannot be used: {why}; check the reference and the registry"
    )]
    Malformed {
        /// The registry.
        registry: String,
        /// The response.
        what: String,
        /// The fault.
        why: String,
    },
    /// A credential file or helper cannot be used.
    #[error(
        "the credentials in `{source_name}` cannot be used: {why}; correct it, or log in again"
    )]
    Credentials {
        /// The file or the helper.
        source_name: String,
        /// The fault, without content.
        why: String,
    },
    /// The file cannot be read or written.
    #[error("`{}` cannot be written: {why}; check free space and permissions", .path.display())]
    Storage {
        /// The file.
        path: PathBuf,
        /// The system's message.
        why: String,
    },
    /// The artifact does not have the expected layout.
    #[error("the artifact cannot be used: {why}")]
    Artifact {
        /// The fault and a remedy.
        why: String,
    },
}

fn login_remedy(had_login: &bool) -> &'static str {
    if *had_login {
        "the stored login: check that it is current and may use this repository, then run `docker login` again"
    } else {
        "a request without a login: run `docker login` (or `podman login`, `oras login`) for this registry"
    }
}

fn status_remedy(status: &u16) -> &'static str {
    if *status >= 500 {
        "the fault is in the registry: try again later"
    } else {
        "check that this is a registry of OCI artifacts"
    }
}

impl RegistryError {
    /// Returns the stable code for clients.
    pub fn code(&self) -> ToolErrorCode {
        match self {
            Self::Reference { .. } | Self::Digest { .. } | Self::Artifact { .. } => {
                ToolErrorCode::InvalidInput
            }
            Self::Http { error, .. } => error.code(),
            Self::Unauthorized { .. }
            | Self::Forbidden { .. }
            | Self::Credentials { .. }
            | Self::DigestMismatch { .. }
            | Self::Size { .. } => ToolErrorCode::PermissionDenied,
            Self::NotFound { .. } => ToolErrorCode::NotFound,
            Self::RateLimited { .. } => ToolErrorCode::Unavailable,
            Self::Status { .. }
            | Self::MediaType { .. }
            | Self::Truncated { .. }
            | Self::Malformed { .. } => ToolErrorCode::Network,
            Self::Limit { .. } => ToolErrorCode::LimitExceeded,
            Self::Storage { .. } => ToolErrorCode::ExecutionError,
        }
    }

    /// Creates the error of a request that failed, or was not sent.
    pub(crate) fn http(registry: &str, error: impl Into<mimir_net::Error>) -> Self {
        Self::Http {
            registry: registry.to_owned(),
            error: Box::new(error.into()),
        }
    }

    /// Returns the host of a registry on this machine that the network settings do not allow.
    fn local_host(&self) -> Option<&str> {
        let Self::Http { registry, error } = self else {
            return None;
        };
        let is_refused = matches!(
            &**error,
            mimir_net::Error::Blocked(refusal) | mimir_net::Error::BlockedAddress(refusal)
                if refusal.rule == "network.blockPrivateIPs"
        );
        let port = registry.rsplit_once(':');
        let port = port.filter(|(_, port)| port.bytes().all(|c| c.is_ascii_digit()));
        let host = port.map_or(registry.as_str(), |(host, _)| host);
        let address = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
        let is_local = host == "localhost" || address.is_ok_and(|it| it.is_loopback());
        (is_refused && is_local).then_some(host)
    }

    /// Returns true if the registry does not have the artifact.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }
}

impl From<RegistryError> for ToolError {
    fn from(error: RegistryError) -> Self {
        let remedies = error.local_host().map(|host| {
            format!(
                "`mimir config set --user network.allowedHosts '[\"{host}\"]'` allows requests to this machine; it \
                 replaces an earlier list, so name its hosts, too (`mimir config get network.allowedHosts`)"
            )
        });
        ToolError::new(error.code(), error.to_string()).with_remedies(remedies)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mimir_core::network::{HostPattern, NetworkPolicy, RequestTarget};

    fn refused(registry: &str) -> ToolError {
        let target = RequestTarget::parse(&format!("http://{registry}/v2/")).unwrap();
        let policy = NetworkPolicy::default();
        let addresses = policy.addresses(&target).unwrap();
        let refusal = policy.judge_address(&target, addresses[0]).unwrap_err();
        RegistryError::http(registry, mimir_net::Error::BlockedAddress(refusal)).into()
    }

    #[test]
    fn registry_on_this_machine_has_the_setting_as_remedy() {
        for (registry, host) in [
            ("127.0.0.1:5000", "127.0.0.1"),
            ("localhost", "localhost"),
            ("localhost:5000", "localhost"),
            ("[::1]:5000", "[::1]"),
        ] {
            let error = refused(registry);
            let setting = format!("network.allowedHosts '[\"{host}\"]'");
            assert!(error.remedies[0].contains(&setting), "{error:?}");
            host.parse::<HostPattern>().unwrap();
        }
        assert!(refused("10.0.0.1:5000").remedies.is_empty());
        let other = RegistryError::Unauthorized {
            registry: "127.0.0.1:5000".to_owned(),
            had_login: false,
        };
        assert!(ToolError::from(other).remedies.is_empty());
    }
}
