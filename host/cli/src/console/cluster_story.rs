//! The part of a call's story that only a cluster has: the server that took the call, and the worker that ran it.

use mimir_audit::AuditEntry;
use mimir_core::pipeline::PipelineSnapshot;
use mimir_core::text::visible;
use serde_json::{Value, json};

use mimir::setup::HostSetup;

use super::record_source::{RecordLine, message_of_position};

/// Maximum number of lines: one announcement and one outcome, unless the log is damaged.
const LINES_MAX: usize = 16;

/// The steps of a call in a cluster, and the place of its changes.
pub struct ClusterStory {
    /// The steps.
    pub steps: Vec<Value>,
    /// The node that can undo the changes of the call, if that is not this one.
    pub undo: Option<Value>,
    /// Sequence of the last message about the call.
    pub last_message: u64,
}

/// Removes the hint about an undo from the story of a call whose tool is known to change nothing.
pub fn drop_undo_of_reader(story: &mut Value, snapshot: &PipelineSnapshot) {
    let tool = story["undoElsewhere"]["tool"].as_str();
    let tool = tool.and_then(|name| snapshot.registry.get(name));
    if tool.is_some_and(|tool| tool.definition.hints.read_only) {
        story["undoElsewhere"] = Value::Null;
    }
}

/// Collects the lines of a call in a cluster.
pub struct ClusterLines<'a> {
    id: &'a str,
    lines: Vec<Value>,
}

impl<'a> ClusterLines<'a> {
    /// Creates a collector for the call with this id.
    pub fn new(id: &'a str) -> Self {
        Self {
            id,
            lines: Vec::new(),
        }
    }

    /// Adds a line if it is about the beginning or the end of the call.
    pub fn add(&mut self, line: &RecordLine<'_>) {
        let is_about = |text: &str| {
            let is_event =
                text.contains("\"event\":\"call\"") || text.contains("\"event\":\"announced\"");
            is_event && text.contains(self.id)
        };
        if !line.is_of_cluster() || !std::str::from_utf8(line).is_ok_and(is_about) {
            return;
        }
        if let Some(entry) = AuditEntry::read(line).filter(|entry| entry.text("id") == self.id)
            && self.lines.len() < LINES_MAX
        {
            self.lines.push(line.shown(&entry));
        }
    }

    /// Describes where the call was taken and run. `None` outside a cluster.
    pub fn story(&self, setup: &HostSetup) -> Option<ClusterStory> {
        cluster_story(setup, &self.lines)
    }
}

fn cluster_story(setup: &HostSetup, lines: &[Value]) -> Option<ClusterStory> {
    let cluster = setup.cluster()?;
    let text = |line: &Value, name: &str| visible(line[name].as_str().unwrap_or_default());
    let is_event = |line: &&Value, event: &str| line["event"] == event;
    let outcome = lines.iter().find(|line| is_event(line, "call"));
    let announced = lines.iter().find(|line| is_event(line, "announced"));
    let line = outcome.or(announced)?;
    let (runner, front) = (&line["node"], text(line, "front"));
    let step = |stage: &str, title: &str, text: String| json!({ "stage": stage, "title": title, "text": text });
    let mut steps = Vec::new();
    let own = cluster.node().id();
    let describe = |role: &str, id: &str, host: Option<&str>| {
        let host = host.map_or(String::new(), |host| format!(" on {}", visible(host)));
        if id == own {
            format!("this server{host} (node {id})")
        } else {
            format!("the {role}{host} (node {id})")
        }
    };
    if !front.is_empty() {
        let nodes = cluster.node().nodes();
        let node = nodes.get(&front);
        let host = node.as_ref().map(|node| node.host.as_str());
        let text = format!("{} took the call", describe("server", &front, host));
        steps.push(step("validate", "Taken", text));
    }
    let id = visible(runner["id"].as_str().unwrap_or_default());
    let is_lost = outcome.is_some_and(|line| line["mayHaveRun"] == true);
    if !id.is_empty() {
        let role = if runner["role"] == "front" {
            "server"
        } else {
            "worker"
        };
        let node = describe(role, &id, runner["host"].as_str());
        let verb = match (outcome, announced) {
            (None, _) => "runs it, or was lost just now",
            (Some(_), _) if is_lost => "was lost while it ran the call",
            // Calls that are safe to repeat are not announced.
            (Some(line), None) if line["ok"] == true => "ran it",
            (Some(_), None) => "judged it, and ran it if that was allowed",
            (Some(_), Some(_)) => "announced and ran it",
        };
        steps.push(step("run", "Run", format!("{node} {verb}")));
    }
    if let Some(closer) = outcome.and_then(|line| line["closedBy"].as_str()) {
        let text = format!(
            "{} recorded the end of the call, because the worker was lost: the call may have run, so check before you repeat it",
            describe("node", &visible(closer), None)
        );
        steps.push(step("outcome", "May have run", text));
    }
    let has_run = is_lost || outcome.is_some_and(|line| line["ok"] == true);
    let may_have_changed = (has_run || announced.is_some()) && id != own && !id.is_empty();
    let undo = may_have_changed.then(|| {
        json!({
            "call": text(line, "id"),
            "tool": text(line, "tool"),
            "node": id,
            "host": runner["host"],
            "command": format!("mimir undo {}", text(line, "id")),
        })
    });
    let positions = lines.iter().filter_map(|line| line["position"].as_u64());
    Some(ClusterStory {
        steps,
        undo,
        last_message: positions.max().map_or(0, message_of_position),
    })
}
