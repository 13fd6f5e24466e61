//! Builds of plugins, whose scripts may be hostile.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mimir_core::ToolErrorCode;
use mimir_core::config::{SandboxMode, SandboxSettings};
use mimir_process::{BuildCommand, BuildCommandError, BuildNetwork, run_build};

use crate::kit::confined;

/// The folder of a plugin, with the folders around it.
struct PluginBuild {
    parent: tempfile::TempDir,
}

impl PluginBuild {
    fn new() -> Self {
        let parent = tempfile::tempdir().unwrap();
        for folder in ["plugin/.mimir-build", "toolchain", "cache"] {
            std::fs::create_dir_all(parent.path().join(folder)).unwrap();
        }
        std::fs::write(parent.path().join("plugin/tool.py"), "source").unwrap();
        std::fs::write(parent.path().join("toolchain/lib"), "library").unwrap();
        Self { parent }
    }

    fn path(&self, below: &str) -> PathBuf {
        self.parent.path().canonicalize().unwrap().join(below)
    }

    fn has(&self, below: &str) -> bool {
        self.path(below).exists()
    }

    fn command(&self, script: &str) -> BuildCommand {
        let folder = self.path("plugin");
        BuildCommand {
            args: ["/bin/sh", "-c", script].map(str::to_owned).to_vec(),
            directory: folder.clone(),
            writable: vec![folder.join(".mimir-build")],
            folder,
            read_only: vec![self.path("toolchain"), self.path("missing")],
            caches: vec![self.path("cache")],
            environment: vec![("PARENT".to_owned(), self.path("").display().to_string())],
            network: BuildNetwork::Off,
            timeout: Duration::from_secs(60),
        }
    }

    /// Runs a script. Returns its exit code and its lines.
    async fn run(&self, script: &str) -> (i32, Vec<String>) {
        let mut lines = Vec::new();
        let settings = SandboxSettings::default();
        let command = self.command(script);
        let output = run_build(&settings, &command, &mut |_, line| {
            lines.push(line.to_owned());
        })
        .await
        .unwrap();
        (output.exit_code, lines)
    }
}

#[tokio::test]
async fn build_writes_only_into_its_build_folder_and_caches() {
    let build = PluginBuild::new();
    let script = "cat tool.py $PARENT/toolchain/lib; echo; \
        echo x > .mimir-build/made; echo x > $PARENT/cache/made; \
        for file in made ../made src/made .mimir/made $PARENT/toolchain/made; do \
        mkdir -p ${file%/*} 2>/dev/null; echo x > $file && echo wrote $file; done; exit 7";
    let (code, lines) = build.run(script).await;
    assert_eq!(code, 7, "{lines:?}");
    assert_eq!(lines[0], "sourcelibrary", "{lines:?}");
    assert!(build.has("plugin/.mimir-build/made") && build.has("cache/made"));
    for path in [
        "plugin/made",
        "made",
        "plugin/src",
        // A folder of this name would make the plugin a workspace.
        "plugin/.mimir",
        "toolchain/made",
    ] {
        assert!(!build.has(path), "{path}: {lines:?}");
    }
}

#[tokio::test]
async fn build_without_end_is_stopped() {
    let build = PluginBuild::new();
    let mut command = build.command("echo begun; sleep 600 & sleep 600");
    command.timeout = Duration::from_secs(5);
    let begun = Instant::now();
    let settings = SandboxSettings::default();
    let mut lines = Vec::new();
    let error = run_build(&settings, &command, &mut |_, line| {
        lines.push(line.to_owned());
    })
    .await
    .unwrap_err();
    assert!(matches!(error, BuildCommandError::Timeout(_)), "{error}");
    assert_eq!(lines, ["begun"]);
    assert!(begun.elapsed() < Duration::from_secs(60), "{begun:?}");
    let error = mimir_core::ToolError::from(error);
    assert_eq!(error.code, ToolErrorCode::Timeout);
}

#[tokio::test]
async fn build_has_no_network() {
    if confined() {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let build = PluginBuild::new();
    let script =
        format!("bash -c 'echo x > /dev/tcp/127.0.0.1/{port}' 2>/dev/null && echo reached");
    let (code, lines) = build.run(&script).await;
    assert!(code != 0 && lines.is_empty(), "{code} {lines:?}");
}

#[tokio::test]
async fn build_sees_no_files_of_the_user() {
    let build = PluginBuild::new();
    std::fs::write(build.path("secret"), "hunter2").unwrap();
    std::fs::write(build.path("plugin/.env"), "hunter2").unwrap();
    let (_, lines) = build.run("cat ../secret .env 2>/dev/null; true").await;
    assert!(lines.is_empty(), "{lines:?}");
}

#[tokio::test]
async fn build_without_a_sandbox_needs_the_network_option() {
    let build = PluginBuild::new();
    let settings = SandboxSettings {
        mode: Some(SandboxMode::None),
        ..SandboxSettings::default()
    };
    let command = build.command("touch .mimir-build/ran");
    let error = run_build(&settings, &command, &mut |_, _| {})
        .await
        .unwrap_err();
    assert!(matches!(error, BuildCommandError::OpenNetwork), "{error}");
    assert!(!build.has("plugin/.mimir-build/ran"));
    let error = mimir_core::ToolError::from(error);
    assert!(
        error.remedies.iter().any(|it| it.contains("--network")),
        "{error:?}"
    );
    let containers = SandboxSettings {
        mode: Some(SandboxMode::Container),
        ..SandboxSettings::default()
    };
    assert!(
        run_build(&containers, &command, &mut |_, _| {})
            .await
            .is_err()
    );
}

#[cfg(unix)]
#[tokio::test]
async fn build_folder_that_leads_out_is_not_writable() {
    let build = PluginBuild::new();
    let folder = build.path("plugin/.mimir-build");
    std::fs::remove_dir(&folder).unwrap();
    std::os::unix::fs::symlink(Path::new("../cache"), &folder).unwrap();
    let mut command = build.command("echo x > .mimir-build/made");
    command.caches.clear();
    let settings = SandboxSettings::default();
    let output = run_build(&settings, &command, &mut |_, _| {})
        .await
        .unwrap();
    assert_ne!(output.exit_code, 0);
    assert!(!build.has("cache/made"));
}
