use super::*;
use crate::pipeline::tests::tool;
use crate::tool::ToolName;

fn alias(name: &str) -> ToolName {
    ToolName::new(name).unwrap()
}

#[test]
fn names_win_over_aliases_whatever_the_order() {
    let mut first = tool("read_file");
    first.aliases = vec![alias("read"), alias("open")];
    let second = tool("read");
    let registry = Registry::new([first, second], vec![]);
    assert_eq!(
        registry.get("read").map(|tool| tool.name().as_str()),
        Some("read_file"),
        "the first to take a name keeps it"
    );
    assert_eq!(registry.get("open").unwrap().name().as_str(), "read_file");
    assert_eq!(registry.quarantined().len(), 1);
}

#[test]
fn a_collision_names_both_sources() {
    let mut one = tool("same");
    Arc::make_mut(&mut one.origin).location = "a.wasm".into();
    let mut two = tool("same");
    Arc::make_mut(&mut two.origin).location = "b.wasm".into();
    let registry = Registry::new([one, two], vec![]);
    let [left_out] = registry.quarantined() else {
        panic!("{registry:?}")
    };
    assert!(
        left_out.location.contains("b.wasm") && left_out.reason.contains("a.wasm"),
        "{left_out:?}"
    );
    assert_eq!(registry.get("same").unwrap().origin.location, "a.wasm");
}

#[test]
fn an_unknown_name_finds_its_neighbours() {
    let registry = Registry::new([tool("read_file"), tool("git")], vec![]);
    let error = registry.find("raed_file").unwrap_err();
    assert_eq!(error.code, Code::NotFound);
    assert!(error.message.contains("`read_file`"), "{error}");
}
