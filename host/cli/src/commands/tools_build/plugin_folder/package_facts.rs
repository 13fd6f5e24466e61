//! Facts about the package of a plugin, from the manifest of its language: `package.json`, `pyproject.toml`, or `go.mod`
//! with `mimir.json`.

use std::io;
use std::path::Path;

use mimir_core::ToolError;
use mimir_core::files::{LinkPolicy, read_text};
use mimir_core::text::visible;
use serde::Deserialize;
use serde_json::Value;

use crate::args::PluginLanguage;
use mimir::file_error::file_error;

/// Maximum size of a manifest in bytes.
const MAX_FILE_SIZE: u64 = 1 << 20;

/// Version of a plugin whose manifest has none.
const VERSION: &str = "0.1.0";

/// Maximum length of a name in characters.
const MAX_NAME_LENGTH: usize = 64;

/// Names of entry files that say nothing about the plugin.
const GENERIC_STEMS: [&str; 3] = ["tool", "tools", "index"];

/// Origin of a plugin's name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum NameOrigin {
    /// The name of the folder.
    #[default]
    Folder,
    /// The name of the entry file.
    EntryFile,
    /// A manifest of this name.
    Manifest(&'static str),
}

/// Facts about the package of a plugin.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PackageFacts {
    /// Name, in characters that a file name can have everywhere.
    pub name: String,
    /// Origin of the name.
    pub name_origin: NameOrigin,
    /// Version.
    pub version: String,
    /// One sentence about the plugin.
    pub description: Option<String>,
    /// License, as an SPDX expression.
    pub license: Option<String>,
    /// Address of its home page.
    pub homepage: Option<String>,
}

/// The fields of `mimir.json`, for languages whose manifest has no such fields.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct PackageFile {
    name: Option<String>,
    /// Name of the manifest that has the name.
    #[serde(skip)]
    named_in: &'static str,
    version: Option<String>,
    description: Option<String>,
    license: Option<String>,
    homepage: Option<String>,
}

impl PackageFacts {
    /// Reads the facts of the plugin in the folder `root`. An entry file with a name of its own names the plugin, else
    /// its manifest or its folder does.
    pub fn read(language: PluginLanguage, root: &Path, entry: &Path) -> Result<Self, ToolError> {
        let file = match language {
            PluginLanguage::TypeScript | PluginLanguage::JavaScript => package_json(root),
            PluginLanguage::Python => pyproject(root)?,
            PluginLanguage::Go => go_module(root)?,
            // Cargo reads its own manifest. C and Zig state the facts in their source.
            PluginLanguage::Rust
            | PluginLanguage::C
            | PluginLanguage::Cpp
            | PluginLanguage::Zig => PackageFile::default(),
        };
        let stem = |path: &Path| {
            let stem = path.file_stem().unwrap_or_default();
            stem.to_string_lossy().into_owned()
        };
        let is_manifest = matches!(language, PluginLanguage::Rust | PluginLanguage::Go);
        let stem_of_entry = stem(entry);
        let (name, name_origin) = match file.name {
            _ if !is_manifest && !GENERIC_STEMS.contains(&stem_of_entry.as_str()) => {
                (stem_of_entry, NameOrigin::EntryFile)
            }
            Some(name) => (name, NameOrigin::Manifest(file.named_in)),
            None => {
                let folder = Some(stem(root)).filter(|name| !name.is_empty());
                (folder.unwrap_or(stem_of_entry), NameOrigin::Folder)
            }
        };
        let name_origin = match language {
            // Its build names the file after the manifest.
            PluginLanguage::Rust => NameOrigin::Manifest("Cargo.toml"),
            _ => name_origin,
        };
        let text = |text: Option<String>| {
            let text = text.map(|text| text.trim().to_owned());
            text.filter(|text| !text.is_empty())
        };
        Ok(Self {
            name: file_name(&name),
            name_origin,
            version: text(file.version).unwrap_or_else(|| VERSION.to_owned()),
            description: text(file.description),
            license: text(file.license),
            homepage: text(file.homepage),
        })
    }
}

