//! `server.json`: the entry of the MCP registry for a bundle.

use serde_json::{Value, json};

use super::documents;
use super::export_files::ExportFile;
use super::exported_plugin::ExportedPlugin;

/// The schema of the entry.
const SCHEMA: &str = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json";

/// Maximum length of a title and of a description, in characters.
const MAX_TEXT: usize = 100;

/// Builds the entry for a bundle with this SHA-256, published at `url`.
pub fn build(
    plugin: &ExportedPlugin,
    name: &str,
    url: &str,
    bundle_sha256: &str,
) -> (Vec<ExportFile>, Value) {
    let entry = json!({
        "$schema": SCHEMA,
        "name": name,
        "title": plugin.name,
        "description": shorten(&plugin.summary),
        "version": plugin.version,
        "packages": [{
            "registryType": "mcpb",
            "identifier": url,
            "fileSha256": bundle_sha256,
            "transport": { "type": "stdio" },
        }],
    });
    let files = vec![ExportFile::new("server.json", documents::json_file(&entry))];
    (files, json!({ "name": name, "identifier": url }))
}

/// Shortens a text to the maximum length of the registry, at the end of a word.
fn shorten(text: &str) -> String {
    if text.chars().count() <= MAX_TEXT {
        return text.to_owned();
    }
    let cut: String = text.chars().take(MAX_TEXT - 1).collect();
    let cut = cut
        .rsplit_once(' ')
        .map_or(cut.as_str(), |(words, _)| words);
    format!("{}…", cut.trim_end_matches([',', '.', ';', ':']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registry_description_is_cut_at_a_word() {
        assert_eq!(shorten("Counts words."), "Counts words.");
        let long = shorten(&"many words, ".repeat(20));
        assert!(
            long.chars().count() <= MAX_TEXT && long.ends_with("words…"),
            "{long}"
        );
        assert!(shorten(&"ä".repeat(300)).chars().count() <= MAX_TEXT);
    }
}
