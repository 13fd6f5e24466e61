//! `mimir team join`, `status`, `sync` and `leave`.

use std::io::{self, Write};

use jiff::Timestamp;
use mimir_core::policy::OutdatedTeam;
use mimir_core::text::visible;
use mimir_core::{ToolError, ToolErrorCode};
use mimir_registry::signature::VerifyingKey;
use serde_json::{Value, json};

use crate::args::{GlobalOptions, TeamCommand, TeamJoinArgs};
use crate::exit::{CommandFailure, CommandResult, ExitReason};
use crate::output::team::{card_lines, card_value, expiry_warning, print_status, status_row};
use crate::output::{note, warn};
use crate::terminal;
use mimir::setup::HostSetup;
use mimir::signing_keys::UserKeys;
use mimir::team_authoring::BundleDifference;
use mimir::teams::{
    self, SyncContext, SyncOutcome, TeamInForce, TeamMembership, leave_team, plan_join,
    sync_and_compare,
};

use super::team_authoring;

/// Runs a command of `mimir team`.
pub async fn run(globals: &GlobalOptions, command: TeamCommand) -> CommandResult {
    match command {
        TeamCommand::Join(args) => join(globals, &args).await,
        TeamCommand::Status => status(globals),
        TeamCommand::Sync => sync(globals).await,
        TeamCommand::Leave { org, yes } => leave(globals, org.as_deref(), yes),
        TeamCommand::Authoring(command) => team_authoring::run(globals, command).await,
    }
}

/// Finds the setup without the bundles of teams, so that these commands also work if a bundle is damaged.
fn find_context(globals: &GlobalOptions) -> CommandResult<(HostSetup, SyncContext)> {
    let setup = HostSetup::find_for_teams(globals.workspace.as_deref())?;
    // If this fails, recording reports it.
    let _ = setup.workspace.make_state();
    let context = SyncContext::new(&setup)?;
    Ok((setup, context))
}

async fn join(globals: &GlobalOptions, args: &TeamJoinArgs) -> CommandResult {
    let printer = globals.printer();
    let (setup, context) = find_context(globals)?;
    let keys = read_keys(&setup, args)?;
    let plan = plan_join(&context, &args.reference, keys).await?;
    let org_id = &plan.membership.org_id;
    check_other_membership(&context, org_id)?;
    let card = card_value(&plan)?;
    if !printer.is_json() {
        // Also with `--yes`: the log of a script then shows what it has joined.
        card_lines(&plan)?.iter().for_each(note);
    }
    if !args.yes {
        if printer.is_json() || !terminal::has_person() {
            let message = format!(
                "the team `{org_id}` was not joined: joining needs a yes at a terminal, or --yes"
            );
            let error = ToolError::approval_denied(message);
            return Err(error.with_details(json!({ "bundle": card })).into());
        }
        let name = visible(&plan.bundle.team.name);
        if !terminal::confirm(&format!("Join {name}?"))? {
            let error = ToolError::approval_denied(format!("the team `{org_id}` was not joined"));
            return Err(error.into());
        }
    }
    let (SyncOutcome::Unchanged { version } | SyncOutcome::Updated { to: version, .. }) =
        plan.join(&setup, &context).await?;
    let joined = json!({
        "joined": org_id,
        "name": plan.bundle.team.name,
        "version": version,
        "signer": plan.signer_id,
        "expiresAt": plan.bundle.expires_at.to_string(),
        "reference": plan.membership.reference,
        "bundle": card,
    });
    let name = visible(&plan.bundle.team.name);
    printer.print_done(
        &joined,
        format_args!("joined {name}: version {version} is in force; `mimir team status` shows it"),
    )
}

/// Reads the keys of the command line: files, or names of keys of the user.
fn read_keys(setup: &HostSetup, args: &TeamJoinArgs) -> CommandResult<Vec<VerifyingKey>> {
    let mut keys = Vec::new();
    for key in &args.key {
        if key.is_file() {
            let real = key.canonicalize().map_err(ToolError::invalid_input)?;
            keys.push(teams::read_team_key(&real.to_string_lossy())?);
            continue;
        }
        let name = key.to_string_lossy();
        let known = UserKeys::new(&setup.user_dirs)?.verifying_keys(&name);
        let known = known.map_err(|error| {
            let name = visible(&name);
            let message = format!("`{name}` is neither a key file nor a known key: {error}");
            ToolError::new(ToolErrorCode::NotFound, message)
        })?;
        keys.extend(known.into_iter().map(|known| known.key));
    }
    Ok(keys)
}

