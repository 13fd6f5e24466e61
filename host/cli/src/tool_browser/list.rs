//! State of the tool browser: the tools, the filter, the selection and the open page.

use mimir_core::pipeline::PipelineSnapshot;
use mimir_core::text::visible;
use mimir_core::{Tool, ToolName, ToolSource};

use crate::args::{DefinitionFormat, GlobalOptions};
use crate::exit::CommandResult;
use crate::tools::{self, TokenCosts};
use mimir::setup::HostSetup;

/// State of the tool browser.
pub struct ToolBrowser {
    snapshot: PipelineSnapshot,
    pub costs: TokenCosts,
    /// All tools.
    pub items: Vec<BrowserItem>,
    /// Indexes of the tools that match the filter.
    pub shown: Vec<usize>,
    /// Index of the selected tool in `shown`.
    pub selected: usize,
    /// First visible line.
    pub top: usize,
    /// Number of visible lines.
    pub height: usize,
    /// The filter.
    pub filter: String,
    /// True while the filter is being typed.
    pub typing: bool,
    /// The open page.
    pub page: Option<ToolPage>,
    /// Message on the last line.
    pub message: String,
}

/// A tool in the list.
pub struct BrowserItem {
    pub name: ToolName,
    pub source: ToolSource,
    pub enabled: bool,
    /// True if models see the tool.
    pub listed: bool,
    pub tokens: u32,
    pub about: String,
    /// Text that the filter searches.
    text: String,
}

/// The page about a tool.
pub struct ToolPage {
    pub name: ToolName,
    pub lines: Vec<String>,
    /// First visible line.
    pub top: usize,
}

impl ToolBrowser {
    /// Creates the browser with the tools of a snapshot.
    pub fn new(snapshot: PipelineSnapshot, costs: TokenCosts) -> Self {
        let mut browser = Self {
            snapshot,
            costs,
            items: Vec::new(),
            shown: Vec::new(),
            selected: 0,
            top: 0,
            height: 1,
            filter: String::new(),
            typing: false,
            page: None,
            message: String::new(),
        };
        browser.refresh();
        browser
    }

    /// Shows another snapshot. The selected tool stays selected if it still exists.
    pub fn set_snapshot(&mut self, snapshot: PipelineSnapshot) {
        let previous_count = self.snapshot.registry.tools().len();
        let selected = self.current().map(|item| item.name.clone());
        self.snapshot = snapshot;
        self.refresh();
        if let Some(name) = &selected {
            match self
                .shown
                .iter()
                .position(|at| self.items[*at].name == *name)
            {
                Some(at) => self.selected = at,
                None => self.report_removed(name),
            }
        }
        let open_page_name = self.page.as_ref().map(|page| page.name.clone());
        if let Some(name) =
            open_page_name.filter(|name| self.snapshot.registry.get(name.as_str()).is_none())
        {
            self.page = None;
            self.report_removed(&name);
        }
        let count = self.snapshot.registry.tools().len();
        if count > previous_count {
            self.set_message(&format!("{} more", count - previous_count));
        }
    }

    fn report_removed(&mut self, name: &ToolName) {
        self.set_message(&format!("{name} is gone"));
    }

    fn refresh(&mut self) {
        let (snapshot, costs) = (&self.snapshot, &mut self.costs);
        let tools = snapshot.registry.tools().iter();
        self.items = tools
            .map(|tool| BrowserItem::from_tool(tool, snapshot, costs))
            .collect();
        self.apply_filter();
    }

    /// Shows only the tools that match all words of the filter.
    pub fn set_filter(&mut self, filter: String) {
        self.filter = filter;
        self.selected = 0;
        self.apply_filter();
    }

    fn apply_filter(&mut self) {
        let words = self.filter.to_lowercase();
        let words: Vec<&str> = words.split_whitespace().collect();
        let matches = |item: &BrowserItem| words.iter().all(|word| item.text.contains(word));
        let filtered = self.items.iter().enumerate();
        let filtered = filtered.filter(|(_, item)| matches(item));
        // Matches in the name come before matches in the description.
        let name_matches =
            |item: &BrowserItem| words.iter().all(|word| item.name.as_str().contains(word));
        let (name_matches, others): (Vec<_>, Vec<_>) =
            filtered.partition(|(_, item)| name_matches(item));
        let sorted = name_matches.into_iter().chain(others);
        self.shown = sorted.map(|(at, _)| at).collect();
        self.move_selection(0);
    }

