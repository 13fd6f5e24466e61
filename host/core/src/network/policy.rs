//! The network policy, which checks a request before the name lookup, and again for every address.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::address::{AddressClass, AddressScope, classify};
use super::host::NetworkHost;
use super::metadata;
use super::pattern::{HostPattern, HostPatternError};
use super::ports::BLOCKED_PORTS;
use super::target::RequestTarget;
use super::verdict::{NetworkRefusal, NetworkVerdict};
use crate::needs::HostNeed;

/// The reachable hosts. In the order of strictness, the strictest first.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Deserialize, Serialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum NetworkMode {
    /// No hosts.
    None,
    /// The hosts of `allowedHosts`. Other hosts need approval.
    #[default]
    Allowlist,
    /// All hosts that no other key blocks.
    Any,
}

/// The network rules of one file, block or grant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkRules {
    /// The key of the block in messages, such as `network` or `tools.web_fetch.network`.
    pub key: String,
    /// The mode.
    pub mode: NetworkMode,
    /// The list of allowed hosts.
    pub allowed: Vec<AllowedHost>,
    /// Blocked ports.
    pub blocked_ports: Vec<u16>,
    /// True if addresses of this machine and of private networks are blocked, unless they are listed as addresses.
    pub block_private: bool,
    /// True if cloud metadata services are blocked, even if they are listed.
    pub block_metadata: bool,
    /// Host names with fixed addresses, which are not looked up.
    pub hosts: BTreeMap<NetworkHost, Vec<IpAddr>>,
    /// Hosts that are allowed at any resolved address, except for metadata services. Not a setting: for hosts in the
    /// configuration of the user's other programs, such as npm's registry.
    pub as_resolved: Vec<HostPattern>,
    /// Ports of `localhost` with servers of the session. Not a setting.
    pub served_ports: Vec<u16>,
    /// The key of another setting that denies all requests, such as `tools.web_fetch.execution.network`.
    pub denied_by: Option<String>,
}

/// An entry of `allowedHosts`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedHost {
    /// The hosts.
    pub pattern: HostPattern,
    /// The allowed methods; `None` allows all.
    pub methods: Option<Vec<String>>,
}

impl From<HostPattern> for AllowedHost {
    fn from(pattern: HostPattern) -> Self {
        Self {
            pattern,
            methods: None,
        }
    }
}

impl Default for NetworkRules {
    fn default() -> Self {
        Self {
            key: "network".to_owned(),
            mode: NetworkMode::default(),
            allowed: Vec::new(),
            blocked_ports: BLOCKED_PORTS.to_vec(),
            block_private: true,
            block_metadata: true,
            hosts: BTreeMap::new(),
            as_resolved: Vec::new(),
            served_ports: Vec::new(),
            denied_by: None,
        }
    }
}

/// Network rules, capped by other rules. Each set of rules is evaluated by itself, and the strictest verdict applies.
///
/// An address of this machine or of a private network is allowed only if one of these conditions holds:
/// - The host of the URL is the address, and `allowedHosts` lists the address or a range that contains it.
/// - The host of the URL is `localhost`, and `allowedHosts` lists `localhost`, which is always loopback and never
///   looked up.
/// - The host of the URL has an entry in `hosts` with the address.
/// - `blockPrivateIPs` is false.
///
/// So a name that resolves to such an address is refused even if the name is allowed. Metadata services are refused in
/// all these cases, unless `blockMetadataEndpoints` is false, too. Addresses that cannot be hosts (multicast, reserved,
/// documentation, old tunnels) are always refused.
///
/// ```
/// use mimir_core::network::{NetworkPolicy, NetworkRules, RequestTarget, NetworkVerdict};
///
/// let rules = NetworkRules {
///     allowed: vec!["*.example.com".parse::<mimir_core::network::HostPattern>()?.into()],
///     ..NetworkRules::default()
/// };
/// let policy = NetworkPolicy::new(rules);
/// let target = RequestTarget::parse("https://api.example.com/")?;
/// assert!(policy.judge(&target, "GET").is_allowed());
/// assert!(policy.judge_address(&target, "93.184.215.14".parse()?).is_ok());
/// assert!(policy.judge_address(&target, "10.0.0.1".parse()?).is_err());
/// let other = RequestTarget::parse("https://other.example/")?;
/// assert!(matches!(policy.judge(&other, "GET"), NetworkVerdict::Unlisted(_)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkPolicy {
    own: NetworkRules,
    caps: Vec<NetworkRules>,
}

