//! Slash commands of the chat.
//!
//! A command with the name of a `mimir` command does the same: `/tools` runs `mimir tools`.

use std::path::PathBuf;
use std::sync::Arc;

use mimir_agent::{Conversation, MessageImage};
use mimir_core::name_suggestions::did_you_mean;
use mimir_core::text::{prefix, visible};
use mimir_core::{Pipeline, ToolError, ToolSource};
use mimir_registry::team::BundledFile;

use crate::agent::{AgentRuntime, ConversationSaver, new_conversation, read_image};
use crate::args::{ApprovalsCommand, AuditCommand, AuditSource, GlobalOptions, ToolListCommand};
use crate::exit::CommandResult;
use crate::output::tools::CommandSyntax;
use crate::output::{ResultPrinter, STRONG, indented, note, styled};
use crate::tools;
use mimir::setup::HostSetup;
use mimir::teams::TeamInForce;

use super::super::run::usage_line;
use super::super::{approvals, audit};

/// A slash command with its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SlashCommand {
    Tools(ToolListCommand),
    Approvals,
    Cost,
    Model(Option<String>),
    Audit,
    /// The file to attach; `None` lists the number of attached images.
    Image(Option<PathBuf>),
    /// The name of a team's prompt, and text to add to it; `None` lists the prompts.
    Prompt(Option<(String, String)>),
    Compact,
    Clear,
    Help,
    Quit,
}

/// Continuation of the chat after a command.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ChatFlow {
    /// The chat continues.
    Continue,
    /// The chat continues with this message to the model.
    Send(String),
    /// The chat ends.
    End,
}

/// The commands and their help texts.
const ALL: [(&str, &str); 11] = [
    (
        "/tools",
        "list the tools; `/tools disable NAME`, `info`, `tokens` and so on as in `mimir tools`",
    ),
    ("/approvals", "list your approvals"),
    ("/cost", "show the cost of this conversation"),
    (
        "/model",
        "show the model; `/model PROVIDER/MODEL` switches to another one",
    ),
    ("/audit", "show the newest lines of the audit log"),
    (
        "/image",
        "`/image FILE` attaches an image to your next message, for a model that reads images",
    ),
    (
        "/prompt",
        "list the prompts of your team; `/prompt NAME TEXT` sends one, followed by the text",
    ),
    (
        "/compact",
        "replace the conversation so far by a summary, so that less is sent",
    ),
    ("/clear", "start a new conversation"),
    ("/help", "list the commands"),
    ("/quit", "end the chat, as Ctrl-D does"),
];

/// Number of audit log lines that `/audit` shows.
const AUDIT_LINES: usize = 15;

impl SlashCommand {
    /// Parses a line. Returns `None` if it is a message for the model.
    pub(super) fn parse(line: &str) -> Option<Result<Self, ToolError>> {
        let line = line.trim();
        let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        // A path is not a command, and neither is a text with several lines.
        if !name.starts_with('/') || name[1..].contains('/') || line.contains('\n') {
            return None;
        }
        let rest = Some(rest.trim()).filter(|rest| !rest.is_empty());
        Some(match (name, rest) {
            ("/tools", words) => ToolListCommand::parse(words.unwrap_or_default()).map(Self::Tools),
            ("/approvals", None) => Ok(Self::Approvals),
            ("/cost", None) => Ok(Self::Cost),
            ("/model", model) => Ok(Self::Model(model.map(str::to_owned))),
            ("/audit", None) => Ok(Self::Audit),
            ("/image", file) => Ok(Self::Image(file.map(user_path))),
            ("/prompt", words) => Ok(Self::Prompt(words.map(|words| {
                let (name, text) = words.split_once(char::is_whitespace).unwrap_or((words, ""));
                (name.to_owned(), text.trim().to_owned())
            }))),
            ("/compact", None) => Ok(Self::Compact),
            ("/clear", None) => Ok(Self::Clear),
            ("/help", None) => Ok(Self::Help),
            ("/quit" | "/exit", None) => Ok(Self::Quit),
            (known, Some(_)) if ALL.iter().any(|(name, _)| *name == known) => {
                Err(usage_error(format!("`{known}` takes no arguments")))
            }
            (unknown, _) => {
                let near = did_you_mean(unknown, ALL.map(|(name, _)| name));
                let unknown = visible(prefix(unknown, 40));
                Err(usage_error(format!(
                    "unknown command `{unknown}`.{near} `/help` lists the commands"
                )))
            }
        })
    }
}

