//! A command that a tool asks for in the middle of its call.

use crate::command::Command;

/// A command that every gate has let through. Only the effect gate makes one.
#[derive(Debug)]
pub struct Permitted {
    command: Command,
    session: String,
}

impl Permitted {
    /// What is to run.
    pub fn command(&self) -> &Command {
        &self.command
    }

    /// The session whose commands it belongs to.
    pub fn session(&self) -> &str {
        &self.session
    }
}