impl Default for NetworkPolicy {
    fn default() -> Self {
        Self::new(NetworkRules::default())
    }
}

impl NetworkPolicy {
    /// Creates a policy with these rules and no caps.
    pub fn new(own: NetworkRules) -> Self {
        Self {
            own,
            caps: Vec::new(),
        }
    }

    /// Creates a policy that allows only the hosts and methods that were granted to a tool. It has no rules for ports
    /// and addresses, so use it with [`Self::capped_by`].
    pub fn for_needs(key: impl Into<String>, needs: &[HostNeed]) -> Result<Self, HostPatternError> {
        let allowed = needs
            .iter()
            .map(AllowedHost::from_need)
            .collect::<Result<_, _>>()?;
        Ok(Self::new(NetworkRules {
            key: key.into(),
            allowed,
            blocked_ports: Vec::new(),
            block_private: false,
            block_metadata: false,
            ..NetworkRules::default()
        }))
    }

    /// Caps the policy by another policy. A request must pass both.
    #[must_use]
    pub fn capped_by(mut self, cap: Self) -> Self {
        self.caps.push(cap.own);
        self.caps.extend(cap.caps);
        self
    }

    /// Sets the ports of `localhost` with servers of the session, which do not have to be listed. Rules that forbid the
    /// network, a port or a host name apply to them, too.
    #[must_use]
    pub fn with_served_ports(mut self, ports: &[u16]) -> Self {
        for rules in std::iter::once(&mut self.own).chain(&mut self.caps) {
            rules.served_ports = ports.to_vec();
        }
        self
    }

    /// Returns true if a request is for a server of the session, and must be sent nowhere else.
    pub fn serves(&self, target: &RequestTarget) -> bool {
        self.layers().any(|rules| rules.serves(target))
    }

    /// Adds hosts that are allowed at any resolved address. The caps stay unchanged.
    #[must_use]
    pub fn with_as_resolved(mut self, hosts: impl IntoIterator<Item = HostPattern>) -> Self {
        let hosts: Vec<HostPattern> = hosts.into_iter().collect();
        let entries = hosts.iter().cloned().map(AllowedHost::from);
        self.own.allowed.extend(entries);
        self.own.as_resolved.extend(hosts);
        self
    }

    fn layers(&self) -> impl DoubleEndedIterator<Item = &NetworkRules> {
        std::iter::once(&self.own).chain(&self.caps)
    }

