//! Handling of events: the state of tabs follows them. Nothing here waits, since all events wait for it.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{AttachedTarget, Browser, DownloadState, PageDownload, TABS_MAX, TARGETS_MAX};
use crate::cdp::CdpEvent;
use crate::request_gate::RequestGate;
use crate::tab::{ConsoleLevel, FileChooser, PageDialog, Tab};

/// Maximum number of dialogs that a page may open. Further ones are dismissed at once.
const DIALOGS_MAX: u32 = 20;

/// Maximum number of downloads of a browser, their maximum size, and the maximum of all together, in bytes.
const DOWNLOADS_MAX: usize = 20;
const DOWNLOAD_BYTES_MAX: u64 = 100 << 20;
const ALL_DOWNLOADS_BYTES_MAX: u64 = 300 << 20;

impl Browser {
    pub(super) fn handle_event(self: &Arc<Self>, event: &CdpEvent) {
        let params = &event.params;
        match &*event.method {
            "Target.attachedToTarget" => self.attached(event),
            "Target.detachedFromTarget" => self.detached(text(&params["sessionId"])),
            "Target.targetInfoChanged" => {
                let info = &params["targetInfo"];
                let mut state = self.state();
                let mut tabs = state.tabs.iter_mut();
                if let Some(tab) = tabs.find(|tab| tab.target == text(&info["targetId"])) {
                    tab.title = self.gate.shorten(text(&info["title"]));
                }
            }
            "Target.targetCrashed" | "Inspector.targetCrashed" => {
                let mut state = self.state();
                let target = text(&params["targetId"]).to_owned();
                let mut tabs = state.tabs.iter_mut();
                let crashed = tabs.find(|tab| tab.target == target || tab.session == event.session);
                if let Some(tab) = crashed {
                    tab.has_crashed = true;
                    tab.is_loading = false;
                    tab.in_flight.clear();
                }
            }
            "Browser.downloadWillBegin" => self.download_begins(params),
            "Browser.downloadProgress" => self.download_progresses(params),
            "Fetch.requestPaused" => self.request_paused(event),
            "Fetch.authRequired" => self.login_required(event),
            method => {
                let mut state = self.state();
                if let Some(tab) = state.tab_of_session(&event.session) {
                    let session = &event.session;
                    let is_main = tab.session == *session;
                    match method {
                        "Page.frameNavigated" => frame_navigated(tab, is_main, params),
                        "Page.navigatedWithinDocument" if is_main => {
                            if text(&params["frameId"]) == tab.main_frame {
                                tab.url = text(&params["url"]).to_owned();
                            }
                        }
                        "Page.frameStartedLoading" if is_main => {
                            tab.is_loading |= text(&params["frameId"]) == tab.main_frame;
                        }
                        "Page.frameStoppedLoading" if is_main => {
                            tab.is_loading &= text(&params["frameId"]) != tab.main_frame;
                        }
                        "Page.domContentEventFired" if is_main => tab.is_interactive = true,
                        "Page.javascriptDialogOpening" => {
                            if !dialog_opens(tab, session, params, &self.gate) {
                                let answer = json!({"accept": params["type"] == "beforeunload"});
                                self.cdp
                                    .post(session, "Page.handleJavaScriptDialog", answer);
                            }
                        }
                        "Page.javascriptDialogClosed" => tab.dialog = None,
                        "Page.fileChooserOpened" => {
                            tab.file_chooser =
                                params["backendNodeId"].as_i64().map(|node| FileChooser {
                                    session: session.clone(),
                                    node,
                                    multiple: params["mode"] == "selectMultiple",
                                });
                        }
                        "Runtime.executionContextsCleared" => {
                            tab.worlds.retain(|(of, _), _| of != session);
                        }
                        "Runtime.consoleAPICalled" => console_called(tab, params, &self.gate),
                        "Runtime.exceptionThrown" => {
                            let details = &params["exceptionDetails"];
                            let description = text(&details["exception"]["description"]);
                            let message = if description.is_empty() {
                                text(&details["text"])
                            } else {
                                description
                            };
                            tab.add_console(ConsoleLevel::Error, message, &self.gate);
                        }
                        "Log.entryAdded" => {
                            let entry = &params["entry"];
                            let level = ConsoleLevel::parse(text(&entry["level"]));
                            let url = text(&entry["url"]);
                            let message = if url.is_empty() {
                                text(&entry["text"]).to_owned()
                            } else {
                                format!("{} @ {url}", text(&entry["text"]))
                            };
                            tab.add_console(level, &message, &self.gate);
                        }
                        _ => super::network_events::handle(tab, event, &self.gate),
                    }
                }
            }
        }
    }

