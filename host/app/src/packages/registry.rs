//! The registries that npm and pip use on this machine, according to these tools and their environment variables.
//!
//! The tools are run in the root of the file system, so that settings in a checkout cannot choose the source of
//! packages.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use mimir_core::ToolError;
use mimir_core::network::{HostPattern, RequestTarget};
use serde_json::Value;
use tokio::process::Command;

/// Maximum time for npm or pip to report their configuration.
const CONFIG_TIMEOUT: Duration = Duration::from_secs(60);

/// Default index of pip and uv.
pub(crate) const PYTHON_INDEX: &str = "https://pypi.org/simple";

/// The configuration of an installer.
#[derive(Debug, Default)]
pub(crate) struct InstallerConfig {
    /// URLs of the registries. Most packages come from the first.
    pub(crate) urls: Vec<String>,
    /// Environment variables that give the installer in the sandbox the same configuration.
    pub(crate) variables: Vec<(String, String)>,
    /// A file with additional trusted certificates.
    pub(crate) certificates: Option<String>,
}

impl InstallerConfig {
    /// Returns the hosts of the registries as patterns.
    pub(crate) fn hosts(&self) -> Result<Vec<HostPattern>, ToolError> {
        self.urls.iter().map(|url| host(url)).collect()
    }

    /// Returns true if a URL contains a user or a password.
    pub(crate) fn has_credentials(&self) -> bool {
        self.urls.iter().any(|url| split_userinfo(url).1)
    }
}

/// Returns the origin of a URL as a pattern. The error does not contain credentials.
pub(crate) fn host(url: &str) -> Result<HostPattern, ToolError> {
    let (plain, _) = split_userinfo(url);
    let parsed = RequestTarget::parse(&plain).ok();
    let pattern = parsed.and_then(|target| target.origin().to_string().parse().ok());
    pattern.ok_or_else(|| {
        let shown = mimir_core::text::visible(mimir_core::text::prefix(&plain, 200));
        ToolError::invalid_input(format!(
            "the configured package registry `{shown}` is not an http or https URL"
        ))
    })
}

