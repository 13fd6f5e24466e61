//! The module of a plugin, and the modules that are written for it: what componentize-py starts with, and the facts about
//! the package.

use std::path::Path;

use mimir_core::ToolError;
use mimir_core::text::visible;
use serde_json::{Value, json};

use super::VENDOR;
use crate::commands::tools_build::plugin_folder::PackageFacts;

/// Name of the module that componentize-py imports.
pub const ENTRY: &str = "mimir_entry";

/// Names of modules that a plugin's module cannot have: it would replace one that the build needs.
const RESERVED: [&str; 6] = [
    ENTRY,
    "mimir",
    "mimir_package",
    "wit_world",
    "componentize_py_types",
    "componentize_py_runtime",
];

/// Imports the module and prints the report. A module for this machine (`.so`) is not found: in WebAssembly it could not
/// be imported either. The module of the plugin may end Python or print, so the report is the last line.
const DESCRIBE: &str = r#"
import sys, importlib.machinery as machinery
sys.pycache_prefix = "/none"
sdk, folder, vendor, module = FACTS
def sources(path):
    if path != folder and not path.startswith(folder + SEPARATOR):
        raise ImportError
    return machinery.FileFinder(path, (machinery.SourceFileLoader, machinery.SOURCE_SUFFIXES))
sys.path_hooks.insert(0, sources)
sys.path[:0] = [sdk, folder, vendor]
import mimir.describe
mimir.describe.main(module)
"#;

/// The module of a plugin.
#[derive(Debug, PartialEq, Eq)]
pub struct EntryModule {
    /// Name of the file, for messages.
    pub file_name: String,
    /// Name of the module.
    name: String,
}

impl EntryModule {
    /// Returns the module of the plugin's entry file.
    pub fn find(entry: &Path) -> Result<Self, ToolError> {
        let text = |part: Option<&std::ffi::OsStr>| {
            let part = part.unwrap_or_default();
            part.to_string_lossy().into_owned()
        };
        let (file_name, name) = (text(entry.file_name()), text(entry.file_stem()));
        let is_first = |c: char| c.is_ascii_alphabetic() || c == '_';
        let is_name = name.starts_with(is_first)
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !is_name || RESERVED.contains(&name.as_str()) {
            let shown = visible(&file_name);
            return Err(ToolError::invalid_input(format!(
                "{shown} cannot be the module of a plugin: expected a name such as tool.py, of ASCII letters, digits \
                 and _, that is not reserved for mimir"
            )));
        }
        Ok(Self { file_name, name })
    }

    /// Returns the script that imports the module and prints the [report](super::ModuleReport).
    pub fn describe_script(&self, sdk: &Path, folder: &Path) -> String {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let facts = json!([
            text(sdk),
            text(folder),
            text(&folder.join(VENDOR)),
            self.name
        ]);
        let separator = Value::from(std::path::MAIN_SEPARATOR_STR).to_string();
        let script = DESCRIBE.replacen("SEPARATOR", &separator, 1);
        script.replacen("FACTS", &facts.to_string(), 1)
    }

    /// Returns the names and texts of the modules that are written for the plugin.
    pub fn modules(&self, package: &PackageFacts) -> [(String, String); 2] {
        let name = &self.name;
        // Python must not use compiled files of the plugin: they can differ from the sources that a person reads.
        let entry = format!(
            "import sys\nsys.pycache_prefix = \"/none\"\nimport mimir_package\nimport {name}\nfrom mimir._export import Toolset\nfrom mimir._preload import preload\n\n\
             preload(\"{name}\")\n"
        );
        let literal = |fact: Option<&String>| match fact {
            // A JSON string is also a string of Python.
            Some(fact) => Value::from(fact.as_str()).to_string(),
            None => "None".to_owned(),
        };
        let facts = format!(
            "NAME = {}\nVERSION = {}\nDESCRIPTION = {}\nLICENSE = {}\nHOMEPAGE = {}\n",
            literal(Some(&package.name)),
            literal(Some(&package.version)),
            literal(package.description.as_ref()),
            literal(package.license.as_ref()),
            literal(package.homepage.as_ref()),
        );
        [
            (format!("{ENTRY}.py"), entry),
            ("mimir_package.py".to_owned(), facts),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn python_module_has_a_name_that_can_be_imported() {
        let module = EntryModule::find(Path::new("/p/word_count.py")).unwrap();
        assert_eq!(module.name, "word_count");
        for name in [
            "word-count.py",
            "1.py",
            "mimir.py",
            "mimir_entry.py",
            "ä.py",
        ] {
            let error = EntryModule::find(Path::new(name)).unwrap_err();
            assert!(error.message.starts_with(name), "{error}");
        }
    }

    #[test]
    fn python_facts_are_literals() {
        let module = EntryModule::find(Path::new("tool.py")).unwrap();
        let package = PackageFacts {
            name: "a".to_owned(),
            version: "1\"\nimport os".to_owned(),
            ..PackageFacts::default()
        };
        let [(_, entry), (name, facts)] = module.modules(&package);
        assert!(entry.contains("\nimport tool\n"), "{entry}");
        assert_eq!(name, "mimir_package.py");
        assert!(
            facts.contains("VERSION = \"1\\\"\\nimport os\"\n"),
            "{facts}"
        );
        assert!(facts.contains("LICENSE = None\n"), "{facts}");
    }

    #[test]
    fn python_script_quotes_paths() {
        let module = EntryModule::find(Path::new("tool.py")).unwrap();
        let script = module.describe_script(Path::new("/s"), Path::new("/a\"b"));
        let facts = r#"= ["/s","/a\"b","/a\"b/vendor","tool"]"#;
        assert!(cfg!(windows) || script.contains(facts), "{script}");
    }
}
