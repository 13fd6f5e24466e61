//! `mimir tools import openapi`.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use mimir::agents::unified_diff;
use mimir::file_error::file_error;
use mimir::private_files::{self, FileReaders};
use mimir::secrets::UserSecrets;
use mimir::setup::HostSetup;
use mimir_core::audit::{AuditEvent, EventKind};
use mimir_core::files::{self, LinkPolicy};
use mimir_core::text::visible;
use mimir_core::{ToolError, ToolErrorCode};
use mimir_mcp::client::find_flags;
use mimir_script::openapi::{
    self, ApiSource, FILE_SUFFIX, ImportOptions, ImportedApi, MAX_DOCUMENT_BYTES, MAX_FILE_BYTES,
};
use serde_json::json;

use crate::args::{GlobalOptions, OpenApiImportArgs, ToolsImportCommand};
use crate::exit::{CommandResult, ExitReason};
use crate::output::{ResultPrinter, note, warn};
use crate::terminal;

use super::tools_add::fetch::download_component;

/// Maximum number of operations that were left out and are printed.
const MAX_PRINTED: usize = 10;

/// Runs a command of `mimir tools import`.
pub async fn run(globals: &GlobalOptions, command: ToolsImportCommand) -> CommandResult {
    let ToolsImportCommand::Openapi(args) = command;
    let printer = globals.printer();
    let setup = HostSetup::find(globals.workspace.as_deref())?;
    let previous = match (&args.name, args.update) {
        (Some(name), true) => Some(read_previous(&setup, name)?),
        _ => None,
    };
    let (bytes, source) = read_document(printer, &setup, &args, previous.as_ref()).await?;
    let options = ImportOptions {
        source,
        name: args.name.clone(),
    };
    let imported = openapi::import(&bytes, &options)?;
    drop(bytes);
    check_names(&setup, &imported).await?;
    let target = setup
        .workspace
        .tools()
        .join(format!("{}{FILE_SUFFIX}", imported.name));
    setup.workspace.check_no_links(&target)?;
    let shown = setup.workspace.display_path(&target);
    let action = match &previous {
        Some(previous) if previous.text == imported.text => {
            return printer.print_done(
                &json!({ "file": shown, "changed": false }),
                format_args!("{shown} is up to date"),
            );
        }
        Some(previous) => {
            confirm_update(printer, &shown, (&previous.text, &imported.text), args.yes)?;
            "updated"
        }
        None if target.symlink_metadata().is_ok() => {
            let remedy = format!(
                "`mimir tools import openapi --update --name {}` replaces it",
                imported.name
            );
            let error = ToolError::new(
                ToolErrorCode::AlreadyExists,
                format!("{shown} already exists"),
            );
            return Err(error.with_remedies([remedy]).into());
        }
        None => "imported",
    };
    let stored = stored_secrets(&setup)?;
    write_file(&target, imported.text.as_bytes())?;
    let event = AuditEvent::new(EventKind::ConfigChange, SystemTime::now()).with_subject(&shown);
    let detail = format!("{action}, document sha256 {}", imported.file.source.sha256);
    setup.record_event(&event.with_detail(&detail));
    let needs_other_name = previous.is_none() && args.bearer.is_none();
    report(printer, &shown, &imported, (&stored, needs_other_name))
}

/// Returns the names of the secrets that have a value.
fn stored_secrets(setup: &HostSetup) -> Result<BTreeSet<String>, ToolError> {
    let Some(secrets) = UserSecrets::new(&setup.user_dirs) else {
        return Ok(BTreeSet::new());
    };
    let stored = secrets.list(&setup.settings.config.secrets)?;
    Ok(stored.into_keys().collect())
}

/// The file of an earlier import.
struct PreviousImport {
    text: String,
    source: ApiSource,
}

fn read_previous(setup: &HostSetup, name: &str) -> Result<PreviousImport, ToolError> {
    let file_name = format!("{name}{FILE_SUFFIX}");
    let is_file_name =
        !name.is_empty() && name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_');
    if !is_file_name {
        return Err(ToolError::invalid_input(format!(
            "`{}` is not the name of an imported API: use letters, digits and _",
            visible(name)
        )));
    }
    let path = setup.workspace.tools().join(&file_name);
    let shown = setup.workspace.display_path(&path);
    let content = files::read(&path, LinkPolicy::Refuse, MAX_FILE_BYTES).map_err(|error| {
        match error.kind() {
            ErrorKind::NotFound => {
                let error = ToolError::not_found(format!(
                    "{shown} does not exist, so it cannot be updated"
                ));
                error.with_remedies([
                    "leave out `--update` to import the API for the first time".to_owned()
                ])
            }
            _ => file_error("read", &path, &error),
        }
    })?;
    let text = String::from_utf8(content)
        .map_err(|_| ToolError::invalid_input(format!("{shown} is not UTF-8")))?;
    let source = openapi::check_api_file(&shown, &text)?.source;
    Ok(PreviousImport { text, source })
}

