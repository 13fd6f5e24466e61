//! The choice of the worker that runs a call.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use crate::node::{NodeEntry, NodeRole};

/// The properties that a call needs of its worker.
#[derive(Debug, Clone, Default)]
pub(super) struct WorkerNeeds {
    /// Labels that the worker must have.
    pub labels: BTreeMap<String, String>,
    /// Session whose calls should be run by the same worker. `None` if any worker will do.
    pub session: Option<String>,
    /// True if another worker will do, too, when that of the session has no free place.
    pub may_move: bool,
}

/// Why no worker can be chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SelectionError {
    /// The pool has no worker of the workspace.
    NoWorker,
    /// No worker has the labels.
    NoLabel {
        /// The labels.
        labels: BTreeMap<String, String>,
    },
    /// Two workers have different content under the same name of a workspace.
    ContentDiffers {
        /// A worker and its fact.
        one: (String, String),
        /// Another worker and its fact.
        other: (String, String),
        /// Name of the fact that differs.
        fact: String,
    },
    /// All workers are draining.
    AllDraining,
    /// No worker can write the audit log.
    NoneReady,
    /// All workers run as many calls as they can.
    AllBusy,
}

/// Returns the worker for a call. `running` is the number of calls that this process has sent to a worker and that have
/// not ended. Workers in `excluded` have refused the call.
pub(super) fn select(
    workers: &[Arc<NodeEntry>],
    workspace: &str,
    allow_any_content: bool,
    needs: &WorkerNeeds,
    excluded: &BTreeSet<String>,
    running: impl Fn(&str) -> u32,
    random: u64,
) -> Result<Arc<NodeEntry>, SelectionError> {
    let is_of_workspace = |worker: &&Arc<NodeEntry>| {
        let named = worker.workspace.as_ref();
        // A worker describes its tools as soon as it accepts calls.
        worker.role == NodeRole::Worker
            && worker.tools.is_some()
            && named.is_some_and(|named| named.name == workspace)
    };
    let of_workspace: Vec<&Arc<NodeEntry>> = workers.iter().filter(is_of_workspace).collect();
    if of_workspace.is_empty() {
        return Err(SelectionError::NoWorker);
    }
    if !allow_any_content && let Some(difference) = find_difference(&of_workspace) {
        return Err(difference);
    }
    let has_labels = |worker: &&Arc<NodeEntry>| {
        let mut labels = needs.labels.iter();
        labels.all(|(key, value)| worker.labels.get(key) == Some(value))
    };
    let labeled: Vec<&Arc<NodeEntry>> = of_workspace.into_iter().filter(has_labels).collect();
    if labeled.is_empty() {
        return Err(SelectionError::NoLabel {
            labels: needs.labels.clone(),
        });
    }
    let active: Vec<&Arc<NodeEntry>> = labeled.into_iter().filter(|w| !w.draining).collect();
    if active.is_empty() {
        return Err(SelectionError::AllDraining);
    }
    let active: Vec<&Arc<NodeEntry>> = active.into_iter().filter(|w| w.ready).collect();
    if active.is_empty() {
        return Err(SelectionError::NoneReady);
    }
    // The description of a worker is up to a second old, and does not contain the calls sent since.
    let load = |worker: &NodeEntry| worker.in_flight.max(running(&worker.id));
    let accepts = |worker: &&Arc<NodeEntry>| {
        // A worker queues as many calls as it runs.
        let max = worker.capacity.saturating_mul(2);
        !excluded.contains(&worker.id) && running(&worker.id) < max
    };
    let free: Vec<&Arc<NodeEntry>> = active.into_iter().filter(accepts).collect();
    if free.is_empty() {
        return Err(SelectionError::AllBusy);
    }
    let has_place = |worker: &Arc<NodeEntry>| load(worker) < worker.capacity;
    if let Some(session) = &needs.session {
        let best = free.iter().max_by_key(|worker| weight(session, &worker.id));
        let best = best.map(|best| Arc::clone(best));
        if !needs.may_move || best.as_ref().is_some_and(has_place) {
            return best.ok_or(SelectionError::AllBusy);
        }
    }
    let has_places = free.iter().any(|worker| has_place(worker));
    let free: Vec<&Arc<NodeEntry>> = free
        .into_iter()
        .filter(|worker| !has_places || has_place(worker))
        .collect();
    // The less loaded of two random ones: choosing the least loaded of all would send the calls of all servers to the
    // same worker until it describes itself again.
    let count = free.len() as u64;
    let first = random % count;
    let second = (first + 1 + (random / count) % (count.saturating_sub(1)).max(1)) % count;
    let [first, second] =
        [first, second].map(|at| free[usize::try_from(at).unwrap_or_default() % free.len()]);
    let relative = |worker: &NodeEntry| {
        u64::from(load(worker)) * 1_000_000 / u64::from(worker.capacity.max(1))
    };
    if relative(second) < relative(first) {
        Ok(Arc::clone(second))
    } else {
        Ok(Arc::clone(first))
    }
}

