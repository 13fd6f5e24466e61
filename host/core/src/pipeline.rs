//! The pipeline: every call passes through it, from every front-end, to every kind of tool, nested calls too.
//!
//! ```text
//! Call ─► validate ─ Checked ─► decide ─ Ruled ─► approve ─ Approved ─► run ─► Backend ─ Raw ─┐
//! Outcome ◄─ audit ◄─ Labeled ─ label ◄─ Clean ─ sanitize ◄──────────────────────────────────┘
//! ```
//!
//! Each stage takes the type of the one before and returns its own; none can be skipped, because
//! only a stage can make its type. A refusal at any stage becomes an outcome like any other.
//!
//! # Walks
//!
//! A call: `call.rs` (`Call`) → `pipeline.rs` (`Pipeline::call`) → `pipeline/trail.rs` (starts the record) →
//! `pipeline/validate.rs` (`Checked`) → `pipeline/decide.rs` (rules, paths, network, the tool's assessor: `Ruled`) →
//! `pipeline/approve.rs` (a question if a rule asks: `Approved`) → `pipeline/run.rs` (waits for a slot) → the backend,
//! such as `host/wasm/src/backend.rs` (`Raw`) → `pipeline/sanitize.rs` (`Clean`) → `pipeline/label.rs` (`Labeled`) →
//! `pipeline/audit.rs` (`Outcome`).
//!
//! A grant: `host/app/src/ledger.rs` or `mimir tools trust` (`host/cli/src/commands/tools_trust.rs`) makes a `Grant` →
//! `.mimir/tools.lock`, and the id of the grant in the user's own store → `host/app/src/setup.rs` loads both →
//! `grants.rs` (`apply` sets the trust and the granted needs of each tool) → `registry.rs` → `pipeline/decide.rs` (asks
//! if the grant is missing) → `pipeline/approve.rs` (the rights of the call) → the backend (mounts), and again for each
//! effect of the running call in `pipeline/effect.rs`, so that a revoked grant stops it.
//!
//! A shell text: the arguments of a call name it → `policy/commands.rs` (`command_of`) → `pipeline/decide.rs`
//! (`commands`) → `Runner::read` (the parser in `host/process/src/shell.rs`) → `policy/commands.rs` checks each simple
//! command → `pipeline/approve.rs` → the tool (`plugins/exec`) asks to run it → `pipeline/effect/command.rs` compares
//! it with the call's own command (`is_own`), parses and checks it again (`Permitted`) → `host/process/src/run.rs` and
//! `host/process/src/sandbox.rs`.

use parking_lot::{Mutex, RwLock};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock};

use crate::approval::{Approver, Desk, Lease, Ledger};
use crate::audit::AuditSink;
use crate::backend::BoxFuture;
use crate::call::Call;
use crate::clock::Clock;
use crate::command::Runner;
use crate::decision::{Decision, Evaluation};
use crate::error::{Code, ToolError};
use crate::model::Completer;
use crate::outcome::{Label, Outcome};
use crate::policy::Policy;
use crate::redact::Vault;
use crate::registry::Registry;

mod approve;
mod audit;
mod carried;
mod decide;
mod effect;
mod label;
mod mask;
mod network;
mod restore;
mod run;
mod sanitize;
mod session;
mod trail;
mod underway;
mod validate;

pub use approve::{Approved, Nested};
pub use decide::Ruled;
pub use effect::{Consent, Effects, Egress, Outside, Permitted, Reach, Storage, Upload};
pub use label::{Floor, Labeled};
pub use network::Foreseen;
pub use run::Ran;
pub use sanitize::Clean;
pub use validate::Checked;

use approve::{Next, Remembered};
use run::Slots;
pub(crate) use session::ContentSource;
use session::Sessions;
use trail::Trail;
use underway::UnderWay;

/// The tools and the rules at one moment. A change creates a new snapshot; calls in flight keep theirs.
#[derive(Debug, Default)]
pub struct World {
    /// The tools.
    pub registry: Registry,
    /// The rules.
    pub policy: Policy,
}

/// The ports of the pipeline.
#[derive(Clone)]
pub struct Ports {
    /// Asks a person.
    pub approver: Arc<dyn Approver>,
    /// Stores a person's lasting answers.
    pub ledger: Arc<dyn Ledger>,
    /// Provides the secrets to mask.
    pub vault: Arc<dyn Vault>,
    /// Records every call.
    pub audit: Arc<dyn AuditSink>,
    /// Reads the system time.
    pub clock: Arc<dyn Clock>,
    /// Reads commands and runs them.
    pub runner: Arc<dyn Runner>,
    /// Completes texts for tools.
    pub model: Arc<dyn Completer>,
}

