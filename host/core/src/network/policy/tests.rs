use super::*;

fn target(url: &str) -> RequestTarget {
    RequestTarget::parse(url).unwrap_or_else(|e| panic!("{url}: {e}"))
}

fn rules(mode: NetworkMode, allowed: &[&str]) -> NetworkRules {
    let entry = |text: &&str| AllowedHost::from(text.parse::<HostPattern>().unwrap());
    NetworkRules {
        mode,
        allowed: allowed.iter().map(entry).collect(),
        ..NetworkRules::default()
    }
}

fn policy(mode: NetworkMode, allowed: &[&str]) -> NetworkPolicy {
    NetworkPolicy::new(rules(mode, allowed))
}

/// Returns the rule that refuses the request, `unlisted`, or an empty string.
fn rule_for(policy: &NetworkPolicy, url: &str) -> String {
    match policy.judge(&target(url), "GET") {
        NetworkVerdict::Allowed(_) => String::new(),
        NetworkVerdict::Unlisted(_) => "unlisted".to_owned(),
        NetworkVerdict::Refused(refusal) => refusal.rule,
    }
}

fn rule_for_address(policy: &NetworkPolicy, url: &str, address: &str) -> String {
    let verdict = policy.judge_address(&target(url), address.parse().unwrap());
    verdict
        .err()
        .map_or_else(String::new, |refusal| refusal.rule)
}

#[test]
fn network_mode_decides_which_hosts_are_reached() {
    let list = ["example.com"];
    for (mode, named, other) in [
        (
            NetworkMode::None,
            "network.mode: none",
            "network.mode: none",
        ),
        (NetworkMode::Allowlist, "", "unlisted"),
        (NetworkMode::Any, "", ""),
    ] {
        assert_eq!(
            rule_for(&policy(mode, &list), "https://example.com/"),
            named
        );
        assert_eq!(
            rule_for(&policy(mode, &list), "https://else.example/"),
            other
        );
    }
    assert_eq!(
        rule_for(&NetworkPolicy::default(), "https://example.com/"),
        "unlisted"
    );
}

#[test]
fn network_blocked_ports_win_over_listed_hosts() {
    for mode in [NetworkMode::Allowlist, NetworkMode::Any] {
        let policy = policy(mode, &["example.com", "example.com:25"]);
        for port in [22, 23, 25, 3389, 6379] {
            let url = format!("http://example.com:{port}/");
            assert_eq!(rule_for(&policy, &url), "network.blockedPorts", "{port}");
        }
    }
    let mut open = rules(NetworkMode::Any, &[]);
    open.blocked_ports = vec![443];
    let open = NetworkPolicy::new(open);
    assert_eq!(rule_for(&open, "http://example.com:25/"), "");
    assert_eq!(
        rule_for(&open, "https://example.com/"),
        "network.blockedPorts"
    );
}

#[test]
fn network_private_addresses_must_be_listed() {
    let private = "network.blockPrivateIPs";
    for mode in [NetworkMode::Allowlist, NetworkMode::Any] {
        let none = policy(mode, &["app.example", "*.example"]);
        for url in [
            "http://127.0.0.1/",
            "http://0x7f.1/",
            "http://[::1]/",
            "http://10.0.0.1/",
            "http://localhost/",
            "http://a.localhost/",
        ] {
            assert_eq!(rule_for(&none, url), private, "{url}");
        }
        // A name that resolves to a private address is refused, listed or not.
        assert_eq!(
            rule_for_address(&none, "http://app.example/", "10.0.0.1"),
            private
        );
        assert_eq!(
            rule_for_address(&none, "http://app.example/", "::ffff:10.0.0.1"),
            private
        );
        assert_eq!(
            rule_for_address(&none, "http://app.example/", "93.184.215.14"),
            ""
        );

        let named = policy(
            mode,
            &[
                "127.0.0.1",
                "10.0.0.0/8",
                "[::1]:8080",
                "localhost",
                "app.example",
            ],
        );
        for url in [
            "http://127.0.0.1/",
            "http://2130706433/",
            "http://10.1.2.3/",
            "http://[::1]:8080/",
            "http://localhost:99/",
        ] {
            assert_eq!(rule_for(&named, url), "", "{url}");
        }
        for url in [
            "http://127.0.0.2/",
            "http://192.168.0.1/",
            "http://[::1]/",
            "http://a.localhost/",
        ] {
            assert_eq!(rule_for(&named, url), private, "{url}");
        }
        // Address ranges do not list names.
        assert_eq!(
            rule_for_address(&named, "http://app.example/", "10.0.0.1"),
            private
        );
        // `localhost` may resolve to a loopback address only.
        assert_eq!(
            rule_for_address(&named, "http://localhost/", "10.0.0.1"),
            private
        );
    }
}

