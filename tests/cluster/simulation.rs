//! A simulation of large clusters: measured times of one machine, and the queues between agents and workers.
//!
//! It answers on paper which part of a cluster is busy first when agents are added. The inputs are in
//! `simulation/measured.json`; `.ci/cluster figures` prints those of a machine.

use std::collections::BTreeMap;

use crate::random::SeededRandom;
use queues::{EventQueue, FifoServers};

mod queues;
#[cfg(test)]
mod tests;

/// Times and capacities, in milliseconds if not said otherwise.
#[derive(Debug, Clone, serde::Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MeasuredTimes {
    /// CPU time of a front for a call.
    pub front_ms: f64,
    /// CPU time of a worker for a call, without the tool: pipeline, frames and record.
    pub pipeline_ms: f64,
    /// CPU time of a NATS server for a plain message.
    pub message_ms: f64,
    /// Plain messages of a call, in both directions.
    pub messages_per_call: f64,
    /// CPU time of the leader of the audit stream for a message.
    pub append_ms: f64,
    /// CPU time of the leader for each line in a message.
    pub line_ms: f64,
    /// Time until the copies have confirmed a message.
    pub replication_ms: f64,
    /// Reads and writes of shared state for a call.
    pub state_requests_per_call: f64,
    /// CPU time of the leader of a bucket for a request.
    pub state_request_ms: f64,
    /// One way between two machines.
    pub network_ms: f64,
    /// The tools: their share of all calls, and their times.
    pub tools: Vec<ToolTimes>,
    /// The inputs that are estimates and were not measured.
    pub estimates: Vec<String>,
}

impl MeasuredTimes {
    /// Returns the time of each part for an average call, in milliseconds, if no messages are joined.
    pub fn part_times(&self) -> [(&'static str, f64); 5] {
        let mean = |values: &[f64]| {
            let pairs = values.windows(2).map(|pair| (pair[0] + pair[1]) / 2.0);
            let steps = values.len().saturating_sub(1).max(1);
            pairs.sum::<f64>() / steps as f64
        };
        let announced = self.tools.iter().filter(|tool| tool.announced);
        let lines = 1.0 + announced.map(|tool| tool.share).sum::<f64>();
        let cpu = self
            .tools
            .iter()
            .map(|tool| tool.share * mean(&tool.cpu_ms));
        [
            ("front", self.front_ms),
            ("worker", self.pipeline_ms + cpu.sum::<f64>()),
            ("NATS messages", self.message_ms * self.messages_per_call),
            (
                "shared state",
                self.state_request_ms * self.state_requests_per_call,
            ),
            ("audit stream", (self.append_ms + self.line_ms) * lines),
        ]
    }
}

/// Recorded service times of a tool.
#[derive(Debug, Clone, serde::Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolTimes {
    /// Share of all calls.
    pub share: f64,
    /// Quantiles of the CPU time, at equal distances from the least to the most.
    pub cpu_ms: Vec<f64>,
    /// Quantiles of the time in which the tool waits for others.
    #[serde(default)]
    pub wait_ms: Vec<f64>,
    /// True if its calls are announced.
    pub announced: bool,
}

/// The size of a cluster.
#[derive(Debug, Clone, Copy)]
pub struct SimulatedCluster {
    /// Number of agents. Each thinks, calls a tool, waits for the outcome, and thinks again.
    pub agents: usize,
    /// Mean time between an outcome and the next call.
    pub think_ms: f64,
    /// Number of fronts, each with one core.
    pub fronts: usize,
    /// Number of workers.
    pub workers: usize,
    /// Cores of each worker.
    pub cores: usize,
    /// Number of NATS servers.
    pub servers: usize,
    /// Duration of the simulation in milliseconds, after as much again to settle.
    pub duration_ms: f64,
}

