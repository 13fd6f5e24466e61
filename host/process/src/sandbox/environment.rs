//! Environment variables of a command, built from scratch.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::command_spec::{CommandNetwork, CommandSpec};
use super::error::SandboxError;

/// Variables of this process passed to commands: toolchain paths and the locale. They contain no secret and make no
/// program load code.
const PASSED_VARIABLES: &[&str] = &[
    "CARGO_HOME",
    "GOROOT",
    "JAVA_HOME",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "NVM_DIR",
    "PYENV_ROOT",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "TZ",
    "VOLTA_HOME",
];

/// Port of a command's proxy on its own loopback, above the ports that kernels assign automatically.
pub(super) const PROXY: u16 = 61_128;

/// Variables that configure a proxy; curl reads `http_proxy` only in lower case.
const PROXY_VARIABLES: [&str; 6] = [
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
];

/// Program folders if `PATH` is not set.
const DEFAULT_PATH: [&str; 6] = [
    "/usr/local/sbin",
    "/usr/local/bin",
    "/usr/sbin",
    "/usr/bin",
    "/sbin",
    "/bin",
];

/// Environment of this process, read once.
#[derive(Debug, Clone)]
pub(super) struct AmbientEnvironment {
    /// Program folders, in order.
    pub(super) path: Vec<PathBuf>,
    /// Home of the user who runs this process.
    pub(super) home: Option<PathBuf>,
    pub(super) passed: Vec<(String, String)>,
}

impl AmbientEnvironment {
    pub(super) fn of_this_process() -> Self {
        let path = std::env::var_os("PATH").filter(|path| !path.is_empty());
        let path = match path {
            Some(path) => std::env::split_paths(&path).collect(),
            None => DEFAULT_PATH.map(PathBuf::from).to_vec(),
        };
        let passed = PASSED_VARIABLES.iter().filter_map(|name| {
            let value = std::env::var(name).ok()?;
            Some(((*name).to_owned(), value))
        });
        Self {
            // A relative folder would be in the workspace, whose files are not host programs.
            path: dedup(path.into_iter().filter(|folder| folder.is_absolute())),
            home: std::env::home_dir().filter(|home| home.is_absolute() && home.parent().is_some()),
            passed: passed.collect(),
        }
    }

    /// Builds the variables of a command. `home` is its private home, `proxy` the port of its proxy.
    pub(super) fn command_variables(
        &self,
        spec: &CommandSpec,
        path: &[PathBuf],
        home: &Path,
        temp: &Path,
        proxy: u16,
    ) -> Result<VariableMap, SandboxError> {
        let joined = std::env::join_paths(path).unwrap_or_default();
        let mut variables = common_variables(spec, home, temp);
        for (name, value) in &self.passed {
            variables.insert(name.into(), value.into());
        }
        variables.insert("PATH".into(), joined);
        add_command_variables(&mut variables, spec, proxy)?;
        Ok(variables)
    }
}

/// Variables by their names.
pub(super) type VariableMap = BTreeMap<OsString, OsString>;

/// Returns the variables of every command, in any sandbox.
pub(super) fn common_variables(spec: &CommandSpec, home: &Path, temp: &Path) -> VariableMap {
    let mut variables = VariableMap::new();
    variables.insert("LANG".into(), "C.UTF-8".into());
    variables.insert("HOME".into(), home.into());
    variables.insert("TMPDIR".into(), temp.into());
    variables.insert("PWD".into(), spec.directory.clone().into());
    variables.insert("TERM".into(), "dumb".into());
    if spec.network == CommandNetwork::None {
        variables.insert(NO_LAZY_FETCH.into(), "1".into());
    }
    // Keeps `git status` from writing an index, so that a repository's `post-index-change` hook does not run.
    variables.insert("GIT_OPTIONAL_LOCKS".into(), "0".into());
    add_git_settings(&mut variables, GIT_SETTINGS);
    let git_settings = spec.git.iter();
    add_git_settings(
        &mut variables,
        git_settings.map(|(key, value)| (key.as_str(), value.as_str())),
    );
    variables
}

/// Variable that keeps git from fetching missing objects of a partial clone. Without network no server is reachable,
/// and the repository names the program that would fetch.
const NO_LAZY_FETCH: &str = "GIT_NO_LAZY_FETCH";

/// Git settings that override those of a repository, so that read-only git commands do not run the repository's
/// programs.
///
/// Signatures are neither verified nor made: the user's keys are not in the sandbox anyway. If the settings require a
/// signed commit, the commit fails with a note (see `run/output_notes.rs`), and is never made unsigned. Filters,
/// `textconv` and external diffs stay enabled: a repository chooses their names, and without them git would store or
/// compare different content. Programs for manuals are disabled per repository (see `git.rs`).
const GIT_SETTINGS: [(&str, &str); 17] = [
    // Ignores a folder that merely looks like a repository, which a tool could create.
    ("safe.bareRepository", "explicit"),
    ("core.fsmonitor", "false"),
    ("core.alternateRefsCommand", "false"),
    // `git log` with `log.showSignature` or a format with `%G…`, `git branch` with `branch.sort=signature`.
    ("log.showSignature", "false"),
    ("gpg.program", "false"),
    ("gpg.openpgp.program", "false"),
    ("gpg.ssh.program", "false"),
    ("gpg.ssh.defaultKeyCommand", "false"),
    ("gpg.x509.program", "false"),
    // `remerge` would run merge drivers.
    ("log.diffMerges", "separate"),
    // `git log --help` in a browser.
    ("help.format", "man"),
    ("help.browser", "none"),
    ("web.browser", "none"),
    ("browser.none.cmd", "false"),
    // `git archive --format=tgz`.
    ("tar.tgz.command", "gzip -cn"),
    ("tar.tar.gz.command", "gzip -cn"),
    ("diff.autoRefreshIndex", "false"),
];

