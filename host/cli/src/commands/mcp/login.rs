//! `mimir mcp login` and `mimir mcp logout`, which need a person.
//!
//! The server and the authorization server are shown before the URL of the login page. The answer comes from a browser
//! on this machine or is pasted; the first valid answer is used.

use std::io::BufRead as _;
use std::time::{Duration, SystemTime};

use mimir_core::audit::{AuditEvent, EventKind};
use mimir_core::text::visible;
use mimir_core::{ToolError, ToolErrorCode};
use mimir_mcp::client::{
    CallbackError, LoginDetails, LoginSummary, PendingLogin, RegistrationKind,
};
use serde_json::json;
use tokio::sync::mpsc;

use super::redirect::{RedirectListener, RedirectPage, RedirectRequest};
use super::unknown_server;
use crate::args::GlobalOptions;
use crate::commands::call::wait_for_interrupt;
use crate::exit::{CommandResult, ExitReason};
use crate::output::{FAINT, STRONG, WARN, note, styled, warn};
use crate::terminal::browser::BrowserProgram;
use mimir::secrets::UserLogins;
use mimir::setup::HostSetup;

/// Time for the browser to receive the final page.
const FINAL_PAGE_DELAY: Duration = Duration::from_millis(200);

/// Logs the user in to a server, or a user of a shared mimir. Fails after `timeout` without an answer.
pub async fn log_in(
    globals: &GlobalOptions,
    name: &str,
    for_user: Option<&str>,
    browser: Option<String>,
    timeout: Duration,
) -> CommandResult {
    let printer = globals.printer();
    let setup = HostSetup::find(globals.workspace.as_deref())?;
    let servers = setup.servers.servers();
    let Some(plan) = servers.plan_for_user(name, for_user).await else {
        return Err(unknown_server(&setup, name));
    };
    let plan = plan?;
    print_details(plan.facts());
    let mut redirect = RedirectListener::open(plan.port()).await?;
    let pending = plan.begin(&redirect.uri).await?;
    let page = visible(pending.url());
    note("This page logs you in; open it in a browser:");
    note("");
    note(format_args!("  {}", styled(STRONG, &page)));
    note("");
    note(styled(
        FAINT,
        "If the browser is on another machine, the last page does not load: paste the address of that page here.",
    ));
    if let Some(program) = BrowserProgram::find(browser.as_deref()) {
        program.open_url(pending.url());
    }
    let mut pasted = read_stdin_lines();
    let answer = tokio::select! {
        answer = wait_for_answer(&pending, &mut redirect.requests, &mut pasted) => answer,
        exit = wait_for_interrupt() => return Ok(exit),
        () = tokio::time::sleep(timeout) => {
            let message = format!("no login within {} s", timeout.as_secs());
            let user = for_user.map(|user| format!(" --for-user {user}"));
            let user = user.unwrap_or_default();
            let remedy = format!("run `mimir mcp login {}{user}` to start again", visible(name));
            return Err(ToolError::new(ToolErrorCode::Timeout, message).with_remedies([remedy]).into());
        }
    };
    let (answer, browser) = answer;
    let login = match answer {
        Ok(code) => tokio::select! {
            login = pending.finish(&code) => login,
            exit = wait_for_interrupt() => return Ok(exit),
        },
        Err(error) => Err(error),
    };
    if let Some(reply) = browser {
        let page = match &login {
            Ok(_) => RedirectPage::LoggedIn,
            Err(_) => RedirectPage::Failed,
        };
        if reply.send(page).is_ok() {
            tokio::time::sleep(FINAL_PAGE_DELAY).await;
        }
    }
    let login = login?;
    let subject = login_subject(name, for_user);
    let event = AuditEvent::new(EventKind::SecretSet, SystemTime::now()).with_subject(&subject);
    setup.record_event(&event.with_detail(&format!("from {}", login.issuer)));
    printer.print_done(
        &json!({ "server": name, "login": login }),
        format_args!("{}: {}", visible(name), line(&login)),
    )
}