/// Returns a name for files, of lower-case ASCII letters, digits, `_` and `-`.
fn file_name(name: &str) -> String {
    let name = name.rsplit('/').next().unwrap_or_default();
    let is_valid = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let name: String = name
        .chars()
        .map(|c| {
            if is_valid(c) {
                c.to_ascii_lowercase()
            } else {
                '_'
            }
        })
        .take(MAX_NAME_LENGTH)
        .collect();
    match name.trim_matches('_') {
        "" => "tools".to_owned(),
        name => name.to_owned(),
    }
}

/// Reads a manifest. Returns `None` if it does not exist. A link is an error: messages about the manifest quote its text.
fn read_manifest(path: &Path) -> Result<Option<String>, ToolError> {
    match read_text(path, LinkPolicy::Refuse, MAX_FILE_SIZE) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(file_error("read", path, &error)),
    }
}

fn invalid(path: &Path, why: impl std::fmt::Display) -> ToolError {
    let shown = visible(&path.display().to_string());
    ToolError::invalid_input(format!("{shown} is not valid: {why}"))
}

/// Reads `package.json`. A file that is not valid counts as missing: other tools report it.
fn package_json(root: &Path) -> PackageFile {
    let text = read_manifest(&root.join("package.json"));
    let text = text.ok().flatten().unwrap_or_default();
    let package: Value = serde_json::from_str(&text).unwrap_or_default();
    let field = |key: &str| {
        let text = package[key].as_str().map(str::trim);
        text.filter(|text| !text.is_empty()).map(str::to_owned)
    };
    PackageFile {
        name: field("name"),
        named_in: "package.json",
        version: field("version"),
        description: field("description"),
        license: field("license"),
        homepage: field("homepage"),
    }
}

/// Reads the table `project` of `pyproject.toml`.
fn pyproject(root: &Path) -> Result<PackageFile, ToolError> {
    let path = root.join("pyproject.toml");
    let Some(text) = read_manifest(&path)? else {
        return Ok(PackageFile::default());
    };
    let manifest: toml::Table = text.parse().map_err(|error| invalid(&path, error))?;
    let project = manifest.get("project").and_then(toml::Value::as_table);
    let text = |value: Option<&toml::Value>| value.and_then(toml::Value::as_str).map(str::to_owned);
    let field = |key: &str| text(project.and_then(|project| project.get(key)));
    let in_table = |table: &str, key: &str| {
        let table = project?.get(table)?.as_table()?;
        let (_, value) = table
            .iter()
            .find(|(other, _)| other.eq_ignore_ascii_case(key))?;
        text(Some(value))
    };
    Ok(PackageFile {
        name: field("name"),
        named_in: "pyproject.toml",
        version: field("version"),
        description: field("description"),
        license: field("license").or_else(|| in_table("license", "text")),
        homepage: in_table("urls", "homepage"),
    })
}

