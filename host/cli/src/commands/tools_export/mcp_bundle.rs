//! An MCP bundle (`.mcpb`): a zip file that desktop applications install with a double click.

use std::io::{Cursor, Write as _};

use mimir_core::text::visible;
use mimir_core::{ToolError, files};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use zip::write::{SimpleFileOptions, ZipWriter};

use super::documents;
use super::export_files::ExportFile;
use super::exported_plugin::ExportedPlugin;
use crate::args::ToolsExportArgs;
use mimir::file_error::file_error;

/// Version of the manifest format.
const MANIFEST_VERSION: &str = "0.3";

/// Maximum size of the program in bytes.
const MAX_PROGRAM_SIZE: u64 = 1 << 30;

/// Key of the workspace folder, which the application asks for.
const WORKSPACE: &str = "workspace";

/// Permissions of files that are programs, and of others.
const PROGRAM_MODE: u32 = 0o755;
const FILE_MODE: u32 = 0o644;

/// A finished bundle.
pub struct McpBundle {
    /// SHA-256 of the bundle in lower-case hex.
    pub sha256: String,
    file_name: String,
    bytes: Vec<u8>,
    has_program: bool,
}

impl McpBundle {
    /// Returns the file to write, and the report about it.
    pub fn into_files(self) -> (Vec<ExportFile>, Value) {
        let report = json!({
            "file": self.file_name,
            "sha256": self.sha256,
            "program": self.has_program,
        });
        (vec![ExportFile::new(self.file_name, self.bytes)], report)
    }
}

/// Builds the bundle. With `--with-program`, it contains this program and is for this platform only.
pub fn build(plugin: &ExportedPlugin, args: &ToolsExportArgs) -> Result<McpBundle, ToolError> {
    let component = format!("tools/{}", plugin.file_name);
    let program = if args.with_program {
        Some(BundledProgram::read()?)
    } else {
        None
    };
    let manifest = manifest(plugin, &component, program.as_ref());
    let readme = readme(plugin, &component, program.is_some());
    let mut entries: Vec<(&str, &[u8], u32)> = Vec::new();
    let manifest = documents::json_file(&manifest);
    entries.push(("manifest.json", &manifest, FILE_MODE));
    entries.push(("README.md", readme.as_bytes(), FILE_MODE));
    entries.push((&component, &plugin.component, FILE_MODE));
    if let Some(program) = &program {
        entries.push((program.path, &program.bytes, PROGRAM_MODE));
    }
    let bytes = pack_zip(&entries)?;
    Ok(McpBundle {
        sha256: format!("{:x}", Sha256::digest(&bytes)),
        file_name: format!("{}-{}.mcpb", plugin.name, plugin.version),
        bytes,
        has_program: program.is_some(),
    })
}

/// The mimir program in a bundle.
struct BundledProgram {
    path: &'static str,
    bytes: Vec<u8>,
}

impl BundledProgram {
    /// Reads the program that runs.
    fn read() -> Result<Self, ToolError> {
        let path = std::env::current_exe().map_err(|error| {
            ToolError::unavailable(format!("the path of this program is unknown: {error}"))
        })?;
        let bytes = files::read(&path, files::LinkPolicy::Follow, MAX_PROGRAM_SIZE)
            .map_err(|error| file_error("read", &path, &error))?;
        Ok(Self {
            path: if cfg!(windows) {
                "server/mimir.exe"
            } else {
                "server/mimir"
            },
            bytes,
        })
    }
}

/// Returns the names of the platforms on which the bundle works.
fn platforms(has_program: bool) -> Vec<&'static str> {
    match (has_program, std::env::consts::OS) {
        (false, _) => vec!["darwin", "linux", "win32"],
        (true, "macos") => vec!["darwin"],
        (true, "windows") => vec!["win32"],
        (true, _) => vec!["linux"],
    }
}

fn manifest(plugin: &ExportedPlugin, component: &str, program: Option<&BundledProgram>) -> Value {
    let tools: Vec<Value> = plugin
        .tools
        .iter()
        .map(|tool| json!({ "name": tool.own_name(), "description": visible_text(&tool.definition.description) }))
        .collect();
    let command = program.map_or_else(
        || "mimir".to_owned(),
        |program| format!("${{__dirname}}/{}", program.path),
    );
    let (user_config, environment) = user_config(plugin);
    let requirement = if program.is_some() {
        "The bundle contains the mimir program."
    } else {
        "It needs the mimir program on the PATH."
    };
    json!({
        "manifest_version": MANIFEST_VERSION,
        "name": plugin.name,
        "display_name": plugin.name,
        "version": plugin.version,
        "description": plugin.summary,
        "long_description": format!(
            "{}\n\nThe tools run in a sandbox of mimir, without rights until you grant them. {requirement}",
            plugin.summary
        ),
        "author": { "name": plugin.author() },
        "server": {
            "type": "binary",
            "entry_point": program.map_or(component, |program| program.path),
            "mcp_config": {
                "command": command,
                "args": [
                    "serve", "--tools-from", "${__dirname}/tools",
                    "--workspace", format!("${{user_config.{WORKSPACE}}}"),
                ],
                "env": environment,
            },
        },
        "tools": tools,
        "keywords": ["mimir", "webassembly"],
        "user_config": user_config,
        "compatibility": { "platforms": platforms(program.is_some()) },
    })
}

