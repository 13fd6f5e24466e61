//! References to artifacts: registry, repository, tag and digest.

use std::fmt;
use std::str::FromStr;

use mimir_core::network::NetworkHost;

use crate::digest::OciDigest;
use crate::error::RegistryError;

/// Maximum length of a repository, in bytes (distribution specification).
const REPOSITORY_MAX: usize = 255;
/// Maximum length of a tag, in bytes (distribution specification).
const TAG_MAX: usize = 128;
/// Tag of a reference without tag and digest.
const DEFAULT_TAG: &str = "latest";

/// Reference to an artifact in a registry. The registry is part of every reference: names are never completed.
///
/// There is one spelling of a registry, so that rules for it cannot be bypassed: the host is in lower case, without a
/// trailing dot or the default port.
///
/// ```
/// use mimir_registry::OciReference;
///
/// let reference: OciReference = "oci://Registry.example.com:443/acme/weather:1.2".parse()?;
/// assert_eq!(reference.to_string(), "registry.example.com/acme/weather:1.2");
/// assert_eq!((reference.registry(), reference.tag()), ("registry.example.com", Some("1.2")));
/// assert!("acme/weather:1.2".parse::<OciReference>().is_err());
/// # Ok::<(), mimir_registry::RegistryError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OciReference {
    registry: String,
    repository: String,
    tag: Option<String>,
    digest: Option<OciDigest>,
}

impl OciReference {
    /// Returns the host of the registry, with its port if the reference has one.
    pub fn registry(&self) -> &str {
        &self.registry
    }

    /// Returns the repository, such as `team/tool`.
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// Returns the tag. A reference without tag and digest has the tag `latest`.
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// Returns the digest, if the reference is pinned.
    pub fn digest(&self) -> Option<OciDigest> {
        self.digest
    }

    /// Returns true if the registry is on this machine. Only then, requests may be sent without TLS.
    pub fn is_loopback(&self) -> bool {
        is_loopback(&self.registry)
    }

    /// Returns the reference pinned to `digest`. The tag is kept for display.
    #[must_use]
    pub fn with_digest(&self, digest: OciDigest) -> Self {
        Self {
            digest: Some(digest),
            ..self.clone()
        }
    }

    /// Returns the reference with another tag and no digest.
    pub fn with_tag(&self, tag: &str) -> Result<Self, RegistryError> {
        check_tag(tag).map_err(|why| RegistryError::Reference {
            text: mimir_core::text::visible(tag),
            why,
        })?;
        Ok(Self {
            tag: Some(tag.to_owned()),
            digest: None,
            ..self.clone()
        })
    }

    /// Returns the reference without tag and digest, for pushes that are stored by their digest only.
    pub(crate) fn without_version(&self) -> Self {
        Self {
            tag: None,
            digest: None,
            ..self.clone()
        }
    }

    /// Returns the last part of a request's path: the digest, or the tag of a reference that is not pinned.
    pub(crate) fn version(&self) -> String {
        match (&self.digest, &self.tag) {
            (Some(digest), _) => digest.to_string(),
            (None, Some(tag)) => tag.clone(),
            (None, None) => DEFAULT_TAG.to_owned(),
        }
    }
}

impl fmt::Display for OciReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.registry, self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        if let Some(digest) = &self.digest {
            write!(f, "@{digest}")?;
        }
        Ok(())
    }
}

impl FromStr for OciReference {
    type Err = RegistryError;

    fn from_str(text: &str) -> Result<Self, RegistryError> {
        parse(text).map_err(|fault| match fault {
            ReferenceFault::Text(why) => RegistryError::Reference {
                text: mimir_core::text::visible(mimir_core::text::prefix(text, 300)),
                why,
            },
            ReferenceFault::Digest(error) => error,
        })
    }
}

/// Fault of a reference, without its text.
enum ReferenceFault {
    Text(&'static str),
    Digest(RegistryError),
}

impl From<&'static str> for ReferenceFault {
    fn from(why: &'static str) -> Self {
        Self::Text(why)
    }
}

