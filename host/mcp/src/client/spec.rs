//! The validated settings of one server: its transport and its limits.

use std::path::Path;
use std::time::Duration;

use mimir_core::ToolError;
use mimir_core::config::{McpOauthSettings, McpProtocol, McpServerSettings, SandboxSettings};
use mimir_core::launch::LaunchSpec;
use mimir_core::name_suggestions::mcp_snake;
use mimir_core::redact::{Redactor, Vault};
use mimir_core::text::visible;
use sha2::{Digest as _, Sha256};

use super::connection::ProtocolGeneration;
use super::input_broker::AllowedRequests;
use super::oauth;

/// A server as described by the settings.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerSpec {
    /// Name of the server.
    pub name: String,
    /// Prefix of the names of the server's tools.
    pub prefix: String,
    /// Transport.
    pub transport: ServerTransport,
    /// Protocol generation, if the settings select one.
    pub(super) generation: Option<ProtocolGeneration>,
    /// Time limit for one call, in addition to the pipeline's limit.
    pub call: Option<Duration>,
    /// Time limit for the start.
    pub start: Duration,
    /// Idle time after which the server is stopped.
    pub idle: Duration,
    /// True if clients see the server's resources.
    pub resources: bool,
    /// True if clients see the server's prompts.
    pub prompts: bool,
    /// Requests that the server may make during a call.
    pub allowed_requests: AllowedRequests,
}

/// The transport of a server.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "there is one for each server")]
pub enum ServerTransport {
    /// A program that is started on this machine.
    Program(LaunchSpec),
    /// A server that is reached over HTTP.
    Http {
        /// The URL.
        url: String,
        /// Headers of each request.
        headers: Vec<(String, String)>,
        /// Login settings.
        oauth: McpOauthSettings,
    },
}

/// Default time limit for the start: the first start by `npx` or `uvx` downloads the package.
const DEFAULT_START_TIMEOUT: Duration = Duration::from_secs(30);

/// Default idle time.
const DEFAULT_IDLE_TIMEOUT: Duration = Duration::from_secs(300);

impl ServerSpec {
    /// Returns true if the server may require a login: the settings have no credentials for it.
    pub fn takes_logins(&self) -> bool {
        match &self.transport {
            ServerTransport::Program(_) => false,
            ServerTransport::Http { headers, .. } => !oauth::has_authorization(headers),
        }
    }

    /// Converts the settings of a server, or returns `None` if the server is disabled. `sandbox` contains the defaults
    /// from the settings for commands.
    pub fn new(
        name: &str,
        settings: &McpServerSettings,
        sandbox: &SandboxSettings,
    ) -> Option<Self> {
        if !settings.is_enabled() {
            return None;
        }
        let pairs = |map: &std::collections::BTreeMap<String, String>| {
            let pairs = map.iter();
            pairs
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect()
        };
        let is_program = settings.command.is_some() || settings.package.is_some();
        let transport = match (is_program, &settings.url) {
            (true, _) => ServerTransport::Program(LaunchSpec {
                name: name.to_owned(),
                args: settings
                    .command
                    .iter()
                    .chain(&settings.args)
                    .cloned()
                    .collect(),
                package: settings.package.clone(),
                directory: settings.cwd.clone(),
                workspace_code: settings.workspace_code == Some(true),
                secrets: settings.env.iter().any(is_secret),
                environment: pairs(&settings.env),
                sandbox: settings.sandbox_over(sandbox),
                // Both were checked when the file was read, so this does not fail; a failure would allow no hosts.
                hosts: settings.hosts().unwrap_or_default(),
                folders: settings
                    .package
                    .as_ref()
                    .map(|_| settings.launch_folders().unwrap_or_default()),
                private: Vec::new(),
                nested_sandbox: false,
            }),
            (false, Some(url)) => ServerTransport::Http {
                url: url.clone(),
                headers: pairs(&settings.headers),
                oauth: settings.oauth.clone().unwrap_or_default(),
            },
            (false, None) => return None,
        };
        let time = |millis: Option<u64>| millis.map(Duration::from_millis);
        Some(Self {
            name: name.to_owned(),
            prefix: Self::prefix(name, settings),
            transport,
            generation: settings.protocol.map(|protocol| match protocol {
                McpProtocol::Handshake => ProtocolGeneration::Handshake,
                McpProtocol::Discovery => ProtocolGeneration::Discovery,
            }),
            call: time(settings.timeout_ms),
            start: time(settings.start_timeout_ms).unwrap_or(DEFAULT_START_TIMEOUT),
            idle: time(settings.idle_ms).unwrap_or(DEFAULT_IDLE_TIMEOUT),
            resources: settings.resources != Some(false),
            prompts: settings.prompts != Some(false),
            allowed_requests: AllowedRequests {
                form: settings.elicitation != Some(false),
                model: settings.sampling == Some(true),
                roots: settings.roots == Some(true),
            },
        })
    }

    /// Returns the prefix of the names of a server's tools.
    pub(super) fn prefix(name: &str, settings: &McpServerSettings) -> String {
        match &settings.prefix {
            Some(prefix) => prefix.clone(),
            None => format!("mcp_{}_", mcp_snake(name)),
        }
    }

    /// Returns the source location of the server's tools.
    pub fn location(&self) -> String {
        format!("mcp:{}", self.name)
    }

