//! Credentials of registries, from the files and helpers of Docker and containers.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mimir_core::backend::BoxFuture;
use serde::Deserialize;

use crate::error::RegistryError;
use crate::reference::parse_registry;

/// Maximum size of a credential file, and of a helper's output.
const FILE_MAX: u64 = 1 << 20;
/// User name by which a helper marks an identity token.
const TOKEN_USER: &str = "<token>";
/// Text of a helper that does not have credentials for a registry.
const HELPER_NOT_FOUND: &str = "credentials not found";

/// Domain of a registry whose hosts share one login. Docker stores it under the URL of its first API.
const SHARED_LOGIN_DOMAIN: &str = "docker.io";

/// Runs programs that store credentials. Implemented by the application, because this crate does not start programs.
pub trait CredentialHelper: Send + Sync {
    /// Runs `docker-credential-<name> get` with `server` on its standard input. Returns the standard output. If the
    /// program cannot be started or fails, returns the reason, or the message that it printed, without secrets.
    fn get<'a>(&'a self, name: &'a str, server: &'a str) -> BoxFuture<'a, Result<Vec<u8>, String>>;
}

/// Sources of credentials. Files are read when a registry asks for a login, not before.
///
/// The files have the format of Docker's `config.json` or of `auth.json` (Podman, Buildah, Skopeo): `auths`,
/// `credHelpers` and `credsStore`. The first file with an entry for a registry decides.
#[derive(Clone, Default)]
pub struct Credentials {
    files: Vec<PathBuf>,
    helper: Option<Arc<dyn CredentialHelper>>,
}

/// A login. It has no `Debug` form that shows secrets.
pub(crate) enum RegistryLogin {
    Password { user: String, password: String },
    IdentityToken(String),
}

impl Credentials {
    /// Creates credentials from files, in order of preference. Missing files are skipped. Without a `helper`, entries
    /// that need one are errors.
    pub fn from_files(files: Vec<PathBuf>, helper: Option<Arc<dyn CredentialHelper>>) -> Self {
        Self { files, helper }
    }

    /// Returns the login for a repository of a registry, if one is stored.
    pub(crate) async fn find(
        &self,
        registry: &str,
        repository: &str,
    ) -> Result<Option<RegistryLogin>, RegistryError> {
        for path in &self.files {
            let Some(file) = read_file(path).await? else {
                continue;
            };
            let legacy = legacy_key(registry);
            for key in [Some(registry), legacy.as_deref()].into_iter().flatten() {
                if let Some(name) = file.helper_name(key)
                    && let Some(login) = self.run_helper(name, key).await?
                {
                    return Ok(Some(login));
                }
                let entry = file.entry(key, repository);
                let login = entry.map(FileLogin::login).transpose();
                let login = login.map_err(|why| file_error(path, why))?.flatten();
                if login.is_some() {
                    return Ok(login);
                }
            }
        }
        Ok(None)
    }

    async fn run_helper(
        &self,
        name: &str,
        registry: &str,
    ) -> Result<Option<RegistryLogin>, RegistryError> {
        let fault = |why: String| RegistryError::Credentials {
            source_name: format!("docker-credential-{}", mimir_core::text::visible(name)),
            why,
        };
        let is_name_byte =
            |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        if name.is_empty() || !name.bytes().all(is_name_byte) {
            return Err(fault(
                "the name of a helper has letters, digits and dashes".to_owned(),
            ));
        }
        let Some(helper) = &self.helper else {
            return Err(fault("credential helpers are not run here".to_owned()));
        };
        let output = match helper.get(name, registry).await {
            Ok(output) => output,
            Err(why) if why.to_ascii_lowercase().contains(HELPER_NOT_FOUND) => return Ok(None),
            Err(why) => {
                let why = mimir_core::text::visible(mimir_core::text::prefix(&why, 200));
                return Err(fault(why));
            }
        };
        if output.len() as u64 > FILE_MAX {
            return Err(fault("its output is too long".to_owned()));
        }
        let parsed: Result<HelperOutput, _> = serde_json::from_slice(&output);
        // The parser's message would quote the output, which has a secret.
        let parsed = parsed
            .map_err(|_| fault("its output is not JSON with `Username` and `Secret`".to_owned()))?;
        Ok(if parsed.secret.is_empty() {
            None
        } else if parsed.username == TOKEN_USER {
            Some(RegistryLogin::IdentityToken(parsed.secret))
        } else {
            Some(RegistryLogin::Password {
                user: parsed.username,
                password: parsed.secret,
            })
        })
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("files", &self.files)
            .field("helper", &self.helper.is_some())
            .finish()
    }
}

