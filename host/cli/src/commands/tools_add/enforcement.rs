//! Rules of a team or of the user about the tools of a workspace (`enforcement.disableLocalTools` and
//! `enforcement.requireSignature`). They are checked before anything is fetched or built.

use mimir_core::text::visible;
use mimir_core::{ToolError, ToolErrorCode};

use mimir::setup::HostSetup;

/// Key and file of the rule that keeps a component from being loaded, if there is one.
struct EnforcedRule {
    key: &'static str,
    by: String,
}

impl EnforcedRule {
    /// Returns the rule against a component. `can_be_signed` is true if it comes from a registry.
    fn find(setup: &HostSetup, can_be_signed: bool) -> Option<Self> {
        let settings = &setup.settings;
        let enforcement = &settings.config.enforcement;
        let (key, by) = if enforcement.disable_local_tools {
            let by = settings.enforcing_file(|it| it.disable_local_tools);
            ("enforcement.disableLocalTools", by)
        } else if enforcement.require_signature && !can_be_signed {
            let by = settings.enforcing_file(|it| it.require_signature);
            ("enforcement.requireSignature", by)
        } else {
            return None;
        };
        let by = visible(by.unwrap_or("the config"));
        Some(Self { key, by })
    }

    fn is_about_signatures(&self) -> bool {
        self.key == "enforcement.requireSignature"
    }
}

/// Fails if a component would not be loaded after its installation. `can_be_signed` is true if it comes from a registry,
/// which has its signature.
pub fn refuse_unloadable(setup: &HostSetup, can_be_signed: bool) -> Result<(), ToolError> {
    let Some(rule) = EnforcedRule::find(setup, can_be_signed) else {
        return Ok(());
    };
    let (why, remedy) = if rule.is_about_signatures() {
        (
            "only a component from a registry can have a signature",
            "add it from a registry of a `trust` rule: `mimir tools add REF`",
        )
    } else {
        (
            "tools of workspaces are not loaded",
            "have it shared by your team: its administrator adds the same source with `mimir team add`, and you propose a component file with `mimir team propose FILE --out PAGE.md` (mimir help teams)",
        )
    };
    let message = format!(
        "nothing was added: {} sets `{}`, so {why}",
        rule.by, rule.key
    );
    Err(ToolError::new(ToolErrorCode::PolicyDenied, message).with_remedies([remedy.to_owned()]))
}

/// Returns a warning if a component that is built here would not be loaded.
pub fn build_warning(setup: &HostSetup) -> Option<String> {
    let rule = EnforcedRule::find(setup, false)?;
    let way = if rule.is_about_signatures() {
        "the build has no signature and is not loaded here; to use it, publish it with `mimir tools push DIR REF --sign KEY` \
         and add it with `mimir tools add REF --force`"
    } else {
        "the build is not loaded here; to use it, propose it to the administrator of your team: \
         `mimir team propose NAME --out NAME.md` (mimir help teams)"
    };
    Some(format!("{} sets `{}`: {way}", rule.by, rule.key))
}

/// Returns a warning if a tool in a YAML file of this workspace would not be loaded.
pub fn script_warning(setup: &HostSetup) -> Option<String> {
    let rule = EnforcedRule::find(setup, false)?;
    Some(format!(
        "{} sets `{}`: the tool is not loaded here, and a team shares components only, not YAML files (mimir help teams)",
        rule.by, rule.key
    ))
}
