//! Guests with false descriptions. Each is quarantined with a reason; the honest plugin is not affected.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mimir_core::{Quarantined, ToolErrorCode};
use mimir_kit::Arena;
use mimir_wasm::{
    CompileEvent, ComponentCheck, ComponentCheckFactory, HostOptions, Sha256Digest, TeamComponent,
    Toolbox, WasmHost,
};

use super::nothing;
use crate::guests;

#[test]
fn describe_that_never_returns() {
    let arena = Arena::new(guests::DESCRIBE_NEVER_RETURNS);
    let result = arena.kit().quarantined().remove(0);
    // Its fuel and its five seconds end at about the same time; the order depends on the machine.
    assert!(
        matches!(
            result.code,
            ToolErrorCode::LimitExceeded | ToolErrorCode::Timeout
        ),
        "{result:?}"
    );
    assert!(result.reason.contains("describe"), "{}", result.reason);
}

#[test]
fn describe_that_crashes() {
    let result =
        Arena::new(guests::DESCRIBE_TRAPS).assert_quarantined(ToolErrorCode::ExecutionError);
    assert!(
        result.reason.contains("ask me tomorrow"),
        "{}",
        result.reason
    );
}

#[test]
fn describe_with_ten_thousand_tools_is_rejected() {
    let arena = Arena::new(guests::DESCRIBE_MANY_TOOLS);
    let result = arena
        .kit()
        .quarantined()
        .into_iter()
        .find(|result| result.location.contains("many_tools"))
        .unwrap();
    assert!(
        matches!(
            result.code,
            ToolErrorCode::InvalidInput | ToolErrorCode::LimitExceeded
        ),
        "{result:?}"
    );
    assert_eq!(arena.kit().tools().len(), 1, "only the honest one");
}

#[test]
fn describe_of_fifty_megabytes_exceeds_the_limit() {
    Arena::new(guests::DESCRIBE_HUGE).assert_quarantined(ToolErrorCode::LimitExceeded);
}

#[test]
fn describe_amplified_to_a_terabyte_exceeds_the_limit() {
    Arena::new(guests::DESCRIBE_AMPLIFIED).assert_quarantined(ToolErrorCode::LimitExceeded);
}

#[test]
fn describe_with_a_duplicate_tool_name_uses_the_first() {
    let arena = Arena::new(guests::DESCRIBE_DUPLICATES);
    let result = arena.assert_quarantined(ToolErrorCode::InvalidInput);
    assert!(result.reason.contains("twice"), "{}", result.reason);
    assert_eq!(arena.kit().tools().len(), 2, "the first counts");
}

#[test]
fn describe_without_tools_is_rejected() {
    Arena::new(guests::DESCRIBE_NOTHING).assert_quarantined(ToolErrorCode::InvalidInput);
}

#[test]
fn describe_with_an_invalid_input_schema_is_rejected() {
    let result =
        Arena::new(guests::DESCRIBE_BAD_SCHEMA).assert_quarantined(ToolErrorCode::InvalidInput);
    assert!(result.reason.contains("input schema"), "{}", result.reason);
}

#[test]
fn describe_with_a_schema_unfolding_to_millions_is_rejected() {
    let arena = Arena::new(guests::DESCRIBE_SCHEMA_UNFOLDS);
    let result = arena.kit().quarantined();
    for which in ["input", "output"] {
        let told = result.iter().any(|result| {
            result.code == ToolErrorCode::InvalidInput
                && result.reason.contains(which)
                && result.reason.contains("unfold")
        });
        assert!(told, "{which}: {result:?}");
    }
    arena.assert_quarantined(ToolErrorCode::InvalidInput);
}

#[test]
fn describe_with_a_remote_schema_reference_is_rejected() {
    let result =
        Arena::new(guests::DESCRIBE_REMOTE_SCHEMA).assert_quarantined(ToolErrorCode::InvalidInput);
    assert!(
        !result.reason.contains("root:"),
        "it was read: {}",
        result.reason
    );
}

#[test]
fn describe_with_a_path_as_tool_name_is_rejected() {
    let result =
        Arena::new(guests::DESCRIBE_BAD_NAME).assert_quarantined(ToolErrorCode::InvalidInput);
    let shown = format!("{}{}", result.location, result.reason);
    assert!(!shown.contains('\u{1b}'), "{shown:?}");
}

#[test]
fn describe_that_is_not_utf8_is_rejected() {
    let result =
        Arena::new(guests::DESCRIBE_BAD_UTF8).assert_quarantined(ToolErrorCode::ExecutionError);
    assert!(result.reason.contains("not UTF-8"), "{}", result.reason);
}

