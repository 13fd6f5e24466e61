//! Names for imported secrets: different secrets get different names, so that a server's key is never sent to another
//! server.
//!
//! Out of scope: detecting secrets.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::ImportedServer;

/// A secret that an imported server receives.
#[derive(Debug, Clone)]
pub struct ImportedSecret {
    /// Name of the secret in the secret store.
    pub name: String,
    pub source: SecretSource,
    /// Variable or header that contains the secret.
    pub key: String,
    /// For a plain-text secret: true if its first word is a scheme, such as `Bearer`, which is not stored.
    pub scheme: bool,
}

/// Origin of a secret. Secrets with equal origins are equal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretSource {
    /// Plain text in the file.
    Plain(String),
    /// An environment variable.
    Variable(String),
    /// An input for which the agent prompts: the file, and the id of the input.
    Input(String, String),
}

impl ImportedSecret {
    /// Tells the user how to store the secret.
    pub fn hint(&self) -> String {
        let Self { name, key, .. } = self;
        match &self.source {
            SecretSource::Plain(_) => {
                let rest = if self.scheme {
                    " without its first word"
                } else {
                    ""
                };
                format!(
                    "`{key}` looks like a plain-text secret and is not written to the settings: store it with `mimir secrets set {name}`{rest}"
                )
            }
            SecretSource::Variable(variable) | SecretSource::Input(_, variable) => {
                format!("store the secret `{variable}` with `mimir secrets set {name}`")
            }
        }
    }
}

/// Converts a name to a valid name in the secret store.
pub fn stored_name(name: &str) -> String {
    let is_valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
    let name = name.chars().take(64);
    name.map(|c| {
        if is_valid(c) {
            c.to_ascii_uppercase()
        } else {
            '_'
        }
    })
    .collect()
}

/// Gives different secrets different names, derived from the names of their servers. `used` are the names that
/// configured servers use. A secret from an environment variable keeps the name of the variable, which the user chose.
pub fn rename_conflicting(servers: &mut [&mut ImportedServer], used: &BTreeSet<String>) {
    let mut sources_by_name: BTreeMap<String, Vec<SecretSource>> = BTreeMap::new();
    for server in servers.iter_mut() {
        for secret in &server.secrets {
            let sources = sources_by_name.entry(secret.name.clone()).or_default();
            if !sources.contains(&secret.source) {
                sources.push(secret.source.clone());
            }
        }
    }
    let mut given: BTreeMap<String, SecretSource> = BTreeMap::new();
    for server in servers.iter_mut() {
        for secret in &mut server.secrets {
            let is_variable = matches!(&secret.source, SecretSource::Variable(variable) if *variable == secret.name);
            let is_unique = sources_by_name
                .get(&secret.name)
                .is_none_or(|sources| sources.len() == 1);
            if is_variable || (is_unique && !used.contains(&secret.name)) {
                continue;
            }
            let base = stored_name(&format!("{}_{}", server.name, secret.name));
            let mut candidate = base.clone();
            let mut number = 1;
            while used.contains(&candidate)
                || sources_by_name.contains_key(&candidate)
                || given
                    .get(&candidate)
                    .is_some_and(|other| *other != secret.source)
            {
                number += 1;
                let head = mimir_core::text::prefix(&base, 58);
                candidate = format!("{head}_{number}");
            }
            given.insert(candidate.clone(), secret.source.clone());
            rename_references(&mut server.block, &secret.name, &candidate);
            secret.name = candidate;
        }
    }
}

/// Replaces the references to a secret in a block.
fn rename_references(block: &mut Value, from: &str, to: &str) {
    let (from, to) = (format!("${{{from}}}"), format!("${{{to}}}"));
    for key in ["env", "headers"] {
        let values = block.get_mut(key).and_then(Value::as_object_mut);
        for value in values.into_iter().flat_map(|all| all.values_mut()) {
            if let Value::String(text) = value {
                *text = text.replace(&from, &to);
            }
        }
    }
}
