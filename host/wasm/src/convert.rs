//! Conversions between the contract's types and those of the core.

use serde_json::Value;

use mimir_core::backend::ToolAssessment;
use mimir_core::needs::{CommandNeed, DirectoryAccess, FileNeed, HostNeed, Needs, SecretNeed};
use mimir_core::outcome::{Content, ToolOutput};
use mimir_core::{
    CallContext, Decision, RiskLevel, ToolError, ToolErrorCode, ToolGroup, ToolHints, text,
};

use crate::agent_tool::AgentDescription;
use crate::bindings::{assessor, toolset, types};

/// Path of the workspace in a guest: the root, so that relative paths work.
pub(crate) const GUEST_ROOT: &str = "/";

/// Maximum length of a tool's own error code, in characters.
const MAX_CODE_LENGTH: usize = 64;

pub(crate) fn context(context: &CallContext) -> types::CallContext {
    types::CallContext {
        request_id: context.request_id.to_string(),
        session_id: context.session_id.clone(),
        conversation_id: context.conversation_id.clone(),
        user: context.user.clone(),
        workspace: GUEST_ROOT.to_owned(),
    }
}

/// Converts a tool's result. Fails if the structured content is not JSON.
pub(crate) fn output(output: types::Output) -> Result<ToolOutput, ToolError> {
    let structured = match output.structured {
        Some(text) => Some(serde_json::from_str::<Value>(&text).map_err(|error| {
            ToolError::new(
                ToolErrorCode::ExecutionError,
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
    Ok(ToolOutput {
        content: content.collect(),
        structured,
        exit_code: output.exit_code,
    })
}

pub(crate) fn output_to_guest(output: &ToolOutput) -> types::Output {
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

/// Converts a tool's failure.
///
/// Three codes are reserved for the host, because callers and exit codes rely on them: denied approval, timeout and
/// cancellation. A tool may return one of them if its own request timed out, or if a tool that it called was denied;
/// such a call has failed with `EXECUTION_ERROR`, and the returned code goes into the details. A timeout is restored
/// later if a request of the tool was answered (see [`reserved_code`]). Codes for failures that a tool detects itself
/// are accepted: `limit-exceeded` for a file that is too large or a full disk, `permission-denied` for a refusal of the
/// system.
pub(crate) fn error(error: types::Error) -> ToolError {
    use types::ErrorCode as E;
    let reserved = reserved_code(&error.code).map(|code| code.as_str().to_owned());
    let claimed = match &error.code {
        E::Other(name) => Some(text::visible(text::prefix(name, MAX_CODE_LENGTH))),
        _ => reserved,
    };
    let code = match error.code {
        E::InvalidInput => ToolErrorCode::InvalidInput,
        E::InvalidPath => ToolErrorCode::InvalidPath,
        E::NotFound => ToolErrorCode::NotFound,
        E::FileNotFound => ToolErrorCode::FileNotFound,
        E::AlreadyExists => ToolErrorCode::AlreadyExists,
        E::PermissionDenied => ToolErrorCode::PermissionDenied,
        E::LimitExceeded => ToolErrorCode::LimitExceeded,
        E::Network => ToolErrorCode::Network,
        E::Unavailable => ToolErrorCode::Unavailable,
        E::ApprovalDenied | E::Timeout | E::Cancelled | E::Execution | E::Other(_) => {
            ToolErrorCode::ExecutionError
        }
    };
    let details = error
        .details
        .map(|text| serde_json::from_str(&text).unwrap_or(Value::String(text)));
    let details = match (claimed, details) {
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
        remedies: Box::default(),
    }
}

/// Returns the code of a tool's failure if it is reserved for the host.
pub(crate) fn reserved_code(code: &types::ErrorCode) -> Option<ToolErrorCode> {
    match code {
        types::ErrorCode::ApprovalDenied => Some(ToolErrorCode::ApprovalDenied),
        types::ErrorCode::Timeout => Some(ToolErrorCode::Timeout),
        types::ErrorCode::Cancelled => Some(ToolErrorCode::Cancelled),
        _ => None,
    }
}

/// Returns the tool's own details of a converted failure whose code is [reserved](reserved_code).
pub(crate) fn own_details(error: &ToolError) -> Option<Value> {
    error.details.as_ref()?.get("details").cloned()
}

pub(crate) fn error_to_guest(error: &ToolError) -> types::Error {
    use types::ErrorCode as E;
    let code = match error.code {
        ToolErrorCode::InvalidInput => E::InvalidInput,
        ToolErrorCode::InvalidPath => E::InvalidPath,
        ToolErrorCode::NotFound => E::NotFound,
        ToolErrorCode::FileNotFound => E::FileNotFound,
        ToolErrorCode::AlreadyExists => E::AlreadyExists,
        ToolErrorCode::PermissionDenied | ToolErrorCode::PolicyDenied => E::PermissionDenied,
        ToolErrorCode::ApprovalDenied => E::ApprovalDenied,
        ToolErrorCode::Timeout => E::Timeout,
        ToolErrorCode::Cancelled => E::Cancelled,
        ToolErrorCode::LimitExceeded => E::LimitExceeded,
        ToolErrorCode::Network => E::Network,
        ToolErrorCode::ExecutionError | ToolErrorCode::Internal => E::Execution,
        ToolErrorCode::Unavailable => E::Unavailable,
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

pub(crate) fn risk(risk: types::Risk) -> RiskLevel {
    match risk {
        types::Risk::Low => RiskLevel::Low,
        types::Risk::Medium => RiskLevel::Medium,
        types::Risk::High => RiskLevel::High,
        types::Risk::Critical => RiskLevel::Critical,
    }
}

pub(crate) fn group(group: types::Group) -> ToolGroup {
    match group {
        types::Group::Runtime => ToolGroup::Runtime,
        types::Group::Fs => ToolGroup::Fs,
        types::Group::Net => ToolGroup::Net,
        types::Group::Browser => ToolGroup::Browser,
        types::Group::Memory => ToolGroup::Memory,
        types::Group::System => ToolGroup::System,
    }
}

pub(crate) fn hints(hints: types::Hints) -> ToolHints {
    ToolHints {
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
            types::FileAccess::Read => DirectoryAccess::Read,
            types::FileAccess::ReadWrite => DirectoryAccess::ReadWrite,
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
        // Set by the user in the settings; a tool cannot request these.
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

pub(crate) fn assessment(assessment: assessor::Assessment) -> ToolAssessment {
    ToolAssessment {
        approval: approval(assessment.approval),
        risk: risk(assessment.risk),
        summary: assessment.summary,
        risks: assessment.risks,
        scope: None,
        each_time: false,
    }
}

/// The description of a plugin as received from the guest.
pub(crate) type ToolsetManifest = toolset::Manifest;

/// Returns the manifest of a tool of the world `near:agent`, with a name that the host replaces.
pub(crate) fn agent_manifest(described: AgentDescription) -> ToolsetManifest {
    let definition = types::Definition {
        name: "execute".to_owned(),
        title: None,
        description: described.description,
        group: types::Group::System,
        input_schema: described.schema,
        output_schema: None,
        approval: types::Approval::Allow,
        risk: types::Risk::Low,
        hints: types::Hints::empty(),
        needs: types::Needs {
            files: Vec::new(),
            hosts: Vec::new(),
            commands: Vec::new(),
            secrets: Vec::new(),
            variables: Vec::new(),
            tools: Vec::new(),
            model: false,
        },
    };
    ToolsetManifest {
        name: String::new(),
        version: String::new(),
        description: String::new(),
        license: None,
        homepage: None,
        tools: vec![definition],
    }
}
