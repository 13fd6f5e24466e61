//! The tool `install_package`, which adds packages to a project with the project's own package manager.
//!
//! Before a person is asked, the exact versions are looked up in the registry, so that the question shows what will be
//! installed, and the approval covers exactly that. The package manager runs in the sandbox of commands and can reach
//! the registry only.
//!
//! Out of scope: packages of MCP servers, which `mimir mcp` installs into mimir's own store.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use mimir_core::backend::{Backend, BoxFuture, RawResult};
use mimir_core::command::{CommandOutput, CommandRequest, CommandTarget};
use mimir_core::needs::{CommandNeed, FileNeed};
use mimir_core::outcome::{Content, ToolOutput};
use mimir_core::pipeline::ConfirmedCommand;
use mimir_core::text;
use mimir_core::tool::{InvalidToolName, ToolOrigin, ToolSource, ToolTrust};
use mimir_core::{
    Approved, Decision, DirectoryAccess, Needs, RiskLevel, Schema, Tool, ToolDefinition, ToolError,
    ToolErrorCode, ToolGroup, ToolHints, ToolName,
};
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

mod manager;
mod package_spec;
mod popular_names;
mod project_replacements;
mod project_sources;
mod question;
mod registry_client;
mod registry_config;
mod registry_facts;

use manager::{InstallOptions, PackageManager};
use package_spec::PackageSpec;
use project_sources::check_project_sources;
use registry_client::PackageRegistryClient;
use registry_facts::PackageRelease;

const NAME: &str = "install_package";

const DESCRIPTION: &str =
    "Adds packages to a project with its own package manager. A person is always asked.";

/// Maximum number of packages of one call. A person has to read about each of them.
const PACKAGES_MAX: usize = 5;

/// Maximum length of the output in a result, in characters.
const OUTPUT_MAX: usize = 4_000;

/// The arguments of a call.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct InstallArguments {
    packages: Vec<String>,
    path: Option<String>,
    manager: Option<PackageManager>,
    #[serde(default)]
    dev: bool,
    #[serde(default)]
    scripts: bool,
}

/// Backend of the tool.
struct InstallPackage {
    workspace: PathBuf,
}

/// Creates the tool for a workspace.
pub(crate) fn install_package(workspace: &Path) -> Result<Tool, InvalidToolName> {
    let definition = definition()?;
    let identity = format!(
        "{} {} {}",
        env!("CARGO_PKG_VERSION"),
        definition.description,
        definition.input_schema.as_str()
    );
    let origin =
        ToolOrigin::compiled_in(NAME, format!("{:x}", Sha256::digest(identity.as_bytes())));
    Ok(Tool::new(
        definition,
        ToolSource::BuiltIn,
        Arc::new(origin),
        ToolTrust::Trusted,
        Arc::new(InstallPackage {
            workspace: workspace.to_owned(),
        }),
    ))
}

/// Returns what a decision about a call of this tool does not say: the question that comes while it runs. `None` for other
/// tools.
pub fn question_of_running_call(tool: &Tool) -> Option<&'static str> {
    let is_installation = tool.source == ToolSource::BuiltIn && tool.name().as_str() == NAME;
    is_installation.then_some(
        "the call itself only looks up versions; you are asked about each installation while it runs",
    )
}