#[test]
fn network_hosts_setting_pins_a_name_to_an_address() {
    let mut rules = rules(NetworkMode::Allowlist, &["app.example"]);
    rules.hosts.insert(
        NetworkHost::parse("app.example").unwrap(),
        vec!["10.0.0.1".parse().unwrap()],
    );
    rules.hosts.insert(
        NetworkHost::parse("meta.example").unwrap(),
        vec!["169.254.169.254".parse().unwrap()],
    );
    let policy = NetworkPolicy::new(rules);
    assert_eq!(rule_for(&policy, "http://app.example/"), "");
    assert_eq!(
        policy.addresses(&target("http://APP.example./")),
        Some(vec!["10.0.0.1".parse().unwrap()])
    );
    assert_eq!(
        rule_for_address(&policy, "http://app.example/", "10.0.0.1"),
        ""
    );
    assert_eq!(
        rule_for_address(&policy, "http://app.example/", "10.0.0.2"),
        "network.blockPrivateIPs"
    );
    assert_eq!(
        rule_for(&policy, "http://meta.example/"),
        "network.blockMetadataEndpoints"
    );
    // If only another file pins the name, the refusal explains why that does not count and how to allow it.
    let by_team = super::NetworkRules {
        key: "team".to_owned(),
        mode: NetworkMode::Any,
        hosts: policy.own.hosts.clone(),
        ..NetworkRules::default()
    };
    let unpinned = NetworkPolicy::new(super::NetworkRules {
        mode: NetworkMode::Any,
        ..NetworkRules::default()
    });
    let unpinned = unpinned.capped_by(NetworkPolicy::new(by_team));
    let app = target("http://app.example/");
    let refusal = unpinned.judge_address(&app, "10.0.0.1".parse().unwrap());
    let refusal = refusal.unwrap_err().to_string();
    assert!(
        refusal.contains("the entry in team.hosts applies to that policy only"),
        "{refusal}"
    );
    assert!(
        refusal.contains("network.hosts: {app.example: 10.0.0.1}"),
        "{refusal}"
    );
    // The team's policy does not pin the name.
    let capped = policy.capped_by(NetworkPolicy::new(super::NetworkRules {
        key: "team".to_owned(),
        mode: NetworkMode::Any,
        ..NetworkRules::default()
    }));
    assert_eq!(
        rule_for(&capped, "http://app.example/"),
        "team.blockPrivateIPs"
    );
}

#[test]
fn network_metadata_stays_blocked_when_private_addresses_are_open() {
    let urls = [
        "http://169.254.169.254/",
        "http://0xa9fea9fe/",
        "http://[fd00:ec2::254]/",
        "http://168.63.129.16/",
        "http://metadata.google.internal/",
        "http://METADATA.google.internal./",
    ];
    let mut open = rules(
        NetworkMode::Any,
        &["169.254.0.0/16", "metadata.google.internal"],
    );
    open.block_private = false;
    let mut policy = NetworkPolicy::new(open);
    for url in urls {
        assert_eq!(
            rule_for(&policy, url),
            "network.blockMetadataEndpoints",
            "{url}"
        );
    }
    assert_eq!(
        rule_for_address(&policy, "http://app.example/", "64:ff9b::a9fe:a9fe"),
        "network.blockMetadataEndpoints"
    );
    assert_eq!(rule_for(&policy, "http://10.0.0.1/"), "");
    assert_eq!(
        rule_for_address(&policy, "http://app.example/", "10.0.0.1"),
        ""
    );
    policy.own.block_metadata = false;
    for url in urls {
        assert_eq!(rule_for(&policy, url), "", "{url}");
    }
    policy.own.block_private = true;
    policy.own.allowed.clear();
    assert_eq!(
        rule_for(&policy, "http://169.254.169.254/"),
        "network.blockPrivateIPs"
    );
}

