//! The program: where Chromium is, and how it is started.

use std::path::{Path, PathBuf};

use mimir_core::config::{SandboxMode, SandboxSettings};
use mimir_core::launch::LaunchSpec;
use serde_json::{Map, Value};

/// A browser of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstalledBrowser {
    /// The product.
    pub name: &'static str,
    /// The path of the program.
    pub program: PathBuf,
}

/// Names of products, and a part of their paths.
const PRODUCTS: [(&str, &str); 4] = [
    ("chrom", "Chromium"),
    ("google-chrome", "Chrome"),
    ("edge", "Edge"),
    ("brave", "Brave"),
];

/// Returns the installed browsers, one for each product. The browser tools use the first.
pub fn installed_browsers() -> Vec<InstalledBrowser> {
    let mut browsers: Vec<InstalledBrowser> = Vec::new();
    for program in PATHS.map(PathBuf::from) {
        let name = product_name(&program);
        let is_known = browsers.iter().any(|known| known.name == name);
        if !is_known && program.is_file() {
            browsers.push(InstalledBrowser { name, program });
        }
    }
    browsers
}

fn product_name(program: &Path) -> &'static str {
    let path = program
        .to_string_lossy()
        .replace("google/chrome", "google-chrome");
    let mut products = PRODUCTS.iter().rev();
    let product = products.find(|(part, _)| path.contains(part));
    product.map_or("browser", |(_, name)| name)
}

/// Returns the program that shows whether a browser can start in the sandbox: it loads an empty page without network,
/// and prints it.
pub fn trial_launch(program: &Path) -> LaunchSpec {
    let mut args = vec![program.display().to_string()];
    let fit =
        |argument: &&str| !["--remote-debugging-pipe", "--no-startup-window"].contains(argument);
    args.extend(ARGUMENTS.into_iter().filter(fit).map(str::to_owned));
    args.push(format!("--user-data-dir={MEMORY_PROFILE}"));
    args.extend(["--dump-dom", "about:blank"].map(str::to_owned));
    LaunchSpec {
        name: "browser".to_owned(),
        args,
        sandbox: SandboxSettings {
            mode: Some(SandboxMode::Process),
            ..SandboxSettings::default()
        },
        folders: Some(Vec::new()),
        nested_sandbox: true,
        ..LaunchSpec::default()
    }
}

/// Usual paths of the program, without the scripts that some systems put around it.
const PATHS: [&str; 14] = [
    "/usr/lib/chromium/chromium",
    "/usr/lib/chromium-browser/chromium-browser",
    "/usr/lib64/chromium-browser/chromium-browser",
    "/opt/google/chrome/chrome",
    "/opt/google/chrome-beta/chrome",
    "/opt/chromium.org/chromium/chromium",
    "/opt/microsoft/msedge/msedge",
    "/opt/brave.com/brave/brave",
    "/usr/bin/chromium",
    "/usr/bin/chromium-browser",
    "/usr/bin/google-chrome",
    "/usr/bin/google-chrome-stable",
    "/usr/bin/microsoft-edge",
    "/usr/local/bin/chromium",
];

/// Returns the path of an installed browser.
pub(crate) fn find_program() -> Option<PathBuf> {
    PATHS
        .map(PathBuf::from)
        .into_iter()
        .find(|path| path.is_file())
}

/// Settings in a profile: the browser loads no page before it is opened. It does not pause the requests for pages that
/// another page names in speculation rules.
const PREFERENCES: &str = r#"{"net":{"network_prediction_options":2}}"#;

/// The file of these settings, below the folder of a profile.
const PREFERENCES_FILE: [&str; 2] = ["Default", "Preferences"];

/// Maximum size of this file in bytes.
const PREFERENCES_MAX: u64 = 64 << 20;

/// The folder of a profile in memory: `/tmp` of the sandbox.
const MEMORY_PROFILE: &str = "/tmp/profile";

