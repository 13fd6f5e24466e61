//! One browser per session: started by the first call, and stopped when it is not used.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mimir_core::backend::BoxFuture;
use mimir_core::launch::{LaunchSpec, LaunchedProgram};
use mimir_core::network::{HostPattern, RequestTarget};
use mimir_core::paths::PathRules;
use mimir_core::pipeline::EffectGate;
use mimir_core::text::{prefix, visible};
use mimir_core::{Approved, Content, ToolError};
use mimir_net::Proxy;
use parking_lot::Mutex;
use serde_json::json;
use sha2::{Digest, Sha256};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::time::Instant;

use crate::actions;
use crate::backend::WRITE_FILE;
use crate::browser::Browser;
use crate::cdp::CdpClient;
use crate::chromium::{BrowserLaunch, find_program, prepare_profile};
use crate::folders::{ExchangeFolder, lock_profile};
use crate::page::page_error;
use crate::page_view::PageView;
use crate::request_gate::RequestGate;
use crate::tools::PageAction;

/// Maximum number of browsers that run at a time in one process.
const BROWSERS_MAX: usize = 4;

/// Maximum size of an uploaded or returned file in bytes.
const FILE_MAX: u64 = 20 << 20;

/// Bytes of the browser's standard error that are kept for an error message.
const STDERR_MAX: usize = 4096;

/// Settings of browsers.
#[derive(Debug, Clone, PartialEq)]
pub struct BrowserOptions {
    /// The program; without one, an installed browser is used.
    pub program: Option<PathBuf>,
    /// The folder of a profile that outlives the browser.
    pub profile: Option<PathBuf>,
    /// Time without calls after which a browser is stopped.
    pub idle: Duration,
    /// Width and height of the window in pixels.
    pub window: (u32, u32),
    /// Maximum memory in MiB.
    pub max_memory_mb: Option<u64>,
    /// The secrets that may be entered into pages, each with the hosts for which that is allowed.
    pub secrets: Vec<(String, Vec<HostPattern>)>,
    /// The folder in which browsers exchange files with this process.
    pub exchange: PathBuf,
    /// The workspace, to which paths of certificates are relative.
    pub workspace: PathBuf,
}

/// The port to the sandbox and the files of the workspace.
pub trait BrowserPort: Send + Sync {
    /// Starts a browser in the sandbox, with the proxy as its only network.
    fn launch(
        &self,
        launch: LaunchSpec,
        proxy: Proxy,
    ) -> BoxFuture<'_, Result<LaunchedProgram, ToolError>>;

    /// Reads a file of the workspace, as far as the rules allow it. Fails for files larger than `max` bytes.
    fn read_file(&self, path: &str, rules: &PathRules, max: u64) -> Result<Vec<u8>, ToolError>;
}

/// The browsers of a process, by session.
pub struct BrowserSessions {
    port: Arc<dyn BrowserPort>,
    options: Mutex<Arc<BrowserOptions>>,
    slots: Mutex<HashMap<String, Arc<SessionSlot>>>,
    /// The pages for which calls were assessed, by session.
    assessed: Mutex<HashMap<String, AssessedPages>>,
}

/// The digest of a call: of its id and its arguments.
pub(crate) type CallDigest = [u8; 32];

/// The pages for which calls of a session were assessed that have not run, oldest first.
#[derive(Default)]
struct AssessedPages {
    pages: VecDeque<(CallDigest, PageView)>,
    /// True if pages were removed, so that a call without one may have been assessed.
    is_incomplete: bool,
}

/// The page for which a call was assessed.
enum PageAtAssessment {
    /// This page.
    Known(PageView),
    /// A rule of a person decided, without an assessment.
    NotAssessed,
    /// Not known any more, if the call was assessed.
    Forgotten,
}

/// Maximum number of assessed calls of a session that have not run.
const ASSESSED_MAX: usize = 1000;

