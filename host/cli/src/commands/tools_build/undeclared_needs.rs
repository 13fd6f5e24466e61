//! Warnings about features of the host that a plugin uses and none of its tools declares: their calls would be refused.
//!
//! The imports of a component show them, because compilers leave out what is not used. Python and JavaScript are
//! different: an engine imports what the needs name, so uses are looked for in the sources of Python, and the needs of
//! JavaScript follow from its sources. Files are not covered: every language's library imports them. Storage needs no
//! declaration.

use mimir_core::Tool;
use mimir_core::name_suggestions::list_known;
use mimir_core::needs::Needs;
use serde::Deserialize;

use crate::args::PluginLanguage;

/// A feature of the host that tools must declare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HostFeature {
    /// Requests to hosts.
    Hosts,
    /// Commands in the command sandbox.
    Commands,
    /// Calls of other tools.
    Tools,
    /// The language model.
    Model,
}

impl HostFeature {
    /// Every feature.
    const ALL: [Self; 4] = [Self::Hosts, Self::Commands, Self::Tools, Self::Model];

    /// Returns the import that the feature is used through.
    const fn interface(self) -> &'static str {
        match self {
            Self::Hosts => "wasi:http/outgoing-handler",
            Self::Commands => "mimir:tool/commands",
            Self::Tools => "mimir:tool/tools",
            Self::Model => "mimir:tool/model",
        }
    }

    /// Returns what calls of the feature do, and what is not declared.
    const fn texts(self) -> (&'static str, &'static str) {
        match self {
            Self::Hosts => ("sends requests", "no host"),
            Self::Commands => ("runs commands", "no command"),
            Self::Tools => ("calls other tools", "no tool that it calls"),
            Self::Model => ("asks a language model", "no need for it"),
        }
    }

    fn is_declared(self, needs: &Needs) -> bool {
        match self {
            // A secret is sent in a header of a request.
            Self::Hosts => !needs.hosts.is_empty() || !needs.secrets.is_empty(),
            Self::Commands => !needs.commands.is_empty(),
            Self::Tools => !needs.tools.is_empty(),
            Self::Model => needs.model,
        }
    }

    /// Returns an example of the declaration in the SDK of a language.
    const fn example(self, language: PluginLanguage) -> &'static str {
        let examples = match language {
            PluginLanguage::Python => [
                r#"mimir.Needs().host("api.example.com", ["GET"], "why")"#,
                r#"mimir.Needs().command("git status", "why")"#,
                r#"mimir.Needs().tool("file_search")"#,
                "mimir.Needs().model()",
            ],
            PluginLanguage::Go => [
                r#"mimir.Host("api.example.com", []string{"GET"}, "why")"#,
                r#"mimir.Command("git status", "why")"#,
                r#"mimir.OtherTool("file_search")"#,
                "mimir.Model()",
            ],
            PluginLanguage::C | PluginLanguage::Cpp => [
                r#"MIMIR_HOST("api.example.com", "GET", "why")"#,
                r#"MIMIR_COMMAND("git status", "why")"#,
                r#"MIMIR_CALLS("file_search")"#,
                "MIMIR_MODEL()",
            ],
            PluginLanguage::Zig => [
                r#".{ .host = .{ .host = "api.example.com", .reason = "why" } }"#,
                r#".{ .command = .{ .pattern = "git status", .reason = "why" } }"#,
                r#".{ .tool = "file_search" }"#,
                ".model",
            ],
            PluginLanguage::Rust => [
                r#"Needs::none().host("api.example.com", ["GET"], "why")"#,
                r#"Needs::none().command("git status", "why")"#,
                r#"Needs::none().tool("file_search")"#,
                "Needs::none().model()",
            ],
            PluginLanguage::TypeScript | PluginLanguage::JavaScript => [
                r#"needs: { hosts: ["api.example.com"] }"#,
                r#"needs: { commands: ["git status"] }"#,
                r#"needs: { tools: ["file_search"] }"#,
                "needs: { model: true }",
            ],
        };
        match self {
            Self::Hosts => examples[0],
            Self::Commands => examples[1],
            Self::Tools => examples[2],
            Self::Model => examples[3],
        }
    }
}

