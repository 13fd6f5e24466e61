//! Slash commands of the chat.
//!
//! Each is a thin wrapper of the `mimir` command with the same name: `/tools` is `mimir tools`.

use mimir_agent::Conversation;
use mimir_core::names::did_you_mean;
use mimir_core::text::{prefix, visible};
use mimir_core::{Code, Pipeline, ToolError};

use crate::agent::{Bench, Saver, conversation};
use crate::args::{ApprovalsWish, AuditWish, Globals, ToolsWish};
use crate::exit::Failure;
use crate::output::tools::Face;
use crate::output::{Printer, STRONG, indented, note, styled};
use crate::tools;
use mimir::setup::Setup;

use super::super::run::bill;
use super::super::{approvals, audit};

/// A slash command with its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wish {
    Tools(ToolsWish),
    Approvals,
    Cost,
    Model(Option<String>),
    Audit,
    Clear,
    Help,
    Quit,
}

/// Argument syntax of a command.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    Talk,
    Leave,
}

/// The commands and their help texts.
const ALL: [(&str, &str); 8] = [
    (
        "/tools",
        "the tools; `/tools disable NAME`, `info`, `tokens` and so on as in `mimir tools`",
    ),
    ("/approvals", "your stored approvals"),
    ("/cost", "cost of this conversation so far"),
    (
        "/model",
        "the model; `/model PROVIDER/MODEL` switches to another",
    ),
    ("/audit", "the newest lines of the audit log"),
    ("/clear", "start a new conversation"),
    ("/help", "this"),
    ("/quit", "end, as Ctrl-D does"),
];

/// Number of audit log lines shown.
const RECORD: usize = 15;

impl Wish {
    /// Parses a line; `None` if it is a message for the model.
    pub(super) fn read(line: &str) -> Option<Result<Self, ToolError>> {
        let line = line.trim();
        let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        // Neither a path nor a text of several lines is a command.
        if !name.starts_with('/') || name[1..].contains('/') || line.contains('\n') {
            return None;
        }
        let rest = Some(rest.trim()).filter(|rest| !rest.is_empty());
        Some(match (name, rest) {
            ("/tools", words) => ToolsWish::read(words.unwrap_or_default()).map(Self::Tools),
            ("/approvals", None) => Ok(Self::Approvals),
            ("/cost", None) => Ok(Self::Cost),
            ("/model", model) => Ok(Self::Model(model.map(str::to_owned))),
            ("/audit", None) => Ok(Self::Audit),
            ("/clear", None) => Ok(Self::Clear),
            ("/help", None) => Ok(Self::Help),
            ("/quit" | "/exit", None) => Ok(Self::Quit),
            (known, Some(_)) if ALL.iter().any(|(name, _)| *name == known) => {
                Err(bad(format!("`{known}` takes no arguments")))
            }
            (unknown, _) => {
                let near = did_you_mean(unknown, ALL.map(|(name, _)| name));
                let unknown = visible(prefix(unknown, 40));
                Err(bad(format!(
                    "unknown command `{unknown}`.{near} `/help` lists the commands"
                )))
            }
        })
    }
}

fn bad(message: String) -> ToolError {
    ToolError::new(Code::InvalidInput, message)
}

/// Completion candidates: commands and tool names.
pub(super) fn completions(pipeline: &Pipeline) -> Vec<String> {
    let world = pipeline.world();
    let tools = world.registry.tools().iter();
    let tools = tools.filter(|tool| world.policy.is_listed(tool));
    let commands = ALL.iter().map(|(name, _)| (*name).to_owned());
    commands
        .chain(tools.map(|tool| tool.name().to_string()))
        .collect()
}

/// Runs the command.
pub(super) async fn carry_out(
    globals: &Globals,
    bench: &mut Bench,
    talk: &mut Conversation,
    wish: Wish,
) -> Result<Next, Failure> {
    let printer = Printer::new(false);
    match wish {
        Wish::Tools(wish) => {
            // Tools are switched in the config files as they are now, and the change applies at once.
            let setup = Setup::find(globals.workspace.as_deref())?;
            let world = bench.pipeline().world();
            let done = tools::run(&setup, &world, printer, Face::Chat, wish);
            bench.catch_up().await;
            done?;
        }
        Wish::Approvals => {
            approvals::run(globals, printer, &ApprovalsWish::List)?;
        }
        Wish::Audit => {
            let wish = AuditWish::Tail {
                lines: RECORD,
                follow: false,
            };
            audit::run(globals, printer, wish).await?;
        }
        Wish::Cost => note(bill(talk)),
        Wish::Model(None) => note(visible(bench.agent.model.name())),
        Wish::Model(Some(wanted)) => {
            bench.choose(&wanted)?;
            note(format_args!(
                "now using {}",
                styled(STRONG, visible(bench.agent.model.name()))
            ));
        }
        Wish::Clear => {
            if !talk.messages.is_empty() {
                Saver::of(bench).save(talk);
                bench.pipeline().end_session(&talk.id);
            }
            *talk = conversation(&bench.agent);
            note("started a new conversation, without the context of the old one");
        }
        Wish::Help => {
            for (name, does) in ALL {
                let name = styled(STRONG, format_args!("{name:11}"));
                note(format_args!("{name} {}", indented(does, 12)));
            }
        }
        Wish::Quit => return Ok(Next::Leave),
    }
    Ok(Next::Talk)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Format;

    #[test]
    fn a_command_is_told_from_words() {
        for words in [
            "hello",
            "/etc/passwd is what?",
            "/tmp/x",
            "/tools\nand more",
            "",
        ] {
            assert!(Wish::read(words).is_none(), "{words:?}");
        }
        let list = Wish::Tools(ToolsWish::List(Format::Openai));
        assert_eq!(Wish::read(" /tools "), Some(Ok(list)));
        let off = ToolsWish::Disable {
            name: "git".to_owned(),
            user: false,
        };
        assert_eq!(Wish::read("/tools disable git"), Some(Ok(Wish::Tools(off))));
        let model = Wish::Model(Some("a/b".to_owned()));
        assert_eq!(Wish::read("/model a/b"), Some(Ok(model)));
        let fault = |line: &str| Wish::read(line).unwrap().unwrap_err().message;
        assert!(fault("/tols").contains("`/tools`"), "{}", fault("/tols"));
        assert!(fault("/tools lst").contains("'list'"));
        assert!(fault("/tools enable").contains("<NAME>"));
        assert!(fault("/tools new x").contains("`mimir tools`"));
        assert!(fault("/clear all").contains("takes no arguments"));
    }

    #[test]
    fn every_command_is_one() {
        for (name, _) in ALL {
            assert!(matches!(Wish::read(name), Some(Ok(_))), "{name}");
        }
    }
}