impl AssessedPages {
    fn add(&mut self, call: CallDigest, page: PageView) {
        self.pages.retain(|(known, _)| *known != call);
        if self.pages.len() >= ASSESSED_MAX {
            self.pages.pop_front();
            self.is_incomplete = true;
        }
        self.pages.push_back((call, page));
    }

    fn take(&mut self, call: &CallDigest) -> Option<PageView> {
        let at = self.pages.iter().position(|(known, _)| known == call)?;
        self.pages.remove(at).map(|(_, page)| page)
    }
}

/// The browser of one session. The lock is held during a call, so that calls run one after the other.
#[derive(Default)]
struct SessionSlot {
    running: tokio::sync::Mutex<Option<RunningBrowser>>,
    last_use: Mutex<Option<Instant>>,
}

impl SessionSlot {
    /// Closes the browser, after the calls that use it.
    async fn close(&self) {
        let mut running = self.running.lock().await;
        if let Some(running) = running.take() {
            running.browser.close().await;
        }
    }
}

struct RunningBrowser {
    browser: Arc<Browser>,
    exchange: ExchangeFolder,
    /// The lock of its profile, for as long as the browser runs.
    _profile: Option<File>,
}

/// The call that an action belongs to.
pub(crate) struct ActionContext<'a> {
    call: &'a Approved,
    effects: EffectGate,
    gate: &'a RequestGate,
    sessions: &'a BrowserSessions,
    options: &'a BrowserOptions,
    exchange: &'a Path,
}

impl ActionContext<'_> {
    /// Returns the value of a secret for a field of this page, and records its use.
    pub(crate) fn secret(&self, name: &str, page: &RequestTarget) -> Result<String, ToolError> {
        let known = self.options.secrets.iter().find(|(known, _)| known == name);
        let Some((name, hosts)) = known else {
            let names: Vec<String> = self
                .options
                .secrets
                .iter()
                .map(|(name, _)| format!("`{name}`"))
                .collect();
            let listed = if names.is_empty() {
                "none".to_owned()
            } else {
                names.join(", ")
            };
            let shown = mimir_core::text::visible(name);
            return Err(ToolError::policy_denied(format!(
                "the secret `{shown}` may not be entered into pages; these may: {listed}"
            ))
            .with_remedies([format!(
                "`browser.secrets.{shown}: [{}]` in your settings, and `mimir secrets set {shown}`",
                page.origin()
            )]));
        };
        let value = self.effects.secret_for_page(name, hosts, page)?;
        self.gate.add_entered_secret(&value, hosts);
        Ok(value)
    }

    /// Returns a text with secrets masked, as the result of the call shows it.
    pub(crate) fn masked(&self, mut text: String) -> String {
        self.gate.hide_entered_secrets(&mut text);
        self.effects.output_redactor().mask_text(&mut text);
        text
    }

    /// Copies files of the workspace to where the browser can read them, and returns their paths there.
    pub(crate) async fn stage_uploads(&self, paths: &[String]) -> Result<Vec<String>, ToolError> {
        let mut staged = Vec::new();
        for (number, path) in paths.iter().enumerate() {
            let bytes = self
                .sessions
                .port
                .read_file(path, self.call.paths(), FILE_MAX)?;
            let name = path.rsplit(['/', '\\']).next().unwrap_or("file");
            let number = number.to_string();
            let parts = ["uploads", number.as_str(), name];
            // The browser can write there, too.
            mimir_core::files::write_below(self.exchange, &parts, &bytes)
                .map_err(|error| ToolError::internal(format!("cannot stage an upload: {error}")))?;
            let at = parts
                .iter()
                .fold(self.exchange.to_owned(), |at, part| at.join(part));
            staged.push(at.display().to_string());
        }
        Ok(staged)
    }

    /// Saves a file in the workspace by a call of `write_file`, with its rules and questions. Returns what happened, for
    /// the result: content that cannot be saved is returned all the same.
    pub(crate) async fn save_file(&self, path: &str, bytes: &[u8]) -> String {
        let arguments = json!({
            "path": path,
            "content": STANDARD.encode(bytes),
            "encoding": "base64",
            "createDirs": true,
        });
        let shown = visible(prefix(path, 200));
        let outcome = self.call.nested().call(WRITE_FILE, arguments).await;
        let error = match &outcome {
            Ok(outcome) => outcome.result().err(),
            Err(error) => Some(error),
        };
        match error {
            None => format!("saved in `{shown}`"),
            Some(error) => {
                let mut text =
                    format!("not saved in `{shown}`: {} ({})", error.message, error.code);
                if !error.remedies.is_empty() {
                    // For the user only: a model could talk the user into it.
                    let why = visible(&error.message);
                    let remedies = visible(&error.remedies.join("; "));
                    tracing::warn!("a file was not saved in `{shown}`: {why}; {remedies}");
                    text.push_str("; the mimir log tells the user what can be done");
                }
                text
            }
        }
    }

    /// Reads a finished download.
    pub(crate) async fn read_download(&self, id: &str) -> Result<Vec<u8>, ToolError> {
        let is_id = !id.is_empty()
            && id
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        // The browser could have put anything into its folder.
        let read = || mimir_core::files::read_below(self.exchange, &["downloads", id], FILE_MAX);
        let bytes = is_id
            .then(read)
            .unwrap_or_else(|| Err(std::io::ErrorKind::NotFound.into()));
        bytes.map_err(|error| {
            ToolError::execution(format!(
                "the download cannot be read (at most {}): {error}",
                mimir_core::text::bytes(FILE_MAX)
            ))
        })
    }
}

