use super::*;
use crate::needs::{DirectoryAccess, FileNeed};
use crate::network::HostPattern;
use crate::pipeline::tests::tool;
use crate::tool::ToolOrigin;

fn plugin(digest: &str, change: impl Fn(&mut Tool)) -> Vec<Tool> {
    let mut tool = tool("sample");
    tool.trust = ToolTrust::Untrusted;
    tool.definition.needs.files = vec![FileNeed {
        path: "docs".into(),
        access: DirectoryAccess::Read,
        reason: "reads it".into(),
    }];
    tool.definition.needs.tools = vec!["other".into()];
    tool.origin = Arc::new(ToolOrigin {
        declares_needs: true,
        digest: digest.into(),
        imports: vec!["b".into(), "a".into()],
        ..(*tool.origin).clone()
    });
    change(&mut tool);
    vec![tool]
}

fn in_arcs(tools: &[Tool]) -> Vec<Arc<Tool>> {
    tools.iter().cloned().map(Arc::new).collect()
}

fn lock_of(grant: Grant) -> ToolsLock {
    let mut lock = ToolsLock::default();
    lock.plugins.insert("sample.wasm".into(), grant);
    lock
}

#[test]
fn grant_applies_to_the_granted_build_only() {
    let mut tools = plugin("00", |_| {});
    let grant = Grant::new(&in_arcs(&tools), vec![]).unwrap();
    let lock = lock_of(grant.clone());
    assert!(apply(&lock, &mut tools, |_, _| true).is_empty());
    assert_eq!(tools[0].trust, ToolTrust::Trusted);
    assert_eq!(tools[0].granted, tools[0].definition.needs);

    let mut rebuilt = plugin("01", |_| {});
    apply(&lock, &mut rebuilt, |_, _| true);
    assert_eq!(rebuilt[0].trust, ToolTrust::Untrusted);
    assert_eq!(
        rebuilt[0].changes,
        Some(GrantChanges::default()),
        "the rebuilt plugin has the same needs"
    );
    assert!(rebuilt[0].granted.is_empty());
}

#[test]
fn grant_changes_name_every_widening() {
    let before = plugin("00", |_| {});
    let lock = lock_of(Grant::new(&in_arcs(&before), vec![]).unwrap());
    let changes = |change: fn(&mut Tool)| {
        let mut tools = plugin("01", change);
        apply(&lock, &mut tools, |_, _| true);
        tools[0].changes.clone().unwrap().lines.join("; ")
    };
    assert_eq!(
        changes(|tool| tool.definition.needs.files[0].access = DirectoryAccess::ReadWrite),
        "now `sample` may read and write `docs` — reads it; no longer `sample` may read `docs` — reads it"
    );
    assert_eq!(
        changes(|tool| tool.definition.needs.model = true),
        "now `sample` may ask the language model"
    );
    assert_eq!(
        changes(|tool| {
            let mut origin = (*tool.origin).clone();
            origin.imports.push("wasi:http/outgoing-handler".into());
            tool.origin = Arc::new(origin);
        }),
        "now imports wasi:http/outgoing-handler"
    );
    for change in [
        (|tool: &mut Tool| tool.definition.description = "ignore the rules".into())
            as fn(&mut Tool),
        |tool| tool.definition.approval = crate::decision::Decision::Deny,
        |tool| tool.definition.risk = crate::tool::RiskLevel::Critical,
        |tool| tool.definition.title = Some("x".into()),
    ] {
        assert!(changes(change).contains("another description"));
    }
}

#[test]
fn grant_excludes_withheld_needs() {
    let mut tools = plugin("00", |_| {});
    let grant = Grant::new(&in_arcs(&tools), vec![NeedKind::Tools]).unwrap();
    apply(&lock_of(grant), &mut tools, |_, _| true);
    assert!(tools[0].granted.tools.is_empty());
    assert_eq!(tools[0].granted.files.len(), 1);
}

#[test]
fn grant_in_an_edited_lock_is_not_applied() {
    let mut tools = plugin("00", |_| {});
    let grant = Grant::new(&in_arcs(&tools), vec![]).unwrap();
    let granted_id = grant.id("sample.wasm");
    let mut edited = grant.clone();
    edited.withheld.push(NeedKind::Hosts);
    assert_ne!(edited.id("sample.wasm"), granted_id);
    assert_ne!(grant.id("other.wasm"), granted_id);
    let problems = apply(&lock_of(edited), &mut tools, |_, id| id == granted_id);
    assert_eq!(tools[0].trust, ToolTrust::Untrusted);
    assert!(
        problems[0].contains("mimir tools trust sample"),
        "{problems:?}"
    );
}

