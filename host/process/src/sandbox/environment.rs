//! The environment of a command, built up from nothing.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::error::Fault;
use super::spec::{Network, Spec};

/// Variables of this process that a command gets as they are: where toolchains are, and how people write numbers.
/// None of them holds a secret or makes a program load code.
const KEPT: &[&str] = &[
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

/// Where a command that has one finds its proxy, on its own loopback: above what kernels hand out by themselves.
pub(super) const PROXY: u16 = 61_128;

/// How programs are told of a proxy; curl obeys the first in this form alone.
const PROXIES: [&str; 6] = [
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
];

/// Where programs are if nobody says.
const USUAL_PATH: [&str; 6] = [
    "/usr/local/sbin",
    "/usr/local/bin",
    "/usr/sbin",
    "/usr/bin",
    "/sbin",
    "/bin",
];

/// What of this process a command is told, read once.
#[derive(Debug, Clone)]
pub(super) struct Ambient {
    /// Folders with programs, in order.
    pub(super) path: Vec<PathBuf>,
    /// The home of whoever runs this.
    pub(super) home: Option<PathBuf>,
    pub(super) kept: Vec<(String, String)>,
}

impl Ambient {
    pub(super) fn of_this_process() -> Self {
        let path = std::env::var_os("PATH").filter(|path| !path.is_empty());
        let path = match path {
            Some(path) => std::env::split_paths(&path).collect(),
            None => USUAL_PATH.map(PathBuf::from).to_vec(),
        };
        let kept = KEPT.iter().filter_map(|name| {
            let value = std::env::var(name).ok()?;
            Some(((*name).to_owned(), value))
        });
        Self {
            // A folder that is relative to wherever one is would be the workspace: what is in there is no program of
            // this machine.
            path: dedup(path.into_iter().filter(|folder| folder.is_absolute())),
            home: std::env::home_dir().filter(|home| home.is_absolute() && home.parent().is_some()),
            kept: kept.collect(),
        }
    }

    /// The variables of a command, of which `home` is the private one.
    pub(super) fn of(
        &self,
        spec: &Spec,
        path: &[PathBuf],
        home: &Path,
        temp: &Path,
        proxy: u16,
    ) -> Result<Variables, Fault> {
        let joined = std::env::join_paths(path).unwrap_or_default();
        let mut all = usual(spec, home, temp);
        for (name, value) in &self.kept {
            all.insert(name.into(), value.into());
        }
        all.insert("PATH".into(), joined);
        add(&mut all, spec, proxy)?;
        Ok(all)
    }
}

/// Variables by their names.
pub(super) type Variables = BTreeMap<OsString, OsString>;

/// What every command is told, wherever it runs.
pub(super) fn usual(spec: &Spec, home: &Path, temp: &Path) -> Variables {
    let mut all = Variables::new();
    all.insert("LANG".into(), "C.UTF-8".into());
    all.insert("HOME".into(), home.into());
    all.insert("TMPDIR".into(), temp.into());
    all.insert("PWD".into(), spec.directory.clone().into());
    all.insert("TERM".into(), "dumb".into());
    if spec.network == Network::None {
        all.insert(NO_FETCH.into(), "1".into());
    }
    // `git status` then writes no index, so that the hook `post-index-change` of a repository does not run.
    all.insert("GIT_OPTIONAL_LOCKS".into(), "0".into());
    git(&mut all, GIT);
    let own = spec.git.iter();
    git(
        &mut all,
        own.map(|(key, value)| (key.as_str(), value.as_str())),
    );
    all
}

/// Keeps git from fetching what a partial clone has left out, for a command that only reads: there is nothing to fetch it
/// from, and the program that would is named by the repository.
const NO_FETCH: &str = "GIT_NO_LAZY_FETCH";

/// Settings that go before those of a repository, so that git runs no program of it for a command that only reads.
///
/// Signatures are neither verified nor made: the keys of the person are not in the sandbox anyway. A commit that the
/// settings want signed fails, with a note on what to do (see `run/notes.rs`), and is never made without a signature.
/// Not switched off: filters, `textconv` and external diffs, whose names are a repository's choice and without which
/// git would store or compare other content. Programs of viewers of manuals are found per repository (see `git.rs`).
const GIT: [(&str, &str); 17] = [
    // A folder that only looks like a repository, as a tool can make one, does not count.
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

/// Adds settings of git to those that are there.
pub(super) fn git<'a>(all: &mut Variables, settings: impl IntoIterator<Item = (&'a str, &'a str)>) {
    let known = all.get(OsStr::new(GIT_COUNT));
    let known = known.and_then(|count| count.to_str()?.parse::<usize>().ok());
    let mut count = known.unwrap_or(0);
    for (key, value) in settings {
        all.insert(format!("GIT_CONFIG_KEY_{count}").into(), key.into());
        all.insert(format!("GIT_CONFIG_VALUE_{count}").into(), value.into());
        count += 1;
    }
    all.insert(GIT_COUNT.into(), count.to_string().into());
}

const GIT_COUNT: &str = "GIT_CONFIG_COUNT";

/// Adds the variables of this command, which override the others. `proxy` is the port of its proxy, if it has one.
pub(super) fn add(all: &mut Variables, spec: &Spec, proxy: u16) -> Result<(), Fault> {
    if spec.network == Network::Proxy {
        let url = spec.proxy.as_ref().map(|own| own.url(proxy));
        let url = url.unwrap_or_else(|| format!("http://127.0.0.1:{proxy}"));
        for name in PROXIES {
            all.insert(name.into(), url.clone().into());
        }
        // What a command starts itself it reaches by itself.
        for name in ["no_proxy", "NO_PROXY"] {
            all.insert(name.into(), "localhost,127.0.0.1,::1".into());
        }
        // Node asks for it.
        all.insert("NODE_USE_ENV_PROXY".into(), "1".into());
    }
    for (name, value) in &spec.environment {
        fit(name, value)?;
        all.insert(name.into(), value.into());
    }
    Ok(())
}

/// A name with `=` would be another name.
fn fit(name: &str, value: &str) -> Result<(), Fault> {
    let unfit = |why| Fault::Unfit {
        what: format!("the variable `{}`", name.escape_debug()),
        why,
    };
    if name.is_empty() || name.contains('=') {
        return Err(unfit("its name is empty or has a `=` in it"));
    }
    if name.contains('\0') || value.contains('\0') {
        return Err(unfit("it has a zero byte in it"));
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
    use mimir_core::command::Program;

    fn spec(environment: &[(&str, &str)]) -> Spec {
        let mut spec = Spec::new(Program::Vector(vec!["true".into()]), "/work");
        let pairs = environment.iter();
        spec.environment = pairs.map(|(n, v)| ((*n).into(), (*v).into())).collect();
        spec
    }

    #[test]
    fn it_is_built_from_nothing() {
        let ambient = Ambient::of_this_process();
        let made = ambient
            .of(
                &spec(&[("LANG", "tr_TR"), ("A", "b=c")]),
                &["/bin".into()],
                Path::new("/h"),
                Path::new("/t"),
                PROXY,
            )
            .unwrap();
        let get = |name: &str| {
            made.get(std::ffi::OsStr::new(name))
                .and_then(|v| v.to_str())
        };
        assert_eq!(get("PATH"), Some("/bin"));
        assert_eq!(get("HOME"), Some("/h"));
        assert_eq!(get("TMPDIR"), Some("/t"));
        assert_eq!(get("LANG"), Some("tr_TR"));
        assert_eq!(get("A"), Some("b=c"));
        // What cargo gives every test is not passed on.
        assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
        assert_eq!(get("CARGO_MANIFEST_DIR"), None);
    }

    #[test]
    fn git_fetches_nothing_by_itself_where_there_is_no_network() {
        let mut spec = spec(&[]);
        let is_told = |spec: &Spec| {
            usual(spec, Path::new("/h"), Path::new("/t")).contains_key(OsStr::new(NO_FETCH))
        };
        assert!(is_told(&spec));
        spec.network = Network::Proxy;
        assert!(!is_told(&spec));
    }

    #[test]
    fn a_variable_that_would_be_another_one_is_refused() {
        for bad in [("", "x"), ("A=B", "x"), ("A\0", "x"), ("A", "x\0y")] {
            let made = Ambient::of_this_process().of(
                &spec(&[bad]),
                &[],
                Path::new("/"),
                Path::new("/"),
                PROXY,
            );
            assert!(matches!(made, Err(Fault::Unfit { .. })), "{bad:?}");
        }
    }
}
