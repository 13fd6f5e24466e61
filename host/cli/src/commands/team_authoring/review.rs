//! `mimir team approve` and `mimir team reject`.

use std::path::Path;
use std::time::SystemTime;

use mimir_core::grants::Grant;
use mimir_core::needs::{NeedKind, Needs};
use mimir_core::text::visible;
use mimir_core::{ToolError, ToolErrorCode};
use mimir_registry::signature::{SigningKey, VerifyingKey};
use mimir_registry::{OciDigest, OciReference};
use serde_json::json;

use super::{next_publish, open_folder, record, registry_source, warn_expiry};
use crate::args::{GlobalOptions, TeamApproveArgs, TeamRejectArgs};
use crate::arguments::command_line;
use crate::commands::keys::signing_key;
use crate::commands::tools_add::{AddSource, fetch_component};
use crate::exit::{CommandResult, ExitReason};
use crate::output::{note, warn};
use crate::terminal;
use mimir::setup::HostSetup;
use mimir::team_authoring::{
    AuthoredTool, AuthoringFolder, InspectedPlugin, KeyNames, ProposalFiles, ProposalSource,
    ReviewDecision, ReviewKeys, ReviewRecord, SignedReview, ToolProposal, proposal_page,
};

/// A component under review.
struct ReviewedComponent {
    plugin: InspectedPlugin,
    named: Needs,
    source: Option<ProposalSource>,
    /// The grant of the build in the catalog.
    previous: Option<Grant>,
    /// The proposal and its files; `None` for a tool that only the catalog has.
    proposal: Option<(ToolProposal, ProposalFiles)>,
    /// Note for the person about the choice between a proposal and the catalog.
    choice: Option<String>,
}

/// Approves a component, after the person has confirmed what it may do.
pub async fn approve(globals: &GlobalOptions, args: &TeamApproveArgs) -> CommandResult {
    let setup = HostSetup::find(globals.workspace.as_deref())?;
    let mut folder = open_folder(&setup, &args.dir, Some(&args.sign))?;
    let (key, keys) = reviewer_key(&setup, &folder, &args.sign)?;
    let mut reviewed = read_component(&setup, &folder, &args.proposal, &keys.review).await?;
    if args.no_reference {
        reviewed.source = None;
    }
    if let Some(source) = &reviewed.source {
        reviewed.source = Some(verify_source(&setup, source, &reviewed.plugin.digest).await?);
    }
    let ReviewedComponent {
        plugin,
        named,
        source,
        previous,
        proposal,
        choice,
    } = reviewed;
    if let Some(choice) = choice.filter(|_| !globals.json) {
        note(choice);
    }
    let grant = plugin.grant(&named, &args.without)?;
    let tests = proposal.as_ref().and_then(|(told, _)| told.tests.clone());
    let facts = ToolProposal::new(&plugin, &named, previous.as_ref(), source.clone(), tests);
    confirm(args, &folder, &facts)?;

    let earlier = folder.tool(&plugin.file).cloned();
    let entry = AuthoredTool {
        file: plugin.file.clone(),
        digest: plugin.digest,
        reference: source.as_ref().map(|source| source.reference.clone()),
        enforced: args.enforced || earlier.is_some_and(|earlier| earlier.enforced),
    };
    let decision = ReviewRecord {
        org_id: folder.manifest.org_id.clone(),
        decision: ReviewDecision::Approved,
        file: plugin.file.clone(),
        digest: plugin.digest,
        size: plugin.bytes.len() as u64,
        decided_at: now()?,
        reason: args.reason.clone(),
        source,
        grant: Some(grant),
    };
    // The record first: without it, `publish` refuses the entry; without the entry, it does nothing.
    decision.write(&folder, &key)?;
    folder.put_tool(entry.clone(), &plugin.bytes)?;
    if let Some((_, files)) = &proposal {
        files.remove()?;
    }
    let key_id = key.verifying_key().id();
    let names = KeyNames::read(&setup, &folder);
    record(
        &setup,
        &format!("team {}", folder.manifest.org_id),
        &format!(
            "approved {}, {}, signed with the key {}",
            plugin.file,
            plugin.digest,
            names.describe(&key_id)
        ),
    );
    globals.printer().print_done(
        &json!({
            "approved": plugin.file,
            "digest": plugin.digest,
            "reviewDigest": facts.review_digest(),
            "key": key_id,
            "enforced": entry.enforced,
            "withheld": args.without,
            "reference": entry.reference,
        }),
        format_args!(
            "approved {} with the key {}; members get it with the next bundle: {}",
            plugin.file,
            names.describe(&key_id),
            next_publish(&folder)
        ),
    )?;
    if !globals.json {
        warn_expiry(&folder);
    }
    Ok(ExitReason::Done)
}

