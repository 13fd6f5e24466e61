//! `mimir mcp add`, `mimir mcp install` and `mimir mcp trust`: add a server, and review it before it is trusted.

use mimir_core::ToolError;
use mimir_core::config::{McpPackage, McpServerSettings, SandboxMode};
use mimir_core::text::visible;
use serde_json::{Value, json};

use super::trust::TrustCandidate;
use super::{package_request, registry, server_card, server_edits};
use crate::args::{GlobalOptions, McpAddArgs, ServerTrust};
use crate::arguments::command_line;
use crate::exit::{CommandFailure, CommandResult, ExitReason};
use crate::output::{ResultPrinter, STRONG, WARN, note, styled};
use crate::terminal;
use mimir::models;
use mimir::packages::{PackageDownload, PackageInstaller};
use mimir::servers::WorkspaceServers;
use mimir::servers::control::ServerControl;
use mimir::settings::{self, ConfigEdit};
use mimir::setup::HostSetup;

/// Adds a server to the settings. On a terminal, downloads, starts and shows the server first; one answer then adds the
/// server, trusts its texts and chooses the tools that run without asking.
pub async fn add(globals: &GlobalOptions, args: &McpAddArgs) -> CommandResult {
    let printer = globals.printer();
    let setup = HostSetup::find(globals.workspace.as_deref())?;
    let completed = match &args.registry {
        Some(reference) => {
            let found = registry::resolve(&setup, args.clone(), reference).await?;
            if !printer.is_json() {
                found
                    .lines
                    .iter()
                    .for_each(|line| note(format_args!("  {line}")));
            }
            for name in &found.missing_secrets {
                note(styled(
                    WARN,
                    format_args!(
                        "it needs the secret {name}: store it with `mimir secrets set {name}`"
                    ),
                ));
            }
            Some(found.args)
        }
        None => None,
    };
    let args = completed.as_ref().unwrap_or(args);
    let name = args.name.as_deref().unwrap_or_default();
    // Reports a name in use, or an invalid block, before anything is downloaded.
    if setup.settings.config.mcp.servers.contains_key(name) {
        server_edits::check_name_is_free(name)?;
    }
    let mut block = args.settings_block();
    if args.registry.is_some() && !args.no_start {
        confirm_secrets(printer, name, &block)?;
    }
    let request = package_request::requested_package(&block)?;
    match request {
        Some(request) => {
            let sandbox = sandbox(&block);
            let download = PackageDownload {
                request,
                pinned: None,
                other_dependencies: false,
                install_scripts: args.install_scripts,
                sandbox,
            };
            let package = PackageInstaller::new(&setup, printer.is_json())
                .install(&download)
                .await?;
            block = package_request::pinned_block(
                &block,
                &package,
                download.request.args,
                &args.folders,
                setup.workspace.root(),
            );
        }
        None if !args.folders.is_empty() || args.install_scripts => {
            return Err(CommandFailure::usage(
                "--folder and --install-scripts are for packages: `-- npx PACKAGE` or `-- uvx PACKAGE`",
            ));
        }
        None => server_card::set_workspace_root(&mut block, setup.workspace.root()),
    }
    let server: McpServerSettings =
        serde_json::from_value(block.clone()).map_err(ToolError::invalid_input)?;
    server.check(name).map_err(ToolError::invalid_input)?;
    let is_interactive = terminal::has_person() && !printer.is_json() && !args.no_start;
    let mut choice = args.trust.clone();
    let candidate = if is_interactive || args.approve.is_some() {
        start_candidate(&setup, name, &server).await?
    } else {
        None
    };
    if let Some(candidate) = &candidate {
        match &args.approve {
            Some(digest) => candidate.check_digest(digest)?,
            None => {
                let mut lines = vec![styled(STRONG, format_args!("Server {}", visible(name)))];
                lines.extend(
                    server_card::block_lines(&block)
                        .iter()
                        .map(|line| format!("  {line}")),
                );
                let Some(answer) =
                    candidate.ask(&lines, &args.trust, "Add it, and trust these texts?")?
                else {
                    let message = "nothing was added";
                    return Err(ToolError::approval_denied(message).into());
                };
                choice = answer;
            }
        }
    }
    let trust_edits = candidate
        .as_ref()
        .map(|candidate| candidate.edits(&choice))
        .unwrap_or_default();
    let file = settings::change_config(&setup, args.user, |text| {
        let mut edits = server_edits::add_servers(text, &[(name.to_owned(), block.clone())])?;
        edits.extend(trust_edits);
        Ok(edits)
    })?;
    // An earlier server of this name may have been stopped.
    ServerControl::forget(&setup.user_dirs, &setup.workspace, name)?;
    if let Some(candidate) = &candidate {
        candidate.grant(&setup)?;
    }
    if printer.is_json() {
        let package = &block["package"];
        let package = (!package.is_null()).then_some(package);
        let digest = candidate.as_ref().map(TrustCandidate::digest);
        printer.print_json(
            &json!({ "added": name, "file": file, "package": package, "trusted": digest }),
        )?;
        return Ok(ExitReason::Done);
    }
    let name = visible(name);
    match &candidate {
        Some(candidate) => {
            note(format_args!("{name} is in {file}"));
            candidate.print_trusted(&choice);
        }
        None => {
            for line in server_card::block_lines(&block) {
                note(format_args!("    {line}"));
            }
            note(format_args!(
                "added {name} to {file}; `mimir mcp trust {name}{}` shows its texts and allows calls of its tools",
                args.trust.options()
            ));
        }
    }
    Ok(ExitReason::Done)
}

