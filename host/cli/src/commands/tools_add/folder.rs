//! Components in folders: of a package, of an export, or of an OCI image layout. Nothing in the folder runs.

use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use mimir_core::files::{self, LinkPolicy};
use mimir_core::text::visible;
use mimir_core::{ToolError, ToolErrorCode};
use mimir_registry::{ImageIndex, OciDigest, OciManifest, PulledManifest, wasm_artifact};
use serde_json::Value;

use super::{FetchedComponent, MAX_COMPONENT_SIZE, check_stem};
use crate::arguments::quote_for_shell;
use crate::commands::tools_build::PluginFolder;
use crate::exit::CommandResult;
use mimir::file_error::file_error;
use mimir::skills::SKILL_FILE;

/// Maximum size of a manifest in bytes.
const MAX_MANIFEST_SIZE: u64 = 4 << 20;

/// Folders in which a component is looked up, in this order.
const COMPONENT_FOLDERS: [&str; 3] = ["", "dist", "tools"];

/// Reads the component in a folder.
pub fn read_folder(folder: &Path) -> CommandResult<FetchedComponent> {
    let real = folder
        .canonicalize()
        .map_err(|error| file_error("open", folder, &error))?;
    if real.join("oci-layout").is_file() {
        return read_layout(&real);
    }
    let Some(path) = find_component(&real)? else {
        return Err(no_component(folder).into());
    };
    let stem = path.file_stem().and_then(|stem| stem.to_str());
    Ok(FetchedComponent::new(
        read_below(&real, &path)?,
        check_stem(stem)?,
    ))
}

/// Finds the component of a package: the file that `mimir.component` in package.json names, or the only `.wasm` file in
/// the folder, in `dist` or in `tools`.
pub fn find_component(folder: &Path) -> Result<Option<PathBuf>, ToolError> {
    if let Some(named) = named_component(folder)? {
        return Ok(Some(named));
    }
    for below in COMPONENT_FOLDERS {
        let found = components_in(&folder.join(below))?;
        match found.as_slice() {
            [] => {}
            [path] => return Ok(Some(path.clone())),
            several => {
                let names = several.iter().filter_map(|path| path.file_name());
                let names: Vec<String> =
                    names.map(|name| visible(&name.to_string_lossy())).collect();
                let message = format!("the folder has several components: {}", names.join(", "));
                let remedy = "name the file instead of the folder; the author of a package names it in package.json: `\"mimir\": {\"component\": \"FILE.wasm\"}`";
                return Err(ToolError::invalid_input(message).with_remedies([remedy.to_owned()]));
            }
        }
    }
    Ok(None)
}

/// Reads a file of a folder. Links are not followed.
pub fn read_below(folder: &Path, path: &Path) -> Result<Vec<u8>, ToolError> {
    files::reject_links(folder, path)
        .and_then(|()| files::read(path, LinkPolicy::Refuse, MAX_COMPONENT_SIZE))
        .map_err(|error| file_error("read", path, &error))
}

/// Returns the component that package.json names.
fn named_component(folder: &Path) -> Result<Option<PathBuf>, ToolError> {
    let path = folder.join("package.json");
    let text = match files::read_text(&path, LinkPolicy::Refuse, MAX_MANIFEST_SIZE) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(file_error("read", &path, &error)),
    };
    let package: Value = serde_json::from_str(&text).map_err(|error| {
        ToolError::invalid_input(format!("package.json is not valid JSON: {error}"))
    })?;
    let Some(named) = package["mimir"].get("component") else {
        return Ok(None);
    };
    let is_part = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    let file = named.as_str().map(Path::new).filter(|file| {
        file.extension()
            .is_some_and(|extension| extension == "wasm")
            && file.components().all(is_part)
    });
    let file = file.ok_or_else(|| {
        ToolError::new(
            ToolErrorCode::InvalidPath,
            format!(
                "`mimir.component` in package.json is not valid: expected the path of a .wasm file in the package, found {}",
                visible(mimir_core::text::prefix(&named.to_string(), 100))
            ),
        )
    })?;
    Ok(Some(folder.join(file)))
}

/// Returns the components in a folder, which need not exist.
fn components_in(folder: &Path) -> Result<Vec<PathBuf>, ToolError> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        Err(error) => return Err(file_error("read", folder, &error)),
    };
    let paths = entries.flatten().map(|entry| entry.path());
    let is_component = |path: &PathBuf| {
        path.extension()
            .is_some_and(|extension| extension == "wasm")
            && path.symlink_metadata().is_ok_and(|found| found.is_file())
    };
    let mut found: Vec<PathBuf> = paths.filter(is_component).collect();
    found.sort();
    Ok(found)
}

fn no_component(folder: &Path) -> ToolError {
    let shown = visible(&folder.display().to_string());
    let message =
        format!("{shown} has no component: expected one .wasm file in it, in dist or in tools");
    let error = ToolError::new(ToolErrorCode::FileNotFound, message);
    if PluginFolder::find(folder, None).is_ok() {
        let remedy =
            format!("`mimir tools build {shown}` builds its sources and installs the component");
        return error.with_remedies([remedy]);
    }
    if folder.join(SKILL_FILE).is_file() {
        let folder = quote_for_shell(&shown);
        let remedy = format!("it is a skill: `mimir skills add {folder}` adds it");
        return error.with_remedies([remedy]);
    }
    error
}