fn parse(text: &str) -> Result<OciReference, ReferenceFault> {
    let text = text.strip_prefix("oci://").unwrap_or(text);
    if text.contains("://") {
        return Err("only the scheme `oci://` is supported".into());
    }
    let (name, digest) = match text.split_once('@') {
        Some((name, digest)) => {
            let digest = digest.parse().map_err(ReferenceFault::Digest)?;
            (name, Some(digest))
        }
        None => (text, None),
    };
    let (host, path) = name
        .split_once('/')
        .ok_or("it needs a registry and a repository")?;
    // Docker's rule: otherwise the first part would belong to the repository of a default registry.
    let is_host = host.contains(['.', ':']) || host.eq_ignore_ascii_case("localhost");
    if !is_host {
        return Err("it must begin with the host of a registry".into());
    }
    let registry = parse_registry(host)?;
    let (repository, tag) = match path.rsplit_once(':') {
        Some((repository, tag)) => (repository, Some(tag)),
        None => (path, None),
    };
    check_repository(repository)?;
    tag.map_or(Ok(()), check_tag)?;
    let tag = match (tag, digest) {
        (None, None) => Some(DEFAULT_TAG),
        (tag, _) => tag,
    };
    Ok(OciReference {
        registry,
        repository: repository.to_owned(),
        tag: tag.map(str::to_owned),
        digest,
    })
}

/// Parses the host of a registry, with an optional port, and returns its only spelling.
pub(crate) fn parse_registry(text: &str) -> Result<String, &'static str> {
    let lower = text.to_ascii_lowercase();
    let (host, port) = match lower.rsplit_once(':') {
        // The last colon is part of an IPv6 address.
        Some((_, after)) if after.ends_with(']') => (&*lower, None),
        Some((host, port)) => (host, Some(port)),
        None => (&*lower, None),
    };
    let parsed = NetworkHost::parse(host).map_err(|_| "the registry is not a valid host")?;
    if parsed.to_string() != host || host.contains('_') {
        return Err("the registry is not in its usual spelling");
    }
    let Some(port) = port else {
        return Ok(lower);
    };
    let is_number = port.bytes().all(|byte| byte.is_ascii_digit()) && !port.starts_with('0');
    let number = Some(port).filter(|_| is_number);
    let number: u16 = number
        .and_then(|port| port.parse().ok())
        .ok_or("the port is not a number from 1 to 65535")?;
    let default = if parsed.is_this_machine() { 80 } else { 443 };
    if number == default {
        return Ok(host.to_owned());
    }
    Ok(lower)
}

/// Returns true if a registry (host with optional port) is this machine.
pub(crate) fn is_loopback(registry: &str) -> bool {
    let host = match registry.rsplit_once(':') {
        Some((_, after)) if after.ends_with(']') => registry,
        Some((host, _)) => host,
        None => registry,
    };
    NetworkHost::parse(host).is_ok_and(|host| host.is_this_machine())
}

fn check_repository(repository: &str) -> Result<(), &'static str> {
    if repository.len() > REPOSITORY_MAX {
        return Err("the repository is longer than 255 characters");
    }
    if repository.split('/').all(is_repository_part) {
        Ok(())
    } else if repository.is_empty() {
        Err("the repository is missing")
    } else if repository.bytes().any(|byte| byte.is_ascii_uppercase()) {
        Err("a repository is in lower case")
    } else {
        Err("a repository has letters and digits, separated by `/`, `.`, `-` or `_`")
    }
}

/// Returns true for letters and digits, separated by one dot, one or two underscores, or any number of dashes.
fn is_repository_part(part: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let mut separators =
        part.split(|character: char| character.is_ascii_lowercase() || character.is_ascii_digit());
    let has_word_ends =
        part.bytes().next().is_some_and(is_word) && part.bytes().next_back().is_some_and(is_word);
    has_word_ends
        && separators.all(|separator| {
            matches!(separator, "" | "." | "_" | "__") || separator.bytes().all(|byte| byte == b'-')
        })
}

