//! A running browser: its tabs, and the loop that handles its events.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use mimir_core::launch::ProgramHandle;
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::cdp::{CdpClient, CdpError, CdpEvent};
use crate::request_gate::RequestGate;
use crate::tab::Tab;

mod events;
mod network_events;

pub(crate) use events::file_name;

/// Maximum number of tabs. A page that opens more has them closed.
pub(crate) const TABS_MAX: usize = 20;

/// Maximum number of attached frames and workers of other processes.
const TARGETS_MAX: usize = 200;

/// Code that runs in a worker before its own: the browser does not pause the request for the script of a worker that
/// another worker starts.
const WITHOUT_WORKERS: &str = "delete self.Worker";

/// Time limit for setting up a new target.
const SETUP_TIMEOUT: Duration = Duration::from_secs(10);

/// A running browser. Dropping it kills the program.
pub(crate) struct Browser {
    pub(crate) cdp: CdpClient,
    pub(crate) gate: Arc<RequestGate>,
    state: Mutex<BrowserState>,
    /// Changes whenever the state does.
    changes: watch::Sender<u64>,
    /// User and password of the proxy.
    proxy_login: (String, String),
    /// Killed on drop.
    program: Mutex<Option<Box<dyn ProgramHandle>>>,
}

/// The tabs of a browser.
#[derive(Default)]
pub(crate) struct BrowserState {
    /// The tabs, oldest first.
    pub(crate) tabs: Vec<Tab>,
    /// The id of the tab that calls act on.
    pub(crate) current: String,
    /// The frames and workers in other processes: the tab of each session.
    sessions: HashMap<String, AttachedTarget>,
    /// The sessions of frames, by frame id.
    pub(crate) frame_sessions: HashMap<String, String>,
    /// True if JavaScript of a model ran in a page that may still be shown, or that may control one that is.
    pub(crate) has_model_script: bool,
    /// True if JavaScript of a model ever ran in this browser.
    pub(crate) has_run_model_script: bool,
    /// Finished and running downloads.
    pub(crate) downloads: Vec<PageDownload>,
}

struct AttachedTarget {
    tab: String,
    target: String,
}

/// A download.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PageDownload {
    /// The id, which is the name of the file in the folder for downloads.
    pub(crate) id: String,
    pub(crate) url: String,
    /// The name that the page suggests.
    pub(crate) name: String,
    pub(crate) bytes: u64,
    pub(crate) state: DownloadState,
    /// True once a result has named it.
    pub(crate) is_reported: bool,
}

/// The state of a download.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DownloadState {
    Running,
    Completed,
    Failed,
}

impl BrowserState {
    /// Records that JavaScript of a model is about to run.
    pub(crate) fn record_model_script(&mut self) {
        self.has_model_script = true;
        self.has_run_model_script = true;
    }

    /// Records that the current tab has left its page for another one. Without other tabs, which could act on the new
    /// page or come from the old one, code of a model is no longer active.
    pub(crate) fn forget_model_script(&mut self, left_url: &str) {
        // The first, empty page of a tab may share its script objects with the next one.
        if self.tabs.len() == 1 && !left_url.starts_with("about:") {
            self.has_model_script = false;
        }
    }

    /// Returns the current tab.
    pub(crate) fn current(&self) -> Option<&Tab> {
        self.tabs.iter().find(|tab| tab.target == self.current)
    }

    pub(crate) fn current_mut(&mut self) -> Option<&mut Tab> {
        self.tabs.iter_mut().find(|tab| tab.target == self.current)
    }

    /// Returns the tab that a session belongs to: its own, or that of the frame or worker.
    fn tab_of_session(&mut self, session: &str) -> Option<&mut Tab> {
        let target = self.sessions.get(session).map(|one| one.tab.as_str());
        let mut tabs = self.tabs.iter_mut();
        tabs.find(|tab| tab.session == session || Some(tab.target.as_str()) == target)
    }
}

impl Browser {
    /// Connects to a browser that was just started, and enables the interception of its requests.
    pub(crate) async fn connect(
        program: Box<dyn ProgramHandle>,
        (cdp, mut events): (CdpClient, tokio::sync::mpsc::Receiver<CdpEvent>),
        gate: Arc<RequestGate>,
        proxy_login: (String, String),
        downloads: Option<&str>,
    ) -> Result<Arc<Self>, CdpError> {
        let browser = Arc::new(Self {
            cdp,
            gate,
            state: Mutex::default(),
            changes: watch::Sender::new(0),
            proxy_login,
            program: Mutex::new(Some(program)),
        });
        let handler = Arc::downgrade(&browser);
        tokio::spawn(async move {
            while let Some(event) = events.recv().await {
                let Some(browser) = handler.upgrade() else {
                    break;
                };
                browser.handle_event(&event);
                browser.changes.send_modify(|count| *count += 1);
            }
            if let Some(browser) = handler.upgrade() {
                browser.changes.send_modify(|count| *count += 1);
            }
        });
        // Starting takes longer than any other command.
        browser
            .cdp
            .send_within(Duration::from_secs(60), "", "Browser.getVersion", json!({}))
            .await?;
        let behavior = match downloads {
            Some(folder) => {
                json!({"behavior": "allowAndName", "downloadPath": folder, "eventsEnabled": true})
            }
            None => json!({"behavior": "deny", "eventsEnabled": true}),
        };
        browser
            .cdp
            .send("", "Browser.setDownloadBehavior", behavior)
            .await?;
        browser
            .cdp
            .send("", "Target.setAutoAttach", auto_attach())
            .await?;
        browser.open_tab().await?;
        Ok(browser)
    }

