//! The network as a plugin has it: `wasi:http` and nothing else, under a grant, the settings and a person.

mod embeddings;
mod exchange;
mod foreign;
mod gate;
mod refusals;
mod revoked;
mod search;
mod secrets;
mod served;
pub mod site;
mod web;

use mimir_core::Tool;
use mimir_core::tool::Trust;
use mimir_kit::change;
use mimir_testkit::{Approve, Outcome, Testkit, Value, json};

use crate::guests;

/// A kit with the guest that fetches, granted what it needs; nobody is there to be asked.
fn granted(settings: Value) -> Testkit {
    let mut settings = settings;
    // Each answer is content of strangers, which is no matter here.
    settings["tools"]["fetch"]["labels"] = json!({"acceptsUntrusted": true});
    let kit = Testkit::new(guests::FETCH.path).unwrap();
    let kit = kit.approve(Approve::Nobody).settings(settings).unwrap();
    change(&kit, grant);
    kit
}

/// A person has granted the tool what it needs.
fn grant(tool: &mut Tool) {
    tool.trust = Trust::Trusted;
    tool.granted = tool.definition.needs.clone();
}

/// The results of these steps, in order.
fn fetch(kit: &Testkit, steps: Value) -> Vec<Value> {
    let outcome = kit.call("fetch", json!({ "steps": steps }));
    results(&outcome)
}

fn results(outcome: &Outcome) -> Vec<Value> {
    let output = outcome.result().unwrap_or_else(|error| panic!("{error}"));
    let structured = output.structured.as_ref().unwrap();
    structured["results"].as_array().unwrap().clone()
}
