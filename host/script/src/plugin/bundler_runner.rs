//! Running of bundlers, which this crate leaves to its caller.

use std::path::{Path, PathBuf};

use mimir_core::ToolError;

/// Runs a bundler for [`build`](crate::build()). The program and its settings may come from the folder of the plugin, so
/// it runs in a sandbox.
pub trait BundlerRunner {
    /// Creates the folder that the bundler may change, in the folder of the plugin. It is empty, and its path is
    /// canonical.
    fn create_work_folder(&self) -> Result<PathBuf, ToolError>;

    /// Runs the bundler to its end in the folder of the plugin.
    fn run(
        &self,
        command: &BundlerCommand,
    ) -> impl Future<Output = Result<BundlerOutput, ToolError>>;

    /// Reads a file of the work folder. The bundler may have put a link there, which is an error.
    fn read(&self, file: &Path) -> Result<String, ToolError>;
}

/// A bundler with its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundlerCommand {
    /// Name of the bundler for messages.
    pub name: &'static str,
    /// Absolute path of the program.
    pub program: PathBuf,
    /// Arguments.
    pub args: Vec<String>,
    /// Files and folders outside of the folder of the plugin that the bundler reads.
    pub read_only: Vec<PathBuf>,
    /// The folder that the bundler may change.
    pub work_folder: PathBuf,
}

/// Output of a bundler that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundlerOutput {
    /// True if it succeeded.
    pub succeeded: bool,
    /// All that it printed.
    pub text: String,
}
