//! Names and versions of packages, as callers write them.

use mimir_core::ToolError;
use mimir_core::text;

/// The registry that a name belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PackageEcosystem {
    /// npm.
    Npm,
    /// PyPI.
    Python,
    /// crates.io.
    Cargo,
    /// Go modules.
    Go,
}

/// A package with an optional version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PackageSpec {
    /// The name, in the normal form of the registry.
    pub(super) name: String,
    /// The exact version, or for npm a tag such as `next`.
    pub(super) version: Option<String>,
}

/// Maximum length of a name or version.
const LENGTH_MAX: usize = 200;

impl PackageSpec {
    /// Parses `NAME`, `NAME@VERSION`, or for Python `NAME==VERSION`. URLs, paths, ranges, options and characters other
    /// than those of the registry's names are refused, so that no part of the text can be read as anything else by a
    /// shell or a package manager.
    pub(super) fn parse(ecosystem: PackageEcosystem, written: &str) -> Result<Self, ToolError> {
        let shown = text::visible(text::prefix(written, 100));
        let refused = |why: &str| {
            ToolError::invalid_input(format!(
                "`{shown}` is not a valid package: {why}. Expected a name in the registry with an optional exact \
                 version, such as {}",
                example(ecosystem)
            ))
        };
        if let Some(character) = written.chars().find(|c| !c.is_ascii_graphic()) {
            let code = u32::from(character);
            return Err(refused(&format!("it contains the character U+{code:04X}")));
        }
        // A scope of npm begins with `@`.
        let after_first = usize::from(!written.is_empty());
        let (name, version) = match (ecosystem, written.split_once("==")) {
            (PackageEcosystem::Python, Some((name, version))) => (name, Some(version)),
            _ => match written[after_first..].split_once('@') {
                Some((name, version)) => (&written[..after_first + name.len()], Some(version)),
                None => (written, None),
            },
        };
        if name.len() > LENGTH_MAX || version.is_some_and(|version| version.len() > LENGTH_MAX) {
            return Err(refused("it is too long"));
        }
        if name.starts_with('-') {
            return Err(refused("options are not supported"));
        }
        let is_file = is_archive(written) || is_archive(name);
        if is_file
            || written.contains("://")
            || written.starts_with("git+")
            || written.starts_with('.')
        {
            return Err(refused("URLs, repositories and paths are not supported"));
        }
        if !is_name(ecosystem, name) {
            return Err(refused(
                "the name has a form that the registry does not allow",
            ));
        }
        if !version.is_none_or(|version| is_version(ecosystem, version)) {
            return Err(refused("the version is not exact"));
        }
        let name = match ecosystem {
            PackageEcosystem::Python => normalize_python(name),
            _ => name.to_owned(),
        };
        Ok(Self {
            name,
            version: version.map(str::to_owned),
        })
    }
}

fn example(ecosystem: PackageEcosystem) -> &'static str {
    match ecosystem {
        PackageEcosystem::Npm => "`left-pad@1.3.0`",
        PackageEcosystem::Python => "`requests==2.32.3`",
        PackageEcosystem::Cargo => "`serde@1.0.200`",
        PackageEcosystem::Go => "`golang.org/x/text@v0.20.0`",
    }
}

/// Returns true if `part` consists of ASCII letters, digits and the characters in `other`, and begins with a letter or
/// digit.
fn is_part(part: &str, other: &str) -> bool {
    let mut characters = part.chars();
    let first = characters.next();
    first.is_some_and(|first| first.is_ascii_alphanumeric())
        && characters.all(|c| c.is_ascii_alphanumeric() || other.contains(c))
}

fn is_name(ecosystem: PackageEcosystem, name: &str) -> bool {
    match ecosystem {
        PackageEcosystem::Npm => match name.strip_prefix('@') {
            Some(scoped) => scoped
                .split_once('/')
                .is_some_and(|(scope, name)| is_part(scope, "-_.") && is_part(name, "-_.")),
            None => is_part(name, "-_."),
        },
        PackageEcosystem::Python => is_part(name, "-_."),
        PackageEcosystem::Cargo => is_part(name, "-_"),
        PackageEcosystem::Go => {
            name.split_once('/')
                .is_some_and(|(host, _)| host.contains('.'))
                && name.split('/').all(|part| is_part(part, "-_.~"))
        }
    }
}

/// Returns true for an exact version, or a tag of npm. A version of a Go module begins with `v`, because its proxy also
/// resolves branches and commits.
pub(super) fn is_version(ecosystem: PackageEcosystem, version: &str) -> bool {
    let number = match ecosystem {
        PackageEcosystem::Go => match version.strip_prefix('v') {
            Some(number) => number,
            None => return false,
        },
        _ => version,
    };
    let begins_well =
        ecosystem == PackageEcosystem::Npm || number.starts_with(|c: char| c.is_ascii_digit());
    begins_well && is_part(number, ".-+_!") && !is_archive(number)
}