/// Removes user and password from a URL. The flag is true if the URL contained them.
pub(crate) fn split_userinfo(url: &str) -> (String, bool) {
    let Some((scheme, rest)) = url.split_once("://") else {
        return (url.to_owned(), false);
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    match authority.rsplit_once('@') {
        Some((_, host)) => (format!("{scheme}://{host}{path}"), true),
        None => (url.to_owned(), false),
    }
}

/// Reads the configuration of npm.
pub(crate) async fn npm() -> Result<InstallerConfig, ToolError> {
    let text = output("npm", &["config", "list", "--json"])
        .await
        .map_err(|why| {
            let message =
                format!("npm packages need Node.js with npm, but `npm config list` failed: {why}");
            ToolError::unavailable(message).with_remedies([
                "install Node.js, so that `npm` and `node` are on the PATH".to_owned(),
            ])
        })?;
    let config: BTreeMap<String, Value> = serde_json::from_str(&text).map_err(|error| {
        ToolError::unavailable(format!(
            "`npm config list --json` did not print valid JSON: {error}"
        ))
    })?;
    Ok(parse_npm_config(&config))
}

fn parse_npm_config(config: &BTreeMap<String, Value>) -> InstallerConfig {
    let mut installer = InstallerConfig::default();
    let text = |key: &str| {
        config
            .get(key)
            .and_then(Value::as_str)
            .filter(|text| !text.is_empty())
    };
    if let Some(url) = text("registry") {
        installer.urls.push(url.to_owned());
        installer
            .variables
            .push(("npm_config_registry".to_owned(), url.to_owned()));
    }
    for (key, value) in config {
        if key.starts_with('@')
            && key.ends_with(":registry")
            && let Some(url) = value.as_str()
        {
            installer.urls.push(url.to_owned());
            installer
                .variables
                .push((format!("npm_config_{key}"), url.to_owned()));
        }
    }
    installer.certificates = text("cafile").map(str::to_owned);
    if let Some(path) = &installer.certificates {
        installer
            .variables
            .push(("npm_config_cafile".to_owned(), path.clone()));
    }
    installer
}

/// Reads the configuration of pip and uv; `python` is the interpreter that pip runs with.
pub(crate) async fn python(python: &str) -> InstallerConfig {
    let listed = output(python, &["-I", "-m", "pip", "config", "list"])
        .await
        .unwrap_or_default();
    parse_pip_config(&listed, |name| std::env::var(name).ok())
}

fn parse_pip_config(listed: &str, variable: impl Fn(&str) -> Option<String>) -> InstallerConfig {
    let variable_value = |names: &[&str]| {
        let mut values = names.iter().filter_map(|name| variable(name));
        values.find(|value| !value.trim().is_empty())
    };
    // `global.index-url='https://…'`
    let pip_setting = |key: &str| {
        let lines = listed.lines().filter_map(|line| line.split_once('='));
        let mut values = lines.filter(|(name, _)| name.rsplit('.').next() == Some(key));
        values
            .next_back()
            .map(|(_, value)| value.trim().trim_matches('\'').to_owned())
    };
    let index = variable_value(&["UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL"])
        // uv allows named indexes: `name=https://…`
        .map(|value| match value.split_once("=http") {
            Some((name, rest)) if !name.contains(':') => format!("http{rest}"),
            _ => value,
        })
        .or_else(|| pip_setting("index-url"))
        .unwrap_or_else(|| PYTHON_INDEX.to_owned());
    let extra = variable_value(&["UV_EXTRA_INDEX_URL", "PIP_EXTRA_INDEX_URL"])
        .or_else(|| pip_setting("extra-index-url"));
    let extra = extra.unwrap_or_default().replace("\\n", " ");
    let mut installer = InstallerConfig::default();
    installer
        .variables
        .push(("PIP_INDEX_URL".to_owned(), index.clone()));
    installer.urls.push(index);
    if !extra.trim().is_empty() {
        installer
            .variables
            .push(("PIP_EXTRA_INDEX_URL".to_owned(), extra.clone()));
        installer
            .urls
            .extend(extra.split_whitespace().map(str::to_owned));
    }
    installer.certificates = variable_value(&["PIP_CERT"]).or_else(|| pip_setting("cert"));
    if let Some(path) = &installer.certificates {
        installer
            .variables
            .push(("PIP_CERT".to_owned(), path.clone()));
    }
    installer
}

/// Runs a host program and returns its standard output if it succeeds.
pub(crate) async fn output(program: &str, arguments: &[&str]) -> Result<String, String> {
    let child = Command::new(program)
        .args(arguments)
        .current_dir(Path::new("/"))
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(CONFIG_TIMEOUT, child)
        .await
        .map_err(|_| format!("it took longer than {} s", CONFIG_TIMEOUT.as_secs()))?
        .map_err(|error| error.to_string())?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(output.status.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn npm_registry_hosts_come_from_the_npm_config() {
        let config = json!({
            "registry": "https://npm.example/a/", "@own:registry": "http://10.0.0.1:4873/",
            "cafile": "/etc/own.pem", "user-agent": "npm",
        });
        let all = parse_npm_config(&serde_json::from_value(config).unwrap());
        let hosts: Vec<String> = all
            .hosts()
            .unwrap()
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(hosts.len(), 2, "{hosts:?}");
        assert!(
            hosts[0].contains("npm.example") && hosts[1].contains("10.0.0.1:4873"),
            "{hosts:?}"
        );
        assert!(
            all.variables
                .contains(&("npm_config_cafile".into(), "/etc/own.pem".into()))
        );
        assert!(!all.has_credentials());
    }

    #[test]
    fn pypi_index_prefers_uv_variables_over_pip_config() {
        let none = |_: &str| None;
        assert_eq!(parse_pip_config("", none).urls, [PYTHON_INDEX]);
        let listed =
            "global.cert='/etc/own.pem'\nglobal.index-url='https://me:pw@py.example/simple'\n";
        let all = parse_pip_config(listed, none);
        assert_eq!(all.urls, ["https://me:pw@py.example/simple"]);
        assert_eq!(all.certificates.as_deref(), Some("/etc/own.pem"));
        assert!(all.has_credentials());
        let hosts = all.hosts().unwrap();
        assert!(
            hosts[0].to_string().contains("py.example") && !hosts[0].to_string().contains("pw")
        );
        let set = |name: &str| {
            (name == "UV_DEFAULT_INDEX").then(|| "own=https://uv.example/simple".to_owned())
        };
        assert_eq!(
            parse_pip_config(listed, set).urls,
            ["https://uv.example/simple"]
        );
    }
}