impl BrowserSessions {
    /// Creates the sessions. Starts nothing.
    pub fn new(port: Arc<dyn BrowserPort>, options: BrowserOptions) -> Arc<Self> {
        Arc::new(Self {
            port,
            options: Mutex::new(Arc::new(options)),
            slots: Mutex::default(),
            assessed: Mutex::default(),
        })
    }

    /// Replaces the settings. They apply to browsers that are started later, and those about secrets to all.
    pub fn set_options(&self, options: BrowserOptions) {
        *self.options.lock() = Arc::new(options);
    }

    /// Returns true if a browser is installed, or its path is set.
    pub fn is_installed(&self) -> bool {
        self.options.lock().program.is_some() || find_program().is_some()
    }

    /// Returns the page that a session shows.
    pub(crate) fn current_page(&self, session: &str) -> PageView {
        let Some(slot) = self.slots.lock().get(session).map(Arc::clone) else {
            return PageView::Closed;
        };
        let Ok(running) = slot.running.try_lock() else {
            return PageView::Unknown;
        };
        match &*running {
            Some(running) if running.browser.is_alive() => {
                PageView::from_browser(&running.browser, &self.options.lock())
            }
            _ => PageView::Closed,
        }
    }

    /// Returns true if a secret may be entered into pages of any host.
    pub(crate) fn has_secrets(&self) -> bool {
        !self.options.lock().secrets.is_empty()
    }

    /// Returns the page that a call is about to act on, and remembers it: the call does not run on another one.
    pub(crate) fn assess_page(&self, session: &str, call: CallDigest) -> PageView {
        let page = self.current_page(session);
        let mut assessed = self.assessed.lock();
        let assessed = assessed.entry(session.to_owned()).or_default();
        assessed.add(call, page.clone());
        page
    }