/// Output of a credential helper.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct HelperOutput {
    #[serde(default)]
    username: String,
    secret: String,
}

/// Content of a credential file. Other keys are ignored.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct CredentialFile {
    auths: BTreeMap<String, FileLogin>,
    creds_store: String,
    cred_helpers: BTreeMap<String, String>,
}

/// Entry of `auths`.
#[derive(Default, Deserialize)]
#[serde(default)]
struct FileLogin {
    auth: String,
    username: String,
    password: String,
    identitytoken: String,
}

impl CredentialFile {
    /// Returns the helper for a registry or its legacy key. An empty name in `credHelpers` switches the helper off.
    fn helper_name(&self, registry: &str) -> Option<&str> {
        let registry = key_path(registry)?;
        let own = self
            .cred_helpers
            .iter()
            .find(|(key, _)| key_path(key).is_some_and(|path| path == registry));
        let name = own.map_or(&self.creds_store, |(_, name)| name);
        Some(name.as_str()).filter(|name| !name.is_empty())
    }

    /// Returns the entry for a repository: that with the longest path, or that of the registry.
    fn entry(&self, registry: &str, repository: &str) -> Option<&FileLogin> {
        let full = format!("{}/{repository}", key_path(registry)?);
        let matching = self.auths.iter().filter_map(|(key, login)| {
            let path = key_path(key)?;
            let rest = full.strip_prefix(&path)?;
            let matches = rest.is_empty() || rest.starts_with('/');
            matches.then_some((path.len(), login))
        });
        let longest = matching.max_by_key(|(length, _)| *length);
        longest.map(|(_, login)| login)
    }
}

/// Returns the key under which Docker stores the login of a registry, if it is not the host.
fn legacy_key(registry: &str) -> Option<String> {
    let subdomain = registry.strip_suffix(SHARED_LOGIN_DOMAIN)?;
    let is_host = subdomain.is_empty() || subdomain.ends_with('.');
    is_host.then(|| format!("https://index.{SHARED_LOGIN_DOMAIN}/v1/"))
}

/// Returns the host and path of a key: Docker writes URLs, or hosts; containers' tools also write repositories.
fn key_path(key: &str) -> Option<String> {
    let rest = key
        .strip_prefix("https://")
        .or_else(|| key.strip_prefix("http://"));
    // The path of a URL is that of the API, not a repository.
    let (host, path) = match (rest, key.split_once('/')) {
        (Some(url), _) => (url.split('/').next().unwrap_or_default(), ""),
        (None, Some((host, "v1" | "v1/" | "v2" | "v2/" | ""))) => (host, ""),
        (None, Some((host, path))) => (host, path),
        (None, None) => (key, ""),
    };
    let registry = parse_registry(host).ok()?;
    Some(if path.is_empty() {
        registry
    } else {
        format!("{registry}/{}", path.trim_end_matches('/'))
    })
}

impl FileLogin {
    /// Returns the login of an entry; `None` for an empty entry, which Docker writes for helpers.
    fn login(&self) -> Result<Option<RegistryLogin>, &'static str> {
        if !self.identitytoken.is_empty() {
            return Ok(Some(RegistryLogin::IdentityToken(
                self.identitytoken.clone(),
            )));
        }
        let (user, password) = if self.auth.is_empty() {
            (self.username.clone(), self.password.clone())
        } else {
            let decoded = STANDARD.decode(self.auth.trim());
            let decoded = decoded.map_err(|_| "an `auth` value is not base64")?;
            let text = String::from_utf8(decoded);
            let text = text.map_err(|_| "an `auth` value is not text")?;
            let (user, password) = text
                .split_once(':')
                .ok_or("an `auth` value has no colon between user name and password")?;
            (user.to_owned(), password.trim_end_matches('\0').to_owned())
        };
        if user == TOKEN_USER {
            return Ok(Some(RegistryLogin::IdentityToken(password)));
        }
        let is_empty = user.is_empty() && password.is_empty();
        Ok((!is_empty).then_some(RegistryLogin::Password { user, password }))
    }
}

