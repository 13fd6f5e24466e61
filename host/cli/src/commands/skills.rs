//! `mimir skills`.

use std::io::{self, Write};
use std::time::SystemTime;

use mimir_core::audit::{AuditEvent, EventKind};
use mimir_core::text::{bytes, visible};
use mimir_core::{ToolError, ToolErrorCode};
use serde_json::{Value, json};

use crate::args::{ClusterScope, GlobalOptions, SkillsCommand};
use crate::commands::approvals::ClusterApprovals;
use crate::exit::{CommandFailure, CommandResult, ExitReason};
use crate::output::workspace_option::{all_with_workspace, with_workspace};
use crate::output::{BAD, FAINT, GOOD, columns, first_line, indented, note, styled};
use crate::terminal;
use mimir::setup::HostSetup;
use mimir::skills::{FOLDER, FoundSkill, SkillState};

mod add;
mod push;
mod source;
mod trust;
mod update;

/// Runs a command of `mimir skills`.
pub async fn run(globals: &GlobalOptions, command: SkillsCommand) -> CommandResult {
    match command {
        SkillsCommand::List => list(globals),
        SkillsCommand::Info { name } => info(globals, &name),
        SkillsCommand::Add(args) => add::run(globals, args).await,
        SkillsCommand::Push(args) => push::run(globals, &args).await,
        SkillsCommand::Trust(args) => trust::run(globals, &args).await,
        SkillsCommand::Verify => verify(globals),
        SkillsCommand::Update { name, yes } => update::run(globals, name.as_deref(), yes).await,
        SkillsCommand::Remove { name, yes, scope } => remove(globals, &name, yes, &scope).await,
    }
}

fn list(globals: &GlobalOptions) -> CommandResult {
    let setup = HostSetup::find(globals.workspace.as_deref())?;
    let skills = setup.skills().find_all()?;
    let rows: Vec<Value> = skills.iter().map(row).collect();
    globals
        .printer()
        .print_result(&json!({ "skills": rows }), |out| print_list(out, &skills))?;
    if skills.iter().any(|skill| skill.state == SkillState::New) {
        note(
            "New skills are not used: `mimir skills add FOLDER` or `mimir skills trust NAME` accepts them.",
        );
    }
    Ok(ExitReason::Done)
}

fn row(skill: &FoundSkill) -> Value {
    let mut row = json!({
        "name": skill.name,
        "state": skill.state.as_str(),
        "folder": skill.folder,
    });
    match &skill.content {
        Ok(content) => {
            row["description"] = content.document.shown_description().into();
            row["digest"] = content.files.digest().into();
            row["files"] = content.files.len().into();
            row["size"] = content.files.size().into();
        }
        Err(error) => row["error"] = json!({ "code": error.code, "message": error.message }),
    }
    if let Some(pin) = &skill.pin {
        let mut origin = json!({ "source": pin.source });
        if let Some(artifact) = &pin.artifact {
            origin["artifact"] = artifact.clone().into();
        }
        if let Some(signer) = &pin.signer {
            origin["signer"] = signer.to_string().into();
        }
        // Anyone who can change the lock file of a checkout can write these.
        if !skill.is_accepted {
            row["claimed"] = origin;
        } else if let (Value::Object(row), Value::Object(origin)) = (&mut row, origin) {
            row.extend(origin);
            row.insert("allowedTools".to_owned(), json!(pin.allowed_tools));
        }
    }
    row
}

fn print_list(out: &mut dyn Write, skills: &[FoundSkill]) -> io::Result<()> {
    if skills.is_empty() {
        return writeln!(
            out,
            "{}",
            with_workspace("This workspace has no skills; `mimir skills add` installs one.")
        );
    }
    let width = skills.iter().map(|skill| skill.name.len()).max();
    let width = width.unwrap_or_default();
    for skill in skills {
        let text = match &skill.content {
            Ok(content) => content.document.shown_description(),
            Err(error) => visible(&error.message),
        };
        let line = format!("{:<width$}  {:<8} {text}", skill.name, skill.state.as_str());
        let line = first_line(&line, columns());
        let style = match skill.state {
            SkillState::Trusted | SkillState::Team => GOOD,
            SkillState::Added | SkillState::New => FAINT,
            _ => BAD,
        };
        writeln!(out, "{}", styled(style, line))?;
    }
    Ok(())
}

fn info(globals: &GlobalOptions, name: &str) -> CommandResult {
    let setup = HostSetup::find(globals.workspace.as_deref())?;
    let skill = setup.skills().find(name)?;
    let mut row = row(&skill);
    if let Ok(content) = &skill.content {
        let requests = content.requests();
        let requests = requests.iter().map(|request| {
            json!({ "entry": request.entry, "meaning": request.describe(), "granted": is_granted(&skill, &request.entry) })
        });
        row["requests"] = requests.collect();
        row["frontmatter"] = Value::Object(content.document.frontmatter.clone());
        let paths = content.files.iter().map(|(path, _)| path);
        row["paths"] = paths.collect();
    }
    let printer = globals.printer();
    let disabled = disabled_line(&setup).filter(|_| skill.state == SkillState::Disabled);
    if let Some(line) = &disabled {
        row["disabled"] = line.as_str().into();
    }
    printer.print_result(&row, |out| {
        for line in lines(&skill) {
            writeln!(out, "{line}")?;
        }
        match &disabled {
            Some(line) => writeln!(out, "Disabled: {line}"),
            None => Ok(()),
        }
    })?;
    Ok(ExitReason::Done)
}

