//! The connections of a pipeline to the other processes of its deployment.

use std::sync::Arc;

use crate::call_switch::CallSwitch;
use crate::remote_pipeline::RemotePipeline;
use crate::shared_state::SharedStateHandle;

/// The connections of a pipeline, for [`Pipeline::connect`](super::Pipeline::connect).
#[derive(Clone)]
pub struct PipelineConnections {
    /// Stops all calls.
    pub switch: Arc<dyn CallSwitch>,
    /// The state that the pipelines of other processes share with this one: labels and approvals of sessions, and
    /// limits. `None` if this is the only process.
    pub state: Option<SharedStateHandle>,
    /// Runs all calls in other processes. `None` if this process runs them.
    pub remote: Option<Arc<dyn RemotePipeline>>,
}