    /// Fails if the page is not the one for which the call was assessed.
    fn check_page(&self, browser: &Browser, call: &Approved) -> Result<(), ToolError> {
        let take = || {
            let mut assessed = self.assessed.lock();
            let Some(pages) = assessed.get_mut(&call.context().session_id) else {
                return PageAtAssessment::NotAssessed;
            };
            match pages.take(&call_digest(call.context(), call.arguments())) {
                Some(page) => PageAtAssessment::Known(page),
                None if pages.is_incomplete => PageAtAssessment::Forgotten,
                None => PageAtAssessment::NotAssessed,
            }
        };
        // For all attempts of the call.
        let assessed = call.attempt_state::<OnceLock<PageAtAssessment>>();
        match assessed.get_or_init(take) {
            PageAtAssessment::NotAssessed => Ok(()),
            PageAtAssessment::Forgotten => Err(ToolError::execution(
                "it is not known any more for which page this call was judged, because too many calls were judged \
                 that have not run",
            )
            .with_remedies(["start a new session".to_owned()])),
            PageAtAssessment::Known(page)
                if *page == PageView::from_browser(browser, &self.options.lock()) =>
            {
                Ok(())
            }
            PageAtAssessment::Known(_) => Err(ToolError::execution(
                "the browser shows another page than when this call was judged: call again",
            )),
        }
    }

    /// Returns role and name of an element as the last snapshot shows them, such as `button "Order"`. `None` if the
    /// target is not a ref, or if another call is running.
    pub(crate) fn element_label(&self, session: &str, target: &str) -> Option<String> {
        let slot = self.slots.lock().get(session).map(Arc::clone)?;
        let running = slot.running.try_lock().ok()?;
        let state = running.as_ref()?.browser.state();
        state.current()?.refs.label(target).map(str::to_owned)
    }

    /// Closes the browser of a session that has ended.
    pub(crate) fn end_session(&self, session: &str) {
        self.assessed.lock().remove(session);
        let Some(slot) = self.slots.lock().remove(session) else {
            return;
        };
        // Without a runtime, this process is about to end, and its browsers with it.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { slot.close().await });
        }
    }
}

/// Returns the digest of a call for [`BrowserSessions::assess_page`]: nested calls have the id of their caller.
pub(crate) fn call_digest(
    context: &mimir_core::CallContext,
    arguments: &serde_json::Value,
) -> CallDigest {
    Sha256::digest(format!("{} {arguments}", context.request_id)).into()
}

impl BrowserSessions {
    /// Carries out an action of a call.
    pub(crate) async fn run(
        self: &Arc<Self>,
        call: &Approved,
        action: PageAction,
    ) -> Result<Vec<Content>, ToolError> {
        let session = call.context().session_id.clone();
        let slot = Arc::clone(self.slots.lock().entry(session.clone()).or_default());
        let mut running = slot.running.lock().await;
        if action == PageAction::Close {
            if let Some(running) = running.take() {
                running.browser.close().await;
            }
            self.forget(&session, &slot);
            return Ok(vec![Content::text("### Result\nThe browser is closed.")]);
        }
        let options = Arc::clone(&self.options.lock());
        let effects = call.effects();
        if running
            .as_ref()
            .is_none_or(|running| !running.browser.is_alive())
        {
            if !matches!(action, PageAction::Navigate(_) | PageAction::Tabs(_)) {
                self.forget(&session, &slot);
                return Err(ToolError::not_found(
                    "no page is open: open one with browser_navigate, in the same session: a browser ends with its \
                     session",
                )
                .with_remedies([
                    "each `mimir call` is a session of its own; `mimir chat` and `mimir serve` keep the browser"
                        .to_owned(),
                ]));
            }
            *running = None;
            self.make_room(&session).await?;
            *running = Some(self.start(&options, &effects).await?);
            self.watch(session.clone(), &slot, options.idle);
        }
        let Some(running) = running.as_ref() else {
            return Err(ToolError::internal("the browser was not started"));
        };
        if action.depends_on_page() {
            self.check_page(&running.browser, call)?;
        }
        let _scope = running.browser.gate.begin_call(effects.clone());
        let context = ActionContext {
            call,
            effects,
            gate: &running.browser.gate,
            sessions: self,
            options: &options,
            exchange: running.exchange.path(),
        };
        *slot.last_use.lock() = Some(Instant::now());
        let result = actions::perform(&running.browser, action, &context).await;
        *slot.last_use.lock() = Some(Instant::now());
        result
    }

