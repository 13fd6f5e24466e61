//! Download of a package, in a sandbox that can only reach the registry, into a folder that is renamed when it is
//! complete. A download has no time limit.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mimir_core::config::{McpPackage, PackageRegistry, SandboxMode, SandboxSettings};
use mimir_core::launch::{LaunchSpec, LaunchedProgram, ProcessLauncher as _};
use mimir_core::network::HostPattern;
use mimir_core::platform::process_may_run;
use mimir_core::text::{prefix, visible};
use mimir_core::{ToolError, ToolErrorCode};
use mimir_mcp::client::PackageRequest;
use mimir_process::ProgramLauncher;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};

use super::package_tree::PackageTree;
use super::registry::{InstallerConfig, split_userinfo};
use super::{PackageStore, npm, pypi};
use crate::interface::{self, Progress};
use crate::servers::empty_folders;
use crate::servers::network_gate::{self, CurrentSettings, DeclaredNetwork};
use crate::setup::HostSetup;

/// A package to download, with the options of the download.
#[derive(Debug, Clone)]
pub struct PackageDownload {
    /// The package and its version range.
    pub request: PackageRequest,
    /// Pinned build that the download must match, if there is one.
    pub pinned: Option<McpPackage>,
    /// Accepts dependencies other than the pinned ones: the caller shows them to a person before any of their code
    /// runs.
    pub other_dependencies: bool,
    /// Allows packages to run their own programs during installation.
    pub install_scripts: bool,
    /// Sandbox mode of the server. With `none`, the download also runs without a sandbox.
    pub sandbox: Option<SandboxMode>,
}

impl PackageDownload {
    /// Creates a download that repeats a pinned installation.
    pub fn reinstall(package: &McpPackage, sandbox: Option<SandboxMode>) -> Self {
        let separator = match package.registry {
            PackageRegistry::Npm => "@",
            PackageRegistry::Pypi => "==",
        };
        Self {
            request: PackageRequest {
                registry: package.registry,
                requirement: format!("{}{separator}{}", package.name, package.version),
                with: package.with.clone(),
                program: Some(package.program.clone()),
                args: Vec::new(),
            },
            pinned: Some(package.clone()),
            other_dependencies: false,
            install_scripts: package.install_scripts,
            sandbox,
        }
    }
}

/// A package in a temporary folder, which is removed with this value.
pub struct DownloadedPackage {
    staging: StagingFolder,
    folder: String,
    /// The exact version.
    pub version: String,
    /// The integrity in the registry: `sha512-` and the digest in base64.
    pub integrity: String,
}

impl DownloadedPackage {
    /// Returns the folder of the package.
    pub fn path(&self) -> PathBuf {
        self.staging.path().join(&self.folder)
    }
}

/// Downloads packages for a workspace.
pub struct PackageInstaller<'a> {
    setup: &'a HostSetup,
    store: PackageStore,
    current: Arc<CurrentSettings>,
    quiet: bool,
}

/// Number of lines of an installer's stderr that are shown if it fails.
const ERROR_LINES: usize = 6;

/// Maximum number of characters of these lines in total.
const MAX_ERROR_CHARS: usize = 1_500;

/// Maximum number of bytes that are read of a line.
const MAX_LINE_BYTES: usize = 2_000;

/// Counter that tells downloads of one process apart.
static NEXT_STAGING: AtomicU64 = AtomicU64::new(0);

/// Prefix of the staging folders of running downloads.
const STAGING: &str = ".staging-";

impl<'a> PackageInstaller<'a> {
    /// Creates an installer. If `quiet` is true, no progress is shown.
    pub fn new(setup: &'a HostSetup, quiet: bool) -> Self {
        Self {
            setup,
            store: PackageStore::new(&setup.user_dirs),
            current: Arc::new(CurrentSettings::new(&setup.settings)),
            quiet,
        }
    }