/// The predicted treatment of a call.
#[derive(Debug, Clone)]
pub struct Explanation {
    /// The evaluation of all rules.
    pub evaluation: Evaluation,
    /// If a person would have to be asked: the stored answer that covers the call.
    pub lease: Option<Lease>,
    /// The remedies, for the person.
    pub way_out: Vec<String>,
    /// The request that the call is about, where its arguments name one. It was judged and not sent.
    pub network: Option<Foreseen>,
}

/// Takes calls. Clones share one pipeline.
#[derive(Clone)]
pub struct Pipeline(Arc<Inner>);

/// Brings the tools and rules of a pipeline up to date with the files that they are read from.
pub trait Refresh: Send + Sync {
    /// Completes once every change that was written before this call is in force, or has been rejected.
    fn refresh(&self) -> BoxFuture<'_, ()>;
}

struct Inner {
    world: Worlds,
    refresh: OnceLock<Arc<dyn Refresh>>,
    ports: Ports,
    slots: Arc<Slots>,
    sessions: Arc<Sessions>,
    desk: Arc<Desk>,
    under_way: Arc<AtomicUsize>,
}

/// The source of a pipeline's tools and rules.
enum Worlds {
    /// Replaced from outside.
    Own(RwLock<Arc<World>>),
    /// Derived from the snapshot of another pipeline.
    Within {
        outer: Pipeline,
        narrow: Box<Narrow>,
        /// The last outer snapshot and the restricted snapshot derived from it.
        kept: Mutex<Option<(Arc<World>, Arc<World>)>>,
    },
}

/// Removes tools and adds rules.
type Narrow = dyn Fn(&World) -> World + Send + Sync;

/// The context of a call: the snapshot at its arrival, and the state that all calls share.
struct Road<'a> {
    pipeline: &'a Pipeline,
    world: &'a World,
    slots: &'a Slots,
    sessions: &'a Sessions,
    ports: &'a Ports,
}

/// Maximum number of times that a person may change the arguments of one call. The rules are evaluated after each
/// edit.
const EDITS_MAX: usize = 20;

impl Pipeline {
    /// Creates a pipeline over these tools, rules and ports.
    pub fn new(world: World, ports: Ports) -> Self {
        Self(Arc::new(Inner {
            world: Worlds::Own(RwLock::new(Arc::new(world))),
            refresh: OnceLock::new(),
            ports,
            slots: Arc::default(),
            sessions: Arc::default(),
            desk: Arc::default(),
            under_way: Arc::default(),
        }))
    }

    /// A restricted view of this pipeline. Sessions and calls in flight are shared. [`Self::replace`] on the view
    /// replaces the tools and rules of the outer pipeline, and `narrow` is applied to them again.
    #[must_use]
    pub fn within(&self, narrow: impl Fn(&World) -> World + Send + Sync + 'static) -> Self {
        Self(Arc::new(Inner {
            world: Worlds::Within {
                outer: self.clone(),
                narrow: Box::new(narrow),
                kept: Mutex::default(),
            },
            refresh: OnceLock::new(),
            ports: self.0.ports.clone(),
            slots: Arc::clone(&self.0.slots),
            sessions: Arc::clone(&self.0.sessions),
            desk: Arc::clone(&self.0.desk),
            under_way: Arc::clone(&self.0.under_way),
        }))
    }

    /// Returns the tools and rules that the next call will use.
    pub fn world(&self) -> Arc<World> {
        match &self.0.world {
            Worlds::Own(world) => Arc::clone(&world.read()),
            Worlds::Within {
                outer,
                narrow,
                kept,
            } => {
                let all = outer.world();
                let mut kept = kept.lock();
                match &*kept {
                    Some((of, some)) if Arc::ptr_eq(of, &all) => Arc::clone(some),
                    _ => {
                        let some = Arc::new(narrow(&all));
                        *kept = Some((all, Arc::clone(&some)));
                        some
                    }
                }
            }
        }
    }

    /// Replaces the tools and rules. Calls in flight finish under the old ones.
    pub fn replace(&self, world: World) {
        match &self.0.world {
            Worlds::Own(current) => {
                let mut current = current.write();
                *current = Arc::new(world);
            }
            Worlds::Within { outer, .. } => return outer.replace(world),
        }
        self.0.sessions.listed();
    }