    /// Returns the state. Do not hold the lock across an await.
    pub(crate) fn state(&self) -> MutexGuard<'_, BrowserState> {
        self.state.lock()
    }

    /// Returns true until the program has ended.
    pub(crate) fn is_alive(&self) -> bool {
        self.cdp.is_open()
    }

    /// Opens a tab with an empty page, and makes it the current one.
    pub(crate) async fn open_tab(&self) -> Result<(), CdpError> {
        let created = self
            .cdp
            .send("", "Target.createTarget", json!({"url": "about:blank"}))
            .await?;
        let target = created["targetId"].as_str().unwrap_or_default().to_owned();
        let is_ready = |state: &BrowserState| {
            let tab = state.tabs.iter().find(|tab| tab.target == target);
            tab.is_some_and(|tab| tab.is_ready)
        };
        if !self.wait_until(SETUP_TIMEOUT, is_ready).await {
            return Err(CdpError::Timeout("Target.createTarget"));
        }
        self.state().current = target;
        Ok(())
    }

    /// Waits until the state fulfils the condition. Returns false after the time limit, or if the browser ends.
    pub(crate) async fn wait_until(
        &self,
        limit: Duration,
        condition: impl Fn(&BrowserState) -> bool,
    ) -> bool {
        let mut changes = self.changes.subscribe();
        let waiting = async {
            loop {
                if condition(&self.state()) {
                    return true;
                }
                if !self.is_alive() || changes.changed().await.is_err() {
                    return false;
                }
            }
        };
        tokio::time::timeout(limit, waiting).await.unwrap_or(false)
    }

    /// Ends the browser: asks it to close, and kills it if it does not.
    pub(crate) async fn close(&self) {
        let _ = self
            .cdp
            .send_within(Duration::from_secs(2), "", "Browser.close", json!({}))
            .await;
        let program = self.program.lock().take();
        if let Some(mut program) = program {
            let ended = tokio::time::timeout(Duration::from_secs(3), program.wait()).await;
            if ended.is_err() {
                program.kill().await;
            }
        }
    }

    /// Sets up a new target: interception first, then the page may run.
    fn set_up(self: &Arc<Self>, session: String, target: String, kind: String) {
        let browser = Arc::clone(self);
        tokio::spawn(async move {
            let result = browser.set_up_target(&session, &kind).await;
            if let Err(error) = result {
                // A page that is not intercepted stays paused. A frame may have gone in the meantime.
                tracing::debug!(%error, kind, "cannot set up a target of the browser");
                if kind == "page" {
                    browser
                        .cdp
                        .post("", "Target.closeTarget", json!({"targetId": target}));
                }
                return;
            }
            let mut state = browser.state();
            if let Some(tab) = state.tabs.iter_mut().find(|tab| tab.session == session) {
                tab.is_ready = true;
            }
            drop(state);
            browser.changes.send_modify(|count| *count += 1);
        });
    }

    async fn set_up_target(&self, session: &str, kind: &str) -> Result<(), CdpError> {
        let interception = json!({
            "patterns": [{"urlPattern": "*", "requestStage": "Request"}],
            "handleAuthRequests": true
        });
        let is_document = matches!(kind, "page" | "iframe");
        // Answered even while the page is paused. Nothing runs before it.
        let intercepted = self.cdp.begin(session, "Fetch.enable", interception);
        match intercepted.finish(SETUP_TIMEOUT).await {
            // Requests of workers are those of their frame; the proxy limits those that are not.
            Err(CdpError::Refused { .. }) if !is_document => {}
            result => {
                result?;
            }
        }
        let mut commands = Vec::new();
        if is_document {
            for method in [
                "Page.enable",
                "Runtime.enable",
                "Network.enable",
                "DOM.enable",
                "Log.enable",
            ] {
                commands.push((method, json!({})));
            }
            // A service worker would answer in place of the network, unseen.
            commands.push(("Network.setBypassServiceWorker", json!({"bypass": true})));
        }
        if kind == "worker" {
            commands.push(("Runtime.evaluate", json!({"expression": WITHOUT_WORKERS})));
        }
        commands.push(("Target.setAutoAttach", auto_attach()));
        if kind == "page" {
            commands.push((
                "Page.setInterceptFileChooserDialog",
                json!({"enabled": true}),
            ));
            commands.push((
                "Emulation.setFocusEmulationEnabled",
                json!({"enabled": true}),
            ));
        }
        commands.push(("Runtime.runIfWaitingForDebugger", json!({})));
        // All at once and in order: a paused popup answers some of them only after the last one.
        let begun: Vec<_> = commands
            .into_iter()
            .map(|(method, params)| (method, self.cdp.begin(session, method, params)))
            .collect();
        for (method, command) in begun {
            match command.finish(SETUP_TIMEOUT).await {
                // Not every kind of worker has frames or workers of its own.
                Err(CdpError::Refused { .. })
                    if (!is_document && method != "Runtime.evaluate")
                        || method == "Target.setAutoAttach" => {}
                result => {
                    result?;
                }
            }
        }
        Ok(())
    }
}

fn auto_attach() -> Value {
    json!({"autoAttach": true, "waitForDebuggerOnStart": true, "flatten": true})
}
