//! Kinds of sources that `mimir tools add` accepts, told apart by their spelling.

use std::path::{Path, PathBuf};
use std::str::FromStr as _;

use mimir_core::text::visible;
use mimir_registry::OciReference;

use crate::exit::{CommandFailure, CommandResult};

/// A source of a component.
#[derive(Debug, PartialEq)]
pub enum AddSource {
    /// A component file.
    File(PathBuf),
    /// A folder with components.
    Folder(PathBuf),
    /// A URL of a component file.
    Url(String),
    /// An artifact in a registry.
    Registry(OciReference),
    /// A package of npm: `NAME` or `NAME@VERSION`.
    Npm(String),
}

impl AddSource {
    /// Parses the argument. Paths that exist are paths; a name without a registry is never looked up in one.
    pub fn parse(argument: &Path) -> CommandResult<Self> {
        if argument.is_dir() {
            return Ok(Self::Folder(argument.to_owned()));
        }
        let Some(text) = argument.to_str().filter(|_| !argument.exists()) else {
            return Ok(Self::File(argument.to_owned()));
        };
        if let Some(package) = text.strip_prefix("npm:") {
            return Ok(Self::Npm(package.to_owned()));
        }
        if text.contains("://") && !text.starts_with("oci://") {
            return Ok(Self::Url(text.to_owned()));
        }
        if text.starts_with("oci://") || is_reference(text) {
            let reference = OciReference::from_str(text).map_err(mimir_core::ToolError::from)?;
            return Ok(Self::Registry(reference));
        }
        if !text.contains(['/', '\\', '.']) {
            let name = visible(text);
            return Err(CommandFailure::usage(format!(
                "`{name}` is not a file: name a file, an https URL, `npm:PACKAGE`, or a reference with its registry, \
                 such as registry.example.com/acme/{name}:1.0; `mimir tools search {name}` searches your catalogs"
            )));
        }
        Ok(Self::File(argument.to_owned()))
    }
}

/// Returns true if a text has the form of a reference: a host, and a repository without the extension of a file.
fn is_reference(text: &str) -> bool {
    let Some((host, rest)) = text.split_once('/') else {
        return false;
    };
    // `C:` is a drive.
    let is_host = host.len() > 2 && host.contains(['.', ':']) || host == "localhost";
    let name = Path::new(rest);
    let is_component = name
        .extension()
        .is_some_and(|extension| extension == "wasm" || extension == "wat");
    is_host && !host.starts_with('.') && !host.contains('\\') && !is_component
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn add_sources_are_told_apart_by_their_spelling() {
        let parse = |text: &str| AddSource::parse(Path::new(text)).unwrap();
        for text in [
            "registry.example.com/acme/weather:1.2",
            "oci://registry.example.com/acme/weather",
            "127.0.0.1:5000/weather",
            "localhost/weather",
        ] {
            assert!(matches!(parse(text), AddSource::Registry(_)), "{text}");
        }
        for text in [
            "weather.wasm",
            "./weather",
            "../tools/weather.wasm",
            "tools.d/weather.wasm",
            "/tmp/nothing/weather.wat",
        ] {
            assert!(matches!(parse(text), AddSource::File(_)), "{text}");
        }
        let url = "https://example.com/weather.wasm";
        assert_eq!(parse(url), AddSource::Url(url.to_owned()));
        assert_eq!(
            parse("npm:@acme/weather@1.2.0"),
            AddSource::Npm("@acme/weather@1.2.0".to_owned())
        );
        let folder = tempfile::tempdir().unwrap();
        let found = AddSource::parse(folder.path()).unwrap();
        assert_eq!(found, AddSource::Folder(folder.path().to_owned()));
    }

    #[test]
    fn add_never_completes_a_bare_name() {
        let error = AddSource::parse(Path::new("weather")).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("a reference with its registry"), "{text}");
    }
}
