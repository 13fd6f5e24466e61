//! PyPI packages: installed by pip into a virtual environment, started by the interpreter of that environment.

use std::collections::BTreeSet;
use std::path::Path;

use mimir_core::ToolError;
use mimir_core::config::{McpPackage, PackageRegistry};
use mimir_core::network::HostPattern;
use serde_json::Value;

use super::install::InstallRun;
use super::package_tree::PackageTree;
use super::registry::{self, InstallerConfig};

/// The interpreter of the virtual environment, below the folder of the package.
const INTERPRETER: &str = "venv/bin/python";

/// Installs a package into the staging folder. Returns its pin, its command line relative to that folder, and the
/// installed packages.
pub(super) async fn install(
    run: &InstallRun<'_>,
) -> Result<(McpPackage, Vec<String>, PackageTree), ToolError> {
    let python_path = registry::output(
        "python3",
        &["-I", "-c", "import sys; print(sys.executable)"],
    )
    .await;
    let python = python_path
        .map(|path| path.trim().to_owned())
        .map_err(|why| {
            let message =
                format!("PyPI packages need Python 3, but `python3` cannot be started: {why}");
            ToolError::unavailable(message).with_remedies([
                "install Python 3.10 or newer, so that `python3` is on the PATH".to_owned(),
            ])
        })?;
    let configured = registry::python(&python).await;
    run.check_credentials(&configured)?;
    let request = &run.download.request;
    let hosts = hosts(run, &configured, package_name(&request.requirement)).await?;
    let staging = run.staging_folder;
    let report = staging.join("report.json");
    let mut command_line = pip(run, &python, &configured, &hosts).await?;
    let install = [
        "install",
        "--no-cache-dir",
        "--no-input",
        "--progress-bar",
        "off",
        "--report",
    ];
    command_line.extend(install.map(str::to_owned));
    command_line.push(report.display().to_string());
    if !run.download.install_scripts {
        // Building a source distribution would run programs of the package.
        command_line.push("--only-binary=:all:".to_owned());
    }
    command_line.push("--".to_owned());
    command_line.push(request.requirement.clone());
    command_line.extend(request.with.iter().cloned());
    run.run_program(command_line, variables(&configured), hosts, "downloading")
        .await?;
    let text = std::fs::read_to_string(&report)
        .map_err(|error| crate::file_error::file_error("read", &report, &error))?;
    let report: Value = serde_json::from_str(&text).unwrap_or_default();
    let (name, version, integrity) = pinned_package(&report, package_name(&request.requirement))?;
    let program = request.program.clone().unwrap_or_else(|| name.clone());
    let file = format!("./venv/bin/{program}");
    if !staging.join(&file).is_file() {
        return Err(no_program(staging, &name, &program));
    }
    let start = vec![format!("./{INTERPRETER}"), file];
    let tree = tree(&report);
    let package = McpPackage {
        registry: PackageRegistry::Pypi,
        name,
        version,
        integrity,
        dependencies: Some(tree.digest()),
        program,
        with: request.with.clone(),
        install_scripts: run.download.install_scripts,
    };
    Ok((package, start, tree))
}

/// Returns the packages in pip's report.
fn tree(report: &Value) -> PackageTree {
    let installed = report["install"].as_array().into_iter().flatten();
    let packages = installed.map(|entry| {
        let text = |key: &str| entry["metadata"][key].as_str().unwrap_or_default();
        let info = &entry["download_info"]["archive_info"];
        let digest = info["hashes"]["sha256"].as_str().or(info["hash"].as_str());
        (text("name"), text("version"), digest.unwrap_or_default())
    });
    PackageTree::new(packages)
}

