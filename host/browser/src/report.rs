//! Results as Markdown, in the form of `@playwright/mcp`.

use mimir_core::Content;
use mimir_core::text;

use crate::browser::{BrowserState, DownloadState};
use crate::page::Page;
use crate::snapshot::{LINES_MAX, OutlineOptions, changed_lines};

/// Maximum size of a snapshot that a call asks for, in bytes.
const SNAPSHOT_MAX: usize = 60_000;

/// Maximum size of a snapshot that is added to the result of another action. Above it, only what has changed is shown.
const ADDED_MAX: usize = 6000;

/// A result in the making.
#[derive(Default)]
pub(crate) struct ActionReport {
    result: Option<String>,
    shows_page: bool,
    shows_tabs: bool,
    snapshot: Option<SnapshotWish>,
    attachments: Vec<Content>,
}

/// The snapshot that a result contains.
#[derive(Debug, Clone)]
enum SnapshotWish {
    /// The snapshot that the call asked for.
    Lines(Vec<String>),
    /// The state after an action.
    After,
}

impl ActionReport {
    /// Creates a report about an action that changed the page.
    pub(crate) fn after_action() -> Self {
        Self {
            shows_page: true,
            snapshot: Some(SnapshotWish::After),
            ..Self::default()
        }
    }

    /// Creates a report with a result only.
    pub(crate) fn with_result(result: impl Into<String>) -> Self {
        Self {
            result: Some(result.into()),
            ..Self::default()
        }
    }

    /// Creates a report with the snapshot that the call asked for.
    pub(crate) fn with_snapshot(lines: Vec<String>) -> Self {
        Self {
            shows_page: true,
            snapshot: Some(SnapshotWish::Lines(lines)),
            ..Self::default()
        }
    }

    /// Adds a result.
    pub(crate) fn result(mut self, result: impl Into<String>) -> Self {
        self.result = Some(result.into());
        self
    }

    /// Adds the list of tabs, even if there is only one.
    pub(crate) fn tabs(mut self) -> Self {
        self.shows_tabs = true;
        self
    }

    /// Adds a part that is not text.
    pub(crate) fn attach(mut self, part: Content) -> Self {
        self.attachments.push(part);
        self
    }

    /// Returns the parts of the result.
    pub(crate) async fn finish(self, page: &Page<'_>) -> Vec<Content> {
        let mut sections = Vec::new();
        if let Some(result) = &self.result {
            sections.push(format!("### Result\n{result}"));
        }
        {
            let state = page.browser.state();
            if self.shows_tabs || (self.shows_page && state.tabs.len() > 1) {
                sections.push(format!("### Open tabs\n{}", tab_list(&state)));
            }
        }
        if self.shows_page {
            update_title(page).await;
            sections.extend(page_section(page));
        }
        sections.extend(modal_section(page));
        sections.extend(blocked_section(page));
        sections.extend(download_section(page));
        let has_dialog = page.dialog().is_some();
        match self.snapshot {
            Some(SnapshotWish::Lines(lines)) => {
                sections.push(snapshot_section(&lines));
                page.with_tab(|tab| tab.shown_snapshot = Some(lines));
            }
            Some(SnapshotWish::After) if !has_dialog => {
                sections.extend(state_section(page).await);
            }
            _ => {}
        }
        let mut parts = vec![Content::text(sections.join("\n"))];
        parts.extend(self.attachments);
        parts
    }
}

