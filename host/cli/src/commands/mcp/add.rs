//! `mimir mcp add`, `mimir mcp install` and `mimir mcp trust`: add a server, and review it before it is trusted.

use mimir_core::config::{McpPackage, McpServer, SandboxMode};
use mimir_core::text::visible;
use mimir_core::{Code, ToolError};
use serde_json::{Value, json};

use super::trust::Candidate;
use super::{card, edit, prepare};
use crate::args::{Globals, McpAdd, ServerTrust};
use crate::exit::{Exit, Failure};
use crate::output::{Printer, STRONG, WARN, note, styled};
use crate::terminal;
use mimir::packages::{Download, Installer};
use mimir::servers::OwnServers;
use mimir::settings::{self, Edit};
use mimir::setup::Setup;

/// Adds a server to the settings. On a terminal it is downloaded, started and shown first, and one answer adds it,
/// trusts its texts and chooses the tools that run without asking.
pub async fn add(globals: &Globals, printer: Printer, add: &McpAdd) -> Result<Exit, Failure> {
    let setup = Setup::find(globals.workspace.as_deref())?;
    // Reports a name in use, or an invalid block, before anything is downloaded.
    if setup.settings.config.mcp.servers.contains_key(&add.name) {
        edit::taken(&add.name)?;
    }
    let mut block = add.block.clone();
    let request = prepare::request(&block)?;
    match request {
        Some(request) => {
            let sandbox = sandbox(&block);
            let download = Download {
                request,
                pinned: None,
                other_dependencies: false,
                install_scripts: add.install_scripts,
                sandbox,
            };
            let package = Installer::new(&setup, printer.is_json())
                .install(&download)
                .await?;
            let args = download.request.args;
            block = prepare::pinned(&block, &package, args, &add.folders, setup.workspace.root());
        }
        None if !add.folders.is_empty() || add.install_scripts => {
            return Err(Failure::usage(
                "--folder and --install-scripts are for packages: `-- npx PACKAGE` or `-- uvx PACKAGE`",
            ));
        }
        None => card::root(&mut block, setup.workspace.root()),
    }
    let server: McpServer = serde_json::from_value(block.clone())
        .map_err(|error| ToolError::new(Code::InvalidInput, error.to_string()))?;
    server
        .check(&add.name)
        .map_err(|error| ToolError::new(Code::InvalidInput, error.to_string()))?;
    let asks = terminal::has_person() && !printer.is_json() && !add.no_start;
    let mut choice = add.trust.clone();
    let candidate = match asks || add.approve.is_some() {
        true => started(&setup, &add.name, &server).await?,
        false => None,
    };
    if let Some(candidate) = &candidate {
        match &add.approve {
            Some(digest) => candidate.check(digest)?,
            None => {
                let mut lines = vec![styled(
                    STRONG,
                    format_args!("Server {}", visible(&add.name)),
                )];
                lines.extend(card::lines(&block).iter().map(|line| format!("  {line}")));
                let Some(answer) =
                    candidate.ask(&lines, &add.trust, "Add it, and trust these texts?")?
                else {
                    let message = "nothing was added";
                    return Err(ToolError::new(Code::ApprovalDenied, message).into());
                };
                choice = answer;
            }
        }
    }
    let more = candidate
        .as_ref()
        .map(|candidate| candidate.edits(&choice))
        .unwrap_or_default();
    let file = settings::change(&setup, add.user, |text| {
        let mut edits = edit::add(text, &[(add.name.clone(), block.clone())])?;
        edits.extend(more);
        Ok(edits)
    })?;
    if let Some(candidate) = &candidate {
        candidate.grant(&setup)?;
    }
    if printer.is_json() {
        let package = &block["package"];
        let package = (!package.is_null()).then_some(package);
        let digest = candidate.as_ref().map(Candidate::digest);
        printer.value(
            &json!({ "added": add.name, "file": file, "package": package, "trusted": digest }),
        )?;
        return Ok(Exit::Done);
    }
    let name = visible(&add.name);
    match &candidate {
        Some(candidate) => {
            note(format_args!("{name} is in {file}"));
            candidate.told(&choice);
        }
        None => {
            for line in card::lines(&block) {
                note(format_args!("    {line}"));
            }
            note(format_args!(
                "added {name} to {file}; `mimir mcp trust {name}{}` shows its texts, and allows calls of its tools",
                add.trust.options()
            ));
        }
    }
    Ok(Exit::Done)
}

