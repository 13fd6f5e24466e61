//! `mimir help`: the list of topics, and the pages of the manual. The pages are Markdown files in `src/help` that are
//! embedded in the binary.

use std::fmt;
use std::io::{self, IsTerminal as _, Write as _};
use std::process::{Command, Stdio};

use clap::CommandFactory as _;
use mimir_core::name_suggestions::did_you_mean;
use mimir_core::text::{prefix, visible};
use serde_json::json;

use crate::args::CliArgs;
use crate::exit::{CommandFailure, CommandResult, ExitReason};
use crate::output::{ResultPrinter, STRONG, columns, indented, styled};
use mimir::settings::EXAMPLE;

mod reflow;
#[cfg(test)]
mod tests;

/// A page of the manual.
#[derive(PartialEq, Eq)]
pub struct Topic {
    /// Name of the topic, as in `mimir help NAME`.
    name: &'static str,
    /// The page in Markdown: a title, a one-line summary, and the content.
    text: &'static str,
}

macro_rules! topics {
    ($($name:literal),* $(,)?) => {
        &[$(Topic { name: $name, text: include_str!(concat!("../help/", $name, ".md")) }),*]
    };
}

/// All topics, in alphabetical order.
const TOPICS: &[Topic] = topics![
    "agent",
    "approvals",
    "audit",
    "browser",
    "cluster",
    "compatibility",
    "config",
    "config-files",
    "console",
    "containers",
    "contributing",
    "embedding",
    "errors",
    "exec",
    "export",
    "files",
    "git",
    "languages",
    "limits",
    "mcp",
    "mcp-servers",
    "memory",
    "models",
    "network",
    "openapi",
    "plugins",
    "policy",
    "project",
    "registries",
    "roles",
    "run_code",
    "sandbox",
    "scripts",
    "secrets",
    "setup",
    "signatures",
    "skills",
    "team-admin",
    "teams",
    "telemetry",
    "tools",
    "typescript",
    "undo",
    "web",
    "workers",
];

/// A page that `mimir help` shows.
#[derive(Debug, PartialEq, Eq)]
pub enum HelpPage {
    /// The help of the program, and the list of topics.
    Index,
    /// One topic.
    Topic(&'static Topic),
}

impl fmt::Debug for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Topic").field(&self.name).finish()
    }
}

impl Topic {
    /// Returns the summary: the first line after the title.
    fn summary(&self) -> &'static str {
        let lines = self.text.lines().skip(1);
        lines
            .map(str::trim)
            .find(|line| !line.is_empty())
            .unwrap_or_default()
    }
}

impl HelpPage {
    /// Finds the page that these words name; `None` if they name a command, whose help clap prints. A topic takes
    /// precedence over a command of the same name.
    pub fn find(words: &[String]) -> CommandResult<Option<Self>> {
        let [first, rest @ ..] = words else {
            return Ok(Some(Self::Index));
        };
        if rest.is_empty()
            && let Some(topic) = TOPICS.iter().find(|topic| topic.name == first)
        {
            return Ok(Some(Self::Topic(topic)));
        }
        let root = CliArgs::command();
        if root.find_subcommand(first).is_some() {
            return Ok(None);
        }
        let commands = root.get_subcommands().map(clap::Command::get_name);
        let names = TOPICS.iter().map(|topic| topic.name).chain(commands);
        let near = if is_built_in_tool(first) {
            format!(" `mimir tools info {first}` describes the tool.")
        } else {
            did_you_mean(first, names)
        };
        let first = visible(prefix(first, 40));
        Err(CommandFailure::usage(format!(
            "`{first}` is not a help topic or a command.{near} `mimir help` lists the topics."
        )))
    }
}

/// Returns true if the topic `tools` lists a tool of this name.
fn is_built_in_tool(name: &str) -> bool {
    let topic = TOPICS.iter().find(|topic| topic.name == "tools");
    let lines = topic.into_iter().flat_map(|topic| topic.text.lines());
    let mut cells = lines.filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    cells.any(|cell| cell.split('`').skip(1).step_by(2).any(|word| word == name))
}

/// Prints a page.
pub fn run(printer: ResultPrinter, words: &[String]) -> CommandResult {
    match HelpPage::find(words)? {
        Some(HelpPage::Topic(topic)) => show(printer, topic)?,
        // `None` cannot occur here: `CliArgs::parse_line` prints the help of commands.
        Some(HelpPage::Index) | None => index(printer)?,
    }
    Ok(ExitReason::Done)
}

/// Prints the help of the program and the list of topics.
fn index(printer: ResultPrinter) -> CommandResult<()> {
    let row = |topic: &Topic| json!({ "topic": topic.name, "about": topic.summary() });
    let topics: Vec<_> = TOPICS.iter().map(row).collect();
    printer.print_result(&json!({ "topics": topics }), |out| {
        writeln!(out, "{}", CliArgs::command().render_long_help().ansi())?;
        writeln!(out, "{}", styled(STRONG, "Topics (mimir help TOPIC):"))?;
        let width = TOPICS.iter().map(|topic| topic.name.len()).max();
        let width = width.unwrap_or_default();
        for topic in TOPICS {
            let summary = indented(topic.summary(), width + 4);
            writeln!(out, "  {:width$}  {summary}", topic.name)?;
        }
        Ok(())
    })
}

/// Prints a topic. On a terminal, a pager shows it.
fn show(printer: ResultPrinter, topic: &Topic) -> CommandResult<()> {
    let text = page_with_options(topic);
    let text = match columns().filter(|_| !printer.is_json()) {
        Some(columns) => reflow::reflow(&text, columns),
        None => text,
    };
    if !printer.is_json() && io::stdout().is_terminal() && show_in_pager(&text) {
        return Ok(());
    }
    let value = json!({ "topic": topic.name, "text": text });
    printer.print_result(&value, |out| out.write_all(text.as_bytes()))
}

/// Returns the page of a topic, followed by the example of a config file, and by the `--help` of the command with the
/// same name, if there is one.
fn page_with_options(topic: &Topic) -> String {
    let mut root = CliArgs::command();
    root.build();
    let example = match topic.name {
        "config" => format!("\n## Example\n\n```yaml\n{EXAMPLE}```\n"),
        _ => String::new(),
    };
    match root.find_subcommand_mut(topic.name) {
        None => topic.text.to_owned() + &example,
        Some(command) => format!(
            "{}{example}\n## Command line\n\n```text\n{}\n```\n",
            topic.text,
            command.render_long_help().to_string().trim_end()
        ),
    }
}

/// Pager if `$PAGER` is not set. It quits at once if the text fits on the screen, and leaves the text on the screen.
const PAGER: &str = "less -FRX";

/// Shows a text in the user's pager. Returns false if the pager cannot be started.
fn show_in_pager(text: &str) -> bool {
    let pager = std::env::var("PAGER").unwrap_or_else(|_| PAGER.to_owned());
    let mut words = pager.split_whitespace();
    let Some(program) = words.next() else {
        return false;
    };
    // Only the pager must handle Ctrl-C: if it ended mimir, the shell and the pager would both read the terminal.
    #[cfg(unix)]
    let _interrupts = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt());
    let started = Command::new(program)
        .args(words)
        .stdin(Stdio::piped())
        .spawn();
    let Ok(mut pager) = started else {
        return false;
    };
    if let Some(mut stdin) = pager.stdin.take() {
        // The pager may quit before it has read all of the text.
        let _ = stdin.write_all(text.as_bytes());
    }
    pager.wait().is_ok()
}
