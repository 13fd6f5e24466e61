//! The names that secrets are kept by: two that are not the same have not the same name, so that one server's key goes
//! to no other.
//!
//! Never here: what is a secret.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// A secret that a server is given.
#[derive(Debug, Clone)]
pub struct Kept {
    /// What it is kept by.
    pub name: String,
    pub source: Source,
    /// The variable or header that it is for.
    pub key: String,
    /// Of a plain one: whether its first word says what it is, and is not kept.
    pub scheme: bool,
}

/// Where a secret comes from. From the same place it is the same one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// It stands there.
    Plain(String),
    /// A variable of the environment.
    Variable(String),
    /// What the agent asks the person for: the file that says so, and how it is called there.
    Input(String, String),
}

/// A server with secrets.
pub trait Server {
    /// What it is called.
    fn name(&self) -> &str;
    /// Its block, and its secrets.
    fn parts(&mut self) -> (&mut Value, &mut Vec<Kept>);
}

impl Kept {
    /// What the person should do.
    pub fn hint(&self) -> String {
        let Self { name, key, .. } = self;
        match &self.source {
            Source::Plain(_) => {
                let rest = match self.scheme {
                    true => " without its first word",
                    false => "",
                };
                format!(
                    "`{key}` looks like a secret in plain text, and is not written into the settings: `mimir secrets set {name}` keeps it{rest}"
                )
            }
            Source::Variable(there) | Source::Input(_, there) => {
                format!("`mimir secrets set {name}` keeps the secret that is `{there}` there")
            }
        }
    }
}

/// The name that a secret is kept by.
pub fn kept_as(name: &str) -> String {
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
    let name = name.chars().take(64);
    name.map(|c| if good(c) { c.to_ascii_uppercase() } else { '_' })
        .collect()
}

/// Gives secrets that are not the same one names of their own, made of the server's. `used` are those that servers in
/// the settings are given already. A variable of the environment keeps its name: whoever wrote it has named it.
pub fn apart<S: Server>(servers: &mut [&mut S], used: &BTreeSet<String>) {
    let mut wanted: BTreeMap<String, Vec<Source>> = BTreeMap::new();
    for server in servers.iter_mut() {
        for kept in server.parts().1.iter() {
            let sources = wanted.entry(kept.name.clone()).or_default();
            if !sources.contains(&kept.source) {
                sources.push(kept.source.clone());
            }
        }
    }
    let mut given: BTreeMap<String, Source> = BTreeMap::new();
    for server in servers.iter_mut() {
        let name = server.name().to_owned();
        let (block, all) = server.parts();
        for kept in all.iter_mut() {
            let its_own = matches!(&kept.source, Source::Variable(there) if *there == kept.name);
            let alone = wanted.get(&kept.name).is_none_or(|all| all.len() == 1);
            if its_own || (alone && !used.contains(&kept.name)) {
                continue;
            }
            let base = kept_as(&format!("{name}_{}", kept.name));
            let mut candidate = base.clone();
            let mut number = 1;
            while used.contains(&candidate)
                || wanted.contains_key(&candidate)
                || given
                    .get(&candidate)
                    .is_some_and(|other| *other != kept.source)
            {
                number += 1;
                let head = mimir_core::text::prefix(&base, 58);
                candidate = format!("{head}_{number}");
            }
            given.insert(candidate.clone(), kept.source.clone());
            renamed(block, &kept.name, &candidate);
            kept.name = candidate;
        }
    }
}

/// The block with another name in place of this one.
fn renamed(block: &mut Value, from: &str, to: &str) {
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
