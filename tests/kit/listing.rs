//! Changed tools, as after another listing.

use mimir_core::pipeline::PipelineSnapshot;
use mimir_core::{Registry, Tool};
use mimir_testkit::Testkit;

/// Changes every tool of a kit; the rules stay the same.
pub fn change(kit: &Testkit, change: impl Fn(&mut Tool)) {
    let world = kit.pipeline().snapshot();
    let tools = world.registry.tools().iter().map(|tool| {
        let mut tool = (**tool).clone();
        change(&mut tool);
        tool
    });
    kit.pipeline().replace(PipelineSnapshot {
        registry: Registry::new(tools, vec![]),
        policy: world.policy.clone(),
    });
}