/// Returns the first fact that two workers of a workspace state differently.
fn find_difference(workers: &[&Arc<NodeEntry>]) -> Option<SelectionError> {
    let (first, others) = workers.split_first()?;
    for other in others {
        // Checked for each call, so that equal workers cost no allocations.
        let [one, two] = [first, other].map(|worker| worker.workspace.as_ref());
        if first.tools == other.tools
            && one.map(|named| &named.facts) == two.map(|named| &named.facts)
        {
            continue;
        }
        let [one, two] = [first, other].map(|worker| stated_facts(worker));
        let facts: BTreeSet<&str> = one.keys().chain(two.keys()).copied().collect();
        for fact in facts {
            let [stated, stated_by_other] = [&one, &two]
                .map(|facts| facts.get(fact).map_or("unknown", |value| *value).to_owned());
            if stated != stated_by_other {
                let shown =
                    |worker: &NodeEntry, value| (format!("{} ({})", worker.host, worker.id), value);
                return Some(SelectionError::ContentDiffers {
                    one: shown(first, stated),
                    other: shown(other, stated_by_other),
                    fact: fact.to_owned(),
                });
            }
        }
    }
    None
}

/// Returns what must be equal on all workers of a workspace: the facts about its content, and the tools.
fn stated_facts(worker: &NodeEntry) -> BTreeMap<&str, &str> {
    let facts = worker.workspace.iter().flat_map(|named| &named.facts);
    let facts = facts.map(|(fact, value)| (fact.as_str(), value.as_str()));
    let tools = worker.tools.iter().map(|tools| ("tools", tools.as_str()));
    facts.chain(tools).collect()
}

