//! The browser tools of a workspace: connects them with the sandbox, the proxy, the files and the settings.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mimir_browser::{BrowserOptions, BrowserPort, BrowserSessions};
use mimir_core::ToolError;
use mimir_core::backend::BoxFuture;
use mimir_core::config::BrowserSettings;
use mimir_core::launch::{LaunchSpec, LaunchedProgram, ProcessLauncher as _};
use mimir_core::paths::PathRules;
use mimir_net::Proxy;
use mimir_process::ProgramLauncher;

use crate::servers::empty_folders;
use crate::settings::MergedSettings;
use crate::user_dirs::UserDirs;
use crate::workspace::WorkspaceFolder;

/// Starts browsers in the sandbox, and reads files for uploads.
struct WorkspacePort {
    root: PathBuf,
    empty_folders: PathBuf,
}

impl BrowserPort for WorkspacePort {
    fn launch(
        &self,
        launch: LaunchSpec,
        proxy: Proxy,
    ) -> BoxFuture<'_, Result<LaunchedProgram, ToolError>> {
        // A launcher of its own, because each browser has its own proxy.
        let launcher = ProgramLauncher::new(&self.root, &self.empty_folders)
            .with_proxies(Arc::new(move |_| Ok(proxy.clone())));
        Box::pin(async move { launcher.launch(launch).await })
    }

    fn read_file(&self, path: &str, rules: &PathRules, max: u64) -> Result<Vec<u8>, ToolError> {
        mimir_wasm::fs::read_bytes(&self.root, path, rules, max)
    }
}

/// Creates the browser sessions of a workspace. Starts nothing.
pub(crate) fn sessions(
    user_dirs: &UserDirs,
    workspace: &WorkspaceFolder,
    settings: &MergedSettings,
) -> Arc<BrowserSessions> {
    let port = WorkspacePort {
        root: workspace.root().to_owned(),
        empty_folders: empty_folders(user_dirs),
    };
    BrowserSessions::new(Arc::new(port), options(user_dirs, workspace, settings))
}

/// Returns the options of browsers under these settings.
pub(crate) fn options(
    user_dirs: &UserDirs,
    workspace: &WorkspaceFolder,
    settings: &MergedSettings,
) -> BrowserOptions {
    let default = BrowserSettings::default();
    let block = settings.config.browser.as_ref().unwrap_or(&default);
    let state = || match &user_dirs.cache {
        Some(cache) => cache.join("browser"),
        None => std::env::temp_dir().join(format!("mimir-browser-{}", std::process::id())),
    };
    // A profile is more than a cache: it keeps logins.
    let profiles = user_dirs
        .config
        .as_ref()
        .map(|config| config.join("browser-profiles"));
    BrowserOptions {
        program: block.program.as_ref().map(PathBuf::from),
        profile: block.profile.as_ref().map(|name| {
            profiles
                .unwrap_or_else(|| state().join("profiles"))
                .join(name)
        }),
        idle: Duration::from_secs(block.idle_seconds()),
        window: block.window(),
        max_memory_mb: block.max_memory_mb,
        // Settings with an invalid host are refused when they are read.
        secrets: block.secret_hosts().unwrap_or_default(),
        exchange: state().join("exchange"),
        workspace: workspace.root().to_owned(),
    }
}
