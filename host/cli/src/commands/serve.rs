//! `mimir serve`.

use std::io::IsTerminal as _;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use mimir_cluster::ClusterConnection;
use mimir_core::audit::{AuditEvent, EventKind};
use mimir_core::{Pipeline, ToolError, ToolErrorCode};
use mimir_mcp::{
    ApprovalOptions, HttpOptions, HttpService, IdentityOptions, LoginRecorder, SkillSource,
    ToolServer, UserLoginOutcome,
};
use mimir_wasm::SystemClock;
use parking_lot::Mutex;

use crate::args::{GlobalOptions, ServeArgs};
use crate::exit::{CommandFailure, CommandResult, ExitReason};
use crate::output::workspace_option::always_name_workspace;
use crate::output::{BAD, note, outcome, stderr_queue, styled};
use crate::serve::{
    ServeToken, ServedConsole, ServerReplica, StdioStreams, listen, load_or_create,
};
use crate::terminal::{cluster_approver, remote_approver};
use mimir::live_calls::LiveCallHub;
use mimir::live_setup::{CHECK_INTERVAL, LiveSetup, PipelineUpdater, SetupUpdate};
use mimir::servers;
use mimir::setup::HostSetup;
use mimir::skills::SkillResourceSource;
use mimir::teams::{TeamRefresh, spawn_refresh};

use super::interrupt::InterruptListener;
use super::mcp::login::login_subject;

/// Serves the tools until the client disconnects or the process is stopped.
pub async fn run(globals: &GlobalOptions, args: ServeArgs) -> CommandResult {
    // Before anything else: an agent may stop the server at once, and that is not a failure.
    let interrupts = InterruptListener::install();
    match args.http {
        None => stdio(globals, &args, interrupts).await,
        Some(address) => http(globals, address, args, interrupts).await,
    }
}

async fn stdio(
    globals: &GlobalOptions,
    args: &ServeArgs,
    mut interrupts: InterruptListener,
) -> CommandResult {
    if std::io::stdin().is_terminal() {
        note(
            "mimir serves MCP on stdin and stdout, for an agent that starts it; `mimir serve --help` shows how",
        );
    }
    stderr_queue::detach_stderr();
    let StdioStreams {
        reader,
        writer,
        line,
    } = StdioStreams::take_stdio()?;
    let connection = ServerReplica::connect(&args.replica).await?;
    let setup = find_setup(globals, args, connection.as_ref()).await?;
    let (setup, replica) = ServerReplica::join(setup, connection, &args.replica).await?;
    let refresh = spawn_refresh(&setup);
    // If this fails, each call reports that it cannot be recorded.
    let _ = setup.workspace.make_state();
    let mut live = tokio::select! {
        live = start_live(setup) => live?,
        signal = interrupts.wait() => {
            leave(replica.as_ref()).await;
            return Ok(ended_by(signal));
        }
    };
    let ServedTools {
        server,
        updater,
        pipeline,
    } = build_server(&live, refresh, replica.as_ref());
    if let Some(replica) = &replica {
        // The client would not connect again to a process that starts again.
        let first = replica.first_deployment(live.setup());
        live.use_first_deployment(first);
    }
    let exit = Mutex::new(ExitReason::Done);
    let stop = async {
        tokio::select! {
            signal = interrupts.wait() => {
                *exit.lock() = ended_by(signal);
            }
            () = line.hung_up() => {}
        }
    };
    let follow = keep_updated(&mut live, &updater, &server, replica.as_ref(), None);
    let follow_tools = follow_remote_tools(replica.as_ref(), &pipeline, &server);
    let ended = tokio::select! {
        ended = server.serve(reader, writer, stop) => ended,
        followed = follow => return followed.map(|()| ExitReason::Done),
        () = follow_tools => Ok(()),
    };
    leave(replica.as_ref()).await;
    ended.map_err(ToolError::execution)?;
    Ok(exit.into_inner())
}

/// Finds the workspace and reads the settings, with the bundles of teams that are published in the cluster. The tools may
/// come from another folder.
async fn find_setup(
    globals: &GlobalOptions,
    args: &ServeArgs,
    connection: Option<&ClusterConnection>,
) -> Result<HostSetup, ToolError> {
    let workspace = globals.workspace.as_deref();
    let setup = match connection {
        Some(connection) => HostSetup::find_in_cluster(workspace, connection).await?,
        None => HostSetup::find_with_bundles(workspace, false).await?,
    };
    match &args.tools_from {
        Some(folder) => {
            // A client has started the server, in a folder that its user may not know.
            always_name_workspace(setup.workspace.root());
            setup.with_tools_from(folder)
        }
        None => Ok(setup),
    }
}