    /// Downloads a package, unless the pinned build is already installed. Returns the pinned build.
    pub async fn install(&self, download: &PackageDownload) -> Result<McpPackage, ToolError> {
        if let Some(package) = &download.pinned
            && self.store.find(package).is_some()
        {
            return Ok(package.clone());
        }
        let staging = StagingFolder::new(self.store.root()?)?;
        let run = InstallRun {
            installer: self,
            download,
            staging_folder: staging.path(),
        };
        let (package, start, tree) = match download.request.registry {
            PackageRegistry::Npm => npm::install(&run).await?,
            PackageRegistry::Pypi => pypi::install(&run).await?,
        };
        if let Some(pinned) = &download.pinned
            && (&pinned.version, &pinned.integrity) != (&package.version, &package.integrity)
        {
            let message = format!(
                "the registry now delivers a different build of {pinned}: expected {}, got {} with {}; nothing was installed",
                pinned.integrity, package.version, package.integrity
            );
            let remedy =
                "if you trust the new build, `mimir mcp remove NAME` and `mimir mcp add` it again";
            return Err(ToolError::permission_denied(message).with_remedies([remedy.to_owned()]));
        }
        if let Some(pinned) = &download.pinned
            && !download.other_dependencies
        {
            self.check_dependencies(pinned, &tree)?;
        }
        tree.save(&self.setup.user_dirs)?;
        self.store.install_staged(staging.path(), &package, start)?;
        Ok(package)
    }

    /// Downloads a package of npm with its dependencies into a temporary folder. Its install scripts do not run, and no
    /// program of a package is left in the folder.
    pub async fn download_npm(&self, requirement: &str) -> Result<DownloadedPackage, ToolError> {
        let request = PackageRequest {
            registry: PackageRegistry::Npm,
            requirement: requirement.to_owned(),
            with: Vec::new(),
            program: None,
            args: Vec::new(),
        };
        let download = PackageDownload {
            request,
            pinned: None,
            other_dependencies: false,
            install_scripts: false,
            sandbox: None,
        };
        let staging = StagingFolder::new(self.store.root()?)?;
        let run = InstallRun {
            installer: self,
            download: &download,
            staging_folder: staging.path(),
        };
        let (folder, version, integrity) = npm::download(&run).await?;
        Ok(DownloadedPackage {
            staging,
            folder,
            version,
            integrity,
        })
    }

    /// Refuses dependencies other than the pinned ones. Pins of older versions do not contain the dependencies.
    fn check_dependencies(&self, pinned: &McpPackage, tree: &PackageTree) -> Result<(), ToolError> {
        let digest = tree.digest();
        let Some(expected) = pinned
            .dependencies
            .as_ref()
            .filter(|dependencies| **dependencies != digest)
        else {
            return Ok(());
        };
        let recorded = PackageTree::load(&self.setup.user_dirs, expected);
        let message = format!(
            "the dependencies of {pinned} have changed since it was trusted: {}; expected {expected}, got {digest}; nothing was installed",
            tree.difference(recorded.as_ref())
        );
        let remedy = "`mimir mcp trust NAME` starts the server with them in its sandbox, shows its descriptions, and accepts them if you confirm";
        Err(ToolError::permission_denied(message).with_remedies([remedy.to_owned()]))
    }

    /// Returns true if a package is installed.
    pub fn is_installed(&self, package: &McpPackage) -> bool {
        self.store.find(package).is_some()
    }

    /// Describes the changes of the dependencies between two pins of a package.
    pub fn difference(&self, before: &McpPackage, now: &McpPackage) -> String {
        let read = |package: &McpPackage| {
            let digest = package.dependencies.as_deref()?;
            PackageTree::load(&self.setup.user_dirs, digest)
        };
        match read(now) {
            Some(now) => now.difference(read(before).as_ref()),
            None => "the new list of dependencies is not on this machine".to_owned(),
        }
    }

    fn declared_network(&self, hosts: Vec<HostPattern>, package: &str) -> DeclaredNetwork {
        DeclaredNetwork {
            program: format!("the download of {package}"),
            hosts,
            registry: true,
            remedy: "only the configured registry is reached while a package is downloaded"
                .to_owned(),
            refused: None,
        }
    }

