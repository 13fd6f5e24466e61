//! The folder of a plugin: its language, its entry file, and the facts about its package.
//!
//! Out of scope: building it.

use std::path::{Path, PathBuf};

use mimir_core::text::visible;
use mimir_core::{ToolError, ToolErrorCode};

use crate::args::PluginLanguage;
use crate::commands::toolchains::{self, FoundToolchain, ProgramSearch, contains_home};
use crate::exit::{CommandFailure, CommandResult, ExitReason};
use mimir::file_error::file_error;

mod package_facts;

pub use package_facts::{NameOrigin, PackageFacts};

/// A folder with the sources of a plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginFolder {
    /// Language of the sources.
    pub language: PluginLanguage,
    /// Canonical path of the folder.
    pub root: PathBuf,
    /// The file by which the language was found: the source file, or the manifest of the language.
    pub entry: PathBuf,
    /// Path of `entry` for messages: as the user wrote it.
    pub shown: PathBuf,
    /// The path watched for changes: the file that the user named, or else the folder.
    pub watched: PathBuf,
    /// Name, version and other facts.
    pub package: PackageFacts,
}

/// Files by which the language of a folder is found. The first one of a language is its entry file.
const ENTRY_FILES: [(PluginLanguage, &[&str]); 8] = [
    (PluginLanguage::Rust, &["Cargo.toml"]),
    (PluginLanguage::Go, &["go.mod"]),
    (PluginLanguage::Zig, &["tool.zig"]),
    (PluginLanguage::Python, &["tool.py"]),
    (
        PluginLanguage::TypeScript,
        &["tool.ts", "tools.ts", "index.ts"],
    ),
    (
        PluginLanguage::JavaScript,
        &["tool.js", "tools.js", "index.js"],
    ),
    (PluginLanguage::C, &["tool.c"]),
    (PluginLanguage::Cpp, &["tool.cpp", "tool.cc", "tool.cxx"]),
];

/// Folder in the folder of a plugin with all files that builds write. Rust has `target` instead.
pub const BUILD_FOLDER: &str = ".mimir-build";

impl PluginFolder {
    /// Finds the plugin at a path: a folder, or a source file. `requested` is the language that the user names.
    pub fn find(path: &Path, requested: Option<PluginLanguage>) -> CommandResult<Self> {
        let usage = |error| CommandFailure::with_exit(error, ExitReason::Usage);
        let real = path
            .canonicalize()
            .map_err(|error| usage(file_error("find", path, &error)))?;
        let found = if real.is_dir() {
            find_in_folder(path, &real, requested)
        } else {
            match language_of_file(&real).or(requested) {
                Some(language) => Ok((language, real.clone())),
                None => Err(not_plugin(path, None)),
            }
        };
        let (language, entry) = found.map_err(usage)?;
        if requested.is_some_and(|requested| requested != language) {
            return Err(usage(not_plugin(path, requested)));
        }
        let root = entry.parent().unwrap_or(&real).to_owned();
        if contains_home(&root) {
            return Err(usage(not_separate(path, &root)));
        }
        let is_manifest = matches!(language, PluginLanguage::Rust | PluginLanguage::Go);
        Ok(Self {
            package: PackageFacts::read(language, &root, &entry)?,
            watched: if real.is_dir() || is_manifest {
                root.clone()
            } else {
                entry.clone()
            },
            shown: match entry.file_name().filter(|_| real.is_dir()) {
                Some(name) => path.join(name),
                None => path.to_owned(),
            },
            language,
            root,
            entry,
        })
    }

    /// Returns true for a file that is the source of a plugin, by its name.
    pub fn is_source(path: &Path) -> bool {
        language_of_file(path).is_some() && path.is_file()
    }

    /// Creates a search for programs, which finds none in the folder of the plugin.
    pub fn program_search(&self) -> ProgramSearch {
        ProgramSearch::outside(Some(&self.root))
    }

    /// Finds the compiler of the language.
    pub fn toolchain(&self) -> Result<FoundToolchain, ToolError> {
        Ok(toolchains::find(self.language, &self.program_search())?)
    }

    /// Returns the name of the component's file.
    pub fn component_name(&self) -> PathBuf {
        PathBuf::from(format!("{}.wasm", self.package.name))
    }

    /// Returns the path of a file in the folder for messages: relative to the current folder if the user wrote the path so.
    pub fn shown_path(&self, file: &str) -> PathBuf {
        let folder = self.shown.parent().unwrap_or(Path::new(""));
        folder.strip_prefix(".").unwrap_or(folder).join(file)
    }

    /// Returns the step that gives the plugin another name.
    pub fn rename_step(&self) -> String {
        let shown = |path: &Path| visible(&path.display().to_string());
        match self.package.name_origin {
            NameOrigin::Manifest(name) => format!(
                "change the name of the plugin in {}",
                shown(&self.shown_path(name))
            ),
            NameOrigin::EntryFile => format!("rename {}", shown(&self.shown)),
            NameOrigin::Folder => {
                let folder = self.shown_path("");
                // The current folder has no name in its path.
                let folder = if folder.as_os_str().is_empty() {
                    &self.root
                } else {
                    &folder
                };
                format!("rename the folder {}", shown(folder).trim_end_matches('/'))
            }
        }
    }

