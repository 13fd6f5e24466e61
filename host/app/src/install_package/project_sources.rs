//! Files of a project that name sources of packages. A project cannot choose where packages come from: only the
//! configuration of the user counts.

use std::fs;
use std::path::Path;

use mimir_core::ToolError;
use mimir_core::text;

use super::manager::PackageManager;
use super::package_spec::PackageEcosystem;
use super::registry_config::{PackageSource, cargo_source_key};

/// Keys of uv's settings with URLs of indexes.
const UV_KEYS: [&str; 6] = [
    "index",
    "index-url",
    "extra-index-url",
    "default-index",
    "find-links",
    "pip",
];

/// Maximum size in bytes of a settings file.
const FILE_MAX: u64 = 1 << 20;

/// Fails if a file of the project, in `folder` or a folder above it in the workspace, names another source of packages
/// than the user's configuration.
pub(super) fn check_project_sources(
    workspace: &Path,
    folder: &Path,
    manager: PackageManager,
    source: &PackageSource,
) -> Result<(), ToolError> {
    let names: &[&str] = match manager {
        PackageManager::Pip | PackageManager::Go => &[],
        PackageManager::Uv => &["uv.toml", "pyproject.toml"],
        PackageManager::Cargo => &[".cargo/config.toml", ".cargo/config"],
        PackageManager::Npm | PackageManager::Pnpm | PackageManager::Yarn => {
            &[".npmrc", ".yarnrc", ".yarnrc.yml", "pnpm-workspace.yaml"]
        }
    };
    let found = find_in_settings(workspace, folder, names, |name, text| {
        match manager.ecosystem() {
            PackageEcosystem::Npm => other_npm_source(text, source),
            PackageEcosystem::Python => other_uv_source(text, name, source),
            PackageEcosystem::Cargo | PackageEcosystem::Go => cargo_source_key(text),
        }
    })?;
    match found {
        Some((file, key)) => Err(refusal(&file, key, manager)),
        None => Ok(()),
    }
}

/// Searches files with these names in `folder` and the folders above it in the workspace. Returns the first file in which
/// `find` finds something, with its path in the workspace.
pub(super) fn find_in_settings<T>(
    workspace: &Path,
    folder: &Path,
    names: &[&str],
    find: impl Fn(&str, &str) -> Option<T>,
) -> Result<Option<(String, T)>, ToolError> {
    let folders = folder.ancestors();
    for folder in folders.take_while(|folder| folder.starts_with(workspace)) {
        for name in names {
            let path = folder.join(name);
            let text = read_settings(workspace, &path)?;
            if let Some(found) = text.and_then(|text| find(name, &text)) {
                return Ok(Some((shown_path(workspace, &path), found)));
            }
        }
    }
    Ok(None)
}

/// Returns the error for a file of the project. It names the key only: models may not be able to read the file.
fn refusal(file: &str, key: &str, manager: PackageManager) -> ToolError {
    let name = manager.as_str();
    ToolError::permission_denied(format!(
        "`{file}` of the project sets another source of packages ({key}) than your own configuration of {name}"
    ))
    .with_remedies([format!(
        "set the source in your own configuration of {name}, outside of the project, or install the package yourself"
    )])
}

/// Returns the path of a file of the project for a message.
fn shown_path(workspace: &Path, path: &Path) -> String {
    let shown = path.strip_prefix(workspace).unwrap_or(path);
    text::visible(&shown.display().to_string())
}

/// Reads a settings file. `None` if it does not exist. A link is refused: it may lead out of the workspace.
fn read_settings(workspace: &Path, path: &Path) -> Result<Option<String>, ToolError> {
    let Ok(metadata) = fs::symlink_metadata(path) else {
        return Ok(None);
    };
    let unreadable = || {
        let shown = shown_path(workspace, path);
        ToolError::permission_denied(format!(
            "`{shown}`, which may set sources of packages, cannot be read: expected a text file of at most 1 MiB that is not a link"
        ))
        .with_remedies(["install the package yourself".to_owned()])
    };
    if !metadata.is_file() || metadata.len() > FILE_MAX {
        return Err(unreadable());
    }
    fs::read_to_string(path).map(Some).map_err(|_| unreadable())
}

/// Returns the key of a setting about registries that is not the user's registry.
fn other_npm_source(text: &str, source: &PackageSource) -> Option<&'static str> {
    let lines = text.lines().map(str::trim);
    let lines = lines.filter(|line| !line.starts_with(['#', ';']));
    for line in lines {
        let key_end = line.find(['=', ':', ' ']).unwrap_or(line.len());
        // `@scope:registry=URL`, `registry=URL`, `npmRegistryServer: URL`, and settings in tables of these.
        let is_about_registries = line.to_lowercase().contains("registr");
        let Some(at) = line.find("://").filter(|_| is_about_registries) else {
            // A value without a URL, such as a variable, cannot be compared.
            let key = line[..key_end].to_lowercase();
            if key == "registry" && line.contains('$') {
                return Some("registry");
            }
            continue;
        };
        let start = line[..at].rfind(|c: char| !c.is_ascii_alphanumeric());
        let url = &line[start.map_or(0, |start| start + 1)..];
        let end = url.find(['"', '\'', ' ', ',', '}']).unwrap_or(url.len());
        if !source.contains(&url[..end]) {
            return Some("registry");
        }
    }
    None
}

