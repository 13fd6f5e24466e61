//! Go on this machine, its caches, and the variables of its commands: for builds and for unit tests.

use std::path::{Path, PathBuf};

use mimir_core::ToolError;

use super::super::{BuildContext, BuildStep, PluginFolder};
use crate::commands::toolchains::{self, FoundToolchain, ProgramSearch, path_text};
use mimir::file_error::file_error;

/// Platform that Go compiles for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GoTarget {
    /// WebAssembly, for the component.
    Component,
    /// This machine, for unit tests.
    Native,
}

/// Go with its caches, for one plugin.
#[derive(Debug)]
pub struct GoEnvironment {
    toolchain: FoundToolchain,
    root: PathBuf,
    cache: PathBuf,
    modules: PathBuf,
}

impl GoEnvironment {
    /// Finds Go, and creates its cache.
    ///
    /// # Errors
    ///
    /// Fails if Go is missing or too old, or a folder cannot be created.
    pub fn find(cx: &BuildContext<'_>, folder: &PluginFolder) -> Result<Self, ToolError> {
        let search = folder.program_search();
        let toolchain = toolchains::find(folder.language, &search)?;
        let cache = cx.cache("go")?;
        let modules = module_cache(&toolchain, &search, &cache)?;
        Ok(Self {
            toolchain,
            root: folder.root.clone(),
            cache,
            modules,
        })
    }

    /// Returns true if Go has not compiled anything into its cache.
    pub fn has_new_cache(&self) -> bool {
        // Go writes it into a new cache.
        !self.cache.join("README").exists()
    }

    /// Returns the folder of downloaded modules.
    pub fn modules(&self) -> &Path {
        &self.modules
    }

    /// Creates a step that runs the go command with its caches. Go runs no code of the plugin when it compiles.
    pub fn step(&self, target: GoTarget, args: &[&str]) -> BuildStep {
        let mut command = self.toolchain.program.clone();
        command.extend(args.iter().map(|&arg| arg.to_owned()));
        let mut read_only = self.toolchain.roots.clone();
        read_only.push(self.modules.clone());
        BuildStep {
            compiler: "Go",
            args: command,
            read_only,
            caches: vec![self.cache.clone()],
            environment: variables(target, &self.root, &self.cache, &self.modules),
            ..BuildStep::default()
        }
    }
}

/// Returns the folder of modules that `go mod download` has written, or an empty one.
fn module_cache(
    toolchain: &FoundToolchain,
    search: &ProgramSearch,
    cache: &Path,
) -> Result<PathBuf, ToolError> {
    let answer = search.output(&toolchain.program, &["env", "GOMODCACHE"]);
    let folder = answer.map(|answer| PathBuf::from(answer.trim()));
    if let Some(folder) = folder.filter(|folder| folder.is_absolute() && folder.is_dir()) {
        return Ok(folder);
    }
    let empty = cache.with_file_name("go-modules");
    mimir_core::platform::create_private_folder(&empty, true)
        .map_err(|error| file_error("create", &empty, &error))?;
    Ok(empty)
}

/// Returns the variables of the compiler. Settings of the user's environment do not apply.
fn variables(target: GoTarget, root: &Path, cache: &Path, modules: &Path) -> Vec<(String, String)> {
    // The vendor folder of a workspace, which `go work vendor` makes.
    let has_vendor = root.join("vendor/modules.txt").is_file();
    let flags = if has_vendor {
        "-mod=vendor"
    } else {
        "-mod=readonly"
    };
    let platform: &[(&str, &str)] = match target {
        GoTarget::Component => &[("GOOS", "wasip1"), ("GOARCH", "wasm")],
        GoTarget::Native => &[],
    };
    let fixed = [
        ("CGO_ENABLED", "0"),
        ("GOENV", "off"),
        ("GOFLAGS", flags),
        ("GOPROXY", "off"),
        ("GOTOOLCHAIN", "local"),
        ("GOTELEMETRY", "off"),
    ];
    let paths = [
        ("GOCACHE", path_text(cache)),
        ("GOPATH", path_text(&cache.join("path"))),
        ("GOMODCACHE", path_text(modules)),
        ("GOWORK", path_text(&root.join("go.work"))),
    ];
    let fixed = platform.iter().copied().chain(fixed);
    let fixed = fixed.map(|(name, value)| (name, value.to_owned()));
    fixed
        .chain(paths)
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(target: GoTarget, root: &Path, name: &str) -> Option<String> {
        let variables = variables(target, root, Path::new("/c"), Path::new("/m"));
        let mut variables = variables.into_iter();
        Some(variables.find(|(key, _)| key == name)?.1)
    }

    #[test]
    fn go_commands_have_no_network_and_use_the_vendor_folder() {
        let folder = tempfile::tempdir().unwrap();
        for target in [GoTarget::Component, GoTarget::Native] {
            let value = |name| value(target, folder.path(), name).unwrap();
            assert_eq!(value("GOPROXY"), "off");
            assert_eq!(value("GOFLAGS"), "-mod=readonly");
            assert_eq!(value("GOMODCACHE"), "/m");
        }
        std::fs::create_dir(folder.path().join("vendor")).unwrap();
        std::fs::write(folder.path().join("vendor/modules.txt"), "").unwrap();
        let flags = value(GoTarget::Component, folder.path(), "GOFLAGS");
        assert_eq!(flags.as_deref(), Some("-mod=vendor"));
    }

    #[test]
    fn go_compiles_unit_tests_for_this_machine() {
        let platform = |target| value(target, Path::new("/p"), "GOOS");
        assert_eq!(platform(GoTarget::Component).as_deref(), Some("wasip1"));
        assert_eq!(platform(GoTarget::Native), None);
    }
}
