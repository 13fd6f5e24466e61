//! Conversions between the contract's types and those of the core.

use serde_json::Value;

use mimir_core::backend::Assessment;
use mimir_core::needs::{Access, CommandNeed, FileNeed, HostNeed, Needs, SecretNeed};
use mimir_core::outcome::{Content, Output};
use mimir_core::{CallContext, Code, Decision, Group, Hints, Risk, ToolError, text};

use crate::bindings::{assessor, toolset, types};

/// Path of the workspace in a guest: the root, so that relative paths just work.
pub(crate) const GUEST_ROOT: &str = "/";

/// Maximum length of a tool's own error kind, in characters.
const NAME_MAX: usize = 64;

pub(crate) fn context(context: &CallContext) -> types::CallContext {
    types::CallContext {
        request_id: context.request_id.to_string(),
        session_id: context.session_id.clone(),
        conversation_id: context.conversation_id.clone(),
        user: context.user.clone(),
        workspace: GUEST_ROOT.to_owned(),
    }
}

/// Converts a tool's result. Structured content is parsed here, after its size was limited.
pub(crate) fn output(output: types::Output) -> Result<Output, ToolError> {
    let structured = match output.structured {
        Some(text) => Some(serde_json::from_str::<Value>(&text).map_err(|error| {
            ToolError::new(
                Code::ExecutionError,
                format!("the tool's structured result is not JSON: {error}"),
            )
        })?),
        None => None,
    };
    let content = output.content.into_iter().map(|part| match part {
        types::Content::Text(text) => Content::Text { text },
        types::Content::Image(media) => Content::Image {
            data: media.data,
            mime_type: media.mime_type,
        },
        types::Content::Audio(media) => Content::Audio {
            data: media.data,
            mime_type: media.mime_type,
        },
        types::Content::File(file) => Content::File {
            data: file.data,
            mime_type: file.mime_type,
            name: file.name,
        },
    });
    Ok(Output {
        content: content.collect(),
        structured,
        exit_code: output.exit_code,
    })
}

pub(crate) fn output_to_guest(output: &Output) -> types::Output {
    let content = output.content.iter().map(|part| match part {
        Content::Text { text } => types::Content::Text(text.clone()),
        Content::Image { data, mime_type } => types::Content::Image(types::Media {
            mime_type: mime_type.clone(),
            data: data.clone(),
        }),
        Content::Audio { data, mime_type } => types::Content::Audio(types::Media {
            mime_type: mime_type.clone(),
            data: data.clone(),
        }),
        Content::File {
            data,
            mime_type,
            name,
        } => types::Content::File(types::Artifact {
            name: name.clone(),
            mime_type: mime_type.clone(),
            data: data.clone(),
        }),
    });
    types::Output {
        content: content.collect(),
        structured: output.structured.as_ref().map(Value::to_string),
        exit_code: output.exit_code,
    }
}

/// Converts a tool's failure. A tool cannot claim outcomes that only mimir decides: a refusal by a person or a rule,
/// the host's timeout, and cancellation by the caller, on which callers and exit codes rely. A tool that reports one
/// of these (because its own request timed out, or a tool that it called was denied) has failed, and its claim goes
/// into the details; a timeout of its own request is accepted if there was one (see [`details_of`]). Failures that a
/// tool detects itself are accepted: a file that is too large or a full disk is `limit-exceeded`, and a refusal of the
/// system is `permission-denied`.
pub(crate) fn error(error: types::Error) -> ToolError {
    use types::ErrorCode as E;
    let mut said = None;
    let theirs = |code: Code, said: &mut Option<String>| {
        *said = Some(code.as_str().to_owned());
        Code::ExecutionError
    };
    let code = match error.code {
        E::InvalidInput => Code::InvalidInput,
        E::InvalidPath => Code::InvalidPath,
        E::NotFound => Code::NotFound,
        E::FileNotFound => Code::FileNotFound,
        E::AlreadyExists => Code::AlreadyExists,
        E::PermissionDenied => Code::PermissionDenied,
        E::ApprovalDenied => theirs(Code::ApprovalDenied, &mut said),
        E::Timeout => theirs(Code::Timeout, &mut said),
        E::Cancelled => theirs(Code::Cancelled, &mut said),
        E::LimitExceeded => Code::LimitExceeded,
        E::Network => Code::Network,
        E::Execution => Code::ExecutionError,
        E::Unavailable => Code::Unavailable,
        E::Other(name) => {
            said = Some(text::visible(text::prefix(&name, NAME_MAX)));
            Code::ExecutionError
        }
    };
    let details = error
        .details
        .map(|text| serde_json::from_str(&text).unwrap_or(Value::String(text)));
    let details = match (said, details) {
        (None, details) => details,
        (Some(name), None) => Some(serde_json::json!({ "code": name })),
        (Some(name), Some(details)) => {
            Some(serde_json::json!({ "code": name, "details": details }))
        }
    };
    ToolError {
        code,
        message: error.message,
        details,
        way_out: Box::default(),
    }
}