/// Returns the key of an index in the settings of uv that is not the user's index.
fn other_uv_source(text: &str, name: &str, source: &PackageSource) -> Option<&'static str> {
    let Ok(settings) = text.parse::<toml_edit::DocumentMut>() else {
        return Some("invalid TOML");
    };
    let settings = match name {
        "uv.toml" => settings.as_item(),
        _ => settings.get("tool")?.get("uv")?,
    };
    UV_KEYS.into_iter().find_map(|key| {
        let text = settings.get(key)?.to_string();
        let mut urls = text.split(['"', '\'']).filter(|part| part.contains("://"));
        let is_other = key == "find-links" || urls.any(|url| !source.contains(url));
        is_other.then_some(key)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(host: &str) -> PackageSource {
        let url = format!("https://{host}");
        PackageSource {
            hosts: vec![crate::packages::registry::host(&url).unwrap().to_string()],
            url,
            scopes: Vec::new(),
            variables: Vec::new(),
            has_facts: true,
        }
    }

    #[test]
    fn package_sources_of_a_project_are_refused() {
        let npm = source("registry.npmjs.org");
        for (text, refused) in [
            ("", false),
            (
                "save-exact=true\n//registry.npmjs.org/:_authToken=x\n",
                false,
            ),
            ("registry=https://registry.npmjs.org/\n", false),
            ("# registry=https://evil.example/\n", false),
            ("registry=https://evil.example/\n", true),
            ("  registry = \"http://registry.npmjs.org/\"\n", true),
            ("@own:registry=https://evil.example\n", true),
            ("registry=${REGISTRY}\n", true),
            ("registry \"https://evil.example\"\n", true),
            (
                "npmScopes:\n  own:\n    npmRegistryServer: \"https://evil.example\"\n",
                true,
            ),
            ("registry=https://registry.npmjs.org.evil.example/\n", true),
            ("registry=https://registry.npmjs.org@evil.example/\n", true),
        ] {
            assert_eq!(other_npm_source(text, &npm).is_some(), refused, "{text}");
        }
        let pypi = source("pypi.org");
        for (text, refused) in [
            ("[project]\nname = \"x\"\n", false),
            ("[tool.uv]\ndev-dependencies = [\"pytest\"]\n", false),
            (
                "[[tool.uv.index]]\nname = \"p\"\nurl = \"https://pypi.org/simple\"\n",
                false,
            ),
            (
                "[[tool.uv.index]]\nname = \"p\"\nurl = \"https://evil.example/simple\"\n",
                true,
            ),
            (
                "[tool.uv]\nextra-index-url = ['https://evil.example']\n",
                true,
            ),
            ("[tool.uv]\nfind-links = [\"./wheels\"]\n", true),
            (
                "[tool.uv]\npip = {index-url = \"https://evil.example\"}\n",
                true,
            ),
            ("[", true),
        ] {
            let found = other_uv_source(text, "pyproject.toml", &pypi);
            assert_eq!(found.is_some(), refused, "{text}: {found:?}");
        }
    }

    #[test]
    fn package_sources_above_the_project_count() {
        let root = tempfile::tempdir().unwrap();
        let inner = root.path().join("a/b");
        fs::create_dir_all(&inner).unwrap();
        let check = |manager, host: &str| {
            check_project_sources(root.path(), &inner, manager, &source(host))
        };
        fs::write(
            root.path().join(".npmrc"),
            "registry=https://evil.example\n",
        )
        .unwrap();
        let error = check(PackageManager::Npm, "registry.npmjs.org").unwrap_err();
        assert_eq!(error.code, mimir_core::ToolErrorCode::PermissionDenied);
        assert!(
            error.message.contains("`.npmrc`") && error.message.contains("(registry)"),
            "{error}"
        );
        assert!(!error.message.contains("evil.example"), "{error}");
        check(PackageManager::Npm, "evil.example").unwrap();
        check(PackageManager::Pip, "pypi.org").unwrap();
        #[cfg(unix)]
        {
            let link = root.path().join("a/.npmrc");
            std::os::unix::fs::symlink("/etc/hostname", &link).unwrap();
            let error = check(PackageManager::Npm, "evil.example").unwrap_err();
            assert!(error.message.contains("`a/.npmrc`"), "{error}");
            fs::remove_file(link).unwrap();
        }
        fs::create_dir(root.path().join("a/.cargo")).unwrap();
        let settings = root.path().join("a/.cargo/config.toml");
        fs::write(&settings, "[source.crates-io]\nreplace-with = \"x\"\n").unwrap();
        let error = check(PackageManager::Cargo, "index.crates.io").unwrap_err();
        assert!(error.message.contains("a/.cargo/config.toml"), "{error}");
    }
}