/// Returns why skills of the workspace are not used; `None` if no file disables them.
fn disabled_line(setup: &HostSetup) -> Option<String> {
    let by = setup.settings.enforcing_file(|it| it.disable_local_tools)?;
    Some(format!(
        "{} sets `enforcement.disableLocalTools`, so models cannot load skills of workspaces",
        visible(by)
    ))
}

fn is_granted(skill: &FoundSkill, entry: &str) -> bool {
    let pin = skill.pin.as_ref();
    skill.state == SkillState::Trusted
        && pin.is_some_and(|pin| pin.allowed_tools.iter().any(|granted| granted == entry))
}

/// Describes a skill, one line each.
fn lines(skill: &FoundSkill) -> Vec<String> {
    let mut lines = vec![
        format!("{} ({})", skill.name, skill.state.as_str()),
        format!("Folder: {}", visible(&skill.folder)),
    ];
    lines.extend(origin_lines(skill));
    let content = match &skill.content {
        Ok(content) => content,
        Err(error) => {
            lines.push(format!("Fault: {}", visible(&error.message)));
            return lines;
        }
    };
    let document = &content.document;
    lines.push(indented(
        &format!("Description: {}", document.shown_description()),
        2,
    ));
    let license = document.license.iter();
    lines.extend(license.map(|license| format!("License: {}", visible(license))));
    let compatibility = document.compatibility.iter();
    lines.extend(compatibility.map(|text| format!("Compatibility: {}", visible(text))));
    lines.push(format!("Digest: {}", content.files.digest()));
    lines.push(format!(
        "Files: {} ({})",
        content.files.len(),
        bytes(content.files.size())
    ));
    for (path, file) in content.files.iter() {
        lines.push(format!(
            "  {} ({})",
            visible(path),
            bytes(file.len() as u64)
        ));
    }
    let requests = content.requests();
    if !requests.is_empty() {
        lines.push("Requests:".to_owned());
    }
    for request in requests {
        let granted = if is_granted(skill, &request.entry) {
            ", granted"
        } else {
            ""
        };
        lines.push(format!(
            "  {}: {}{granted}",
            request.entry,
            request.describe()
        ));
    }
    lines
}

/// Describes the source and the signer of a skill, one line each. What this user has not accepted is marked as a claim.
fn origin_lines(skill: &FoundSkill) -> Vec<String> {
    let Some(pin) = &skill.pin else {
        return Vec::new();
    };
    let artifact = pin.artifact.as_ref().map(|it| format!("Artifact: {it}"));
    let signer = pin.signer.as_ref().map(|it| format!("Signer: {it}"));
    let source = Some(format!("Source: {}", pin.source));
    let lines = [source, artifact, signer].into_iter().flatten();
    let claim = if skill.is_accepted {
        ""
    } else {
        " (claimed by tools.lock, not verified)"
    };
    lines
        .map(|line| format!("{}{claim}", visible(&line)))
        .collect()
}

/// Compares each skill with its pin. Also fails for pins that this user has not accepted, so that a check of a clone
/// finds changed files.
fn verify(globals: &GlobalOptions) -> CommandResult {
    let setup = HostSetup::find(globals.workspace.as_deref())?;
    let skills = setup.skills().find_all()?;
    let faults: Vec<SkillFault<'_>> = skills.iter().filter_map(find_fault).collect();
    let shown = faults.iter().map(
        |fault| json!({ "name": fault.name, "fault": fault.text, "remedies": all_with_workspace(&fault.remedies) }),
    );
    let pinned = skills.iter().filter(|skill| skill.pin.is_some()).count();
    let result = json!({ "pinned": pinned, "faults": shown.collect::<Vec<_>>() });
    globals.printer().print_result(&result, |out| {
        for fault in &faults {
            writeln!(out, "{} {}: {}", styled(BAD, "✗"), fault.name, fault.text)?;
            for remedy in &fault.remedies {
                writeln!(out, "    {}", with_workspace(remedy))?;
            }
        }
        if faults.is_empty() {
            writeln!(out, "{} {pinned} pinned", styled(GOOD, "✓"))?;
        }
        Ok(())
    })?;
    Ok(if faults.is_empty() {
        ExitReason::Done
    } else {
        ExitReason::Failed
    })
}

/// A skill whose files are not those of its pin.
struct SkillFault<'a> {
    name: &'a str,
    text: String,
    /// Commands and steps that resolve the fault.
    remedies: Vec<String>,
}