/// Result of a simulation.
#[derive(Debug, Clone)]
pub struct SimulatedLoad {
    /// Calls per second.
    pub calls_per_second: f64,
    /// Time from a call to its outcome, without the times of the tools: median and 99th percentile.
    pub overhead_ms: (f64, f64),
    /// Busy share of each part, by name.
    pub busy: BTreeMap<&'static str, f64>,
}

impl SimulatedLoad {
    /// Returns the busiest part.
    pub fn bottleneck(&self) -> (&'static str, f64) {
        let busiest = self
            .busy
            .iter()
            .max_by(|one, other| one.1.total_cmp(other.1));
        busiest.map_or(("", 0.0), |(name, share)| (*name, *share))
    }
}

/// The step that a call has completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CallStep {
    Thought,
    FrontIn,
    MessageIn,
    State,
    PipelineIn,
    Announced,
    CpuDone,
    ToolDone,
    Recorded,
    MessageOut,
    FrontOut,
}

#[derive(Debug, Clone, Copy)]
enum SimulatedEvent {
    /// A call has completed a step.
    Step(usize, CallStep),
    /// A server of a part has become free.
    Free(Part, usize),
    /// The leader has appended the message of a worker's writer.
    Appended(usize),
    /// The copies have confirmed the message of a worker's writer.
    Confirmed(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Front,
    Messages,
    State,
    Worker,
    AuditLeader,
}

/// The call that an agent makes.
#[derive(Debug, Clone, Copy, Default)]
struct AgentCall {
    began: f64,
    tool: usize,
    cpu: f64,
    wait: f64,
    worker: usize,
    front: usize,
}

/// The chain of a worker: lines that wait, and the message in flight.
#[derive(Debug, Default)]
struct SimulatedWriter {
    waiting: Vec<(usize, CallStep)>,
    in_flight: Vec<(usize, CallStep)>,
}

struct Simulation<'a> {
    times: &'a MeasuredTimes,
    cluster: SimulatedCluster,
    random: SeededRandom,
    events: EventQueue<SimulatedEvent>,
    calls: Vec<AgentCall>,
    fronts: Vec<FifoServers<(usize, CallStep)>>,
    messages: FifoServers<(usize, CallStep)>,
    state: FifoServers<(usize, CallStep)>,
    workers: Vec<FifoServers<(usize, CallStep)>>,
    audit: FifoServers<usize>,
    writers: Vec<SimulatedWriter>,
    /// Calls that a worker has not finished.
    in_flight: Vec<usize>,
    settled: bool,
    overheads: Vec<f64>,
}

/// Simulates a cluster.
pub fn simulate(times: &MeasuredTimes, cluster: SimulatedCluster, seed: u64) -> SimulatedLoad {
    let mut simulation = Simulation {
        times,
        cluster,
        random: SeededRandom::new(seed),
        events: EventQueue::new(),
        calls: vec![AgentCall::default(); cluster.agents],
        fronts: (0..cluster.fronts).map(|_| FifoServers::new(1)).collect(),
        messages: FifoServers::new(cluster.servers),
        state: FifoServers::new(1),
        workers: (0..cluster.workers)
            .map(|_| FifoServers::new(cluster.cores))
            .collect(),
        audit: FifoServers::new(1),
        writers: (0..cluster.workers)
            .map(|_| SimulatedWriter::default())
            .collect(),
        in_flight: vec![0; cluster.workers],
        settled: false,
        overheads: Vec::new(),
    };
    for agent in 0..cluster.agents {
        simulation.think(agent);
    }
    let end = cluster.duration_ms * 2.0;
    while let Some(event) = simulation.events.next() {
        if !simulation.settled && simulation.events.now() >= cluster.duration_ms {
            simulation.settle();
        }
        if simulation.events.now() >= end {
            break;
        }
        simulation.handle(event);
    }
    simulation.result()
}

