//! The network policies of tools, and the evaluation of rules for requests and other effects.

use serde_json::Value;

use crate::config::{
    EMBEDDINGS_VARIABLE, NetworkSettings, SEARCH_VARIABLE, uses_embeddings, uses_web_search,
};
use crate::decision::PolicyEvaluation;
use crate::needs::HostNeed;
use crate::network::{AllowedHost, NetworkPolicy, NetworkRules, RequestTarget};
use crate::tool::Tool;

use super::{Policy, REQUEST};

impl Policy {
    /// Returns the network policy for requests of this tool. If no list of hosts is set, the `granted` hosts are the
    /// list, because a person has already approved them. A grant of any host adds nothing to the list. The settings of
    /// the compact form, and of the `equivalent` fine-grained tool, are caps.
    pub fn network(
        &self,
        tool: &Tool,
        equivalent: Option<&Tool>,
        granted: &[HostNeed],
    ) -> NetworkPolicy {
        let specific = granted.iter().filter(|need| !need.is_any());
        let granted: Vec<AllowedHost> = specific
            .filter_map(|need| AllowedHost::from_need(need).ok())
            .collect();
        let (at, settings) = self.settings.network(Some(tool));
        // A person has named the host in the settings of the search provider or the embeddings endpoint.
        let named = if uses_web_search(tool) || uses_embeddings(tool) {
            &granted[..]
        } else {
            &[]
        };
        let policy = settings.policy_with(&at, &granted, named);
        let other_forms = self.settings.other_form_networks(tool, equivalent);
        let other_forms = other_forms.map(|(at, settings)| settings.cap(&at));
        let forms = || std::iter::once(tool).chain(equivalent);
        let denied = forms().find_map(|form| self.denied_network_key(form));
        let denied = denied.map(|key| {
            NetworkPolicy::new(NetworkRules {
                denied_by: Some(key),
                ..NetworkRules::default()
            })
        });
        let teams = forms().flat_map(|form| self.team_networks(Some(form)));
        other_forms
            .chain(denied)
            .chain(teams)
            .fold(policy, NetworkPolicy::capped_by)
    }

    /// Returns the variables in `names` that the settings define for tools, as pairs of name and value.
    pub(crate) fn variables(&self, names: &[String]) -> Vec<(String, String)> {
        let search = self.web_search.iter();
        let search = search.map(|search| (SEARCH_VARIABLE, &search.settings));
        let embeddings = self.embeddings.iter();
        let embeddings = embeddings.map(|set| (EMBEDDINGS_VARIABLE, &set.settings));
        let variables = search.chain(embeddings);
        let variables =
            variables.filter(|(name, _)| names.iter().any(|requested| requested == name));
        variables
            .map(|(name, value)| (name.to_owned(), value.clone()))
            .collect()
    }

    /// Returns true if requests of tools to this target carry the trace context of the call.
    pub fn sends_trace_to(&self, target: &RequestTarget) -> bool {
        self.trace_hosts.iter().any(|host| host.matches(target))
    }

    /// Returns the network policy for requests that a person makes on the command line, without a tool.
    pub fn own_network(&self) -> NetworkPolicy {
        self.own_network_with(&[])
    }

    /// Returns [`Self::own_network`] with hosts that the user's settings name in another place, such as the URL of a
    /// model. Teams can still deny them.
    pub fn own_network_with(&self, named: &[AllowedHost]) -> NetworkPolicy {
        let policy = self.settings.network.policy_with("network", &[], named);
        self.team_networks(None)
            .fold(policy, NetworkPolicy::capped_by)
    }

    /// Returns the network policies that teams have set for this tool, or for requests without a tool. A person's
    /// approval cannot exceed them.
    pub fn team_networks(&self, tool: Option<&Tool>) -> impl Iterator<Item = NetworkPolicy> {
        self.team_files().flat_map(move |file| {
            let (at, own) = file.settings.network(tool);
            let own = (own != NetworkSettings::default()).then(|| own.cap(&at));
            let mut networks: Vec<NetworkPolicy> = own.into_iter().collect();
            if let Some(tool) = tool {
                let compact = file.settings.other_form_networks(tool, None);
                networks.extend(compact.map(|(at, settings)| settings.cap(&at)));
            }
            networks
        })
    }