/// Returns the tabs, one per line.
pub(crate) fn tab_list(state: &BrowserState) -> String {
    if state.tabs.is_empty() {
        return "No open tabs. Navigate to a URL to create one.".to_owned();
    }
    let lines = state.tabs.iter().enumerate().map(|(index, tab)| {
        let current = if tab.target == state.current {
            "(current) "
        } else {
            ""
        };
        let (title, url) = (text::visible(&tab.title), text::visible(&tab.url));
        format!("- {index}: {current}[{title}]({url})")
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Asks the page for its title: the event about it comes later than the page.
async fn update_title(page: &Page<'_>) {
    if page.dialog().is_none()
        && let Ok(title) = page.evaluate("document.title").await
    {
        let title = title.as_str().unwrap_or_default();
        let title = page.browser.gate.shorten(title);
        page.with_tab(|tab| tab.title = title);
    }
}

fn page_section(page: &Page<'_>) -> Option<String> {
    let state = page.browser.state();
    let tab = state.current()?;
    let mut lines = vec![format!("### Page\n- Page URL: {}", text::visible(&tab.url))];
    if !tab.title.is_empty() {
        lines.push(format!("- Page Title: {}", text::visible(&tab.title)));
    }
    match tab.console_counts() {
        (0, 0) => {}
        (errors, warnings) => {
            lines.push(format!("- Console: {errors} errors, {warnings} warnings"));
        }
    }
    if tab.has_crashed {
        lines.push("- The page has crashed.".to_owned());
    }
    Some(lines.join("\n"))
}

/// Returns the section about what the page waits for.
pub(crate) fn modal_section(page: &Page<'_>) -> Option<String> {
    let state = page.browser.state();
    let tab = state.current()?;
    let mut lines = Vec::new();
    if let Some(dialog) = &tab.dialog {
        lines.push(format!(
            "- [\"{}\" dialog with message \"{}\"]: can be handled by browser_handle_dialog",
            text::visible(&dialog.kind),
            text::visible(&dialog.message)
        ));
    }
    if tab.file_chooser.is_some() {
        lines.push("- [File chooser]: can be handled by browser_file_upload".to_owned());
    }
    (!lines.is_empty()).then(|| format!("### Modal state\n{}", lines.join("\n")))
}

fn blocked_section(page: &Page<'_>) -> Option<String> {
    let blocked = page.with_tab(|tab| std::mem::take(&mut tab.blocked));
    if blocked.is_empty() {
        return None;
    }
    let lines = blocked.iter().map(|(origin, blocked)| {
        let (origin, reason) = (text::visible(origin), text::visible(&blocked.reason));
        format!("- {origin}: {} ({reason})", blocked.count)
    });
    Some(format!(
        "### Blocked requests\n{}",
        lines.collect::<Vec<_>>().join("\n")
    ))
}

fn download_section(page: &Page<'_>) -> Option<String> {
    let mut state = page.browser.state();
    let mut lines = Vec::new();
    for (index, download) in (1..).zip(&mut state.downloads) {
        if download.is_reported || download.state == DownloadState::Running {
            continue;
        }
        download.is_reported = true;
        lines.push(download_line(index, download));
    }
    (!lines.is_empty()).then(|| {
        format!(
            "### Downloads\n{}\nbrowser_downloads returns one as a file.",
            lines.join("\n")
        )
    })
}

/// Describes a download in one line.
pub(crate) fn download_line(index: usize, download: &crate::browser::PageDownload) -> String {
    let state = match download.state {
        DownloadState::Running => ", still running",
        DownloadState::Completed => "",
        DownloadState::Failed => ", failed",
    };
    let (name, url) = (text::visible(&download.name), text::visible(&download.url));
    format!(
        "- {index}: {name} ({}{state}) from {url}",
        text::bytes(download.bytes)
    )
}

/// Returns the snapshot after an action: all of it if the page is new or small, else the lines that have changed.
async fn state_section(page: &Page<'_>) -> Option<String> {
    let lines = match page.snapshot(None, OutlineOptions::default()).await {
        Ok(lines) => lines,
        Err(error) => return Some(format!("### Snapshot\n{}", error.message)),
    };
    let last = page.with_tab(|tab| tab.shown_snapshot.replace(lines.clone()));
    let size: usize = lines.iter().map(|line| line.len() + 1).sum();
    match last {
        Some(last) if last == lines => Some("### Snapshot\nunchanged".to_owned()),
        Some(last) if size > ADDED_MAX => {
            let changed = changed_lines(&last, &lines);
            if changed.is_empty() {
                return Some("### Snapshot\nsome lines are gone, and none is new".to_owned());
            }
            Some(format!(
                "### Changes of the snapshot\n{}",
                yaml_block(&changed, ADDED_MAX)
            ))
        }
        Some(_) => Some(snapshot_section(&lines)),
        None => Some(format!(
            "### Snapshot\n{}",
            yaml_block(&lines, ADDED_MAX * 2)
        )),
    }
}

fn snapshot_section(lines: &[String]) -> String {
    format!("### Snapshot\n{}", yaml_block(lines, SNAPSHOT_MAX))
}

/// Returns the lines as a block of YAML, cut off after `max` bytes.
pub(crate) fn yaml_block(lines: &[String], max: usize) -> String {
    let mut block = String::from("```yaml\n");
    let mut shown = 0;
    for line in lines {
        if block.len() + line.len() > max {
            break;
        }
        block.push_str(line);
        block.push('\n');
        shown += 1;
    }
    block.push_str("```");
    if shown < lines.len() {
        block.push_str(&format!(
            "\n{} of {} lines are shown: use browser_find, or browser_snapshot with `target` or `depth`.",
            shown,
            lines.len()
        ));
    } else if lines.len() >= LINES_MAX {
        block.push_str("\nThe page has more lines: use browser_snapshot with `target` or `depth`.");
    }
    block
}
