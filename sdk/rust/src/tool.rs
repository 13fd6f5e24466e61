//! A tool: a type whose fields are the arguments and whose doc comment is the description.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use crate::bindings::assessor as wit_assessor;
use crate::bindings::mimir::tool::types as wit;
use crate::context::Context;
use crate::error::Result;
use crate::needs::Needs;
use crate::output::IntoOutput;
use crate::schema;

/// A tool. The fields of the type are its arguments, the doc comment is its description.
pub trait Tool: DeserializeOwned + JsonSchema {
    /// Type of the result, such as `String`, [`Json`](crate::Json) or [`Output`](crate::Output).
    type Output: IntoOutput;

    /// Name of the tool; `None` is the name of the type in snake_case.
    const NAME: Option<&'static str> = None;
    /// Title to display.
    const TITLE: Option<&'static str> = None;
    /// Group of the tool.
    const GROUP: Group = Group::System;
    /// Decision if no rule matches. `None` allows a tool without needs and asks for any other.
    const APPROVAL: Option<Approval> = None;
    /// Risk of a wrong call.
    const RISK: Risk = Risk::Low;
    /// Declared effects.
    const HINTS: Hints = Hints::NONE;

    /// Returns the declared needs. Declaring a need grants nothing.
    fn needs() -> Needs {
        Needs::none()
    }

    /// Runs the call.
    fn run(self, cx: &Context) -> Result<Self::Output>;
}

/// A tool that assesses its own calls before they run. An assessor can read the granted files and has no other access.
///
/// List it after `assessed` in [`export!`](crate::export!).
pub trait Assess: Tool {
    /// Describes the effects of this call.
    fn assess(&self, cx: &Context) -> Assessment;
}

/// Group of a tool; policies can address a whole group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// Runs programs or code.
    Runtime,
    /// Files and directories.
    Fs,
    /// The network.
    Net,
    /// A web browser.
    Browser,
    /// Notes stored between sessions.
    Memory,
    /// Anything else.
    System,
}

/// Decision on a call if no rule matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Approval {
    /// The call runs.
    Allow,
    /// A person is asked.
    Ask,
    /// The call doesn't run.
    Deny,
}

/// Risk of a wrong call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Risk {
    /// Causes no loss.
    Low,
    /// Causes a loss that can be undone.
    Medium,
    /// Causes a permanent loss.
    High,
    /// Causes damage outside the workspace.
    Critical,
}

/// Declared effects of a tool. The host uses them only to make decisions stricter.
///
/// ```
/// # use mimir_sdk::Hints;
/// const HINTS: Hints = Hints::NONE.read_only().idempotent();
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Hints {
    read_only: bool,
    destructive: bool,
    idempotent: bool,
    open_world: bool,
}

impl Hints {
    /// No declared effects.
    pub const NONE: Self = Self {
        read_only: false,
        destructive: false,
        idempotent: false,
        open_world: false,
    };

    /// Declares that the tool changes nothing.
    #[must_use]
    pub const fn read_only(mut self) -> Self {
        self.read_only = true;
        self
    }

    /// Declares that the tool may destroy data.
    #[must_use]
    pub const fn destructive(mut self) -> Self {
        self.destructive = true;
        self
    }

    /// Declares that a second call with the same arguments has no further effect.
    #[must_use]
    pub const fn idempotent(mut self) -> Self {
        self.idempotent = true;
        self
    }

    /// Declares that the tool reaches beyond the workspace.
    #[must_use]
    pub const fn open_world(mut self) -> Self {
        self.open_world = true;
        self
    }
}

/// A tool's assessment of one call, for the policy and for the person who approves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assessment {
    approval: Approval,
    risk: Risk,
    summary: String,
    risks: Vec<String>,
}

impl Assessment {
    /// Suggests that the call may run. The summary describes the call to the person.
    pub fn allow(summary: impl Into<String>) -> Self {
        Self::new(Approval::Allow, Risk::Low, summary)
    }