/// Deletes the login at a server and revokes its tokens, if the authorization server supports that.
pub async fn log_out(globals: &GlobalOptions, name: &str, for_user: Option<&str>) -> CommandResult {
    let printer = globals.printer();
    let setup = HostSetup::find(globals.workspace.as_deref())?;
    let servers = setup.servers.servers();
    let ended = match servers.log_out_user(name, for_user).await {
        Some(ended) => ended?,
        None => None,
    };
    // Includes logins at other addresses, and of servers that are no longer in the settings.
    let others = match for_user {
        None => UserLogins::new(&setup.user_dirs).remove_all(name)?,
        Some(_) => 0,
    };
    if ended.is_none() && others == 0 {
        let user = for_user.map(|user| format!(" as the user {user}"));
        let user = user.unwrap_or_default();
        let message = format!("not logged in to a server `{}`{user}", visible(name));
        return Err(ToolError::not_found(message).into());
    }
    let revoked = ended == Some(true);
    let subject = login_subject(name, for_user);
    setup.record_event(
        &AuditEvent::new(EventKind::SecretRemoved, SystemTime::now()).with_subject(&subject),
    );
    if printer.is_json() {
        printer.print_json(&json!({ "server": name, "revoked": revoked }))?;
    } else {
        note(format_args!("logged out of {}", visible(name)));
        if !revoked {
            note(styled(
                FAINT,
                "the authorization server could not be reached or did not revoke the tokens; they may stay valid until they expire",
            ));
        }
    }
    Ok(ExitReason::Done)
}

/// Returns the subject of an audit event about a login.
pub fn login_subject(server: &str, for_user: Option<&str>) -> String {
    match for_user {
        Some(user) => format!("the login of {user} at the server {server}"),
        None => format!("the login at the server {server}"),
    }
}

/// Describes a login in one line.
pub fn line(login: &LoginSummary) -> String {
    let issuer = visible(&login.issuer);
    let scopes = match &login.scopes[..] {
        [] => String::new(),
        scopes => format!(" for {}", visible(&scopes.join(", "))),
    };
    if login.ended {
        styled(WARN, format_args!("the login at {issuer} has expired"))
    } else {
        styled(FAINT, format_args!("logged in by {issuer}{scopes}"))
    }
}

/// Prints the parties of a login, before the page opens.
fn print_details(details: &LoginDetails) {
    let shown = |text: &str| visible(text);
    note(format_args!(
        "{} is the server at {}",
        styled(STRONG, shown(&details.server)),
        shown(&details.url)
    ));
    note(format_args!(
        "  {} logs you in, and gets the code from the browser",
        styled(STRONG, shown(&details.issuer))
    ));
    if let Some(before) = &details.before {
        warn(format_args!(
            "the authorization server has changed: the last login was at {}",
            shown(before)
        ));
    }
    for also in &details.also {
        note(format_args!(
            "  the server also accepts logins at {}",
            shown(also)
        ));
    }
    let scopes = match &details.scopes[..] {
        [] => "its default scopes".to_owned(),
        scopes => shown(&scopes.join(", ")),
    };
    note(format_args!(
        "  mimir requests {scopes}, for {}",
        shown(&details.resource)
    ));
    let registration = match details.registration {
        RegistrationKind::Settings => "mimir uses the client ID from the server's settings",
        RegistrationKind::Document => {
            "mimir uses the client metadata document from the server's settings"
        }
        RegistrationKind::Registered => "mimir registers itself there as a client",
    };
    note(format_args!("  {registration}"));
}

/// Reads lines from stdin on a thread that does not delay the exit of the program.
fn read_stdin_lines() -> mpsc::Receiver<String> {
    let (send, lines) = mpsc::channel(1);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if send.blocking_send(line).is_err() {
                return;
            }
        }
    });
    lines
}

type LoginAnswer = (
    Result<String, ToolError>,
    Option<tokio::sync::oneshot::Sender<RedirectPage>>,
);

/// Waits for the first valid answer to this login. Returns the answer, and the reply channel if a browser sent it.
async fn wait_for_answer(
    pending: &PendingLogin,
    requests: &mut mpsc::Receiver<RedirectRequest>,
    pasted: &mut mpsc::Receiver<String>,
) -> LoginAnswer {
    // Warns only once, because a local program could flood the port.
    let mut warned = false;
    loop {
        tokio::select! {
            Some(RedirectRequest { answer, reply }) = requests.recv() => match pending.code(&answer) {
                Ok(code) => return (Ok(code), Some(reply)),
                Err(CallbackError::Refused(error)) => return (Err(error), Some(reply)),
                Err(CallbackError::Stray) => {
                    if !std::mem::replace(&mut warned, true) {
                        warn("ignored a browser request that does not answer this login");
                    }
                    let _ = reply.send(RedirectPage::Stray);
                }
            },
            Some(line) = pasted.recv() => match pending.code(&line) {
                _ if line.trim().is_empty() => {}
                Ok(code) => return (Ok(code), None),
                Err(CallbackError::Refused(error)) => return (Err(error), None),
                Err(CallbackError::Stray) => {
                    note("not a valid answer to this login: paste the complete address of the last page");
                }
            },
            else => std::future::pending::<()>().await,
        }
    }
}