    /// Returns the folder for the files that the build writes, and creates it. Fails if it is a link, which could lead
    /// out of the folder of the plugin.
    pub fn build_folder(&self) -> Result<PathBuf, ToolError> {
        let folder = self.root.join(BUILD_FOLDER);
        self.create_folder(&folder)?;
        Ok(folder)
    }

    /// Creates a folder in the folder of the plugin. Fails if a part of its path is a link.
    pub fn create_folder(&self, folder: &Path) -> Result<(), ToolError> {
        mimir_core::files::reject_links(&self.root, folder)
            .and_then(|()| std::fs::create_dir_all(folder))
            .map_err(|error| file_error("create", folder, &error))
    }
}

fn find_in_folder(
    path: &Path,
    folder: &Path,
    requested: Option<PluginLanguage>,
) -> Result<(PluginLanguage, PathBuf), ToolError> {
    let entry = |(language, names): &(PluginLanguage, &[&'static str])| {
        let mut names = names.iter().filter(|name| folder.join(name).is_file());
        names.next().map(|name| (*language, *name))
    };
    let found: Vec<(PluginLanguage, &str)> = ENTRY_FILES
        .iter()
        .filter(|(language, _)| requested.is_none_or(|requested| requested == *language))
        .filter_map(entry)
        .collect();
    match found[..] {
        [] => Err(not_plugin(path, requested)),
        [(language, name)] => Ok((language, folder.join(name))),
        // A folder with a TypeScript file and what a compiler made of it.
        [
            (PluginLanguage::TypeScript, name),
            (PluginLanguage::JavaScript, _),
        ] => Ok((PluginLanguage::TypeScript, folder.join(name))),
        [(language, first), (_, second), ..] => Err(ToolError::invalid_input(format!(
            "{} has {first} and {second}: name the language with `--lang {}`",
            visible(&path.display().to_string()),
            language.as_str()
        ))),
    }
}

/// Returns the language of a source file or a manifest.
fn language_of_file(file: &Path) -> Option<PluginLanguage> {
    let name = file.file_name()?.to_str()?;
    let is_entry = |(_, names): &&(PluginLanguage, &[&str])| names.contains(&name);
    if let Some((language, _)) = ENTRY_FILES.iter().find(is_entry) {
        return Some(*language);
    }
    Some(match file.extension()?.to_str()? {
        "ts" | "mts" => PluginLanguage::TypeScript,
        "js" | "mjs" => PluginLanguage::JavaScript,
        "py" => PluginLanguage::Python,
        "c" => PluginLanguage::C,
        "cc" | "cpp" | "cxx" => PluginLanguage::Cpp,
        "zig" => PluginLanguage::Zig,
        _ => return None,
    })
}

/// Returns the error for a plugin in the home folder, all files of which its build could read.
fn not_separate(path: &Path, root: &Path) -> ToolError {
    let shown = |path: &Path| visible(&path.display().to_string());
    let (path, root) = (shown(path), shown(root));
    let message = format!(
        "{path} is in {root}, and a build can read the folder of its plugin, here your home folder: expected a folder with the files of the plugin only; put it into a folder of its own"
    );
    ToolError::new(ToolErrorCode::InvalidPath, message)
}

fn not_plugin(path: &Path, requested: Option<PluginLanguage>) -> ToolError {
    let shown = visible(&path.display().to_string());
    let message = match requested {
        Some(language) => {
            let names = ENTRY_FILES.iter().find(|(other, _)| *other == language);
            let names = names.map_or("", |(_, names)| names[0]);
            let title = language.title();
            format!("{shown} is not a plugin in {title}: expected {names}")
        }
        None => format!(
            "{shown} is not a plugin: expected Cargo.toml, go.mod, tool.py, tool.ts, tool.js, tool.c, tool.cpp or \
             tool.zig; `mimir tools new NAME` creates one"
        ),
    };
    ToolError::new(ToolErrorCode::FileNotFound, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for file in files {
            std::fs::write(folder.path().join(file), "").unwrap();
        }
        folder
    }

    fn language(
        files: &[&str],
        requested: Option<PluginLanguage>,
    ) -> CommandResult<PluginLanguage> {
        let folder = folder(files);
        PluginFolder::find(folder.path(), requested).map(|found| found.language)
    }

    #[test]
    fn plugin_language_is_found_by_the_entry_file() {
        for (file, expected) in [
            ("Cargo.toml", PluginLanguage::Rust),
            ("go.mod", PluginLanguage::Go),
            ("tool.zig", PluginLanguage::Zig),
            ("tool.py", PluginLanguage::Python),
            ("tools.ts", PluginLanguage::TypeScript),
            ("index.js", PluginLanguage::JavaScript),
            ("tool.c", PluginLanguage::C),
            ("tool.cxx", PluginLanguage::Cpp),
        ] {
            assert_eq!(language(&[file], None).unwrap(), expected, "{file}");
        }
        let both = language(&["Cargo.toml", "package.json"], None);
        assert_eq!(both.unwrap(), PluginLanguage::Rust);
        let compiled = language(&["tool.ts", "tool.js"], None);
        assert_eq!(compiled.unwrap(), PluginLanguage::TypeScript);
    }

    #[test]
    fn plugin_in_two_languages_needs_the_option() {
        let files = ["tool.py", "tool.zig"];
        let error = language(&files, None).unwrap_err().to_string();
        assert!(error.contains("tool.zig and tool.py"), "{error}");
        assert!(error.contains("--lang zig"), "{error}");
        let chosen = language(&files, Some(PluginLanguage::Python));
        assert_eq!(chosen.unwrap(), PluginLanguage::Python);
        let missing = language(&files, Some(PluginLanguage::Go)).unwrap_err();
        assert!(missing.to_string().contains("expected go.mod"), "{missing}");
    }

    #[test]
    fn plugin_file_is_found_by_its_extension() {
        let folder = folder(&["words.mts", "notes.txt", "fib.py", "Cargo.toml"]);
        let find = |file: &str| PluginFolder::find(&folder.path().join(file), None);
        assert_eq!(
            find("words.mts").unwrap().language,
            PluginLanguage::TypeScript
        );
        let python = find("fib.py").unwrap();
        assert_eq!(python.language, PluginLanguage::Python);
        assert_eq!(python.package.name, "fib");
        assert_eq!(find("Cargo.toml").unwrap().language, PluginLanguage::Rust);
        let error = find("notes.txt").unwrap_err().to_string();
        assert!(error.contains("expected Cargo.toml"), "{error}");
        assert!(find("nothing.py").is_err());
    }

    #[test]
    fn plugin_in_the_home_folder_is_refused() {
        let home = std::env::home_dir().unwrap();
        let above = home.ancestors().last().unwrap().to_owned();
        for root in [home, above] {
            assert!(contains_home(&root), "{root:?}");
            let message = not_separate(Path::new("fib.py"), &root).message;
            assert!(message.contains("a folder of its own"), "{message}");
        }
    }

    #[test]
    fn plugin_that_is_one_file_is_watched_alone() {
        let folder = folder(&["fib.py", "tool.ts", "go.mod"]);
        let root = folder.path().canonicalize().unwrap();
        let watched = |path: &Path, language| PluginFolder::find(path, language).unwrap().watched;
        assert_eq!(watched(&root.join("fib.py"), None), root.join("fib.py"));
        assert_eq!(watched(&root.join("go.mod"), None), root);
        let language = Some(PluginLanguage::TypeScript);
        assert_eq!(watched(&root, language), root);
    }

    #[test]
    fn plugin_paths_are_shown_as_the_user_wrote_them() {
        let found = |shown: &str, name_origin| PluginFolder {
            language: PluginLanguage::Python,
            root: PathBuf::from("/w/words"),
            entry: PathBuf::from("/w/words/tool.py"),
            shown: PathBuf::from(shown),
            watched: PathBuf::new(),
            package: PackageFacts {
                name_origin,
                ..PackageFacts::default()
            },
        };
        for (shown, expected) in [
            ("words/tool.py", "words/a.py"),
            ("./tool.py", "a.py"),
            ("tool.py", "a.py"),
            ("../words/tool.py", "../words/a.py"),
        ] {
            let path = found(shown, NameOrigin::Folder).shown_path("a.py");
            assert_eq!(path, Path::new(expected), "{shown}");
        }
        let step = |shown: &str, origin| found(shown, origin).rename_step();
        assert_eq!(
            step("words/tool.py", NameOrigin::Folder),
            "rename the folder words"
        );
        assert_eq!(
            step("./tool.py", NameOrigin::Folder),
            "rename the folder /w/words"
        );
        assert_eq!(step("a/fib.py", NameOrigin::EntryFile), "rename a/fib.py");
        assert_eq!(
            step("words/tool.py", NameOrigin::Manifest("pyproject.toml")),
            "change the name of the plugin in words/pyproject.toml"
        );
    }

    #[cfg(unix)]
    #[test]
    fn build_folder_that_is_a_link_is_refused() {
        let outside = tempfile::tempdir().unwrap();
        let folder = folder(&["tool.py"]);
        let found = PluginFolder::find(folder.path(), None).unwrap();
        assert!(found.build_folder().unwrap().is_dir());
        std::fs::remove_dir(folder.path().join(BUILD_FOLDER)).unwrap();
        std::os::unix::fs::symlink(outside.path(), folder.path().join(BUILD_FOLDER)).unwrap();
        assert!(found.build_folder().is_err());
    }
}