    /// Returns the PEM files of CA certificates that requests of this tool, or requests without a tool, trust in
    /// addition to the platform's.
    pub fn roots(&self, tool: Option<&Tool>) -> Vec<String> {
        let teams = self.team_files().map(|file| &file.settings);
        let mut roots: Vec<String> = Vec::new();
        for settings in std::iter::once(&self.settings).chain(teams) {
            let (_, settings) = settings.network(tool);
            for root in settings.roots() {
                if !roots.iter().any(|known| known == root) {
                    roots.push(root.to_owned());
                }
            }
        }
        roots
    }

    /// Returns true if accepted settings list the host of a request by name. `mode: any` does not list hosts.
    pub(crate) fn names_host(&self, tool: &Tool, target: &RequestTarget, method: &str) -> bool {
        let (at, settings) = self.settings.network(Some(tool));
        settings.accepted().lists_host(&at, target, method)
    }

    /// Returns the remedy for a request to an unlisted host: accept the file that already lists the host, or else the
    /// line to write.
    pub(crate) fn request_remedy(
        &self,
        tool: &Tool,
        target: &RequestTarget,
        method: &str,
    ) -> String {
        let mut unaccepted = self.files.iter().filter(|file| !file.is_accepted);
        let listing = unaccepted.find_map(|file| {
            let (at, settings) = file.settings.network(Some(tool));
            let lists = settings.policy(&at).judge(target, method).is_allowed();
            lists.then(|| format!("`{at}` ({})", file.source.at(&at)))
        });
        match listing {
            Some(listing) => format!("`mimir policy accept` puts {listing} in force"),
            None => {
                let (host, (at, _)) = (target.host(), self.settings.network(Some(tool)));
                format!(
                    "`- \"{host}\"` below `{at}.allowedHosts:` in .mimir/config.yml, and then `mimir policy accept`"
                )
            }
        }
    }

    /// Returns true if requests to hosts that the tool was not granted are asked about instead of denied.
    pub(crate) fn asks_unknown_hosts(&self, tool: &Tool) -> bool {
        self.accepted_files().any(|file| {
            let mut settings = file.settings.of_tool(tool);
            settings.any(|settings| {
                let block = settings.approval.block();
                block.is_some_and(|block| block.conditions.unknown_host_requires_approval)
            })
        })
    }

    /// Evaluates the rules for a request of a running call. `request` has the arguments `method`, `url` and `host`.
    /// Rules about other arguments were evaluated before the call ran.
    pub(crate) fn evaluate_request(
        &self,
        tool: &Tool,
        request: &Value,
        evaluation: &mut PolicyEvaluation,
    ) {
        self.evaluate_effect(tool, (request, REQUEST), evaluation);
    }