#[test]
fn network_special_addresses_are_never_reached() {
    let mut open = rules(NetworkMode::Any, &["0.0.0.0", "224.0.0.0/4", "[::]"]);
    (open.block_private, open.block_metadata) = (false, false);
    let policy = NetworkPolicy::new(open);
    for url in [
        "http://0/",
        "http://224.0.0.1/",
        "http://255.255.255.255/",
        "http://[::]/",
        "http://[2002:7f00:1::]/",
        "http://192.0.2.1/",
    ] {
        assert!(
            rule_for(&policy, url).starts_with("RFC "),
            "{url}: {}",
            rule_for(&policy, url)
        );
    }
}

#[test]
fn network_layers_apply_the_strictest_policy() {
    let team = |mode, allowed: &[&str]| {
        NetworkPolicy::new(NetworkRules {
            key: "team".to_owned(),
            ..rules(mode, allowed)
        })
    };
    let any = policy(NetworkMode::Any, &[]);
    assert_eq!(
        rule_for(
            &any.clone().capped_by(team(NetworkMode::None, &[])),
            "https://a.example/"
        ),
        "team.mode: none"
    );
    assert_eq!(
        rule_for(
            &any.clone()
                .capped_by(team(NetworkMode::Allowlist, &["*.example"])),
            "https://a.example/"
        ),
        ""
    );
    assert_eq!(
        rule_for(
            &any.clone()
                .capped_by(team(NetworkMode::Allowlist, &["*.example"])),
            "https://a.test/"
        ),
        "unlisted"
    );
    assert_eq!(
        rule_for(
            &policy(NetworkMode::None, &[]).capped_by(team(NetworkMode::Any, &[])),
            "https://a.example/"
        ),
        "network.mode: none"
    );
    // Neither list widens the other.
    let both = policy(NetworkMode::Allowlist, &["*.example"])
        .capped_by(team(NetworkMode::Allowlist, &["a.example", "b.test"]));
    for (url, expected) in [
        ("https://a.example/", ""),
        ("https://b.example/", "unlisted"),
        ("https://b.test/", "unlisted"),
    ] {
        assert_eq!(rule_for(&both, url), expected, "{url}");
    }
    // A private address must be listed in every policy.
    let own = policy(NetworkMode::Any, &["127.0.0.1"]);
    assert_eq!(
        rule_for(
            &own.clone().capped_by(team(NetworkMode::Any, &[])),
            "http://127.0.0.1/"
        ),
        "team.blockPrivateIPs"
    );
    assert_eq!(
        rule_for(
            &own.capped_by(team(NetworkMode::Any, &["127.0.0.0/8"])),
            "http://127.0.0.1/"
        ),
        ""
    );
}

#[test]
fn network_need_allows_a_host_with_its_methods() {
    let needs = [HostNeed {
        host: "api.example:8080".to_owned(),
        methods: vec!["GET".to_owned(), "POST".to_owned()],
        reason: String::new(),
    }];
    let granted = NetworkPolicy::for_needs("granted", &needs).unwrap();
    let entries = needs
        .iter()
        .map(|need| AllowedHost::from_need(need).unwrap());
    let rules = super::NetworkRules {
        allowed: entries.collect(),
        ..super::NetworkRules::default()
    };
    let policy = NetworkPolicy::new(rules).capped_by(granted);
    let is_allowed = |url, method| policy.judge(&target(url), method).is_allowed();
    assert!(is_allowed("http://api.example:8080/", "GET"));
    assert!(is_allowed("http://api.example:8080/", "POST"));
    assert!(!is_allowed("http://api.example:8080/", "DELETE"));
    assert!(
        !is_allowed("http://api.example:8080/", "get"),
        "the case of the method was ignored"
    );
    assert!(!is_allowed("http://api.example/", "GET"));
    assert!(
        NetworkPolicy::for_needs(
            "granted",
            &[HostNeed {
                host: "*:443".to_owned(),
                ..needs[0].clone()
            }]
        )
        .is_err()
    );
}