/// Reads the module's name from `go.mod`, and other facts from `mimir.json`.
fn go_module(root: &Path) -> Result<PackageFile, ToolError> {
    let module = read_manifest(&root.join("go.mod"))?.unwrap_or_default();
    let name = module.lines().find_map(|line| {
        let name = line.trim().strip_prefix("module ")?.trim();
        Some(name.trim_matches('"').to_owned())
    });
    let path = root.join("mimir.json");
    let file = match read_manifest(&path)? {
        Some(text) => serde_json::from_str(&text).map_err(|error| invalid(&path, error))?,
        None => PackageFile::default(),
    };
    let named_in = if file.name.is_some() {
        "mimir.json"
    } else {
        "go.mod"
    };
    Ok(PackageFile {
        name: file.name.clone().or(name),
        named_in,
        ..file
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(
        language: PluginLanguage,
        entry: &str,
        files: &[(&str, &str)],
    ) -> Result<PackageFacts, ToolError> {
        let parent = tempfile::tempdir().unwrap();
        let root = parent.path().join("Word Count");
        std::fs::create_dir(&root).unwrap();
        for (name, text) in files {
            std::fs::write(root.join(name), text).unwrap();
        }
        PackageFacts::read(language, &root, &root.join(entry))
    }

    #[test]
    fn plugin_name_comes_from_package_file_or_folder() {
        let name = |entry: &str, package: &str| {
            let files = [("package.json", package)];
            facts(PluginLanguage::TypeScript, entry, &files)
                .unwrap()
                .name
        };
        assert_eq!(name("tools.ts", ""), "word_count");
        assert_eq!(name("tools.ts", r#"{"name": "@me/words"}"#), "words");
        assert_eq!(name("fib.ts", r#"{"name": "x"}"#), "fib");
        assert_eq!(name("ä.ts", ""), "tools");
    }

    #[test]
    fn plugin_name_has_the_origin_that_changes_it() {
        let origin = |language, entry: &str, files: &[(&str, &str)]| {
            facts(language, entry, files).unwrap().name_origin
        };
        let package = [("package.json", r#"{"name": "words"}"#)];
        let typescript = PluginLanguage::TypeScript;
        assert_eq!(
            origin(typescript, "tool.ts", &package),
            NameOrigin::Manifest("package.json")
        );
        assert_eq!(
            origin(typescript, "fib.ts", &package),
            NameOrigin::EntryFile
        );
        assert_eq!(origin(typescript, "tool.ts", &[]), NameOrigin::Folder);
        let module = [("go.mod", "module words\n")];
        let go = origin(PluginLanguage::Go, "go.mod", &module);
        assert_eq!(go, NameOrigin::Manifest("go.mod"));
    }

    #[test]
    fn python_package_facts_come_from_pyproject() {
        let text = "[project]\nname = \"words\"\nversion = \"2.0\"\ndescription = \" Counts. \"\n\
            license = {text = \"MIT\"}\n[project.urls]\nHomepage = \"https://example.com\"\n";
        let files = [("pyproject.toml", text)];
        let found = facts(PluginLanguage::Python, "tool.py", &files).unwrap();
        let expected = PackageFacts {
            name: "words".to_owned(),
            name_origin: NameOrigin::Manifest("pyproject.toml"),
            version: "2.0".to_owned(),
            description: Some("Counts.".to_owned()),
            license: Some("MIT".to_owned()),
            homepage: Some("https://example.com".to_owned()),
        };
        assert_eq!(found, expected);
        let broken = [("pyproject.toml", "[project")];
        let error = facts(PluginLanguage::Python, "tool.py", &broken).unwrap_err();
        assert!(
            error.message.contains("pyproject.toml is not valid"),
            "{error:?}"
        );
    }

    #[cfg(unix)]
    #[test]
    fn package_manifest_that_is_a_link_is_refused_without_its_text() {
        let folder = tempfile::tempdir().unwrap();
        let secret = folder.path().join("secret");
        std::fs::write(&secret, "[token = 123").unwrap();
        let root = folder.path().join("plugin");
        std::fs::create_dir(&root).unwrap();
        std::os::unix::fs::symlink(&secret, root.join("pyproject.toml")).unwrap();
        let found = PackageFacts::read(PluginLanguage::Python, &root, &root.join("tool.py"));
        let message = found.unwrap_err().message;
        assert!(
            !message.contains("123") && message.contains("link"),
            "{message}"
        );
    }

    #[test]
    fn go_package_facts_come_from_module_and_mimir_json() {
        let module = ("go.mod", "// x\nmodule example.com/me/words\n\ngo 1.25\n");
        let found = facts(PluginLanguage::Go, "go.mod", &[module]).unwrap();
        assert_eq!(
            (found.name.as_str(), found.version.as_str()),
            ("words", "0.1.0")
        );
        let file = ("mimir.json", r#"{"version": "1.2.3", "license": "MIT"}"#);
        let found = facts(PluginLanguage::Go, "go.mod", &[module, file]).unwrap();
        assert_eq!(
            (found.name.as_str(), found.version.as_str()),
            ("words", "1.2.3")
        );
        let unknown = ("mimir.json", r#"{"licence": "MIT"}"#);
        let error = facts(PluginLanguage::Go, "go.mod", &[module, unknown]).unwrap_err();
        assert!(error.message.contains("licence"), "{error:?}");
    }
}