fn definition() -> Result<ToolDefinition, InvalidToolName> {
    let managers: Vec<&str> = PackageManager::ALL.iter().map(|m| m.as_str()).collect();
    let input = json!({
        "type": "object",
        "required": ["packages"],
        "additionalProperties": false,
        "properties": {
            "packages": {
                "type": "array", "minItems": 1, "maxItems": PACKAGES_MAX,
                "items": {"type": "string"},
                "description": "`NAME` or `NAME@VERSION`.",
            },
            "path": {"type": "string", "description": "Project folder."},
            "manager": {"enum": managers},
            "dev": {"type": "boolean"},
            "scripts": {"type": "boolean", "description": "Run install scripts."},
        },
    });
    let commands = PackageManager::PATTERNS.iter().map(|pattern| CommandNeed {
        pattern: (*pattern).to_owned(),
        reason: "to add packages to the project".to_owned(),
    });
    Ok(ToolDefinition {
        name: ToolName::new(NAME)?,
        title: Some("Install packages".to_owned()),
        description: DESCRIPTION.to_owned(),
        group: ToolGroup::Runtime,
        input_schema: Schema::unchecked(input.to_string()),
        output_schema: None,
        silent: false,
        // The call itself only looks up versions. The command that installs them is always asked about.
        approval: Decision::Allow,
        risk: RiskLevel::Medium,
        hints: ToolHints {
            destructive: true,
            open_world: true,
            ..ToolHints::default()
        },
        needs: Needs {
            files: vec![FileNeed {
                path: ".".to_owned(),
                access: DirectoryAccess::ReadWrite,
                reason: "for the package manager to work on".to_owned(),
            }],
            commands: commands.collect(),
            ..Needs::default()
        },
    })
}

impl Backend for InstallPackage {
    fn run(&self, call: Approved) -> BoxFuture<'_, RawResult> {
        Box::pin(async move { RawResult::from(self.install(&call).await) })
    }
}

impl InstallPackage {
    async fn install(&self, call: &Approved) -> Result<ToolOutput, ToolError> {
        let arguments: InstallArguments = serde_json::from_value(call.arguments().clone())
            .map_err(|error| ToolError::invalid_input(error.to_string()))?;
        let (root, folder) = self.project_folder(arguments.path.as_deref().unwrap_or("."))?;
        let manager = match arguments.manager {
            Some(manager) => manager,
            None => PackageManager::detect(&root, &folder)?,
        };
        let ecosystem = manager.ecosystem();
        let specs = arguments
            .packages
            .iter()
            .map(|written| PackageSpec::parse(ecosystem, written))
            .collect::<Result<Vec<_>, _>>()?;
        let effects = call.effects();
        let program = manager.program(&folder)?;
        let sandbox = effects
            .sandbox_name(CommandTarget::Default, program)
            .await?;
        let is_confined = sandbox != "none";
        let source = registry_config::package_source(manager).await?;
        let names: Vec<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
        check_project_sources(&root, &folder, manager, &source)?;
        project_replacements::check(&root, &folder, manager, &names)?;
        let egress = effects.limited_egress(source.host_needs());
        let client = PackageRegistryClient::new(egress.clone(), &root);
        let mut packages = Vec::new();
        for spec in &specs {
            packages.push(registry_facts::look_up(&client, &source, spec, ecosystem).await?);
        }
        let options = InstallOptions {
            dev: arguments.dev,
            scripts: arguments.scripts,
        };
        let program = manager.command(&folder, &packages, options)?;
        let line = program.text().into_owned();
        let mut environment = source.variables.clone();
        environment.extend(manager.script_variables(options.scripts));
        if is_confined {
            environment.extend(manager.cache_variables());
            // A registry on this machine is also reached through the proxy, because the sandbox has its own loopback.
            for name in ["no_proxy", "NO_PROXY"] {
                environment.push((name.to_owned(), String::new()));
            }
        }
        let request = CommandRequest {
            program,
            directory: relative_folder(&root, &folder)?,
            environment,
            stdin: Vec::new(),
            timeout: None,
            target: CommandTarget::Default,
        };
        let hosts = is_confined.then_some(source.hosts.as_slice());
        let now = SystemTime::now();
        let question = question::install_question(manager, &packages, options, hosts, now);
        let finished = effects
            .run_confirmed(ConfirmedCommand {
                request,
                question,
                egress,
            })
            .await?;
        Ok(output(manager, &line, &packages, &finished))
    }

    /// Returns the canonical paths of the workspace and of a folder in it.
    fn project_folder(&self, path: &str) -> Result<(PathBuf, PathBuf), ToolError> {
        let shown = text::visible(text::prefix(path, 100));
        let outside = || {
            let message = format!("`{shown}` is not valid: expected a folder of the workspace");
            ToolError::new(ToolErrorCode::InvalidPath, message)
        };
        let root = self.workspace.canonicalize().map_err(|_| outside())?;
        let folder = root.join(path).canonicalize().map_err(|_| {
            let message = format!("`{shown}` does not exist in the workspace");
            ToolError::new(ToolErrorCode::FileNotFound, message)
        })?;
        if !folder.starts_with(&root) || !folder.is_dir() {
            return Err(outside());
        }
        Ok((root, folder))
    }
}

