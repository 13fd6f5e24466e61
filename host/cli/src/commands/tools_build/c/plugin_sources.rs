//! The source files of a plugin in C or C++.

use std::path::Path;

use mimir_core::{ToolError, ToolErrorCode};

use super::super::PluginFolder;
use crate::args::PluginLanguage;
use mimir::file_error::file_error;

/// Maximum number of source files.
const MAX_SOURCES: usize = 1_000;

/// Folders with sources, relative to the folder of the plugin.
const FOLDERS: [&str; 2] = ["", "src"];

/// Paths of source files, relative to the folder of the plugin.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PluginSources {
    /// Sources in the language of the plugin.
    pub main: Vec<String>,
    /// Sources in C, of a plugin in C++.
    pub other: Vec<String>,
}

impl PluginSources {
    /// Finds the sources in the folder of a plugin and in `src`, without tests. A file with a name of its own, which the
    /// user named, is a plugin without other sources.
    pub fn find(folder: &PluginFolder) -> Result<Self, ToolError> {
        let entry = folder.entry.file_name().unwrap_or_default();
        let entry = entry.to_string_lossy().into_owned();
        if !entry.starts_with("tool.") {
            return Ok(Self {
                main: vec![argument(&entry)],
                other: Vec::new(),
            });
        }
        let mut sources = Self::default();
        for below in FOLDERS {
            sources.add_folder(&folder.root, below, folder.language)?;
        }
        sources.main.sort();
        sources.other.sort();
        Ok(sources)
    }

    /// Returns all sources.
    pub fn all(&self) -> impl Iterator<Item = &String> {
        self.main.iter().chain(&self.other)
    }

    fn add_folder(
        &mut self,
        root: &Path,
        below: &str,
        language: PluginLanguage,
    ) -> Result<(), ToolError> {
        let folder = root.join(below);
        if !folder.is_dir() {
            return Ok(());
        }
        let failure = |error: std::io::Error| file_error("read", &folder, &error);
        for entry in std::fs::read_dir(&folder).map_err(failure)? {
            let name = entry.map_err(failure)?.file_name();
            // The compiler gets its arguments as Unicode.
            let Some(name) = name.to_str() else { continue };
            let Some((stem, extension)) = name.rsplit_once('.') else {
                continue;
            };
            if stem.is_empty() || stem.starts_with("test") || !folder.join(name).is_file() {
                continue;
            }
            let path = match below {
                "" => argument(name),
                _ => format!("{below}/{name}"),
            };
            match (extension, language) {
                ("c", PluginLanguage::C) => self.main.push(path),
                ("c", _) => self.other.push(path),
                ("cc" | "cpp" | "cxx", PluginLanguage::Cpp) => self.main.push(path),
                _ => {}
            }
            if self.all().count() > MAX_SOURCES {
                let message =
                    format!("the plugin has more than {MAX_SOURCES} source files: split it");
                return Err(ToolError::new(ToolErrorCode::LimitExceeded, message));
            }
        }
        Ok(())
    }
}

/// Returns a file name as an argument that is not an option of the compiler.
fn argument(name: &str) -> String {
    if name.starts_with(['-', '@']) {
        format!("./{name}")
    } else {
        name.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(files: &[&str], entry: &str) -> PluginSources {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("src")).unwrap();
        for file in files {
            std::fs::write(folder.path().join(file), "").unwrap();
        }
        let found = PluginFolder::find(&folder.path().join(entry), None).unwrap();
        PluginSources::find(&found).unwrap()
    }

    #[test]
    fn c_sources_are_those_of_the_folder_without_tests() {
        let files = [
            "tool.c",
            "words.c",
            "src/deep.c",
            "test.c",
            "src/test_deep.c",
            "tool.h",
            ".c",
        ];
        let found = sources(&files, "");
        assert_eq!(found.main, ["src/deep.c", "tool.c", "words.c"]);
        assert!(found.other.is_empty());
    }

    #[test]
    fn cpp_plugin_may_have_sources_in_c() {
        let found = sources(&["tool.cpp", "words.cc", "table.c"], "");
        assert_eq!(found.main, ["tool.cpp", "words.cc"]);
        assert_eq!(found.other, ["table.c"]);
    }

    #[test]
    fn c_source_with_a_name_of_its_own_is_built_alone() {
        let found = sources(&["words.c", "other.c"], "words.c");
        assert_eq!(found.main, ["words.c"]);
    }

    #[test]
    fn c_source_whose_name_looks_like_an_option_is_a_file() {
        let found = sources(&["tool.c", "-fplugin=x.c", "@args.c"], "");
        assert_eq!(found.main, ["./-fplugin=x.c", "./@args.c", "tool.c"]);
    }
}