fn find_fault(skill: &FoundSkill) -> Option<SkillFault<'_>> {
    let (pin, name) = (skill.pin.as_ref()?, &skill.name);
    let text = match &skill.content {
        Err(error) => visible(&error.message),
        Ok(content) if content.files.digest() != pin.digest => {
            "its files are not those that tools.lock pins".to_owned()
        }
        Ok(_) => return None,
    };
    let mut remedies = Vec::new();
    if skill.content.is_ok() {
        remedies.push(format!(
            "to accept the new files: `mimir skills trust {name}`"
        ));
    }
    remedies.push(if skill.folder.starts_with(FOLDER) && !skill.is_accepted {
        // Nobody has accepted the source that the lock file names, so it has no updates.
        "to get its files: restore them with version control, or `mimir skills add SOURCE --force`".to_owned()
    } else if skill.folder.starts_with(FOLDER) {
        format!("to get the files again from their source: `mimir skills update {name}`, or `mimir skills add SOURCE --force`")
    } else {
        format!("the folder {} is part of the project: restore it with its version control", visible(&skill.folder))
    });
    if skill.state == SkillState::Missing {
        remedies.push(format!("to remove the pin: `mimir skills remove {name}`"));
    }
    Some(SkillFault {
        name,
        text,
        remedies,
    })
}

async fn remove(
    globals: &GlobalOptions,
    name: &str,
    yes: bool,
    scope: &ClusterScope,
) -> CommandResult {
    let printer = globals.printer();
    mimir::skills::check_name(name)?;
    let setup = HostSetup::find(globals.workspace.as_deref())?;
    let library = setup.skills();
    let cluster = ClusterApprovals::find(&setup, scope).await?;
    let known = library.find_all()?;
    let Some(skill) = known.iter().find(|skill| skill.name == name) else {
        if let Some(cluster) = &cluster {
            return revoke_in_cluster(globals, cluster, name, yes).await;
        }
        return Err(library.find(name).err().map_or_else(
            || CommandFailure::usage("the skill was not found"),
            CommandFailure::from,
        ));
    };
    if skill.state == SkillState::Team {
        return Err(ToolError::new(
            ToolErrorCode::PolicyDenied,
            format!("`{name}` comes with the bundle of a team and cannot be removed here"),
        )
        .into());
    }
    if !yes && !terminal::confirm(&format!("Remove the skill {name} and your consent to it?"))? {
        let without_terminal = format!("use `mimir skills remove {name} --yes`");
        let message = terminal::refusal("nothing was removed", &without_terminal);
        return Err(ToolError::approval_denied(message).into());
    }
    if let Some(cluster) = &cluster {
        revoke_consent(cluster, name).await?;
    }
    library.remove(name)?;
    record(&setup, &skill.folder, "skill removed");
    let kept = setup.workspace.root().join(&skill.folder).is_dir();
    let more = if kept {
        format!(
            "; its folder {} is part of the project and stays",
            visible(&skill.folder)
        )
    } else {
        String::new()
    };
    printer.print_done(
        &json!({ "removed": name, "folderKept": kept }),
        format_args!("removed {name}{more}{}", in_cluster(cluster.as_ref())),
    )
}

/// Revokes the consent to a skill in a cluster, which this workspace does not have.
async fn revoke_in_cluster(
    globals: &GlobalOptions,
    cluster: &ClusterApprovals,
    name: &str,
    yes: bool,
) -> CommandResult {
    let question = format!("Revoke the consent to the skill {name} in the cluster?");
    if !yes && !terminal::confirm(&question)? {
        let without_terminal = format!("use `mimir skills remove {name} --yes`");
        let message = terminal::refusal("nothing was revoked", &without_terminal);
        return Err(ToolError::approval_denied(message).into());
    }
    revoke_consent(cluster, name).await?;
    globals.printer().print_done(
        &json!({ "removed": name, "folderKept": false }),
        format_args!("revoked {name}{}", in_cluster(Some(cluster))),
    )
}

async fn revoke_consent(cluster: &ClusterApprovals, name: &str) -> Result<(), ToolError> {
    cluster.set_skill(name, None).await?;
    let event = AuditEvent::new(EventKind::ConfigChange, SystemTime::now());
    let event = event.with_subject(&format!("skill {name}"));
    cluster.record(&event.with_detail("skill removed")).await;
    Ok(())
}

/// Returns the end of a message about a change that also counts in a cluster.
fn in_cluster(cluster: Option<&ClusterApprovals>) -> String {
    let workspace = cluster.map(|cluster| visible(&cluster.workspace));
    workspace.map_or_else(String::new, |workspace| {
        format!("; this also counts in the cluster, for the workspace {workspace}")
    })
}

/// Records a change of installed skills in the audit log.
fn record(setup: &HostSetup, subject: &str, detail: &str) {
    let event = AuditEvent::new(EventKind::ConfigChange, SystemTime::now()).with_subject(subject);
    setup.record_event(&event.with_detail(detail));
}