/// Returns the values that the application asks the user for, and the environment variables that pass them on: the
/// workspace, the secrets and the variables.
fn user_config(plugin: &ExportedPlugin) -> (Value, Value) {
    let mut config = Map::new();
    let mut environment = Map::new();
    config.insert(
        WORKSPACE.to_owned(),
        json!({
            "type": "directory",
            "title": "Workspace",
            "description": "The folder that the tools work in. Files outside of it are not reachable.",
            "required": true,
        }),
    );
    for secret in plugin.secrets() {
        let Some(key) = config_key("secret", &secret.name, &config) else {
            continue;
        };
        // The settings name the variable that has the value; the tool never sees it.
        let variable = key.to_ascii_uppercase();
        environment.insert(
            format!("MIMIR_SECRETS__{}__ENV", secret.name),
            json!(variable),
        );
        environment.insert(variable, json!(format!("${{user_config.{key}}}")));
        config.insert(
            key,
            json!({
                "type": "string",
                "title": visible(&secret.name),
                "description": format!("Sent to {} only. {}", visible(&secret.host), visible(&secret.reason)),
                "sensitive": true,
                "required": true,
            }),
        );
    }
    for variable in plugin.variables() {
        let Some(key) = config_key("variable", variable, &config) else {
            continue;
        };
        environment.insert(
            variable.to_owned(),
            json!(format!("${{user_config.{key}}}")),
        );
        config.insert(
            key,
            json!({
                "type": "string",
                "title": visible(variable),
                "description": "A value that the tools read.",
                "required": false,
                "default": "",
            }),
        );
    }
    (Value::Object(config), Value::Object(environment))
}

/// Returns the key of a value. `None` if the name cannot be passed in an environment variable: then the user stores the
/// value with mimir itself.
fn config_key(kind: &str, name: &str, taken: &Map<String, Value>) -> Option<String> {
    let is_plain = |c: u8| c.is_ascii_alphanumeric() || c == b'_';
    let is_reserved = kind == "variable" && (name.starts_with("MIMIR_") || name == "PATH");
    if !name.bytes().all(is_plain) || name.contains("__") || is_reserved {
        return None;
    }
    let key = format!("{kind}_{}", name.to_ascii_lowercase());
    (!taken.contains_key(&key)).then_some(key)
}

/// Returns a text with all control characters escaped but line ends.
fn visible_text(text: &str) -> String {
    text.lines().map(visible).collect::<Vec<_>>().join("\n")
}

fn readme(plugin: &ExportedPlugin, component: &str, has_program: bool) -> String {
    let program = if has_program {
        "The bundle contains the program mimir for this platform."
    } else {
        "The bundle starts the program mimir, which must be on the PATH."
    };
    format!(
        "# {name}\n\n{summary}\n\nAn MCP bundle. {program} The application asks for the folder that the tools work in. \
         {line}\n{tools}\n{rights}",
        name = plugin.name,
        summary = plugin.summary,
        line = documents::component_line(plugin, component),
        tools = documents::tools_section(plugin),
        rights = documents::rights_section(plugin, &format!("BUNDLE/{component}")),
    )
}

/// Packs files into a zip file, which is the same for the same files.
fn pack_zip(entries: &[(&str, &[u8], u32)]) -> Result<Vec<u8>, ToolError> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes, mode) in entries {
        let options = SimpleFileOptions::default()
            .unix_permissions(*mode)
            .last_modified_time(zip::DateTime::default());
        let started = writer
            .start_file(*name, options)
            .map_err(std::io::Error::from);
        started
            .and_then(|()| writer.write_all(bytes))
            .map_err(|error| {
                ToolError::execution(format!("the bundle cannot be packed: {error}"))
            })?;
    }
    let packed = writer.finish();
    let packed = packed
        .map_err(|error| ToolError::execution(format!("the bundle cannot be packed: {error}")))?;
    Ok(packed.into_inner())
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn bundle_zip_keeps_which_file_is_a_program() {
        let entries: [(&str, &[u8], u32); 2] = [
            ("manifest.json", b"{}", FILE_MODE),
            ("server/mimir", b"program", PROGRAM_MODE),
        ];
        let bytes = pack_zip(&entries).unwrap();
        assert_eq!(pack_zip(&entries).unwrap(), bytes);
        let mut archive = zip::ZipArchive::new(Cursor::new(bytes)).unwrap();
        for (name, content, mode) in entries {
            let mut file = archive.by_name(name).unwrap();
            let mut read = Vec::new();
            file.read_to_end(&mut read).unwrap();
            assert_eq!(read, content);
            assert_eq!(file.unix_mode().map(|found| found & 0o777), Some(mode));
        }
    }

    #[test]
    fn bundle_asks_only_for_values_that_a_variable_can_pass_on() {
        let taken = Map::new();
        let key = |kind: &str, name: &str| config_key(kind, name, &taken);
        assert_eq!(
            key("secret", "SITE_KEY").as_deref(),
            Some("secret_site_key")
        );
        assert_eq!(
            key("variable", "REGION").as_deref(),
            Some("variable_region")
        );
        for (kind, name) in [
            ("secret", "site-key"),
            ("secret", "A__B"),
            ("variable", "MIMIR_POLICY__DENY"),
            ("variable", "PATH"),
        ] {
            assert_eq!(key(kind, name), None, "{name}");
        }
        let taken = Map::from_iter([("secret_a".to_owned(), json!({}))]);
        assert_eq!(config_key("secret", "A", &taken), None);
    }
}