/// Creates the virtual environment and returns the command line of a pip that installs into it: the host's pip, or a
/// pip in the environment if the host's pip is missing or too old.
async fn pip(
    run: &InstallRun<'_>,
    python: &str,
    configured: &InstallerConfig,
    hosts: &[HostPattern],
) -> Result<Vec<String>, ToolError> {
    let folder = run.staging_folder.join("venv").display().to_string();
    let interpreter = run.staging_folder.join(INTERPRETER).display().to_string();
    let owned = |words: &[&str]| {
        words
            .iter()
            .map(|word| (*word).to_owned())
            .collect::<Vec<String>>()
    };
    let version = registry::output(python, &["-I", "-m", "pip", "--version"]).await;
    if version.is_ok_and(|version| installs_elsewhere(&version)) {
        let command_line = owned(&[python, "-I", "-m", "venv", "--without-pip", &folder]);
        run.run_program(command_line, Vec::new(), Vec::new(), "preparing")
            .await?;
        return Ok(owned(&[
            python,
            "-I",
            "-m",
            "pip",
            "--python",
            &interpreter,
        ]));
    }
    let venv_pip = owned(&[&interpreter, "-I", "-m", "pip"]);
    let command_line = owned(&[python, "-I", "-m", "venv", &folder]);
    let created = run
        .run_program(command_line, Vec::new(), Vec::new(), "preparing")
        .await;
    let Err(error) = created else {
        return Ok(venv_pip);
    };
    if registry::output("uv", &["--version"]).await.is_err() {
        let remedy = "install pip for Python (`apt install python3-pip`, or python3-venv), or uv";
        return Err(error.with_remedies([remedy.to_owned()]));
    }
    let _ = std::fs::remove_dir_all(&folder);
    let command_line = owned(&[
        "uv",
        "venv",
        "--seed",
        "--no-cache",
        "--python",
        python,
        &folder,
    ]);
    let mut variables = variables(configured);
    let index = configured.urls.first().cloned().unwrap_or_default();
    variables.push(("UV_DEFAULT_INDEX".to_owned(), index));
    run.run_program(command_line, variables, hosts.to_vec(), "preparing")
        .await?;
    Ok(venv_pip)
}

/// Returns true if this version of pip can install for another interpreter and report the installed packages. 22.3 can,
/// but only the major version is compared, so 23 is required.
fn installs_elsewhere(version: &str) -> bool {
    let number = version
        .split(' ')
        .nth(1)
        .and_then(|number| number.split('.').next());
    number
        .and_then(|number| number.parse::<u32>().ok())
        .is_some_and(|number| number >= 23)
}

fn variables(configured: &InstallerConfig) -> Vec<(String, String)> {
    let mut variables = configured.variables.clone();
    variables.push(("PIP_DISABLE_PIP_VERSION_CHECK".to_owned(), "1".to_owned()));
    variables
}

/// Returns the hosts of the configured indexes, and the hosts of the files that the index pages of the package link to.
async fn hosts(
    run: &InstallRun<'_>,
    configured: &InstallerConfig,
    name: &str,
) -> Result<Vec<HostPattern>, ToolError> {
    let mut hosts = configured.hosts()?;
    for index in &configured.urls {
        // An index with a password in its URL usually serves its files from the same host.
        if registry::split_userinfo(index).1 {
            continue;
        }
        let url = format!("{}/{name}/", index.trim_end_matches('/'));
        match run.installer.fetch_text(&url, run.describe_package()).await {
            Ok(page) => {
                for origin in origins(&page) {
                    let host = registry::host(&origin)?;
                    if !hosts.contains(&host) {
                        hosts.push(host);
                    }
                }
            }
            // pip reports the error, or finds the package in another index.
            Err(error) => tracing::info!(%error, "a page of the package index cannot be read"),
        }
    }
    Ok(hosts)
}

/// Returns the origins of the links in a page.
fn origins(page: &str) -> BTreeSet<String> {
    let links = page
        .split(['"', '\''])
        .filter(|part| part.starts_with("https://") || part.starts_with("http://"));
    let origins = links.filter_map(|link| {
        let (scheme, rest) = link.split_once("://")?;
        let host = rest.split(['/', '?', '#']).next()?;
        Some(format!("{scheme}://{host}/"))
    });
    origins.collect()
}