    /// Registers a new page, frame or worker, which is paused until it is set up.
    fn attached(self: &Arc<Self>, event: &CdpEvent) {
        let (info, session) = (
            &event.params["targetInfo"],
            text(&event.params["sessionId"]),
        );
        let (target, kind) = (text(&info["targetId"]), text(&info["type"]));
        let mut state = self.state();
        if kind == "page" {
            if state.tabs.len() >= TABS_MAX {
                self.cdp
                    .post("", "Target.closeTarget", json!({"targetId": target}));
                return;
            }
            state
                .tabs
                .push(Tab::new(target.to_owned(), session.to_owned()));
        } else {
            let Some(tab) = state.tab_of_session(&event.session) else {
                // Service workers, which the session of their page sets up, and windows of the browser itself. Shared
                // workers, which would run without a page, are switched off.
                return;
            };
            let tab = tab.target.clone();
            if state.sessions.len() >= TARGETS_MAX {
                return;
            }
            if kind == "iframe" {
                state
                    .frame_sessions
                    .insert(target.to_owned(), session.to_owned());
            }
            let target = target.to_owned();
            state
                .sessions
                .insert(session.to_owned(), AttachedTarget { tab, target });
        }
        drop(state);
        self.set_up(session.to_owned(), target.to_owned(), kind.to_owned());
    }

    fn detached(&self, session: &str) {
        let mut state = self.state();
        if let Some(target) = state.sessions.remove(session) {
            state.frame_sessions.remove(&target.target);
        }
        let Some(closed) = state.tabs.iter().position(|tab| tab.session == session) else {
            return;
        };
        let closed = state.tabs.remove(closed);
        state.sessions.retain(|_, one| one.tab != closed.target);
        if state.current == closed.target {
            // The tab that was opened last, as after closing a popup.
            state.current = state
                .tabs
                .last()
                .map(|tab| tab.target.clone())
                .unwrap_or_default();
        }
    }

    fn download_begins(&self, params: &Value) {
        let mut state = self.state();
        if state.downloads.len() >= DOWNLOADS_MAX {
            drop(state);
            self.cancel_download(text(&params["guid"]));
            return;
        }
        state.downloads.push(PageDownload {
            id: text(&params["guid"]).to_owned(),
            url: self.gate.shorten(text(&params["url"])),
            name: file_name(&self.gate.shorten(text(&params["suggestedFilename"]))),
            bytes: 0,
            state: DownloadState::Running,
            is_reported: false,
        });
    }

    fn download_progresses(&self, params: &Value) {
        let mut state = self.state();
        let id = text(&params["guid"]);
        if let Some(download) = state.downloads.iter_mut().find(|one| one.id == id) {
            download.bytes = params["receivedBytes"].as_f64().unwrap_or_default() as u64;
            download.state = match text(&params["state"]) {
                "completed" => DownloadState::Completed,
                "canceled" => DownloadState::Failed,
                _ => DownloadState::Running,
            };
            let is_running = download.state == DownloadState::Running;
            let is_too_large = download.bytes > DOWNLOAD_BYTES_MAX;
            let all: u64 = state.downloads.iter().map(|one| one.bytes).sum();
            if is_running && (is_too_large || all > ALL_DOWNLOADS_BYTES_MAX) {
                drop(state);
                self.cancel_download(id);
            }
        }
    }