fn check_tag(tag: &str) -> Result<(), &'static str> {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let is_valid = tag.bytes().next().is_some_and(is_word)
        && tag
            .bytes()
            .all(|byte| is_word(byte) || matches!(byte, b'.' | b'-'));
    if !is_valid {
        return Err(
            "a tag has letters, digits, `_`, `.` and `-`, and begins with a letter or digit",
        );
    }
    if tag.len() > TAG_MAX {
        return Err("the tag is longer than 128 characters");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEX: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    #[test]
    fn reference_parse_finds_its_parts() {
        for (text, registry, repository, tag) in [
            (
                "registry.example.com/a",
                "registry.example.com",
                "a",
                Some("latest"),
            ),
            (
                "oci://registry.example.com/a/b:1.2",
                "registry.example.com",
                "a/b",
                Some("1.2"),
            ),
            (
                "Registry.Example.COM/a:V1",
                "registry.example.com",
                "a",
                Some("V1"),
            ),
            (
                "registry.example.com:443/a",
                "registry.example.com",
                "a",
                Some("latest"),
            ),
            (
                "registry.example.com:80/a",
                "registry.example.com:80",
                "a",
                Some("latest"),
            ),
            ("localhost/a", "localhost", "a", Some("latest")),
            ("localhost:80/a", "localhost", "a", Some("latest")),
            (
                "127.0.0.1:5000/a/b_c/d__e/f--g.h:_x",
                "127.0.0.1:5000",
                "a/b_c/d__e/f--g.h",
                Some("_x"),
            ),
            ("[::1]:5000/a", "[::1]:5000", "a", Some("latest")),
            ("[::1]/a:1", "[::1]", "a", Some("1")),
            ("registry:5000/a", "registry:5000", "a", Some("latest")),
        ] {
            let reference: OciReference = text.parse().unwrap();
            let found = (
                reference.registry(),
                reference.repository(),
                reference.tag(),
            );
            assert_eq!(found, (registry, repository, tag), "{text}");
            assert_eq!(reference.digest(), None, "{text}");
            assert_eq!(
                reference.to_string().parse::<OciReference>().unwrap(),
                reference
            );
        }
    }

    #[test]
    fn reference_parse_keeps_tag_and_digest() {
        let text = format!("registry.example.com/a/b:1@sha256:{HEX}");
        let reference: OciReference = text.parse().unwrap();
        assert_eq!(reference.to_string(), text);
        assert_eq!(reference.tag(), Some("1"));
        assert_eq!(reference.version(), format!("sha256:{HEX}"));
        let pinned: OciReference = format!("registry.example.com/a@sha256:{HEX}")
            .parse()
            .unwrap();
        assert_eq!(pinned.tag(), None);
        let other = reference.with_tag("2").unwrap();
        assert_eq!(other.to_string(), "registry.example.com/a/b:2");
        assert!(reference.with_tag("../x").is_err());
    }

    #[test]
    fn reference_parse_explains_faults() {
        let upper = format!("registry.example.com/a@sha256:{}", HEX.to_uppercase());
        let sha512 = format!("registry.example.com/a@sha512:{HEX}{HEX}");
        let long_tag = format!("registry.example.com/a:{}", "x".repeat(129));
        let long_name = format!("registry.example.com/{}", "x".repeat(256));
        for (text, why) in [
            ("", "needs a registry"),
            ("weather", "needs a registry"),
            ("weather:1", "needs a registry"),
            ("acme/weather:1", "must begin with the host"),
            ("https://registry.example.com/a", "only the scheme"),
            ("registry.example.com/", "repository is missing"),
            ("registry.example.com/A", "lower case"),
            ("registry.example.com/a//b", "separated by"),
            ("registry.example.com/../a", "separated by"),
            ("registry.example.com/a/", "separated by"),
            ("registry.example.com/a___b", "separated by"),
            ("registry.example.com/a..b", "separated by"),
            ("registry.example.com/a b", "separated by"),
            ("registry.example.com/a?x=y", "separated by"),
            ("registry.example.com/a:", "a tag has"),
            ("registry.example.com/a:.x", "a tag has"),
            ("registry.example.com/a:x/y", "a tag has"),
            ("registry.example.com./a", "usual spelling"),
            ("127.1:5000/a", "usual spelling"),
            ("0x7f000001.:5000/a", "usual spelling"),
            ("registry.example.com:0/a", "the port"),
            ("registry.example.com:0443/a", "the port"),
            ("registry.example.com:65536/a", "the port"),
            ("registry.example.com:/a", "the port"),
            ("user@registry.example.com/a", "valid digest"),
            ("user:pw@registry.example.com/a", "valid digest"),
            ("..registry/a", "valid host"),
            (&upper, "lower case"),
            (&sha512, "only sha256"),
            (&long_tag, "128"),
            (&long_name, "255"),
        ] {
            let error = text.parse::<OciReference>().unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn reference_on_this_machine_is_loopback() {
        for (text, loopback) in [
            ("localhost:5000/a", true),
            ("127.0.0.1/a", true),
            ("[::1]:5000/a", true),
            ("registry.localhost:5000/a", true),
            ("registry.example.com/a", false),
            ("10.0.0.1:5000/a", false),
            ("localhost.example.com/a", false),
        ] {
            let reference: OciReference = text.parse().unwrap();
            assert_eq!(reference.is_loopback(), loopback, "{text}");
        }
    }
}
