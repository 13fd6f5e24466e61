//! Coding agents on this machine: finding them, adding mimir to their config files, and taking that back.
//!
//! Nothing here prints or asks. A front end makes a [`SetupPlan`], shows its diffs, and applies it once the person has
//! agreed; [`SetupUndo`] is the same for the way back. Only files that a plan names are written.

mod agent_environment;
mod agent_file;
mod agent_kind;
mod config_text;
mod json_text;
mod line_diff;
mod setup_error;
mod setup_plan;
mod setup_record;
mod setup_undo;
mod toml_text;
mod yaml_text;

pub use agent_environment::{AgentEnvironment, AgentEvidence};
pub use agent_kind::{AgentKind, ServeCommand};
pub use line_diff::unified_diff;
pub use setup_error::AgentSetupError;
pub use setup_plan::{AgentPlan, FileChange, SetupPlan};
pub use setup_record::{
    CreatedPath, FolderListing, LockedSetupRecords, SetupRecord, SetupRecordStore, SetupRecords,
};
pub use setup_undo::{SetupUndo, UndoneChange, UndoneFile};