    /// Fetches a page of the registry.
    pub(super) async fn fetch_text(&self, url: &str, package: &str) -> Result<String, ToolError> {
        let declared = self.declared_network(vec![super::registry::host(url)?], package);
        let (plain, _) = split_userinfo(url);
        let setup = self.setup;
        let audit = setup.audit();
        let client = network_gate::client(
            declared,
            Arc::clone(&self.current),
            setup.workspace.root(),
            audit,
        )?;
        let response = client.get(&plain).await.map_err(ToolError::from)?;
        match response.status.is_success() {
            true => Ok(String::from_utf8_lossy(&response.body).into_owned()),
            false => Err(ToolError::new(
                ToolErrorCode::Network,
                format!("HTTP {}", response.status),
            )),
        }
    }
}

/// A running download.
pub(super) struct InstallRun<'a> {
    pub(super) installer: &'a PackageInstaller<'a>,
    pub(super) download: &'a PackageDownload,
    pub(super) staging_folder: &'a Path,
}

impl InstallRun<'_> {
    /// Returns the package and its version range, for messages.
    pub(super) fn describe_package(&self) -> &str {
        &self.download.request.requirement
    }

    /// Refuses install scripts if they could read credentials in the configuration.
    pub(super) fn check_credentials(&self, configured: &InstallerConfig) -> Result<(), ToolError> {
        if configured.has_credentials() && self.download.install_scripts {
            let message = "the URL of the configured registry contains a password, which install scripts could read";
            let remedy = "leave out --install-scripts, or take the password out of the URL";
            return Err(ToolError::permission_denied(message).with_remedies([remedy.to_owned()]));
        }
        Ok(())
    }

    /// Runs a program of the installation until it exits. It can only reach `hosts`. `action` describes it in the
    /// progress.
    pub(super) async fn run_program(
        &self,
        command_line: Vec<String>,
        environment: Vec<(String, String)>,
        hosts: Vec<HostPattern>,
        action: &str,
    ) -> Result<(), ToolError> {
        let setup = self.installer.setup;
        let base = &setup.settings.config.sandbox;
        let mode = match self.download.sandbox.or(base.mode).unwrap_or_default() {
            SandboxMode::None => SandboxMode::None,
            _ => SandboxMode::Process,
        };
        let is_unsandboxed = mode == SandboxMode::None;
        let mut environment = environment;
        if !is_unsandboxed {
            // A registry on this machine is also reached through the proxy, because the sandbox has its own loopback.
            for name in ["no_proxy", "NO_PROXY", "npm_config_noproxy"] {
                environment.push((name.to_owned(), String::new()));
            }
        }
        let program = command_line
            .first()
            .map_or("", |word| word.rsplit('/').next().unwrap_or_default())
            .to_owned();
        let launch = LaunchSpec {
            name: self.describe_package().to_owned(),
            args: command_line,
            environment,
            sandbox: SandboxSettings {
                mode: Some(mode),
                network_access: (!is_unsandboxed && !hosts.is_empty()).then_some(true),
                ..SandboxSettings::default()
            },
            hosts: hosts.clone(),
            folders: Some(Vec::new()),
            private: vec![self.staging_folder.to_owned()],
            ..LaunchSpec::default()
        };
        let programs =
            ProgramLauncher::new(setup.workspace.root(), empty_folders(&setup.user_dirs));
        let (current, root) = (
            Arc::clone(&self.installer.current),
            setup.workspace.root().to_owned(),
        );
        let declared = self
            .installer
            .declared_network(hosts, self.describe_package());
        let audit = setup.audit();
        let programs = programs.with_proxies(Arc::new(move |_: &LaunchSpec| {
            network_gate::proxy(declared.clone(), Arc::clone(&current), &root, audit.clone())
        }));
        let progress = if self.installer.quiet {
            None
        } else {
            interface::progress(&format!("{action} {}", self.describe_package()))
        };
        let LaunchedProgram {
            stdin,
            stdout,
            stderr,
            mut handle,
        } = programs.launch(launch).await?;
        drop(stdin);
        let (stdout_lines, stderr_lines, exit_code) = tokio::join!(
            read_last_lines(stdout, progress.as_deref()),
            read_last_lines(stderr, progress.as_deref()),
            handle.wait()
        );
        drop(progress);
        match exit_code? {
            0 => Ok(()),
            code => Err(self.install_error(
                &program,
                code,
                if stderr_lines.is_empty() {
                    stdout_lines
                } else {
                    stderr_lines
                },
            )),
        }
    }

    fn install_error(&self, program: &str, code: i32, lines: Vec<String>) -> ToolError {
        let output = visible(prefix(&lines.join(" / "), MAX_ERROR_CHARS));
        let package = self.describe_package();
        let message = format!(
            "{package} could not be installed: `{program}` failed with exit code {code}: {output}"
        );
        let mut remedies = Vec::new();
        let lowercase = output.to_lowercase();
        let build_failures = [
            "no matching distribution",
            "install script",
            "node-gyp",
            "only-binary",
            "no binary",
        ];
        if !self.download.install_scripts
            && build_failures.iter().any(|part| lowercase.contains(part))
        {
            remedies.push(
                "if the package, or one that it needs, must be built on this machine, use --install-scripts, which lets packages run programs in the sandbox during installation"
                    .to_owned(),
            );
        }
        if self.download.sandbox != Some(SandboxMode::None)
            && [
                "403",
                "proxy",
                "enotfound",
                "econn",
                "network",
                "certificate",
            ]
            .iter()
            .any(|part| lowercase.contains(part))
        {
            remedies.push(
                "a download can only reach the configured registry, without the credentials in your npm or pip settings; `--sandbox none` downloads with all your rights"
                    .to_owned(),
            );
        }
        ToolError::execution(message).with_remedies(remedies)
    }
}