/// Rejects a component. The catalog stays as it is.
pub async fn reject(globals: &GlobalOptions, args: &TeamRejectArgs) -> CommandResult {
    let setup = HostSetup::find(globals.workspace.as_deref())?;
    let folder = open_folder(&setup, &args.dir, Some(&args.sign))?;
    let (key, _) = reviewer_key(&setup, &folder, &args.sign)?;
    // Not inspected: a component that cannot be loaded can be rejected, too.
    let (file, bytes, proposal) = match ProposalFiles::find(&args.proposal, &folder.proposals()) {
        Ok(files) => {
            let (proposal, bytes) = files.read()?;
            (proposal.file, bytes, Some(files))
        }
        Err(missing) => {
            let (file, bytes) = catalog_component(&folder, &args.proposal, missing)?;
            (file, bytes, None)
        }
    };
    let digest = OciDigest::of_bytes(&bytes);
    let decision = ReviewRecord {
        org_id: folder.manifest.org_id.clone(),
        decision: ReviewDecision::Rejected,
        file: file.clone(),
        digest,
        size: bytes.len() as u64,
        decided_at: now()?,
        reason: args.reason.clone(),
        source: None,
        grant: None,
    };
    decision.write(&folder, &key)?;
    if let Some(files) = &proposal {
        files.remove()?;
    }
    let key_id = key.verifying_key().id();
    record(
        &setup,
        &format!("team {}", folder.manifest.org_id),
        &format!(
            "rejected {file}, {digest}, signed with the key {}",
            KeyNames::read(&setup, &folder).describe(&key_id)
        ),
    );
    let is_listed = folder.tool(&file).is_some_and(|tool| tool.digest == digest);
    if is_listed && !globals.json {
        note(format_args!(
            "The catalog still lists {file}, which stops the next `mimir team publish`; `{}` removes it.",
            folder.command(&["remove", &file], "")
        ));
    }
    globals.printer().print_done(
        &json!({ "rejected": file, "digest": digest, "key": key_id, "listed": is_listed }),
        format_args!("rejected {file}, {digest}"),
    )
}

/// Reads the reviewer's key, and the keys of the team. Fails if the team does not accept its decisions.
fn reviewer_key(
    setup: &HostSetup,
    folder: &AuthoringFolder,
    name: &str,
) -> CommandResult<(SigningKey, ReviewKeys)> {
    let key = signing_key(setup, name)?;
    let keys = ReviewKeys::read(folder, key.verifying_key())?;
    keys.check_reviewer(key.verifying_key())?;
    Ok((key, keys))
}

/// Reads and inspects the component of a proposal, or of the catalog.
async fn read_component(
    setup: &HostSetup,
    folder: &AuthoringFolder,
    named: &Path,
    keys: &[VerifyingKey],
) -> CommandResult<ReviewedComponent> {
    let files = match ProposalFiles::find(named, &folder.proposals()) {
        Ok(files) => files,
        Err(missing) => {
            let (file, bytes) = catalog_component(folder, named, missing)?;
            // Only a signed decision can name rights of a build that has no proposal.
            let previous = approved_grant(folder, &file, keys);
            let named = previous.as_ref().map(Grant::named).unwrap_or_default();
            let plugin = InspectedPlugin::inspect(setup, &file, bytes, &named).await?;
            let entry = folder.tool(&file);
            let reference = entry.and_then(|entry| entry.reference.clone());
            return Ok(ReviewedComponent {
                named,
                plugin,
                previous,
                source: reference.map(|reference| ProposalSource {
                    reference,
                    signer: None,
                    provenance: None,
                    signature: None,
                }),
                proposal: None,
                choice: None,
            });
        }
    };
    let (proposal, bytes) = files.read()?;
    let named = proposal.named.clone();
    let plugin = InspectedPlugin::inspect(setup, &proposal.file, bytes, &named).await?;
    proposal.check_describes(&plugin)?;
    let entry = folder.tool(&proposal.file);
    let mut source = proposal.source.clone();
    if let Some(reference) = entry
        .filter(|entry| entry.digest == plugin.digest)
        .and_then(|entry| entry.reference.clone())
    {
        // A proposal of the same component does not take away the origin that the catalog has.
        source = Some(ProposalSource {
            reference,
            signer: None,
            provenance: None,
            signature: None,
        });
    }
    let other = entry.filter(|entry| entry.digest != plugin.digest);
    let choice = other.map(|entry| {
        format!(
            "This is the build of the proposal, {}. The catalog has another, {}, which an approval replaces; to review that one, reject or remove the proposal first.",
            plugin.digest, entry.digest
        )
    });
    Ok(ReviewedComponent {
        plugin,
        named,
        source,
        previous: approved_grant(folder, &proposal.file, keys),
        proposal: Some((proposal, files)),
        choice,
    })
}

