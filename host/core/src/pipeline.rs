//! The one road: every call, from every front-end, to every kind of tool, nested ones too.
//!
//! ```text
//! Call ─► validate ─ Checked ─► decide ─ Ruled ─► approve ─ Approved ─► run ─► Backend ─ Raw ─┐
//! Outcome ◄─ audit ◄─ Labeled ─ label ◄─ Clean ─ sanitize ◄──────────────────────────────────┘
//! ```
//!
//! Each stage takes the type of the one before and returns its own; none can be skipped, because
//! only a stage can make its type. A refusal at any stage becomes an outcome like any other.

use std::sync::{Arc, PoisonError, RwLock};

use crate::approval::Approver;
use crate::audit::AuditSink;
use crate::call::Call;
use crate::clock::Clock;
use crate::decision::Evaluation;
use crate::error::ToolError;
use crate::outcome::Outcome;
use crate::policy::Policy;
use crate::registry::Registry;

mod approve;
mod audit;
mod decide;
mod label;
mod run;
mod sanitize;
mod trail;
mod validate;

pub use approve::{Approved, Nested};
pub use decide::Ruled;
pub use label::Labeled;
pub use run::Ran;
pub use sanitize::Clean;
pub use validate::Checked;

use run::Slots;
use trail::Trail;

/// The tools and the rules at one moment. A change makes a new one; calls under way keep theirs.
#[derive(Debug, Default)]
pub struct World {
    /// The tools.
    pub registry: Registry,
    /// The rules.
    pub policy: Policy,
}

/// What the pipeline needs from outside.
#[derive(Clone)]
pub struct Ports {
    /// Asks a person.
    pub approver: Arc<dyn Approver>,
    /// Records every call.
    pub audit: Arc<dyn AuditSink>,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
}

/// Takes calls. Clones share one pipeline.
#[derive(Clone)]
pub struct Pipeline(Arc<Inner>);

struct Inner {
    world: RwLock<Arc<World>>,
    ports: Ports,
    slots: Slots,
}

impl Pipeline {
    /// A pipeline over these tools, rules and ports.
    pub fn new(world: World, ports: Ports) -> Self {
        Self(Arc::new(Inner {
            world: RwLock::new(Arc::new(world)),
            ports,
            slots: Slots::default(),
        }))
    }

    /// The tools and rules that the next call will meet.
    pub fn world(&self) -> Arc<World> {
        let world = self.0.world.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&world)
    }

    /// Puts other tools and rules in place; calls under way finish under the old ones.
    pub fn replace(&self, world: World) {
        *self.0.world.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(world);
    }

    /// Runs a call from beginning to end. Dropping the future stops the tool and records that.
    pub async fn call(&self, call: Call) -> Outcome {
        let ports = &self.0.ports;
        let mut trail = Trail::start(&call, ports);
        let ran = match self.attempt(call, &mut trail).await {
            Ok(ran) => ran,
            Err(error) => Ran::refused(error),
        };
        let clean = sanitize::sanitize(ran);
        let labeled = label::label(clean, &trail);
        audit::audit(labeled, trail)
    }

    /// The way in: what stands between a call and its tool.
    async fn attempt(&self, call: Call, trail: &mut Trail) -> Result<Ran, ToolError> {
        let world = self.world();
        let checked = validate::validate(&world, call, trail)?;
        let ruled = decide::decide(&world.policy, &self.0.slots, checked, trail).await?;
        let approved = approve::approve(self, ruled, trail).await?;
        trail.ready()?;
        run::run(&self.0.slots, approved).await
    }

    /// What would be decided about this call, and why. Nothing runs but the tool's assessor.
    pub async fn explain(&self, call: Call) -> Result<Evaluation, ToolError> {
        let world = self.world();
        let mut trail = Trail::silent(&call, &self.0.ports);
        let checked = validate::validate(&world, call, &mut trail)?;
        Ok(decide::evaluate(&world.policy, &self.0.slots, &checked)
            .await?
            .0)
    }
}

#[cfg(test)]
pub(crate) mod tests;
