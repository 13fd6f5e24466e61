//! Faults while the cluster runs: killed, paused and cut-off processes and machines, chosen by a seed.

use std::time::{Duration, Instant};

use crate::deployment::{ClusterDeployment, ProcessKind};
use crate::network::ClusterNetwork;
use crate::random::SeededRandom;

/// A fault that is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ActiveFault {
    Killed(ProcessKind, usize),
    Paused(ProcessKind, usize),
    /// Asked to end, as an update does.
    Drained(ProcessKind, usize),
    /// The machine, from 1.
    CutOff(usize),
}

impl ActiveFault {
    /// Returns true if a NATS server cannot be reached because of the fault.
    fn takes_server(self) -> bool {
        match self {
            ActiveFault::Killed(kind, _)
            | ActiveFault::Paused(kind, _)
            | ActiveFault::Drained(kind, _) => kind == ProcessKind::Server,
            ActiveFault::CutOff(_) => true,
        }
    }

    fn concerns(self, kind: ProcessKind, index: usize) -> bool {
        match self {
            ActiveFault::Killed(other, at)
            | ActiveFault::Paused(other, at)
            | ActiveFault::Drained(other, at) => (other, at) == (kind, index),
            ActiveFault::CutOff(_) => false,
        }
    }
}

/// Time for which at least two servers are left alone after the last one came back, so that they have all copies.
const SERVER_REST: Duration = Duration::from_secs(4);

/// Time in which a process that was asked to end has ended: 30 s for running calls, and some to leave the cluster.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(40);

/// Injects faults one after the other, several at a time.
pub struct FaultInjector {
    random: SeededRandom,
    start: Instant,
    /// The faults under way, with their begin and their end.
    active: Vec<(ActiveFault, Instant, Instant)>,
    next: Instant,
    server_rest: Instant,
    /// The faults, with their times.
    pub log: Vec<String>,
    /// Number of faults of each kind: killed, paused, drained, cut off.
    pub counts: [usize; 4],
    /// Logs of processes that did not end in time when they were asked to.
    pub undrained: Vec<String>,
    /// Number of processes that ended by themselves.
    pub restarted: usize,
}

impl FaultInjector {
    /// Creates an injector, which begins after some seconds.
    pub fn new(seed: u64, start: Instant) -> Self {
        Self {
            random: SeededRandom::part(seed, u64::MAX),
            start,
            active: Vec::new(),
            next: start + Duration::from_secs(2),
            server_rest: start,
            log: Vec::new(),
            counts: [0; 4],
            undrained: Vec::new(),
            restarted: 0,
        }
    }

    /// Heals faults whose time has come, and injects new ones. Called again and again.
    pub fn step(&mut self, cluster: &mut ClusterDeployment) -> Result<(), String> {
        let now = Instant::now();
        let active = std::mem::take(&mut self.active);
        let (due, rest): (Vec<_>, Vec<_>) =
            active.into_iter().partition(|(fault, began, until)| {
                *until <= now && !is_ending(cluster, *fault, *began)
            });
        self.active = rest;
        self.heal(cluster, due)?;
        let active = &self.active;
        let is_down = |kind, index| {
            let mut active = active.iter();
            active.any(|(fault, ..)| fault.concerns(kind, index))
        };
        let restarted = cluster.supervise(is_down)?;
        if restarted > 0 {
            self.restarted += restarted;
            self.note(&format!("{restarted} processes had ended by themselves"));
        }
        if now >= self.next {
            self.next = now + Duration::from_millis(600 + self.random.below(1200));
            self.inject(cluster)?;
        }
        Ok(())
    }

    /// Heals all faults.
    pub fn heal_all(&mut self, cluster: &mut ClusterDeployment) -> Result<(), String> {
        let all = self.active.drain(..).collect();
        self.heal(cluster, all)?;
        cluster.start_all()
    }

