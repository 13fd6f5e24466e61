//! npm packages: installed by npm, started by node.

use std::path::Path;

use mimir_core::ToolError;
use mimir_core::config::{McpPackage, PackageRegistry};
use serde_json::Value;

use super::install::InstallRun;
use super::package_tree::PackageTree;
use super::registry;
use crate::file_error::{file_error, write_atomically};

/// Script that is preloaded into servers with network access, so that code that ignores the proxy variables uses the
/// proxy.
const PRELOAD: &str = include_str!("proxy.cjs");

/// Folder of packages, and the folder in it with links to their programs.
const PACKAGES: &str = "node_modules";
const PROGRAMS: &str = ".bin";

/// Beginning of an integrity that is secure.
const INTEGRITY: &str = "sha512-";

/// File name of the preload in the folder of a package.
pub(super) const PRELOAD_NAME: &str = "mimir-proxy.cjs";

/// Installs a package into the staging folder. Returns its pin, its command line relative to that folder, and the
/// installed packages.
pub(super) async fn install(
    run: &InstallRun<'_>,
) -> Result<(McpPackage, Vec<String>, PackageTree), ToolError> {
    let staging = run.staging_folder;
    let request = &run.download.request;
    run_npm(run).await?;
    write(&staging.join(PRELOAD_NAME), PRELOAD)?;
    let name = package_name(&request.requirement);
    let lock = read_lock(staging)?;
    let (version, integrity) = pinned_version(&lock, name)?;
    let package_folder = format!("{PACKAGES}/{name}");
    let (program, file) = find_program(
        &read_json(&staging.join(&package_folder).join("package.json"))?,
        name,
        request.program.as_deref(),
    )?;
    let file = format!("./{package_folder}/{}", file.trim_start_matches("./"));
    let start = match is_script_of_node(&staging.join(&file)) {
        true => vec!["node".to_owned(), file],
        false => vec![file],
    };
    let tree = tree(staging, &lock);
    let package = McpPackage {
        registry: PackageRegistry::Npm,
        name: name.to_owned(),
        version,
        integrity,
        dependencies: Some(tree.digest()),
        program,
        with: request.with.clone(),
        install_scripts: run.download.install_scripts,
    };
    Ok((package, start, tree))
}

/// Downloads a package whose programs are not started. Returns its folder relative to the staging folder, its version and
/// its integrity, which npm has checked.
pub(super) async fn download(run: &InstallRun<'_>) -> Result<(String, String, String), ToolError> {
    run_npm(run).await?;
    let staging = run.staging_folder;
    let name = package_name(&run.download.request.requirement);
    let (version, integrity) = pinned_version(&read_lock(staging)?, name)?;
    if !integrity.starts_with(INTEGRITY) {
        let message = format!(
            "the registry has {} for {name} {version}, which is not secure: expected a SHA-512",
            mimir_core::text::visible(mimir_core::text::prefix(&integrity, 100))
        );
        return Err(ToolError::permission_denied(message));
    }
    remove_programs(&staging.join(PACKAGES));
    Ok((format!("{PACKAGES}/{name}"), version, integrity))
}

/// Removes the folders of programs, so that a build in a package starts none of them.
fn remove_programs(folder: &Path) {
    for entry in folder.read_dir().into_iter().flatten().flatten() {
        // Of the entry itself, not of the target of a link.
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        if entry.file_name() == PROGRAMS {
            let _ = std::fs::remove_dir_all(entry.path());
        } else {
            remove_programs(&entry.path());
        }
    }
}

