//! The browser tools: a browser of this machine, in the sandbox of commands and behind the rules of the network.
//!
//! A session has one browser, which its first call starts. Each request of a page is decided about like a request of the
//! tool itself (see `request_gate`). The profile is in memory and ends with the browser, unless the settings name one.
//!
//! Out of scope: the sandbox (`mimir-process`), and the connection to other machines (`mimir-net`).

mod actions;
mod backend;
mod browser;
mod capture;
mod cdp;
mod chromium;
mod fields;
mod folders;
mod keyboard;
mod page;
mod page_view;
mod pointer;
mod report;
mod request_gate;
mod secret_entry;
mod session;
mod settle;
mod snapshot;
mod tab;
mod tool_arguments;
mod tools;

pub use chromium::{InstalledBrowser, installed_browsers, trial_launch};
pub use session::{BrowserOptions, BrowserPort, BrowserSessions};