/// Loads the tools. Components in the tools folder that were never described arrive later, but a client that starts a
/// bundle would see no tools at all until then.
async fn start_live(setup: HostSetup) -> Result<LiveSetup, ToolError> {
    if setup.has_only_components() {
        LiveSetup::new(setup).await
    } else {
        LiveSetup::new_uncompiled(setup).await
    }
}

/// Maximum time for calls to report that they were stopped, and for connections to close.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

async fn http(
    globals: &GlobalOptions,
    address: SocketAddr,
    args: ServeArgs,
    mut interrupts: InterruptListener,
) -> CommandResult {
    stderr_queue::detach_stderr();
    let connection = ServerReplica::connect(&args.replica).await?;
    let setup = find_setup(globals, &args, connection.as_ref()).await?;
    let hub = LiveCallHub::default();
    let mut setup = setup.with_metrics();
    if args.console {
        setup = setup.with_live_calls(hub.clone());
    }
    let (setup, replica) = ServerReplica::join(setup, connection, &args.replica).await?;
    if let Some(replica) = &replica {
        interrupts = interrupts.with_restart(replica.restart_required());
    }
    let drain_timeout = args.replica.drain_timeout;
    let refresh = spawn_refresh(&setup);
    if args.issuer.is_none() && !setup.settings.config.roles.is_empty() {
        note("`roles` of the settings are not applied: users have groups only with --issuer");
    }
    let mut options = options(&setup, address.ip(), &args)?;
    let listener = tokio::net::TcpListener::bind(address).await;
    let listener = listener
        .map_err(|error| ToolError::unavailable(format!("cannot listen on {address}: {error}")))?;
    let address = listener.local_addr().unwrap_or(address);
    let url = format!("http://{address}/mcp");
    let has_console = args.console;
    let names = args.hosts.clone();
    options.identity = identity(&setup, args, &url);
    let identity = options.identity.clone();
    let console = has_console
        .then(|| ServedConsole::create(&setup, hub, address, identity.as_ref(), &names))
        .transpose()?;
    let _ = setup.workspace.make_state();
    let mut live = tokio::select! {
        live = start_live(setup) => live?,
        signal = interrupts.wait() => {
            leave(replica.as_ref()).await;
            return Ok(ended_by(signal));
        }
    };
    options.extra_metrics = Some(crate::serve::server_metrics(live.host()));
    if let Some(replica) = &replica {
        options.readiness = replica.readiness(live.setup());
        options.replicas = Some(replica.join_replicas().await?);
    }
    let ServedTools {
        server,
        updater,
        pipeline,
    } = build_server(&live, refresh, replica.as_ref());
    live.setup().share_agent_stops(&pipeline);
    let http = server.http(options)?;
    if http.lacks_login_links() {
        note(
            "users get no links to log in at MCP servers, because the address of this server is plain http: \
             set it with --resource and https; `mimir mcp login NAME --for-user ID` starts a login without a link",
        );
    }
    note(format_args!("mimir serves MCP at {url}"));
    let mut router = axum::Router::new().fallback_service(http.clone());
    if let Some(console) = &console {
        router = console.add_to(router);
        console.announce();
    }
    let exit = Mutex::new(ExitReason::Done);
    let (stopped, is_stopped) = tokio::sync::oneshot::channel::<()>();
    let serve = listen(listener, router, async {
        let _ = is_stopped.await;
    });
    let follow = keep_updated(
        &mut live,
        &updater,
        &server,
        replica.as_ref(),
        console.as_ref(),
    );
    let follow_tools = follow_remote_tools(replica.as_ref(), &pipeline, &server);
    let ended = async {
        *exit.lock() = ended_by(interrupts.wait().await);
        if let Some(console) = &console {
            console.close();
        }
        if let Some(replica) = &replica {
            // Other servers take over.
            replica.begin_drain();
        }
        drain(&http, drain_timeout, &mut interrupts).await;
        http.close(SHUTDOWN_TIMEOUT).await;
        let _ = stopped.send(());
        tokio::time::sleep(SHUTDOWN_TIMEOUT).await;
    };
    tokio::select! {
        () = serve => {}
        followed = follow => followed?,
        () = follow_tools => {}
        () = ended => {}
    }
    leave(replica.as_ref()).await;
    note("the server has ended");
    Ok(exit.into_inner())
}