/// Has npm download a package, and those that it depends on, into the staging folder.
async fn run_npm(run: &InstallRun<'_>) -> Result<(), ToolError> {
    let configured = registry::npm().await?;
    run.check_credentials(&configured)?;
    let staging = run.staging_folder;
    write(&staging.join("package.json"), "{\"private\": true}\n")?;
    let request = &run.download.request;
    let mut command_line: Vec<String> =
        ["npm", "install", "--save-exact", "--omit=dev", "--prefix"]
            .map(str::to_owned)
            .to_vec();
    command_line.push(staging.display().to_string());
    command_line.push("--".to_owned());
    command_line.push(request.requirement.clone());
    command_line.extend(request.with.iter().cloned());
    let cache = staging.join(".npm");
    let mut environment = configured.variables.clone();
    for (key, value) in [
        ("cache", cache.display().to_string()),
        (
            "ignore_scripts",
            (!run.download.install_scripts).to_string(),
        ),
        ("audit", "false".to_owned()),
        ("fund", "false".to_owned()),
        ("update_notifier", "false".to_owned()),
        ("progress", "false".to_owned()),
        // npm also repeats a download of the wrong content, by default after more than a minute.
        ("fetch_retry_mintimeout", "1000".to_owned()),
        ("fetch_retry_maxtimeout", "5000".to_owned()),
        // npm then prints a line for each request, which advances the progress.
        ("loglevel", "http".to_owned()),
    ] {
        environment.push((format!("npm_config_{key}"), value));
    }
    run.run_program(
        command_line,
        environment,
        configured.hosts()?,
        "downloading",
    )
    .await?;
    let _ = std::fs::remove_dir_all(&cache);
    Ok(())
}

/// Reads the lock file of the installed packages.
fn read_lock(staging: &Path) -> Result<Value, ToolError> {
    read_json(&staging.join(PACKAGES).join(".package-lock.json"))
}

/// Returns the version and the integrity of an installed package.
fn pinned_version(lock: &Value, name: &str) -> Result<(String, String), ToolError> {
    let entry = &lock["packages"][format!("{PACKAGES}/{name}")];
    let text = |key: &str| {
        entry[key].as_str().map(str::to_owned).ok_or_else(|| {
            ToolError::execution(format!(
                "npm installed {name} without `{key}` in its lock file; it cannot be pinned"
            ))
        })
    };
    Ok((text("version")?, text("integrity")?))
}

/// Returns the packages in the lock file of the folder, which also lists packages for other platforms. Without a lock
/// file, returns the installed packages.
fn tree(staging: &Path, installed: &Value) -> PackageTree {
    let lock_file = read_json(&staging.join("package-lock.json")).ok();
    let lock_file = lock_file.filter(|lock| lock["packages"].is_object());
    let lock = lock_file.as_ref().unwrap_or(installed);
    let packages = lock["packages"].as_object().into_iter().flatten();
    let packages = packages.filter_map(|(path, entry)| {
        let name = path.strip_prefix("node_modules/")?;
        let text = |key: &str| entry[key].as_str();
        let digest = text("integrity").or(text("resolved")).unwrap_or_default();
        Some((name, text("version").unwrap_or_default(), digest))
    });
    PackageTree::new(packages)
}

/// Returns the package name in a requirement such as `@scope/name@^1`.
fn package_name(requirement: &str) -> &str {
    let after_scope = requirement.find('/').map_or(1, |slash| slash + 1);
    let at = requirement
        .get(after_scope..)
        .and_then(|rest| rest.find('@'));
    at.map_or(requirement, |at| {
        requirement.get(..after_scope + at).unwrap_or(requirement)
    })
}

/// Finds the program of a package and its file: the requested program, the only one, or the one with the name of the
/// package.
fn find_program(
    package: &Value,
    name: &str,
    requested: Option<&str>,
) -> Result<(String, String), ToolError> {
    let short = name.rsplit('/').next().unwrap_or(name);
    let programs: Vec<(String, String)> = match &package["bin"] {
        Value::String(file) => vec![(short.to_owned(), file.clone())],
        Value::Object(map) => {
            let each = map
                .iter()
                .filter_map(|(name, file)| Some((name.clone(), file.as_str()?.to_owned())));
            each.collect()
        }
        _ => Vec::new(),
    };
    let same_file = programs
        .iter()
        .all(|(_, file)| Some(file) == programs.first().map(|(_, file)| file));
    let selected = match requested {
        Some(requested) => programs.iter().find(|(name, _)| name == requested),
        None if same_file => programs.first(),
        None => programs.iter().find(|(name, _)| name == short),
    };
    let selected = selected
        .filter(|(_, file)| !file.starts_with('/') && !file.split('/').any(|part| part == ".."));
    selected.cloned().ok_or_else(|| {
        let names: Vec<&str> = programs.iter().map(|(name, _)| name.as_str()).collect();
        let message = match names.is_empty() {
            true => format!("the package {name} has no program to start"),
            false => format!(
                "the package {name} has several programs: {}",
                names.join(", ")
            ),
        };
        let remedy = names
            .first()
            .map(|first| format!("name one of them: `npx -p {name} {first}`"));
        ToolError::invalid_input(mimir_core::text::visible(&message)).with_remedies(remedy)
    })
}

