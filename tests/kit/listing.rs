//! Changes tools, as if a server or plugin had listed them again.

use mimir_core::pipeline::PipelineSnapshot;
use mimir_core::{Registry, Tool};
use mimir_testkit::Testkit;

/// Changes every tool of a kit. The policy stays unchanged.
pub fn change(kit: &Testkit, change: impl Fn(&mut Tool)) {
    let snapshot = kit.pipeline().snapshot();
    let tools = snapshot.registry.tools().iter().map(|tool| {
        let mut tool = (**tool).clone();
        change(&mut tool);
        tool
    });
    kit.pipeline().replace(PipelineSnapshot {
        registry: Registry::new(tools, vec![]),
        policy: snapshot.policy.clone(),
    });
}
