//! Sixth stage: labels the result with its trust level and data class.

use parking_lot::Mutex;
use serde_json::json;

use crate::outcome::{Content, ContentLabel, DataClass, Outcome, ToolOutput, TrustLevel};
use crate::tool::{Tool, ToolGroup, ToolSource, ToolTrust};

use super::StageContext;
use super::call_recorder::CallRecorder;
use super::sanitize::Clean;
use super::session::{ContentSource, unavailable};

/// A result with its label.
pub struct Labeled {
    pub(super) clean: Clean,
    pub(super) label: ContentLabel,
    /// The source of the result's untrusted content.
    pub(super) source: ContentSource,
}

/// The worst label of the content that a call has read through nested calls and effects.
#[derive(Debug, Default)]
pub struct TaintFloor(Mutex<Option<WorstLabel>>);

#[derive(Debug, Clone)]
struct WorstLabel {
    trust: TrustLevel,
    data_class: DataClass,
    /// The source of the untrusted content. `Other` if there are several sources.
    source: ContentSource,
}

impl TaintFloor {
    /// Adds the label of a finished nested call.
    pub(crate) fn add_outcome(&self, outcome: &Outcome) {
        self.add_label_from(outcome.label(), outcome.source.clone());
    }

    /// Adds a label with the source `Other`.
    pub(crate) fn add_label(&self, label: &ContentLabel) {
        self.add_label_from(label, ContentSource::Other);
    }

    /// Adds a label with its source.
    pub(super) fn add_label_from(&self, label: &ContentLabel, source: ContentSource) {
        let mut worst = self.0.lock();
        let untrusted = label.trust == TrustLevel::Untrusted;
        let (trust, data_class) = (label.trust, label.data_class);
        *worst = Some(match worst.take() {
            None => WorstLabel {
                trust,
                data_class,
                source,
            },
            Some(worst) => WorstLabel {
                trust: worst.trust.max(trust),
                data_class: worst.data_class.max(data_class),
                source: if worst.trust != TrustLevel::Untrusted {
                    source
                } else if untrusted && worst.source != source {
                    ContentSource::Other
                } else {
                    worst.source
                },
            },
        });
    }

    /// Adds everything that another floor contains.
    pub(super) fn add_floor(&self, other: &TaintFloor) {
        if let Some(worst) = other.worst() {
            let label = ContentLabel {
                trust: worst.trust,
                data_class: worst.data_class,
                origin: String::new(),
            };
            self.add_label_from(&label, worst.source);
        }
    }

    fn worst(&self) -> Option<WorstLabel> {
        self.0.lock().clone()
    }
}

/// Labels the result, and records in the session that it has read content with this label.
pub(super) fn label(stage: &StageContext<'_>, clean: Clean, recorder: &CallRecorder) -> Labeled {
    let mut label = match recorder.tool() {
        Some(tool) if clean.ran && !is_empty_response(tool, &clean) => {
            let mut label = ContentLabel {
                trust: TrustLevel::System,
                data_class: DataClass::Public,
                origin: format!("{}:{}", tool.source.as_str(), tool.name()),
            };
            for tool in recorder.tool_forms() {
                let settings = stage.snapshot.policy.labels(tool);
                let trust = settings.output_trust.unwrap_or_else(|| default_trust(tool));
                let class = settings.output_data_class.unwrap_or(DataClass::Internal);
                label.trust = label.trust.max(trust);
                label.data_class = label.data_class.max(class);
            }
            label
        }
        // A refusal comes from mimir itself, and an empty response has no content.
        _ => ContentLabel {
            trust: TrustLevel::System,
            data_class: DataClass::Public,
            origin: "mimir".to_owned(),
        },
    };
    let mut source = recorder
        .tool()
        .map_or(ContentSource::Other, |tool| ContentSource::from_tool(tool));
    // The result may repeat everything that the call has read through nested calls and effects.
    if let Some(worst) = recorder.taint_floor().worst() {
        if label.trust < TrustLevel::Untrusted {
            source = worst.source;
        } else if worst.trust == TrustLevel::Untrusted && worst.source != source {
            source = ContentSource::Other;
        }
        label.trust = label.trust.max(worst.trust);
        label.data_class = label.data_class.max(worst.data_class);
    }
    // Content with a secret of the user may be sensitive even where it is not masked.
    if clean.masks.is_specific() && recorder.tool().is_some_and(|tool| reads_own_data(tool)) {
        label.data_class = label.data_class.max(DataClass::Sensitive);
    }
    let session = stage.sessions.get(recorder.session());
    session.record_masks(&clean.masks);
    session.record_read(&label, source.clone());
    session.record_untrusted_call(&label, recorder.id());
    if recorder.tool().is_some_and(|tool| is_network_tool(tool))
        && let Ok(output) = &clean.result
    {
        let texts = output.content.iter().filter_map(|part| match part {
            Content::Text { text } => Some(text.as_str()),
            _ => None,
        });
        // Requests may contain opaque text from fetched pages, such as the hash in a link.
        session.record_fetched(texts);
    }
    Labeled {
        clean,
        label,
        source,
    }
}