/// Adds the settings to a stored profile, and creates its folder if needed. The browser can write there, too.
pub(crate) fn prepare_profile(folder: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let stored = mimir_core::files::read_below(folder, &PREFERENCES_FILE, PREFERENCES_MAX);
    let stored = match stored {
        Ok(stored) => stored,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(error),
    };
    // The browser replaces settings that it cannot read, too.
    let mut settings = match serde_json::from_slice(&stored) {
        Ok(settings @ Value::Object(_)) => settings,
        _ => Value::Object(Map::new()),
    };
    let network = &mut settings["net"];
    if !network.is_object() {
        *network = Value::Object(Map::new());
    }
    network["network_prediction_options"] = 2.into();
    let text = settings.to_string();
    mimir_core::files::write_below(folder, &PREFERENCES_FILE, text.as_bytes())
}

/// Returns the script that starts the program with the pipes of the protocol at descriptors 3 and 4, which are its
/// standard input and output. The proxy's address comes from the sandbox; its login is given to the browser later, by
/// the protocol.
fn start_script(has_stored_profile: bool) -> String {
    let start =
        "\"$0\" --proxy-server=\"http://${address%/}\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null";
    let address = "address=${http_proxy##*@}";
    if has_stored_profile {
        // The sandbox ends with this script, and the process that stores cookies needs a moment after the program has
        // ended.
        return format!("{address}; {start}; sleep 1");
    }
    let [folder, file] = PREFERENCES_FILE;
    let folder = format!("{MEMORY_PROFILE}/{folder}");
    format!(
        "{address}; mkdir -p {folder} && printf %s '{PREFERENCES}' >{folder}/{file} && exec {start}"
    )
}

/// Features that are switched off. Those in the last two lines send requests, chosen by pages or servers, which the
/// browser does not pause.
const DISABLED_FEATURES: &str = concat!(
    "--disable-features=AutofillServerCommunication,OptimizationHints,MediaRouter,Translate,",
    "NetworkTimeServiceQuerying,InterestFeedContentSuggestions,CertificateTransparencyComponentUpdater,",
    "DialMediaRouteProvider,GlobalMediaControls,HttpsUpgrades,HttpsFirstBalancedModeAutoEnable,",
    "BackgroundFetch,FedCm,WebPayments,ServiceWorkerPaymentApps,Reporting,NetworkErrorLogging,DocumentReporting,",
    "EarlyHintsPreloadForNavigation,SignedHTTPExchange,DeviceBoundSessions,InterestGroupStorage,FencedFrames",
);

/// Arguments of the program. Its own sandbox stays on.
const ARGUMENTS: [&str; 35] = [
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-startup-window",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-gpu",
    // Loopback goes to the proxy, too.
    "--proxy-bypass-list=<-loopback>",
    // Nothing but the proxy is reachable; without these it would try.
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    // A page is gone when it is left, with all code in it.
    "--disable-back-forward-cache",
    "--disable-component-update",
    "--disable-client-side-phishing-detection",
    "--disable-domain-reliability",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--disable-breakpad",
    "--disable-crash-reporter",
    "--disable-search-engine-choice-screen",
    // A shared worker has no page whose requests could be paused with its own.
    "--disable-shared-workers",
    DISABLED_FEATURES,
    "--disable-ipc-flooding-protection",
    "--disable-popup-blocking",
    "--disable-prompt-on-repost",
    "--disable-renderer-backgrounding",
    "--disable-backgrounding-occluded-windows",
    "--disable-background-timer-throttling",
    "--metrics-recording-only",
    "--mute-audio",
    "--no-pings",
    "--password-store=basic",
    // A page that fills its memory crashes itself, before others notice.
    "--js-flags=--max-old-space-size=1024",
    "--renderer-process-limit=12",
];

/// The program and folders of a browser that is about to start.
pub(crate) struct BrowserLaunch<'a> {
    pub(crate) program: &'a Path,
    /// The folder shared with this process, for uploads and downloads.
    pub(crate) exchange: &'a Path,
    /// The folder of a named profile; without one, the profile is in memory.
    pub(crate) profile: Option<&'a Path>,
    /// Width and height of the window.
    pub(crate) window: (u32, u32),
    /// Maximum memory in MiB, if it was set.
    pub(crate) max_memory_mb: Option<u64>,
}

