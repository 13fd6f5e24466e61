//! Tools in the world `near:agent` of ironclaw.

use mimir_core::ToolErrorCode;
use mimir_testkit::json;

use super::{failure, kit};

#[test]
fn near_agent_tool_describes_itself_and_runs() {
    let kit = kit("near_agent").workspace(|folder| {
        std::fs::write(folder.join("notes.txt"), "secret notes").unwrap();
    });
    assert_eq!(kit.quarantined().len(), 0, "{:?}", kit.quarantined());
    let tools = kit.tools();
    assert_eq!(tools[0].name().as_str(), "near_agent");
    assert_eq!(
        tools[0].definition.description,
        "Does what its argument says."
    );
    let outcome = kit.call("near_agent", json!({ "action": "time" }));
    let output = outcome.result().unwrap();
    assert!(
        output.structured.as_ref().unwrap()["millis"]
            .as_u64()
            .unwrap()
            > 1_700_000_000_000
    );
    assert!(kit.log().iter().any(|line| line.text.contains("time")));
    assert_eq!(
        kit.call("near_agent", json!({ "action": "secret" })).text(),
        "false"
    );
}

#[test]
fn near_agent_tool_gets_nothing_that_was_not_granted() {
    let kit = kit("near_agent").workspace(|folder| {
        std::fs::write(folder.join("notes.txt"), "secret notes").unwrap();
    });
    for (action, expected) in [
        ("read", "no such file"),
        ("fetch", "was not granted `127.0.0.1`"),
        ("invoke", "was not granted calls of `other`"),
    ] {
        let (code, message) = failure(&kit, "near_agent", json!({ "action": action }));
        assert_ne!(code, ToolErrorCode::InvalidInput, "{action}: {message}");
        assert!(message.contains(expected), "{action}: {message}");
    }
    let (code, _) = failure(&kit, "near_agent", json!({ "action": "other" }));
    assert_eq!(code, ToolErrorCode::InvalidInput);
    // Nothing is proven: the host interface could reach the network, folders and other tools.
    assert!(kit.tools()[0].origin.proofs.is_empty());
}