impl Simulation<'_> {
    fn think(&mut self, agent: usize) {
        let time = -self.cluster.think_ms * (1.0 - self.random.unit()).ln();
        self.events
            .after(time, SimulatedEvent::Step(agent, CallStep::Thought));
    }

    /// Begins to measure.
    fn settle(&mut self) {
        self.settled = true;
        self.overheads.clear();
        self.messages.busy_ms = 0.0;
        self.state.busy_ms = 0.0;
        self.audit.busy_ms = 0.0;
        for servers in self.fronts.iter_mut().chain(&mut self.workers) {
            servers.busy_ms = 0.0;
        }
    }

    /// Queues work of a call at a part. The step is completed at its end.
    fn work(&mut self, part: Part, at: usize, call: (usize, CallStep), time: f64) {
        let servers = match part {
            Part::Front => &mut self.fronts[at],
            Part::Messages => &mut self.messages,
            Part::State => &mut self.state,
            Part::Worker => &mut self.workers[at],
            Part::AuditLeader => return,
        };
        if let Some((call, time)) = servers.enter(call, time) {
            self.events
                .after(time, SimulatedEvent::Step(call.0, call.1));
            self.events.after(time, SimulatedEvent::Free(part, at));
        }
    }

    /// Writes a line of a call into the chain of its worker.
    fn write_line(&mut self, agent: usize, step: CallStep) {
        let worker = self.calls[agent].worker;
        self.writers[worker].waiting.push((agent, step));
        self.send_lines(worker);
    }

    /// Sends all waiting lines in one message, if none is in flight.
    fn send_lines(&mut self, worker: usize) {
        let writer = &mut self.writers[worker];
        if !writer.in_flight.is_empty() || writer.waiting.is_empty() {
            return;
        }
        writer.in_flight = std::mem::take(&mut writer.waiting);
        let lines = writer.in_flight.len() as f64;
        let time = self.times.append_ms + self.times.line_ms * lines;
        if let Some((worker, time)) = self.audit.enter(worker, time) {
            self.append(worker, time);
        }
    }

    fn append(&mut self, worker: usize, time: f64) {
        self.events.after(time, SimulatedEvent::Appended(worker));
        self.events
            .after(time, SimulatedEvent::Free(Part::AuditLeader, 0));
    }

    fn handle(&mut self, event: SimulatedEvent) {
        match event {
            SimulatedEvent::Step(agent, step) => self.advance(agent, step),
            SimulatedEvent::Appended(worker) => {
                let round_trip = self.times.replication_ms + self.times.network_ms * 2.0;
                self.events
                    .after(round_trip, SimulatedEvent::Confirmed(worker));
            }
            SimulatedEvent::Confirmed(worker) => {
                for (agent, step) in std::mem::take(&mut self.writers[worker].in_flight) {
                    self.advance(agent, step);
                }
                self.send_lines(worker);
            }
            SimulatedEvent::Free(Part::AuditLeader, _) => {
                if let Some((worker, time)) = self.audit.leave() {
                    self.append(worker, time);
                }
            }
            SimulatedEvent::Free(part, at) => {
                let servers = match part {
                    Part::Front => &mut self.fronts[at],
                    Part::Messages => &mut self.messages,
                    Part::State => &mut self.state,
                    Part::Worker | Part::AuditLeader => &mut self.workers[at],
                };
                if let Some((call, time)) = servers.leave() {
                    self.events
                        .after(time, SimulatedEvent::Step(call.0, call.1));
                    self.events.after(time, SimulatedEvent::Free(part, at));
                }
            }
        }
    }

    /// Begins the next step of a call.
    fn advance(&mut self, agent: usize, step: CallStep) {
        let times = self.times;
        let call = self.calls[agent];
        let messages = times.message_ms * times.messages_per_call / 2.0;
        match step {
            CallStep::Thought => {
                self.begin_call(agent);
                let front = self.calls[agent].front;
                self.work(
                    Part::Front,
                    front,
                    (agent, CallStep::FrontIn),
                    times.front_ms / 2.0,
                );
            }
            CallStep::FrontIn => {
                self.work(Part::Messages, 0, (agent, CallStep::MessageIn), messages)
            }
            CallStep::MessageIn => {
                let time = times.state_request_ms * times.state_requests_per_call;
                self.work(Part::State, 0, (agent, CallStep::State), time);
            }
            CallStep::State => {
                let time = times.pipeline_ms / 2.0;
                self.work(
                    Part::Worker,
                    call.worker,
                    (agent, CallStep::PipelineIn),
                    time,
                );
            }
            CallStep::PipelineIn if times.tools[call.tool].announced => {
                self.write_line(agent, CallStep::Announced);
            }
            CallStep::PipelineIn | CallStep::Announced => {
                self.work(
                    Part::Worker,
                    call.worker,
                    (agent, CallStep::CpuDone),
                    call.cpu,
                );
            }
            CallStep::CpuDone => {
                self.events
                    .after(call.wait, SimulatedEvent::Step(agent, CallStep::ToolDone));
            }
            CallStep::ToolDone => self.write_line(agent, CallStep::Recorded),
            CallStep::Recorded => {
                self.in_flight[call.worker] -= 1;
                self.work(Part::Messages, 0, (agent, CallStep::MessageOut), messages);
            }
            CallStep::MessageOut => {
                let time = times.front_ms / 2.0;
                self.work(Part::Front, call.front, (agent, CallStep::FrontOut), time);
            }
            CallStep::FrontOut => {
                // To the worker and back.
                let network = times.network_ms * 4.0;
                let total = self.events.now() - call.began + network;
                self.overheads.push(total - call.cpu - call.wait);
                self.think(agent);
            }
        }
    }

    /// Chooses tool, front and worker: the less loaded of two.
    fn begin_call(&mut self, agent: usize) {
        let mut at = self.random.unit();
        let tool = self.times.tools.iter().position(|tool| {
            at -= tool.share;
            at < 0.0
        });
        let tool = tool.unwrap_or(self.times.tools.len() - 1);
        let cpu = quantile(&self.times.tools[tool].cpu_ms, self.random.unit());
        let wait = quantile(&self.times.tools[tool].wait_ms, self.random.unit());
        let mut pick = || self.random.below(self.cluster.workers as u64) as usize;
        let (one, other) = (pick(), pick());
        let worker = if self.in_flight[one] <= self.in_flight[other] {
            one
        } else {
            other
        };
        self.in_flight[worker] += 1;
        self.calls[agent] = AgentCall {
            began: self.events.now(),
            tool,
            cpu,
            wait,
            worker,
            front: self.random.below(self.cluster.fronts as u64) as usize,
        };
    }

    fn result(mut self) -> SimulatedLoad {
        let duration = self.cluster.duration_ms;
        let share = |busy: f64, servers: usize| busy / duration / servers as f64;
        let total =
            |all: &[FifoServers<(usize, CallStep)>]| all.iter().map(|one| one.busy_ms).sum();
        let busy = BTreeMap::from([
            ("fronts", share(total(&self.fronts), self.cluster.fronts)),
            (
                "NATS messages",
                share(self.messages.busy_ms, self.cluster.servers),
            ),
            ("shared state", share(self.state.busy_ms, 1)),
            ("audit stream", share(self.audit.busy_ms, 1)),
            (
                "workers",
                share(
                    total(&self.workers),
                    self.cluster.workers * self.cluster.cores,
                ),
            ),
        ]);
        self.overheads.sort_by(f64::total_cmp);
        SimulatedLoad {
            calls_per_second: self.overheads.len() as f64 / duration * 1000.0,
            overhead_ms: (
                quantile(&self.overheads, 0.5),
                quantile(&self.overheads, 0.99),
            ),
            busy,
        }
    }
}

/// Returns the value at a part of sorted values. 0 without values.
fn quantile(values: &[f64], part: f64) -> f64 {
    let Some(last) = values.len().checked_sub(1) else {
        return 0.0;
    };
    let at = part * last as f64;
    let low = (at as usize).min(last);
    let high = (low + 1).min(last);
    values[low] + (values[high] - values[low]) * (at - low as f64)
}
