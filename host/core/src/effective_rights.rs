//! The rights that a tool has at each point of a call, by the state of its grant.

use crate::needs::{HostNeed, Needs};
use crate::tool::{Tool, ToolTrust};

/// The rights of a tool, by its [trust](ToolTrust): a trusted tool has the rights of its grant, a harmless tool needs
/// no grant, and an untrusted tool has only the rights that a person approves for a single call.
#[derive(Clone, Copy)]
pub struct EffectiveRights<'a>(&'a Tool);

impl Tool {
    /// Returns the rights of the tool in the current state of its grant.
    pub fn rights(&self) -> EffectiveRights<'_> {
        EffectiveRights(self)
    }
}

impl<'a> EffectiveRights<'a> {
    /// Returns the rights that the tool has without an approval. Listings show these rights, and the tool's assessor,
    /// which runs before any approval, is limited to them. `None` for a harmless or untrusted tool.
    pub fn permanent(self) -> Option<&'a Needs> {
        match self.0.trust {
            ToolTrust::Trusted => Some(&self.0.granted),
            ToolTrust::Harmless | ToolTrust::Untrusted => None,
        }
    }

    /// Returns the rights that an approval gives to the approved call only. `None` unless the tool is untrusted.
    pub(crate) fn given_by_approval(self) -> Option<Needs> {
        match self.0.trust {
            ToolTrust::Untrusted => Some(self.0.requested_needs()),
            ToolTrust::Trusted | ToolTrust::Harmless => None,
        }
    }

    /// Returns the rights that an approved call starts with.
    pub(crate) fn for_approved_call(self) -> Needs {
        self.given_by_approval()
            .unwrap_or_else(|| self.0.granted.clone())
    }

    /// Returns the hosts for predicting the decision about a request of a call that is not approved yet. Unlike in
    /// [`for_approved_call`](Self::for_approved_call), withheld hosts are included, so that the rules always see the
    /// request. When the call sends the request, it is evaluated again, without withheld hosts.
    pub(crate) fn hosts_before_approval(self) -> &'a [HostNeed] {
        match self.0.trust {
            ToolTrust::Untrusted => &self.0.definition.needs.hosts,
            ToolTrust::Trusted | ToolTrust::Harmless => &self.0.granted.hosts,
        }
    }

    /// Returns the remaining part of `rights_at_start`, which a running call started with when the tool had the trust
    /// `trust_at_start`. `None` if the grant was revoked since then.
    pub(crate) fn for_running_call(
        self,
        trust_at_start: ToolTrust,
        mut rights_at_start: Needs,
    ) -> Option<Needs> {
        match (trust_at_start, self.0.trust) {
            (_, ToolTrust::Trusted | ToolTrust::Harmless) => {
                rights_at_start.retain_granted(&self.0.granted);
                Some(rights_at_start)
            }
            // The call runs by its own approval, not by a grant.
            (ToolTrust::Untrusted, ToolTrust::Untrusted) => Some(rights_at_start),
            (_, ToolTrust::Untrusted) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grants::GrantChanges;
    use crate::needs::NeedKind;

    /// Creates needs with, optionally, a host and the model.
    fn needs(host: bool, model: bool) -> Needs {
        let hosts =
            serde_json::json!([{"host": "a.example", "methods": ["GET"], "reason": "to read"}]);
        let hosts = serde_json::from_value(hosts).unwrap();
        Needs {
            hosts: if host { hosts } else { Vec::new() },
            model,
            ..Needs::default()
        }
    }

    /// Creates a tool that needs a host and the model. Its grant withholds the host.
    fn tool(trust: ToolTrust) -> Tool {
        let mut tool = crate::pipeline::tests::tool("fetch");
        tool.trust = trust;
        tool.definition.needs = needs(true, true);
        tool.granted = match trust {
            ToolTrust::Trusted => needs(false, true),
            ToolTrust::Harmless | ToolTrust::Untrusted => Needs::default(),
        };
        if trust == ToolTrust::Untrusted {
            tool.changes = Some(GrantChanges {
                lines: Vec::new(),
                withheld: vec![NeedKind::Hosts],
            });
        }
        tool
    }

    #[test]
    fn rights_of_a_trusted_tool_are_its_grant() {
        let tool = tool(ToolTrust::Trusted);
        let rights = tool.rights();
        assert_eq!(rights.permanent(), Some(&needs(false, true)));
        assert_eq!(rights.given_by_approval(), None);
        assert_eq!(rights.for_approved_call(), needs(false, true));
        assert!(rights.hosts_before_approval().is_empty());
    }

    #[test]
    fn rights_of_a_harmless_tool_are_empty() {
        let tool = tool(ToolTrust::Harmless);
        let rights = tool.rights();
        assert_eq!(rights.permanent(), None);
        assert_eq!(rights.given_by_approval(), None);
        assert_eq!(rights.for_approved_call(), Needs::default());
        assert!(rights.hosts_before_approval().is_empty());
    }

    #[test]
    fn rights_of_an_untrusted_tool_come_from_approval() {
        let mut tool = tool(ToolTrust::Untrusted);
        let rights = tool.rights();
        assert_eq!(rights.permanent(), None);
        assert_eq!(rights.given_by_approval(), Some(needs(false, true)));
        assert_eq!(rights.for_approved_call(), needs(false, true));
        assert_eq!(rights.hosts_before_approval(), needs(true, true).hosts);
        tool.changes = None;
        let rights = tool.rights();
        assert_eq!(rights.given_by_approval(), Some(needs(true, true)));
        assert_eq!(rights.for_approved_call(), needs(true, true));
    }

    #[test]
    fn rights_of_a_running_call_never_grow() {
        use ToolTrust::{Harmless, Trusted, Untrusted};
        let started = || needs(true, true);
        for (before, now, left) in [
            (Trusted, Trusted, Some(needs(false, true))),
            (Harmless, Trusted, Some(needs(false, true))),
            (Untrusted, Trusted, Some(needs(false, true))),
            (Trusted, Harmless, Some(Needs::default())),
            (Harmless, Harmless, Some(Needs::default())),
            (Untrusted, Harmless, Some(Needs::default())),
            (Trusted, Untrusted, None),
            (Harmless, Untrusted, None),
            (Untrusted, Untrusted, Some(started())),
        ] {
            let tool = tool(now);
            let rights = tool.rights().for_running_call(before, started());
            assert_eq!(rights, left, "{before:?} {now:?}");
        }
        let tool = tool(Trusted);
        let rights = tool.rights().for_running_call(Trusted, Needs::default());
        assert_eq!(rights, Some(Needs::default()));
    }
}