fn file_error(path: &Path, why: impl Into<String>) -> RegistryError {
    RegistryError::Credentials {
        source_name: mimir_core::text::visible(&path.display().to_string()),
        why: why.into(),
    }
}

/// Reads a credential file. `None` if it does not exist.
async fn read_file(path: &Path) -> Result<Option<CredentialFile>, RegistryError> {
    match tokio::fs::metadata(path).await {
        Ok(metadata) if !metadata.is_file() => {
            return Err(file_error(path, "it is not a file"));
        }
        Ok(metadata) if metadata.len() > FILE_MAX => {
            return Err(file_error(path, "it has more than 1 MiB"));
        }
        Ok(_) => {}
        Err(error) if is_missing(&error) => return Ok(None),
        Err(error) => return Err(file_error(path, error.to_string())),
    }
    let bytes = match tokio::fs::read(path).await {
        Ok(bytes) => bytes,
        Err(error) if is_missing(&error) => return Ok(None),
        Err(error) => return Err(file_error(path, error.to_string())),
    };
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Ok(None);
    }
    // The parser's message would quote values, which may be secrets.
    serde_json::from_slice(&bytes).map(Some).map_err(|error| {
        let place = format!("line {}, column {}", error.line(), error.column());
        file_error(
            path,
            format!("it is not a valid file of Docker's format ({place})"),
        )
    })
}