    /// Sets `refresh` to update the tools and rules before each call. Only the first one set counts.
    pub fn refresh_with(&self, refresh: Arc<dyn Refresh>) {
        match &self.0.world {
            Worlds::Own(_) => drop(self.0.refresh.set(refresh)),
            Worlds::Within { outer, .. } => outer.refresh_with(refresh),
        }
    }

    /// Brings the tools and rules up to date, as each call does. Front ends do this before they list tools.
    pub async fn refreshed(&self) {
        let mut pipeline = self;
        while let Worlds::Within { outer, .. } = &pipeline.0.world {
            pipeline = outer;
        }
        if let Some(refresh) = pipeline.0.refresh.get() {
            refresh.refresh().await;
        }
    }

    /// Ends a session: forgets what it has read and what was approved for it, and kills the commands that it started.
    /// Front ends call it when a session has ended.
    pub fn end_session(&self, id: &str) {
        if self.0.sessions.end(id) {
            self.0.ports.ledger.end_session(id);
        }
        self.0.ports.runner.end_session(id);
    }

    /// Returns the taint label of a session, to be stored beyond this process.
    pub fn read_by(&self, session: &str) -> Label {
        self.0.sessions.get(session).label()
    }

    /// Restores the taint label of a resumed session. Call it before the first call.
    pub fn resume(&self, session: &str, read: &Label) {
        self.0
            .sessions
            .get(session)
            .read(read, ContentSource::Other);
    }

    /// Runs a call from beginning to end. Dropping the future stops the tool and records the call as cancelled.
    pub async fn call(&self, call: Call) -> Outcome {
        self.refreshed().await;
        let world = self.world();
        let road = self.road(&world);
        let under_way = UnderWay::begin(&self.0.under_way);
        // On the heap: it lives until the end of the call, and is large.
        let mut trail = Box::new(Trail::start(&call, &self.0.ports));
        let ran = match road.attempt(call, &mut trail).await {
            Ok(ran) => ran,
            Err(error) => Ran::refused(error),
        };
        let clean = sanitize::sanitize(ran, &trail);
        let labeled = label::label(&road, clean, &trail);
        audit::audit(labeled, trail, under_way.is_alone()).await
    }

    /// Explains the decision about this call. Only the tool's assessor runs.
    pub async fn explain(&self, call: Call) -> Result<Explanation, ToolError> {
        let world = self.world();
        let road = self.road(&world);
        let mut trail = Trail::silent(&call, &self.0.ports);
        trail.sighted(&call, &world.registry)?;
        let explained = road.explain(call, &mut trail).await;
        let redactor = trail.redactor();
        explained
            .map(|mut explained| {
                explained.evaluation.mask(&redactor);
                if let Some(network) = &mut explained.network {
                    redactor.parts([&mut network.url, &mut network.host]);
                }
                explained
            })
            .map_err(|mut error| {
                mask::error(&redactor, &mut error);
                error
            })
    }

    fn road<'a>(&'a self, world: &'a World) -> Road<'a> {
        Road {
            pipeline: self,
            world,
            slots: &self.0.slots,
            sessions: &self.0.sessions,
            ports: &self.0.ports,
        }
    }
}

impl Road<'_> {
    async fn explain(&self, call: Call, trail: &mut Trail) -> Result<Explanation, ToolError> {
        let checked = validate::validate(self, call, trail)?;
        let judged = decide::evaluate(self, &checked).await?;
        let evaluation = judged.evaluation;
        let asks = evaluation.decision() == Decision::Ask;
        let lease = asks.then(|| approve::remembered(self, &checked, &evaluation));
        Ok(Explanation {
            lease: lease.flatten().and_then(Remembered::lease),
            way_out: judged.way_out,
            network: judged.foreseen,
            evaluation,
        })
    }

    /// Runs the stages from the call to its tool.
    async fn attempt(&self, mut call: Call, trail: &mut Trail) -> Result<Ran, ToolError> {
        trail.sighted(&call, &self.world.registry)?;
        for _ in 0..EDITS_MAX {
            let checked = validate::validate(self, call, trail)?;
            let ruled = decide::decide(self, checked, trail).await?;
            match approve::approve(self, ruled, trail).await? {
                Next::Go(mut approved) => {
                    trail.ready()?;
                    if let Some(redactor) = restore::restore(&mut approved)? {
                        trail.mask_with(redactor);
                    }
                    return run::run(self.slots, *approved).await;
                }
                Next::Edited(edited) => call = *edited,
            }
        }
        Err(ToolError::new(
            Code::ApprovalDenied,
            format!("the arguments were edited {EDITS_MAX} times and never approved"),
        ))
    }
}

#[cfg(test)]
pub(crate) mod tests;