/// Appends git settings to those already in the variables.
pub(super) fn add_git_settings<'a>(
    variables: &mut VariableMap,
    settings: impl IntoIterator<Item = (&'a str, &'a str)>,
) {
    let known = variables.get(OsStr::new(COUNT_VARIABLE));
    let known = known.and_then(|count| count.to_str()?.parse::<usize>().ok());
    let mut count = known.unwrap_or(0);
    for (key, value) in settings {
        variables.insert(format!("GIT_CONFIG_KEY_{count}").into(), key.into());
        variables.insert(format!("GIT_CONFIG_VALUE_{count}").into(), value.into());
        count += 1;
    }
    variables.insert(COUNT_VARIABLE.into(), count.to_string().into());
}

const COUNT_VARIABLE: &str = "GIT_CONFIG_COUNT";

/// Adds the proxy and the variables of this command, which override existing ones. `proxy` is the port of the proxy, if
/// the command has one.
pub(super) fn add_command_variables(
    variables: &mut VariableMap,
    spec: &CommandSpec,
    proxy: u16,
) -> Result<(), SandboxError> {
    if spec.network == CommandNetwork::Proxy {
        let url = spec.proxy.as_ref().map(|own| own.url(proxy));
        let url = url.unwrap_or_else(|| format!("http://127.0.0.1:{proxy}"));
        for name in PROXY_VARIABLES {
            variables.insert(name.into(), url.clone().into());
        }
        // A command reaches its own servers without the proxy.
        for name in ["no_proxy", "NO_PROXY"] {
            variables.insert(name.into(), "localhost,127.0.0.1,::1".into());
        }
        // Node reads the proxy variables only with this setting.
        variables.insert("NODE_USE_ENV_PROXY".into(), "1".into());
    }
    for (name, value) in &spec.environment {
        check_variable(name, value)?;
        variables.insert(name.into(), value.into());
    }
    Ok(())
}

/// Checks that a variable can be set. A name with `=` would set another variable.
fn check_variable(name: &str, value: &str) -> Result<(), SandboxError> {
    let invalid = |why| SandboxError::InvalidInput {
        what: format!("the variable `{}`", name.escape_debug()),
        why,
    };
    if name.is_empty() || name.contains('=') {
        return Err(invalid("its name is empty or contains `=`"));
    }
    if name.contains('\0') || value.contains('\0') {
        return Err(invalid("it contains a NUL byte"));
    }
    Ok(())
}

fn dedup(folders: impl Iterator<Item = PathBuf>) -> Vec<PathBuf> {
    let mut seen = std::collections::HashSet::new();
    folders
        .filter(|folder| seen.insert(folder.clone()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mimir_core::command::CommandProgram;

    fn spec(environment: &[(&str, &str)]) -> CommandSpec {
        let mut spec = CommandSpec::new(CommandProgram::Vector(vec!["true".into()]), "/work");
        let pairs = environment.iter();
        spec.environment = pairs.map(|(n, v)| ((*n).into(), (*v).into())).collect();
        spec
    }

    #[test]
    fn environment_inherits_no_other_variables() {
        let ambient = AmbientEnvironment::of_this_process();
        let variables = ambient
            .command_variables(
                &spec(&[("LANG", "tr_TR"), ("A", "b=c")]),
                &["/bin".into()],
                Path::new("/h"),
                Path::new("/t"),
                PROXY,
            )
            .unwrap();
        let get = |name: &str| {
            variables
                .get(std::ffi::OsStr::new(name))
                .and_then(|v| v.to_str())
        };
        assert_eq!(get("PATH"), Some("/bin"));
        assert_eq!(get("HOME"), Some("/h"));
        assert_eq!(get("TMPDIR"), Some("/t"));
        assert_eq!(get("LANG"), Some("tr_TR"));
        assert_eq!(get("A"), Some("b=c"));
        // Variables that cargo sets for tests are not passed on.
        assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
        assert_eq!(get("CARGO_MANIFEST_DIR"), None);
    }

    #[test]
    fn git_lazy_fetch_is_disabled_without_network() {
        let mut spec = spec(&[]);
        let disables_lazy_fetch = |spec: &CommandSpec| {
            common_variables(spec, Path::new("/h"), Path::new("/t"))
                .contains_key(OsStr::new(NO_LAZY_FETCH))
        };
        assert!(disables_lazy_fetch(&spec));
        spec.network = CommandNetwork::Proxy;
        assert!(!disables_lazy_fetch(&spec));
    }

    #[test]
    fn variable_with_an_invalid_name_or_nul_is_rejected() {
        for bad in [("", "x"), ("A=B", "x"), ("A\0", "x"), ("A", "x\0y")] {
            let variables = AmbientEnvironment::of_this_process().command_variables(
                &spec(&[bad]),
                &[],
                Path::new("/"),
                Path::new("/"),
                PROXY,
            );
            assert!(
                matches!(variables, Err(SandboxError::InvalidInput { .. })),
                "{bad:?}"
            );
        }
    }
}
