//! Navigation, and the wait for a page to settle after an action.

use std::future::Future;
use std::time::Duration;

use mimir_core::{ToolError, ToolErrorCode};
use serde_json::json;

use crate::browser::{Browser, BrowserState, DownloadState};
use crate::cdp::CdpError;
use crate::page::{Interrupted, Page, page_error};

/// Time limit for loading a page. Then the call returns what there is.
const LOAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Time to wait for requests that an action has started.
const REQUESTS_TIMEOUT: Duration = Duration::from_millis(1500);

/// Time in which a page begins to react to an action.
const REACTION: Duration = Duration::from_millis(80);

/// Time without requests after which a page counts as settled.
const QUIET: Duration = Duration::from_millis(120);

/// Time limit of a command that may wait for a person. The call has a limit of its own, which excludes that time.
const UNBOUNDED: Duration = Duration::from_secs(24 * 3600);

/// Error of a navigation that became a download, among others.
const ABORTED: &str = "net::ERR_ABORTED";

/// Time in which the error page of a failed navigation appears.
const ERROR_PAGE_TIMEOUT: Duration = Duration::from_secs(2);

/// Time in which a download begins.
const DOWNLOAD_START: Duration = Duration::from_secs(2);

/// Time to wait for a download. Then it goes on, and a later result names it.
const DOWNLOAD_TIMEOUT: Duration = Duration::from_secs(3);

/// Time in which a page must answer before it counts as blocked.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// Returns true while a person is asked about a request of the tab.
fn is_asked(state: &BrowserState) -> bool {
    state.current().is_some_and(|tab| tab.asked > 0)
}

fn is_settled(state: &BrowserState) -> bool {
    state.current().is_none_or(|tab| {
        tab.dialog.is_some() || tab.has_crashed || (!tab.is_loading && tab.in_flight.is_empty())
    })
}

fn is_loaded(state: &BrowserState) -> bool {
    state.current().is_none_or(|tab| {
        tab.dialog.is_some() || tab.has_crashed || (tab.is_interactive && !tab.is_loading)
    })
}

impl Browser {
    /// Opens a page in the current tab, or in a new one if there is none or if its page does not respond.
    pub(crate) async fn navigate(&self, url: &str) -> Result<(), ToolError> {
        self.ensure_tab().await?;
        let page = Page { browser: self };
        let session = page.session();
        let (before, left_url) = page.with_tab(|tab| {
            tab.refused_document = None;
            tab.dismisses_dialogs = true;
            (tab.page_number, tab.url.clone())
        });
        let downloads = self.state().downloads.len();
        let params = json!({"url": url});
        let navigated = self
            .cdp
            .send_within(UNBOUNDED, &session, "Page.navigate", params)
            .await;
        page.with_tab(|tab| tab.dismisses_dialogs = false);
        let navigated = navigated.map_err(page_error)?;
        let error = navigated["errorText"].as_str();
        let error = error.filter(|text| !text.is_empty());
        let is_other =
            |state: &BrowserState| state.current().is_none_or(|tab| tab.page_number > before);
        if error.is_some_and(|error| error != ABORTED) {
            // The error page takes the place of the page, which the next call would otherwise be judged for.
            self.wait_until(ERROR_PAGE_TIMEOUT, is_other).await;
        }
        if let Some(refusal) = page.with_tab(|tab| tab.refused_document.take()) {
            return Err(refusal);
        }
        if let Some(error) = error {
            let is_download = |state: &BrowserState| state.downloads.len() > downloads;
            if error == ABORTED && self.wait_until(DOWNLOAD_START, is_download).await {
                self.wait_for_downloads().await;
                return Ok(());
            }
            let url = mimir_core::text::visible(mimir_core::text::prefix(url, 300));
            let error = mimir_core::text::visible(error);
            return Err(ToolError::new(
                ToolErrorCode::Network,
                format!("{error} at {url}"),
            ));
        }
        // A change of the fragment loads nothing.
        if navigated["loaderId"].is_string() {
            self.wait_until(LOAD_TIMEOUT, is_other).await;
            self.wait_until(LOAD_TIMEOUT, is_loaded).await;
            let mut state = self.state();
            // Another page may have come in between.
            if state
                .current()
                .is_some_and(|tab| navigated["loaderId"] == tab.loader.as_str())
            {
                state.forget_model_script(&left_url);
            }
        }
        self.wait_until(REQUESTS_TIMEOUT, is_settled).await;
        tokio::time::sleep(QUIET).await;
        Ok(())
    }

    /// Waits a little for running downloads.
    async fn wait_for_downloads(&self) {
        let are_done = |state: &BrowserState| {
            let mut downloads = state.downloads.iter();
            downloads.all(|download| download.state != DownloadState::Running)
        };
        self.wait_until(DOWNLOAD_TIMEOUT, are_done).await;
    }

    /// Makes sure that the current tab can navigate: dismisses an open dialog, and replaces a tab that hangs.
    async fn ensure_tab(&self) -> Result<(), ToolError> {
        let tab = self.state().current().map(|tab| {
            (
                tab.session.clone(),
                tab.target.clone(),
                tab.dialog.clone(),
                tab.has_crashed,
            )
        });
        let Some((session, target, dialog, has_crashed)) = tab else {
            return self.open_tab().await.map_err(page_error);
        };
        if let Some(dialog) = dialog {
            let page = Page { browser: self };
            page.with_tab(|tab| tab.dismisses_dialogs = true);
            self.cdp.post(
                &dialog.session,
                "Page.handleJavaScriptDialog",
                json!({"accept": false}),
            );
        }
        let probe = json!({"expression": "1"});
        let answer = if has_crashed {
            Err(CdpError::Timeout("Runtime.evaluate"))
        } else {
            self.cdp
                .send_within(PROBE_TIMEOUT, &session, "Runtime.evaluate", probe)
                .await
        };
        if let Err(CdpError::Timeout(_)) = answer {
            self.open_tab().await.map_err(page_error)?;
            self.cdp
                .post("", "Target.closeTarget", json!({"targetId": target}));
        }
        Ok(())
    }

    /// Runs an action on the page and waits until the page has settled: a navigation or requests that it started are
    /// complete, within limits.
    pub(crate) async fn act<T>(
        &self,
        action: impl Future<Output = Result<T, Interrupted>>,
    ) -> Result<Option<T>, ToolError> {
        let page = Page { browser: self };
        let before = page.with_tab(|tab| {
            tab.refused_document = None;
            (tab.page_number, tab.started_requests)
        });
        let value = match action.await {
            Ok(value) => Some(value),
            Err(Interrupted::Dialog) => return Ok(None),
            Err(Interrupted::Failed(error)) => return Err(error),
        };
        let reacts = |state: &BrowserState| {
            state.current().is_none_or(|tab| {
                (tab.page_number, tab.started_requests) != before || tab.is_loading || tab.asked > 0
            })
        };
        if self.wait_until(REACTION, reacts).await {
            self.wait_until(UNBOUNDED, |state| !is_asked(state)).await;
            if page.with_tab(|tab| tab.is_loading || tab.page_number != before.0) {
                self.wait_until(LOAD_TIMEOUT, is_loaded).await;
            }
            self.wait_until(REQUESTS_TIMEOUT, is_settled).await;
            self.wait_until(UNBOUNDED, |state| !is_asked(state)).await;
            tokio::time::sleep(QUIET).await;
        }
        self.wait_for_downloads().await;
        match page.with_tab(|tab| tab.refused_document.take()) {
            Some(refusal) => Err(refusal),
            None => Ok(value),
        }
    }
}
