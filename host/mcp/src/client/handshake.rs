//! Checks of a server's handshake: the protocol version, and the explanation of a failure.
//!
//! Out of scope: the connection after the handshake.

use mimir_core::ToolError;
use rmcp::model::{DiscoverResult, InitializeResult, ProtocolVersion, ServerResult};
use rmcp::service::ClientInitializeError;
use rmcp::{Peer, RoleClient};
use serde::de::DeserializeOwned;

use super::connection::{CloseReason, ConnectError, ProtocolGeneration};

/// Maximum length of a version in a message, in characters: valid versions are dates.
const MAX_VERSION_CHARS: usize = 40;

/// Describes why a handshake failed.
pub(super) fn handshake_failure(
    error: &ClientInitializeError,
    generation: ProtocolGeneration,
) -> String {
    let method = match generation {
        ProtocolGeneration::Handshake => "initialize",
        ProtocolGeneration::Discovery => "server/discover",
    };
    match error {
        ClientInitializeError::ExpectedInitResult(Some(result)) => {
            let why = match generation {
                ProtocolGeneration::Handshake => parse_error::<InitializeResult>(result),
                ProtocolGeneration::Discovery => parse_error::<DiscoverResult>(result),
            };
            let why = why.unwrap_or_else(|| "it belongs to another request".to_owned());
            format!("its answer to `{method}` is not valid: {why}")
        }
        ClientInitializeError::ExpectedInitResponse(Some(_)) => {
            format!("it sends another message before it answers `{method}`")
        }
        ClientInitializeError::ExpectedInitResult(None)
        | ClientInitializeError::ExpectedInitResponse(None) => {
            format!("it does not answer `{method}`")
        }
        ClientInitializeError::NoCompatibleProtocolVersion {
            server_supported, ..
        } => {
            let offered_versions: Vec<&str> = server_supported
                .iter()
                .map(ProtocolVersion::as_str)
                .collect();
            format!(
                "mimir supports none of the versions that it offers without a handshake: {}",
                offered_versions.join(", ")
            )
        }
        other => other.to_string(),
    }
}

/// Returns the reason why a result does not parse as `T`.
fn parse_error<T: DeserializeOwned>(result: &ServerResult) -> Option<String> {
    let value = serde_json::to_value(result).ok()?;
    serde_json::from_value::<T>(value)
        .err()
        .map(|error| error.to_string())
}

/// Checks that mimir supports the server's protocol version: in an unknown version, messages may have another meaning.
pub(super) fn check_protocol_version(
    peer: &Peer<RoleClient>,
    generation: ProtocolGeneration,
    close_reason: &CloseReason,
) -> Result<(), ConnectError> {
    let Some(info) = peer.peer_info() else {
        return Ok(());
    };
    let server_version = &info.protocol_version;
    let is_known = ProtocolVersion::KNOWN_VERSIONS.contains(server_version);
    let is_other_generation =
        generation == ProtocolGeneration::Handshake && !server_version.has_initialize();
    if is_known && !is_other_generation {
        return Ok(());
    }
    let server_version = close_reason.mask_text(server_version.as_str(), MAX_VERSION_CHARS);
    let requested = ProtocolVersion::LATEST_WITH_INITIALIZE;
    let server = &close_reason.server;
    let reason = if is_known {
        "which does not use a handshake, in its response to a handshake"
    } else {
        "which mimir does not support"
    };
    let message = format!(
        "the server `{server}` uses the protocol version `{server_version}`, {reason}: mimir requested `{requested}`"
    );
    let remedies = [
        format!(
            "use a version of the server `{server}` that supports `{requested}` or an older one"
        ),
        "update mimir, if that version has been released".to_owned(),
    ];
    let error = ToolError::unavailable(message).with_remedies(remedies);
    Err(if is_known {
        // The server may work with the other protocol generation.
        ConnectError::Refused(error)
    } else {
        ConnectError::Failed(error)
    })
}