    /// Makes sure that not too many browsers run: closes the one of another session that has been idle longest. Fails if
    /// calls are using all of them.
    async fn make_room(&self, session: &str) -> Result<(), ToolError> {
        loop {
            let mut others: Vec<(String, Arc<SessionSlot>)> = self
                .slots
                .lock()
                .iter()
                .filter(|(id, _)| *id != session)
                .map(|(id, slot)| (id.clone(), Arc::clone(slot)))
                .collect();
            // A locked slot is in use.
            others.retain(|(_, slot)| {
                let running = slot.running.try_lock();
                running.map_or(true, |running| running.is_some())
            });
            if others.len() < BROWSERS_MAX {
                return Ok(());
            }
            others.retain(|(_, slot)| slot.running.try_lock().is_ok());
            let idle = others.iter().min_by_key(|(_, slot)| *slot.last_use.lock());
            let Some((id, slot)) = idle else {
                return Err(ToolError::limit_exceeded(format!(
                    "{BROWSERS_MAX} browsers are in use already: close one with browser_close, or try again later"
                )));
            };
            // A call may have begun in the meantime; then another one is chosen.
            if let Ok(mut running) = slot.running.try_lock() {
                self.forget(id, slot);
                if let Some(running) = running.take() {
                    running.browser.close().await;
                }
            }
        }
    }

    /// Removes the slot of a session, unless the session has another one by now.
    fn forget(&self, session: &str, slot: &Arc<SessionSlot>) {
        let mut slots = self.slots.lock();
        if slots
            .get(session)
            .is_some_and(|known| Arc::ptr_eq(known, slot))
        {
            slots.remove(session);
        }
    }

    async fn start(
        &self,
        options: &BrowserOptions,
        effects: &EffectGate,
    ) -> Result<RunningBrowser, ToolError> {
        let program = options
            .program
            .clone()
            .or_else(find_program)
            .ok_or_else(|| {
                ToolError::unavailable(
                    "no browser is installed: Chromium, Chrome, Edge or Brave is needed",
                )
                .with_remedies([
                    "install Chromium, or set `browser.program` to the path of the browser"
                        .to_owned(),
                ])
            })?;
        let lock = match &options.profile {
            Some(profile) => Some(take_profile(profile).await?),
            None => None,
        };
        let exchange = ExchangeFolder::create_in(&options.exchange).map_err(folder_error)?;
        let gate = RequestGate::new();
        let proxy = gate.proxy(&options.workspace, effects);
        let login = proxy_login(&proxy);
        let launch = BrowserLaunch {
            program: &program,
            exchange: exchange.path(),
            profile: options.profile.as_deref(),
            window: options.window,
            max_memory_mb: options.max_memory_mb,
        };
        let launched = self.port.launch(launch.spec(), proxy).await?;
        let stderr = Arc::new(Mutex::new(Vec::new()));
        tokio::spawn(keep_stderr(launched.stderr, Arc::clone(&stderr)));
        let connection = CdpClient::connect(launched.stdin, launched.stdout);
        let downloads = exchange.path().join("downloads").display().to_string();
        let browser =
            Browser::connect(launched.handle, connection, gate, login, Some(&downloads)).await;
        let browser = browser.map_err(|error| {
            let error = page_error(error);
            let stderr = String::from_utf8_lossy(&stderr.lock()).into_owned();
            let last = stderr
                .lines()
                .rev()
                .find(|line| !line.trim().is_empty())
                .unwrap_or_default();
            ToolError::unavailable(format!(
                "the browser {} did not start: {} {}",
                program.display(),
                error.message,
                mimir_core::text::visible(last)
            ))
        })?;
        Ok(RunningBrowser {
            browser,
            exchange,
            _profile: lock,
        })
    }