    /// Moves the selection by this many lines.
    pub fn move_selection(&mut self, by: isize) {
        let last = self.shown.len().saturating_sub(1);
        self.selected = self.selected.saturating_add_signed(by).min(last);
    }

    /// Returns the selected tool.
    pub fn current(&self) -> Option<&BrowserItem> {
        self.shown
            .get(self.selected)
            .and_then(|at| self.items.get(*at))
    }

    fn tool(&self) -> Option<&Tool> {
        let name = match &self.page {
            Some(page) => &page.name,
            None => &self.current()?.name,
        };
        self.snapshot
            .registry
            .get(name.as_str())
            .map(|tool| &**tool)
    }

    /// Shows a message on the last line.
    pub fn set_message(&mut self, message: &str) {
        self.message = visible(message);
    }

    /// Clears the message.
    pub fn clear_message(&mut self) {
        self.message.clear();
    }

    /// Switches the selected tool on or off, and shows the result.
    pub fn switch(&mut self, globals: &GlobalOptions) {
        let message = match self.try_switch(globals) {
            Ok(message) => message,
            Err(failure) => failure.to_string(),
        };
        self.set_message(&message);
    }

    fn try_switch(&mut self, globals: &GlobalOptions) -> CommandResult<String> {
        let Some(tool) = self.tool() else {
            return Ok(String::new());
        };
        let (name, enabled) = (
            tool.name().clone(),
            self.snapshot.policy.refusal(tool).is_none(),
        );
        let setup = HostSetup::find(globals.workspace.as_deref())?;
        if is_gone(&setup, tool) {
            return Ok(format!("{name} is gone"));
        }
        // Uses the current config files, which may be newer than the snapshot.
        self.snapshot.policy = setup.settings.policy()?;
        let tool = self.snapshot.registry.find(name.as_str())?;
        let (snapshot, costs) = (&self.snapshot, &mut self.costs);
        let report = match enabled {
            true => tools::disable(&setup, snapshot, tool, false, costs)?,
            false => tools::enable(&setup, snapshot, tool, costs)?,
        };
        self.snapshot.policy = HostSetup::find(globals.workspace.as_deref())?
            .settings
            .policy()?;
        self.refresh();
        let state = if report.enabled { "on" } else { "off" };
        Ok(format!("{name} is {state} ({:+} tokens)", report.tokens))
    }

    /// Opens the page of the selected tool.
    pub fn open_page(&mut self, globals: &GlobalOptions) {
        match self.load_page(globals) {
            Ok(page) => self.page = page,
            Err(failure) => self.set_message(&failure.to_string()),
        }
    }

    fn load_page(&mut self, globals: &GlobalOptions) -> CommandResult<Option<ToolPage>> {
        let Some(name) = self.current().map(|item| item.name.clone()) else {
            return Ok(None);
        };
        let setup = HostSetup::find(globals.workspace.as_deref())?;
        let tool = self.snapshot.registry.find(name.as_str())?;
        let lines = tools::page(&setup, &self.snapshot, tool, &mut self.costs)?;
        Ok(Some(ToolPage {
            name,
            lines,
            top: 0,
        }))
    }
}

/// Returns true if the file of a custom tool no longer exists.
fn is_gone(setup: &HostSetup, tool: &Tool) -> bool {
    let file = setup.workspace.root().join(&tool.origin.location);
    tool.source == ToolSource::Custom && !file.exists()
}

impl BrowserItem {
    fn from_tool(tool: &Tool, snapshot: &PipelineSnapshot, costs: &mut TokenCosts) -> Self {
        let enabled = snapshot.policy.refusal(tool).is_none();
        let about = tool.definition.description.trim().lines().next();
        let about = visible(about.unwrap_or_default());
        let name = tool.name().clone();
        let aliases = tool.aliases.iter().map(ToolName::as_str);
        let names: Vec<&str> = std::iter::once(name.as_str()).chain(aliases).collect();
        let badge = tool.source.badge();
        let text = format!("{} {badge} {about}", names.join(" ")).to_lowercase();
        Self {
            source: tool.source,
            enabled,
            listed: enabled
                && snapshot.policy.is_shown(tool)
                && !snapshot.policy.is_only_searched(tool),
            tokens: costs.tool_cost(tool, DefinitionFormat::Openai).tokens,
            about,
            text,
            name,
        }
    }
}
