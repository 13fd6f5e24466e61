//! The state of one tab, as far as events have told it.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use mimir_core::ToolError;

use crate::request_gate::RequestGate;
use crate::snapshot::RefTable;

/// Maximum number of stored console messages and requests of a tab. Older ones are dropped.
const CONSOLE_MAX: usize = 500;
const REQUESTS_MAX: usize = 1000;

/// Maximum number of origins whose blocked requests are counted per page.
const BLOCKED_MAX: usize = 50;

/// A tab.
#[derive(Default)]
pub(crate) struct Tab {
    /// The id of the target.
    pub(crate) target: String,
    /// The id of the attached session.
    pub(crate) session: String,
    /// The id of the main frame.
    pub(crate) main_frame: String,
    /// The URL of the page.
    pub(crate) url: String,
    /// The title of the page.
    pub(crate) title: String,
    /// True if the page is an error page of the browser.
    pub(crate) is_error_page: bool,
    /// True if the page was restored from the history as it was left.
    pub(crate) was_restored: bool,
    /// The loader id of the page.
    pub(crate) loader: String,
    /// The loader id and the security state of the last response for a page.
    pub(crate) document_security: Option<(String, String)>,
    /// The fields of the page that got a secret: session and node.
    pub(crate) secret_fields: HashSet<(String, i64)>,
    /// The number of pages that were loaded in the tab so far.
    pub(crate) page_number: u64,
    /// True while the main frame loads.
    pub(crate) is_loading: bool,
    /// True after the DOM of the page was complete.
    pub(crate) is_interactive: bool,
    /// True if the process of the page has crashed.
    pub(crate) has_crashed: bool,
    /// The number of requests about which a person may be asked just now.
    pub(crate) asked: u32,
    /// Requests without a response so far.
    pub(crate) in_flight: HashSet<String>,
    /// The number of requests that were started.
    pub(crate) started_requests: u64,
    /// The open dialog.
    pub(crate) dialog: Option<PageDialog>,
    /// True if further dialogs of the page are dismissed, because the tab is leaving it.
    pub(crate) dismisses_dialogs: bool,
    /// The number of dialogs of the page.
    pub(crate) dialog_count: u32,
    /// The open file chooser.
    pub(crate) file_chooser: Option<FileChooser>,
    /// Messages of the console, oldest first.
    pub(crate) console: VecDeque<ConsoleMessage>,
    /// Requests since the page began to load.
    pub(crate) requests: VecDeque<PageRequest>,
    /// Blocked requests by origin.
    pub(crate) blocked: BTreeMap<String, BlockedOrigin>,
    /// The refusal of the last document of the main frame.
    pub(crate) refused_document: Option<ToolError>,
    /// The refs of elements.
    pub(crate) refs: RefTable,
    /// The lines of the last snapshot that a call returned.
    pub(crate) shown_snapshot: Option<Vec<String>>,
    /// The isolated script worlds, by session and frame.
    pub(crate) worlds: HashMap<(String, String), u64>,
    /// True once the first commands to the tab have been answered.
    pub(crate) is_ready: bool,
}

/// An open dialog of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PageDialog {
    /// `alert`, `confirm`, `prompt` or `beforeunload`.
    pub(crate) kind: String,
    /// The text.
    pub(crate) message: String,
    /// The session that opened it.
    pub(crate) session: String,
}

/// An open file chooser of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileChooser {
    /// The session and the id of its `<input>` element.
    pub(crate) session: String,
    pub(crate) node: i64,
    /// True if several files can be selected.
    pub(crate) multiple: bool,
}

/// The severity of a console message, most severe first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ConsoleLevel {
    Error,
    Warning,
    Info,
    Debug,
}

impl ConsoleLevel {
    /// Parses the type or level of the browser.
    pub(crate) fn parse(name: &str) -> Self {
        match name {
            "error" | "assert" => Self::Error,
            "warning" => Self::Warning,
            "debug" | "verbose" | "trace" => Self::Debug,
            _ => Self::Info,
        }
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Error => "ERROR",
            Self::Warning => "WARNING",
            Self::Info => "LOG",
            Self::Debug => "DEBUG",
        }
    }
}