/// Reads the document, and returns the choices of the import: those of the arguments, else those of the last import.
async fn read_document(
    printer: ResultPrinter,
    setup: &HostSetup,
    args: &OpenApiImportArgs,
    previous: Option<&PreviousImport>,
) -> Result<(Vec<u8>, ApiSource), ToolError> {
    let earlier = previous
        .map(|previous| previous.source.clone())
        .unwrap_or_default();
    let or_earlier = |given: &Vec<String>, earlier: Vec<String>| {
        if given.is_empty() {
            earlier
        } else {
            given.clone()
        }
    };
    let mut source = ApiSource {
        document: String::new(),
        sha256: String::new(),
        include: or_earlier(&args.include, earlier.include),
        exclude: or_earlier(&args.exclude, earlier.exclude),
        server: args.server.clone().or(earlier.server),
        bearer: args.bearer.clone().or(earlier.bearer),
    };
    // A path in the file of an earlier import is relative to the workspace, that of an argument to the current folder.
    let (location, is_argument) = match &args.document {
        Some(document) => (document.clone(), true),
        None => (earlier.document, false),
    };
    if location.contains("://") {
        if !is_argument {
            confirm_download(printer, &location)?;
        }
        let bytes = download_component(setup, &location, MAX_DOCUMENT_BYTES).await?;
        source.document = location;
        return Ok((bytes, source));
    }
    let path = if is_argument {
        Path::new(&location).to_owned()
    } else {
        path_in_workspace(setup, &location)?
    };
    let bytes = files::read(&path, LinkPolicy::Follow, MAX_DOCUMENT_BYTES).map_err(|error| match error.kind() {
        ErrorKind::FileTooLarge => ToolError::limit_exceeded(format!(
            "{} is too large: expected at most {}",
            visible(&location),
            mimir_core::text::bytes(MAX_DOCUMENT_BYTES)
        )),
        ErrorKind::NotFound if !is_argument => ToolError::not_found(format!(
            "the document {} of the last import does not exist: name the document, as in `mimir tools import openapi FILE --update --name NAME`",
            visible(&location)
        )),
        _ => file_error("read", &path, &error),
    })?;
    source.document = recorded_path(setup, &path);
    Ok((bytes, source))
}

/// Asks if the document of the last import may be downloaded: anyone who can change the file could have named it.
fn confirm_download(printer: ResultPrinter, location: &str) -> Result<(), ToolError> {
    let shown = visible(location);
    let question = format!("The file names its document: {shown}. Download it?");
    let is_confirmed = !printer.is_json() && terminal::confirm(&question).unwrap_or_default();
    if is_confirmed {
        return Ok(());
    }
    let message = format!("{shown}, which the file names as its document, was not downloaded");
    let remedy =
        "name the document, as in `mimir tools import openapi URL --update --name NAME`".to_owned();
    Err(ToolError::approval_denied(message).with_remedies([remedy]))
}

/// Returns the path of a document that the file of an earlier import names. Fails for a path outside of the workspace.
fn path_in_workspace(setup: &HostSetup, location: &str) -> Result<PathBuf, ToolError> {
    let root = setup.workspace.root();
    let path = root.join(location);
    // A document that does not exist is reported when it is read.
    let (Ok(whole), Ok(root)) = (path.canonicalize(), root.canonicalize()) else {
        return Ok(path);
    };
    if whole.starts_with(&root) {
        return Ok(path);
    }
    let message = format!(
        "the document {} of the last import is outside of the workspace",
        visible(location)
    );
    let remedy = "name the document, as in `mimir tools import openapi FILE --update --name NAME`"
        .to_owned();
    Err(ToolError::invalid_input(message).with_remedies([remedy]))
}

/// Returns the path of a document for the file: relative to the workspace, or only the name of a file elsewhere, because
/// the file is shared with others.
fn recorded_path(setup: &HostSetup, path: &Path) -> String {
    let whole = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let root = setup.workspace.root();
    let root = root.canonicalize().unwrap_or_else(|_| root.to_owned());
    let recorded = match whole.strip_prefix(&root) {
        Ok(below) => below,
        Err(_) => Path::new(path.file_name().unwrap_or_default()),
    };
    recorded.to_string_lossy().replace('\\', "/")
}

/// Fails if a tool of another file has the name of an imported tool: its approvals and rules would apply to both.
async fn check_names(setup: &HostSetup, imported: &ImportedApi) -> Result<(), ToolError> {
    let host = setup.host();
    let mut loaded = setup.toolbox(host.clone()).known_only().load().await;
    setup.scripts(host).add_tools_to(&mut loaded);
    let own_file = format!("/{}{FILE_SUFFIX}", imported.name);
    let names = imported.file.tool_names();
    let others = loaded
        .tools
        .iter()
        .filter(|tool| !tool.origin.location.ends_with(&own_file));
    let mut taken = others.filter_map(|tool| {
        let name = names.iter().find(|name| tool.answers_to(name))?;
        Some((name, &tool.origin.location))
    });
    match taken.next() {
        Some((name, location)) => {
            let message = format!(
                "nothing was imported: {} already has a tool `{name}`",
                visible(location)
            );
            let remedy = "choose another name with `--name NAME`".to_owned();
            Err(ToolError::new(ToolErrorCode::AlreadyExists, message).with_remedies([remedy]))
        }
        None => Ok(()),
    }
}