    fn heal(
        &mut self,
        cluster: &mut ClusterDeployment,
        faults: Vec<(ActiveFault, Instant, Instant)>,
    ) -> Result<(), String> {
        for (fault, began, _) in faults {
            match fault {
                ActiveFault::Killed(kind, index) => cluster.process(kind, index).start()?,
                ActiveFault::Paused(kind, index) => cluster.process(kind, index).resume(),
                ActiveFault::Drained(kind, index) => {
                    let process = cluster.process(kind, index);
                    let left = DRAIN_TIMEOUT.saturating_sub(began.elapsed());
                    if !process.await_end(left) {
                        self.undrained.push(process.log_end());
                    }
                    process.start()?;
                }
                ActiveFault::CutOff(machine) => cluster.network.set_connected(machine, true)?,
            }
            if fault.takes_server() {
                self.server_rest = Instant::now() + SERVER_REST;
            }
            self.note(&format!("healed {fault:?}"));
        }
        Ok(())
    }

    fn inject(&mut self, cluster: &mut ClusterDeployment) -> Result<(), String> {
        let may_take_server = !self.active.iter().any(|(fault, ..)| fault.takes_server())
            && Instant::now() >= self.server_rest
            && cluster.servers.len() >= 3;
        let can_cut = may_take_server && cluster.network == ClusterNetwork::Namespaces;
        let kind = match self.random.below(10) {
            0..=4 => ProcessKind::Worker,
            5..=7 => ProcessKind::Front,
            _ if may_take_server => ProcessKind::Server,
            _ => ProcessKind::Worker,
        };
        let count = match kind {
            ProcessKind::Server => cluster.servers.len(),
            ProcessKind::Front => cluster.fronts.len(),
            ProcessKind::Worker => cluster.workers.len(),
        };
        if count == 0 {
            return Ok(());
        }
        let index = usize::try_from(self.random.below(count as u64)).unwrap_or(0);
        // One of each kind stays, so that the load goes on.
        let is_affected = |at: usize| {
            self.active
                .iter()
                .any(|(fault, ..)| fault.concerns(kind, at))
        };
        let affected = (0..count).filter(|at| is_affected(*at)).count();
        if is_affected(index) || affected + 1 >= count {
            return Ok(());
        }
        let (fault, millis) = match self.random.below(10) {
            0..=1 if can_cut => {
                let machine = 1 + usize::try_from(self.random.below(cluster.servers.len() as u64))
                    .unwrap_or(0);
                cluster.network.set_connected(machine, false)?;
                self.counts[3] += 1;
                (ActiveFault::CutOff(machine), 2000 + self.random.below(4000))
            }
            2..=3 if kind != ProcessKind::Server => {
                cluster.process(kind, index).ask_to_end();
                self.counts[2] += 1;
                let fault = ActiveFault::Drained(kind, index);
                (fault, 1000 + self.random.below(2000))
            }
            0..=5 => {
                cluster.process(kind, index).kill();
                self.counts[0] += 1;
                (
                    ActiveFault::Killed(kind, index),
                    200 + self.random.below(2000),
                )
            }
            _ => {
                cluster.process(kind, index).pause();
                self.counts[1] += 1;
                (
                    ActiveFault::Paused(kind, index),
                    1000 + self.random.below(7000),
                )
            }
        };
        self.note(&format!("{fault:?} for {millis} ms"));
        let now = Instant::now();
        self.active
            .push((fault, now, now + Duration::from_millis(millis)));
        Ok(())
    }

    fn note(&mut self, text: &str) {
        self.log
            .push(format!("{:6} ms: {text}", self.start.elapsed().as_millis()));
    }
}

/// Returns true if a process that was asked to end still has time to do so.
fn is_ending(cluster: &mut ClusterDeployment, fault: ActiveFault, began: Instant) -> bool {
    match fault {
        ActiveFault::Drained(kind, index) => {
            began.elapsed() < DRAIN_TIMEOUT && cluster.process(kind, index).is_running()
        }
        _ => false,
    }
}
