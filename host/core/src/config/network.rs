//! Settings of the network access of tools.

use core::net::IpAddr;
use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, de};

use super::Config;
use crate::network::{
    AllowedHost, HostPattern, NetworkHost, NetworkMode, NetworkPolicy, NetworkRules,
    NetworkVerdict, RequestTarget,
};

/// Network access. Unset keys keep their defaults, or in the block of a tool, the values for all tools.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct NetworkSettings {
    /// The reachable hosts: `none`, `allowlist` or `any`.
    pub mode: Option<NetworkMode>,
    /// Allowed hosts. Addresses of this machine and its networks must be listed as addresses.
    pub allowed_hosts: Option<Vec<HostPattern>>,
    /// Blocked ports, in place of the default list.
    pub blocked_ports: Option<Vec<u16>>,
    /// Blocks names that resolve to addresses of this machine or of private networks.
    #[serde(rename = "blockPrivateIPs")]
    pub block_private_ips: Option<bool>,
    /// Blocks cloud metadata services, even if private addresses are allowed.
    pub block_metadata_endpoints: Option<bool>,
    /// Names with fixed addresses, as in a hosts file.
    pub hosts: FixedHosts,
    /// PEM files with certificates to trust in addition to the platform's. Paths are relative to the folder of the
    /// settings file, or for a project's settings, to the workspace.
    pub extra_roots: Vec<String>,
    /// A cap on these settings while the file is not accepted.
    #[serde(skip)]
    cap: Option<Box<NetworkSettings>>,
}

/// Host names with fixed addresses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FixedHosts(pub BTreeMap<NetworkHost, Vec<IpAddr>>);

impl NetworkSettings {
    /// Returns these settings, with unset keys taken from `base`. Lists of fixed hosts and PEM files are merged.
    #[must_use]
    pub fn over(&self, base: &Self) -> Self {
        let mut hosts = base.hosts.clone();
        hosts.0.extend(self.hosts.0.clone());
        let mut extra_roots = base.extra_roots.clone();
        let added = self.extra_roots.iter();
        extra_roots.extend(
            added
                .filter(|root| !base.extra_roots.contains(root))
                .cloned(),
        );
        Self {
            mode: self.mode.or(base.mode),
            allowed_hosts: self.allowed_hosts.clone().or(base.allowed_hosts.clone()),
            blocked_ports: self.blocked_ports.clone().or(base.blocked_ports.clone()),
            block_private_ips: self.block_private_ips.or(base.block_private_ips),
            block_metadata_endpoints: self
                .block_metadata_endpoints
                .or(base.block_metadata_endpoints),
            hosts,
            extra_roots,
            cap: self.cap.clone().or(base.cap.clone()),
        }
    }

    /// Returns the network policy. `block_key` is the key of the block, for messages.
    pub fn policy(&self, block_key: &str) -> NetworkPolicy {
        self.policy_over(block_key, &[])
    }

    /// Returns the network policy, with `granted` in place of an unset `allowedHosts`.
    pub fn policy_over(&self, block_key: &str, granted: &[AllowedHost]) -> NetworkPolicy {
        self.policy_with(block_key, granted, &[])
    }

    /// Returns the network policy like [`Self::policy_over`], with the hosts `named` on the list in any case. The
    /// settings of a file that is not accepted do not remove them.
    pub(crate) fn policy_with(
        &self,
        block_key: &str,
        granted: &[AllowedHost],
        named: &[AllowedHost],
    ) -> NetworkPolicy {
        let mut rules = self.rules(block_key);
        if self.allowed_hosts.is_none() {
            rules.allowed.extend(granted.iter().cloned());
        }
        rules.allowed.extend(named.iter().cloned());
        let Some(cap) = &self.cap else {
            return NetworkPolicy::new(rules);
        };
        // A file that is not accepted must not redirect host names.
        rules
            .hosts
            .retain(|name, to| cap.hosts.0.get(name) == Some(to));
        NetworkPolicy::new(rules).capped_by(cap.policy_with(block_key, granted, named))
    }

    /// Returns the settings that are in force before a person accepts the file.
    pub(crate) fn accepted(&self) -> &Self {
        self.cap.as_deref().map_or(self, Self::accepted)
    }