/// Shows the difference, and asks the user.
fn confirm_update(
    printer: ResultPrinter,
    shown: &str,
    (before, after): (&str, &str),
    yes: bool,
) -> CommandResult<()> {
    if !printer.is_json() {
        let diff = unified_diff(shown, Some(before), Some(after));
        printer.print_result(&diff, |out| {
            // Before the file is trusted, its texts are those of strangers.
            diff.lines()
                .try_for_each(|line| writeln!(out, "{}", visible(line)))
        })?;
    }
    if yes
        || terminal::confirm(&format!(
            "Replace {shown}? Your own changes of the file are among the removed lines."
        ))?
    {
        return Ok(());
    }
    let error = ToolError::approval_denied(format!("{shown} was not changed"));
    let remedy = "without a terminal, `--yes` replaces it".to_owned();
    let remedies = (!terminal::has_person()).then_some(remedy);
    Err(error.with_remedies(remedies).into())
}

fn write_file(target: &Path, bytes: &[u8]) -> Result<(), ToolError> {
    let created = match target.parent() {
        Some(folder) => std::fs::create_dir_all(folder),
        None => Ok(()),
    };
    created
        .and_then(|()| private_files::replace(target, bytes, FileReaders::Owner))
        .map_err(|error| file_error("write", target, &error))
}

/// Prints the result. `stored` are the secrets that have a value; with `needs_other_name`, another name of the API
/// would make it use other secrets.
fn report(
    printer: ResultPrinter,
    shown: &str,
    imported: &ImportedApi,
    (stored, needs_other_name): (&BTreeSet<String>, bool),
) -> CommandResult {
    let names = imported.file.tool_names();
    let secrets = imported.file.secret_notes();
    let others = imported.file.other_origins();
    if printer.is_json() {
        let secret_names: Vec<&str> = secrets.iter().map(|(name, _)| *name).collect();
        let used: Vec<&&str> = secret_names
            .iter()
            .filter(|name| stored.contains(**name))
            .collect();
        let others: Vec<_> = others
            .iter()
            .map(|(origin, tools)| json!({ "server": origin, "tools": tools }))
            .collect();
        printer.print_json(&json!({
            "file": shown,
            "changed": true,
            "tools": names,
            "skipped": imported.skipped,
            "notes": imported.notes,
            "flags": suspicious_texts(imported),
            "secrets": secret_names,
            "storedSecrets": used,
            "server": imported.file.server(),
            "otherServers": others,
        }))?;
        return Ok(ExitReason::Done);
    }
    for skipped in imported.skipped.iter().take(MAX_PRINTED) {
        warn(format_args!("left out {skipped}"));
    }
    if imported.skipped.len() > MAX_PRINTED {
        let more = imported.skipped.len() - MAX_PRINTED;
        warn(format_args!(
            "{more} more operations were left out; --json lists all"
        ));
    }
    for line in suspicious_texts(imported) {
        warn(line);
    }
    for line in &imported.notes {
        note(line);
    }
    let first = names.first().copied().unwrap_or_default();
    let server = visible(imported.file.server());
    match names.len() {
        1 => note(format_args!("{shown}: {first}, for {server}")),
        count => note(format_args!(
            "{shown}: {count} tools for {server}, such as {first}"
        )),
    }
    for (origin, tools) in others.iter().take(MAX_PRINTED) {
        let tool = tools.first().copied().unwrap_or_default();
        match tools.len() {
            1 => warn(format_args!(
                "`{tool}` sends its requests to another server, {origin}"
            )),
            count => warn(format_args!(
                "{count} tools, such as `{tool}`, send their requests to another server, {origin}"
            )),
        }
    }
    if others.len() > MAX_PRINTED {
        let more = others.len() - MAX_PRINTED;
        warn(format_args!("{more} more servers; --json lists all"));
    }
    for (name, explanation) in &secrets {
        if !stored.contains(*name) {
            note(format_args!(
                "It needs a secret: `mimir secrets set {name}` stores it ({explanation})."
            ));
            continue;
        }
        let other = if needs_other_name {
            " To use another one, import with another `--name`."
        } else {
            ""
        };
        note(format_args!(
            "It uses your stored secret `{name}` ({explanation}).{other}"
        ));
    }
    note(format_args!(
        "It requests rights: `mimir tools trust {first}` shows and grants them for all tools of the file."
    ));
    Ok(ExitReason::Done)
}

/// Returns warnings about descriptions that address the model instead of the user.
fn suspicious_texts(imported: &ImportedApi) -> Vec<String> {
    let own = imported.file.tool_names();
    let definitions = imported.file.definitions();
    let warnings = definitions.flat_map(|definition| {
        let flags = find_flags(&definition, &own);
        let name = definition["name"].as_str().unwrap_or_default().to_owned();
        flags
            .into_iter()
            .map(move |flag| format!("`{name}`: {flag}"))
    });
    warnings.take(MAX_PRINTED).collect()
}