/// Reads a component of the catalog. `missing` is the error about the proposal, if the catalog has no such tool either.
fn catalog_component(
    folder: &AuthoringFolder,
    named: &Path,
    missing: ToolError,
) -> Result<(String, Vec<u8>), ToolError> {
    let name = named.to_str().unwrap_or_default();
    let Some(entry) = folder
        .tool(name)
        .filter(|_| missing.code == ToolErrorCode::NotFound)
    else {
        return Err(missing);
    };
    Ok((entry.file.clone(), folder.read_component(entry)?))
}

/// Fetches the component of a reference again, with the reviewer's own trust policy, because the proposal's statement
/// about its origin could be wrong.
async fn verify_source(
    setup: &HostSetup,
    told: &ProposalSource,
    digest: &OciDigest,
) -> CommandResult<ProposalSource> {
    let reference: OciReference = told.reference.parse().map_err(ToolError::from)?;
    let fault = |why: &str| {
        let message = format!("{reference} {why}; nothing was approved");
        let remedy =
            "to approve the component without its reference, use `--no-reference`".to_owned();
        ToolError::new(ToolErrorCode::PermissionDenied, message).with_remedies([remedy])
    };
    if reference.digest().is_none() {
        return Err(fault("has no digest, so it can change").into());
    }
    let fetched = fetch_component(setup, &AddSource::Registry(reference.clone()), None).await?;
    if OciDigest::of_bytes(&fetched.bytes) != *digest {
        return Err(fault("has another component than the proposal").into());
    }
    let source = match &fetched.source {
        Some(source) => registry_source(source, fetched.signature_state)?,
        None => None,
    };
    let source = source.ok_or_else(|| fault("has no manifest"))?;
    Ok(ProposalSource {
        reference: told.reference.clone(),
        ..source
    })
}

/// Returns the grant of the build in the catalog, whether or not it was published. A decision that none of `keys` has
/// signed grants nothing, and is left out with a warning.
pub fn approved_grant(
    folder: &AuthoringFolder,
    file: &str,
    keys: &[VerifyingKey],
) -> Option<Grant> {
    let entry = folder.tool(file)?;
    match SignedReview::read(folder, entry, keys) {
        Ok(review) => review?.record.grant,
        Err(error) => {
            warn(format_args!("{}; it is left out", error.message));
            None
        }
    }
}

/// Shows the facts, and asks. Without a terminal, the digest of the component and its rights answers.
fn confirm(
    args: &TeamApproveArgs,
    folder: &AuthoringFolder,
    facts: &ToolProposal,
) -> CommandResult<()> {
    let file = &facts.file;
    let review_digest = facts.review_digest().hex();
    if let Some(digest) = &args.digest {
        if *digest == review_digest {
            return Ok(());
        }
        let message = format!(
            "digest mismatch: {file} with its rights has {review_digest}, expected {digest}; nothing was approved"
        );
        let remedy = "leave out --digest to see what the tool may do; the digest is that of the component and its rights, as `mimir team propose` prints it"
            .to_owned();
        return Err(ToolError::approval_denied(message)
            .with_remedies([remedy])
            .into());
    }
    let mut lines: Vec<String> = proposal_page(facts).lines().map(str::to_owned).collect();
    let withheld: Vec<&str> = args
        .without
        .iter()
        .map(|kind: &NeedKind| kind.as_str())
        .collect();
    if !withheld.is_empty() {
        lines.push(String::new());
        lines.push(format!("You withhold: {}", withheld.join(", ")));
    }
    terminal::print_paged(&lines)?;
    let team = visible(&folder.manifest.name);
    let question = format!("Approve {file} for every member of {team}, with the rights above?");
    if terminal::confirm(&question)? {
        return Ok(());
    }
    let without_terminal = format!(
        "name the digest of the component and its rights: `{} --digest {review_digest}`",
        command_line()
    );
    let message = terminal::refusal("nothing was approved", &without_terminal);
    Err(ToolError::approval_denied(message).into())
}

fn now() -> Result<jiff::Timestamp, ToolError> {
    jiff::Timestamp::try_from(SystemTime::now()).map_err(ToolError::internal)
}
