//! Authoring of team bundles: the folder that an administrator keeps in version control, proposals of tools, approvals
//! of reviewers, and publishing.
//!
//! Nothing in a proposal is believed: digests, needs, imports and texts are read again from the component. Only test
//! results are the proposer's own statement, and are marked as such.

mod approval_record;
mod authoring_folder;
mod bundle_difference;
mod content_guides;
mod folder_content;
mod key_names;
mod manifest_text;
mod plugin_inspection;
mod proposal;
mod proposal_page;
mod publication;
mod publish_target;

pub use approval_record::{ReviewDecision, ReviewKeys, ReviewRecord, SignedReview};
pub use authoring_folder::{AuthoredTool, AuthoringFolder, AuthoringManifest, MANIFEST};
pub use bundle_difference::{BundleDifference, granted_rights};
pub use key_names::KeyNames;
pub use plugin_inspection::InspectedPlugin;
pub use proposal::{
    PreviousBuild, ProposalFiles, ProposalSource, ProposedTests, ProposedTool, ToolProposal,
    bundled_file_name,
};
pub use proposal_page::proposal_page;
pub use publication::{LastPublication, Publication, PublicationOptions, publish_command};
pub use publish_target::{PublishTarget, PublishedBundle};
