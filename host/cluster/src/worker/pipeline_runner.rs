//! The pipeline of this process as the runner of a worker's calls.

use std::collections::HashMap;
use std::sync::Arc;

use mimir_core::backend::BoxFuture;
use mimir_core::pipeline::PipelineSnapshot;
use mimir_core::wire::ToolMessage;
use mimir_core::{Call, Outcome, Pipeline};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

use super::CallRunner;
use crate::frames::RemoteToolList;
use crate::ids::hex;

/// Maximum number of roles whose views of the pipeline are kept.
const MAX_ROLES: usize = 256;

/// Runs calls through a pipeline, each in the view of its user's role.
pub struct PipelineRunner {
    pipeline: Pipeline,
    roles: Mutex<HashMap<String, Pipeline>>,
    /// The catalogue of the last snapshot.
    catalogue: Mutex<Option<(Arc<PipelineSnapshot>, RemoteToolList)>>,
}

impl PipelineRunner {
    /// Creates a runner of this pipeline.
    pub fn new(pipeline: Pipeline) -> Self {
        Self {
            pipeline,
            roles: Mutex::default(),
            catalogue: Mutex::default(),
        }
    }

    fn in_role(&self, role: Option<&str>) -> Pipeline {
        let Some(role) = role else {
            return self.pipeline.clone();
        };
        let mut roles = self.roles.lock();
        if let Some(view) = roles.get(role) {
            return view.clone();
        }
        if roles.len() >= MAX_ROLES {
            roles.clear();
        }
        let name = role.to_owned();
        let view = self.pipeline.restricted(move |full| full.in_role(&name));
        roles.insert(role.to_owned(), view.clone());
        view
    }

    /// Returns the digest of the tools, for the entry of the node.
    pub fn tools_digest(&self) -> String {
        self.catalogue().digest
    }
}

impl CallRunner for PipelineRunner {
    fn run<'a>(&'a self, call: Call, role: Option<&'a str>) -> BoxFuture<'a, Outcome> {
        let pipeline = self.in_role(role);
        Box::pin(async move { pipeline.call(call).await })
    }

    fn end_session(&self, session: &str) {
        self.pipeline.end_session(session);
    }

    fn catalogue(&self) -> RemoteToolList {
        let snapshot = self.pipeline.snapshot();
        let mut cached = self.catalogue.lock();
        if let Some((of, catalogue)) = &*cached
            && Arc::ptr_eq(of, &snapshot)
        {
            return catalogue.clone();
        }
        let tools = snapshot.registry.tools().iter();
        let tools: Vec<ToolMessage> = tools.map(|tool| ToolMessage::from_tool(tool)).collect();
        // The tools are sorted by name.
        let json = serde_json::to_vec(&tools).unwrap_or_default();
        let digest = Sha256::digest(&json);
        let catalogue = RemoteToolList {
            digest: hex(&digest[..16]),
            tools,
        };
        *cached = Some((snapshot, catalogue.clone()));
        catalogue
    }
}