    /// Evaluates the rules for an effect of a running call. Only argument rules that depend on no other arguments than
    /// `names` apply.
    pub(super) fn evaluate_effect(
        &self,
        tool: &Tool,
        (effect, names): (&Value, &[&str]),
        evaluation: &mut PolicyEvaluation,
    ) {
        for file in &self.files {
            let before = evaluation.reasons().len();
            file.rules
                .evaluate_effect(tool, (effect, names), evaluation);
            let names = std::iter::once(tool.name()).chain(&tool.aliases);
            for danger in names.filter_map(|name| file.danger.get(name.as_str())) {
                danger.evaluate(tool, effect, &file.source, evaluation);
            }
            file.mark_reasons(before, evaluation);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::config::Config;
    use crate::network::{NetworkVerdict, RequestTarget};
    use crate::pipeline::tests::tool;
    use crate::policy::PolicyFile;

    fn policy(team: Value, user: Value) -> Policy {
        let config = |value| serde_json::from_value::<Config>(value).unwrap();
        let (team, user) = (config(team), config(user));
        let files = vec![
            PolicyFile::new(&team, "team.yml").unwrap().as_team(),
            PolicyFile::new(&user, "config.yml").unwrap(),
        ];
        Policy::from_files(&user, files)
    }

    fn says(policy: &Policy, url: &str) -> &'static str {
        let granted = ["api.example", "127.0.0.1"].map(|host| HostNeed {
            host: host.to_owned(),
            methods: vec!["GET".to_owned()],
            reason: String::new(),
        });
        let network = policy.network(&tool("sample"), None, &granted);
        match network.judge(&RequestTarget::parse(url).unwrap(), "GET") {
            NetworkVerdict::Allowed(_) => "allowed",
            NetworkVerdict::Unlisted(_) => "unlisted",
            NetworkVerdict::Refused(_) => "refused",
        }
    }

    #[test]
    fn network_granted_hosts_apply_if_no_list_is_set() {
        let free = policy(json!({}), json!({}));
        assert_eq!(says(&free, "https://api.example/"), "allowed");
        assert_eq!(says(&free, "http://127.0.0.1/"), "allowed");
        assert_eq!(says(&free, "https://other.example/"), "unlisted");
        let listed = json!({"network": {"allowedHosts": ["other.example"]}});
        let listed = policy(json!({}), listed);
        assert_eq!(says(&listed, "https://api.example/"), "unlisted");
        assert_eq!(says(&listed, "https://other.example/"), "allowed");
    }

    #[test]
    fn network_grant_of_any_host_lists_no_names() {
        let says = |settings: Value, url: &str| {
            let any = HostNeed {
                host: "*".to_owned(),
                methods: vec!["GET".to_owned()],
                reason: String::new(),
            };
            let network = policy(json!({}), settings).network(&tool("sample"), None, &[any]);
            match network.judge(&RequestTarget::parse(url).unwrap(), "GET") {
                NetworkVerdict::Allowed(_) => "allowed",
                NetworkVerdict::Unlisted(_) => "unlisted",
                NetworkVerdict::Refused(_) => "refused",
            }
        };
        let listed = || json!({"network": {"allowedHosts": ["a.example"]}});
        let open = || json!({"network": {"mode": "any"}});
        for (settings, url, verdict) in [
            (json!({}), "https://a.example/", "unlisted"),
            (listed(), "https://a.example/", "allowed"),
            (listed(), "https://b.example/", "unlisted"),
            (open(), "https://b.example/", "allowed"),
            (open(), "https://b.example:25/", "refused"),
            (json!({}), "http://127.0.0.1/", "refused"),
            (open(), "http://127.0.0.1/", "refused"),
            (open(), "http://localhost/", "refused"),
            (open(), "http://169.254.169.254/", "refused"),
            (
                json!({"network": {"mode": "none"}}),
                "https://a.example/",
                "refused",
            ),
        ] {
            assert_eq!(says(settings.clone(), url), verdict, "{settings} {url}");
        }
    }

    #[test]
    fn network_team_settings_of_a_compact_tool_cap_its_operations() {
        let team = json!({"tools": {"browser": {"network": {"mode": "none"}}}});
        let policy = policy(team, json!({"network": {"mode": "any"}}));
        let teams = |name: &str| {
            let mut tool = tool(name);
            tool.source = crate::tool::ToolSource::BuiltIn;
            policy.team_networks(Some(&tool)).count()
        };
        assert_eq!(teams("browser_navigate"), 1);
        assert_eq!(teams("browser"), 1);
        assert_eq!(teams("web_fetch"), 0);
    }

    #[test]
    fn network_unaccepted_settings_do_not_remove_hosts_that_the_user_names() {
        let named = |host: &str| AllowedHost {
            pattern: host.parse().unwrap(),
            methods: None,
        };
        let judge = |user: Value, project: Value| {
            let user: Config = serde_json::from_value(user).unwrap();
            let mut project: Config = serde_json::from_value(project).unwrap();
            project.clamp_to(&user);
            let settings =
                project
                    .network
                    .policy_with("network", &[], &[named("http://127.0.0.1:18555")]);
            let target = RequestTarget::parse("http://127.0.0.1:18555/v1/").unwrap();
            settings.judge(&target, "POST").is_allowed()
        };
        let instructions = || json!({"agent": {"instructions": "ok"}});
        assert!(judge(json!({}), instructions()));
        let listed = json!({"network": {"allowedHosts": ["a.example"]}});
        assert!(judge(listed, instructions()));
        let none = json!({"network": {"mode": "none"}});
        assert!(!judge(none, instructions()), "the user denies the network");
    }

    #[test]
    fn network_search_provider_is_open_to_web_search_only() {
        let block = json!({"webSearch": {"provider": "searxng", "url": "http://127.0.0.1:8888"},
            "network": {"allowedHosts": ["a.example"]}});
        let config: Config = serde_json::from_value(block.clone()).unwrap();
        let policy = policy(json!({}), block);
        let mut search = tool("web_search");
        search.definition.needs.variables = vec![SEARCH_VARIABLE.to_owned()];
        let mut stranger = search.clone();
        search.source = crate::tool::ToolSource::BuiltIn;
        stranger.source = crate::tool::ToolSource::Custom;
        let says = |tool: &mut Tool, url: &str| {
            config.add_configured_needs(std::slice::from_mut(tool));
            let network = policy.network(tool, None, &tool.granted.hosts);
            network
                .judge(&RequestTarget::parse(url).unwrap(), "GET")
                .is_allowed()
        };
        assert!(says(&mut search, "http://127.0.0.1:8888/search"));
        assert!(!says(&mut search, "http://127.0.0.1:8889/search"));
        assert!(!says(&mut stranger, "http://127.0.0.1:8888/search"));
        assert!(stranger.definition.needs.hosts.is_empty());
    }

    #[test]
    fn network_unlisted_host_has_a_working_remedy() {
        let remedy = |project: Value| {
            let config = |value| serde_json::from_value::<Config>(value).unwrap();
            let project = PolicyFile::new(&config(project), ".mimir/config.yml").unwrap();
            let files = vec![project.unaccepted()];
            let policy = Policy::from_files(&config(json!({})), files);
            let target = RequestTarget::parse("https://api.example/x").unwrap();
            policy.request_remedy(&tool("sample"), &target, "GET")
        };
        let listed = json!({"allowedHosts": ["*.example"]});
        for (project, says) in [
            (
                json!({"network": listed}),
                "`mimir policy accept` puts `network` (.mimir/config.yml) in force",
            ),
            (
                json!({"tools": {"sample": {"network": listed}}}),
                "`mimir policy accept` puts `tools.sample.network` (.mimir/config.yml) in force",
            ),
            (
                json!({"network": {"allowedHosts": ["other.test"]}}),
                "`- \"api.example\"` below `network.allowedHosts:` in .mimir/config.yml, and then `mimir policy accept`",
            ),
        ] {
            assert_eq!(remedy(project), says);
        }
    }

    #[test]
    fn network_team_settings_are_a_cap() {
        let team = json!({"network": {"blockedPorts": [8443], "extraRoots": ["team.pem"]}});
        let user = json!({"tools": {"sample": {"network": {"extraRoots": ["own.pem"]}}}});
        let capped = policy(team, user);
        assert_eq!(says(&capped, "https://api.example/"), "allowed");
        assert_eq!(says(&capped, "http://127.0.0.1/"), "allowed");
        assert_eq!(says(&capped, "https://api.example:8443/"), "refused");
        assert_eq!(capped.roots(Some(&tool("sample"))), ["own.pem", "team.pem"]);
        let none = policy(
            json!({"network": {"mode": "none"}}),
            json!({"network": {"mode": "any"}}),
        );
        assert_eq!(says(&none, "https://api.example/"), "refused");
    }
}