    /// Suggests to ask a person.
    pub fn ask(summary: impl Into<String>) -> Self {
        Self::new(Approval::Ask, Risk::Medium, summary)
    }

    /// Suggests to deny the call.
    pub fn deny(summary: impl Into<String>) -> Self {
        Self::new(Approval::Deny, Risk::High, summary)
    }

    fn new(approval: Approval, risk: Risk, summary: impl Into<String>) -> Self {
        Self {
            approval,
            risk,
            summary: summary.into(),
            risks: Vec::new(),
        }
    }

    /// Sets the risk of this call.
    #[must_use]
    pub fn risk(mut self, risk: Risk) -> Self {
        self.risk = risk;
        self
    }

    /// Adds a line for the person about a possible consequence.
    #[must_use]
    pub fn because(mut self, line: impl Into<String>) -> Self {
        self.risks.push(line.into());
        self
    }

    /// The suggested decision.
    pub fn approval(&self) -> Approval {
        self.approval
    }

    /// The summary for the person.
    pub fn summary(&self) -> &str {
        &self.summary
    }

    /// The possible consequences, one per line.
    pub fn risks(&self) -> &[String] {
        &self.risks
    }
}

/// Returns the name of a tool.
pub fn name<T: Tool>() -> String {
    T::NAME.map_or_else(|| schema::snake_case(&T::schema_name()), str::to_owned)
}

/// Returns the declared decision for all calls of a tool, or the default that follows from its needs.
pub(crate) fn approval<T: Tool>() -> Approval {
    T::APPROVAL.unwrap_or(if T::needs().is_empty() {
        Approval::Allow
    } else {
        Approval::Ask
    })
}

/// Returns the definition of a tool for the host.
pub(crate) fn definition<T: Tool>() -> wit::Definition {
    let (input_schema, description) = schema::input::<T>();
    wit::Definition {
        name: name::<T>(),
        title: T::TITLE.map(str::to_owned),
        description,
        group: T::GROUP.into(),
        input_schema: input_schema.to_string(),
        output_schema: T::Output::schema().map(|schema| schema.to_string()),
        approval: approval::<T>().into(),
        risk: T::RISK.into(),
        hints: T::HINTS.into(),
        needs: T::needs().into(),
    }
}

impl From<Group> for wit::Group {
    fn from(group: Group) -> Self {
        match group {
            Group::Runtime => Self::Runtime,
            Group::Fs => Self::Fs,
            Group::Net => Self::Net,
            Group::Browser => Self::Browser,
            Group::Memory => Self::Memory,
            Group::System => Self::System,
        }
    }
}

impl From<Approval> for wit::Approval {
    fn from(approval: Approval) -> Self {
        match approval {
            Approval::Allow => Self::Allow,
            Approval::Ask => Self::Ask,
            Approval::Deny => Self::Deny,
        }
    }
}

impl From<Risk> for wit::Risk {
    fn from(risk: Risk) -> Self {
        match risk {
            Risk::Low => Self::Low,
            Risk::Medium => Self::Medium,
            Risk::High => Self::High,
            Risk::Critical => Self::Critical,
        }
    }
}

impl From<Hints> for wit::Hints {
    fn from(hints: Hints) -> Self {
        let mut flags = Self::empty();
        flags.set(Self::READ_ONLY, hints.read_only);
        flags.set(Self::DESTRUCTIVE, hints.destructive);
        flags.set(Self::IDEMPOTENT, hints.idempotent);
        flags.set(Self::OPEN_WORLD, hints.open_world);
        flags
    }
}

impl From<Assessment> for wit_assessor::Assessment {
    fn from(assessment: Assessment) -> Self {
        Self {
            approval: assessment.approval.into(),
            risk: assessment.risk.into(),
            summary: assessment.summary,
            risks: assessment.risks,
        }
    }
}
