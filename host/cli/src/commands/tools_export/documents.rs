//! Markdown texts that the formats share: the rights that tools need, and how a person grants them.

use mimir_core::text::visible;
use serde_json::Value;

use super::exported_plugin::ExportedPlugin;

/// Describes the rights of the plugin, and how they are granted. `path` is the component's path on the machine of the
/// person who has installed it.
pub fn rights_section(plugin: &ExportedPlugin, path: &str) -> String {
    let needs = plugin.need_lines();
    let mut text = "## Rights\n\n".to_owned();
    if needs.is_empty() {
        text.push_str("The tools request no rights. mimir runs each call in a sandbox without files and network.\n");
        return text;
    }
    text.push_str("The tools request these rights. Nothing is granted by the installation:\n\n");
    for line in needs {
        text.push_str(&format!("- {line}\n"));
    }
    text.push_str(&format!(
        "\nWithout a grant, each call asks you if your client can show the question, else it is refused. This command \
         shows and grants the rights, in the folder that you work in:\n\n```sh\nmimir tools trust \"{path}\"\n```\n"
    ));
    let secrets = plugin.secrets();
    if !secrets.is_empty() {
        text.push_str("\nSecrets are never visible to the tools. Store them with:\n\n```sh\n");
        for secret in secrets {
            text.push_str(&format!("mimir secrets set {}\n", visible(&secret.name)));
        }
        text.push_str("```\n");
    }
    text
}

/// Lists the tools with the first lines of their descriptions.
pub fn tools_section(plugin: &ExportedPlugin) -> String {
    let mut text = "## Tools\n\n".to_owned();
    for tool in &plugin.tools {
        let line = super::exported_plugin::first_line(&tool.definition.description);
        text.push_str(&format!("- `{}`: {line}\n", tool.own_name()));
    }
    text
}

/// Returns the line that names the component.
pub fn component_line(plugin: &ExportedPlugin, path: &str) -> String {
    format!(
        "The tools are in `{path}`, a WebAssembly component with the digest `sha256:{}`.\n",
        plugin.digest
    )
}

/// Formats a manifest.
pub fn json_file(value: &Value) -> Vec<u8> {
    let mut text = serde_json::to_string_pretty(value).unwrap_or_default();
    text.push('\n');
    text.into_bytes()
}
