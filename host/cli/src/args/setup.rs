//! Arguments of `mimir setup`.

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
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

/// Parses the name of an agent.
fn agent() -> impl TypedValueParser<Value = AgentKind> {
    let names = AgentKind::ALL.map(|agent| PossibleValue::new(agent.name()).help(agent.title()));
    PossibleValuesParser::new(names).try_map(|name| {
        AgentKind::from_name(&name).ok_or_else(|| format!("`{name}` is not a known agent"))
    })
}
