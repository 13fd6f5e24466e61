//! Arguments of `mimir setup`.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Arg, Args, Command, Error};
use mimir::agents::AgentKind;

/// Arguments of `mimir setup`.
#[derive(Debug, Default, PartialEq, Args)]
pub struct SetupArgs {
    /// Set up this agent, found or not; repeat it for more [default: all that are found]
    #[arg(long = "agent", value_name = "NAME", value_parser = agent())]
    pub agents: Vec<AgentKind>,
    /// Do not ask
    #[arg(short, long)]
    pub yes: bool,
    /// Take back what earlier setups changed in this workspace
    #[arg(long, conflicts_with = "agents")]
    pub undo: bool,
}

/// Agents that people name and `mimir setup` does not know, and what to do instead.
const OTHERS: [(&[&str], &str); 2] = [
    (
        &["copilot", "github-copilot", "copilot-cli", "copilot-chat"],
        "for GitHub Copilot in VS Code use `--agent vscode`; for its CLI, add the lines of `mimir mcp config claude` to ~/.copilot/mcp-config.json",
    ),
    (
        &[
            "windsurf",
            "cline",
            "claude-desktop",
            "roo",
            "jetbrains",
            "continue",
            "amp",
        ],
        "`mimir mcp config AGENT` prints the lines for its config file (AGENT: windsurf, cline, or claude for most others)",
    ),
];

/// Parses the name of an agent, or another name that people type.
fn agent() -> impl TypedValueParser<Value = AgentKind> {
    AgentNameParser(PossibleValuesParser::new(
        AgentKind::ALL.map(possible_value),
    ))
}

/// The name of an agent with its other names.
pub fn possible_value(agent: AgentKind) -> PossibleValue {
    PossibleValue::new(agent.name())
        .help(agent.title())
        .aliases(agent.aliases())
}

/// Parser of agent names, with an answer for agents that `mimir setup` does not know.
#[derive(Debug, Clone)]
struct AgentNameParser(PossibleValuesParser);

impl TypedValueParser for AgentNameParser {
    type Value = AgentKind;

    fn parse_ref(
        &self,
        command: &Command,
        argument: Option<&Arg>,
        value: &OsStr,
    ) -> Result<AgentKind, Error> {
        let name = value.to_string_lossy().to_lowercase();
        let known = AgentKind::ALL.into_iter();
        let mut known =
            known.filter(|agent| agent.name() == name || agent.aliases().contains(&name.as_str()));
        if let Some(agent) = known.next() {
            return Ok(agent);
        }
        let other = OTHERS
            .iter()
            .find(|(names, _)| names.contains(&name.as_str()));
        match other {
            Some((_, hint)) => {
                let message =
                    format!("`{name}` is not an agent that `mimir setup` knows: {hint}\n");
                Err(Error::raw(ErrorKind::InvalidValue, message).with_cmd(command))
            }
            // Reports the known names.
            None => match self.0.parse_ref(command, argument, value) {
                Err(error) => Err(error),
                Ok(name) => AgentKind::from_name(&name)
                    .ok_or_else(|| Error::new(ErrorKind::InvalidValue).with_cmd(command)),
            },
        }
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        self.0.possible_values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(name: &str) -> Result<AgentKind, String> {
        let command = Command::new("mimir");
        agent()
            .parse_ref(&command, None, OsStr::new(name))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn agent_names_are_the_same_in_setup_and_in_mcp_config() {
        use crate::args::CodingAgent;
        use clap::ValueEnum as _;
        for agent in AgentKind::ALL {
            let named = CodingAgent::from_str(agent.name(), false);
            assert!(named.is_ok(), "{agent:?}");
            for alias in agent.aliases() {
                assert_eq!(CodingAgent::from_str(alias, false), named, "{alias}");
            }
        }
    }

    #[test]
    fn setup_agent_names_include_those_that_people_type() {
        for (name, agent) in [
            ("claude", AgentKind::Claude),
            ("Claude-Code", AgentKind::Claude),
            ("code", AgentKind::Vscode),
            ("vscode", AgentKind::Vscode),
            ("open-code", AgentKind::Opencode),
            ("gemini-cli", AgentKind::Gemini),
            ("qwen-code", AgentKind::Qwen),
        ] {
            assert_eq!(parse(name), Ok(agent));
        }
        let error = parse("copilot").unwrap_err();
        assert!(error.contains("`--agent vscode`"), "{error}");
        let error = parse("windsurf").unwrap_err();
        assert!(error.contains("`mimir mcp config AGENT`"), "{error}");
        assert!(parse("emacs").is_err());
    }
}
