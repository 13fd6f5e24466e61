//! The registry that a package manager uses, as the user has configured it outside of any project.

use std::path::PathBuf;

use mimir_core::ToolError;
use mimir_core::needs::HostNeed;
use mimir_core::text;
use serde_json::Value;

use super::manager::PackageManager;
use super::package_spec::PackageEcosystem;
use crate::packages::registry::{self, InstallerConfig};

/// The registry of a package manager.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PackageSource {
    /// Base URL of the lookups, without a slash at the end.
    pub(super) url: String,
    /// Registries of npm scopes: each scope with `@`, and its base URL.
    pub(super) scopes: Vec<(String, String)>,
    /// Hosts of the registry and its downloads, as patterns.
    pub(super) hosts: Vec<String>,
    /// Variables that make the package manager use this registry, whatever files of the project say.
    pub(super) variables: Vec<(String, String)>,
    /// True if the registry tells versions and dates of all packages.
    pub(super) has_facts: bool,
}

impl PackageSource {
    /// Returns the hosts as needs, for all requests of package managers.
    pub(super) fn host_needs(&self) -> Vec<HostNeed> {
        let hosts = self.hosts.iter();
        hosts
            .map(|host| HostNeed {
                host: host.clone(),
                methods: ["CONNECT", "GET", "HEAD"].map(str::to_owned).into(),
                reason: "to look up and download packages".to_owned(),
            })
            .collect()
    }

    /// Returns the base URL for a package.
    pub(super) fn url_for(&self, package: &str) -> &str {
        let scope = package.split_once('/').map(|(scope, _)| scope);
        let mut scopes = self.scopes.iter();
        let own = scopes.find(|(name, _)| scope == Some(name.as_str()));
        own.map_or(&self.url, |(_, url)| url)
    }

    /// Returns true if a URL leads to one of the hosts.
    pub(super) fn contains(&self, url: &str) -> bool {
        registry::host(url).is_ok_and(|host| self.hosts.contains(&host.to_string()))
    }
}

/// Default registries. Package managers download from further hosts of these.
const NPM: &str = "https://registry.npmjs.org";
const GO: &str = "https://proxy.golang.org";
const CARGO_INDEX: &str = "https://index.crates.io";
const CARGO_DOWNLOADS: &str = "https://static.crates.io";
const PYPI_DOWNLOADS: &str = "https://files.pythonhosted.org";

/// Returns the registry of a package manager.
pub(super) async fn package_source(manager: PackageManager) -> Result<PackageSource, ToolError> {
    match manager.ecosystem() {
        PackageEcosystem::Npm => npm_source(&registry::npm().await?),
        PackageEcosystem::Python => python_source(&registry::python("python3").await),
        PackageEcosystem::Cargo => cargo_source(),
        PackageEcosystem::Go => {
            let listed = registry::output("go", &["env", "-json"]).await;
            let listed = listed.map_err(|why| {
                ToolError::unavailable(format!("`go env` failed: {why}"))
                    .with_remedies(["install Go, so that `go` is on the PATH".to_owned()])
            })?;
            go_source(&serde_json::from_str(&listed).unwrap_or_default())
        }
    }
}

fn npm_source(configured: &InstallerConfig) -> Result<PackageSource, ToolError> {
    let url = variable(&configured.variables, "npm_config_registry").unwrap_or(NPM);
    let mut source = source_of_installer(configured, url)?;
    for (name, url) in &configured.variables {
        let scope = name.strip_prefix("npm_config_");
        if let Some(scope) = scope.and_then(|name| name.strip_suffix(":registry")) {
            let url = url.trim_end_matches('/').to_owned();
            source.scopes.push((scope.to_owned(), url));
        }
    }
    // Yarn and newer versions of pnpm have variables of their own.
    for name in [
        "YARN_REGISTRY",
        "YARN_NPM_REGISTRY_SERVER",
        "pnpm_config_registry",
    ] {
        let url = source.url.clone();
        source.variables.push((name.to_owned(), url));
    }
    for (name, value) in [
        // Corepack would download and run a package manager that the project names.
        ("COREPACK_ENABLE_NETWORK", "0"),
        ("npm_config_update_notifier", "false"),
    ] {
        source.variables.push((name.to_owned(), value.to_owned()));
    }
    Ok(source)
}

