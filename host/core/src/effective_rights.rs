//! The rights that a tool has at each point of a call, by the state of its grant.

use crate::needs::{HostNeed, Needs};
use crate::tool::{Tool, ToolTrust};

/// The rights of a tool, by its [trust](ToolTrust): a trusted tool has its grant, a harmless one needs no grant, and
/// an untrusted one has only what a person approves for a single call.
#[derive(Clone, Copy)]
pub struct EffectiveRights<'a>(&'a Tool);

impl Tool {
    /// Its rights in the current state of its grant.
    pub fn rights(&self) -> EffectiveRights<'_> {
        EffectiveRights(self)
    }
}

impl<'a> EffectiveRights<'a> {
    /// The rights that it has without an approval of a call: those that are listed, and those of its assessor, which
    /// runs before any approval. `None` for a harmless tool, which needs no grant, and for an untrusted one.
    pub fn permanent(self) -> Option<&'a Needs> {
        match self.0.trust {
            ToolTrust::Trusted => Some(&self.0.granted),
            ToolTrust::Harmless | ToolTrust::Untrusted => None,
        }
    }

    /// The rights that the approval of a call gives to that call only.
    pub(crate) fn given_by_approval(self) -> Option<Needs> {
        match self.0.trust {
            ToolTrust::Untrusted => Some(self.0.requested_needs()),
            ToolTrust::Trusted | ToolTrust::Harmless => None,
        }
    }

    /// The rights that a call starts with after it was approved.
    pub(crate) fn for_approved_call(self) -> Needs {
        self.given_by_approval()
            .unwrap_or_else(|| self.0.granted.clone())
    }

    /// The hosts of a call that is not approved yet, to predict the decision about its request. Unlike those of
    /// [`for_approved_call`](Self::for_approved_call), they include withheld hosts, so that the rules see the request
    /// in any case. When the call sends it, the request is judged again, without withheld hosts.
    pub(crate) fn hosts_before_approval(self) -> &'a [HostNeed] {
        match self.0.trust {
            ToolTrust::Untrusted => &self.0.definition.needs.hosts,
            ToolTrust::Trusted | ToolTrust::Harmless => &self.0.granted.hosts,
        }
    }

    /// The rights that are left of those that a running call started with, when the tool had the trust
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
            // A person has approved this very call.
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

    /// The needs of a test: optionally a host and the model.
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

    /// A tool that needs a host and the model. The host was withheld from its grant.
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
    fn rights_of_a_harmless_tool_are_none() {
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