/// Converts a typed path: quotes around it are removed, and `~/` is the home folder.
fn user_path(typed: &str) -> PathBuf {
    let is_quote = |c: char| matches!(c, '"' | '\'');
    let inner = typed.strip_prefix(is_quote);
    let inner = inner.and_then(|rest| rest.strip_suffix(is_quote));
    let path = inner.unwrap_or(typed);
    match (path.strip_prefix("~/"), std::env::home_dir()) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => PathBuf::from(path),
    }
}

fn usage_error(message: String) -> ToolError {
    ToolError::invalid_input(message)
}

/// Returns the completion candidates: the commands, and the names of listed tools.
pub(super) fn completions(pipeline: &Pipeline) -> Vec<String> {
    let snapshot = pipeline.snapshot();
    let tools = snapshot.registry.tools().iter();
    let tools = tools.filter(|tool| snapshot.policy.is_listed(tool));
    let commands = ALL.iter().map(|(name, _)| (*name).to_owned());
    commands
        .chain(tools.map(|tool| tool.name().to_string()))
        .collect()
}

/// Runs a command. `images` are those that are attached to the next message.
pub(super) async fn run_command(
    globals: &GlobalOptions,
    runtime: &mut AgentRuntime,
    conversation: &mut Conversation,
    images: &mut Vec<MessageImage>,
    command: SlashCommand,
) -> CommandResult<ChatFlow> {
    let printer = ResultPrinter::new(false);
    match command {
        SlashCommand::Tools(command) => {
            // Reads the config files again, because switching a tool edits them. The change applies at once.
            let setup = HostSetup::find(globals.workspace.as_deref())?;
            let snapshot = runtime.pipeline().snapshot();
            let result = tools::run(&setup, &snapshot, printer, CommandSyntax::Chat, command);
            runtime.reload_now().await;
            result?;
        }
        SlashCommand::Approvals => {
            approvals::run(globals, ApprovalsCommand::default()).await?;
        }
        SlashCommand::Audit => {
            let command = AuditCommand::Tail {
                lines: AUDIT_LINES,
                follow: false,
                source: AuditSource::default(),
            };
            audit::run(globals, command).await?;
        }
        SlashCommand::Cost => note(usage_line(conversation)),
        SlashCommand::Model(None) => note(visible(runtime.agent.model.name())),
        SlashCommand::Model(Some(model_name)) => {
            runtime.set_model(&model_name)?;
            note(format_args!(
                "now using {}",
                styled(STRONG, visible(runtime.agent.model.name()))
            ));
        }
        SlashCommand::Image(None) => note(format_args!(
            "{} images are attached to your next message; `/image FILE` attaches one",
            images.len()
        )),
        SlashCommand::Image(Some(path)) => {
            let image = read_image(&runtime.agent, &path, images.len())?;
            note(format_args!(
                "attached {} ({}, ~{} tokens) to your next message",
                visible(&path.display().to_string()),
                image.mime_type,
                image.tokens
            ));
            images.push(image);
        }
        SlashCommand::Prompt(None) => list_prompts(globals)?,
        SlashCommand::Prompt(Some((name, text))) => {
            return Ok(ChatFlow::Send(prompt_message(globals, &name, &text)?));
        }
        SlashCommand::Compact => return super::compact(runtime, conversation).await,
        SlashCommand::Clear => {
            images.clear();
            if !conversation.messages.is_empty() {
                ConversationSaver::for_agent(runtime).save(conversation);
                runtime.pipeline().end_session(&conversation.id);
            }
            *conversation = new_conversation(&runtime.agent);
            note("started a new conversation without the previous messages");
        }
        SlashCommand::Help => {
            for (name, description) in ALL {
                let name = styled(STRONG, format_args!("{name:11}"));
                note(format_args!("{name} {}", indented(description, 12)));
            }
        }
        SlashCommand::Quit => return Ok(ChatFlow::End),
    }
    Ok(ChatFlow::Continue)
}

