//! Signed bundles of a team: format, keys and limits. A bundle is a signed envelope and the blobs that it names, in a
//! registry or a folder.

mod acceptance;
mod bundle;
mod bundle_checks;
mod team_history;
mod team_record;

pub use acceptance::{AcceptedBundle, TeamError};
pub use bundle::{
    BLOB_MEDIA_TYPE, BUNDLE_ARTIFACT_TYPE, BUNDLE_ENVELOPE_FILE, BUNDLE_ENVELOPE_MEDIA_TYPE,
    BUNDLE_PAYLOAD_TYPE, BundledFile, BundledTool, MAX_BLOB_SIZE, MAX_ENVELOPE_SIZE, TeamBundle,
    TeamIdentity, blob_path, expires_soon,
};
pub use bundle_checks::{BundleError, check_org_id};
pub use team_history::TeamHistory;
pub use team_record::{RECORD_KEY_LENGTH, TeamFault, TeamRecord, new_record_key};
