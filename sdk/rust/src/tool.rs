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
    /// What a call hands back: text, [`Json`](crate::Json), [`Output`](crate::Output).
    type Output: IntoOutput;

    /// The name, where the type's own in snake_case isn't it.
    const NAME: Option<&'static str> = None;
    /// A name for people.
    const TITLE: Option<&'static str> = None;
    /// What kind of thing it does.
    const GROUP: Group = Group::System;
    /// What happens when no rule says otherwise. By default a tool that needs nothing is
    /// allowed and any other asks.
    const APPROVAL: Option<Approval> = None;
    /// How bad a wrong call could be.
    const RISK: Risk = Risk::Low;
    /// What it says about its effects.
    const HINTS: Hints = Hints::NONE;

    /// What it asks for. Asking grants nothing.
    fn needs() -> Needs {
        Needs::none()
    }

    /// Does it.
    fn run(self, cx: &Context) -> Result<Self::Output>;
}

/// A tool that judges its own calls before they run, with read-only files and nothing else.
///
/// List it after `assessed` in [`export!`](crate::export!).
pub trait Assess: Tool {
    /// What this call would do.
    fn assess(&self, cx: &Context) -> Assessment;
}

/// What kind of thing a tool does; policies can address a whole group.
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
    /// Notes kept between sessions.
    Memory,
    /// Anything else.
    System,
}

/// What happens when a call arrives and no rule says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Approval {
    /// It runs.
    Allow,
    /// A person is asked.
    Ask,
    /// It doesn't run.
    Deny,
}

/// How bad a wrong call could be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Risk {
    /// Nothing is lost.
    Low,
    /// Something is lost that can be had again.
    Medium,
    /// Something is lost for good.
    High,
    /// More than the workspace is at stake.
    Critical,
}

/// Statements about a tool's effects. The host uses them only to tighten.
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
    /// Nothing is said.
    pub const NONE: Self = Self {
        read_only: false,
        destructive: false,
        idempotent: false,
        open_world: false,
    };

    /// It changes nothing.
    #[must_use]
    pub const fn read_only(mut self) -> Self {
        self.read_only = true;
        self
    }

    /// It may destroy something.
    #[must_use]
    pub const fn destructive(mut self) -> Self {
        self.destructive = true;
        self
    }

    /// A second call with the same arguments changes nothing more.
    #[must_use]
    pub const fn idempotent(mut self) -> Self {
        self.idempotent = true;
        self
    }

    /// It reaches things outside the workspace.
    #[must_use]
    pub const fn open_world(mut self) -> Self {
        self.open_world = true;
        self
    }
}

/// A tool's judgement of one call, for the policy and for the person who is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assessment {
    approval: Approval,
    risk: Risk,
    summary: String,
    risks: Vec<String>,
}

impl Assessment {
    /// The call may run.
    pub fn allow(summary: impl Into<String>) -> Self {
        Self::new(Approval::Allow, Risk::Low, summary)
    }

    /// A person should be asked.
    pub fn ask(summary: impl Into<String>) -> Self {
        Self::new(Approval::Ask, Risk::Medium, summary)
    }

    /// The call should not run.
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

    /// How bad this call could be.
    #[must_use]
    pub fn risk(mut self, risk: Risk) -> Self {
        self.risk = risk;
        self
    }

    /// One thing that could go wrong, as a line for the person.
    #[must_use]
    pub fn because(mut self, line: impl Into<String>) -> Self {
        self.risks.push(line.into());
        self
    }

    /// What should happen.
    pub fn approval(&self) -> Approval {
        self.approval
    }

    /// The line for the person.
    pub fn summary(&self) -> &str {
        &self.summary
    }

    /// What could go wrong, line by line.
    pub fn risks(&self) -> &[String] {
        &self.risks
    }
}

/// The name that a tool is called by.
pub fn name<T: Tool>() -> String {
    T::NAME.map_or_else(|| schema::snake_case(&T::schema_name()), str::to_owned)
}

/// What a tool's own declaration says about any call of it.
pub(crate) fn approval<T: Tool>() -> Approval {
    T::APPROVAL.unwrap_or(if T::needs().is_empty() {
        Approval::Allow
    } else {
        Approval::Ask
    })
}

/// Everything that the host learns about a tool.
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