    /// Checks a request by its URL and method, before the name lookup.
    pub fn judge(&self, target: &RequestTarget, method: &str) -> NetworkVerdict<'_> {
        let mut verdict = NetworkVerdict::Allowed(None);
        for rules in self.layers() {
            let layer_verdict = rules.judge(target, method);
            verdict = match (verdict, layer_verdict) {
                (NetworkVerdict::Allowed(None), layer_verdict) => layer_verdict,
                (verdict, layer_verdict) => verdict.strictest(layer_verdict),
            };
        }
        // Addresses that need no lookup are checked at once.
        let known_addresses = self.addresses(target);
        let refusal = known_addresses
            .iter()
            .flatten()
            .find_map(|address| self.judge_address(target, *address).err());
        match refusal {
            Some(refusal) => verdict.strictest(NetworkVerdict::Refused(refusal)),
            None => verdict,
        }
    }

    /// Returns true if the policy and its caps allow the request, without checking addresses.
    pub fn allows_by_lists(&self, target: &RequestTarget, method: &str) -> bool {
        self.layers()
            .all(|rules| rules.judge(target, method).is_allowed())
    }

    /// Checks an address of the host of `target`. If the host has several addresses, each must pass.
    pub fn judge_address(
        &self,
        target: &RequestTarget,
        address: IpAddr,
    ) -> Result<(), NetworkRefusal> {
        let class = classify(address);
        if class.scope == AddressScope::Public && class.metadata.is_none() {
            return Ok(());
        }
        self.layers().try_for_each(|rules| {
            let verdict = rules.judge_address(target, address, class);
            verdict.map_err(|mut refusal| {
                if let Some(other) = self
                    .layers()
                    .find(|rules| rules.has_fixed_address(target, address))
                {
                    // An entry in `hosts` of one policy does not apply to its caps.
                    let key = &other.key;
                    refusal.reason = format!(
                        "{}; the entry in {key}.hosts applies to that policy only",
                        refusal.reason
                    );
                }
                refusal
            })
        })
    }

    /// Returns the addresses of a host that needs no lookup: an address, `localhost`, or a host with an entry in
    /// `hosts`. An entry of an outer cap takes precedence.
    pub fn addresses(&self, target: &RequestTarget) -> Option<Vec<IpAddr>> {
        if let NetworkHost::Ip(address) = target.host() {
            return Some(vec![*address]);
        }
        if target.host().is_localhost() {
            // RFC 6761 section 6.3.
            return Some(vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]);
        }
        self.layers()
            .rev()
            .find_map(|rules| rules.hosts.get(target.host()).cloned())
    }
}

impl AllowedHost {
    /// Creates the entry of a granted need.
    pub fn from_need(need: &HostNeed) -> Result<Self, HostPatternError> {
        Ok(Self {
            pattern: need.pattern()?,
            methods: Some(need.methods.clone()),
        })
    }

    fn allows_method(&self, method: &str) -> bool {
        let methods = self.methods.as_ref();
        methods.is_none_or(|methods| methods.iter().any(|allowed| allowed == method))
    }
}

impl NetworkRules {
    fn refusal(&self, rule: &str, reason: String, remedy: impl Into<String>) -> NetworkRefusal {
        NetworkRefusal {
            rule: format!("{}.{rule}", self.key),
            reason,
            remedy: remedy.into(),
        }
    }