fn is_missing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    struct TestHelper {
        calls: Mutex<Vec<String>>,
        output: Result<&'static str, &'static str>,
    }

    impl TestHelper {
        fn new(output: Result<&'static str, &'static str>) -> Arc<Self> {
            Arc::new(Self {
                calls: Mutex::default(),
                output,
            })
        }
    }

    impl CredentialHelper for TestHelper {
        fn get<'a>(
            &'a self,
            name: &'a str,
            server: &'a str,
        ) -> BoxFuture<'a, Result<Vec<u8>, String>> {
            self.calls.lock().unwrap().push(format!("{name} {server}"));
            let output = self.output.map(|text| text.as_bytes().to_vec());
            Box::pin(std::future::ready(output.map_err(str::to_owned)))
        }
    }

    fn shown(login: Option<RegistryLogin>) -> String {
        match login {
            None => "none".to_owned(),
            Some(RegistryLogin::Password { user, password }) => format!("{user}:{password}"),
            Some(RegistryLogin::IdentityToken(token)) => format!("token {token}"),
        }
    }

    async fn find(
        content: &str,
        helper: Option<Arc<TestHelper>>,
        registry: &str,
        repository: &str,
    ) -> Result<String, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.json");
        std::fs::write(&path, content).unwrap();
        let missing = folder.path().join("missing").join("auth.json");
        let helper = helper.map(|helper| helper as Arc<dyn CredentialHelper>);
        let credentials = Credentials::from_files(vec![missing, path], helper);
        let login = credentials.find(registry, repository).await;
        login.map(shown).map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn credentials_of_files_are_matched_by_host_and_path() {
        let auth = STANDARD.encode("alice:se:cret");
        let content = serde_json::json!({
            "HttpHeaders": {"User-Agent": "x"},
            "auths": {
                "https://registry.example.com/v1/": {"auth": auth},
                "other.example.com": {"username": "bob", "password": "pw"},
                "other.example.com/team": {"username": "carol", "password": "pw"},
                "token.example.com": {"auth": auth, "identitytoken": "idt"},
                "empty.example.com": {},
                "Port.example.com:443": {"username": "dan", "password": "pw"},
            },
        });
        let content = content.to_string();
        for (registry, repository, expected) in [
            ("registry.example.com", "a/b", "alice:se:cret"),
            ("registry.example.com:5000", "a", "none"),
            ("example.com", "a", "none"),
            ("other.example.com", "x", "bob:pw"),
            ("other.example.com", "team/x", "carol:pw"),
            ("other.example.com", "teams/x", "bob:pw"),
            ("token.example.com", "a", "token idt"),
            ("empty.example.com", "a", "none"),
            ("port.example.com", "a", "dan:pw"),
        ] {
            let found = find(&content, None, registry, repository).await;
            assert_eq!(found.as_deref(), Ok(expected), "{registry}/{repository}");
        }
    }

    #[tokio::test]
    async fn credential_helpers_take_precedence_over_entries() {
        let content = serde_json::json!({
            "credsStore": "desktop",
            "credHelpers": {"own.example.com": "ecr-login", "off.example.com": ""},
            "auths": {"registry.example.com": {"username": "file", "password": "pw"},
                      "off.example.com": {"username": "off", "password": "pw"}},
        });
        let content = content.to_string();
        let helper = TestHelper::new(Ok(r#"{"ServerURL":"x","Username":"u","Secret":"s"}"#));
        for (registry, expected) in [
            ("own.example.com", "u:s"),
            ("registry.example.com", "u:s"),
            ("off.example.com", "off:pw"),
        ] {
            let found = find(&content, Some(Arc::clone(&helper)), registry, "a").await;
            assert_eq!(found.as_deref(), Ok(expected), "{registry}");
        }
        assert_eq!(
            *helper.calls.lock().unwrap(),
            ["ecr-login own.example.com", "desktop registry.example.com"]
        );
        let token = TestHelper::new(Ok(r#"{"Username":"<token>","Secret":"s"}"#));
        let found = find(&content, Some(token), "registry.example.com", "a").await;
        assert_eq!(found.as_deref(), Ok("token s"));
        let missing = TestHelper::new(Err("credentials not found in native keychain"));
        let found = find(&content, Some(missing), "registry.example.com", "a").await;
        assert_eq!(found.as_deref(), Ok("file:pw"));
    }

    #[tokio::test]
    async fn credentials_under_the_legacy_key_are_those_of_its_domain() {
        let content = serde_json::json!({
            "auths": {
                "https://index.docker.io/v1/": {"username": "alice", "password": "pw"},
                "own.docker.io": {"username": "bob", "password": "pw"},
            },
        });
        let content = content.to_string();
        for (registry, expected) in [
            ("docker.io", "alice:pw"),
            ("api.docker.io", "alice:pw"),
            ("index.docker.io", "alice:pw"),
            ("own.docker.io", "bob:pw"),
            ("docker.io:5000", "none"),
            ("notdocker.io", "none"),
            ("docker.io.example.com", "none"),
        ] {
            let found = find(&content, None, registry, "acme/weather").await;
            assert_eq!(found.as_deref(), Ok(expected), "{registry}");
        }
        let helper = TestHelper::new(Err("credentials not found in native keychain"));
        let content = r#"{"credsStore": "desktop"}"#;
        let found = find(content, Some(Arc::clone(&helper)), "api.docker.io", "a").await;
        assert_eq!(found.as_deref(), Ok("none"));
        assert_eq!(
            *helper.calls.lock().unwrap(),
            [
                "desktop api.docker.io",
                "desktop https://index.docker.io/v1/"
            ]
        );
    }

    #[tokio::test]
    async fn credential_errors_show_no_secrets() {
        let helper = r#"{"credsStore": "desktop"}"#;
        for (content, output, why) in [
            (
                r#"{"auths": {"registry.example.com": {"auth": ["hunter2"]}}}"#,
                None,
                "line 1",
            ),
            (r#"{"auths": "hunter2"}"#, None, "line 1"),
            (
                r#"{"auths": {"registry.example.com": {"auth": "hunter2!"}}}"#,
                None,
                "base64",
            ),
            (
                r#"{"auths": {"registry.example.com": {"auth": "aHVudGVyMg=="}}}"#,
                None,
                "colon",
            ),
            (helper, None, "not run here"),
            (helper, Some(Ok("hunter2")), "its output"),
            (
                helper,
                Some(Ok(r#"{"Secret": {"x": "hunter2"}}"#)),
                "its output",
            ),
            (helper, Some(Err("exit status 1")), "exit status 1"),
            (
                r#"{"credsStore": "../../bin/sh"}"#,
                Some(Ok("{}")),
                "name of a helper",
            ),
        ] {
            let helper = output.map(TestHelper::new);
            let error = find(content, helper, "registry.example.com", "a").await;
            let error = error.unwrap_err();
            assert!(error.contains(why), "{content}: {error}");
            assert!(!error.contains("hunter2"), "{error}");
            assert!(error.contains("log in again"), "{error}");
        }
    }

    #[tokio::test]
    async fn credential_file_that_is_a_folder_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let credentials = Credentials::from_files(vec![folder.path().to_owned()], None);
        let error = credentials.find("registry.example.com", "a").await.err();
        assert!(error.unwrap().to_string().contains("not a file"));
    }
}