/// Returns the tool's details of a failure for which it claimed this reserved code, or `None` if it claimed another
/// one.
pub(crate) fn details_of(error: &ToolError, code: Code) -> Option<Option<Value>> {
    let said = error.details.as_ref()?.as_object()?;
    let is = error.code == Code::ExecutionError
        && said.get("code").and_then(Value::as_str) == Some(code.as_str());
    is.then(|| said.get("details").cloned())
}

pub(crate) fn error_to_guest(error: &ToolError) -> types::Error {
    use types::ErrorCode as E;
    let code = match error.code {
        Code::InvalidInput => E::InvalidInput,
        Code::InvalidPath => E::InvalidPath,
        Code::NotFound => E::NotFound,
        Code::FileNotFound => E::FileNotFound,
        Code::AlreadyExists => E::AlreadyExists,
        Code::PermissionDenied | Code::PolicyDenied => E::PermissionDenied,
        Code::ApprovalDenied => E::ApprovalDenied,
        Code::Timeout => E::Timeout,
        Code::Cancelled => E::Cancelled,
        Code::LimitExceeded => E::LimitExceeded,
        Code::Network => E::Network,
        Code::ExecutionError | Code::Internal => E::Execution,
        Code::Unavailable => E::Unavailable,
    };
    types::Error {
        code,
        message: error.message.clone(),
        details: error.details.as_ref().map(Value::to_string),
    }
}

pub(crate) fn approval(approval: types::Approval) -> Decision {
    match approval {
        types::Approval::Allow => Decision::Allow,
        types::Approval::Ask => Decision::Ask,
        types::Approval::Deny => Decision::Deny,
    }
}

pub(crate) fn risk(risk: types::Risk) -> Risk {
    match risk {
        types::Risk::Low => Risk::Low,
        types::Risk::Medium => Risk::Medium,
        types::Risk::High => Risk::High,
        types::Risk::Critical => Risk::Critical,
    }
}

pub(crate) fn group(group: types::Group) -> Group {
    match group {
        types::Group::Runtime => Group::Runtime,
        types::Group::Fs => Group::Fs,
        types::Group::Net => Group::Net,
        types::Group::Browser => Group::Browser,
        types::Group::Memory => Group::Memory,
        types::Group::System => Group::System,
    }
}

pub(crate) fn hints(hints: types::Hints) -> Hints {
    Hints {
        read_only: hints.contains(types::Hints::READ_ONLY),
        destructive: hints.contains(types::Hints::DESTRUCTIVE),
        idempotent: hints.contains(types::Hints::IDEMPOTENT),
        open_world: hints.contains(types::Hints::OPEN_WORLD),
    }
}

pub(crate) fn needs(needs: types::Needs) -> Needs {
    let files = needs.files.into_iter().map(|need| FileNeed {
        path: need.path,
        access: match need.access {
            types::FileAccess::Read => Access::Read,
            types::FileAccess::ReadWrite => Access::ReadWrite,
        },
        reason: need.reason,
    });
    let hosts = needs.hosts.into_iter().map(|need| HostNeed {
        host: need.host,
        methods: need.methods,
        reason: need.reason,
    });
    let commands = needs.commands.into_iter().map(|need| CommandNeed {
        pattern: need.pattern,
        reason: need.reason,
    });
    let secrets = needs.secrets.into_iter().map(|need| SecretNeed {
        name: need.name,
        host: need.host,
        header: need.header,
        reason: need.reason,
    });
    Needs {
        // Set by a person, and never requested.
        environment: std::collections::BTreeMap::new(),
        config: std::collections::BTreeMap::new(),
        files: files.collect(),
        hosts: hosts.collect(),
        commands: commands.collect(),
        secrets: secrets.collect(),
        variables: needs.variables,
        tools: needs.tools,
        model: needs.model,
    }
}

pub(crate) fn assessment(assessment: assessor::Assessment) -> Assessment {
    Assessment {
        approval: approval(assessment.approval),
        risk: risk(assessment.risk),
        summary: assessment.summary,
        risks: assessment.risks,
    }
}

/// The description of a plugin as received from the guest.
pub(crate) type Manifest = toolset::Manifest;
