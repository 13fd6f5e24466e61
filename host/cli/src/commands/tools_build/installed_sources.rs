//! The record of the sources that the files in `.mimir/tools` were built from, in `.mimir/state`: two plugins with one
//! name must not replace each other.
//!
//! The record is not in the component, which must not differ between machines, and not in the folder of the plugin, which
//! may be deleted.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use mimir_core::ToolError;
use mimir_core::files::{self, LinkPolicy};
use serde::{Deserialize, Serialize};

use super::source_snapshot::SourceDigest;
use mimir::file_error::{file_error, write_atomically};
use mimir::setup::HostSetup;

/// Name of the record in `.mimir/state`.
const FILE: &str = "built.json";

/// Maximum size of the record in bytes.
const MAX_FILE_SIZE: u64 = 1 << 20;

/// Sources of installed components, by the names of their files.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct InstalledSources {
    files: BTreeMap<String, PluginSourceEntry>,
}

/// Source of an installed component.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct PluginSourceEntry {
    /// Absolute path of the entry file.
    entry: PathBuf,
    /// sha256 of the component.
    sha256: String,
    /// The sources of the build; missing if they were too large to be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sources: Option<SourceDigest>,
}

/// Comparison of an installed component with a plugin.
#[derive(Debug, PartialEq, Eq)]
pub enum SourceComparison {
    /// It was built from the plugin, or from one that no longer exists there: it may have been moved.
    Same,
    /// It was built from another plugin, which still exists: the path of its entry file.
    Other(PathBuf),
    /// The record does not tell. The file may come from a colleague, or from another program.
    Unknown,
}

impl InstalledSources {
    /// Reads the record. A record that is missing or not valid is empty.
    pub fn read(setup: &HostSetup) -> Self {
        let path = setup.workspace.state().join(FILE);
        let text = setup
            .workspace
            .check_no_links(&path)
            .ok()
            .and_then(|()| files::read_text(&path, LinkPolicy::Refuse, MAX_FILE_SIZE).ok());
        text.and_then(|text| serde_json::from_str(&text).ok())
            .unwrap_or_default()
    }

    /// Compares an installed component, given by the name and the sha256 of its file, with the plugin that has this entry
    /// file.
    pub fn compare(&self, file_name: &str, sha256: &str, entry: &Path) -> SourceComparison {
        match self.files.get(file_name) {
            // Another program may have replaced the component.
            Some(source) if source.sha256 != sha256 => SourceComparison::Unknown,
            Some(source) if source.entry == entry || !source.entry.is_file() => {
                SourceComparison::Same
            }
            Some(source) => SourceComparison::Other(source.entry.clone()),
            None => SourceComparison::Unknown,
        }
    }

    /// Returns true if the record has a file of this name, whatever its content.
    pub fn has(&self, file_name: &str) -> bool {
        self.files.contains_key(file_name)
    }

    /// Returns the entry file of the plugin that a component, given by the name and the sha256 of its file, was built from.
    pub fn entry_of(&self, file_name: &str, sha256: &str) -> Option<&Path> {
        let source = self.files.get(file_name)?;
        (source.sha256 == sha256).then_some(&source.entry)
    }

    /// Returns the sources of the build that was installed under this name.
    pub fn sources_of(&self, file_name: &str) -> Option<&SourceDigest> {
        self.files.get(file_name)?.sources.as_ref()
    }

    /// Records the source of a component that was installed.
    ///
    /// # Errors
    ///
    /// Fails if the record cannot be written.
    pub fn record(
        mut self,
        setup: &HostSetup,
        file_name: &str,
        sha256: &str,
        entry: &Path,
        sources: Option<SourceDigest>,
    ) -> Result<(), ToolError> {
        let source = PluginSourceEntry {
            entry: entry.to_owned(),
            sha256: sha256.to_owned(),
            sources,
        };
        let tools = setup.workspace.tools();
        self.files.insert(file_name.to_owned(), source);
        self.files.retain(|name, _| tools.join(name).exists());
        let path = setup.workspace.state_path(FILE)?;
        let text = serde_json::to_string_pretty(&self)
            .map_err(|error| ToolError::execution(error.to_string()))?;
        write_atomically(&path, text.as_bytes()).map_err(|e| file_error("write", &path, &e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn installed_component_is_compared_with_its_source() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        std::fs::write(path("a.py"), "").unwrap();
        let mut sources = InstalledSources::default();
        let compare = |sources: &InstalledSources, sha256: &str, entry: &str| {
            sources.compare("words.wasm", sha256, &path(entry))
        };
        assert_eq!(compare(&sources, "1a", "a.py"), SourceComparison::Unknown);
        let source = PluginSourceEntry {
            entry: path("a.py"),
            sha256: "1a".to_owned(),
            sources: None,
        };
        sources.files.insert("words.wasm".to_owned(), source);
        assert_eq!(compare(&sources, "1a", "a.py"), SourceComparison::Same);
        let other = SourceComparison::Other(path("a.py"));
        assert_eq!(compare(&sources, "1a", "b.py"), other);
        // A file of a colleague.
        assert_eq!(compare(&sources, "2b", "b.py"), SourceComparison::Unknown);
        std::fs::remove_file(path("a.py")).unwrap();
        assert_eq!(compare(&sources, "1a", "b.py"), SourceComparison::Same);
    }
}