/// Waits until the running requests are answered, for at most the given time or until the next signal.
async fn drain(http: &HttpService, at_most: Duration, interrupts: &mut InterruptListener) {
    http.begin_drain();
    let requests = |count| match count {
        1 => "1 request".to_owned(),
        count => format!("{count} requests"),
    };
    match http.unanswered() {
        0 => {}
        count => note(format_args!(
            "the server is about to end: it waits up to {} s for {}; another signal ends it at once",
            at_most.as_secs(),
            requests(count)
        )),
    }
    let answered = tokio::select! {
        answered = http.drain(at_most) => answered,
        _ = interrupts.wait() => false,
    };
    if !answered {
        note(format_args!(
            "{} did not end: the answer is UNAVAILABLE",
            requests(http.unanswered())
        ));
    }
}

/// Leaves the cluster, if the server has joined one.
async fn leave(replica: Option<&ServerReplica>) {
    if let Some(replica) = replica {
        replica.leave().await;
    }
}

/// Follows the tools of the workers, if calls run on workers. Never returns otherwise.
async fn follow_remote_tools(
    replica: Option<&ServerReplica>,
    pipeline: &Pipeline,
    server: &ToolServer,
) {
    let Some((replica, mut tools)) = replica.and_then(|replica| Some((replica, replica.tools()?)))
    else {
        return std::future::pending().await;
    };
    // The pipeline may have been created before the workers have listed their tools.
    tools.mark_changed();
    while tools.changed().await.is_ok() {
        tools.mark_unchanged();
        replica.update_tools(pipeline);
        server.refresh();
    }
}

/// Maps the signal that ended the server to an exit reason. SIGTERM is the usual way to stop a server, so it counts as
/// success.
fn ended_by(signal: ExitReason) -> ExitReason {
    match signal {
        ExitReason::Terminated => ExitReason::Done,
        signal => signal,
    }
}

/// Returns the options of the HTTP server. Creates and prints the token if clients need one.
fn options(setup: &HostSetup, ip: IpAddr, args: &ServeArgs) -> CommandResult<HttpOptions> {
    let mut hosts = args.hosts.clone();
    let named = args.resource.is_some();
    if args.issuer.is_some() && !ip.is_loopback() && !named {
        return Err(CommandFailure::usage(
            "tokens are issued for the public address of the server: set it with --resource",
        ));
    }
    if ip.is_unspecified() && hosts.is_empty() && !named {
        return Err(CommandFailure::usage(
            "a server that listens on all addresses does not know its host name: set it with --host, or listen on one address",
        ));
    }
    if !ip.is_unspecified() {
        hosts.push(ip.to_string());
    }
    let token = match args.issuer.is_none() && (args.token || !ip.is_loopback()) {
        true => Some(load_or_create(&setup.user_dirs)?),
        false => None,
    };
    if let Some(ServeToken { word, file, is_new }) = &token {
        let file = mimir_core::text::visible(&file.display().to_string());
        match is_new {
            true => note(format_args!(
                "bearer token, shown only once and stored in {file}: {word}"
            )),
            false => note(format_args!(
                "the bearer token is in {file}; remove the file to create a new one"
            )),
        }
    }
    Ok(HttpOptions {
        hosts,
        origins: args.origins.clone(),
        token: token.map(|token| token.word),
        identity: None,
        login_recorder: Some(login_recorder(setup)),
        extra_metrics: None,
        readiness: Vec::new(),
        replicas: None,
    })
}

/// Returns the requirements for tokens of the identity provider, if there is one, for a server that listens at `url`.
fn identity(setup: &HostSetup, args: ServeArgs, url: &str) -> Option<IdentityOptions> {
    let issuer = args.issuer?;
    // The keys of the provider decide who a user is, so that a project must not fetch them elsewhere.
    let settings = servers::without_project_network(&setup.settings);
    let root = setup.workspace.root().to_owned();
    Some(IdentityOptions {
        issuer,
        resource: args.resource.unwrap_or_else(|| url.to_owned()),
        audiences: args.audiences,
        scopes: args.scopes,
        groups_claim: args.groups_claim,
        client_id: args.client_id,
        client_secret: args.client_secret,
        // The issuer is allowed because the user has named it. Blocked hosts stay blocked.
        clients: Arc::new(move |url| servers::client(&settings, &root, url)),
    })
}