/// Returns the path of a folder in the workspace, with `/` between components; `None` for the workspace itself.
fn relative_folder(root: &Path, folder: &Path) -> Result<Option<String>, ToolError> {
    let below = folder.strip_prefix(root).unwrap_or(folder);
    let below = below.to_str().ok_or_else(|| {
        let message = "the path of the project folder is not valid UTF-8";
        ToolError::new(ToolErrorCode::InvalidPath, message)
    })?;
    Ok((!below.is_empty()).then(|| below.replace('\\', "/")))
}

fn output(
    manager: PackageManager,
    line: &str,
    packages: &[PackageRelease],
    finished: &CommandOutput,
) -> ToolOutput {
    let labels: Vec<String> = packages.iter().map(PackageRelease::label).collect();
    let labels = labels.join(", ");
    let printed = String::from_utf8_lossy(&finished.combined.bytes);
    let printed = text::sanitize(printed.into_owned());
    let start = printed.char_indices().rev().nth(OUTPUT_MAX);
    let tail = start.map_or(printed.as_str(), |(at, _)| &printed[at..]);
    let (name, code) = (manager.as_str(), finished.exit_code);
    let (summary, note) = if code == 0 {
        (
            format!("Installed {labels} with {name}."),
            manager.result_note(),
        )
    } else {
        (
            format!("{name} failed to install {labels}: exit code {code}."),
            "It may have changed files of the project before.",
        )
    };
    let parts = [summary.as_str(), note, tail.trim()];
    let parts = parts.into_iter().filter(|part| !part.is_empty());
    let structured = json!({
        "manager": name,
        "command": line,
        "packages": packages.iter().map(PackageRelease::to_json).collect::<Vec<Value>>(),
        "exitCode": code,
        "durationMs": u64::try_from(finished.duration.as_millis()).unwrap_or(u64::MAX),
    });
    ToolOutput {
        content: vec![Content::text(parts.collect::<Vec<_>>().join("\n"))],
        structured: Some(structured),
        exit_code: Some(code),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn install_package_folder_stays_in_the_workspace() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("a")).unwrap();
        std::fs::write(dir.path().join("a/package.json"), "").unwrap();
        let tool = InstallPackage {
            workspace: dir.path().to_owned(),
        };
        let relative = |path: &str| {
            let (root, folder) = tool.project_folder(path)?;
            relative_folder(&root, &folder)
        };
        assert_eq!(relative("a").unwrap().as_deref(), Some("a"));
        assert_eq!(relative("./a/..").unwrap(), None);
        for (bad, code) in [
            ("..", ToolErrorCode::InvalidPath),
            ("/", ToolErrorCode::InvalidPath),
            ("a/package.json", ToolErrorCode::InvalidPath),
            ("b", ToolErrorCode::FileNotFound),
        ] {
            assert_eq!(relative(bad).unwrap_err().code, code, "{bad}");
        }
    }

    #[test]
    fn install_package_schema_matches_its_arguments() {
        let tool = install_package(Path::new(".")).unwrap();
        let schema = &tool.definition.input_schema;
        let full = json!({
            "packages": ["left-pad"], "path": "a", "manager": "pnpm", "dev": true, "scripts": false,
        });
        assert!(schema.validate("the arguments", &full).is_ok());
        let arguments: InstallArguments = serde_json::from_value(full).unwrap();
        assert_eq!(arguments.manager, Some(PackageManager::Pnpm));
        for bad in [
            json!({"packages": []}),
            json!({"packages": ["a"], "manager": "bun"}),
            json!({"packages": ["a"], "force": true}),
        ] {
            assert!(schema.validate("the arguments", &bad).is_err(), "{bad}");
        }
    }
}