/// Reads a stream to its end and returns its last lines. Lines about progress are not returned, but advance `progress`.
async fn read_last_lines(
    stream: Box<dyn AsyncRead + Send + Sync + Unpin>,
    progress: Option<&dyn Progress>,
) -> Vec<String> {
    let mut reader = BufReader::new(stream);
    let mut last: Vec<String> = Vec::new();
    let mut line = Vec::new();
    loop {
        line.clear();
        match reader.read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return last,
            Ok(_) => {}
        }
        line.truncate(MAX_LINE_BYTES);
        let text = String::from_utf8_lossy(&line);
        let text = text.trim();
        if text.is_empty() {
            continue;
        }
        let is_progress = text.contains("http fetch")
            || text.starts_with("Downloading")
            || text.starts_with("Collecting");
        if is_progress {
            if let Some(progress) = progress {
                progress.step();
            }
            continue;
        }
        if last.len() == ERROR_LINES {
            last.remove(0);
        }
        last.push(mask_line(text));
    }
}

/// Removes user and password from the URLs in a line, and masks secrets.
fn mask_line(line: &str) -> String {
    let words = line.split(' ').map(|word| split_userinfo(word).0);
    let line = words.collect::<Vec<String>>().join(" ");
    let mut line = line;
    mimir_core::redact::Redactor::new().mask_text(&mut line);
    line
}

/// The staging folder of an installation. It is removed on drop, unless it was renamed.
struct StagingFolder(PathBuf);

impl StagingFolder {
    fn new(root: &Path) -> Result<Self, ToolError> {
        remove_abandoned(root);
        let number = NEXT_STAGING.fetch_add(1, Ordering::Relaxed);
        let path = root.join(format!("{STAGING}{}-{number}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        crate::private_files::private_folder(&path)
            .map_err(|error| crate::file_error::file_error("create", &path, &error))?;
        Ok(Self(path))
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for StagingFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Removes the staging folders of interrupted downloads.
fn remove_abandoned(root: &Path) {
    for entry in root.read_dir().into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(rest) = name.to_str().and_then(|name| name.strip_prefix(STAGING)) else {
            continue;
        };
        let process = rest
            .split('-')
            .next()
            .and_then(|number| number.parse().ok());
        if process.is_some_and(|process| process != std::process::id() && !process_may_run(process))
        {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}