/// Lists the prompts of the user's teams.
fn list_prompts(globals: &GlobalOptions) -> CommandResult<()> {
    let setup = HostSetup::find(globals.workspace.as_deref())?;
    let prompts = team_prompts(&setup.settings.teams);
    if prompts.is_empty() {
        note("your team has no prompts; `mimir team status` shows your teams");
    }
    for (name, team, _) in prompts {
        let name = styled(STRONG, visible(&name));
        let badge = ToolSource::Teams.badge();
        note(format_args!("{name} ({}) {badge}", visible(&team.shown())));
    }
    Ok(())
}

/// Returns the message of a team's prompt, followed by the user's text.
fn prompt_message(globals: &GlobalOptions, name: &str, text: &str) -> Result<String, ToolError> {
    let setup = HostSetup::find(globals.workspace.as_deref())?;
    let prompts = team_prompts(&setup.settings.teams);
    let Some((_, team, file)) = prompts.iter().find(|(known, ..)| known == name) else {
        let near = did_you_mean(name, prompts.iter().map(|(known, ..)| known.as_str()));
        let name = visible(prefix(name, 64));
        return Err(usage_error(format!(
            "unknown prompt `{name}`.{near} `/prompt` lists the prompts"
        )));
    };
    let mut message = team.read_text(file)?.trim().to_owned();
    if !text.is_empty() {
        message.push_str("\n\n");
        message.push_str(text);
    }
    Ok(message)
}

/// Returns the prompts of all teams, with their names. The first team with a name has it.
fn team_prompts(teams: &[Arc<TeamInForce>]) -> Vec<(String, &TeamInForce, &BundledFile)> {
    let mut prompts: Vec<(String, &TeamInForce, &BundledFile)> = Vec::new();
    for team in teams {
        for file in &team.bundle.prompts {
            let name = file.path.trim_end_matches(".md").to_owned();
            if prompts.iter().all(|(known, ..)| *known != name) {
                prompts.push((name, team, file));
            }
        }
    }
    prompts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::DefinitionFormat;

    #[test]
    fn slash_commands_are_distinguished_from_messages() {
        for words in [
            "hello",
            "/etc/passwd is what?",
            "/tmp/x",
            "/tools\nand more",
            "",
        ] {
            assert!(SlashCommand::parse(words).is_none(), "{words:?}");
        }
        let list = SlashCommand::Tools(ToolListCommand::List {
            format: DefinitionFormat::Openai,
        });
        assert_eq!(SlashCommand::parse(" /tools "), Some(Ok(list)));
        let off = ToolListCommand::Disable {
            name: "git".to_owned(),
            user: false,
        };
        assert_eq!(
            SlashCommand::parse("/tools disable git"),
            Some(Ok(SlashCommand::Tools(off)))
        );
        let prompt = |name: &str, text: &str| Some((name.to_owned(), text.to_owned()));
        for (line, wanted) in [
            ("/prompt", None),
            ("/prompt review", prompt("review", "")),
            (
                "/prompt review  the last commit ",
                prompt("review", "the last commit"),
            ),
        ] {
            assert_eq!(
                SlashCommand::parse(line),
                Some(Ok(SlashCommand::Prompt(wanted)))
            );
        }
        let image = SlashCommand::Image(Some(PathBuf::from("a b.png")));
        assert_eq!(SlashCommand::parse("/image 'a b.png'"), Some(Ok(image)));
        let model = SlashCommand::Model(Some("a/b".to_owned()));
        assert_eq!(SlashCommand::parse("/model a/b"), Some(Ok(model)));
        let fault = |line: &str| SlashCommand::parse(line).unwrap().unwrap_err().message;
        assert!(fault("/tols").contains("`/tools`"), "{}", fault("/tols"));
        assert!(fault("/tools lst").contains("'list'"));
        assert!(fault("/tools enable").contains("<NAME>"));
        assert!(fault("/tools new x").contains("`mimir tools`"));
        assert!(fault("/clear all").contains("takes no arguments"));
    }

    #[test]
    fn slash_commands_in_the_list_all_parse() {
        for (name, _) in ALL {
            assert!(matches!(SlashCommand::parse(name), Some(Ok(_))), "{name}");
        }
    }
}