/// Returns true if a file must be started with node: its first line names node, or is not a `#!` line.
fn is_script_of_node(file: &Path) -> bool {
    use std::io::Read as _;
    let mut head = [0; 128];
    let count = std::fs::File::open(file)
        .and_then(|mut file| file.read(&mut head))
        .unwrap_or(0);
    let head = String::from_utf8_lossy(head.get(..count).unwrap_or_default()).into_owned();
    let first = head.lines().next().unwrap_or_default();
    !first.starts_with("#!") || first.contains("node")
}

fn read_json(file: &Path) -> Result<Value, ToolError> {
    let fault = |why: String| {
        let file = file
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        ToolError::execution(format!(
            "cannot read {file}, which npm should have written: {why}"
        ))
    };
    let text = std::fs::read_to_string(file).map_err(|error| fault(error.to_string()))?;
    serde_json::from_str(&text).map_err(|error| fault(error.to_string()))
}

/// Updates the preload script of an installed package, because older scripts do not send the credential that the proxy
/// requires. Returns false if the package has no preload script.
pub(super) fn update_preload(preload: &Path) -> Result<bool, ToolError> {
    let failed = |action: &str, error: &std::io::Error| file_error(action, preload, error);
    match std::fs::read(preload) {
        Ok(existing) if existing == PRELOAD.as_bytes() => return Ok(true),
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(failed("read", &error)),
    }
    // Atomically, because a server may start at the same time.
    write_atomically(preload, PRELOAD.as_bytes()).map_err(|error| failed("write", &error))?;
    Ok(true)
}

fn write(file: &Path, text: &str) -> Result<(), ToolError> {
    std::fs::write(file, text).map_err(|error| file_error("write", file, &error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn npm_preload_of_an_older_installation_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let preload = folder.path().join(PRELOAD_NAME);
        assert!(!update_preload(&preload).unwrap());
        assert!(!preload.exists());
        for present in ["// of an older version\n", PRELOAD] {
            std::fs::write(&preload, present).unwrap();
            assert!(update_preload(&preload).unwrap());
            assert_eq!(std::fs::read_to_string(&preload).unwrap(), PRELOAD);
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn npm_requirement_is_parsed_to_a_package_name() {
        for (requirement, name) in [
            ("a", "a"),
            ("a@1", "a"),
            ("@s/a", "@s/a"),
            ("@s/a@^1.2", "@s/a"),
            ("a-b.c@latest", "a-b.c"),
        ] {
            assert_eq!(package_name(requirement), name);
        }
    }

    #[test]
    fn npm_program_is_the_one_that_npx_would_start() {
        let of = |bin: Value, wanted: Option<&str>| {
            find_program(&json!({ "bin": bin }), "@s/srv", wanted).map(|(name, _)| name)
        };
        assert_eq!(of(json!("x.js"), None).unwrap(), "srv");
        assert_eq!(of(json!({"other": "x.js"}), None).unwrap(), "other");
        assert_eq!(
            of(json!({"a": "a.js", "srv": "x.js"}), None).unwrap(),
            "srv"
        );
        assert_eq!(
            of(json!({"a": "a.js", "b": "b.js"}), Some("b")).unwrap(),
            "b"
        );
        let error = of(json!({"a": "a.js", "b": "b.js"}), None).unwrap_err();
        assert!(error.remedies[0].contains("npx -p @s/srv a"), "{error:?}");
        assert!(of(json!({"a": "../../x.js"}), None).is_err());
        assert!(of(Value::Null, None).is_err());
    }
}