/// Refuses a second membership: the user's config file has one block, and the tools and rules of a team of the user's own
/// would weaken those of a team that an administrator requires.
fn check_other_membership(context: &SyncContext, org_id: &str) -> CommandResult<()> {
    for membership in context.memberships()? {
        let other = &membership.org_id;
        if membership.is_required() && other == org_id {
            let message = format!(
                "this machine is already a member of `{org_id}`: {} requires it",
                membership.shown
            );
            return Err(ToolError::new(ToolErrorCode::AlreadyExists, message).into());
        }
        if membership.is_required() {
            let message = format!(
                "{} requires the team `{other}`: no other team can be joined beside it",
                membership.shown
            );
            let remedy = "ask the administrator of this machine".to_owned();
            let error = ToolError::permission_denied(message);
            return Err(error.with_remedies([remedy]).into());
        }
        if other != org_id {
            let message = format!("you are a member of `{other}`: a user joins one team at a time");
            let remedy = format!("`mimir team leave {other}`, and join again");
            let error = ToolError::new(ToolErrorCode::AlreadyExists, message);
            return Err(error.with_remedies([remedy]).into());
        }
    }
    Ok(())
}

fn status(globals: &GlobalOptions) -> CommandResult {
    let (setup, context) = find_context(globals)?;
    let mut rows: Vec<Value> = Vec::new();
    let mut is_healthy = true;
    let (memberships, ignored) = context.all_memberships()?;
    for membership in memberships {
        let team = TeamInForce::read(&setup.user_dirs, membership.clone());
        let row = status_row(&membership, team.as_ref());
        is_healthy &= row["problem"].is_null();
        rows.push(row);
    }
    let is_empty = rows.is_empty();
    globals
        .printer()
        .print_result(&status_value(&rows, &ignored), |out| {
            print_status(out, &rows)
        })?;
    if !globals.json {
        for membership in &ignored {
            let org_id = &membership.org_id;
            note(format_args!(
                "your membership in the team `{org_id}` ({}) is ignored; `mimir team leave {org_id}` removes it",
                membership.shown
            ));
        }
    }
    if is_empty && !globals.json {
        note("you are a member of no team; `mimir team join REF --key KEY` joins one");
    }
    Ok(ExitReason::done_if(is_healthy))
}

/// Returns the status as JSON. `ignored` is left out if it is empty.
fn status_value(rows: &[Value], ignored: &[TeamMembership]) -> Value {
    let mut value = json!({ "teams": rows });
    if !ignored.is_empty() {
        let ignored = ignored.iter();
        let ignored = ignored.map(|membership| {
            json!({
                "orgId": membership.org_id, "reference": membership.reference,
                "setBy": membership.shown,
            })
        });
        value["ignored"] = ignored.collect();
    }
    value
}

async fn sync(globals: &GlobalOptions) -> CommandResult {
    let (setup, context) = find_context(globals)?;
    let memberships = context.memberships()?;
    if memberships.is_empty() {
        let message = "you are a member of no team; `mimir team join REF --key KEY` joins one";
        return Err(CommandFailure::usage(message));
    }
    let mut rows = Vec::new();
    let mut failure = None;
    for membership in &memberships {
        match sync_and_compare(&context, membership).await {
            Ok((outcome, changes)) => {
                rows.push(sync_row(membership, &outcome, &changes));
                if let Some(error) = newest_is_outdated(&setup, membership)
                    && let Some(earlier) = failure.replace(error)
                {
                    warn(earlier.message);
                }
            }
            Err(error) => {
                rows.push(json!({ "orgId": membership.org_id, "error": error }));
                if let Some(earlier) = failure.replace(error) {
                    warn(earlier.message);
                }
            }
        }
    }
    if let Some(error) = failure {
        return Err(error.into());
    }
    globals
        .printer()
        .print_result(&json!({ "teams": rows }), |out| print_synced(out, &rows))?;
    if !globals.json {
        let teams = memberships.iter();
        let teams = teams.filter_map(|it| TeamInForce::read(&setup.user_dirs, it.clone()).ok());
        let now = Timestamp::now();
        teams
            .filter_map(|team| expiry_warning(&team, now))
            .for_each(warn);
    }
    Ok(ExitReason::Done)
}