/// A message of the console.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConsoleMessage {
    pub(crate) level: ConsoleLevel,
    pub(crate) text: String,
    /// The page that wrote it, as [`Tab::page_number`].
    pub(crate) page_number: u64,
}

/// A request of a page.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct PageRequest {
    pub(crate) id: String,
    pub(crate) session: String,
    pub(crate) method: String,
    pub(crate) url: String,
    /// The resource type of the browser, such as `XHR`.
    pub(crate) kind: String,
    pub(crate) request_headers: Vec<(String, String)>,
    pub(crate) request_body: Option<String>,
    pub(crate) status: Option<(u64, String)>,
    pub(crate) response_headers: Vec<(String, String)>,
    pub(crate) failure: Option<String>,
}

impl PageRequest {
    /// Returns true for images, fonts and the like.
    pub(crate) fn is_static(&self) -> bool {
        matches!(
            &*self.kind,
            "Image" | "Font" | "Stylesheet" | "Media" | "Script" | "Manifest"
        )
    }
}

/// Blocked requests to one origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BlockedOrigin {
    pub(crate) count: u32,
    /// The reason for the first one.
    pub(crate) reason: String,
}

impl Tab {
    pub(crate) fn new(target: String, session: String) -> Self {
        Self {
            // The id of a page's target is that of its main frame.
            main_frame: target.clone(),
            target,
            session,
            url: "about:blank".to_owned(),
            ..Self::default()
        }
    }

    /// Starts a new page: elements, requests and dialogs of the last one are gone.
    pub(crate) fn begin_page(&mut self, url: String) {
        self.is_error_page = crate::secret_entry::is_error_page(&url);
        self.was_restored = false;
        self.loader.clear();
        self.secret_fields.clear();
        self.url = url;
        self.title.clear();
        self.page_number += 1;
        self.is_interactive = false;
        self.has_crashed = false;
        self.dialog = None;
        self.dismisses_dialogs = false;
        self.dialog_count = 0;
        self.file_chooser = None;
        self.refs.clear();
        self.shown_snapshot = None;
        self.worlds.clear();
    }

    pub(crate) fn add_console(&mut self, level: ConsoleLevel, text: &str, gate: &RequestGate) {
        if self.console.len() >= CONSOLE_MAX {
            self.console.pop_front();
        }
        self.console.push_back(ConsoleMessage {
            level,
            text: gate.shorten(text),
            page_number: self.page_number,
        });
    }

    pub(crate) fn add_request(&mut self, mut request: PageRequest, gate: &RequestGate) {
        if self.requests.len() >= REQUESTS_MAX {
            self.requests.pop_front();
        }
        self.started_requests += 1;
        self.in_flight.insert(request.id.clone());
        request.url = gate.shorten(&request.url);
        self.requests.push_back(request);
    }

    /// Returns the latest request with this id.
    pub(crate) fn request_mut(&mut self, id: &str) -> Option<&mut PageRequest> {
        self.requests
            .iter_mut()
            .rev()
            .find(|request| request.id == id)
    }

    pub(crate) fn add_blocked(&mut self, origin: String, reason: &str, gate: &RequestGate) {
        if let Some(blocked) = self.blocked.get_mut(&origin) {
            blocked.count += 1;
        } else if self.blocked.len() < BLOCKED_MAX {
            let reason = gate.shorten(reason);
            self.blocked
                .insert(origin, BlockedOrigin { count: 1, reason });
        }
    }

    /// Returns the number of errors and of warnings in the console since the page was loaded.
    pub(crate) fn console_counts(&self) -> (usize, usize) {
        let count = |level| {
            let of_page = self.console.iter();
            of_page
                .filter(|one| one.page_number == self.page_number && one.level == level)
                .count()
        };
        (count(ConsoleLevel::Error), count(ConsoleLevel::Warning))
    }
}
