//! Calls of the cases, each with all checks, in a workspace of its own.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use mimir_core::ToolError;
use mimir_core::text::visible;
use mimir_core::tool::ToolSource;
use serde::Serialize;
use serde_json::{Value, json};

use super::cases::PluginCase;
use crate::commands::tools_build::BuiltComponent;
use mimir::Host;
use mimir::file_error::{file_error, write_atomically};
use mimir::private_files::{self, FileReaders};
use mimir::settings::MergedSettings;

mod case_approver;

use case_approver::CaseApprover;

/// Result of one case.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CaseReport {
    /// Name of the case.
    pub name: String,
    /// True if the outcome of the call is as expected.
    pub passed: bool,
    /// Duration of the call in milliseconds.
    pub duration_ms: f64,
    /// Difference between the outcome and the expectation, in several lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub difference: Option<String>,
}

/// Runner of the cases of a plugin.
pub struct CaseRunner<'a> {
    /// The plugin.
    pub component: &'a BuiltComponent,
    /// Cache of compiled components: that of the user, because compiling a plugin can take seconds. It has no results of
    /// calls, so cases cannot influence each other through it.
    pub cache: Option<PathBuf>,
    /// Settings of the calls (see [`MergedSettings::for_test_cases`]).
    pub settings: MergedSettings,
}

impl CaseRunner<'_> {
    /// Runs a case.
    ///
    /// # Errors
    ///
    /// Fails if the call cannot be prepared: the workspace cannot be written, or the plugin cannot be loaded. A call that
    /// fails is a result.
    pub async fn run(&self, case: &PluginCase) -> Result<CaseReport, ToolError> {
        let temporary = std::env::temp_dir();
        let folder = tempfile::Builder::new()
            .prefix("mimir-case-")
            .tempdir()
            .map_err(|e| file_error("create a folder in", &temporary, &e))?;
        // The settings are next to the workspace: tools must not reach them.
        let (workspace, config) = (
            folder.path().join("workspace"),
            folder.path().join("config"),
        );
        self.write_workspace(case, &workspace)?;
        write_secrets(case, &config)?;
        let approver = Arc::new(CaseApprover::new(case.approve));
        let mut builder = Host::builder()
            .workspace(&workspace)
            .config_dir(&config)
            .settings(self.settings.clone())
            .approver(Arc::clone(&approver) as _);
        if let Some(cache) = &self.cache {
            builder = builder.cache_dir(cache);
        }
        let host = builder.build().await?;
        self.check_loaded(&host)?;
        if let Some(problem) = foreign_tool(&host, &case.call) {
            return Ok(CaseReport {
                name: case.name.clone(),
                passed: false,
                duration_ms: 0.0,
                difference: Some(problem),
            });
        }
        approver.set_plugin(&host.pipeline().snapshot().registry);
        let arguments = Value::Object(case.arguments.clone());
        let outcome = host.run(host.request(&case.call, arguments)).await;
        let difference = case.mismatch(outcome.result());
        Ok(CaseReport {
            name: case.name.clone(),
            passed: difference.is_none(),
            duration_ms: outcome.receipt().duration_ms,
            difference: difference.map(|difference| difference.to_string()),
        })
    }

    /// Writes the files of the case and the plugin.
    fn write_workspace(&self, case: &PluginCase, workspace: &Path) -> Result<(), ToolError> {
        let tools = workspace.join(".mimir/tools");
        let component = tools.join(&self.component.file_name);
        write_file(&component, &self.component.bytes)?;
        for (path, text) in &case.files {
            write_file(&workspace.join(path), text.as_bytes())?;
        }
        Ok(())
    }

    /// Fails if the plugin, or a tool in it, was left out.
    fn check_loaded(&self, host: &Host) -> Result<(), ToolError> {
        let name = self.component.file_name.to_string_lossy();
        let snapshot = host.pipeline().snapshot();
        let mut left_out = snapshot.registry.quarantined().iter();
        match left_out.find(|left_out| left_out.location.contains(&*name)) {
            Some(left_out) => {
                let (file, reason) = (visible(&name), visible(&left_out.reason));
                let message = format!("the host cannot load {file}: {reason}");
                Err(ToolError::new(left_out.code, message))
            }
            None => Ok(()),
        }
    }
}

/// Writes the secrets of the person who makes the call, next to the settings.
fn write_secrets(case: &PluginCase, config: &Path) -> Result<(), ToolError> {
    private_files::private_folder(config).map_err(|e| file_error("create", config, &e))?;
    if case.secrets.is_empty() {
        return Ok(());
    }
    let values = case.secrets.iter();
    let values: serde_json::Map<String, Value> = values
        .map(|(name, value)| (name.clone(), json!({ "value": value })))
        .collect();
    let text = json!({ "secrets": values }).to_string();
    let path = config.join("secrets.json");
    private_files::replace(&path, text.as_bytes(), FileReaders::Owner)
        .map_err(|e| file_error("write", &path, &e))
}

/// Returns the problem if `name` is a tool of another source: cases test the plugin, and their questions are answered
/// without a person.
fn foreign_tool(host: &Host, name: &str) -> Option<String> {
    let snapshot = host.pipeline().snapshot();
    let tool = snapshot.registry.get(name)?;
    if tool.source == ToolSource::Custom {
        return None;
    }
    let own = snapshot.registry.tools().iter();
    let own = own.filter(|tool| tool.source == ToolSource::Custom);
    let own: Vec<String> = own.map(|tool| format!("`{}`", tool.name())).collect();
    let (name, own) = (visible(name), own.join(", "));
    Some(format!(
        "`call`: `{name}` is not a tool of this plugin: expected {own}"
    ))
}

fn write_file(path: &Path, content: &[u8]) -> Result<(), ToolError> {
    write_atomically(path, content).map_err(|e| file_error("write", path, &e))
}