/// Returns a warning for each feature that a component with these tools uses, and none of them declares. `uses` are the
/// features that the sources use, besides those that the imports show.
pub fn warnings(language: PluginLanguage, tools: &[Tool], uses: &[HostFeature]) -> Vec<String> {
    let Some(first) = tools.first() else {
        return Vec::new();
    };
    let needs: Vec<&Needs> = tools.iter().map(|tool| &tool.definition.needs).collect();
    let names = list_known(tools.iter().map(|tool| tool.name().as_str())).unwrap_or_default();
    undeclared(&first.origin.imports, &needs, uses)
        .map(|feature| warning(language, &names, feature))
        .collect()
}

/// Returns the features that are imported or used, and that no tool declares.
fn undeclared(
    imports: &[String],
    needs: &[&Needs],
    uses: &[HostFeature],
) -> impl Iterator<Item = HostFeature> {
    HostFeature::ALL.into_iter().filter(move |feature| {
        let is_imported = || {
            let mut imports = imports.iter();
            imports.any(|import| import.split('@').next() == Some(feature.interface()))
        };
        let is_declared = || needs.iter().any(|needs| feature.is_declared(needs));
        (uses.contains(feature) || is_imported()) && !is_declared()
    })
}

/// `tools` are the names of the plugin's tools.
fn warning(language: PluginLanguage, tools: &str, feature: HostFeature) -> String {
    let (does, declares) = feature.texts();
    format!(
        "the code of {tools} {does} (`{}`), but declares {declares}: these calls will be refused. Add a need, such as \
         `{}`; `mimir help plugins` explains needs",
        feature.interface(),
        feature.example(language)
    )
}

#[cfg(test)]
mod tests {
    use mimir_core::needs::CommandNeed;

    use super::*;

    fn found(imports: &[&str], needs: &[&Needs], uses: &[HostFeature]) -> Vec<HostFeature> {
        let imports: Vec<String> = imports.iter().map(|&import| import.to_owned()).collect();
        undeclared(&imports, needs, uses).collect()
    }

    #[test]
    fn undeclared_needs_are_imports_that_no_tool_declares() {
        let none = Needs::default();
        let commands = Needs {
            commands: vec![CommandNeed {
                pattern: "git *".to_owned(),
                reason: String::new(),
            }],
            ..Needs::default()
        };
        let imports = [
            "wasi:http/types@0.2.9",
            "wasi:http/outgoing-handler@0.2.9",
            "mimir:tool/commands@1.0.0",
        ];
        let both = [HostFeature::Hosts, HostFeature::Commands];
        assert_eq!(found(&imports, &[&none], &[]), both);
        assert_eq!(
            found(&imports, &[&none, &commands], &[]),
            [HostFeature::Hosts]
        );
        assert_eq!(found(&[], &[&commands], &both), [HostFeature::Hosts]);
        // Every library imports files, storage needs no declaration, and the types alone send nothing.
        let harmless = [
            "wasi:filesystem/types@0.2.9",
            "mimir:tool/storage@1.0.0",
            "mimir:tool/log@1.0.0",
            "wasi:http/types@0.2.9",
        ];
        assert_eq!(found(&harmless, &[&none], &[]), []);
    }

    #[test]
    fn undeclared_need_warning_has_the_declaration() {
        assert_eq!(
            warning(PluginLanguage::Go, "`fetch_page`", HostFeature::Hosts),
            "the code of `fetch_page` sends requests (`wasi:http/outgoing-handler`), but declares no host: these calls \
             will be refused. Add a need, such as `mimir.Host(\"api.example.com\", []string{\"GET\"}, \"why\")`; \
             `mimir help plugins` explains needs"
        );
    }
}