/// Starts a server with settings that are not saved yet. Returns `None` if it requires a login first.
async fn started(
    setup: &Setup,
    name: &str,
    server: &McpServer,
) -> Result<Option<Candidate>, Failure> {
    let mut settings = setup.settings.clone();
    let base = settings.config.sandbox.mode;
    settings
        .config
        .mcp
        .servers
        .insert(name.to_owned(), server.clone());
    let servers = OwnServers::new(&setup.places, &setup.workspace, &settings, &setup.memory);
    let tried = servers.all().test(name).await;
    match tried {
        Some(Ok(mut tried)) => {
            setup.grant(&mut tried.found.tools);
            Ok(Some(Candidate::new(tried, server, base)))
        }
        Some(Err(error)) if server.url.is_some() => {
            note(styled(
                WARN,
                format_args!("its tools were not listed: {}", visible(&error.message)),
            ));
            for way in &error.way_out {
                note(format_args!("  {}", visible(way)));
            }
            Ok(None)
        }
        Some(Err(error)) => {
            let before = error.way_out.to_vec();
            let way = "nothing was added; `--no-start` adds it without starting it".to_owned();
            Err(error.with_way_out(before.into_iter().chain([way])).into())
        }
        None => Ok(None),
    }
}

/// Downloads the package of a configured server: a pinned package that is not on this machine, or one that the command
/// would download at each start, which is pinned then.
pub async fn install(
    globals: &Globals,
    printer: Printer,
    name: &str,
    user: bool,
    install_scripts: bool,
) -> Result<Exit, Failure> {
    let setup = Setup::find(globals.workspace.as_deref())?;
    let Some(server) = setup.settings.config.mcp.servers.get(name) else {
        return Err(super::unknown(&setup, name).into());
    };
    let installer = Installer::new(&setup, printer.is_json());
    let package = match &server.package {
        Some(package) => {
            let again = Download::again(package, server.sandbox);
            let installed = installer.install(&again).await.map_err(|error| {
                let ways = error.way_out.iter().cloned();
                let ways: Vec<String> = ways.map(|way| way.replace("NAME", name)).collect();
                error.with_way_out(ways)
            })?;
            if installed != *package {
                let user = is_in_user_file(&setup, name, user)?;
                let edits = vec![pinned(name, &installed)];
                let file = settings::change(&setup, user, |_| Ok(edits))?;
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
            let block = raw(&setup, name, user)?;
            let Some(request) = prepare::request(&block)? else {
                return Err(Failure::usage(format!(
                    "the server `{}` has nothing to download: its command is not a package runner such as `npx` or `uvx`",
                    visible(name)
                )));
            };
            let download = Download {
                request,
                pinned: None,
                other_dependencies: false,
                install_scripts,
                sandbox: sandbox(&block),
            };
            let package = installer.install(&download).await?;
            let block = prepare::pinned(
                &block,
                &package,
                download.request.args,
                &[],
                setup.workspace.root(),
            );
            let file = settings::change(&setup, user, |text| {
                let mut edits = edit::remove(text, name)?;
                edits.push(Edit::set(&["mcp", "servers", name], block.clone()));
                Ok(edits)
            })?;
            if !printer.is_json() {
                card::lines(&block)
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
    match printer.is_json() {
        true => printer.value(&json!({ "installed": name, "package": package }))?,
        false => note(format_args!("{package} is installed")),
    }
    Ok(Exit::Done)
}

/// Shows every text of a configured server, and trusts its current state if the person agrees.
pub async fn trust(
    globals: &Globals,
    printer: Printer,
    name: &str,
    user: bool,
    wanted: &ServerTrust,
    digest: Option<&str>,
) -> Result<Exit, Failure> {
    let setup = Setup::find(globals.workspace.as_deref())?;
    let servers = &setup.settings.config.mcp.servers;
    let Some(server) = servers.get(name).filter(|server| server.is_enabled()) else {
        return Err(super::unknown(&setup, name).into());
    };
    let renewed = renewed(&setup, printer, server).await?;
    let server = renewed.as_ref().map_or(server, |renewed| &renewed.server);
    let candidate = match &renewed {
        Some(_) => started(&setup, name, server).await?,
        None => match setup.servers.all().test(name).await {
            Some(tried) => {
                let mut tried = tried?;
                setup.grant(&mut tried.found.tools);
                let base = setup.settings.config.sandbox.mode;
                Some(Candidate::new(tried, server, base))
            }
            None => None,
        },
    };
    let Some(candidate) = candidate else {
        return Err(super::unknown(&setup, name).into());
    };
    let choice = match digest {
        Some(digest) => {
            candidate.check(digest)?;
            wanted.clone()
        }
        None => {
            let mut lines = vec![styled(STRONG, format_args!("Server {}", visible(name)))];
            lines.extend(card::of(server).iter().map(|line| format!("  {line}")));
            let changed = renewed.as_ref().map(|renewed| &renewed.difference);
            lines.extend(
                changed.map(|it| styled(WARN, format_args!("  depends on other packages: {it}"))),
            );
            let answer = match terminal::has_person() {
                true => candidate.ask(&lines, wanted, "Trust these texts?")?,
                false => None,
            };
            answer.ok_or_else(|| {
                let message = format!(
                    "nothing was granted; without a terminal, name the digest that you have seen: `mimir mcp trust {name}{} --approve {}`",
                    wanted.options(),
                    candidate.digest()
                );
                ToolError::new(Code::ApprovalDenied, message)
            })?
        }
    };
    let mut edits = candidate.edits(&choice);
    let package = server.package.as_ref().filter(|_| renewed.is_some());
    let user = match package {
        Some(_) => is_in_user_file(&setup, name, user)?,
        None => user,
    };
    edits.extend(package.map(|package| pinned(name, package)));
    if !edits.is_empty() {
        settings::change(&setup, user, |_| Ok(edits))?;
    }
    candidate.grant(&setup)?;
    match printer.is_json() {
        true => printer.value(&json!({ "trusted": name, "digest": candidate.digest() }))?,
        false => candidate.told(&choice),
    }
    Ok(Exit::Done)
}

/// A server whose package was downloaded again, with dependencies that differ from the pinned ones.
struct Renewed {
    server: McpServer,
    difference: String,
}

/// Downloads the package of a server if it is not on this machine. Returns the updated server if the dependencies have
/// changed.
async fn renewed(
    setup: &Setup,
    printer: Printer,
    server: &McpServer,
) -> Result<Option<Renewed>, Failure> {
    let installer = Installer::new(setup, printer.is_json());
    let Some(pinned) = server.package.as_ref().filter(|it| !installer.has(it)) else {
        return Ok(None);
    };
    let download = Download {
        other_dependencies: true,
        ..Download::again(pinned, server.sandbox)
    };
    let package = installer.install(&download).await?;
    if package == *pinned {
        return Ok(None);
    }
    let difference = installer.difference(pinned, &package);
    let server = McpServer {
        package: Some(package),
        ..server.clone()
    };
    Ok(Some(Renewed { server, difference }))
}

/// Edit that writes the pin of a server's package.
fn pinned(name: &str, package: &McpPackage) -> Edit {
    Edit::set(&["mcp", "servers", name, "package"], json!(package))
}

/// Returns true if the server is only in the user's own file; `--user` takes precedence.
fn is_in_user_file(setup: &Setup, name: &str, user: bool) -> Result<bool, Failure> {
    match raw(setup, name, user) {
        Ok(_) => Ok(user),
        Err(_) => raw(setup, name, !user).map(|_| !user),
    }
}

fn sandbox(block: &Value) -> Option<SandboxMode> {
    serde_json::from_value(block["sandbox"].clone())
        .ok()
        .flatten()
}

/// Block of a server in the file.
fn raw(setup: &Setup, name: &str, user: bool) -> Result<Value, Failure> {
    let mut found = None;
    // Makes no changes: uses the parser of edits.
    settings::change(setup, user, |text| {
        found = edit::block(text, name)?;
        Ok(Vec::new())
    })?;
    found.ok_or_else(|| {
        let message = format!("the server `{}` is not in this file", visible(name));
        let way =
            "use `--user` for your user settings; without it, the project's settings are used";
        ToolError::new(Code::NotFound, message)
            .with_way_out([way.to_owned()])
            .into()
    })
}
