//! Policy files that other hosts keep beside a component, as requests for rights: `policy.yaml` of wassette and
//! `*.capabilities.json` of ironclaw. A person still confirms each right.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use mimir_core::ToolError;
use mimir_core::files::{self, LinkPolicy};
use mimir_core::grants;
use mimir_core::needs::{DirectoryAccess, FileNeed, HostNeed, SecretNeed};
use mimir_core::network::HostPattern;
use mimir_core::text::visible;
use serde::Deserialize;
use serde_yaml::Value;

use crate::args::secret_need;
use crate::arguments::quote_for_shell;
use crate::exit::CommandResult;
use mimir::file_error::file_error;

/// Maximum size of a policy file in bytes.
const MAX_SIZE: u64 = 64 * 1024;

/// Reason of a right that a policy file names.
const REASON: &str = "named in its policy file";

/// The rights that a policy file requests.
#[derive(Debug, Default, PartialEq)]
pub struct PolicyRequests {
    pub hosts: Vec<HostNeed>,
    pub files: Vec<FileNeed>,
    pub secrets: Vec<SecretNeed>,
    /// Entries that cannot be granted as they are, each with the reason or remedy.
    pub left_out: Vec<String>,
}

/// A policy of wassette.
#[derive(Debug, Deserialize)]
struct WassettePolicy {
    permissions: Permissions,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Permissions {
    network: PermissionList,
    storage: PermissionList,
    environment: PermissionList,
    /// Kinds of permissions that do not exist here.
    #[serde(flatten)]
    other: BTreeMap<String, Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PermissionList {
    allow: Vec<Permission>,
    deny: Vec<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Permission {
    host: Option<String>,
    cidr: Option<String>,
    uri: Option<String>,
    access: Vec<String>,
    key: Option<String>,
}

/// The capabilities of a tool of ironclaw.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AgentCapabilities {
    http: AgentHttp,
    network: AgentNetwork,
    workspace: AgentWorkspace,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AgentHttp {
    allowlist: Vec<AgentHost>,
    credentials: BTreeMap<String, AgentCredential>,
}

#[derive(Debug, Deserialize)]
struct AgentHost {
    host: String,
    #[serde(default)]
    path_prefix: Option<String>,
    #[serde(default)]
    methods: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct AgentCredential {
    secret_name: String,
    location: AgentLocation,
    #[serde(default)]
    host_patterns: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum AgentLocation {
    Bearer,
    Header {
        name: String,
    },
    #[serde(other)]
    Other,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AgentNetwork {
    allowed_hosts: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AgentWorkspace {
    allowed_prefixes: Vec<String>,
}

/// Returns the policy file beside a component, if there is one.
pub fn beside(component: &Path) -> Option<PathBuf> {
    let stem = component.file_stem()?.to_str()?;
    let names = [
        format!("{stem}.policy.yaml"),
        format!("{stem}.capabilities.json"),
        "policy.yaml".to_owned(),
    ];
    let mut files = names.iter().map(|name| component.with_file_name(name));
    files.find(|file| file.is_file())
}

/// Reads a policy file. `root` is the folder of the workspace.
pub fn read(path: &Path, root: &Path) -> CommandResult<PolicyRequests> {
    let text = files::read_text(path, LinkPolicy::Follow, MAX_SIZE)
        .map_err(|error| file_error("read", path, &error))?;
    parse(&text, root).map_err(|why| {
        let shown = visible(&path.display().to_string());
        ToolError::invalid_input(format!(
            "`{shown}` is not a policy file: {why}; expected a `policy.yaml` of wassette or a `.capabilities.json` of ironclaw"
        ))
        .into()
    })
}

fn parse(text: &str, root: &Path) -> Result<PolicyRequests, String> {
    let policy: Value = serde_yaml::from_str(text).map_err(|error| error.to_string())?;
    let error = |error: serde_yaml::Error| error.to_string();
    if policy.get("permissions").is_some() {
        return Ok(wassette(
            serde_yaml::from_value(policy).map_err(error)?,
            root,
        ));
    }
    let capabilities = match policy.get("capabilities") {
        Some(inner) => inner.clone(),
        None => policy,
    };
    let is_known = ["http", "network", "workspace"]
        .iter()
        .any(|key| capabilities.get(key).is_some());
    if !is_known {
        return Err("it has no `permissions`, `http`, `network` or `workspace`".to_owned());
    }
    Ok(ironclaw(
        serde_yaml::from_value(capabilities).map_err(error)?,
        root,
    ))
}

fn wassette(policy: WassettePolicy, root: &Path) -> PolicyRequests {
    let mut requests = PolicyRequests::default();
    let Permissions {
        network,
        storage,
        environment,
        other,
    } = policy.permissions;
    for (kind, list) in [("network", &network), ("storage", &storage)] {
        if !list.deny.is_empty() {
            let what = format!("the denials in `{kind}`");
            requests.leave_out(
                &what,
                "request narrower rights, because a grant has no exceptions",
            );
        }
    }
    for permission in network.allow {
        if let Some(host) = permission.host {
            requests.add_host(&host, &[]);
        }
        if let Some(cidr) = permission.cidr {
            requests.leave_out(
                &format!("the addresses {cidr}"),
                "name a host with `--host`",
            );
        }
    }
    for permission in storage.allow {
        let Some(uri) = permission.uri else { continue };
        let writes = permission.access.iter().any(|access| access == "write");
        let access = if writes {
            DirectoryAccess::ReadWrite
        } else {
            DirectoryAccess::Read
        };
        requests.add_folder(uri.strip_prefix("fs://").unwrap_or(&uri), access, root);
    }
    for key in environment.allow.into_iter().filter_map(|it| it.key) {
        let word = quote_for_shell(&key);
        let remedy = format!(
            "pass its value with `--env {word}=VALUE`, or a secret with `--config {word}=secret:NAME --secret NAME@HOST:HEADER`"
        );
        requests.leave_out(&format!("the variable `{key}`"), &remedy);
    }
    for kind in other.keys() {
        requests.leave_out(&format!("`{kind}`"), "mimir has no right of this kind");
    }
    requests
}

fn ironclaw(capabilities: AgentCapabilities, root: &Path) -> PolicyRequests {
    let mut requests = PolicyRequests::default();
    for entry in &capabilities.http.allowlist {
        requests.add_host(&entry.host, &entry.methods);
        let prefix = entry.path_prefix.as_deref().unwrap_or("/");
        if !["", "/"].contains(&prefix) {
            let what = format!("the limit to `{prefix}` of `{}`", entry.host);
            requests.leave_out(&what, "the right is for the whole host");
        }
    }
    for host in &capabilities.network.allowed_hosts {
        requests.add_host(host, &[]);
    }
    for credential in capabilities.http.credentials.into_values() {
        let header = match credential.location {
            AgentLocation::Bearer => "authorization".to_owned(),
            AgentLocation::Header { name } => name.to_ascii_lowercase(),
            AgentLocation::Other => {
                let what = format!("the secret `{}`", credential.secret_name);
                requests.leave_out(&what, "secrets are sent in headers only");
                continue;
            }
        };
        for host in credential.host_patterns {
            match secret_need(&credential.secret_name, &host, &header) {
                Ok(need) => requests.secrets.push(SecretNeed {
                    reason: REASON.to_owned(),
                    ..need
                }),
                Err(error) => {
                    let what = format!("the secret `{}` for `{host}`", credential.secret_name);
                    requests.leave_out(&what, &error);
                }
            }
        }
    }
    for prefix in &capabilities.workspace.allowed_prefixes {
        requests.add_folder(prefix, DirectoryAccess::Read, root);
    }
    requests
}

impl PolicyRequests {
    fn leave_out(&mut self, what: &str, why: &str) {
        self.left_out.push(visible(&format!("{what}: {why}")));
    }

    /// Adds a host, written as a name or as a URL. An empty list requests all methods.
    fn add_host(&mut self, written: &str, methods: &[String]) {
        // The scheme of a URL stays part of the right.
        let (scheme, rest) = match written.split_once("://") {
            Some((scheme, rest)) => (format!("{scheme}://"), rest),
            None => (String::new(), written),
        };
        let host = format!("{scheme}{}", rest.split('/').next().unwrap_or_default());
        let is_method = |method: &String| method.bytes().all(|letter| letter.is_ascii_alphabetic());
        if !methods.iter().all(is_method) {
            self.leave_out(
                &format!("the host `{written}`"),
                "its methods are not names",
            );
            return;
        }
        match host.parse::<HostPattern>() {
            Ok(pattern) => {
                let mut need = grants::named_host(&pattern);
                if !methods.is_empty() {
                    need.methods = methods.iter().map(|it| it.to_ascii_uppercase()).collect();
                }
                need.reason = REASON.to_owned();
                match self.hosts.iter_mut().find(|known| known.host == need.host) {
                    Some(known) => {
                        let methods = need.methods.into_iter();
                        let missing: Vec<_> = methods
                            .filter(|method| !known.methods.contains(method))
                            .collect();
                        known.methods.extend(missing);
                    }
                    None => self.hosts.push(need),
                }
            }
            Err(error) => self.leave_out(&format!("the host `{written}`"), &error.to_string()),
        }
    }

    /// Adds a folder of the workspace. Anything else is left out.
    fn add_folder(&mut self, written: &str, access: DirectoryAccess, root: &Path) {
        let trimmed = written.trim_end_matches('*').trim_end_matches('/');
        let path = Path::new(trimmed);
        let relative = path.strip_prefix(root).unwrap_or(path);
        let parts: Option<Vec<&str>> = relative
            .components()
            .filter(|part| !matches!(part, Component::CurDir))
            .map(|part| match part {
                Component::Normal(part) => part.to_str(),
                _ => None,
            })
            .collect();
        let Some(parts) = parts.filter(|parts| !parts.is_empty()) else {
            self.leave_out(
                &format!("the path `{written}`"),
                "it is not a folder below the workspace; name one with `--read DIR` or `--write DIR`",
            );
            return;
        };
        let folder = parts.join("/");
        if files::reject_links(root, &root.join(&folder)).is_err() || !root.join(&folder).is_dir() {
            self.leave_out(
                &format!("the path `{written}`"),
                "the workspace has no such folder; create it, or name another one with `--read DIR` or `--write DIR`",
            );
            return;
        }
        let mut need = grants::named_folder(&folder, access);
        need.reason = REASON.to_owned();
        match self.files.iter_mut().find(|known| known.path == need.path) {
            Some(known) if access == DirectoryAccess::ReadWrite => *known = need,
            Some(_) => {}
            None => self.files.push(need),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests(text: &str) -> PolicyRequests {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("workspace/docs")).unwrap();
        parse(text, root.path()).unwrap()
    }

    #[test]
    fn policy_of_wassette_becomes_requests() {
        let found = requests(
            r#"
version: "1.0"
permissions:
  network:
    allow:
      - host: "https://rss.example.com/feed"
      - host: "*.example.org"
      - cidr: "10.0.0.0/8"
    deny: [{host: "*"}]
  storage:
    allow:
      - {uri: "fs://workspace/**", access: [read, write]}
      - {uri: "fs://workspace/docs", access: [read]}
      - {uri: "fs:///", access: [read]}
      - {uri: "fs://../home", access: [read]}
      - {uri: "fs://missing", access: [read]}
  environment: {allow: [{key: API_KEY}]}
  ipc: {allow: [{uri: "pipe://x"}]}
"#,
        );
        let hosts: Vec<&str> = found.hosts.iter().map(|it| it.host.as_str()).collect();
        assert_eq!(hosts, ["https://rss.example.com", "*.example.org"]);
        let files: Vec<_> = found
            .files
            .iter()
            .map(|it| (it.path.as_str(), it.access))
            .collect();
        assert_eq!(
            files,
            [
                ("workspace", DirectoryAccess::ReadWrite),
                ("workspace/docs", DirectoryAccess::Read)
            ]
        );
        let expected = [
            "denials in `network`",
            "10.0.0.0/8",
            "fs:///",
            "../home",
            "missing",
            "API_KEY",
            "ipc",
        ];
        assert_eq!(found.left_out.len(), expected.len(), "{:?}", found.left_out);
        for (line, part) in found.left_out.iter().zip(expected) {
            assert!(line.contains(part.trim_start_matches("fs://")), "{line}");
        }
    }

    #[test]
    fn policy_of_ironclaw_becomes_requests() {
        let found = requests(
            r#"{"http": {
                "allowlist": [{"host": "api.example.com", "path_prefix": "/v1", "methods": ["get"]}],
                "credentials": {
                    "a": {"secret_name": "TOKEN", "location": {"type": "bearer"}, "host_patterns": ["api.example.com"]},
                    "b": {"secret_name": "KEY", "location": {"type": "header", "name": "X-Key"}, "host_patterns": ["api.example.com"]},
                    "c": {"secret_name": "Q", "location": {"type": "query_param", "name": "q"}, "host_patterns": ["api.example.com"]}
                }},
               "workspace": {"allowed_prefixes": ["workspace/"]}}"#,
        );
        assert_eq!(found.hosts[0].methods, ["GET"]);
        let secrets: Vec<_> = found
            .secrets
            .iter()
            .map(|need| (need.name.as_str(), need.header.as_str()))
            .collect();
        assert_eq!(secrets, [("TOKEN", "authorization"), ("KEY", "x-key")]);
        assert_eq!(found.files[0].path, "workspace");
        assert_eq!(found.left_out.len(), 2, "{:?}", found.left_out);
    }

    #[test]
    fn policy_entries_that_are_not_exact_are_left_out() {
        let found = requests(
            r#"{"http": {
                "allowlist": [
                    {"host": "a.example.com", "methods": ["GET"]},
                    {"host": "a.example.com", "methods": ["POST"]},
                    {"host": "b.example.com", "methods": ["GET X"]},
                    {"host": "user@c.example.com"}
                ],
                "credentials": {
                    "a": {"secret_name": "T", "location": {"type": "header", "name": "x key\r\nfoo: bar"},
                          "host_patterns": ["a.example.com"]},
                    "b": {"secret_name": "", "location": {"type": "bearer"}, "host_patterns": ["a.example.com"]}
                }},
               "workspace": {"allowed_prefixes": ["./workspace/./docs", "..\\..\\x", "workspace//docs/"]}}"#,
        );
        assert_eq!(found.hosts.len(), 1);
        assert_eq!(found.hosts[0].methods, ["GET", "POST"]);
        assert_eq!(found.secrets, []);
        let files: Vec<&str> = found.files.iter().map(|it| it.path.as_str()).collect();
        assert_eq!(files, ["workspace/docs"]);
        assert_eq!(found.left_out.len(), 5, "{:?}", found.left_out);
    }

    #[test]
    fn policy_of_unknown_form_is_refused() {
        let root = Path::new("/nowhere");
        for text in [
            "",
            "name: x",
            "[1]",
            "{permissions: 3}",
            "{http: []}",
            ": :",
        ] {
            assert!(parse(text, root).is_err(), "{text}");
        }
    }
}
