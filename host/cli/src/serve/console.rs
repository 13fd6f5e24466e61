//! The console of `mimir serve --http --console`.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use mimir_console::{
    BrowserLogin, ConsoleLimits, ConsoleOptions, ConsolePerson, ConsoleRole, ConsoleServer,
    StartedLogin, TeamAddress,
};
use mimir_core::audit::{AuditEvent, AuditSink, EventKind};
use mimir_core::config::{ConsolePersonClaims, ConsoleSettings};
use mimir_core::network::RequestTarget;
use mimir_core::text::visible;
use mimir_core::{BoxFuture, ToolError};
use mimir_mcp::{BrowserIdentity, IdentityOptions, StartedIdentity};
use parking_lot::{Mutex, RwLock};

use crate::console::WorkspaceConsole;
use crate::exit::{CommandFailure, CommandResult};
use crate::output::{STRONG, note, styled, warn};
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
        let backend = WorkspaceConsole::new(setup, hub)?;
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
            },
        )?;
        let mut listeners = ConsoleListeners {
            addresses: vec![address],
            hosts: Vec::new(),
        };
        let router = match identity {
            None => server.local_router(address)?,
            Some(identity) => {
                let target = RequestTarget::parse(&identity.resource)
                    .map_err(|error| ToolError::invalid_input(error.to_string()))?;
                let host = format!("{}:{}", target.host(), target.port());
                listeners.hosts.push(host);
                server.team_router(&TeamAddress {
                    origin: target.origin().to_string(),
                    names: hosts.to_vec(),
                })
            }
        };
        let file = ListenerFile::write(&setup.user_dirs, &listeners)?;
        Ok(Self {
            server,
            router,
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
    pub fn announce(&self, identity: Option<&str>) {
        if let Some(resource) = identity {
            let origin = RequestTarget::parse(resource).map(|target| target.origin().to_string());
            let origin = origin.unwrap_or_default();
            note(format_args!("the console is at {}{BASE}", visible(&origin)));
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

fn console_settings(setup: &HostSetup) -> ConsoleSettings {
    setup.settings.config.console.clone().unwrap_or_default()
}

/// Login of people at the identity provider, and their roles.
struct ProviderLogin {
    identity: Arc<BrowserIdentity>,
    settings: SharedConsoleSettings,
    audit: Arc<dyn AuditSink>,
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
            audit: setup.audit(),
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

    fn record(&self, login: Result<(&ConsolePerson, Option<ConsoleRole>), &ToolError>) {
        let event = AuditEvent::new(EventKind::ConsoleLogin, std::time::SystemTime::now());
        let event = match login {
            Ok((person, Some(role))) => event
                .with_subject(person.name())
                .with_detail(&format!("as {}", role.as_str())),
            Ok((person, None)) => event
                .with_subject(person.name())
                .refused(mimir_core::ToolErrorCode::PermissionDenied)
                .with_detail("without a role"),
            Err(error) => event
                .refused(error.code)
                .with_detail("the login has failed"),
        };
        if let Err(error) = self.audit.record(&event) {
            warn(format_args!(
                "a login at the console was not recorded: {}",
                visible(&error.to_string())
            ));
        }
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