/// Asks whether a server of a registry may receive secrets, before anything is downloaded or started: its entry chooses
/// both the secrets and the address. Fails without a terminal.
fn confirm_secrets(printer: ResultPrinter, name: &str, block: &Value) -> CommandResult<()> {
    let server: McpServerSettings =
        serde_json::from_value(block.clone()).map_err(ToolError::invalid_input)?;
    let secrets = server_card::secrets_of(std::iter::once(&server));
    if secrets.is_empty() {
        return Ok(());
    }
    let remedies = [
        "`--no-start` adds it without starting it, so that you can review its settings".to_owned(),
        "write the settings yourself: `mimir mcp add NAME --url URL --header 'NAME=${SECRET}'`, or `--env` and a command"
            .to_owned(),
    ];
    if printer.is_json() || !terminal::has_person() {
        let names: Vec<String> = secrets.iter().map(|it| visible(it)).collect();
        let message = format!(
            "nothing was added: the registry's entry passes secrets to the server ({}), which only a person at a terminal can allow",
            names.join(", ")
        );
        return Err(ToolError::approval_denied(message)
            .with_remedies(remedies)
            .into());
    }
    note(styled(STRONG, format_args!("Server {}", visible(name))));
    for line in server_card::server_lines(&server) {
        note(format_args!("  {line}"));
    }
    if terminal::confirm("Start it, and send it these secrets?")? {
        return Ok(());
    }
    Err(ToolError::approval_denied("nothing was added")
        .with_remedies(remedies)
        .into())
}

/// Starts a server with settings that are not saved yet. Returns `None`, with a note, if a remote server cannot be
/// listed: it may require a login first.
async fn start_candidate(
    setup: &HostSetup,
    name: &str,
    server: &McpServerSettings,
) -> CommandResult<Option<TrustCandidate>> {
    let mut settings = setup.settings.clone();
    settings
        .config
        .mcp
        .servers
        .insert(name.to_owned(), server.clone());
    let servers = WorkspaceServers::new(
        &setup.user_dirs,
        &setup.workspace,
        &settings,
        models::vault(setup),
        &setup.audit_watermark,
    );
    let test = servers.servers().test(name).await;
    match test {
        Some(Ok(test)) => Ok(Some(TrustCandidate::review(setup, test, server).await)),
        Some(Err(error)) if server.url.is_some() => {
            note(styled(
                WARN,
                format_args!(
                    "could not list the server's tools: {}",
                    visible(&error.message)
                ),
            ));
            for remedy in &error.remedies {
                note(format_args!("  {}", visible(remedy)));
            }
            Ok(None)
        }
        Some(Err(error)) => {
            let existing = error.remedies.to_vec();
            let remedy =
                "nothing was added; `--no-start` adds the server without starting it".to_owned();
            Err(error
                .with_remedies(existing.into_iter().chain([remedy]))
                .into())
        }
        None => Ok(None),
    }
}