/// Returns the package name in a requirement such as `pkg[extra]>=1`, without normalizing it.
fn package_name(requirement: &str) -> &str {
    let end = requirement.find(['=', '<', '>', '!', '~', '[', ' ', ';']);
    requirement
        .get(..end.unwrap_or(requirement.len()))
        .unwrap_or(requirement)
}

/// Returns the normalized form of a package name, as indexes compare names.
fn normalize_name(name: &str) -> String {
    name.to_ascii_lowercase().replace(['_', '.'], "-")
}

/// Returns the normalized name, the version and the file digest of a package in pip's report.
fn pinned_package(report: &Value, name: &str) -> Result<(String, String, String), ToolError> {
    let fault = || {
        let message =
            format!("pip did not report the installed version of {name}, so it cannot be pinned");
        ToolError::execution(message)
    };
    let installed = report["install"].as_array().ok_or_else(fault)?;
    let is_package = |entry: &&Value| {
        entry["metadata"]["name"]
            .as_str()
            .is_some_and(|reported_name| normalize_name(reported_name) == normalize_name(name))
    };
    let entry = installed.iter().find(is_package).ok_or_else(fault)?;
    let text = |value: &Value| value.as_str().map(str::to_owned).ok_or_else(fault);
    let info = &entry["download_info"]["archive_info"];
    let digest = match info["hashes"]["sha256"].as_str() {
        Some(digest) => digest.to_owned(),
        // Format of older versions of pip.
        None => info["hash"]
            .as_str()
            .and_then(|hash| hash.strip_prefix("sha256="))
            .map(str::to_owned)
            .ok_or_else(fault)?,
    };
    let metadata = &entry["metadata"];
    Ok((
        normalize_name(&text(&metadata["name"])?),
        text(&metadata["version"])?,
        format!("sha256-{digest}"),
    ))
}

/// Creates the error for a missing program, which lists the available programs.
fn no_program(staging: &Path, name: &str, requested: &str) -> ToolError {
    let entries = staging
        .join("venv/bin")
        .read_dir()
        .into_iter()
        .flatten()
        .flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let standard = ["python", "pip", "activate", "Activate"];
    let mut names: Vec<String> = names
        .filter(|name| !standard.iter().any(|standard| name.starts_with(standard)))
        .collect();
    names.sort();
    names.truncate(20);
    let message = format!(
        "the package {name} has no program `{requested}`; available: {}",
        names.join(", ")
    );
    let remedy = format!("name the program: `uvx --from {name} PROGRAM`");
    ToolError::invalid_input(mimir_core::text::visible(&message)).with_remedies([remedy])
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn pypi_file_origins_are_read_from_the_index_page() {
        let page = r#"<a href="https://files.example/p/a.whl#sha256=x">a</a> <a href='../b.whl'>b</a>
            {"url": "http://other.example:8080/c.whl"}"#;
        let found: Vec<String> = origins(page).into_iter().collect();
        assert_eq!(
            found,
            ["http://other.example:8080/", "https://files.example/"]
        );
    }

    #[test]
    fn pypi_pins_the_requested_package() {
        let report = json!({"install": [
            {"metadata": {"name": "mcp", "version": "2"}, "download_info": {"archive_info": {"hashes": {"sha256": "bb"}}}},
            {"metadata": {"name": "My_Server", "version": "1.0"}, "download_info": {"archive_info": {"hashes": {"sha256": "aa"}}}},
        ]});
        let found = pinned_package(&report, package_name("my-server[x]>=1")).unwrap();
        assert_eq!(
            found,
            (
                "my-server".to_owned(),
                "1.0".to_owned(),
                "sha256-aa".to_owned()
            )
        );
        assert!(pinned_package(&report, "other").is_err());
        assert!(installs_elsewhere("pip 24.0 from /x (python 3.11)"));
        assert!(!installs_elsewhere("pip 20.3.4 from /x") && !installs_elsewhere(""));
    }
}