    fn cancel_download(&self, id: &str) {
        self.cdp
            .post("", "Browser.cancelDownload", json!({"guid": id}));
    }
}

/// Returns the name without anything that could make it a path.
pub(crate) fn file_name(suggested: &str) -> String {
    let safe: String = suggested
        .chars()
        .map(|c| {
            if c.is_control() || matches!(c, '/' | '\\' | ':') {
                '_'
            } else {
                c
            }
        })
        .take(200)
        .collect();
    let safe = safe.trim_matches(|c: char| c == '.' || c.is_whitespace());
    if safe.is_empty() {
        "download".to_owned()
    } else {
        safe.to_owned()
    }
}

fn frame_navigated(tab: &mut Tab, is_main: bool, params: &Value) {
    let frame = &params["frame"];
    if is_main && frame["parentId"].is_null() {
        tab.main_frame = text(&frame["id"]).to_owned();
        let fragment = text(&frame["urlFragment"]);
        tab.begin_page(format!("{}{fragment}", text(&frame["url"])));
        // A page from the cache of the history was loaded before.
        tab.was_restored = params["type"] == "BackForwardCacheRestore";
        tab.is_interactive = tab.was_restored;
        tab.loader = text(&frame["loaderId"]).to_owned();
        tab.is_error_page |= !text(&frame["unreachableUrl"]).is_empty();
    }
}

/// Records a dialog that a call has to handle. Returns false if it has to be answered at once instead.
fn dialog_opens(tab: &mut Tab, session: &str, params: &Value, gate: &RequestGate) -> bool {
    tab.dialog_count += 1;
    let kind = text(&params["type"]);
    if tab.dismisses_dialogs || kind == "beforeunload" || tab.dialog_count > DIALOGS_MAX {
        return false;
    }
    tab.dialog = Some(PageDialog {
        kind: kind.to_owned(),
        message: gate.shorten(text(&params["message"])),
        session: session.to_owned(),
    });
    true
}

fn console_called(tab: &mut Tab, params: &Value, gate: &RequestGate) {
    let parts = params["args"].as_array().into_iter().flatten();
    let parts = parts.map(|value| match &value["value"] {
        Value::Null => match text(&value["description"]) {
            "" => text(&value["type"]).to_owned(),
            description => description.to_owned(),
        },
        Value::String(text) => text.clone(),
        other => other.to_string(),
    });
    let message = parts.collect::<Vec<_>>().join(" ");
    tab.add_console(ConsoleLevel::parse(text(&params["type"])), &message, gate);
}

pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn download_names_are_no_paths() {
        for (suggested, expected) in [
            ("report.csv", "report.csv"),
            ("../../etc/passwd", "_.._etc_passwd"),
            ("C:\\x", "C__x"),
            (" .. ", "download"),
            ("a\nb", "a_b"),
        ] {
            assert_eq!(file_name(suggested), expected);
        }
    }

    #[test]
    fn dialogs_beyond_the_limit_are_answered_at_once() {
        let gate = RequestGate::new();
        let mut tab = Tab::new("t".to_owned(), "s".to_owned());
        let alert = json!({"type": "alert", "message": "Hey"});
        for _ in 0..DIALOGS_MAX {
            assert!(dialog_opens(&mut tab, "s", &alert, &gate));
        }
        assert!(!dialog_opens(&mut tab, "s", &alert, &gate));
        tab.begin_page("http://a.example/".to_owned());
        assert!(dialog_opens(&mut tab, "s", &alert, &gate));
        let unload = json!({"type": "beforeunload"});
        assert!(!dialog_opens(&mut tab, "s", &unload, &gate));
    }
}
