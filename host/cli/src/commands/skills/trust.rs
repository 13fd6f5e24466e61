//! `mimir skills trust`.

use std::collections::BTreeSet;
use std::time::SystemTime;

use mimir_core::ToolError;
use mimir_core::audit::{AuditEvent, EventKind};
use mimir_core::text::{bytes, visible};
use serde_json::json;

use crate::args::{GlobalOptions, SkillsTrustArgs};
use crate::commands::approvals::ClusterApprovals;
use crate::exit::{CommandFailure, CommandResult, ExitReason};
use crate::output::note;
use crate::terminal;
use mimir::setup::HostSetup;
use mimir::skills::{FoundSkill, SkillContent, SkillState};

use super::{disabled_line, in_cluster, origin_lines, record};

/// Accepts the instructions of a skill as the user's own, and grants what it requests, after the user has confirmed it.
pub async fn run(globals: &GlobalOptions, args: &SkillsTrustArgs) -> CommandResult {
    let printer = globals.printer();
    let setup = HostSetup::find(globals.workspace.as_deref())?;
    // Before the question, so that it is not asked in vain.
    let cluster = ClusterApprovals::find(&setup, &args.scope).await?;
    let library = setup.skills();
    let skill = library.find(&args.name)?;
    if skill.state == SkillState::Team {
        return Err(CommandFailure::usage(format!(
            "`{}` comes with the bundle of a team, which has accepted it",
            args.name
        )));
    }
    let content = match skill.content.clone() {
        Err(error) if skill.state == SkillState::Missing => {
            let name = &args.name;
            let remedies = [
                "restore its folder with version control".to_owned(),
                format!(
                    "or install it again: `mimir skills add SOURCE --force`; `mimir skills remove {name}` removes its pin"
                ),
            ];
            return Err(error.with_remedies(remedies).into());
        }
        content => content?,
    };
    let granted = granted_entries(&content, &args.without)?;
    let digest = content.files.digest();
    match &args.digest {
        Some(expected) if *expected != digest => {
            return Err(ToolError::permission_denied(format!(
                "digest mismatch: the content of `{}` has {digest}; nothing was accepted",
                args.name
            ))
            .into());
        }
        Some(_) => {}
        None => {
            show(&skill, &content, &granted);
            let question = format!("Accept the instructions of {} as yours?", args.name);
            if !terminal::confirm(&question)? {
                let without_terminal = format!(
                    "name the digest of the content: `mimir skills trust {} --digest {digest}`",
                    args.name
                );
                let message = terminal::refusal("nothing was accepted", &without_terminal);
                return Err(ToolError::approval_denied(message).into());
            }
        }
    }
    let pin = library.trust(&skill, granted)?;
    let detail = format!(
        "skill trusted, sha256 {digest}, tools: {}",
        pin.allowed_tools.join(" ")
    );
    record(&setup, &pin.folder, &detail);
    if let Some(cluster) = &cluster {
        cluster.set_skill(&args.name, Some(pin.clone())).await?;
        let event = AuditEvent::new(EventKind::ConfigChange, SystemTime::now());
        let event = event.with_subject(&format!("skill {}", args.name));
        cluster.record(&event.with_detail(&detail)).await;
    }
    printer.print_done(
        &json!({ "trusted": args.name, "digest": digest, "allowedTools": pin.allowed_tools }),
        format_args!("trusted {}{}", args.name, in_cluster(cluster.as_ref())),
    )?;
    if let Some(line) = disabled_line(&setup).filter(|_| !printer.is_json()) {
        note(line);
    }
    Ok(ExitReason::Done)
}

/// Returns the entries to grant: those that mimir can map, except the withheld ones.
fn granted_entries(content: &SkillContent, without: &[String]) -> CommandResult<Vec<String>> {
    let requests = content.requests();
    let unknown = without.iter().find(|entry| {
        let mut requests = requests.iter();
        !requests.any(|request| request.entry == **entry)
    });
    if let Some(unknown) = unknown {
        return Err(CommandFailure::usage(format!(
            "the skill does not request `{}`",
            visible(unknown)
        )));
    }
    let granted: BTreeSet<String> = requests
        .into_iter()
        .filter(|request| request.permission.is_ok() && !without.contains(&request.entry))
        .map(|request| request.entry)
        .collect();
    Ok(granted.into_iter().collect())
}

fn show(skill: &FoundSkill, content: &SkillContent, granted: &[String]) {
    let document = &content.document;
    note(format_args!(
        "{}: {}",
        visible(&skill.folder),
        document.shown_description()
    ));
    origin_lines(skill).iter().for_each(note);
    if skill.state == SkillState::Changed {
        note("Its files have changed since they were accepted.");
    }
    note("Instructions:");
    for line in document.instructions.lines() {
        note(format_args!("  {}", visible(line)));
    }
    note("Files:");
    for (path, file) in content.files.iter() {
        note(format_args!(
            "  {} ({})",
            visible(path),
            bytes(file.len() as u64)
        ));
    }
    let requests = content.requests();
    if requests.is_empty() {
        return;
    }
    note("In sessions that have loaded it, it may use:");
    for request in requests {
        let is_granted = granted.contains(&request.entry);
        let text = match request.permission.is_ok() && !is_granted {
            true => "withheld".to_owned(),
            false => request.describe(),
        };
        note(format_args!("  {}: {text}", request.entry));
    }
}
