//! Network variables of this process: certificates, proxies and npm settings.
//!
//! A program without a sandbox inherits all of them, since it may depend on a company proxy. A sandboxed program with
//! network access inherits the certificates only. Values with a credential are withheld.

use std::ffi::OsString;
use std::path::Path;

use mimir_core::redact::Redactor;

use crate::sandbox::{CommandSpec, HostMount};

/// Variables with files or folders of trusted certificates.
const CERTIFICATES: [&str; 6] = [
    "CURL_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
    "PIP_CERT",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
];

/// Proxy variables, in upper case; the lower-case forms count as well.
const PROXIES: [&str; 4] = ["ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"];

/// Prefix of npm's settings.
const NPM: &str = "NPM_CONFIG_";

/// Name parts of npm settings that hold credentials.
const CREDENTIALS: [&str; 5] = ["_AUTH", "AUTHTOKEN", "PASSWORD", "TOKEN", "OTP"];

/// A variable for programs without a sandbox. It is withheld if its value contains a credential.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AmbientVariable {
    /// The name.
    pub name: String,
    /// The value, or `None` if it contains a credential.
    pub value: Option<String>,
}

/// Returns the network variables of this process, including the withheld ones.
pub fn variables() -> Vec<AmbientVariable> {
    select_variables(std::env::vars_os())
}

fn select_variables(
    environment: impl Iterator<Item = (OsString, OsString)>,
) -> Vec<AmbientVariable> {
    let mut variables: Vec<AmbientVariable> = environment
        .filter_map(|(name, value)| {
            let (name, value) = (name.into_string().ok()?, value.into_string().ok()?);
            if value.is_empty() {
                return None;
            }
            let upper = name.to_ascii_uppercase();
            let is_npm = upper.starts_with(NPM);
            if !is_npm
                && !CERTIFICATES.contains(&name.as_str())
                && !PROXIES.contains(&upper.as_str())
            {
                return None;
            }
            let setting = upper.strip_prefix(NPM).unwrap_or_default();
            let secret = CREDENTIALS.iter().any(|part| setting.contains(part))
                || has_userinfo(&value)
                || !Redactor::new()
                    .find(format!("{name}={value}").as_bytes())
                    .is_empty();
            Some(AmbientVariable {
                value: (!secret).then_some(value),
                name,
            })
        })
        .collect();
    variables.sort_by(|one, other| one.name.cmp(&other.name));
    variables
}

/// Returns true if a value is a URL with a user or a password.
fn has_userinfo(value: &str) -> bool {
    let rest = value.split_once("://").map_or(value, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    authority.contains('@')
}

/// Adds the network variables for a program without a sandbox. Explicitly set variables take precedence.
pub(crate) fn pass_variables(environment: &mut Vec<(String, String)>) {
    add_missing(environment, variables());
}

fn add_missing(environment: &mut Vec<(String, String)>, variables: Vec<AmbientVariable>) {
    for AmbientVariable { name, value } in variables {
        if let Some(value) = value.filter(|_| !environment.iter().any(|(other, _)| *other == name))
        {
            environment.push((name, value));
        }
    }
}

/// Makes a sandboxed program trust the certificates that this process is configured to trust: sets the variables and
/// mounts the files.
pub(crate) fn trust_certificates(spec: &mut CommandSpec) {
    let mut variables = variables();
    variables.retain(|variable| CERTIFICATES.contains(&variable.name.as_str()));
    for path in variables
        .iter()
        .filter_map(|variable| variable.value.as_deref())
    {
        let at = Path::new(path);
        // The sandbox already mounts these system folders.
        let is_mounted = ["/usr", "/etc/ssl/certs", "/etc/pki"]
            .iter()
            .any(|folder| at.starts_with(folder));
        if let Ok(from) = at.canonicalize()
            && at.is_absolute()
            && !is_mounted
        {
            spec.mounts.push(HostMount::read_only_at(from, at));
        }
    }
    add_missing(&mut spec.environment, variables);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ambient_variables_without_credentials_are_passed_on() {
        let all = [
            ("NODE_EXTRA_CA_CERTS", "/etc/company.pem"),
            ("https_proxy", "http://proxy.example:3128"),
            ("HTTP_PROXY", "http://me:hunter2@proxy.example:3128"),
            ("NPM_CONFIG_REGISTRY", "https://npm.example/"),
            ("npm_config_//npm.example/:_authToken", "abc"),
            ("NPM_CONFIG__PASSWORD", "abc"),
            ("GITHUB_TOKEN", "ghp_x"),
            ("NO_PROXY", ""),
        ];
        let selected = select_variables(
            all.into_iter()
                .map(|(name, value)| (name.into(), value.into())),
        );
        let mut environment = vec![("https_proxy".to_owned(), "mine".to_owned())];
        add_missing(&mut environment, selected.clone());
        environment.sort();
        let names: Vec<&str> = environment.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            names,
            ["NODE_EXTRA_CA_CERTS", "NPM_CONFIG_REGISTRY", "https_proxy"]
        );
        assert_eq!(environment[2].1, "mine");
        let left_out = selected.iter().filter(|variable| variable.value.is_none());
        let left_out: Vec<&str> = left_out.map(|variable| variable.name.as_str()).collect();
        assert_eq!(
            left_out,
            [
                "HTTP_PROXY",
                "NPM_CONFIG__PASSWORD",
                "npm_config_//npm.example/:_authToken"
            ]
        );
    }
}