/// Downloads the package of a configured server: the pinned package if it is not on this machine, or else the package
/// that the server's command would download at each start, which is then pinned.
pub async fn install(
    globals: &GlobalOptions,
    name: &str,
    user: bool,
    install_scripts: bool,
) -> CommandResult {
    let printer = globals.printer();
    let setup = HostSetup::find(globals.workspace.as_deref())?;
    let Some(server) = setup.settings.config.mcp.servers.get(name) else {
        return Err(super::unknown(&setup, name).into());
    };
    let installer = PackageInstaller::new(&setup, printer.is_json());
    let package = match &server.package {
        Some(package) => {
            let download = PackageDownload::reinstall(package, server.sandbox);
            let installed = installer.install(&download).await.map_err(|error| {
                let remedies = error.remedies.iter().cloned();
                let remedies: Vec<String> = remedies
                    .map(|remedy| remedy.replace("NAME", name))
                    .collect();
                error.with_remedies(remedies)
            })?;
            if installed != *package {
                let user = is_in_user_file(&setup, name, user)?;
                let edits = vec![pin_edit(name, &installed)];
                let file = settings::change_config(&setup, user, |_| Ok(edits))?;
                note(styled(
                    WARN,
                    format_args!(
                        "pinned the dependencies of {package} in {file}, which were not pinned before: `mimir mcp trust {}` shows the texts of its tools",
                        visible(name)
                    ),
                ));
            }
            installed
        }
        None => {
            let block = server_block(&setup, name, user)?;
            let Some(request) = package_request::requested_package(&block)? else {
                return Err(CommandFailure::usage(format!(
                    "the server `{}` has nothing to download: its command is not a package runner such as `npx` or `uvx`",
                    visible(name)
                )));
            };
            let download = PackageDownload {
                request,
                pinned: None,
                other_dependencies: false,
                install_scripts,
                sandbox: sandbox(&block),
            };
            let package = installer.install(&download).await?;
            let block = package_request::pinned_block(
                &block,
                &package,
                download.request.args,
                &[],
                setup.workspace.root(),
            );
            let file = settings::change_config(&setup, user, |text| {
                let mut edits = server_edits::remove(text, name)?;
                edits.push(ConfigEdit::set_key(
                    &["mcp", "servers", name],
                    block.clone(),
                ));
                Ok(edits)
            })?;
            if !printer.is_json() {
                server_card::block_lines(&block)
                    .iter()
                    .for_each(|line| note(format_args!("    {line}")));
                note(format_args!(
                    "pinned {} in {file}; `mimir mcp trust {}` shows the texts of its tools",
                    visible(name),
                    visible(name)
                ));
            }
            package
        }
    };
    printer.print_done(
        &json!({ "installed": name, "package": package }),
        format_args!("{package} is installed"),
    )
}

