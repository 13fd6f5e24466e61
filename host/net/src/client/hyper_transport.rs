//! Exchange of one request over hyper, with the connections made by [`PolicyConnector`].

use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use hyper_util::client::legacy::Client as Pool;
use hyper_util::client::legacy::connect::capture_connection;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use mimir_core::network::NetworkPolicy;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::{HttpClient, HttpClientState, IDLE_TIMEOUT, MAX_IDLE_CONNECTIONS, timed_out};
use crate::body::ResponseSource;
use crate::connector::PolicyConnector;
use crate::error::{Error, RequestStage};
use crate::hyper_errors;
use crate::policy_guard::NetworkPolicySnapshot;
use crate::upload::UploadBody;

/// The connections of a client, with the generation of the policy under which they were made.
#[derive(Default)]
pub(crate) struct HyperTransport {
    pool: Mutex<Option<(u64, Pool<PolicyConnector, UploadBody>)>>,
}

impl HttpClient {
    /// Sends a request and waits for the head of the response.
    pub(super) async fn exchange_with_hyper(
        &self,
        transport: &HyperTransport,
        current: &NetworkPolicySnapshot,
        mut request: Request<UploadBody>,
        time_left: Duration,
    ) -> Result<Response<ResponseSource>, Error> {
        let start = Instant::now();
        let (deadline, whole) = (start + time_left, self.limits.whole);
        let timeout_error = |stage, after| {
            if Instant::now() >= deadline {
                timed_out(RequestStage::Whole, whole)
            } else {
                timed_out(stage, after)
            }
        };
        // The connector applies the client's own limit, and reports which step took too long.
        let connect_limit = if self.limits.connect < self.shared.limits.connect {
            self.limits.connect.min(time_left)
        } else {
            time_left
        };
        let mut connected = capture_connection(&mut request);
        let sending = transport.pool(&self.shared, current).request(request);
        tokio::pin!(sending);
        let early_response = tokio::select! {
            biased;
            response = &mut sending => Some(response),
            () = async { drop(connected.wait_for_connection_metadata().await) } => None,
            () = sleep_until(start + connect_limit) => return Err(timeout_error(RequestStage::Connect, self.limits.connect)),
        };
        let response = match early_response {
            Some(response) => response,
            None => {
                let first_byte = self.limits.first_byte;
                let until = deadline.min(Instant::now() + first_byte);
                let response = timeout_at(until, sending).await;
                response.map_err(|_| timeout_error(RequestStage::Headers, first_byte))?
            }
        };
        let header_limit = self.shared.limits.header_bytes;
        let response = response.map_err(|e| hyper_errors::from_client_error(&e, header_limit))?;
        hyper_errors::check_header_count(response.headers(), header_limit)?;
        Ok(response.map(ResponseSource::Hyper))
    }
}

impl HyperTransport {
    /// Returns the connections made under this policy. Connections of an older policy are dropped: idle ones close at
    /// once, and none gets another request.
    fn pool(
        &self,
        state: &HttpClientState,
        current: &NetworkPolicySnapshot,
    ) -> Pool<PolicyConnector, UploadBody> {
        let mut cached = self.pool.lock();
        match &*cached {
            Some((generation, pool)) if *generation == current.generation => pool.clone(),
            // This request was checked before the policy changed: its connection is not pooled.
            Some((generation, _)) if *generation > current.generation => {
                new_pool(state, &current.policy)
            }
            _ => {
                let pool = new_pool(state, &current.policy);
                *cached = Some((current.generation, pool.clone()));
                pool
            }
        }
    }
}

fn new_pool(
    state: &HttpClientState,
    policy: &Arc<NetworkPolicy>,
) -> Pool<PolicyConnector, UploadBody> {
    let connector = PolicyConnector {
        policy: Arc::clone(policy),
        resolver: Arc::clone(&state.resolver),
        tls: Arc::clone(&state.tls),
        servers: state.servers.clone(),
        limit: state.limits.connect,
    };
    let header_limit = state.limits.header_bytes;
    Pool::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_TIMEOUT)
        .pool_max_idle_per_host(MAX_IDLE_CONNECTIONS)
        .http1_max_buf_size(
            usize::try_from(header_limit)
                .unwrap_or(usize::MAX)
                .max(MIN_HTTP1_BUFFER),
        )
        .http2_max_header_list_size(header_limit)
        .build(connector)
}

/// The smallest buffer that hyper accepts.
const MIN_HTTP1_BUFFER: usize = 8192;
