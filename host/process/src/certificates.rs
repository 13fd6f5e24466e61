//! Certificate file for commands: the platform's certificates and those of `network.extraRoots`.
//!
//! The file is created only if `network.extraRoots` lists certificates, outside of all folders that commands may write
//! to.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use mimir_net::TlsRoots;
use parking_lot::Mutex;
use tempfile::NamedTempFile;

use crate::sandbox::{CommandSpec, HostMount, SandboxError};

/// Path of the certificate file in a sandbox.
const IN_SANDBOX: &str = "/etc/mimir-certificates.pem";

/// Path of wget's settings in a sandbox. wget has no variable for a certificate file, only one for its settings file.
const WGETRC_IN_SANDBOX: &str = "/etc/mimir-wgetrc";

/// Variables that tell programs which certificate file to use. Most programs use this file instead of their own
/// certificates; node uses both. npm prefers the file named in the machine's `npmrc` to that of node, unless npm's own
/// variable is set.
const VARIABLES: [&str; 10] = [
    "AWS_CA_BUNDLE",
    "CARGO_HTTP_CAINFO",
    "CURL_CA_BUNDLE",
    "DENO_CERT",
    "GIT_SSL_CAINFO",
    "NODE_EXTRA_CA_CERTS",
    "NPM_CONFIG_CAFILE",
    "PIP_CERT",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_FILE",
];

/// Cache of the last certificate file.
#[derive(Default)]
pub(crate) struct CertificateTrust(Mutex<Option<(BundleKey, Arc<CertificateBundle>)>>);

/// The source files with their modification times.
type BundleKey = Vec<(PathBuf, Option<SystemTime>)>;

/// A certificate file, and a wget settings file that refers to it. Both are deleted on drop.
#[derive(Debug)]
pub(crate) struct CertificateBundle {
    /// Canonical path of the certificate file.
    path: PathBuf,
    /// Canonical path of wget's settings file.
    wgetrc: PathBuf,
    _files: [NamedTempFile; 2],
}

impl CertificateTrust {
    /// Returns the file with the platform's certificates and `roots`, given as paths relative to `workspace`; `None` if
    /// `roots` is empty.
    pub(crate) fn bundle_for(
        &self,
        workspace: &Path,
        roots: &[String],
    ) -> Result<Option<Arc<CertificateBundle>>, SandboxError> {
        if roots.is_empty() {
            return Ok(None);
        }
        let modified_at = |path: &Path| path.metadata().and_then(|meta| meta.modified()).ok();
        let key: BundleKey = roots
            .iter()
            .map(|root| workspace.join(root))
            .map(|path| (path.clone(), modified_at(&path)))
            .collect();
        let mut cached = self.0.lock();
        if let Some((cached_key, bundle)) = &*cached
            && *cached_key == key
        {
            return Ok(Some(Arc::clone(bundle)));
        }
        let roots = TlsRoots::from_folder(workspace, roots).map_err(SandboxError::Roots)?;
        let bundle = CertificateBundle::new(roots.pem().as_bytes());
        let write_error = SandboxError::io_error("cannot write the file of trusted certificates");
        let bundle = Arc::new(bundle.map_err(write_error)?);
        *cached = Some((key, Arc::clone(&bundle)));
        Ok(Some(bundle))
    }
}

impl CertificateBundle {
    fn new(content: &[u8]) -> std::io::Result<Self> {
        let create = |content: &[u8]| -> std::io::Result<NamedTempFile> {
            let mut file = NamedTempFile::with_prefix("mimir-")?;
            file.write_all(content)?;
            Ok(file)
        };
        let certificates = create(content)?;
        let wgetrc = create(format!("ca_certificate = {IN_SANDBOX}\n").as_bytes())?;
        Ok(Self {
            path: certificates.path().canonicalize()?,
            wgetrc: wgetrc.path().canonicalize()?,
            _files: [certificates, wgetrc],
        })
    }

    /// Mounts the file for a command, and sets the variables for its programs. Variables set by the command take
    /// precedence.
    pub(crate) fn add_to_spec(&self, spec: &mut CommandSpec, has_mounts: bool) {
        let from = &self.path;
        let at = if has_mounts {
            Path::new(IN_SANDBOX)
        } else {
            from
        };
        let value = at.to_string_lossy().into_owned();
        let mut set = |name: &str, value: &str| {
            if !spec.environment.iter().any(|(own, _)| own == name) {
                spec.environment.push((name.to_owned(), value.to_owned()));
            }
        };
        for name in VARIABLES {
            set(name, &value);
        }
        // Outside of a sandbox, the variable would replace the user's own wget settings.
        if has_mounts {
            set("WGETRC", WGETRC_IN_SANDBOX);
            for (from, at) in [(from, at), (&self.wgetrc, Path::new(WGETRC_IN_SANDBOX))] {
                spec.mounts.push(HostMount::read_only_at(from, at));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mimir_core::command::CommandProgram;

    #[test]
    fn certificate_bundle_requires_readable_extra_roots() {
        let folder = tempfile::tempdir().unwrap();
        let trust = CertificateTrust::default();
        assert!(trust.bundle_for(folder.path(), &[]).unwrap().is_none());
        let missing = trust.bundle_for(folder.path(), &["none.pem".to_owned()]);
        let message = missing.unwrap_err().to_string();
        assert!(
            message.contains("network.extraRoots") && message.contains("none.pem"),
            "{message}"
        );
    }

    #[test]
    fn certificate_variables_do_not_override_the_commands_own() {
        let bundle = CertificateBundle::new(b"x").unwrap();
        let mut spec = CommandSpec::new(CommandProgram::Vector(vec!["true".into()]), "/w");
        spec.environment = vec![("SSL_CERT_FILE".into(), "/own".into())];
        bundle.add_to_spec(&mut spec, true);
        let value_and_duplicates = |name: &str| {
            let mut matches = spec.environment.iter().filter(|(own, _)| own == name);
            (
                matches.next().map(|(_, value)| value.clone()),
                matches.count(),
            )
        };
        assert_eq!(
            value_and_duplicates("SSL_CERT_FILE"),
            (Some("/own".into()), 0)
        );
        assert_eq!(
            value_and_duplicates("CURL_CA_BUNDLE"),
            (Some(IN_SANDBOX.into()), 0)
        );
        assert_eq!(
            value_and_duplicates("WGETRC"),
            (Some(WGETRC_IN_SANDBOX.into()), 0)
        );
        assert_eq!(spec.mounts.len(), 2);
        assert!(spec.mounts.iter().all(|mount| !mount.writable));
        let mut unmounted = CommandSpec::new(CommandProgram::Vector(vec!["true".into()]), "/w");
        bundle.add_to_spec(&mut unmounted, false);
        let is_wgetrc = |(name, _): &(String, String)| name == "WGETRC";
        assert!(!unmounted.environment.iter().any(is_wgetrc));
    }
}