/// Ends of file names that package managers take for an archive in the project's folder.
const ARCHIVE_ENDS: [&str; 13] = [
    ".zip",
    ".whl",
    ".egg",
    ".tgz",
    ".tar",
    ".tar.gz",
    ".tar.bz2",
    ".tbz",
    ".tar.xz",
    ".txz",
    ".tlz",
    ".tar.lz",
    ".tar.lzma",
];

/// Returns true if a package manager may read the text as the name of a file.
fn is_archive(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    ARCHIVE_ENDS.iter().any(|end| text.ends_with(end))
}

/// Returns the normal form of a name on PyPI: lower case, with single hyphens.
pub(super) fn normalize_python(name: &str) -> String {
    let mut normal = String::new();
    for c in name.chars() {
        match c {
            '-' | '_' | '.' if normal.ends_with('-') => {}
            '-' | '_' | '.' => normal.push('-'),
            c => normal.push(c.to_ascii_lowercase()),
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::*;
    use PackageEcosystem::*;

    #[test]
    fn package_spec_splits_name_and_exact_version() {
        for (ecosystem, written, name, version) in [
            (Npm, "left-pad", "left-pad", None),
            (Npm, "left-pad@1.3.0", "left-pad", Some("1.3.0")),
            (Npm, "@types/node@next", "@types/node", Some("next")),
            (
                Python,
                "Typing_Extensions==4.12.2",
                "typing-extensions",
                Some("4.12.2"),
            ),
            (Python, "requests@2.32.3", "requests", Some("2.32.3")),
            (Cargo, "serde_json@1.0.1", "serde_json", Some("1.0.1")),
            (
                Go,
                "golang.org/x/text@v0.20.0",
                "golang.org/x/text",
                Some("v0.20.0"),
            ),
        ] {
            let spec = PackageSpec::parse(ecosystem, written).unwrap();
            assert_eq!(
                (spec.name.as_str(), spec.version.as_deref()),
                (name, version)
            );
        }
    }

    #[test]
    fn package_spec_refuses_all_other_forms() {
        for (ecosystem, written, why) in [
            (Npm, "https://evil.example/x.tgz", "URLs"),
            (Npm, "git+ssh://x", "URLs"),
            (Npm, "user/repository", "form"),
            (Npm, "file:../x", "form"),
            (Npm, "./x", "paths"),
            (Npm, "../x", "paths"),
            (Npm, "/etc", "form"),
            (Npm, "left-pad@1.0.tgz", "paths"),
            (Npm, "left-pad.tgz@1.0.0", "paths"),
            (Python, "foo==1.0.zip", "paths"),
            (Python, "foo==1.0+x.TAR.GZ", "paths"),
            (Python, "foo.whl", "paths"),
            (Npm, "--registry=http://evil.example", "options"),
            (Npm, "-g", "options"),
            (Npm, "left-pad@^1.0.0", "not exact"),
            (Npm, "left-pad@1.0.0;id", "not exact"),
            (Npm, "left-pad@$(id)", "not exact"),
            (Npm, "left-pad@-g", "not exact"),
            (Npm, "x@npm:y", "not exact"),
            (Npm, "x@https://evil.example/x", "URLs"),
            (Npm, "a b", "U+0020"),
            (Npm, "a\nb", "U+000A"),
            (Npm, "\u{440}eact", "U+0440"),
            (Npm, "reac\u{200b}t", "U+200B"),
            (Npm, "", "form"),
            (Npm, "@", "form"),
            (Npm, "@a", "form"),
            (Python, "-r", "options"),
            (Python, "--index-url=https://evil.example", "options"),
            (Python, "-e", "options"),
            (Python, "requests>=2", "form"),
            (Python, "requests[socks]", "form"),
            (Python, "requests==2.*", "not exact"),
            (Python, "requests@latest", "not exact"),
            (Cargo, "serde@*", "not exact"),
            (Cargo, "serde@1`id`", "not exact"),
            (Go, "text", "form"),
            (Go, "golang.org/../x", "form"),
            (Go, "golang.org/x/text@master", "not exact"),
            (Go, "golang.org/x/text@v", "not exact"),
        ] {
            let error = PackageSpec::parse(ecosystem, written).unwrap_err();
            assert_eq!(error.code, mimir_core::ToolErrorCode::InvalidInput);
            assert!(error.message.contains(why), "{written}: {error}");
        }
        assert!(PackageSpec::parse(Npm, &"a".repeat(300)).is_err());
    }
}