/// Stores what the call has added to the session, before its outcome is returned. If that fails, the result is withheld,
/// because other processes would not know what the session has read.
pub(super) async fn store_session(
    stage: &StageContext<'_>,
    labeled: &mut Labeled,
    recorder: &CallRecorder,
) {
    let Some(state) = stage.shared_state() else {
        return;
    };
    let id = recorder.session();
    let session = stage.sessions.get(id);
    let stored = session.store(&**state, id, stage.ports.clock.now()).await;
    let Err(error) = stored else {
        return;
    };
    tracing::warn!(%error, "a session could not be stored");
    if labeled.clean.ran {
        let error = unavailable("the call ran, but its result is withheld", &error)
            .with_details(json!({"mayHaveRun": true}));
        labeled.clean.result = Err(error);
    }
}

/// Returns true if a server has responded without any content, such as to a subscription.
fn is_empty_response(tool: &Tool, clean: &Clean) -> bool {
    let has_no_content =
        |output: &ToolOutput| output.content.is_empty() && output.structured.is_none();
    tool.source == ToolSource::Mcp && clean.result.as_ref().is_ok_and(has_no_content)
}

/// Returns true if a secret in the tool's result can come from this machine. A secret in the response of a server or a
/// site is not the user's, and masking it must not restrict later calls.
fn reads_own_data(tool: &Tool) -> bool {
    let needs = &tool.definition.needs;
    match tool.source {
        ToolSource::BuiltIn => {
            !matches!(tool.definition.group, ToolGroup::Net | ToolGroup::Browser)
        }
        ToolSource::Custom | ToolSource::Teams => {
            !needs.files.is_empty() || !needs.commands.is_empty()
        }
        ToolSource::Mcp => false,
    }
}

/// Returns true if the results of the tool come only from the network.
fn is_network_tool(tool: &Tool) -> bool {
    tool.source == ToolSource::BuiltIn && tool.definition.group == ToolGroup::Net
}

/// Returns the default trust level of a tool's results. Results of built-in tools for local data are trusted, and those
/// of a granted custom tool or tool of a team that can reach no host, command or model, whose output it could pass on. All other results
/// are untrusted.
fn default_trust(tool: &Tool) -> TrustLevel {
    let needs = &tool.definition.needs;
    let is_isolated = needs.hosts.is_empty() && needs.commands.is_empty() && !needs.model;
    match (tool.source, tool.definition.group) {
        (ToolSource::BuiltIn, ToolGroup::Fs) => TrustLevel::Verified,
        (ToolSource::BuiltIn, ToolGroup::Runtime | ToolGroup::Memory | ToolGroup::System) => {
            TrustLevel::User
        }
        (ToolSource::BuiltIn, ToolGroup::Net | ToolGroup::Browser) => TrustLevel::Untrusted,
        (ToolSource::Custom | ToolSource::Teams, _)
            if tool.trust == ToolTrust::Trusted && is_isolated =>
        {
            TrustLevel::Verified
        }
        (ToolSource::Custom | ToolSource::Mcp | ToolSource::Teams, _) => TrustLevel::Untrusted,
    }
}
