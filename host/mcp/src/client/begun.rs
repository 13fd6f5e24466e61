//! How a server answers when a conversation begins: what is wrong about the answer, and whether its version is known.
//!
//! Never here: the conversation.

use mimir_core::{Code, ToolError};
use rmcp::model::{DiscoverResult, InitializeResult, ProtocolVersion, ServerResult};
use rmcp::service::ClientInitializeError;
use rmcp::{Peer, RoleClient};
use serde::de::DeserializeOwned;

use super::link::{End, Era, Unbegun};

/// Characters of a version in a message: theirs are dates.
const VERSION_MOST: usize = 40;

/// Why a conversation did not begin.
pub(super) fn words(error: &ClientInitializeError, era: Era) -> String {
    let method = match era {
        Era::Handshake => "initialize",
        Era::Discovery => "server/discover",
    };
    match error {
        ClientInitializeError::ExpectedInitResult(Some(result)) => {
            let why = match era {
                Era::Handshake => why::<InitializeResult>(result),
                Era::Discovery => why::<DiscoverResult>(result),
            };
            let why = why.unwrap_or_else(|| "it is that of another request".to_owned());
            format!("its answer to `{method}` is none: {why}")
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
            let theirs: Vec<&str> = server_supported
                .iter()
                .map(ProtocolVersion::as_str)
                .collect();
            format!(
                "of the versions that it speaks without a handshake, mimir knows none: {}",
                theirs.join(", ")
            )
        }
        other => other.to_string(),
    }
}

/// Why this result is not of the kind that was asked for.
fn why<T: DeserializeOwned>(result: &ServerResult) -> Option<String> {
    let value = serde_json::to_value(result).ok()?;
    serde_json::from_value::<T>(value)
        .err()
        .map(|error| error.to_string())
}

/// Whether the server speaks a version that is known: with one that speaks another nobody knows what is meant.
pub(super) fn known(peer: &Peer<RoleClient>, era: Era, end: &End) -> Result<(), Unbegun> {
    let Some(info) = peer.peer_info() else {
        return Ok(());
    };
    let theirs = &info.protocol_version;
    let is_known = ProtocolVersion::KNOWN_VERSIONS.contains(theirs);
    let of_other_era = era == Era::Handshake && !theirs.has_initialize();
    if is_known && !of_other_era {
        return Ok(());
    }
    let theirs = end.words(theirs.as_str(), VERSION_MOST);
    let ours = ProtocolVersion::LATEST_WITH_INITIALIZE;
    let server = &end.server;
    let what = match is_known {
        true => "which has no handshake, in the answer to one",
        false => "which mimir does not know",
    };
    let message = format!(
        "the server `{server}` speaks the version `{theirs}` of the protocol, {what}; it was asked for `{ours}`"
    );
    let ways = [
        format!("a version of the server `{server}` that speaks `{ours}` or an older one"),
        "a newer mimir, if that version is out".to_owned(),
    ];
    let error = ToolError::new(Code::Unavailable, message).with_way_out(ways);
    Err(match is_known {
        // It may do without.
        true => Unbegun::Refused(error),
        false => Unbegun::Failed(error),
    })
}
