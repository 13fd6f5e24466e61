//! `mimir keys`: the user's keys for signatures.

use std::path::Path;
use std::time::SystemTime;

use mimir_core::audit::{AuditEvent, EventKind};
use mimir_core::files::{self, LinkPolicy};
use mimir_core::text::visible;
use mimir_core::{ToolError, ToolErrorCode};
use mimir_registry::signature::{MAX_KEY_FILE, SigningKey, VerifyingKey};
use serde_json::{Value, json};

use crate::args::{GlobalOptions, KeysCommand, KeysNewArgs};
use crate::exit::{CommandResult, ExitReason};
use crate::output::{FAINT, ResultPrinter, STRONG, styled};
use crate::terminal;
use mimir::file_error::file_error;
use mimir::setup::HostSetup;
use mimir::signing_keys::{StoredKey, UserKeys};

mod password;

/// Text that only private keys in PEM have.
const PRIVATE_LABEL: &str = "PRIVATE KEY-----";

/// Generates, lists, shows, imports and removes keys.
pub fn run(globals: &GlobalOptions, command: &KeysCommand) -> CommandResult {
    let printer = globals.printer();
    let setup = HostSetup::find_for_user(globals.workspace.as_deref())?;
    let keys = UserKeys::new(&setup.user_dirs)?;
    match command {
        KeysCommand::List => list(printer, &keys),
        KeysCommand::New(args) => create(&setup, printer, &keys, args),
        KeysCommand::Show { name } => show(printer, &keys.find(name)?),
        KeysCommand::Import { file, name } => import(&setup, printer, &keys, file, name),
        KeysCommand::Remove { name, yes } => remove(&setup, printer, &keys, name, *yes),
    }
}

/// Returns the private key with this name or path. Asks for its password if it is encrypted.
pub fn signing_key(setup: &HostSetup, key: &str) -> CommandResult<SigningKey> {
    let text = UserKeys::new(&setup.user_dirs)?.read_private(key)?;
    decrypt(text.as_bytes(), key)
}

fn decrypt(text: &[u8], name: &str) -> CommandResult<SigningKey> {
    let password = if SigningKey::is_encrypted(text) {
        Some(password::current_password(name)?)
    } else {
        None
    };
    let key = SigningKey::from_pem(text, password.as_deref().map(str::as_bytes));
    Ok(key.map_err(ToolError::from)?)
}

fn describe(key: &StoredKey) -> Value {
    json!({
        "name": key.name, "id": key.public.id(), "algorithm": key.public.algorithm().as_str(),
        "canSign": key.can_sign, "publicKey": key.public.to_pem(),
    })
}

fn list(printer: ResultPrinter, keys: &UserKeys) -> CommandResult {
    let all = keys.list()?;
    let rows: Vec<_> = all.iter().map(describe).collect();
    printer.print_result(&json!({ "keys": rows }), |out| {
        if all.is_empty() {
            let hint = "no keys; `mimir keys new NAME` generates one";
            return writeln!(out, "{}", styled(FAINT, hint));
        }
        for key in &all {
            let kind = if key.can_sign {
                "signs"
            } else {
                "public key only"
            };
            let algorithm = key.public.algorithm();
            let facts = format!("{algorithm}, {kind}");
            let (name, id) = (styled(STRONG, &key.name), key.public.id());
            writeln!(out, "{name}  {id}  {}", styled(FAINT, facts))?;
        }
        Ok(())
    })?;
    Ok(ExitReason::Done)
}

fn show(printer: ResultPrinter, key: &StoredKey) -> CommandResult {
    printer.print_result(&describe(key), |out| {
        write!(out, "{}", key.public.to_pem())?;
        writeln!(out, "{}", styled(FAINT, key.public.id()))
    })?;
    Ok(ExitReason::Done)
}

fn create(
    setup: &HostSetup,
    printer: ResultPrinter,
    keys: &UserKeys,
    args: &KeysNewArgs,
) -> CommandResult {
    keys.check_new(&args.name)?;
    let password = password::new_password(&args.name)?;
    let key = keys.create(&args.name, args.algorithm, &password)?;
    record(setup, &args.name, &format!("created, {}", key.public.id()));
    print_stored(printer, "created", &key)
}

fn import(
    setup: &HostSetup,
    printer: ResultPrinter,
    keys: &UserKeys,
    file: &Path,
    name: &str,
) -> CommandResult {
    keys.check_new(name)?;
    let text = files::read(file, LinkPolicy::Follow, MAX_KEY_FILE as u64)
        .map_err(|error| file_error("read the key", file, &error))?;
    let key = if String::from_utf8_lossy(&text).contains(PRIVATE_LABEL) {
        let shown = visible(&file.display().to_string());
        let (private, password) = if SigningKey::is_encrypted(&text) {
            let password = password::current_password(&shown)?;
            let private = SigningKey::from_pem(&text, Some(password.as_bytes()));
            // cosign allows empty passwords, with which a stored key would not be protected.
            let password = match (&private, password.is_empty()) {
                (Ok(_), true) => password::new_password(name)?,
                _ => password,
            };
            (private, password)
        } else {
            let private = SigningKey::from_pem(&text, None);
            (private, password::new_password(name)?)
        };
        keys.import_private(name, &private.map_err(ToolError::from)?, &password)?
    } else {
        let public = VerifyingKey::from_pem(&text).map_err(ToolError::from)?;
        keys.import_public(name, &public)?
    };
    let kind = if key.can_sign { "private" } else { "public" };
    record(
        setup,
        name,
        &format!("imported, {kind}, {}", key.public.id()),
    );
    print_stored(printer, "imported", &key)
}

fn print_stored(printer: ResultPrinter, done: &str, key: &StoredKey) -> CommandResult {
    printer.print_done(
        &json!({ done: describe(key) }),
        format_args!(
            "{done} `{}`, {}. Its ID is {}.\nGive others the public key: mimir keys show {}",
            key.name,
            key.public.algorithm(),
            key.public.id(),
            key.name
        ),
    )
}

fn remove(
    setup: &HostSetup,
    printer: ResultPrinter,
    keys: &UserKeys,
    name: &str,
    yes: bool,
) -> CommandResult {
    let shown = visible(name);
    // A damaged key can be removed, too.
    let id = keys.find(name).ok().map(|key| key.public.id());
    if !yes && !terminal::confirm(&format!("Remove the key `{shown}`?"))? {
        let without_terminal = format!("use `mimir keys remove {shown} --yes`");
        let message = terminal::refusal("nothing was removed", &without_terminal);
        return Err(ToolError::approval_denied(message).into());
    }
    if !keys.remove(name)? {
        return Err(ToolError::new(
            ToolErrorCode::NotFound,
            format!("unknown key `{shown}`; `mimir keys list` shows all"),
        )
        .into());
    }
    let known = id.as_deref().unwrap_or("id unknown");
    record(setup, name, &format!("removed, {known}"));
    printer.print_done(
        &json!({ "removed": name, "id": id }),
        format_args!("removed `{name}`"),
    )
}

fn record(setup: &HostSetup, name: &str, what: &str) {
    let event = AuditEvent::new(EventKind::ConfigChange, SystemTime::now());
    let subject = format!("key {name}");
    setup.record_event(&event.with_subject(&subject).with_detail(what));
}