    /// Returns true if an entry of `allowedHosts` allows the request.
    pub(crate) fn lists_host(&self, block_key: &str, target: &RequestTarget, method: &str) -> bool {
        let rules = NetworkPolicy::new(self.rules(block_key));
        matches!(
            rules.judge(target, method),
            NetworkVerdict::Allowed(Some(_))
        )
    }

    /// Returns the network policy as a cap on other settings. Unset keys allow everything.
    pub fn cap(&self, block_key: &str) -> NetworkPolicy {
        let default_mode = match self.allowed_hosts {
            Some(_) => NetworkMode::Allowlist,
            None => NetworkMode::Any,
        };
        let policy = NetworkPolicy::new(NetworkRules {
            mode: self.mode.unwrap_or(default_mode),
            blocked_ports: self.blocked_ports.clone().unwrap_or_default(),
            block_private: self.block_private_ips.unwrap_or(false),
            block_metadata: self.block_metadata_endpoints.unwrap_or(false),
            ..self.rules(block_key)
        });
        match &self.cap {
            Some(cap) => policy.capped_by(cap.cap(block_key)),
            None => policy,
        }
    }

    /// Returns the PEM files in force.
    pub fn roots(&self) -> Vec<&str> {
        let is_in_force = |root: &&str| {
            let cap = self.cap.as_ref();
            cap.is_none_or(|cap| cap.roots().contains(root))
        };
        self.extra_roots
            .iter()
            .map(String::as_str)
            .filter(is_in_force)
            .collect()
    }

    fn rules(&self, block_key: &str) -> NetworkRules {
        let base = NetworkRules::default();
        let allowed = self.allowed_hosts.iter().flatten().cloned();
        NetworkRules {
            key: block_key.to_owned(),
            mode: self.mode.unwrap_or(base.mode),
            allowed: allowed.map(Into::into).collect(),
            blocked_ports: self.blocked_ports.clone().unwrap_or(base.blocked_ports),
            block_private: self.block_private_ips.unwrap_or(base.block_private),
            block_metadata: self.block_metadata_endpoints.unwrap_or(base.block_metadata),
            hosts: self.hosts.0.clone(),
            as_resolved: Vec::new(),
            served_ports: base.served_ports,
            denied_by: base.denied_by,
        }
    }

    /// Caps these settings by others.
    pub(super) fn clamp_to(&mut self, cap: Self) {
        self.cap = Some(Box::new(cap));
    }

    /// Collects the keys that allow more than `below` does.
    pub(super) fn collect_weakening_keys(
        &self,
        block_key: &str,
        below: &Self,
        keys: &mut Vec<String>,
    ) {
        let base = below.rules(block_key);
        if let Some(mode) = self.mode.filter(|mode| *mode > base.mode) {
            let word = if mode == NetworkMode::Any {
                "any"
            } else {
                "allowlist"
            };
            keys.push(format!("{block_key}.mode: {word}"));
        }
        let is_known =
            |host: &&HostPattern| base.allowed.iter().any(|entry| entry.pattern == **host);
        let hosts = self.allowed_hosts.iter().flatten();
        push_list(
            block_key,
            "allowedHosts",
            hosts.filter(|host| !is_known(host)),
            keys,
        );
        if let Some(ports) = &self.blocked_ports
            && base.blocked_ports.iter().any(|port| !ports.contains(port))
        {
            keys.push(format!("{block_key}.blockedPorts"));
        }
        if self.block_private_ips == Some(false) && base.block_private {
            keys.push(format!("{block_key}.blockPrivateIPs: false"));
        }
        if self.block_metadata_endpoints == Some(false) && base.block_metadata {
            keys.push(format!("{block_key}.blockMetadataEndpoints: false"));
        }
        let fixed = self.hosts.0.iter();
        let fixed = fixed.filter(|(name, to)| base.hosts.get(name) != Some(to));
        push_list(block_key, "hosts", fixed.map(|(name, _)| name), keys);
        let roots = self.extra_roots.iter();
        let roots = roots.filter(|root| !below.extra_roots.contains(root));
        push_list(block_key, "extraRoots", roots, keys);
    }
}

