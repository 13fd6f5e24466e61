//! The team that a tool comes from, or that enforces it.

use mimir::setup::HostSetup;
use mimir::teams::TeamInForce;
use mimir_core::Tool;
use mimir_core::grants::SourceSigner;
use mimir_core::text::visible;
use serde::Serialize;

/// The origin of a tool in the bundle of a team.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TeamOrigin {
    /// The name of the team.
    pub name: String,
    /// The id of the team.
    pub org_id: String,
    /// True if users and projects cannot disable the tool.
    pub enforced: bool,
    /// True if an administrator requires the team.
    pub required: bool,
    /// The version of the bundle.
    pub version: u64,
    /// The id of the key that signed the bundle.
    pub bundle_signer: String,
    /// The reference that the team took the component from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// The signer of the component in its registry, whom the team has checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signer: Option<SourceSigner>,
    /// True if the team has revoked the key of the component's signer.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub signer_revoked: bool,
}

impl TeamOrigin {
    /// Returns the origin of a tool; `None` if it does not come from a team.
    pub fn of_tool(setup: &HostSetup, tool: &Tool) -> Option<Self> {
        let team = team_at(setup, &tool.origin.location)?;
        let file = tool.origin.location.strip_prefix(&team.location_prefix());
        let mut tools = team.bundle.tools.iter();
        let bundled = tools.find(|bundled| Some(bundled.file.as_str()) == file);
        Some(Self {
            name: team.bundle.team.name.clone(),
            org_id: team.membership.org_id.clone(),
            enforced: tool.enforced,
            required: team.membership.is_required(),
            version: team.bundle.version,
            bundle_signer: team.signer_id.clone(),
            reference: bundled.and_then(|bundled| bundled.reference.clone()),
            signer_revoked: bundled
                .and_then(|bundled| bundled.signer.as_ref())
                .is_some_and(|signer| team.bundle.revokes(signer)),
            signer: bundled.and_then(|bundled| bundled.signer.clone()),
        })
    }

    /// Returns the fields of `tools info`.
    pub fn fields(&self) -> Vec<(&'static str, String)> {
        let required = if self.required {
            ", required on this machine"
        } else {
            ""
        };
        let team = format!(
            "{} ({}), bundle {} signed by key {}{required}",
            visible(&self.name),
            visible(&self.org_id),
            self.version,
            self.bundle_signer
        );
        let enforced = if self.enforced {
            "Yes: users and projects cannot disable it"
        } else {
            "No"
        };
        let mut fields = vec![("Team:", team), ("Enforced:", enforced.to_owned())];
        if let Some(reference) = &self.reference {
            fields.push(("Team's source:", visible(reference)));
        }
        if let Some(signer) = &self.signer {
            let signer = visible(&signer.to_string());
            let state = match self.signer_revoked {
                true => "its key is revoked by the team",
                false => "checked by the team",
            };
            fields.push(("Signer:", format!("{signer} ({state})")));
        }
        fields
    }

    /// Returns how to get rid of the tool although the team enforces it.
    pub fn remedy_for_enforced(&self) -> String {
        let (name, org_id) = (visible(&self.name), visible(&self.org_id));
        let ask = format!(
            "the team {name} ({org_id}) enforces it: ask the administrator of the team to publish a bundle that does not"
        );
        if self.required {
            ask
        } else {
            format!("{ask}, or leave the team with `mimir team leave {org_id}`")
        }
    }
}

/// Returns the team whose tools have locations that begin as this one.
pub fn team_at<'a>(setup: &'a HostSetup, location: &str) -> Option<&'a TeamInForce> {
    let mut teams = setup.settings.teams.iter();
    let team = teams.find(|team| location.starts_with(&team.location_prefix()));
    team.map(AsRef::as_ref)
}