/// Returns the weight of a worker for a session. The worker with the highest weight runs the session's calls, so that
/// a worker that leaves only moves its own sessions.
fn weight(session: &str, node: &str) -> u64 {
    let digest = Sha256::new()
        .chain_update(session)
        .chain_update([0])
        .chain_update(node)
        .finalize();
    let (first, _) = digest.split_at(8);
    first
        .iter()
        .fold(0, |weight, byte| weight << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::NodeWorkspace;

    fn worker(node: &str) -> NodeEntry {
        NodeEntry {
            id: node.to_owned(),
            role: NodeRole::Worker,
            host: "host".to_owned(),
            started: 0,
            workspace: Some(NodeWorkspace {
                name: "main".to_owned(),
                facts: BTreeMap::from([("commit".to_owned(), "abc".to_owned())]),
            }),
            labels: BTreeMap::new(),
            capacity: 2,
            in_flight: 0,
            console: false,
            draining: false,
            tools: Some("tools".to_owned()),
            recorded: 0,
            ready: true,
            not_ready: Vec::new(),
            clock: 0,
        }
    }

    fn pool(workers: &[NodeEntry]) -> Vec<Arc<NodeEntry>> {
        workers.iter().cloned().map(Arc::new).collect()
    }

    fn choose(
        workers: &[Arc<NodeEntry>],
        needs: &WorkerNeeds,
        random: u64,
    ) -> Result<String, SelectionError> {
        let none = BTreeSet::new();
        let chosen = select(workers, "main", false, needs, &none, |_| 0, random)?;
        Ok(chosen.id.clone())
    }

    #[test]
    fn selection_of_sessions_moves_only_those_of_a_worker_that_leaves() {
        let workers = pool(&["a", "b", "c", "d"].map(worker));
        let mut moved = 0;
        for session in 0..200 {
            let needs = WorkerNeeds {
                session: Some(format!("s{session}")),
                ..WorkerNeeds::default()
            };
            let before = choose(&workers, &needs, 7).unwrap();
            assert_eq!(choose(&workers, &needs, 9), Ok(before.clone()));
            let after = choose(&workers[..3], &needs, 7).unwrap();
            assert!(before == "d" || before == after);
            moved += u32::from(before != after);
        }
        assert!((20..=80).contains(&moved), "{moved}");
    }

    #[test]
    fn selection_moves_calls_that_need_no_state_when_their_worker_is_full() {
        let workers = pool(&["a", "b", "c"].map(worker));
        let fixed = WorkerNeeds {
            session: Some("shared".to_owned()),
            ..WorkerNeeds::default()
        };
        let movable = WorkerNeeds {
            may_move: true,
            ..fixed.clone()
        };
        let own = choose(&workers, &movable, 0).unwrap();
        assert_eq!(choose(&workers, &fixed, 0), Ok(own.clone()));
        let mut running: BTreeMap<String, u32> = BTreeMap::new();
        let none = BTreeSet::new();
        let mut place = |needs: &WorkerNeeds, random| {
            let count = |node: &str| running.get(node).copied().unwrap_or_default();
            let chosen = select(&workers, "main", false, needs, &none, count, random);
            let id = chosen.unwrap().id.clone();
            *running.entry(id.clone()).or_default() += 1;
            (id, running.values().copied().max())
        };
        // Capacity 2: the worker of the session first, then the others, and no queue before all are full.
        for n in 0..6 {
            let (id, longest) = place(&movable, n);
            assert_eq!(id == own, n < 2, "call {n}");
            assert!(longest <= Some(2));
        }
        assert_eq!(place(&fixed, 0), (own, Some(3)));
    }

    #[test]
    fn selection_prefers_the_less_loaded_of_two_and_reaches_all() {
        let mut workers = ["a", "b", "c"].map(worker);
        let any = WorkerNeeds::default();
        let idle = pool(&workers);
        let reached: BTreeSet<String> = (0..60).map(|n| choose(&idle, &any, n).unwrap()).collect();
        assert_eq!(reached.len(), 3);
        workers[0].in_flight = 1;
        workers[1].in_flight = 1;
        let workers = pool(&workers);
        let chosen = (0..6).map(|n| choose(&workers, &any, n).unwrap());
        assert!(chosen.filter(|node| node == "c").count() >= 3);
        let one = pool(&[worker("a")]);
        assert_eq!(choose(&one, &any, 5), Ok("a".to_owned()));
    }

    #[test]
    fn selection_refuses_different_content_under_one_name() {
        let mut workers = [worker("a"), worker("b")];
        let of_second = |worker: &mut NodeEntry| worker.workspace.take().unwrap();
        let mut workspace = of_second(&mut workers[1]);
        workspace
            .facts
            .insert("commit".to_owned(), "def".to_owned());
        workers[1].workspace = Some(workspace.clone());
        let any = WorkerNeeds::default();
        let differing = pool(&workers);
        let error = choose(&differing, &any, 0).unwrap_err();
        let expected = SelectionError::ContentDiffers {
            one: ("host (a)".to_owned(), "abc".to_owned()),
            other: ("host (b)".to_owned(), "def".to_owned()),
            fact: "commit".to_owned(),
        };
        assert_eq!(error, expected);
        let none = BTreeSet::new();
        assert!(select(&differing, "main", true, &any, &none, |_| 0, 0).is_ok());
        workspace.name = "other".to_owned();
        workers[1].workspace = Some(workspace);
        assert_eq!(choose(&pool(&workers), &any, 0), Ok("a".to_owned()));
        let mut workers = [worker("a"), worker("b")];
        workers[1].tools = Some("digest".to_owned());
        let error = choose(&pool(&workers), &any, 0).unwrap_err();
        assert!(matches!(error, SelectionError::ContentDiffers { fact, .. } if fact == "tools"));
    }

    #[test]
    fn selection_tells_missing_labels_from_busy_and_draining_workers() {
        let mut workers = [worker("a"), worker("b")];
        let gpu = WorkerNeeds {
            labels: BTreeMap::from([("gpu".to_owned(), "true".to_owned())]),
            ..WorkerNeeds::default()
        };
        let missing = choose(&pool(&workers), &gpu, 0).unwrap_err();
        assert!(matches!(missing, SelectionError::NoLabel { .. }));
        workers[1].labels = gpu.labels.clone();
        assert_eq!(choose(&pool(&workers), &gpu, 0), Ok("b".to_owned()));
        let none = BTreeSet::new();
        let busy = pool(&workers);
        let busy = select(&busy, "main", false, &gpu, &none, |_| 4, 0);
        assert_eq!(busy, Err(SelectionError::AllBusy));
        workers[1].ready = false;
        let unready = choose(&pool(&workers), &gpu, 0);
        assert_eq!(unready, Err(SelectionError::NoneReady));
        assert_eq!(
            choose(&pool(&workers), &WorkerNeeds::default(), 0),
            Ok("a".to_owned())
        );
        workers[1].draining = true;
        let draining = choose(&pool(&workers), &gpu, 0);
        assert_eq!(draining, Err(SelectionError::AllDraining));
        assert_eq!(choose(&[], &gpu, 0), Err(SelectionError::NoWorker));
    }
}
