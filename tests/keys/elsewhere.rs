//! Keys that are shown beside the code that enforces them: what only the program does, and what the record does
//! where nobody outside can see it.

use std::fs;

use crate::house::root;

/// A key, the file and the test that shows it.
const SHOWN: &[(&str, &str, &str)] = &[
    (
        "profile",
        "host/cli/tests/keys.rs",
        "the_profile_chooses_what_models_see",
    ),
    (
        "tools.autoLoadCustomTools",
        "host/cli/tests/keys.rs",
        "custom_tools_are_left_alone_where_that_is_set",
    ),
    (
        "secrets.*.env",
        "host/cli/tests/keys.rs",
        "a_secret_from_a_variable_is_masked",
    ),
    (
        "approvals.leaseDays",
        "host/core/src/pipeline/tests/approvals.rs",
        "always_ends_when_the_settings_say",
    ),
    (
        "audit.durability",
        "host/core/src/audit/tests/together.rs",
        "only_fsync_waits_for_the_disk",
    ),
    (
        "network.mode",
        "host/net/tests/keys.rs",
        "mode_says_whether_there_is_a_network",
    ),
    (
        "network.allowedHosts",
        "host/net/tests/keys.rs",
        "allowed_hosts_are_reached",
    ),
    (
        "network.blockedPorts",
        "host/net/tests/keys.rs",
        "blocked_ports_are_not",
    ),
    (
        "network.blockPrivateIPs",
        "host/net/tests/keys.rs",
        "private_addresses_are_reached_by_names_where_that_is_set",
    ),
    (
        "network.blockMetadataEndpoints",
        "host/net/tests/keys.rs",
        "metadata_is_looked_for_where_that_is_set",
    ),
    (
        "network.hosts.*",
        "host/net/tests/keys.rs",
        "hosts_have_the_addresses_that_are_set",
    ),
    (
        "network.extraRoots",
        "host/net/tests/keys.rs",
        "extra_roots_are_trusted",
    ),
    (
        "tools.*.network.mode",
        "host/net/tests/keys.rs",
        "mode_says_whether_there_is_a_network",
    ),
    (
        "tools.*.network.allowedHosts",
        "host/net/tests/keys.rs",
        "allowed_hosts_are_reached",
    ),
    (
        "tools.*.network.blockedPorts",
        "host/net/tests/keys.rs",
        "blocked_ports_are_not",
    ),
    (
        "tools.*.network.blockPrivateIPs",
        "host/net/tests/keys.rs",
        "private_addresses_are_reached_by_names_where_that_is_set",
    ),
    (
        "tools.*.network.blockMetadataEndpoints",
        "host/net/tests/keys.rs",
        "metadata_is_looked_for_where_that_is_set",
    ),
    (
        "tools.*.network.hosts.*",
        "host/net/tests/keys.rs",
        "hosts_have_the_addresses_that_are_set",
    ),
    (
        "tools.*.network.extraRoots",
        "host/net/tests/keys.rs",
        "extra_roots_are_trusted",
    ),
    (
        "webSearch.provider",
        "tests/net/search.rs",
        "each_provider_is_asked_as_it_wants_to_be",
    ),
    (
        "webSearch.url",
        "tests/net/search.rs",
        "a_searxng_is_asked_where_it_is",
    ),
    (
        "webSearch.key",
        "tests/net/search.rs",
        "the_key_goes_into_the_header_and_nowhere_else",
    ),
    (
        "webSearch.header",
        "tests/net/search.rs",
        "the_key_goes_into_the_header_and_nowhere_else",
    ),
    (
        "webSearch.body",
        "tests/net/search.rs",
        "a_template_asks_anybody",
    ),
    (
        "webSearch.results",
        "tests/net/search.rs",
        "a_template_asks_anybody",
    ),
    (
        "webSearch.fields.title",
        "tests/net/search.rs",
        "a_template_asks_anybody",
    ),
    (
        "webSearch.fields.url",
        "tests/net/search.rs",
        "a_template_asks_anybody",
    ),
    (
        "webSearch.fields.snippet",
        "tests/net/search.rs",
        "a_template_asks_anybody",
    ),
    (
        "sandbox",
        "host/cli/tests/sandbox.rs",
        "the_sandbox_is_the_one_that_is_named",
    ),
    (
        "sandbox.mode",
        "host/cli/tests/sandbox.rs",
        "the_sandbox_is_the_one_that_is_named",
    ),
    (
        "sandbox.bindMounts",
        "host/cli/tests/sandbox.rs",
        "what_is_mounted_is_seen",
    ),
    (
        "sandbox.networkAccess",
        "host/cli/tests/sandbox.rs",
        "the_network_is_not_reached_and_not_promised",
    ),
    (
        "sandbox.maxMemoryMb",
        "host/cli/tests/sandbox.rs",
        "what_a_command_uses_up_is_held_or_it_does_not_start",
    ),
    (
        "sandbox.maxProcesses",
        "host/cli/tests/sandbox.rs",
        "what_a_command_uses_up_is_held_or_it_does_not_start",
    ),
    (
        "sandbox.maxCpuPercent",
        "host/cli/tests/sandbox.rs",
        "what_a_command_uses_up_is_held_or_it_does_not_start",
    ),
    (
        "sandbox.image",
        "host/cli/tests/sandbox.rs",
        "what_only_containers_have_is_refused_elsewhere",
    ),
    (
        "sandbox.socket",
        "host/cli/tests/sandbox.rs",
        "a_container_that_is_not_to_be_had_refuses_and_says_why",
    ),
];

pub fn keys() -> impl Iterator<Item = &'static str> {
    SHOWN.iter().map(|(key, ..)| *key)
}

#[test]
fn what_is_shown_elsewhere_is_there() {
    for (key, file, test) in SHOWN {
        let text = fs::read_to_string(root().join(file)).unwrap_or_else(|e| panic!("{file}: {e}"));
        let start = [
            format!("#[test]\nfn {test}() {{\n"),
            format!("#[tokio::test]\nasync fn {test}() {{\n"),
        ];
        let body = start.iter().find_map(|start| text.split_once(start));
        let Some((_, body)) = body else {
            panic!("{file} has no test `{test}` for {key}");
        };
        let (body, _) = body.split_once("\n}\n").unwrap();
        let name = key.rsplit('.').next().unwrap();
        assert!(body.contains(name), "`{test}` does not set {key}");
    }
}
