//! A component that was not written for mimir and sends requests: a person chooses the hosts. `.ci/foreign` tests the
//! same with a third-party component.

use std::sync::Arc;

use mimir_core::grants::{self, Grant, ToolsLock};
use mimir_core::network::HostPattern;
use mimir_core::pipeline::PipelineSnapshot;
use mimir_core::{Registry, Tool};
use mimir_testkit::{Approve, Testkit, ToolErrorCode, json};

use super::site::Site;
use crate::guests;

/// A kit with the program, and with these hosts granted by a person.
fn kit(hosts: Option<&[&str]>) -> Testkit {
    let kit = Testkit::new(guests::HTTP_COMMAND.path).unwrap();
    let kit = kit.approve(Approve::Always);
    let Some(hosts) = hosts else { return kit };
    let tools = kit.tools();
    let named = hosts
        .iter()
        .map(|host| grants::named_host(&host.parse::<HostPattern>().unwrap()));
    let grant = Grant::new(&tools, vec![])
        .unwrap()
        .with_named(mimir_core::Needs {
            hosts: named.collect(),
            ..mimir_core::Needs::default()
        });
    let mut lock = ToolsLock::default();
    lock.plugins.insert(tools[0].origin.location.clone(), grant);
    // Parsed as from the file.
    let lock: ToolsLock = serde_json::from_value(json!(lock)).unwrap();
    let mut tools: Vec<Tool> = tools.iter().map(|tool| Tool::clone(tool)).collect();
    assert!(grants::apply(&lock, &mut tools, |_, _| true).is_empty());
    let policy = kit.pipeline().snapshot().policy.clone();
    let registry = Registry::new(tools, vec![]);
    kit.pipeline()
        .replace(PipelineSnapshot { registry, policy });
    kit
}

#[test]
fn http_reaches_only_the_hosts_a_person_named() {
    let site = Arc::new(Site::says("from the site"));
    let arguments = json!({"args": [site.url("/")]});
    let granted = kit(Some(&["127.0.0.1"]));
    let outcome = granted.call("http_command", arguments.clone());
    assert_eq!(outcome.text(), "from the site");
    assert!(granted.cards().is_empty());
    let tool = &granted.tools()[0];
    assert_eq!(
        tool.definition.needs.hosts[0].host, "127.0.0.1",
        "as info shows it"
    );
    for hosts in [
        None,
        Some(&[][..]),
        Some(&["api.example", "127.0.0.1:1"][..]),
    ] {
        let kit = kit(hosts);
        let outcome = kit.call("http_command", arguments.clone());
        let error = outcome.result().unwrap_err();
        assert_eq!(
            error.code,
            ToolErrorCode::PolicyDenied,
            "{hosts:?}: {error}"
        );
        assert!(
            error
                .remedies
                .iter()
                .any(|way| way.contains("mimir tools trust http_command --host")),
            "{:?}",
            error.remedies
        );
    }
    assert_eq!(site.received().len(), 1);
}

#[test]
fn host_naming_is_limited_to_foreign_http_components() {
    let kit = Testkit::new(guests::FETCH.path).unwrap();
    assert!(kit.tools().iter().all(|tool| !grants::takes_hosts(tool)));
    let echo = Testkit::new(guests::ADDER.path).unwrap();
    assert!(echo.tools().iter().all(|tool| !grants::takes_hosts(tool)));
}
