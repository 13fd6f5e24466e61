//! Network access of plugins: `wasi:http` and nothing else, subject to a grant, the settings and a person.

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
use mimir_core::tool::ToolTrust;
use mimir_kit::change;
use mimir_testkit::{Approve, Outcome, Testkit, Value, json};

use crate::guests;

/// A kit with the guest that fetches, with its needs granted and without a person.
fn granted(settings: Value) -> Testkit {
    let mut settings = settings;
    // Each response is untrusted content, which these tests are not about.
    settings["tools"]["fetch"]["labels"] = json!({"acceptsUntrusted": true});
    let kit = Testkit::new(guests::FETCH.path).unwrap();
    let kit = kit.approve(Approve::Nobody).settings(settings).unwrap();
    change(&kit, grant);
    kit
}

/// Grants the tool its needs, as a person does.
fn grant(tool: &mut Tool) {
    tool.trust = ToolTrust::Trusted;
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