    /// Returns the identity of the server as lines, to which a grant is bound. The lines contain no values of variables
    /// and headers, because everyone can read the lock file.
    pub fn identity(&self) -> Vec<String> {
        let names = |pairs: &[(String, String)]| {
            let names: Vec<&str> = pairs.iter().map(|(name, _)| name.as_str()).collect();
            names.join(", ")
        };
        let mut lines = Vec::new();
        match &self.transport {
            ServerTransport::Program(launch) => {
                let args = launch.args.iter().map(|arg| {
                    if arg.contains(' ') {
                        format!("'{arg}'")
                    } else {
                        arg.clone()
                    }
                });
                let args: Vec<String> = args.collect();
                match &launch.package {
                    Some(package) => {
                        lines.push(format!("the package {package} ({})", package.integrity));
                        let dependencies = package.dependencies.iter();
                        lines
                            .extend(dependencies.map(|it| format!("with its dependencies ({it})")));
                        lines.push(format!(
                            "its program `{}`, with the arguments `{}`",
                            package.program,
                            args.join(" ")
                        ));
                    }
                    None => lines.push(format!("started as `{}`", args.join(" "))),
                }
                for folder in launch.folders.iter().flatten() {
                    let access = if folder.writable {
                        "read and change"
                    } else {
                        "read"
                    };
                    lines.push(format!("let {access} `{}` of the workspace", folder.path));
                }
                if let Some(directory) = &launch.directory {
                    lines.push(format!("started in {directory}"));
                }
                if !launch.environment.is_empty() {
                    lines.push(format!(
                        "given the variables {}",
                        names(&launch.environment)
                    ));
                }
                if launch.workspace_code {
                    lines.push("let run what lies in the workspace".to_owned());
                }
                if launch.sandbox.network_access == Some(true) {
                    let hosts: Vec<String> = launch.hosts.iter().map(ToString::to_string).collect();
                    lines.push(if hosts.is_empty() {
                        "given the network".to_owned()
                    } else {
                        format!("given the network: {}", hosts.join(", "))
                    });
                }
                if launch.sandbox.mode == Some(mimir_core::config::SandboxMode::None) {
                    lines.push("in no sandbox".to_owned());
                }
                let sandbox = &launch.sandbox;
                let locations = (&sandbox.bind_mounts, &sandbox.image, &sandbox.socket);
                lines.push(match &launch.package {
                    Some(package) => {
                        private_digest(&(package, &launch.args, &launch.environment, locations))
                    }
                    None => private_digest(&(&launch.args, &launch.environment, locations)),
                });
            }
            ServerTransport::Http { url, headers, .. } => {
                lines.push(format!("reached at {url}"));
                if !headers.is_empty() {
                    lines.push(format!("sent the headers {}", names(headers)));
                    lines.push(private_digest(headers));
                }
            }
        }
        lines.sort();
        lines.iter().map(|line| visible(line)).collect()
    }

    /// Returns the key of the server's stored logins, and of the cached tools of a server over HTTP.
    pub fn key(&self) -> String {
        self.hash_identity(&[])
    }

    /// Returns the key of the cached tools of a program that is started in this workspace.
    pub(super) fn key_in(&self, root: &Path) -> String {
        self.hash_identity(root.as_os_str().as_encoded_bytes())
    }

    fn hash_identity(&self, root: &[u8]) -> String {
        let mut hash = Sha256::new();
        let identity = self.identity();
        let lines = std::iter::once(&self.name).chain(&identity);
        let lines = lines.map(String::as_bytes);
        for part in lines.chain(Some(root).filter(|root| !root.is_empty())) {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        format!("{:x}", hash.finalize())
    }
}

/// Returns the digest of the private settings to which a grant is bound: arguments, values, and the sandbox.
///
/// The text is part of stored grants: changing it would require all of them to be granted again.
fn private_digest(what: &(impl std::fmt::Debug + ?Sized)) -> String {
    let hash = format!("{:x}", Sha256::digest(format!("{what:?}")));
    format!("with the very words and values of sha256 {hash}")
}

/// Returns true if a variable contains a secret, stored or in plain text.
fn is_secret((name, value): (&String, &String)) -> bool {
    value.contains("${")
        || !Redactor::new()
            .find(format!("{name}={value}").as_bytes())
            .is_empty()
}

/// Replaces each `${NAME}` in the values of pairs with the secret of that name.
pub(super) fn fill_secrets_in_pairs(
    pairs: &[(String, String)],
    vault: &dyn Vault,
) -> Result<Vec<(String, String)>, ToolError> {
    let filled = pairs.iter();
    let filled = filled.map(|(name, value)| Ok((name.clone(), fill_secrets(value, vault)?)));
    filled.collect()
}

/// Replaces each `${NAME}` in a text with the secret of that name. Fails if a secret is missing.
pub fn fill_secrets(text: &str, vault: &dyn Vault) -> Result<String, ToolError> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((name, after)) = after.split_once('}') else {
            break;
        };
        out.push_str(before);
        let value = vault.secret(name).map_err(ToolError::unavailable)?;
        let Some(value) = value else {
            let name = visible(mimir_core::text::prefix(name, 64));
            let message = format!("the server needs the secret `{name}`, which is not stored");
            return Err(ToolError::unavailable(message)
                .with_remedies([format!("store it with `mimir secrets set {name}`")]));
        };
        out.push_str(&value);
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}