impl BrowserLaunch<'_> {
    /// Returns the program to launch: in the sandbox of commands, without the workspace, and with the proxy as its only
    /// network.
    pub(crate) fn spec(&self) -> LaunchSpec {
        let profile = self.profile.unwrap_or(Path::new(MEMORY_PROFILE)).display();
        let (width, height) = self.window;
        let script = start_script(self.profile.is_some());
        let mut args = vec!["/bin/sh".to_owned(), "-c".to_owned(), script];
        args.push(self.program.display().to_string());
        args.extend(ARGUMENTS.map(str::to_owned));
        args.push(format!("--user-data-dir={profile}"));
        args.push(format!("--profile-directory={}", PREFERENCES_FILE[0]));
        args.push(format!("--window-size={width},{height}"));
        let mut private = vec![self.exchange.to_owned()];
        private.extend(self.profile.map(Path::to_owned));
        LaunchSpec {
            name: "browser".to_owned(),
            args,
            sandbox: SandboxSettings {
                mode: Some(SandboxMode::Process),
                network_access: Some(true),
                max_memory_mb: self.max_memory_mb,
                ..SandboxSettings::default()
            },
            folders: Some(Vec::new()),
            private,
            nested_sandbox: true,
            ..LaunchSpec::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browser_products_are_named_by_their_paths() {
        for (path, name) in [
            ("/usr/lib/chromium/chromium", "Chromium"),
            ("/usr/bin/chromium-browser", "Chromium"),
            ("/opt/google/chrome-beta/chrome", "Chrome"),
            ("/usr/bin/google-chrome-stable", "Chrome"),
            ("/opt/microsoft/msedge/msedge", "Edge"),
            ("/opt/brave.com/brave/brave", "Brave"),
        ] {
            assert_eq!(product_name(Path::new(path)), name, "{path}");
        }
        for path in PATHS {
            assert_ne!(product_name(Path::new(path)), "browser", "{path}");
        }
    }

    #[test]
    fn stored_profile_keeps_its_settings_and_loads_no_page_ahead() {
        let folder = tempfile::tempdir().unwrap();
        let profile = folder.path().join("work");
        let file = profile.join("Default").join("Preferences");
        let expected = serde_json::json!(2);
        for (stored, other) in [
            (None, Value::Null),
            (Some(r#"{"net":{"x":1},"a":"b"}"#), "b".into()),
            (Some(r#"{"net":3,"a":"b"}"#), "b".into()),
            (Some("broken"), Value::Null),
            (Some("[]"), Value::Null),
        ] {
            if let Some(stored) = stored {
                std::fs::write(&file, stored).unwrap();
            }
            prepare_profile(&profile).unwrap();
            let settings: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
            assert_eq!(settings["net"]["network_prediction_options"], expected);
            assert_eq!(settings["a"], other, "{stored:?}");
        }
        let in_memory: Value = serde_json::from_str(PREFERENCES).unwrap();
        assert_eq!(in_memory["net"]["network_prediction_options"], expected);
    }

    #[cfg(unix)]
    #[test]
    fn stored_profile_is_not_followed_through_links() {
        let folder = tempfile::tempdir().unwrap();
        let (profile, other) = (folder.path().join("work"), folder.path().join("other"));
        std::fs::create_dir_all(profile.join("Default")).unwrap();
        std::fs::write(&other, "text").unwrap();
        std::os::unix::fs::symlink(&other, profile.join("Default").join("Preferences")).unwrap();
        // The link may be replaced, or refused.
        let _ = prepare_profile(&profile);
        assert_eq!(std::fs::read_to_string(&other).unwrap(), "text");
    }

    #[test]
    fn browser_trial_keeps_the_sandbox_and_has_no_network() {
        let launch = trial_launch(Path::new("/usr/bin/chromium"));
        assert_eq!(launch.args[0], "/usr/bin/chromium");
        assert!(launch.nested_sandbox && launch.sandbox.network_access.is_none());
        assert!(
            !launch
                .args
                .iter()
                .any(|argument| argument.contains("no-sandbox"))
        );
        assert_eq!(launch.folders, Some(Vec::new()));
    }
}