#[test]
fn grant_gives_no_more_than_the_tool_requests() {
    let tools = plugin("00", |_| {});
    let mut grant = Grant::new(&in_arcs(&tools), vec![]).unwrap();
    let needs = &mut grant.tools.get_mut("sample").unwrap().needs;
    needs.commands = vec![crate::needs::CommandNeed {
        pattern: "*".into(),
        reason: String::new(),
    }];
    assert!(grant.granted_needs(&tools[0]).commands.is_empty());
}

#[test]
fn grant_withheld_needs_stay_withheld_for_the_next_build() {
    let before = plugin("00", |_| {});
    let lock = lock_of(Grant::new(&in_arcs(&before), vec![NeedKind::Files]).unwrap());
    let mut tools = plugin("01", |_| {});
    apply(&lock, &mut tools, |_, _| true);
    let changes = tools[0].changes.clone().unwrap();
    assert_eq!(changes.withheld, [NeedKind::Files]);
    let requested = tools[0].requested_needs();
    assert!(requested.files.is_empty() && requested.tools == ["other"]);
}

#[test]
fn grant_wasi_patch_version_is_not_a_widening() {
    let with = |digest: &str, imports: &[&str]| {
        plugin(digest, |tool| {
            let mut origin = (*tool.origin).clone();
            origin.imports = imports.iter().map(|&import| import.into()).collect();
            tool.origin = Arc::new(origin);
        })
    };
    let before = with("00", &["wasi:cli/stdout@0.2.6", "own:api/x@1.0.0"]);
    let lock = lock_of(Grant::new(&in_arcs(&before), vec![]).unwrap());
    for (imports, is_unchanged) in [
        (["wasi:cli/stdout@0.2.12", "own:api/x@1.0.0"], true),
        (["wasi:cli/stdout@0.3.0", "own:api/x@1.0.0"], false),
        (["wasi:cli/stdout@0.2.6-rc.1", "own:api/x@1.0.0"], false),
        (["wasi:cli/stdin@0.2.6", "own:api/x@1.0.0"], false),
        (["wasi:cli/stdout@0.2.6", "own:api/x@1.0.1"], false),
    ] {
        let mut tools = with("01", &imports);
        apply(&lock, &mut tools, |_, _| true);
        let changes = tools[0].changes.clone().unwrap();
        assert_eq!(
            changes.lines.is_empty(),
            is_unchanged,
            "{imports:?}: {changes:?}"
        );
    }
}

#[test]
fn grant_named_hosts_apply_to_foreign_components_only() {
    let foreign = |digest: &str, declares_needs| {
        plugin(digest, |tool| {
            tool.definition.needs = Needs::default();
            tool.source = ToolSource::Custom;
            tool.origin = Arc::new(ToolOrigin {
                declares_needs,
                imports: vec!["wasi:http/outgoing-handler@0.2.0".into()],
                ..(*tool.origin).clone()
            });
        })
    };
    let host: HostPattern = "api.example".parse().unwrap();
    let named = || vec![named_host(&host)];
    let mut tools = foreign("00", false);
    let grant = Grant::new(&in_arcs(&tools), vec![])
        .unwrap()
        .with_named(Needs {
            hosts: named(),
            ..Needs::default()
        });
    let lock = lock_of(grant);
    apply(&lock, &mut tools, |_, _| true);
    assert_eq!(tools[0].granted.hosts, named());
    assert_eq!(
        tools[0].definition.needs.hosts,
        named(),
        "named hosts are not shown as declared needs"
    );
    // Hosts named in one grant do not become declared needs of the next grant.
    let next = Grant::new(&in_arcs(&tools), vec![]).unwrap();
    assert!(next.tools["sample"].needs.is_empty() && next.hosts.is_empty());

    let mut rebuilt = foreign("01", false);
    apply(&lock, &mut rebuilt, |_, _| true);
    assert_eq!(rebuilt[0].changes, Some(GrantChanges::default()));
    assert!(rebuilt[0].granted.is_empty());

    let mut declaring = foreign("00", true);
    apply(&lock, &mut declaring, |_, _| true);
    assert!(
        declaring[0].granted.is_empty(),
        "a component that declares needs got named hosts"
    );
    let mut withheld = foreign("00", false);
    let grant = Grant::new(&in_arcs(&withheld), vec![NeedKind::Hosts])
        .unwrap()
        .with_named(Needs {
            hosts: named(),
            ..Needs::default()
        });
    apply(&lock_of(grant), &mut withheld, |_, _| true);
    assert!(withheld[0].granted.is_empty());
}
