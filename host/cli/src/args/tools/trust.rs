//! Arguments of `mimir tools trust`.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use mimir_core::needs::{NeedKind, SecretNeed};
use mimir_core::network::HostPattern;

use super::add::{digest, prefix};
use crate::args::{ClusterScope, enum_value, pair};

/// Arguments of `mimir tools trust`.
#[derive(Debug, PartialEq, Args)]
#[command(after_help = "\
Shows the rights that the plugin requests and asks for confirmation. Without a terminal, confirm with the \
digest of the build, as `mimir tools info NAME` shows it:
  mimir tools trust word_count --digest 9f86d081…
A component that was not written for mimir does not declare its rights, so name them here. Rights from an
earlier grant stay, unless you name new ones of the same kind:
  mimir tools trust http_client --host api.example.com
  mimir tools trust filesystem --read docs --write out --prefix fs_
  mimir tools trust weather --config units=metric --config key=secret:WEATHER \\
      --secret WEATHER@api.example.com:x-api-key
A policy file of wassette (`policy.yaml`) or ironclaw (`*.capabilities.json`) is read as such a list of \
requests, which you confirm on a terminal:
  mimir tools trust fetch --policy fetch/policy.yaml")]
pub struct ToolsTrustArgs {
    /// Name or alias of one of its tools, its file name, or the path of a component outside of .mimir/tools
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Digest of the build to trust, instead of a confirmation
    #[arg(long, value_name = "SHA256", value_parser = digest)]
    pub digest: Option<String>,
    /// Kinds of rights to withhold
    #[arg(long, value_name = "KIND", value_delimiter = ',', value_parser = enum_value::<NeedKind>([
        "files", "hosts", "commands", "secrets", "variables", "tools", "model",
    ]))]
    pub without: Vec<NeedKind>,
    /// A host that it may reach
    #[arg(long = "host", value_name = "HOST")]
    pub hosts: Vec<HostPattern>,
    /// A workspace folder that it may read, `.` for the whole workspace
    #[arg(long = "read", value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub reads: Vec<PathBuf>,
    /// A workspace folder that it may read and write
    #[arg(long = "write", value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub writes: Vec<PathBuf>,
    /// An environment variable; not for secrets
    #[arg(long = "env", value_name = "NAME=VALUE", value_parser = pair)]
    pub variables: Vec<(String, String)>,
    /// A value of its wasi:config/store; `secret:NAME` is the placeholder of a secret
    #[arg(long = "config", value_name = "KEY=VALUE", value_parser = pair)]
    pub config: Vec<(String, String)>,
    /// A secret that is sent to one host in one header; the variable NAME holds a placeholder
    #[arg(long = "secret", value_name = "NAME@HOST:HEADER", value_parser = secret)]
    pub secrets: Vec<SecretNeed>,
    /// Policy file of wassette or ironclaw, whose permissions are requested as well
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub policy: Option<PathBuf>,
    /// Prefix for the names of its tools, such as `fs_`; an empty text removes it
    #[arg(long, value_name = "PREFIX", value_parser = prefix)]
    pub prefix: Option<String>,
    #[command(flatten)]
    pub scope: ClusterScope,
}

/// Parses `NAME@HOST:HEADER`: a secret, its host, and the header that carries it.
fn secret(text: &str) -> Result<SecretNeed, String> {
    let parts = text.split_once('@');
    let parts = parts.and_then(|(name, rest)| Some((name, rest.rsplit_once(':')?)));
    let Some((name, (host, header))) = parts else {
        return Err(
            "expected NAME@HOST:HEADER, such as WEATHER@api.example.com:x-api-key".to_owned(),
        );
    };
    secret_need(name, host, header)
}

/// Returns the need for a secret that is sent to one host in one header.
pub fn secret_need(name: &str, host: &str, header: &str) -> Result<SecretNeed, String> {
    let is_header = |c: u8| c.is_ascii_alphanumeric() || b"-_".contains(&c);
    if name.is_empty() || header.is_empty() || !header.bytes().all(is_header) {
        return Err("expected NAME@HOST:HEADER with a name, a host and a header name".to_owned());
    }
    let pattern: HostPattern = host.parse().map_err(|error| format!("{error}"))?;
    Ok(SecretNeed {
        name: name.to_owned(),
        host: pattern.to_string(),
        header: header.to_ascii_lowercase(),
        reason: "named by a person".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trust_arguments_parse_pairs_and_secrets() {
        assert_eq!(pair("A=b=c"), Ok(("A".to_owned(), "b=c".to_owned())));
        assert!(pair("A").is_err() && pair("=b").is_err());
        let need = secret("KEY@api.example.com:8443:X-Api-Key").unwrap();
        let parts = (need.name.as_str(), need.host.as_str(), need.header.as_str());
        assert_eq!(parts, ("KEY", "api.example.com:8443", "x-api-key"));
        for bad in [
            "KEY",
            "KEY@host",
            "@host:header",
            "KEY@host:",
            "KEY@host:a b",
        ] {
            assert!(secret(bad).is_err(), "{bad}");
        }
    }
}
