//! The state of a worker over HTTP, for supervisors, load balancers and Prometheus.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use axum::extract::Request;
use mimir::cluster::ClusterMembership;
use mimir_core::ToolError;
use mimir_core::audit::AuditSink;
use mimir_mcp::{MetricFamily, MetricKind, MetricSource, ReadinessCheck, StatusEndpoint};
use mimir_wasm::WasmHost;
use tokio::net::TcpListener;

use super::{listen, server_metrics};
use crate::exit::CommandResult;
use crate::output::note;

/// Returns the conditions under which each process of a cluster can take calls. An order to stop all calls is not one: behind
/// a proxy, clients then get the reason, and a person can reach the console to allow calls again.
pub fn node_readiness(
    membership: &ClusterMembership,
    audit: Arc<dyn AuditSink>,
) -> Vec<ReadinessCheck> {
    let connection = membership.connection().clone();
    vec![
        ReadinessCheck::new("state", move || {
            let is_connected = connection.is_connected();
            is_connected
                .then_some(())
                .ok_or("the cluster cannot be reached")
        }),
        ReadinessCheck::new("audit", move || {
            audit.ready().map_err(|_| "the audit log cannot be written")
        }),
    ]
}

/// Lets `mimir cluster status` show the conditions of this process that are not met.
pub fn report_readiness(membership: &ClusterMembership, checks: &[ReadinessCheck]) {
    let checks = checks.to_vec();
    membership.node().report_readiness(move || {
        let reasons = checks.iter().filter_map(ReadinessCheck::reason);
        reasons.map(str::to_owned).collect()
    });
}

/// The state of a worker. Clones share it.
#[derive(Clone, Default)]
pub struct WorkerStatus(Arc<WorkerStatusParts>);

#[derive(Default)]
struct WorkerStatusParts {
    has_started: AtomicBool,
    metrics: OnceLock<MetricSource>,
    endpoint: OnceLock<StatusEndpoint>,
}

impl WorkerStatus {
    /// Reports the conditions of a worker to the cluster, and over HTTP at `address` if it is given.
    pub async fn start(
        membership: &ClusterMembership,
        audit: Arc<dyn AuditSink>,
        address: Option<SocketAddr>,
    ) -> CommandResult<Self> {
        let status = Self::default();
        let mut checks = node_readiness(membership, audit);
        let parts = Arc::clone(&status.0);
        checks.push(ReadinessCheck::new("start", move || {
            let has_started = parts.has_started.load(Ordering::Relaxed);
            has_started
                .then_some(())
                .ok_or("the tools are being compiled")
        }));
        report_readiness(membership, &checks);
        let Some(address) = address else {
            return Ok(status);
        };
        let listener = TcpListener::bind(address).await.map_err(|error| {
            ToolError::unavailable(format!("cannot listen on {address}: {error}"))
        })?;
        let address = listener.local_addr().unwrap_or(address);
        let node = membership.node().clone();
        let parts = Arc::clone(&status.0);
        let metrics = move || {
            let source = parts.metrics.get();
            let mut families = source.map_or_else(Vec::new, |metrics| metrics());
            families.push(running_calls(node.in_flight()));
            families
        };
        let endpoint = StatusEndpoint::new(checks, Arc::new(metrics));
        let _ = status.0.endpoint.set(endpoint);
        let parts = Arc::clone(&status.0);
        let respond = move |request: Request| {
            let endpoint = parts.endpoint.get();
            let response = endpoint.map(|endpoint| endpoint.respond(&request));
            std::future::ready(response.ok_or(axum::http::StatusCode::SERVICE_UNAVAILABLE))
        };
        let router = axum::Router::new().fallback(respond);
        // It answers until the process ends, so that a draining worker is seen to live.
        tokio::spawn(listen(listener, router, std::future::pending()));
        note(format_args!(
            "the state of the worker is at http://{address}/readyz, /healthz and /metrics"
        ));
        Ok(status)
    }

    /// Reports from now on that the worker takes calls.
    pub fn set_started(&self, host: &Arc<WasmHost>) {
        let _ = self.0.metrics.set(server_metrics(host));
        self.0.has_started.store(true, Ordering::Relaxed);
    }

    /// Reports from now on that the worker is about to end.
    pub fn begin_drain(&self) {
        if let Some(endpoint) = self.0.endpoint.get() {
            endpoint.begin_drain();
        }
    }
}

fn running_calls(calls: u32) -> MetricFamily {
    MetricFamily::one(
        "mimir_calls_under_way",
        MetricKind::Gauge,
        f64::from(calls),
        "Calls that are running or waiting.",
    )
}