fn python_source(configured: &InstallerConfig) -> Result<PackageSource, ToolError> {
    let index = configured.urls.first().map_or("", String::as_str);
    let index = index.trim_end_matches('/');
    let base = index.strip_suffix("/simple").unwrap_or(index);
    let mut source = source_of_installer(configured, base)?;
    let is_pypi = index == registry::PYTHON_INDEX;
    if is_pypi {
        source
            .hosts
            .push(registry::host(PYPI_DOWNLOADS)?.to_string());
    } else {
        let name = "UV_DEFAULT_INDEX".to_owned();
        source.variables.push((name, index.to_owned()));
    }
    for (name, value) in [
        // No configuration file applies, also not that of the virtual environment.
        ("PIP_CONFIG_FILE", "/dev/null"),
        ("UV_NO_CONFIG", "1"),
        ("UV_PYTHON_DOWNLOADS", "never"),
        ("UV_LINK_MODE", "copy"),
        // The certificates of the system; the second name is that of older versions.
        ("UV_SYSTEM_CERTS", "true"),
        ("UV_NATIVE_TLS", "true"),
    ] {
        source.variables.push((name.to_owned(), value.to_owned()));
    }
    source.has_facts = is_pypi;
    Ok(source)
}

fn source_of_installer(
    configured: &InstallerConfig,
    url: &str,
) -> Result<PackageSource, ToolError> {
    if configured.has_credentials() {
        return Err(with_password("the URL of the configured package registry"));
    }
    let hosts = configured.hosts()?;
    let mut hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
    let own = registry::host(url)?.to_string();
    if !hosts.contains(&own) {
        hosts.push(own);
    }
    let mut variables = configured.variables.clone();
    // The sandbox shows the certificates of the system only.
    variables.retain(|(name, path)| {
        let is_certificates = name == "npm_config_cafile" || name == "PIP_CERT";
        !is_certificates || path.starts_with("/etc/ssl/") || path.starts_with("/usr/")
    });
    Ok(PackageSource {
        url: url.trim_end_matches('/').to_owned(),
        scopes: Vec::new(),
        hosts,
        variables,
        has_facts: true,
    })
}

fn with_password(what: &str) -> ToolError {
    let message = format!("{what} contains a password, which code of the project could read");
    let remedy = "install the package yourself, or take the password out of the URL".to_owned();
    ToolError::unavailable(message).with_remedies([remedy])
}

/// Returns crates.io. Fails if the user has configured another source.
fn cargo_source() -> Result<PackageSource, ToolError> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| std::env::home_dir().map(|home| home.join(".cargo")));
    for name in ["config.toml", "config"] {
        let path = home.as_ref().map(|home| home.join(name));
        let text = path.and_then(|path| std::fs::read_to_string(path).ok());
        if text.is_some_and(|text| cargo_source_key(&text).is_some()) {
            return Err(ToolError::unavailable(format!(
                "your cargo uses another source than crates.io ({name} in cargo's home folder), which is not supported"
            ))
            .with_remedies(["install the crate yourself".to_owned()]));
        }
    }
    let hosts = [CARGO_INDEX, CARGO_DOWNLOADS].map(registry::host);
    let hosts: Result<Vec<_>, _> = hosts.into_iter().collect();
    Ok(PackageSource {
        url: CARGO_INDEX.to_owned(),
        scopes: Vec::new(),
        hosts: hosts?.iter().map(ToString::to_string).collect(),
        variables: Vec::new(),
        has_facts: true,
    })
}

/// Returns the key of cargo's settings that replaces crates.io. Settings that are not valid count as such.
pub(super) fn cargo_source_key(text: &str) -> Option<&'static str> {
    let Ok(settings) = text.parse::<toml_edit::DocumentMut>() else {
        return Some("invalid TOML");
    };
    let get = |table: &str, key: &str| settings.get(table).and_then(|table| table.get(key));
    if settings.get("source").is_some() {
        return Some("source");
    }
    if get("registry", "default").is_some() {
        return Some("registry.default");
    }
    get("registries", "crates-io").map(|_| "registries.crates-io")
}

