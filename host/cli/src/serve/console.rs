//! The console of `mimir serve --http --console`.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use mimir_console::{
    BrowserLogin, ConsoleLimits, ConsoleOptions, ConsolePerson, ConsoleRole, ConsoleServer,
    StartedLogin, TeamAddress,
};
use mimir_core::config::{ConsolePersonClaims, ConsoleSettings};
use mimir_core::network::{NetworkHost, RequestTarget};
use mimir_core::text::visible;
use mimir_core::{BoxFuture, ToolError};
use mimir_mcp::{BrowserIdentity, IdentityOptions, StartedIdentity};
use parking_lot::{Mutex, RwLock};

use crate::console::WorkspaceConsole;
use crate::exit::{CommandFailure, CommandResult};
use crate::output::{STRONG, note, styled, warn};
use crate::serve::AuditedLogins;
use mimir::console_listeners::{ConsoleListeners, ListenerFile};
use mimir::console_presence::AnnouncedConsole;
use mimir::live_calls::LiveCallHub;
use mimir::process_identity::user_name;
use mimir::setup::HostSetup;

/// Path at which the console begins.
const BASE: &str = "/console/";

/// A console that is served beside MCP.
pub struct ServedConsole {
    server: ConsoleServer,
    router: Router,
    /// Address for people who log in.
    public_url: Option<String>,
    settings: SharedConsoleSettings,
    /// Makes questions wait for the console.
    announced: Mutex<Option<AnnouncedConsole>>,
    /// Keeps the tools of this user away from the console.
    _file: ListenerFile,
}

/// Settings of the console, which may change while it runs.
type SharedConsoleSettings = Arc<RwLock<ConsoleSettings>>;

impl ServedConsole {
    /// Creates the console for a server that listens at `address`. `identity` is the identity provider, if there is one,
    /// and `hosts` are further names of the server. The hub has the calls of the server.
    ///
    /// # Errors
    /// Others can reach the server, and it has no identity provider.
    pub fn create(
        setup: &HostSetup,
        hub: LiveCallHub,
        address: SocketAddr,
        identity: Option<&IdentityOptions>,
        hosts: &[String],
    ) -> CommandResult<Self> {
        if identity.is_none() && !address.ip().is_loopback() {
            return Err(CommandFailure::usage(
                "a console that others can reach needs a login: add --issuer, or listen on 127.0.0.1",
            ));
        }
        let settings = SharedConsoleSettings::default();
        *settings.write() = console_settings(setup);
        let login = identity
            .map(|identity| ProviderLogin::create(setup, identity, Arc::clone(&settings)))
            .transpose()?;
        let backend = WorkspaceConsole::new_for_server(setup, hub)?;
        let server = ConsoleServer::new(
            Arc::new(backend),
            ConsoleOptions {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                user: user_name(),
                base: BASE.to_owned(),
                limits: match &login {
                    Some(_) => ConsoleLimits::of_team(),
                    None => ConsoleLimits::default(),
                },
                login: login.map(|login| Arc::new(login) as Arc<dyn BrowserLogin>),
                recorder: Some(Arc::new(AuditedLogins::new(setup))),
            },
        )?;
        let mut listeners = ConsoleListeners {
            addresses: vec![address],
            hosts: proxied_hosts(hosts, address.port()),
        };
        let (router, public_url) = match identity {
            None => (server.local_router(address)?, None),
            Some(identity) => {
                let target = RequestTarget::parse(&identity.resource)
                    .map_err(|error| ToolError::invalid_input(error.to_string()))?;
                listeners
                    .hosts
                    .push(format!("{}:{}", target.host(), target.port()));
                let address = TeamAddress {
                    origin: target.origin().to_string(),
                    prefix: path_prefix(&target)?,
                    names: hosts.to_vec(),
                };
                let url = format!("{}{}{BASE}", address.origin, address.prefix);
                (server.team_router(&address), Some(url))
            }
        };
        let file = ListenerFile::write(&setup.user_dirs, &listeners)?;
        Ok(Self {
            server,
            router,
            public_url,
            settings,
            announced: Mutex::new(Some(setup.announce_console()?)),
            _file: file,
        })
    }

    /// Adds the pages of the console to a server.
    pub fn add_to(&self, router: Router) -> Router {
        router.merge(self.router.clone())
    }

    /// Prints where the console is.
    pub fn announce(&self) {
        if let Some(url) = &self.public_url {
            note(format_args!("the console is at {}", visible(url)));
            if *self.settings.read() == ConsoleSettings::default() {
                note("it has no users yet: set `console.roles` in your settings");
            }
            return;
        }
        match self.server.local_link() {
            Ok(link) => note(format_args!(
                "the console is at {}; this link works once, for 10 minutes",
                styled(STRONG, &link.url)
            )),
            Err(error) => warn(format_args!("no link to the console: {}", error.message)),
        }
    }