    fn judge(&self, target: &RequestTarget, method: &str) -> NetworkVerdict<'_> {
        if let Some(key) = &self.denied_by {
            return NetworkVerdict::Refused(NetworkRefusal {
                rule: format!("{key}: none"),
                reason: format!(
                    "`{}` cannot be reached: the tool may send no requests",
                    target.host()
                ),
                remedy: format!("remove `{key}`"),
            });
        }
        if self.mode == NetworkMode::None {
            let reason = format!(
                "`{}` cannot be reached: network access is off",
                target.host()
            );
            let remedy = format!("set `{}.mode: allowlist` and name the host", self.key);
            return NetworkVerdict::Refused(self.refusal("mode: none", reason, remedy));
        }
        let port = target.port();
        if self.blocked_ports.contains(&port) {
            let reason = format!("port {port} is blocked");
            let remedy = format!("remove it from `{}.blockedPorts`", self.key);
            return NetworkVerdict::Refused(self.refusal("blockedPorts", reason, remedy));
        }
        if self.block_metadata
            && let Some(service) = metadata::service_named(target.host())
        {
            let refusal = self.metadata_refusal(&target.host().to_string(), service);
            return NetworkVerdict::Refused(refusal);
        }
        let mut matching = self
            .allowed
            .iter()
            .filter(|entry| entry.pattern.matches(target));
        let allowing = matching.clone().find(|entry| entry.allows_method(method));
        match (allowing, self.mode) {
            (Some(entry), _) => NetworkVerdict::Allowed(Some(&entry.pattern)),
            (None, NetworkMode::Any) => NetworkVerdict::Allowed(None),
            (None, _) if self.serves(target) => NetworkVerdict::Allowed(None),
            (None, _) if matching.next().is_some() => {
                let reason = format!("{method} is not an allowed method for `{}`", target.host());
                let remedy = "use a granted method, or add this one to the needs of the tool";
                NetworkVerdict::Unlisted(self.refusal("allowedHosts", reason, remedy))
            }
            (None, _) => {
                let reason = format!("`{}` is not among the allowed hosts", target.origin());
                let remedy = format!("add `{}` to `{}.allowedHosts`", target.host(), self.key);
                NetworkVerdict::Unlisted(self.refusal("allowedHosts", reason, remedy))
            }
        }
    }

    fn judge_address(
        &self,
        target: &RequestTarget,
        address: IpAddr,
        class: AddressClass,
    ) -> Result<(), NetworkRefusal> {
        // Lazy, because most addresses are allowed.
        let subject = || match target.host() {
            NetworkHost::Ip(_) => format!("`{address}`"),
            NetworkHost::Name(name) => format!("`{name}` leads to {address}, which"),
        };
        if let Some(service) = class.metadata.filter(|_| self.block_metadata) {
            return Err(self.metadata_refusal(&target.host().to_string(), service));
        }
        let (name, source) = (class.name, class.source);
        if self.as_resolved.iter().any(|host| host.names(target)) {
            return Ok(());
        }
        match class.scope {
            AddressScope::Local if self.serves(target) && address.to_canonical().is_loopback() => {
                Ok(())
            }
            AddressScope::Public => Ok(()),
            AddressScope::Never => Err(NetworkRefusal {
                rule: format!("{source}, {name}"),
                reason: format!("{} is not the address of a host", subject()),
                remedy: String::new(),
            }),
            AddressScope::Local if !self.block_private || self.names_address(target, address) => {
                Ok(())
            }
            AddressScope::Local => {
                let remedy = match target.host() {
                    NetworkHost::Name(name) if !target.host().is_localhost() => {
                        format!(
                            "set `{}.hosts: {{{name}: {address}}}` to allow requests to it",
                            self.key
                        )
                    }
                    host => format!(
                        "add `{host}` to `{}.allowedHosts` to allow requests to it",
                        self.key
                    ),
                };
                let reason = format!(
                    "{} is not an address of the internet ({name}, {source})",
                    subject()
                );
                Err(self.refusal("blockPrivateIPs", reason, remedy))
            }
        }
    }

    fn serves(&self, target: &RequestTarget) -> bool {
        target.host().is_this_machine() && self.served_ports.contains(&target.port())
    }

    /// Returns true if these rules list the address itself, and not just a name that resolves to it.
    fn names_address(&self, target: &RequestTarget, address: IpAddr) -> bool {
        let listed = || self.allowed.iter().any(|entry| entry.pattern.names(target));
        match target.host() {
            NetworkHost::Ip(_) => listed(),
            host if host.is_localhost() => address.to_canonical().is_loopback() && listed(),
            _ => self.has_fixed_address(target, address),
        }
    }

    /// Returns true if an entry of `hosts` maps the host to this address.
    fn has_fixed_address(&self, target: &RequestTarget, address: IpAddr) -> bool {
        let addresses = self.hosts.get(target.host());
        addresses.is_some_and(|addresses| addresses.contains(&address))
    }

    fn metadata_refusal(&self, host: &str, service: &str) -> NetworkRefusal {
        let reason = format!("`{host}` is {service}, which provides credentials");
        let remedy = format!(
            "set `{}.blockMetadataEndpoints: false` to allow requests to it",
            self.key
        );
        self.refusal("blockMetadataEndpoints", reason, remedy)
    }
}

#[cfg(test)]
mod tests;