/// Reads the component of an OCI image layout with one manifest. All digests are checked.
fn read_layout(folder: &Path) -> CommandResult<FetchedComponent> {
    let index = read_small(folder, &folder.join("index.json"))?;
    let index: ImageIndex = serde_json::from_slice(&index)
        .map_err(|error| not_a_layout(&format!("index.json is not valid: {error}")))?;
    let [entry] = index.manifests.as_slice() else {
        let count = index.manifests.len();
        let what = format!("index.json lists {count} manifests, and one is expected");
        return Err(not_a_layout(&what).into());
    };
    let bytes = read_blob(folder, &entry.digest)?;
    let parsed = serde_json::from_slice(&bytes)
        .map_err(|error| not_a_layout(&format!("its manifest is not valid: {error}")))?;
    let manifest = PulledManifest {
        digest: entry.digest,
        bytes,
        parsed: OciManifest::Image(parsed),
        index: None,
    };
    let component = wasm_artifact::find_component(&manifest)
        .map_err(ToolError::from)?
        .component;
    let bytes = read_blob(folder, &component.digest)?;
    let OciManifest::Image(image) = &manifest.parsed else {
        return Err(not_a_layout("it has no manifest of an artifact").into());
    };
    let title = image.annotations.get("org.opencontainers.image.title");
    let name = title.map(String::as_str);
    let name = name.or_else(|| folder.file_name().and_then(|name| name.to_str()));
    let name = name.map(|name| name.strip_suffix(".wasm").unwrap_or(name));
    let mut fetched = FetchedComponent::new(bytes, check_stem(name)?);
    fetched.notes.push(format!("manifest {}", manifest.digest));
    Ok(fetched)
}

fn read_blob(folder: &Path, digest: &OciDigest) -> Result<Vec<u8>, ToolError> {
    let path = folder.join("blobs/sha256").join(digest.hex());
    let bytes = read_below(folder, &path)?;
    let found = OciDigest::of_bytes(&bytes);
    if found != *digest {
        let message = format!("digest mismatch: the blob {digest} has {found}; nothing was added");
        return Err(ToolError::permission_denied(message));
    }
    Ok(bytes)
}

fn read_small(folder: &Path, path: &Path) -> Result<Vec<u8>, ToolError> {
    files::reject_links(folder, path)
        .and_then(|()| files::read(path, LinkPolicy::Refuse, MAX_MANIFEST_SIZE))
        .map_err(|error| file_error("read", path, &error))
}

fn not_a_layout(why: &str) -> ToolError {
    ToolError::invalid_input(format!(
        "the OCI image layout cannot be used: {}",
        visible(why)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        folder
    }

    fn found(files: &[(&str, &str)]) -> Result<Option<String>, ToolError> {
        let folder = folder(files);
        let found = find_component(folder.path())?;
        Ok(found.map(|path| {
            let below = path.strip_prefix(folder.path()).unwrap();
            below.to_string_lossy().replace('\\', "/")
        }))
    }

    #[test]
    fn folder_component_is_named_or_the_only_one() {
        let named = |component: &str| format!("{{\"mimir\": {{\"component\": {component}}}}}");
        let found_name = |files: &[(&str, &str)]| found(files).unwrap();
        assert_eq!(found_name(&[("a.wasm", "")]).as_deref(), Some("a.wasm"));
        assert_eq!(
            found_name(&[("dist/a.wasm", "")]).as_deref(),
            Some("dist/a.wasm")
        );
        assert_eq!(found_name(&[("deep/er/a.wasm", ""), ("a.js", "")]), None);
        let manifest = named("\"./lib/b.wasm\"");
        let files = [
            ("a.wasm", ""),
            ("lib/b.wasm", ""),
            ("package.json", manifest.as_str()),
        ];
        assert_eq!(found_name(&files).as_deref(), Some("lib/b.wasm"));
        let error = found(&[("a.wasm", ""), ("b.wasm", "")]).unwrap_err();
        assert!(error.message.contains("a.wasm, b.wasm"), "{error:?}");
        for bad in ["\"../a.wasm\"", "\"/etc/a.wasm\"", "\"a.js\"", "1", "null"] {
            let error = found(&[("package.json", &named(bad))]).unwrap_err();
            assert_eq!(error.code, ToolErrorCode::InvalidPath, "{bad}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn folder_component_that_is_a_link_is_not_read() {
        let outside = folder(&[("secret", "x"), ("deep/a.wasm", "x")]);
        let inside = folder(&[("package.json", "{\"mimir\": {\"component\": \"a.wasm\"}}")]);
        let link = |to: &str, name: &str| {
            std::os::unix::fs::symlink(outside.path().join(to), inside.path().join(name)).unwrap();
        };
        link("secret", "a.wasm");
        assert!(read_folder(inside.path()).is_err());
        std::fs::remove_file(inside.path().join("package.json")).unwrap();
        std::fs::remove_file(inside.path().join("a.wasm")).unwrap();
        link("deep", "dist");
        assert!(read_folder(inside.path()).is_err());
    }
}
