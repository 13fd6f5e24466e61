//! `mimir console`.

use std::io::{BufRead as _, IsTerminal as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anstyle::AnsiColor;
use mimir_console::{ConsoleLimits, ConsoleOptions, ConsoleServer, OneTimeLink, QrMatrix};
use mimir_core::ToolError;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use crate::args::{ConsoleCommandArgs, GlobalOptions};
use crate::commands::interrupt::InterruptListener;
use crate::console::WorkspaceConsole;
use crate::exit::{CommandFailure, CommandResult, ExitReason};
use crate::output::{FAINT, STRONG, note, stderr_queue, styled, warn};
use crate::serve::{AuditedLogins, listen_to_readers};
use crate::terminal::browser::BrowserProgram;
use mimir::console_listeners::{ConsoleListeners, LinkPage, ListenerFile};
use mimir::live_calls::{LiveCallHub, LiveConsole};
use mimir::process_identity::user_name;
use mimir::setup::HostSetup;

/// Maximum time for connections to close.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// Serves the console until the process is stopped.
pub async fn run(globals: &GlobalOptions, args: ConsoleCommandArgs) -> CommandResult {
    let mut interrupts = InterruptListener::install();
    stderr_queue::detach_stderr();
    let setup = HostSetup::find_with_bundles(globals.workspace.as_deref(), false).await?;
    let hub = LiveCallHub::default();
    let live = LiveConsole::open(&setup.user_dirs, &hub);
    if let Err(error) = &live {
        warn(format_args!(
            "running calls are not shown: {}",
            mimir_core::text::visible(&error.message)
        ));
    }
    let backend = WorkspaceConsole::new(&setup, hub)?;
    // Questions wait for this console until it ends.
    let announced = setup.announce_console()?;
    let server = ConsoleServer::new(
        Arc::new(backend),
        ConsoleOptions {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            user: user_name(),
            base: "/".to_owned(),
            login: None,
            recorder: Some(Arc::new(AuditedLogins::new(&setup))),
            limits: ConsoleLimits::default(),
        },
    )?;
    let local = bind(SocketAddr::from((Ipv4Addr::LOCALHOST, args.port))).await?;
    let lan = match args.lan {
        None => None,
        Some(named) => Some(bind(SocketAddr::from((lan_address(named)?, 0))).await?),
    };
    let mut addresses = vec![address_of(&local)?];
    if let Some(lan) = &lan {
        addresses.push(address_of(lan)?);
    }
    let local_router = server.local_router(addresses[0])?;
    let lan = match (lan, addresses.get(1)) {
        (Some(listener), Some(address)) => Some((listener, server.lan_router(*address)?)),
        _ => None,
    };
    let file = ListenerFile::write(
        &setup.user_dirs,
        &ConsoleListeners {
            addresses,
            hosts: Vec::new(),
        },
    )?;
    let has_lan = lan.is_some();
    let login = server.next_local_login();
    let link = announce(globals, &server, has_lan)?;
    let link_lifetime = link.expires_at.duration_since(SystemTime::now());
    let link_lifetime = link_lifetime.unwrap_or_default();
    let opened = match args.no_open || globals.json {
        true => None,
        false => open_in_browser(&file, &link),
    };
    let remove_page = async {
        // The link is worth nothing any more once a browser has used it, or has not used it for long.
        let _ = tokio::time::timeout(link_lifetime, login).await;
        drop(opened);
        std::future::pending::<()>().await;
    };
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let wait_for_stop = || {
        let mut stopped = stopped.clone();
        async move {
            let _ = stopped.wait_for(|stopped| *stopped).await;
        }
    };
    let serve_local = listen_to_readers(
        local,
        ConsoleServer::fallback(local_router),
        wait_for_stop(),
    );
    let serve_lan = async {
        match lan {
            Some((listener, router)) => {
                let router = ConsoleServer::fallback(router);
                listen_to_readers(listener, router, wait_for_stop()).await;
            }
            None => std::future::pending().await,
        }
    };
    let ended = async {
        let exit = interrupts.wait().await;
        drop(announced);
        // Event streams never end by themselves.
        server.end_sessions();
        stop.send_replace(true);
        tokio::time::sleep(SHUTDOWN_TIMEOUT).await;
        exit
    };
    let mut exit = ExitReason::Done;
    tokio::select! {
        ((), ()) = async { tokio::join!(serve_local, serve_lan) } => {}
        () = print_further_links(&server, has_lan) => {}
        () = remove_page => {}
        signal = ended => exit = signal,
    }
    drop(live);
    Ok(match exit {
        // The usual ways to end it.
        ExitReason::Interrupted | ExitReason::Terminated => ExitReason::Done,
        exit => exit,
    })
}

/// Prints the links. Returns the one for this machine.
fn announce(
    globals: &GlobalOptions,
    server: &ConsoleServer,
    has_lan: bool,
) -> CommandResult<OneTimeLink> {
    let link = server.local_link()?;
    let pairing = has_lan.then(|| server.pairing_link()).transpose()?;
    if globals.json {
        let value = json!({
            "url": link.url,
            "pairingUrl": pairing.as_ref().map(|(link, _)| &link.url),
        });
        globals.printer().print_json(&value)?;
        return Ok(link);
    }
    note("This page shows what your agents do, and takes your answers:");
    note("");
    note(format_args!("  {}", styled(STRONG, &link.url)));
    note("");
    if let Some((link, code)) = &pairing {
        print_pairing(link, code);
    }
    let further = if has_lan {
        "The links work once, for 10 minutes. Enter prints a new one, p a new code for a phone; Ctrl-C ends the console."
    } else {
        "The link works once, for 10 minutes. Enter prints a new one; Ctrl-C ends the console."
    };
    note(styled(FAINT, further));
    Ok(link)
}

/// Opens a link in a browser, if there is one. Returns the page that the browser opens, which is removed when it is
/// dropped.
fn open_in_browser(file: &ListenerFile, link: &OneTimeLink) -> Option<LinkPage> {
    let browser = BrowserProgram::find(None)?;
    match file.write_link_page(&link.url) {
        Ok(page) => {
            browser.open_file(page.path());
            Some(page)
        }
        Err(error) => {
            warn(format_args!(
                "open the link yourself: {}",
                mimir_core::text::visible(&error.message)
            ));
            None
        }
    }
}

fn print_pairing(link: &OneTimeLink, code: &QrMatrix) {
    note(
        "Scan this code with a phone in the same network, to answer questions there. The network is not encrypted: \
         whoever can listen in it can see this page and answer, too.",
    );
    note("");
    // Readers need light modules on a dark ground, whatever the colours of the terminal.
    let style = AnsiColor::BrightWhite.on(AnsiColor::Black);
    for line in code.to_half_blocks(false).lines() {
        note(styled(style, line));
    }
    note(format_args!("  {}", link.url));
    note("");
}

/// Prints a new link after each line on the terminal. Does not return.
async fn print_further_links(server: &ConsoleServer, has_lan: bool) {
    let mut lines = terminal_lines();
    while let Some(line) = lines.recv().await {
        let printed = if has_lan && line.trim() == "p" {
            server
                .pairing_link()
                .map(|(link, code)| print_pairing(&link, &code))
        } else {
            let link = server.local_link();
            link.map(|link| note(format_args!("  {}", styled(STRONG, &link.url))))
        };
        if let Err(error) = printed {
            warn(format_args!("no link: {}", error.message));
        }
    }
    std::future::pending().await
}

/// Reads lines from a terminal, on a thread that does not delay the exit of the program.
fn terminal_lines() -> mpsc::Receiver<String> {
    let (send, lines) = mpsc::channel(1);
    if std::io::stdin().is_terminal() {
        std::thread::spawn(move || {
            for line in std::io::stdin().lock().lines().map_while(Result::ok) {
                if send.blocking_send(line).is_err() {
                    return;
                }
            }
        });
    }
    lines
}

async fn bind(address: SocketAddr) -> Result<TcpListener, ToolError> {
    let listener = TcpListener::bind(address).await;
    listener.map_err(|error| ToolError::unavailable(format!("cannot listen on {address}: {error}")))
}

fn address_of(listener: &TcpListener) -> Result<SocketAddr, ToolError> {
    listener.local_addr().map_err(ToolError::unavailable)
}

/// Returns the address for paired devices: the named one, or that of the network that this machine uses.
fn lan_address(named: Option<IpAddr>) -> CommandResult<IpAddr> {
    let address = match named {
        Some(address) => address,
        None => own_address().ok_or_else(|| {
            CommandFailure::usage(
                "this machine does not seem to be in a network: name its address, as in `--lan 192.168.1.20`",
            )
        })?,
    };
    if is_of_local_network(address) {
        return Ok(address);
    }
    Err(CommandFailure::usage(format!(
        "{address} is not an address of a local network: expected one such as 192.168.1.20, since the page is not encrypted",
    )))
}

/// Returns the address from which this machine sends into the internet. Nothing is sent: the address is reserved for
/// documentation, and only its route is looked up.
fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9)).ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then_some(address)
}

fn is_of_local_network(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            address.is_private() || address.is_link_local() || address.is_loopback()
        }
        IpAddr::V6(address) => address.is_unique_local() || address.is_loopback(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn console_pairs_in_local_networks_only() {
        for address in [
            "192.168.1.20",
            "10.0.0.1",
            "172.16.0.1",
            "169.254.1.1",
            "127.0.0.1",
            "fd00::1",
        ] {
            assert!(
                lan_address(Some(address.parse().unwrap())).is_ok(),
                "{address}"
            );
        }
        for address in [
            "0.0.0.0",
            "8.8.8.8",
            "192.0.2.1",
            "172.32.0.1",
            "::",
            "2001:db8::1",
        ] {
            assert!(
                lan_address(Some(address.parse().unwrap())).is_err(),
                "{address}"
            );
        }
    }
}
