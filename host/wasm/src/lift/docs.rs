//! Doc comments of WIT, if the binary contains them.
//!
//! Components do not contain doc comments by default. Some tools copy them into the section `package-docs`, which
//! consists of a version byte and a JSON document. Invalid documentation is ignored; it is never a reason to refuse a
//! component.

use std::collections::BTreeMap;

use mimir_core::text;
use serde::Deserialize;

use crate::family::InterfaceName;

/// Maximum length of a description, in characters. More would crowd the context of a model.
const MAX_DESCRIPTION: usize = 2_000;

type DocsMap<T> = BTreeMap<String, T>;

/// The documentation of one package.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PackageDocs {
    worlds: DocsMap<MemberDocs>,
    interfaces: DocsMap<MemberDocs>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct MemberDocs {
    funcs: DocsMap<FunctionDocs>,
    func_exports: DocsMap<FunctionDocs>,
    types: DocsMap<TypeDocs>,
    interfaces: DocsMap<MemberDocs>,
    interface_exports: DocsMap<MemberDocs>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum FunctionDocs {
    Plain(Option<String>),
    Full {
        #[serde(default)]
        docs: Option<String>,
    },
}

/// The documentation of a named type and of its fields or cases.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct TypeDocs {
    docs: Option<String>,
    items: DocsMap<String>,
}

impl TypeDocs {
    /// Returns the documentation of the type itself.
    pub fn type_text(&self) -> Option<String> {
        self.docs.as_deref().and_then(clean_text)
    }

    /// Returns the documentation of a field, case, name or flag.
    pub fn item_text(&self, name: &str) -> Option<String> {
        self.items
            .get(name)
            .map(String::as_str)
            .and_then(clean_text)
    }
}

impl PackageDocs {
    /// Parses the section. Returns empty documentation if the section is not valid.
    pub fn parse(section: &[u8]) -> Self {
        match section.split_first() {
            Some((0 | 1, json)) => serde_json::from_slice(json).unwrap_or_default(),
            _ => Self::default(),
        }
    }

    /// Returns the documentation of a function in an exported interface, or in the world.
    pub fn function(&self, interface: Option<&str>, name: &str) -> Option<String> {
        self.members(interface)
            .find_map(|members| {
                members
                    .func_exports
                    .get(name)
                    .or_else(|| members.funcs.get(name))
            })
            .and_then(|docs| match docs {
                FunctionDocs::Plain(docs) | FunctionDocs::Full { docs } => docs.as_deref(),
            })
            .and_then(clean_text)
    }

    /// Returns the documentation of a named type.
    pub fn type_docs(&self, interface: Option<&str>, name: &str) -> Option<&TypeDocs> {
        self.members(interface)
            .find_map(|members| members.types.get(name))
    }

    /// Iterates over the parts of the documentation that may describe the members of an export. The section neither
    /// names the built world nor repeats the package, so the name of the interface decides.
    fn members(&self, interface: Option<&str>) -> impl Iterator<Item = &MemberDocs> {
        let short =
            interface.map(|name| InterfaceName::parse(name).map_or(name, |parsed| parsed.name));
        let direct = short.and_then(|name| self.interfaces.get(name));
        let inner = self.worlds.values().filter_map(move |world| match short {
            None => Some(world),
            Some(name) => world
                .interface_exports
                .get(name)
                .or_else(|| world.interfaces.get(name)),
        });
        direct.into_iter().chain(inner)
    }
}

/// Returns foreign text trimmed, shortened and safe to display; `None` if nothing is left.
fn clean_text(text: &str) -> Option<String> {
    let cut = text::prefix(text.trim(), MAX_DESCRIPTION);
    (!cut.is_empty()).then(|| text::sanitize(cut.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(json: &str) -> Vec<u8> {
        [b"\x01", json.as_bytes()].concat()
    }

    #[test]
    fn docs_are_read_in_both_spellings() {
        let docs = PackageDocs::parse(&section(
            r#"{"worlds":{"w":{"func_exports":{"top":{"docs":" Top. "}},"funcs":{"old":"Old."}}},
                "interfaces":{"add":{"funcs":{"sum":{"docs":"Adds.","stability":"x"}},
                "types":{"point":{"docs":"A place.","items":{"x":"Across."}}}}}}"#,
        ));
        assert_eq!(docs.function(None, "top").as_deref(), Some("Top."));
        assert_eq!(docs.function(None, "old").as_deref(), Some("Old."));
        assert_eq!(
            docs.function(Some("docs:adder/add@0.1.0"), "sum")
                .as_deref(),
            Some("Adds.")
        );
        let point = docs
            .type_docs(Some("docs:adder/add@0.1.0"), "point")
            .unwrap();
        assert_eq!(
            (
                point.type_text().as_deref(),
                point.item_text("x").as_deref()
            ),
            (Some("A place."), Some("Across."))
        );
        assert_eq!(docs.function(None, "sum"), None);
    }

    #[test]
    fn docs_that_are_not_valid_are_ignored() {
        for bad in [
            &b""[..],
            b"\x07{}",
            b"\x01",
            b"\x01{\"worlds\":3}",
            b"\x01\xff",
        ] {
            assert_eq!(PackageDocs::parse(bad).function(None, "f"), None);
        }
        let bomb = "[".repeat(500_000);
        assert_eq!(
            PackageDocs::parse(&section(&bomb)).function(None, "f"),
            None
        );
    }
}