/// Returns the function that records the logins of users in the audit log, as `mimir mcp login` does, and the failed
/// attempts.
fn login_recorder(setup: &HostSetup) -> LoginRecorder {
    let audit = setup.audit();
    Arc::new(move |login| {
        let subject = login_subject(&login.server, Some(&login.user));
        let event = AuditEvent::new(EventKind::SecretSet, SystemTime::now()).with_subject(&subject);
        let event = match &login.outcome {
            UserLoginOutcome::Stored { issuer } => event.with_detail(&format!("from {issuer}")),
            UserLoginOutcome::OtherUser { opened_by } => event
                .refused(ToolErrorCode::PermissionDenied)
                .with_detail(&format!("the link was opened by {opened_by}, another user")),
            UserLoginOutcome::Failed { code } => {
                event.refused(*code).with_detail("the login has failed")
            }
        };
        if let Err(error) = audit.record(&event) {
            let why = mimir_core::text::visible(&error.to_string());
            note(format_args!("{} {why}", styled(BAD, "not recorded:")));
        }
    })
}

/// A server, its pipeline, and the updater of the pipeline and of the bundles of teams.
struct ServedTools {
    server: ToolServer,
    updater: PipelineUpdater,
    pipeline: Pipeline,
}

/// Creates a server for the current tools.
fn build_server(
    live: &LiveSetup,
    refresh: TeamRefresh,
    replica: Option<&ServerReplica>,
) -> ServedTools {
    let setup = live.setup();
    let remote = replica.and_then(ServerReplica::remote);
    let components = match remote {
        Some(_) => None,
        None => setup.component_folder(),
    };
    let mut snapshot = live.snapshot();
    if let Some(replica) = replica {
        replica.apply_tools(&mut snapshot);
    }
    let approver = match setup.cluster() {
        Some(_) => cluster_approver(),
        None => remote_approver(components),
    };
    let pipeline = setup.pipeline_with_remote(snapshot, Arc::clone(&approver), remote);
    setup.share_questions(&pipeline);
    let approval_options = ApprovalOptions {
        next: approver,
        timeout: Some(setup.approval_timeout()),
        clock: Arc::new(SystemClock),
    };
    let servers = (!setup.has_only_components()).then(|| Arc::clone(setup.servers.servers()));
    let skills = Arc::new(SkillResourceSource::new(setup.skills()));
    let server = ToolServer::with_servers(
        pipeline.clone(),
        approval_options,
        Arc::new(print_refusal),
        servers,
    )
    .waiting_for(live.described())
    .with_skills(Arc::clone(&skills) as Arc<dyn SkillSource>);
    let mut updater = PipelineUpdater::new(pipeline.clone(), live).with_skills(skills);
    updater.refresh_teams(refresh);
    ServedTools {
        server,
        updater,
        pipeline,
    }
}

/// Applies changes of tools, rules and grants to a server while it runs.
async fn keep_updated(
    live: &mut LiveSetup,
    updater: &PipelineUpdater,
    server: &ToolServer,
    replica: Option<&ServerReplica>,
    console: Option<&ServedConsole>,
) -> CommandResult<()> {
    let apply = |setup: &HostSetup, mut update| {
        if let Some(console) = console {
            console.apply_settings(setup);
        }
        if let Some(replica) = replica {
            replica.apply_settings(setup);
            if let SetupUpdate::Snapshot { snapshot, .. } = &mut update {
                replica.apply_tools(snapshot);
            }
        }
        updater.apply_update(setup, update);
        server.refresh();
        Ok(())
    };
    live.follow(CHECK_INTERVAL, apply).await
}

/// Prints a refusal with the steps that would allow the call, which the calling model must not see.
fn print_refusal(tool: &str, error: &ToolError) {
    let message = mimir_core::text::visible(&error.message);
    let code = error.code;
    note(format_args!(
        "{} {tool}: {message} [{code}]",
        styled(BAD, "refused:")
    ));
    outcome::print_remedies(error);
}
