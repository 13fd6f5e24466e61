//! Implements `mimir tools` and `/tools` in a chat, both through [`run`]. Everything here returns data;
//! `output::tools` prints it.
//!
//! Out of scope: printing, and policy decisions about calls.

use std::sync::Arc;

use mimir_core::pipeline::World;
use mimir_core::storage::{Size, Values};
use mimir_core::{Code, Tool, ToolError};
use serde::Serialize;

use crate::args::{Format, ToolsWish};
use crate::exit::{Exit, Failure};
use crate::output::tools::{self as printed, Face};
use crate::output::{Printer, info, warn};
use mimir::setup::Setup;

mod advice;
mod costs;
mod list;
mod meant;
mod search;
mod spending;
mod switch;
mod usage;

pub use advice::Advice;
pub use costs::{Cost, Costs};
pub use list::{List, Row};
pub use meant::{is_file, is_named};
pub use search::Found;
pub use spending::Spending;
pub use switch::{Switched, disable, enable};
pub use usage::{PastCall, Usage};

/// Runs a command and prints its result. `world` is the current state; switching a tool takes effect the next time
/// that state is loaded.
pub fn run(
    setup: &Setup,
    world: &World,
    printer: Printer,
    face: Face,
    wish: ToolsWish,
) -> Result<Exit, Failure> {
    let mut costs = Costs::open(&setup.places);
    match wish {
        ToolsWish::Pick => list(setup, world, printer, face, &mut costs, Format::Openai)?,
        ToolsWish::List(format) => list(setup, world, printer, face, &mut costs, format)?,
        ToolsWish::Enable(name) => {
            let tool = meant::tool(world, &name)?;
            let switched = switch::enable(setup, world, tool, &mut costs)?;
            printed::switched(printer, &switched)?;
        }
        ToolsWish::Disable { name, user } => {
            let tool = meant::tool(world, &name)?;
            let switched = switch::disable(setup, world, tool, user, &mut costs)?;
            printed::switched(printer, &switched)?;
        }
        ToolsWish::Info(name) => {
            let tool = meant::named(world, &name)?;
            let beside = Beside::of(setup, tool, &mut costs);
            info::print(printer, tool, &world.policy, &beside)?;
        }
        ToolsWish::Tokens(format) => {
            let spending = Spending::of(world, &mut costs, format, price(setup));
            printed::spending(printer, &spending)?;
        }
        ToolsWish::Advise(format) => {
            let usage = Usage::read(&setup.workspace)?;
            let advice = Advice::of(world, &mut costs, format, &usage);
            printed::advice(printer, face, &advice)?;
        }
        ToolsWish::Search(words) => {
            let found = search::search(world, &mut costs, &words);
            printed::found(printer, &words, &found)?;
        }
    }
    costs.keep();
    Ok(Exit::Done)
}

/// Facts about a tool that are not in its definition.
pub struct Beside {
    /// Token cost in the format of each kind of client.
    pub costs: [(Format, Cost); Format::ALL.len()],
    /// Its last calls.
    pub calls: Vec<PastCall>,
    /// Data that its plugin stores between calls, if any.
    pub kept: Option<Kept>,
}

/// Data that a plugin stores between calls.
#[derive(Serialize)]
pub struct Kept {
    /// Folder, relative to the workspace.
    pub folder: String,
    /// Size of the data.
    #[serde(flatten)]
    pub size: Size,
}

impl Beside {
    fn of(setup: &Setup, tool: &Tool, costs: &mut Costs) -> Self {
        Self {
            costs: Format::ALL.map(|format| (format, costs.of(tool, format))),
            calls: last_calls(setup, tool),
            kept: Kept::at(setup, &tool.origin.location),
        }
    }
}

impl Kept {
    /// Returns the data stored by the tools of this plugin. Errors are left to the call that needs the data.
    pub fn at(setup: &Setup, location: &str) -> Option<Self> {
        let root = setup.workspace.root();
        let values = Values::of(root, location);
        let size = values.size().ok().filter(|size| size.values > 0)?;
        let folder = values.folder();
        let below = folder.strip_prefix(root).unwrap_or(folder);
        Some(Self {
            folder: below.display().to_string(),
            size,
        })
    }
}

/// Describes a tool in full, in lines.
pub fn page(
    setup: &Setup,
    world: &World,
    tool: &Tool,
    costs: &mut Costs,
) -> Result<Vec<String>, Failure> {
    let beside = Beside::of(setup, tool, costs);
    Ok(info::lines(tool, &world.policy, &beside)?)
}

fn list(
    setup: &Setup,
    world: &World,
    printer: Printer,
    face: Face,
    costs: &mut Costs,
    format: Format,
) -> Result<(), Failure> {
    let shown = setup.settings.config.tools.show_token_costs;
    let costs = (shown || printer.is_json()).then_some(costs);
    printed::list(printer, face, &List::of(world, costs, format))
}

/// Returns the last calls of a tool. An unreadable audit log causes a warning, not an error.
fn last_calls(setup: &Setup, tool: &Tool) -> Vec<PastCall> {
    let calls = usage::last_calls(&setup.workspace, tool);
    calls.unwrap_or_else(|failure| {
        warn(failure);
        Vec::new()
    })
}

fn price(setup: &Setup) -> f64 {
    setup.settings.config.tools.token_price
}

/// Tools that are visible to models.
fn listed(world: &World) -> impl Iterator<Item = &Arc<Tool>> {
    let tools = world.registry.tools().iter();
    tools.filter(|tool| world.policy.is_listed(tool))
}

/// Finds a rule that blocks the tool.
fn refused(message: String) -> Failure {
    ToolError::new(Code::PolicyDenied, message).into()
}

#[cfg(test)]
pub mod tests;
