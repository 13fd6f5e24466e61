//! Names of keys by their ids, for messages.

use std::collections::BTreeMap;
use std::path::Path;

use mimir_core::text::visible;

use crate::setup::HostSetup;
use crate::signing_keys::UserKeys;

use super::approval_record::read_key;
use super::authoring_folder::AuthoringFolder;

/// Names of the user's keys, and of the key files that `team.yml` names. A name is for display only.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyNames(BTreeMap<String, String>);

impl KeyNames {
    /// Reads the names of keys. What cannot be read has no name.
    pub fn read(setup: &HostSetup, folder: &AuthoringFolder) -> Self {
        let manifest = &folder.manifest;
        let listed = manifest.keys.iter().chain(&manifest.review_keys);
        let listed = listed.filter_map(|file| {
            let id = read_key(folder.root(), file).ok()?.id();
            let stem = Path::new(file).file_stem()?.to_str()?;
            Some((id, stem.to_owned()))
        });
        let own = UserKeys::new(&setup.user_dirs).and_then(|keys| keys.list());
        let own = own.unwrap_or_default();
        let own = own.into_iter().map(|key| (key.public.id(), key.name));
        // The user's own names last, because they replace others.
        Self(listed.chain(own).collect())
    }

    /// Returns the name of a key.
    pub fn name(&self, id: &str) -> Option<&str> {
        self.0.get(id).map(String::as_str)
    }

    /// Returns the id of a key, with its name if there is one.
    pub fn describe(&self, id: &str) -> String {
        match self.name(id) {
            Some(name) => format!("{id} ({})", visible(name)),
            None => id.to_owned(),
        }
    }
}

impl FromIterator<(String, String)> for KeyNames {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(names: I) -> Self {
        Self(names.into_iter().collect())
    }
}
