//! The command in the arguments of a call. It is parsed once; the parsed form is used from the first check of the
//! arguments to the sandbox.

use std::sync::{Arc, OnceLock};

use serde_json::Value;

use crate::command::{CommandRequest, CommandRunner, ParsedProgram};
use crate::error::ToolError;
use crate::policy;
use crate::tool::Tool;

/// A parsed program, or the error of parsing it.
pub(super) type ParsedText = Result<Arc<ParsedProgram>, ToolError>;

/// The command in the arguments of a call.
pub(super) struct CallCommand {
    pub(super) request: CommandRequest,
    parsed: OnceLock<ParsedText>,
}

impl CallCommand {
    /// Returns the command that the arguments name, if any.
    pub(super) fn from_arguments(tool: &Tool, arguments: &Value) -> Option<Arc<Self>> {
        let request = policy::command_in_arguments(arguments)
            .or_else(|| tool.backend.command_in_arguments(arguments))?;
        let parsed = OnceLock::new();
        Some(Arc::new(Self { request, parsed }))
    }

    /// Returns the parsed program, which is parsed at the first call.
    pub(super) fn parsed(&self, runner: &dyn CommandRunner) -> &ParsedText {
        let parse = || runner.parse_program(&self.request.program).map(Arc::new);
        self.parsed.get_or_init(parse)
    }
}