#[test]
fn describe_with_needs_outside_the_workspace_is_rejected() {
    let result =
        Arena::new(guests::DESCRIBE_OUTSIDE_NEEDS).assert_quarantined(ToolErrorCode::InvalidInput);
    assert!(result.reason.contains("`../..`"), "{}", result.reason);
}

#[test]
fn describe_text_cannot_drive_the_terminal() {
    let arena = Arena::new(guests::DESCRIBE_DISGUISED);
    let tools = arena.kit().tools();
    let tool = tools
        .iter()
        .find(|tool| tool.name().as_str() == "describe_disguised")
        .unwrap();
    let shown = format!(
        "{}{}",
        tool.definition.description,
        tool.definition.title.clone().unwrap_or_default()
    );
    assert!(
        shown.contains("Safe") && !shown.contains(['\u{1b}', '\u{7}', '\u{202e}']),
        "{shown:?}"
    );
    assert_eq!(arena.call(nothing()).text(), "shown");
}

/// Loads the only component in the folder with a new host. Returns why it is left out, and the number of compilations.
async fn load_checked(home: &Path, checks: Option<ComponentCheckFactory>) -> (Quarantined, usize) {
    load_from(home, |toolbox| toolbox.with_file_checks(checks)).await
}

/// Loads the only component of a toolbox with a new host, as [`load_checked`] does.
async fn load_from(
    home: &Path,
    options_of: impl FnOnce(Toolbox) -> Toolbox,
) -> (Quarantined, usize) {
    let compiled = Arc::<AtomicUsize>::default();
    let counter = Arc::clone(&compiled);
    let mut options = HostOptions::new(home.join("workspace"));
    options.cache_dir = Some(home.join("cache"));
    options.on_compile = Some(Arc::new(move |event| {
        if matches!(event, CompileEvent::Started { .. }) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }));
    let folder = Some(home.join("workspace/tools"));
    let toolbox = options_of(Toolbox::new(WasmHost::new(options), vec![], folder));
    let mut loaded = toolbox.load().await;
    assert_eq!(loaded.quarantined.len(), 1);
    (
        loaded.quarantined.remove(0),
        compiled.load(Ordering::Relaxed),
    )
}

#[tokio::test]
async fn describe_of_a_component_that_a_check_refuses_is_not_run() {
    let home = tempfile::tempdir().unwrap();
    let tools = home.path().join("workspace/tools");
    fs::create_dir_all(&tools).unwrap();
    let component = fs::read(guests::DESCRIBE_TRAPS.path).unwrap();
    fs::write(tools.join("trap.wasm"), &component).unwrap();
    let own = Sha256Digest::of_bytes(&component);
    let refuse: ComponentCheckFactory = Arc::new(move || {
        let check: ComponentCheck = Box::new(move |location: &str, digest: &Sha256Digest| {
            assert_eq!((location, *digest), ("tools/trap.wasm", own));
            Err("it is not signed".to_owned())
        });
        check
    });
    let (refused, compiled) = load_checked(home.path(), Some(Arc::clone(&refuse))).await;
    assert_eq!(refused.code, ToolErrorCode::PolicyDenied, "{refused:?}");
    assert_eq!((refused.reason.as_str(), compiled), ("it is not signed", 0));
    // Without the check it runs.
    let (ran, compiled) = load_checked(home.path(), None).await;
    assert!(ran.reason.contains("ask me tomorrow"), "{ran:?}");
    assert_eq!(compiled, 1);
    // The text of that run, which is cached now, is not shown either.
    let (refused, compiled) = load_checked(home.path(), Some(refuse)).await;
    assert_eq!((refused.reason.as_str(), compiled), ("it is not signed", 0));
    let accept: ComponentCheckFactory = Arc::new(|| Box::new(|_: &str, _: &Sha256Digest| Ok(())));
    let (accepted, _) = load_checked(home.path(), Some(accept)).await;
    assert!(accepted.reason.contains("ask me tomorrow"), "{accepted:?}");
}

#[tokio::test]
async fn describe_of_a_team_component_with_other_bytes_is_not_run() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("trap.wasm");
    fs::copy(guests::DESCRIBE_TRAPS.path, &file).unwrap();
    fs::create_dir_all(home.path().join("workspace/tools")).unwrap();
    let expected = Sha256Digest::of_bytes(b"the component of the bundle");
    let (refused, compiled) = load_from(home.path(), |toolbox| {
        toolbox.with_team(vec![TeamComponent {
            file,
            stem: "trap".to_owned(),
            location: "team:acme/trap.wasm".to_owned(),
            digest: expected,
            enforced: false,
        }])
    })
    .await;
    assert_eq!(refused.code, ToolErrorCode::PermissionDenied, "{refused:?}");
    assert!(refused.reason.contains("mimir team sync"), "{refused:?}");
    assert_eq!(compiled, 0);
}