#[test]
fn network_refusal_names_the_setting_to_change() {
    let policy = policy(NetworkMode::Allowlist, &[]);
    for (url, remedy) in [
        (
            "https://a.example/x?token=1",
            "add `a.example` to `network.allowedHosts`",
        ),
        (
            "http://localhost/",
            "add `localhost` to `network.allowedHosts`",
        ),
        ("http://a.example:22/", "`network.blockedPorts`"),
        ("http://169.254.169.254/", "blockMetadataEndpoints: false"),
    ] {
        let verdict = policy.judge(&target(url), "GET");
        let text = verdict.refusal().unwrap().to_string();
        assert!(text.contains(remedy), "{text}");
        assert!(!text.contains("token"), "{text}");
    }
}

#[test]
fn network_listed_addresses_may_still_be_refused() {
    let any = policy(NetworkMode::Any, &[]);
    for url in ["http://[2002:7f00:1::]/", "http://240.0.0.1/"] {
        assert!(any.allows_by_lists(&target(url), "GET"), "{url}");
        assert!(!any.judge(&target(url), "GET").is_allowed(), "{url}");
    }
    let none = policy(NetworkMode::None, &[]);
    assert!(!none.allows_by_lists(&target("http://a.example/"), "GET"));
}

#[test]
fn network_as_resolved_opens_addresses_of_that_host_only() {
    let registry = || ["https://registry.example".parse().unwrap()];
    let policy = policy(NetworkMode::Allowlist, &["other.example"]).with_as_resolved(registry());
    let registry_target = target("https://registry.example/a");
    assert!(policy.judge(&registry_target, "CONNECT").is_allowed());
    for address in ["10.0.0.1", "203.0.113.80"] {
        let address = address.parse().unwrap();
        assert!(policy.judge_address(&registry_target, address).is_ok());
        assert!(
            policy
                .judge_address(&target("https://other.example/"), address)
                .is_err()
        );
        // The outer policy decides.
        let capped = NetworkPolicy::default()
            .with_as_resolved(registry())
            .capped_by(NetworkPolicy::default());
        assert!(capped.judge_address(&registry_target, address).is_err());
    }
    let metadata = "169.254.169.254".parse().unwrap();
    assert!(policy.judge_address(&registry_target, metadata).is_err());
}

#[test]
fn network_serving_lists_only_loopback_on_the_session_ports() {
    let serving = |mode| policy(mode, &[]).with_served_ports(&[8123]);
    let own = serving(NetworkMode::Allowlist);
    for host in ["localhost", "127.0.0.1", "[::1]"] {
        let url = format!("http://{host}:8123/x");
        assert_eq!(rule_for(&own, &url), "", "{url}");
        assert!(own.serves(&target(&url)));
        assert_eq!(
            rule_for(&serving(NetworkMode::None), &url),
            "network.mode: none"
        );
    }
    for other in [
        "http://localhost:8124/",
        "http://10.0.0.1:8123/",
        "http://169.254.169.254:8123/",
        "http://example.com:8123/",
    ] {
        assert_ne!(rule_for(&own, other), "", "{other}");
        assert!(!own.serves(&target(other)));
    }
    // Another name that resolves to a loopback address stays refused.
    assert_ne!(
        rule_for_address(&own, "http://example.com:8123/", "127.0.0.1"),
        ""
    );
    // A tool without a grant for the host does not reach it.
    let granted = policy(NetworkMode::Allowlist, &["example.com"]).capped_by(own);
    assert_ne!(rule_for(&granted, "http://localhost:8123/"), "");
    let blocked = NetworkRules {
        blocked_ports: vec![8123],
        ..NetworkRules::default()
    };
    let blocked = NetworkPolicy::new(blocked).with_served_ports(&[8123]);
    assert_eq!(
        rule_for(&blocked, "http://localhost:8123/"),
        "network.blockedPorts"
    );
}