fn push_list<T: ToString>(
    block_key: &str,
    key: &str,
    items: impl Iterator<Item = T>,
    keys: &mut Vec<String>,
) {
    let items: Vec<_> = items.map(|item| item.to_string()).collect();
    if !items.is_empty() {
        keys.push(format!("{block_key}.{key}: [{}]", items.join(", ")));
    }
}

impl Config {
    /// Returns the network policy of a tool. `None` is a tool without a block of its own.
    pub fn network(&self, tool: Option<&str>) -> NetworkPolicy {
        match tool.filter(|name| self.tools.each.contains_key(*name)) {
            Some(name) => self
                .tool_network(name)
                .policy(&format!("tools.{name}.network")),
            None => self.network.policy("network"),
        }
    }

    /// Returns the network settings of a tool, with unset keys taken from those of all tools.
    pub fn tool_network(&self, name: &str) -> NetworkSettings {
        let tool = self.tools.each.get(name);
        tool.map_or_else(
            || self.network.clone(),
            |tool| tool.network.over(&self.network),
        )
    }
}

/// One or several addresses, as written in the file.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged, expecting = "an IP address, or a list of them")]
#[schemars(with = "AddressListSchema")]
enum AddressList {
    One(IpAddr),
    Several(Vec<IpAddr>),
}

/// The JSON Schema of [`AddressList`].
#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum AddressListSchema {
    One(String),
    Several(Vec<String>),
}

impl<'de> Deserialize<'de> for FixedHosts {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let mut fixed = BTreeMap::new();
        for (name, addresses) in BTreeMap::<String, AddressList>::deserialize(from)? {
            let invalid = |why: &str| {
                let name = crate::text::visible(crate::text::prefix(&name, 100));
                de::Error::custom(format!("hosts: `{name}` {why}"))
            };
            if name.contains('*') {
                return Err(invalid("is not the name of one host"));
            }
            let host = NetworkHost::parse(&name).map_err(|e| invalid(&e.to_string()))?;
            if matches!(host, NetworkHost::Ip(_)) {
                return Err(invalid("is not the name of one host"));
            }
            if host.is_localhost() {
                return Err(invalid("is always loopback"));
            }
            let addresses = match addresses {
                AddressList::One(address) => vec![address.to_canonical()],
                AddressList::Several(several) if several.is_empty() => {
                    return Err(invalid("has no address"));
                }
                AddressList::Several(several) => several.iter().map(IpAddr::to_canonical).collect(),
            };
            if fixed.insert(host, addresses).is_some() {
                return Err(invalid("is listed twice"));
            }
        }
        Ok(Self(fixed))
    }
}

