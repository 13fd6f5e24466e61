//! Properties of subschemas that do not depend on a value: recursion, and the number of schemas for one value. None of
//! the functions is recursive.

use super::Subschema;
use crate::schema::cost::ValidationCost;

/// Marks the recursive subschemas (Tarjan's strongly connected components).
pub(super) fn mark_loops(parts: &mut [Subschema]) {
    const UNVISITED: usize = usize::MAX;
    let mut number = vec![UNVISITED; parts.len()];
    let mut low = vec![0; parts.len()];
    let mut on_stack = vec![false; parts.len()];
    let (mut stack, mut counter) = (Vec::new(), 0);
    for root in 0..parts.len() {
        if number[root] != UNVISITED {
            continue;
        }
        let mut path: Vec<(usize, Vec<usize>)> = vec![(root, parts[root].all().collect())];
        while let Some((at, remaining)) = path.last_mut() {
            let at = *at;
            if number[at] == UNVISITED {
                (number[at], low[at], on_stack[at]) = (counter, counter, true);
                counter += 1;
                stack.push(at);
            }
            if let Some(next) = remaining.pop() {
                if next == at {
                    parts[at].looping = true;
                } else if number[next] == UNVISITED {
                    path.push((next, parts[next].all().collect()));
                } else if on_stack[next] {
                    low[at] = low[at].min(number[next]);
                }
                continue;
            }
            path.pop();
            if let Some((parent, _)) = path.last() {
                low[*parent] = low[*parent].min(low[at]);
            }
            if low[at] != number[at] {
                continue;
            }
            let alone = stack.last() == Some(&at);
            while let Some(part) = stack.pop() {
                on_stack[part] = false;
                parts[part].looping |= !alone;
                if part == at {
                    break;
                }
            }
        }
    }
}

/// Marks the subschemas that several others apply.
pub(super) fn mark_shared(parts: &mut [Subschema]) {
    let mut users = vec![0_u32; parts.len()];
    for part in parts.iter() {
        part.all().for_each(|part| users[part] += 1);
    }
    for (part, users) in parts.iter_mut().zip(users) {
        part.shared = users > 1;
    }
}

/// Returns the subschemas in an order in which each follows those in its `next`. `None` if there is a cycle.
fn leaves_first(parts: &[Subschema], next: impl Fn(usize) -> Vec<usize>) -> Option<Vec<usize>> {
    let mut users = vec![Vec::new(); parts.len()];
    let mut pending = vec![0; parts.len()];
    for (at, pending) in pending.iter_mut().enumerate() {
        for part in next(at) {
            users[part].push(at);
            *pending += 1;
        }
    }
    let mut order: Vec<usize> = (0..parts.len()).filter(|at| pending[*at] == 0).collect();
    let mut done = 0;
    while let Some(at) = order.get(done).copied() {
        done += 1;
        for user in &users[at] {
            pending[*user] -= 1;
            if pending[*user] == 0 {
                order.push(*user);
            }
        }
    }
    (order.len() == parts.len()).then_some(order)
}

/// Returns the maximum number and the maximum nesting of schemas for one value. `None` if a subschema applies itself to
/// the same value.
pub(super) fn same_value_bounds(parts: &[Subschema]) -> Option<(u64, u64)> {
    let order = leaves_first(parts, |at| parts[at].same.clone())?;
    let mut width = vec![0_u64; parts.len()];
    let mut depth = vec![0_u64; parts.len()];
    for at in order {
        let same = &parts[at].same;
        width[at] = same
            .iter()
            .fold(1, |sum: u64, part| sum.saturating_add(width[*part]));
        depth[at] = 1 + same.iter().map(|part| depth[*part]).max().unwrap_or(0);
    }
    Some((
        width.into_iter().max().unwrap_or(0),
        depth.into_iter().max().unwrap_or(0),
    ))
}

/// Returns the steps of listing all failures for one nested value, with all references unfolded. `None` if a subschema
/// is recursive.
pub(super) fn unfolded_cost(parts: &[Subschema]) -> Option<u64> {
    let order = leaves_first(parts, |at| parts[at].all().collect())?;
    let mut costs = vec![ValidationCost::default(); parts.len()];
    for at in order {
        let part = &parts[at];
        let mut cost = ValidationCost::of_keywords(part.own + part.search_cost + 1);
        for same in &part.same {
            cost.add_same_value(costs[*same]);
        }
        for inner in part.inner() {
            cost.add_part(costs[inner]);
        }
        cost.finish(part.unevaluated);
        costs[at] = cost;
    }
    costs.first().map(|cost| cost.listing)
}
