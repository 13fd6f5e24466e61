//! Spellings of the name of a new plugin.

use mimir_core::ToolName;
use mimir_core::text::{prefix, visible};

use super::reserved_words::reserved_by;
use crate::args::PluginLanguage;
use crate::exit::{CommandFailure, CommandResult};

/// Spellings of the plugin's name.
#[derive(Debug, PartialEq, Eq)]
pub struct PluginNames {
    /// Name of the package and the folder, such as `word-count`.
    pub package: String,
    /// Name of the tool and the function, such as `word_count`.
    pub tool: String,
    /// Name of the argument type, such as `WordCount`.
    pub type_name: String,
    language: Option<PluginLanguage>,
}

/// Returns true if Windows reserves this file name, whatever its extension.
fn is_device(name: &str) -> bool {
    let numbered = |name: &str| matches!(name.as_bytes(), [b'1'..=b'9']);
    matches!(name, "con" | "prn" | "aux" | "nul")
        || name.strip_prefix("com").is_some_and(numbered)
        || name.strip_prefix("lpt").is_some_and(numbered)
}

impl PluginNames {
    /// Parses the name of a plugin. `language` is `None` for a tool in a YAML file.
    pub fn parse(name: &str, language: Option<PluginLanguage>) -> CommandResult<Self> {
        let shown = visible(prefix(name, 80));
        let invalid = |why: &str| {
            CommandFailure::usage(format!("`{shown}` cannot be the name of a plugin: {why}"))
        };
        let package = name.to_ascii_lowercase();
        if !package.starts_with(|c: char| c.is_ascii_lowercase()) {
            return Err(invalid("it must begin with a letter"));
        }
        if !package
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-')
        {
            return Err(invalid(
                "expected only letters, digits, `_` and `-`; use --dir for another folder",
            ));
        }
        let tool = package.replace('-', "_");
        if ToolName::new(&tool).is_err() {
            return Err(invalid("it has more than 64 characters"));
        }
        if let Some(why) = language.and_then(|language| reserved_by(language, &tool)) {
            return Err(invalid(&format!("{why}; try `{tool}_tool`")));
        }
        if is_device(&tool) {
            return Err(invalid(&format!(
                "it is a reserved device name on Windows; try `{tool}_tool`"
            )));
        }
        let type_name = tool
            .split('_')
            .filter(|part| !part.is_empty())
            .map(capital)
            .collect();
        Ok(Self {
            package,
            tool,
            type_name,
            language,
        })
    }

    /// Fills the placeholders of a template.
    pub fn fill(&self, template: &str) -> String {
        let camel = match self.type_name.split_at_checked(1) {
            Some((first, rest)) => first.to_ascii_lowercase() + rest,
            None => String::new(),
        };
        let (source, test) = match self.language {
            Some(PluginLanguage::Cpp) => ("tool.cpp", "test.cpp"),
            _ => ("tool.c", "test.c"),
        };
        let filled = template
            .replace("{{NAME}}", &self.explicit_name())
            .replace("{{package}}", &self.package)
            .replace("{{source}}", source)
            .replace("{{test}}", test);
        filled
            .replace("{{tool}}", &self.tool)
            .replace("{{TOOL}}", &self.tool.to_ascii_uppercase())
            .replace("{{camel}}", &camel)
            .replace("{{Kind}}", &self.type_name)
    }

    /// Returns the text that sets the name of the tool, if the SDK would derive another one from the type, in which each
    /// capital after lower-case letters starts a word.
    fn explicit_name(&self) -> String {
        let is_plain =
            |part: &str| part.len() > 1 && part.starts_with(|c: char| c.is_ascii_lowercase());
        let name = &self.tool;
        if name.split('_').all(is_plain) {
            return String::new();
        }
        match self.language {
            Some(PluginLanguage::Go) => format!(", mimir.Name({name:?})"),
            Some(PluginLanguage::Zig) => format!(".name = {name:?}, "),
            _ => format!("    const NAME: Option<&'static str> = Some({name:?});\n"),
        }
    }
}

fn capital(word: &str) -> String {
    let (first, rest) = word.split_at(1);
    first.to_ascii_uppercase() + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUST: Option<PluginLanguage> = Some(PluginLanguage::Rust);

    #[test]
    fn tools_new_derives_package_tool_and_type_names() {
        let names = PluginNames::parse("Word-count2", RUST).unwrap();
        assert_eq!(
            (
                names.package.as_str(),
                names.tool.as_str(),
                names.type_name.as_str()
            ),
            ("word-count2", "word_count2", "WordCount2")
        );
        for invalid in [
            "con",
            "COM1",
            "lpt9",
            "",
            "1a",
            "-a",
            "a b",
            "a/b",
            "../a",
            "ä",
            "match",
            "self",
            "test",
            "mimir-sdk",
            &"x".repeat(65),
        ] {
            assert!(PluginNames::parse(invalid, RUST).is_err(), "{invalid}");
        }
        for valid in ["com10", "console"] {
            assert!(PluginNames::parse(valid, RUST).is_ok(), "{valid}");
        }
    }

    #[test]
    fn tools_new_sets_names_that_the_sdk_would_not_derive() {
        let explicit = |name: &str, language| {
            let names = PluginNames::parse(name, Some(language)).unwrap();
            names.fill("{{NAME}}")
        };
        for language in [
            PluginLanguage::Rust,
            PluginLanguage::Go,
            PluginLanguage::Zig,
        ] {
            assert_eq!(explicit("word-count", language), "");
        }
        assert!(explicit("x_2", PluginLanguage::Rust).contains("Some(\"x_2\")"));
        assert_eq!(explicit("x_2", PluginLanguage::Go), ", mimir.Name(\"x_2\")");
        assert_eq!(explicit("x_2", PluginLanguage::Zig), ".name = \"x_2\", ");
    }

    #[test]
    fn tools_new_refuses_the_words_of_each_language_only() {
        for (word, language) in [
            ("lambda", PluginLanguage::Python),
            ("func", PluginLanguage::Go),
            ("mimir_x", PluginLanguage::C),
            ("namespace", PluginLanguage::Cpp),
            ("comptime", PluginLanguage::Zig),
            ("trait", PluginLanguage::Rust),
        ] {
            let error = PluginNames::parse(word, Some(language)).unwrap_err();
            let expected = format!("try `{word}_tool`");
            assert!(error.to_string().contains(&expected), "{error}");
            assert!(PluginNames::parse(word, Some(PluginLanguage::JavaScript)).is_ok());
        }
    }
}
