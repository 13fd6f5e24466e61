//! A plugin of Claude Code: a folder with the component, which the program starts by `mimir serve`.

use serde_json::{Value, json};

use super::documents;
use super::export_files::ExportFile;
use super::exported_plugin::ExportedPlugin;

/// Variable that Claude Code replaces by the folder of the installed plugin.
const PLUGIN_ROOT: &str = "${CLAUDE_PLUGIN_ROOT}";

/// Builds the files of the plugin.
pub fn build(plugin: &ExportedPlugin) -> (Vec<ExportFile>, Value) {
    let mut manifest = json!({
        "name": plugin.name,
        "version": plugin.version,
        "description": plugin.summary,
    });
    if let Some(author) = plugin.named_author() {
        manifest["author"] = json!({ "name": author });
    }
    let servers = json!({
        "mcpServers": {
            &plugin.name: {
                "command": "mimir",
                "args": ["serve", "--tools-from", format!("{PLUGIN_ROOT}/tools")],
            }
        }
    });
    let component = format!("tools/{}", plugin.file_name);
    let files = vec![
        ExportFile::new(
            ".claude-plugin/plugin.json",
            documents::json_file(&manifest),
        ),
        ExportFile::new(".mcp.json", documents::json_file(&servers)),
        ExportFile::new("README.md", readme(plugin, &component)),
        ExportFile::new(component, plugin.component.clone()),
    ];
    (
        files,
        json!({ "name": plugin.name, "version": plugin.version }),
    )
}

fn readme(plugin: &ExportedPlugin, component: &str) -> String {
    format!(
        "# {name}\n\n{summary}\n\nA plugin of Claude Code. It starts `mimir serve` for the folder in which Claude Code \
         runs, so the program mimir must be on the PATH. Try it without an installation:\n\n```sh\nclaude --plugin-dir \
         DIR\n```\n\nwith the path of this folder as DIR. {line}\n{tools}\n{rights}",
        name = plugin.name,
        summary = plugin.summary,
        line = documents::component_line(plugin, component),
        tools = documents::tools_section(plugin),
        rights = documents::rights_section(plugin, &format!("DIR/{component}")),
    )
}
