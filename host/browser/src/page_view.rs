//! The page of a session as far as the approval of a call depends on it.

use mimir_core::network::RequestTarget;
use mimir_core::pipeline::EgressPermission;

use crate::browser::Browser;
use crate::session::BrowserOptions;

/// The page that a session shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PageView {
    /// The session has no browser.
    Closed,
    /// The page could not be loaded. It takes no input.
    Failed,
    /// A page without a host, or one that is not known, because another call is running.
    Unknown,
    /// A page of a host.
    Shown(CurrentPage),
}

/// A page of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CurrentPage {
    pub(crate) origin: String,
    /// True if the settings list its host.
    pub(crate) is_listed: bool,
    /// True if a secret was entered into a page of this browser.
    pub(crate) has_secret: bool,
    /// True if the settings allow a secret to be entered into pages of its host.
    pub(crate) takes_secret: bool,
    /// True if the page waits for files.
    pub(crate) has_file_chooser: bool,
}

impl PageView {
    /// Returns the page that a browser shows.
    pub(crate) fn from_browser(browser: &Browser, options: &BrowserOptions) -> Self {
        let tab = {
            let state = browser.state();
            let tab = state.current();
            tab.map(|tab| {
                (
                    tab.url.clone(),
                    tab.is_error_page,
                    tab.file_chooser.is_some(),
                )
            })
        };
        let Some((url, is_error_page, has_file_chooser)) = tab else {
            return Self::Unknown;
        };
        if is_error_page {
            return Self::Failed;
        }
        let Ok(target) = RequestTarget::parse(&url) else {
            return Self::Unknown;
        };
        let mut hosts = options.secrets.iter().flat_map(|(_, hosts)| hosts);
        Self::Shown(CurrentPage {
            is_listed: browser.gate.permission(&target) == Some(EgressPermission::Listed),
            has_secret: browser.gate.has_entered_secret(),
            takes_secret: hosts.any(|host| host.matches(&target)),
            origin: target.origin().to_string(),
            has_file_chooser,
        })
    }

    /// Returns the page if it has a host.
    pub(crate) fn shown(&self) -> Option<&CurrentPage> {
        match self {
            Self::Shown(page) => Some(page),
            Self::Closed | Self::Failed | Self::Unknown => None,
        }
    }
}
