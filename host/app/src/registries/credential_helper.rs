//! Credential helpers of Docker: programs `docker-credential-NAME` that a login file names.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use mimir_core::backend::BoxFuture;
use mimir_registry::CredentialHelper;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;

/// Time limit of a helper, which may ask the user to unlock a store.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum number of bytes of an answer.
const MAX_OUTPUT_BYTES: u64 = 64 << 10;

/// Message of a helper that does not have the credentials.
const NOT_FOUND: &str = "credentials not found";

/// Runs the helpers in the folders of `PATH`.
pub(super) struct DockerCredentialHelper {
    folders: Vec<PathBuf>,
}

impl DockerCredentialHelper {
    /// Creates a runner of the helpers in the `PATH`, without relative folders and without those in `excluded`: a
    /// checkout must not replace a helper.
    pub(super) fn outside(excluded: &Path) -> Self {
        let path = std::env::var_os("PATH").unwrap_or_default();
        Self::outside_in(excluded, std::env::split_paths(&path))
    }

    fn outside_in(excluded: &Path, folders: impl IntoIterator<Item = PathBuf>) -> Self {
        let is_outside = |folder: &PathBuf| {
            let real = folder.canonicalize();
            let real = real.as_deref().unwrap_or(folder);
            folder.is_absolute() && !real.starts_with(excluded) && !folder.starts_with(excluded)
        };
        Self {
            folders: folders.into_iter().filter(is_outside).collect(),
        }
    }

    fn find(&self, name: &str) -> Result<PathBuf, String> {
        let is_name_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if name.is_empty() || !name.chars().all(is_name_char) {
            return Err(
                "its name has characters other than letters, digits, `-`, `_` and `.`".to_owned(),
            );
        }
        let file = format!("docker-credential-{name}{}", std::env::consts::EXE_SUFFIX);
        let mut files = self.folders.iter().map(|folder| folder.join(&file));
        files
            .find(|file| file.is_file())
            .ok_or_else(|| format!("`{file}` is not in the PATH"))
    }

    async fn run(&self, name: &str, server: &str) -> Result<Vec<u8>, String> {
        let mut child = Command::new(self.find(name)?)
            .arg("get")
            // A folder without files of a workspace.
            .current_dir(std::env::temp_dir())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("it cannot be started: {error}"))?;
        if let Some(mut stdin) = child.stdin.take() {
            // A helper that does not read its input fails in its own way.
            let _ = stdin.write_all(server.as_bytes()).await;
        }
        let mut answer = Vec::new();
        if let Some(stdout) = child.stdout.take() {
            let mut stdout = stdout.take(MAX_OUTPUT_BYTES + 1);
            let read = stdout.read_to_end(&mut answer).await;
            read.map_err(|error| format!("its answer cannot be read: {error}"))?;
        }
        if answer.len() as u64 > MAX_OUTPUT_BYTES {
            return Err(format!("its answer has more than {MAX_OUTPUT_BYTES} bytes"));
        }
        let status = child.wait().await;
        let status = status.map_err(|error| format!("it did not end: {error}"))?;
        if status.success() {
            return Ok(answer);
        }
        // Helpers print their errors on stdout. Only the well-known one is returned, because others might contain a
        // secret.
        let text = String::from_utf8_lossy(&answer).to_ascii_lowercase();
        if text.contains(NOT_FOUND) {
            return Err(NOT_FOUND.to_owned());
        }
        Err(format!("it failed ({status})"))
    }
}

impl CredentialHelper for DockerCredentialHelper {
    fn get<'a>(&'a self, name: &'a str, server: &'a str) -> BoxFuture<'a, Result<Vec<u8>, String>> {
        Box::pin(async move {
            tokio::time::timeout(TIMEOUT, self.run(name, server))
                .await
                .unwrap_or_else(|_| Err(format!("it took longer than {} s", TIMEOUT.as_secs())))
        })
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn helper_in(folder: &Path, name: &str, script: &str) {
        let path = folder.join(format!("docker-credential-{name}"));
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[tokio::test]
    async fn credential_helper_answers_or_its_failure_is_named() {
        let folder = tempfile::tempdir().unwrap();
        helper_in(folder.path(), "good", "read -r s || true; echo \"$1 $s\"");
        helper_in(folder.path(), "bad", "echo secret; exit 3");
        let unknown = "echo 'Credentials not found in native keychain'; exit 1";
        helper_in(folder.path(), "unknown", unknown);
        helper_in(folder.path(), "huge", "head -c 100000 /dev/zero");
        let helpers =
            DockerCredentialHelper::outside_in(Path::new("/w"), [folder.path().to_owned()]);
        let answer = helpers.get("good", "registry.example.com").await.unwrap();
        assert_eq!(answer, b"get registry.example.com\n");
        for (name, reason) in [
            ("bad", "failed"),
            ("unknown", "credentials not found"),
            ("huge", "more than"),
            ("missing", "PATH"),
            ("../good", "characters"),
            ("", "characters"),
        ] {
            let error = helpers.get(name, "registry.example.com").await.unwrap_err();
            assert!(error.contains(reason), "{name}: {error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[tokio::test]
    async fn credential_helper_of_a_checkout_does_not_run() {
        let checkout = tempfile::tempdir().unwrap();
        let root = checkout.path().canonicalize().unwrap();
        helper_in(&root, "good", "echo ran");
        let folders = [root.clone(), PathBuf::from(".")];
        let helpers = DockerCredentialHelper::outside_in(&root, folders);
        let error = helpers
            .get("good", "registry.example.com")
            .await
            .unwrap_err();
        assert!(error.contains("PATH"), "{error}");
    }
}