/// Shows every text of a configured server, and trusts the server's current state if the user agrees.
pub async fn trust(
    globals: &GlobalOptions,
    name: &str,
    user: bool,
    suggested: &ServerTrust,
    digest: Option<&str>,
) -> CommandResult {
    let printer = globals.printer();
    let setup = HostSetup::find(globals.workspace.as_deref())?;
    let servers = &setup.settings.config.mcp.servers;
    let Some(server) = servers
        .get(name)
        .filter(|server| super::is_enabled(&setup, server))
    else {
        return Err(super::unknown(&setup, name).into());
    };
    let renewed_package = renew_package(&setup, printer, server).await?;
    let server = renewed_package
        .as_ref()
        .map_or(server, |renewed_package| &renewed_package.server);
    let candidate = match &renewed_package {
        Some(_) => start_candidate(&setup, name, server).await?,
        None => match setup.servers.servers().test(name).await {
            Some(test) => Some(TrustCandidate::review(&setup, test?, server).await),
            None => None,
        },
    };
    let Some(candidate) = candidate else {
        return Err(super::unknown(&setup, name).into());
    };
    let choice = match digest {
        Some(digest) => {
            candidate.check_digest(digest)?;
            suggested.clone()
        }
        None => {
            let mut lines = vec![styled(STRONG, format_args!("Server {}", visible(name)))];
            lines.extend(
                server_card::server_lines(server)
                    .iter()
                    .map(|line| format!("  {line}")),
            );
            let changed = renewed_package
                .as_ref()
                .map(|renewed_package| &renewed_package.difference);
            lines.extend(
                changed.map(|it| styled(WARN, format_args!("  depends on other packages: {it}"))),
            );
            let answer = if terminal::has_person() {
                candidate.ask(&lines, suggested, "Trust these texts?")?
            } else {
                None
            };
            answer.ok_or_else(|| {
                let without_terminal = format!(
                    "approve the digest that you have reviewed: `{} --approve {}`",
                    command_line(),
                    candidate.digest()
                );
                let message = terminal::refusal("nothing was granted", &without_terminal);
                ToolError::approval_denied(message)
            })?
        }
    };
    let mut edits = candidate.edits(&choice);
    let package = server
        .package
        .as_ref()
        .filter(|_| renewed_package.is_some());
    let user = match package {
        Some(_) => is_in_user_file(&setup, name, user)?,
        None => user,
    };
    edits.extend(package.map(|package| pin_edit(name, package)));
    if !edits.is_empty() {
        settings::change_config(&setup, user, |_| Ok(edits))?;
    }
    candidate.grant(&setup)?;
    if printer.is_json() {
        printer.print_json(&json!({
            "trusted": name, "digest": candidate.digest(), "shadowed": candidate.shadowed_names(),
        }))?;
    } else {
        candidate.print_trusted(&choice);
    }
    Ok(ExitReason::Done)
}

/// A server whose package was downloaded again, with dependencies that differ from the pinned ones.
struct RenewedPackage {
    server: McpServerSettings,
    difference: String,
}

/// Downloads the pinned package of a server if it is not on this machine. Returns the server with a new pin if the
/// dependencies differ from the pinned ones.
async fn renew_package(
    setup: &HostSetup,
    printer: ResultPrinter,
    server: &McpServerSettings,
) -> CommandResult<Option<RenewedPackage>> {
    let installer = PackageInstaller::new(setup, printer.is_json());
    let Some(pinned) = server
        .package
        .as_ref()
        .filter(|it| !installer.is_installed(it))
    else {
        return Ok(None);
    };
    let download = PackageDownload {
        other_dependencies: true,
        ..PackageDownload::reinstall(pinned, server.sandbox)
    };
    let package = installer.install(&download).await?;
    if package == *pinned {
        return Ok(None);
    }
    let difference = installer.difference(pinned, &package);
    let server = McpServerSettings {
        package: Some(package),
        ..server.clone()
    };
    Ok(Some(RenewedPackage { server, difference }))
}

/// Edit that writes the pin of a server's package.
fn pin_edit(name: &str, package: &McpPackage) -> ConfigEdit {
    ConfigEdit::set_key(&["mcp", "servers", name, "package"], json!(package))
}

/// Returns true if the server is in the user's settings, false if it is in the project's. The file that `user` selects
/// is searched first.
fn is_in_user_file(setup: &HostSetup, name: &str, user: bool) -> CommandResult<bool> {
    match server_block(setup, name, user) {
        Ok(_) => Ok(user),
        Err(_) => server_block(setup, name, !user).map(|_| !user),
    }
}

fn sandbox(block: &Value) -> Option<SandboxMode> {
    serde_json::from_value(block["sandbox"].clone())
        .ok()
        .flatten()
}

/// Returns the block of a server in the user's or the project's settings.
fn server_block(setup: &HostSetup, name: &str, user: bool) -> CommandResult<Value> {
    let mut block = None;
    // Returns no edits: this only reads the file.
    settings::change_config(setup, user, |text| {
        block = server_edits::block(text, name)?;
        Ok(Vec::new())
    })?;
    block.ok_or_else(|| {
        let message = format!("the server `{}` is not in this file", visible(name));
        let remedy = "use `--user` for your user settings, and omit it for the project's settings";
        ToolError::not_found(message)
            .with_remedies([remedy.to_owned()])
            .into()
    })
}
