//! Facts about this build: version, commit, target and engine.

use std::sync::LazyLock;

use mimir_wasm::WASMTIME_VERSION;
use serde::Serialize;

/// Facts about this build, for bug reports.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct BuildFacts {
    /// The version.
    pub version: &'static str,
    /// The commit; `None` for a debug build, and for a build from a source archive.
    pub commit: Option<&'static str>,
    /// The target triple.
    pub target: &'static str,
    /// The version of wasmtime.
    pub wasmtime: &'static str,
}

/// The facts about this build.
pub const BUILD: BuildFacts = BuildFacts {
    version: env!("CARGO_PKG_VERSION"),
    commit: option_env!("BUILD_COMMIT"),
    target: env!("BUILD_TARGET"),
    wasmtime: WASMTIME_VERSION,
};

/// Returns the text of `mimir --version` after the name.
pub fn long_version() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(build_text);
    &TEXT
}

fn build_text() -> String {
    let BuildFacts {
        version,
        target,
        wasmtime,
        ..
    } = BUILD;
    let commit = match BUILD.commit {
        Some(commit) => format!("commit: {commit}"),
        // Also a release build can have debug assertions.
        None if env!("BUILD_PROFILE") == "debug" => {
            "commit: not recorded in a debug build".to_owned()
        }
        None => "commit: unknown, built without git".to_owned(),
    };
    format!("{version}\n{commit}\ntarget: {target}\nengine: wasmtime {wasmtime}")
}