    /// Uses changed settings.
    pub fn apply_settings(&self, setup: &HostSetup) {
        *self.settings.write() = console_settings(setup);
    }

    /// Ends all sessions, so that connections can close.
    pub fn close(&self) {
        drop(self.announced.lock().take());
        self.server.end_sessions();
    }
}

/// Returns the addresses under which a reverse proxy with these names may pass on requests: with the usual ports, and with
/// that of the server. A proxy at another port is only known from the resource.
fn proxied_hosts(names: &[String], port: u16) -> Vec<String> {
    // Other servers of this machine may listen at the same names.
    let names = names.iter().filter(|name| {
        let host = NetworkHost::parse(name);
        host.is_ok_and(|host| !host.is_this_machine())
    });
    names
        .flat_map(|name| [443, 80, port].map(|port| format!("{name}:{port}")))
        .collect()
}

/// Returns the path that a reverse proxy removes from requests: that of the resource, without the endpoint of MCP.
fn path_prefix(resource: &RequestTarget) -> CommandResult<String> {
    let path = resource.url().path().trim_end_matches('/');
    let prefix = path.strip_suffix("/mcp").unwrap_or(path);
    // It becomes a part of cookies.
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/-._~%".contains(c);
    if prefix.chars().all(is_plain) {
        return Ok(prefix.to_owned());
    }
    Err(CommandFailure::usage(format!(
        "the console cannot be at the path {}: expected letters, digits, and `-._~%` in the path of --resource",
        visible(prefix)
    )))
}

fn console_settings(setup: &HostSetup) -> ConsoleSettings {
    setup.settings.config.console.clone().unwrap_or_default()
}

/// Login of people at the identity provider, and their roles.
struct ProviderLogin {
    identity: Arc<BrowserIdentity>,
    settings: SharedConsoleSettings,
}

struct StartedProviderLogin {
    identity: Arc<BrowserIdentity>,
    started: StartedIdentity,
}

impl ProviderLogin {
    fn create(
        setup: &HostSetup,
        identity: &IdentityOptions,
        settings: SharedConsoleSettings,
    ) -> Result<Self, ToolError> {
        let mut identity = identity.clone();
        if let Some(client_id) = settings.read().client_id.clone() {
            // A secret belongs to the client of the option.
            if identity.client_id.as_ref() != Some(&client_id) {
                identity.client_secret = None;
            }
            identity.client_id = Some(client_id);
        }
        let vault = Arc::clone(&setup.vault) as Arc<dyn mimir_core::redact::Vault>;
        Ok(Self {
            identity: Arc::new(BrowserIdentity::new(&identity, vault)?),
            settings,
        })
    }
}

impl BrowserLogin for ProviderLogin {
    fn begin<'a>(
        &'a self,
        redirect: &'a str,
    ) -> BoxFuture<'a, Result<Box<dyn StartedLogin>, ToolError>> {
        Box::pin(async move {
            let started = self.identity.begin(redirect).await?;
            let identity = Arc::clone(&self.identity);
            let started = StartedProviderLogin { identity, started };
            Ok(Box::new(started) as Box<dyn StartedLogin>)
        })
    }

    fn role_of(&self, person: &ConsolePerson) -> Option<ConsoleRole> {
        let claims = ConsolePersonClaims {
            subject: &person.subject,
            email: person.email.as_deref(),
            groups: &person.groups,
        };
        let settings = self.settings.read();
        let roles = [
            (ConsoleRole::Admin, &settings.roles.admin),
            (ConsoleRole::Approver, &settings.roles.approver),
            (ConsoleRole::Viewer, &settings.roles.viewer),
        ];
        let mut roles = roles.into_iter();
        let (role, _) =
            roles.find(|(_, members)| members.iter().any(|member| member.includes(&claims)))?;
        Some(role)
    }
}

impl StartedLogin for StartedProviderLogin {
    fn url(&self) -> &str {
        self.started.url()
    }

    fn state(&self) -> &str {
        self.started.state()
    }

    fn finish(
        self: Box<Self>,
        callback: String,
    ) -> BoxFuture<'static, Result<ConsolePerson, ToolError>> {
        Box::pin(async move {
            let Self { identity, started } = *self;
            let person = identity.finish(started, &callback).await?;
            Ok(ConsolePerson {
                subject: person.subject,
                email: person.email,
                groups: person.groups,
            })
        })
    }
}
