//! `mimir team propose`.

use std::path::{Path, PathBuf};

use mimir_core::ToolError;
use mimir_core::files::{self, LinkPolicy};
use mimir_core::grants::Grant;
use mimir_registry::OciDigest;
use mimir_registry::team::MAX_BLOB_SIZE;
use serde_json::json;

use super::{open_folder, registry_source, review, shown};
use crate::args::{GlobalOptions, TeamProposeArgs};
use crate::arguments::quote_for_shell;
use crate::commands::local_components::LocalComponent;
use crate::commands::tools_build::BuiltComponent;
use crate::commands::tools_test;
use crate::exit::{CommandFailure, CommandResult, ExitReason};
use crate::output::{note, warn};
use mimir::file_error::file_error;
use mimir::registries::{installed_signature_state, trust_policy};
use mimir::setup::HostSetup;
use mimir::team_authoring::{
    AuthoringFolder, InspectedPlugin, ProposalFiles, ProposalSource, ProposedTests, ReviewKeys,
    SignedReview, ToolProposal, bundled_file_name,
};

/// Writes a proposal of a component, which need not be loaded here.
pub async fn run(globals: &GlobalOptions, args: &TeamProposeArgs) -> CommandResult {
    let setup = HostSetup::find(globals.workspace.as_deref())?;
    let folder = args.to.as_deref();
    let folder = folder.map(|dir| open_folder(&setup, dir, None));
    let folder = folder.transpose()?;
    let component = LocalComponent::find(&setup, &args.tool).await?;
    let path = &component.path;
    let bytes = files::read(path, LinkPolicy::Follow, MAX_BLOB_SIZE)
        .map_err(|error| file_error("read", path, &error))?;
    // The rights that the developer has named for a component that cannot declare them.
    let named = component.named_rights(&OciDigest::of_bytes(&bytes).hex());
    let file = bundled_file_name(path)?;
    let plugin = InspectedPlugin::inspect(&setup, &file, bytes, &named).await?;
    let source = source_in_lock(&setup, &component.location, &plugin)?;
    let previous = previous_grant(&setup, folder.as_ref(), &plugin.file);
    let tests = run_cases(&setup, args.source.as_deref(), &plugin).await?;
    let proposal = ToolProposal::new(&plugin, &named, previous.as_ref(), source, tests);
    let files = match (&args.out, &folder) {
        (Some(page), _) => ProposalFiles::beside(&page.with_extension("md")),
        (None, Some(folder)) => {
            ProposalFiles::in_folder(&folder.proposals(), &file, &plugin.digest)
        }
        (None, None) => ProposalFiles::in_folder(Path::new(""), &file, &plugin.digest),
    };
    files.write(&proposal, &plugin.bytes)?;
    if globals.json {
        let value = json!({
            "proposed": file,
            "digest": plugin.digest,
            "reviewDigest": proposal.review_digest(),
            "files": files,
            "tests": proposal.tests,
        });
        globals.printer().print_json(&value)?;
        return Ok(ExitReason::Done);
    }
    note(format_args!("proposed {file}, {}", plugin.digest));
    let review_digest = proposal.review_digest();
    note(format_args!("review digest {review_digest}"));
    for path in [&files.page, &files.json, &files.component] {
        note(format_args!("  {}", shown(path)));
    }
    match &proposal.tests {
        Some(tests) if tests.failed > 0 => warn(format_args!(
            "{} of its test cases failed; the proposal says so",
            tests.failed
        )),
        Some(_) => {}
        None => note("It has no test results: `--source DIR` names the folder with its cases.yml."),
    }
    match &folder {
        Some(folder) => note(format_args!(
            "Next: hand in these files; then a reviewer runs `{}`.",
            folder.approve_command(stem_of(&files.page))
        )),
        None => note(format_args!(
            "Next: send these files to a reviewer, who runs `mimir team approve {} DIR --sign KEY`.",
            quote_for_shell(&shown(&files.page))
        )),
    }
    Ok(ExitReason::Done)
}

/// Returns the name of a proposal among those of a folder.
fn stem_of(page: &Path) -> &str {
    page.file_stem()
        .and_then(|stem| stem.to_str())
        .unwrap_or_default()
}

/// Returns the origin that the lock file has for this build of the component.
fn source_in_lock(
    setup: &HostSetup,
    location: &str,
    plugin: &InspectedPlugin,
) -> Result<Option<ProposalSource>, ToolError> {
    let Some(approval_store) = setup.approvals() else {
        return Ok(None);
    };
    let lock = approval_store
        .lock()
        .read()
        .map_err(ToolError::unavailable)?;
    let record = lock.sources.get(location);
    // Another build was put there since.
    let Some(record) = record.filter(|record| record.layer_hex() == plugin.digest.hex()) else {
        return Ok(None);
    };
    // The reviewer's command checks the signature again.
    let state = trust_policy(setup)
        .and_then(|trust| installed_signature_state(setup, &trust, location, record));
    registry_source(record, state.ok().flatten())
}

/// Returns the grant of the earlier build: that of the team's folder, or of the bundle of a joined team.
fn previous_grant(
    setup: &HostSetup,
    folder: Option<&AuthoringFolder>,
    file: &str,
) -> Option<Grant> {
    if let Some(folder) = folder {
        let keys = ReviewKeys::listed(folder).map(|keys| keys.review);
        return match keys {
            Ok(keys) if !keys.is_empty() => review::approved_grant(folder, file, &keys),
            // The team's key is not known here. The reviewer's command compares again, with verified decisions only.
            _ => SignedReview::read_unverified(folder, folder.tool(file)?)?.grant,
        };
    }
    let bundles = setup.settings.teams.iter().map(|team| &team.bundle);
    let mut tools = bundles.flat_map(|bundle| &bundle.tools);
    tools.find(|tool| tool.file == file)?.grant.clone()
}

/// Calls the component as the `cases.yml` of its plugin says.
async fn run_cases(
    setup: &HostSetup,
    named: Option<&Path>,
    plugin: &InspectedPlugin,
) -> CommandResult<Option<ProposedTests>> {
    let stem = plugin.file.trim_end_matches(".wasm");
    let folder = match named {
        Some(folder) if !folder.is_dir() => {
            return Err(CommandFailure::usage(format!(
                "{} is not a folder; name the folder with the plugin's cases.yml",
                shown(folder)
            )));
        }
        Some(folder) => folder.to_owned(),
        None => setup.workspace.root().join(stem),
    };
    let component =
        BuiltComponent::from_earlier_build(PathBuf::from(&plugin.file), plugin.bytes.clone());
    let Some(report) = tools_test::run_cases(setup, &folder, &component).await? else {
        return Ok(None);
    };
    let cases = report.case_results();
    let passed = cases.iter().filter(|(_, passed)| *passed).count();
    Ok(Some(ProposedTests {
        passed,
        failed: cases.len() - passed,
        cases,
    }))
}