    /// Stops the browser of a session after it was not used for a while.
    fn watch(self: &Arc<Self>, session: String, slot: &Arc<SessionSlot>, idle: Duration) {
        let (sessions, slot) = (Arc::downgrade(self), Arc::downgrade(slot));
        tokio::spawn(async move {
            loop {
                let due = {
                    let Some(slot) = slot.upgrade() else { return };
                    let last = *slot.last_use.lock();
                    last.unwrap_or_else(Instant::now) + idle
                };
                tokio::time::sleep_until(due).await;
                let (Some(sessions), Some(slot)) = (sessions.upgrade(), slot.upgrade()) else {
                    return;
                };
                let mut running = slot.running.lock().await;
                let is_idle = slot
                    .last_use
                    .lock()
                    .is_none_or(|last| last + idle <= Instant::now());
                if is_idle {
                    if let Some(running) = running.take() {
                        running.browser.close().await;
                    }
                    sessions.forget(&session, &slot);
                    return;
                }
            }
        });
    }
}

/// Time to wait for the profile of a browser that is being closed.
const PROFILE_TIMEOUT: Duration = Duration::from_secs(6);

/// Locks a profile and prepares its folder. Fails if another browser uses it.
async fn take_profile(profile: &Path) -> Result<File, ToolError> {
    let deadline = Instant::now() + PROFILE_TIMEOUT;
    loop {
        if let Some(lock) = lock_profile(profile).map_err(folder_error)? {
            prepare_profile(profile).map_err(folder_error)?;
            return Ok(lock);
        }
        if Instant::now() >= deadline {
            let name = profile
                .file_name()
                .unwrap_or_default()
                .display()
                .to_string();
            return Err(ToolError::unavailable(format!(
                "another browser uses the profile `{}`, and a profile serves one browser at a time",
                mimir_core::text::visible(&name)
            ))
            .with_remedies([
                "close the other browser with browser_close in its session, or end that session".to_owned(),
                "remove `browser.profile` from your settings: then each session has a browser of its own"
                    .to_owned(),
            ]));
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn folder_error(error: std::io::Error) -> ToolError {
    ToolError::unavailable(format!("cannot create a folder for the browser: {error}"))
}

/// Returns user and password of a proxy.
fn proxy_login(proxy: &Proxy) -> (String, String) {
    let url = proxy.url(1);
    let userinfo = url
        .strip_prefix("http://")
        .and_then(|rest| rest.split_once('@'))
        .map_or("", |(userinfo, _)| userinfo);
    let (user, password) = userinfo.split_once(':').unwrap_or((userinfo, ""));
    (user.to_owned(), password.to_owned())
}

/// Reads the standard error of the browser to its end, and keeps the last bytes.
async fn keep_stderr(mut from: impl AsyncRead + Unpin, kept: Arc<Mutex<Vec<u8>>>) {
    let mut chunk = [0; 1024];
    while let Ok(count) = from.read(&mut chunk).await {
        if count == 0 {
            break;
        }
        let mut kept = kept.lock();
        kept.extend_from_slice(chunk.get(..count).unwrap_or_default());
        let excess = kept.len().saturating_sub(STDERR_MAX);
        kept.drain(..excess);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forgotten_assessments_are_not_taken_for_missing_ones() {
        let call = |number: usize| -> CallDigest { Sha256::digest(number.to_string()).into() };
        let mut assessed = AssessedPages::default();
        for number in 0..ASSESSED_MAX {
            assessed.add(call(number), PageView::Closed);
        }
        // The same call again replaces its page.
        assessed.add(call(0), PageView::Failed);
        assert!(!assessed.is_incomplete);
        assessed.add(call(ASSESSED_MAX), PageView::Closed);
        assert!(assessed.is_incomplete);
        assert_eq!(assessed.take(&call(1)), None);
        assert_eq!(assessed.take(&call(0)), Some(PageView::Failed));
        assert_eq!(assessed.take(&call(0)), None);
    }
}