/// Returns the error about a bundle that is the newest and nevertheless too old, so that its tools are refused.
fn newest_is_outdated(setup: &HostSetup, membership: &TeamMembership) -> Option<ToolError> {
    let team = TeamInForce::read(&setup.user_dirs, membership.clone()).ok()?;
    team.outdated_now()?;
    let message = format!(
        "{}: version {} is the newest, but it has expired at {}, so the team's tools are refused",
        membership.org_id, team.bundle.version, team.bundle.expires_at
    );
    let remedy = OutdatedTeam::RENEWAL.to_owned();
    Some(ToolError::unavailable(message).with_remedies([remedy]))
}

fn sync_row(
    membership: &TeamMembership,
    outcome: &SyncOutcome,
    changes: &BundleDifference,
) -> Value {
    let (version, updated, from) = match outcome {
        SyncOutcome::Unchanged { version } => (*version, false, None),
        SyncOutcome::Updated { from, to } => (*to, true, *from),
    };
    json!({
        "orgId": membership.org_id, "version": version, "updated": updated, "from": from,
        "changes": changes,
    })
}

fn print_synced(out: &mut dyn Write, rows: &[Value]) -> io::Result<()> {
    for row in rows {
        let org_id = row["orgId"].as_str().unwrap_or_default();
        let version = &row["version"];
        if row["updated"] == true {
            writeln!(out, "{org_id}: version {version} is in force now")?;
            for line in row["changes"].as_array().into_iter().flatten() {
                let line = line.as_str().unwrap_or_default();
                writeln!(out, "  {}", visible(line))?;
            }
        } else {
            writeln!(out, "{org_id}: version {version} is the newest")?;
        }
    }
    Ok(())
}

/// Leaves a team. A person at the terminal is asked first; a script is not, as leaving grants nothing that it could not
/// also write to the config file.
fn leave(globals: &GlobalOptions, org: Option<&str>, yes: bool) -> CommandResult {
    let (setup, context) = find_context(globals)?;
    let (memberships, ignored) = context.all_memberships()?;
    // Also a membership that does not count is in the user's file, and can be removed from it.
    let all = memberships.iter().chain(&ignored);
    let chosen: Vec<&TeamMembership> = match org {
        Some(org) => all.filter(|membership| membership.org_id == org).collect(),
        None => match all.clone().find(|membership| !membership.is_required()) {
            Some(own) => vec![own],
            None => all.collect(),
        },
    };
    let membership = match chosen.as_slice() {
        [] => {
            let message = match org {
                Some(org) => format!("you are not a member of the team `{}`", visible(org)),
                None => "you are a member of no team".to_owned(),
            };
            let known: Vec<&str> = memberships.iter().chain(&ignored).map(id_of).collect();
            let known = if known.is_empty() {
                String::new()
            } else {
                format!(": your teams are {}", known.join(", "))
            };
            return Err(CommandFailure::usage(format!("{message}{known}")));
        }
        [one] => one,
        _ => {
            return Err(CommandFailure::usage(
                "there are several teams: name one, as in `mimir team leave ORG`",
            ));
        }
    };
    let org_id = &membership.org_id;
    let asks = !yes && !globals.json && !membership.is_required() && terminal::has_person();
    if asks
        && !terminal::confirm(&format!(
            "Leave the team {org_id}? Its settings and tools are removed."
        ))?
    {
        let error = ToolError::approval_denied(format!("the team `{org_id}` was not left"));
        return Err(error.into());
    }
    leave_team(&setup, &context, membership)?;
    globals.printer().print_done(
        &json!({ "left": org_id }),
        format_args!("left the team {org_id}"),
    )
}

fn id_of(membership: &TeamMembership) -> &str {
    &membership.org_id
}