impl JsonSchema for FixedHosts {
    fn schema_name() -> Cow<'static, str> {
        "FixedHosts".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        BTreeMap::<String, AddressListSchema>::json_schema(generator)
    }

    fn inline_schema() -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::{BLOCKED_PORTS, NetworkVerdict, RequestTarget};
    use serde_json::{Value, json};

    fn config(value: Value) -> Config {
        serde_json::from_value(value).unwrap()
    }

    fn verdict_of(policy: &NetworkPolicy, url: &str) -> &'static str {
        match policy.judge(&RequestTarget::parse(url).unwrap(), "GET") {
            NetworkVerdict::Allowed(_) => "allowed",
            NetworkVerdict::Unlisted(_) => "unlisted",
            NetworkVerdict::Refused(_) => "refused",
        }
    }

    #[test]
    fn network_settings_block_is_read() {
        let config = config(json!({"network": {
            "mode": "allowlist", "allowedHosts": ["*.github.com", "127.0.0.1"], "blockedPorts": [22, 23, 25, 3389],
            "blockPrivateIPs": true, "blockMetadataEndpoints": true,
            "hosts": {"App.Example": "10.0.0.1", "two.example": ["10.0.0.2", "::ffff:10.0.0.3"]},
        }}));
        let policy = config.network(None);
        assert_eq!(verdict_of(&policy, "https://api.github.com/"), "allowed");
        assert_eq!(verdict_of(&policy, "https://github.com/"), "unlisted");
        assert_eq!(verdict_of(&policy, "https://api.github.com:22/"), "refused");
        assert_eq!(verdict_of(&policy, "http://127.0.0.1:8080/"), "allowed");
        assert_eq!(verdict_of(&policy, "http://10.0.0.1/"), "refused");
        let two = policy.addresses(&RequestTarget::parse("http://two.example/").unwrap());
        assert_eq!(
            two,
            Some(vec![
                "10.0.0.2".parse().unwrap(),
                "10.0.0.3".parse().unwrap()
            ])
        );
    }

    #[test]
    fn network_tool_block_replaces_the_common_one_by_key() {
        let config = config(json!({
            "network": {"mode": "none", "allowedHosts": ["a.example"], "extraRoots": ["one.pem"]},
            "tools": {"fetch": {"network": {"mode": "allowlist", "extraRoots": ["two.pem"]}}, "other": {}},
        }));
        assert_eq!(
            verdict_of(&config.network(Some("fetch")), "https://a.example/"),
            "allowed"
        );
        assert_eq!(
            verdict_of(&config.network(Some("other")), "https://a.example/"),
            "refused"
        );
        assert_eq!(
            verdict_of(&config.network(Some("none")), "https://a.example/"),
            "refused"
        );
        assert_eq!(config.tool_network("fetch").roots(), ["one.pem", "two.pem"]);
    }

    #[test]
    fn network_untrusted_file_only_tightens() {
        let below = config(json!({"network": {"allowedHosts": ["a.example", "b.example"]}}));
        let mut file = config(json!({
            "network": {"mode": "any", "allowedHosts": ["b.example", "127.0.0.1"], "blockPrivateIPs": false,
                "blockedPorts": [443], "hosts": {"b.example": "127.0.0.1"}, "extraRoots": ["evil.pem"]},
            "tools": {"fetch": {"network": {"mode": "any"}}, "quiet": {"network": {"mode": "none"}}},
        }));
        file.clamp_to(&below);
        let all = file.network(None);
        assert_eq!(verdict_of(&all, "http://a.example/"), "allowed");
        assert_eq!(
            verdict_of(&all, "https://a.example/"),
            "refused",
            "the blocked port was allowed"
        );
        assert_eq!(verdict_of(&all, "http://c.example/"), "unlisted");
        assert_eq!(verdict_of(&all, "http://127.0.0.1/"), "refused");
        let fixed = all.addresses(&RequestTarget::parse("http://b.example/").unwrap());
        assert_eq!(fixed, None, "the address of an unaccepted file was used");
        assert_eq!(
            verdict_of(&file.network(Some("fetch")), "http://c.example/"),
            "unlisted"
        );
        assert_eq!(
            verdict_of(&file.network(Some("quiet")), "http://a.example/"),
            "refused"
        );
        assert_eq!(file.tool_network("fetch").roots(), [""; 0]);
    }

    #[test]
    fn network_invalid_settings_are_rejected_with_a_reason() {
        for (block, words) in [
            (json!({"mode": "all"}), "unknown variant `all`"),
            (json!({"allowedHosts": ["*"]}), "mode: any"),
            (
                json!({"allowedHosts": ["https://a.example/x"]}),
                "without path",
            ),
            (json!({"blockedPorts": [65536]}), "65536"),
            (
                json!({"blockPrivateIps": true}),
                "unknown field `blockPrivateIps`",
            ),
            (
                json!({"hosts": {"127.1": "10.0.0.1"}}),
                "not the name of one host",
            ),
            (
                json!({"hosts": {"*.a.example": "10.0.0.1"}}),
                "not the name of one host",
            ),
            (
                json!({"hosts": {"localhost": "10.0.0.1"}}),
                "always loopback",
            ),
            (
                json!({"hosts": {"a.example": "b.example"}}),
                "an IP address",
            ),
            (json!({"hosts": {"a.example": []}}), "no address"),
            (
                json!({"hosts": {"a.example": "::1", "A.example": "::1"}}),
                "twice",
            ),
            (json!({"cap": {}}), "unknown field `cap`"),
        ] {
            let error = serde_json::from_value::<NetworkSettings>(block.clone()).unwrap_err();
            assert!(error.to_string().contains(words), "{block}: {error}");
        }
    }

    #[test]
    fn network_blocked_ports_have_a_default_list() {
        let policy = NetworkSettings::default().rules("network");
        assert_eq!(policy.blocked_ports, BLOCKED_PORTS);
    }
}