/// Reads the output of `go env -json`.
fn go_source(listed: &Value) -> Result<PackageSource, ToolError> {
    let text = |key: &str| listed[key].as_str().unwrap_or_default();
    let first = text("GOPROXY").split([',', '|']).next();
    let first = first.unwrap_or_default().trim();
    let url = match first {
        "" => GO,
        url if url.starts_with("http://") || url.starts_with("https://") => url,
        other => {
            let other = text::visible(text::prefix(other, 100));
            let message = format!("Go uses no module proxy: GOPROXY begins with `{other}`");
            let remedy = "install the module yourself, or set GOPROXY to the URL of a module proxy"
                .to_owned();
            return Err(ToolError::unavailable(message).with_remedies([remedy]));
        }
    };
    if registry::split_userinfo(url).1 {
        return Err(with_password("GOPROXY"));
    }
    let url = url.trim_end_matches('/').to_owned();
    let mut hosts = vec![registry::host(&url)?.to_string()];
    let checksums = text("GOSUMDB").split_whitespace().next().unwrap_or("off");
    let is_host = !checksums.contains('/') && checksums.contains('.');
    if is_host {
        // The name may have a key after `+`.
        let name = checksums.split('+').next().unwrap_or(checksums);
        hosts.push(registry::host(&format!("https://{name}"))?.to_string());
    }
    let mut variables = vec![("GOPROXY".to_owned(), url.clone())];
    for name in ["GOSUMDB", "GONOSUMDB"] {
        if !text(name).is_empty() {
            variables.push((name.to_owned(), text(name).to_owned()));
        }
    }
    for (name, value) in [
        ("GONOPROXY", "none"),
        ("GOENV", "off"),
        ("GOVCS", "*:off"),
        // The `toolchain` line of a module would download and run another version of Go.
        ("GOTOOLCHAIN", "local"),
    ] {
        variables.push((name.to_owned(), value.to_owned()));
    }
    Ok(PackageSource {
        url,
        scopes: Vec::new(),
        hosts,
        variables,
        has_facts: true,
    })
}

fn variable<'a>(variables: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let mut variables = variables.iter();
    let found = variables.find(|(known, _)| known == name);
    found.map(|(_, value)| value.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn configured(urls: &[&str], variables: &[(&str, &str)]) -> InstallerConfig {
        InstallerConfig {
            urls: urls.iter().map(|url| (*url).to_owned()).collect(),
            variables: variables
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            certificates: None,
        }
    }

    #[test]
    fn package_registry_of_npm_has_scopes() {
        let scope = ("npm_config_@own:registry", "https://own.example/npm/");
        let config = configured(
            &["https://npm.example/", "https://own.example/npm/"],
            &[
                ("npm_config_registry", "https://npm.example/"),
                scope,
                ("npm_config_cafile", "/home/me/ca.pem"),
            ],
        );
        let source = npm_source(&config).unwrap();
        assert_eq!(source.url_for("left-pad"), "https://npm.example");
        assert_eq!(source.url_for("@own/x"), "https://own.example/npm");
        assert_eq!(source.url_for("@other/x"), "https://npm.example");
        assert!(source.contains("https://npm.example/x") && !source.contains("https://a.example"));
        let yarn = variable(&source.variables, "YARN_NPM_REGISTRY_SERVER");
        assert_eq!(yarn, Some("https://npm.example"));
        assert_eq!(variable(&source.variables, "npm_config_cafile"), None);
        let config = configured(&["https://me:pw@npm.example/"], &[]);
        let error = npm_source(&config).unwrap_err();
        assert!(error.message.contains("password") && !error.message.contains("pw@"));
    }

    #[test]
    fn package_registry_of_python_and_go_have_their_hosts() {
        let pypi = python_source(&configured(&["https://pypi.org/simple"], &[])).unwrap();
        assert_eq!(
            (pypi.url.as_str(), pypi.has_facts),
            ("https://pypi.org", true)
        );
        assert!(pypi.contains("https://files.pythonhosted.org/x"));
        let own = python_source(&configured(&["https://py.example/root/simple/"], &[])).unwrap();
        assert_eq!(
            (own.url.as_str(), own.has_facts),
            ("https://py.example/root", false)
        );

        let default =
            json!({"GOPROXY": "https://proxy.golang.org,direct", "GOSUMDB": "sum.golang.org"});
        let go = go_source(&default).unwrap();
        assert_eq!(go.url, GO);
        assert!(go.contains("https://sum.golang.org/"));
        assert_eq!(variable(&go.variables, "GOPROXY"), Some(GO));
        let own = json!({"GOPROXY": "https://go.example/|direct", "GOSUMDB": "off"});
        assert_eq!(go_source(&own).unwrap().hosts.len(), 1);
        for bad in ["direct", "off", "file:///x", "https://me:pw@go.example"] {
            let error = go_source(&json!({"GOPROXY": bad})).unwrap_err();
            assert!(!error.remedies.is_empty(), "{bad}");
        }
    }

    #[test]
    fn package_source_of_cargo_settings_is_found() {
        for (text, key) in [
            ("[net]\nretry = 2\n", None),
            ("[registries.own]\nindex = \"x\"\n", None),
            ("[source.crates-io]\nreplace-with = \"x\"\n", Some("source")),
            ("registry.default = \"x\"\n", Some("registry.default")),
            ("[", Some("invalid TOML")),
        ] {
            assert_eq!(cargo_source_key(text), key, "{text}");
        }
    }
}
