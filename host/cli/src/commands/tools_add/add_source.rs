//! Kinds of sources that `mimir tools add` accepts, told apart by their spelling.

use std::path::{Path, PathBuf};
use std::str::FromStr as _;

use mimir_core::text::visible;
use mimir_registry::OciReference;

use super::fetch::without_query;
use crate::arguments::quote_for_shell;
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
    /// Parses the argument. A name without a registry is never looked up in one.
    ///
    /// # Errors
    ///
    /// Fails if the text is a reference and also the path of something, because a checkout could contain such a path,
    /// and the signature of a file is not checked.
    pub fn parse(argument: &Path) -> CommandResult<Self> {
        let found = argument.metadata().ok().map(|meta| meta.is_dir());
        Self::classify(argument, found)
    }

    /// Parses the argument. `found` says whether something has this path, and whether it is a folder.
    fn classify(argument: &Path, found: Option<bool>) -> CommandResult<Self> {
        let path = || match found {
            Some(true) => Self::Folder(argument.to_owned()),
            _ => Self::File(argument.to_owned()),
        };
        let Some(text) = argument.to_str() else {
            return Ok(path());
        };
        if let Some(package) = text.strip_prefix("npm:") {
            return Ok(Self::Npm(package.to_owned()));
        }
        if text.contains("://") && !text.starts_with("oci://") {
            return Ok(Self::Url(text.to_owned()));
        }
        let is_oci = text.starts_with("oci://");
        if is_oci || is_reference(text) {
            match OciReference::from_str(text) {
                Ok(_) if found.is_some() && !is_oci => return Err(ambiguous(text)),
                Ok(reference) => return Ok(Self::Registry(reference)),
                Err(_) if found.is_some() && !is_oci => {}
                Err(error) => return Err(mimir_core::ToolError::from(error).into()),
            }
        }
        if found.is_some() {
            return Ok(path());
        }
        if !is_path(text) {
            return Err(not_a_source(text));
        }
        Ok(path())
    }

    /// Returns the source for the audit log, without secrets of a URL.
    pub fn recorded(&self) -> String {
        match self {
            Self::File(path) | Self::Folder(path) => visible(&path.display().to_string()),
            Self::Url(url) => visible(&without_query(url)),
            Self::Registry(reference) => reference.to_string(),
            Self::Npm(package) => visible(&format!("npm:{package}")),
        }
    }
}

/// Returns the error for a text that is a reference and a path.
fn ambiguous(text: &str) -> CommandFailure {
    let text = visible(text);
    CommandFailure::usage(format!(
        "`{text}` is a reference of a registry, and a file or folder has the same path: write `./{text}` for the file or \
         folder, or `oci://{text}` for the registry"
    ))
}

/// Returns true if a text has the form of a path of a component, or of a path that does not begin with a name.
fn is_path(text: &str) -> bool {
    let extension = Path::new(text).extension();
    let is_component = extension.is_some_and(|it| it == "wasm" || it == "wat");
    let is_drive = text.as_bytes().get(1) == Some(&b':');
    is_component || is_drive || text.starts_with(['.', '/', '~']) || text.contains('\\')
}

/// Returns the error for a text that is neither a path nor a reference with its registry.
fn not_a_source(text: &str) -> CommandFailure {
    let text = visible(text);
    let (repository, owner) = match text.contains('/') {
        true => (text.as_str(), ""),
        false => (text.as_str(), "acme/"),
    };
    let tag = match repository.contains([':', '@']) {
        true => "",
        false => ":1.0",
    };
    let words = repository.rsplit('/').next().unwrap_or_default();
    let words = words.split([':', '@']).next().unwrap_or_default();
    CommandFailure::usage(format!(
        "`{text}` is not a file, and not a reference, which begins with its registry: \
         registry.example.com/{owner}{repository}{tag}; a file, an https URL or `npm:PACKAGE` is accepted, too, and \
         `mimir tools search {}` searches your catalogs",
        quote_for_shell(words)
    ))
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
    fn add_sources_are_not_shadowed_by_paths() {
        for found in [Some(true), Some(false)] {
            let classify = |text: &str| AddSource::classify(Path::new(text), found);
            for text in [
                "registry.example.com/acme/weather",
                "registry.example.com/acme/weather:1.2",
                "127.0.0.1:5000/weather",
                "localhost/weather",
            ] {
                let error = classify(text).unwrap_err().to_string();
                assert!(error.contains(&format!("./{text}")), "{error}");
                let with_scheme = classify(&format!("oci://{text}")).unwrap();
                assert!(matches!(with_scheme, AddSource::Registry(_)), "{text}");
            }
            let package = classify("npm:weather").unwrap();
            assert_eq!(package, AddSource::Npm("weather".to_owned()));
            let url = classify("https://example.com/weather.wasm").unwrap();
            assert!(matches!(url, AddSource::Url(_)));
            for text in [
                "./registry.example.com/acme/weather",
                "weather",
                "tools.d/W x",
            ] {
                let source = classify(text).unwrap();
                let path = text.into();
                let expected = match found {
                    Some(true) => AddSource::Folder(path),
                    _ => AddSource::File(path),
                };
                assert_eq!(source, expected);
            }
        }
    }

    #[test]
    fn add_never_completes_a_bare_name() {
        for (name, reference) in [
            ("weather", "registry.example.com/acme/weather:1.0;"),
            ("weather:2", "registry.example.com/acme/weather:2;"),
            ("acme/weather:1.0", "registry.example.com/acme/weather:1.0;"),
            ("acme/weather", "registry.example.com/acme/weather:1.0;"),
            ("weather-1.0", "registry.example.com/acme/weather-1.0:1.0;"),
        ] {
            let error = AddSource::parse(Path::new(name)).unwrap_err();
            let text = error.to_string();
            assert!(text.contains("begins with its registry"), "{text}");
            assert!(text.contains(reference), "{text}");
            assert!(text.contains("mimir tools search weather"), "{text}");
        }
    }
}
