//! Tunnel of a foreign program: authorized like a request with the method `CONNECT`, then monitored byte by byte, since
//! the program encrypts the content.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Method};
use mimir_core::network::{NetworkVerdict, RequestTarget};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};

use super::{HttpClient, timed_out};
use crate::authorize::{OutboundRequest, RequestPermit};
use crate::authorized_request::{AuthorizedRequest, check_verdict};
use crate::connector::unreachable;
use crate::dial::dial;
use crate::error::{Error, OversizedPart, RequestStage};
use crate::limits::RequestLimits;
use crate::resolver::resolve_checked;
use records::{ClientRecordFilter, ServerRecordFilter, TunnelViolation, record_filters};

mod hello;
mod records;

/// Buffer size in bytes, for each direction.
const CHUNK_BYTES: usize = 16 << 10;

/// Bytes that the program may send through a tunnel before the tunnel is authorized again: page requests are smaller,
/// uploads are larger.
const REAUTHORIZE_AFTER: u64 = 16 << 10;

/// First bytes of a TLS connection: a handshake record of version 3.
const TLS_PREFIX: [u8; 2] = [0x16, 0x03];

/// The start of a tunnel: the bytes received so far, not forwarded yet, and the filters for the rest.
pub(crate) struct TunnelStart {
    first_bytes: Vec<u8>,
    client: ClientRecordFilter,
    server: ServerRecordFilter,
}

/// Connection to an authorized host.
pub(crate) struct Tunnel {
    stream: TcpStream,
    client: HttpClient,
    authorized: AuthorizedRequest,
    limits: RequestLimits,
}

impl HttpClient {
    /// Opens a connection to the host of `target`.
    pub(crate) async fn tunnel(&self, target: RequestTarget) -> Result<Tunnel, Error> {
        let (method, headers) = (Method::CONNECT, HeaderMap::new());
        let checked = self.shared.guard.current();
        let verdict = checked.policy.judge(&target, method.as_str());
        if let NetworkVerdict::Refused(refusal) = verdict {
            return Err(Error::Blocked(refusal));
        }
        let outbound = OutboundRequest {
            target: &target,
            method: &method,
            headers: &headers,
            body: false,
            hop: 0,
            verdict: &verdict,
        };
        let permit = self
            .authorizer
            .authorize(outbound)
            .await
            .map_err(Error::Denied)?;
        // An approval can take an hour, and the policy may have changed meanwhile.
        self.authorizer.reload_policy();
        let current = self.shared.guard.current();
        check_verdict(current.policy.judge(&target, method.as_str()), permit)?;
        let limit = self.limits.connect;
        let connecting = async {
            let addresses =
                resolve_checked(&*self.shared.resolver, &current.policy, &target, limit).await?;
            let stream = dial(&addresses).await;
            stream.map_err(|error| unreachable(&target, &error))
        };
        let stream = timeout(limit, connecting).await;
        let stream = stream.map_err(|_| timed_out(RequestStage::Connect, limit))??;
        Ok(Tunnel {
            stream,
            authorized: AuthorizedRequest {
                guard: Arc::clone(&self.shared.guard),
                generation: current.generation,
                target: Arc::new(target),
                method,
                permit,
                deadline: Instant::now() + self.limits.whole,
                whole: self.limits.whole,
            },
            client: self.clone(),
            limits: self.limits,
        })
    }
}

impl Tunnel {
    /// Reads the client's ClientHello, and fails if it asks for another host than that of the tunnel. Forwards nothing
    /// before that: in TLS, the server never sends first. Succeeds without a ClientHello if the client closes at once.
    pub(crate) async fn read_client_hello(
        &self,
        client_io: &mut (impl AsyncRead + Unpin),
    ) -> Result<TunnelStart, Error> {
        let limit = self.limits.first_byte;
        let (client, server) = record_filters(self.authorized.target.host());
        let mut start = TunnelStart {
            first_bytes: Vec::new(),
            client,
            server,
        };
        let reading = async {
            let mut chunk = vec![0; CHUNK_BYTES];
            while !start.client.has_valid_hello() {
                let count = client_io.read(&mut chunk).await.unwrap_or(0);
                let bytes = chunk.get(..count).unwrap_or_default();
                start.first_bytes.extend_from_slice(bytes);
                let prefix = start.first_bytes.iter().take(TLS_PREFIX.len());
                if prefix
                    .clone()
                    .zip(&TLS_PREFIX)
                    .any(|(received, expected)| received != expected)
                {
                    return Err(Error::ClearTunnel(host_and_port(&self.authorized.target)));
                }
                let checked = start.client.check(bytes);
                checked.map_err(|why| violation_error(&self.authorized.target, why))?;
                if count == 0 {
                    return if start.first_bytes.is_empty() {
                        Ok(())
                    } else {
                        Err(Error::ClearTunnel(host_and_port(&self.authorized.target)))
                    };
                }
            }
            Ok(())
        };
        let read = timeout(limit, reading).await;
        read.map_err(|_| timed_out(RequestStage::Headers, limit))??;
        Ok(start)
    }

    /// Relays bytes in both directions until both sides have closed. Fails on non-TLS data, when a limit of time,
    /// silence or size is exceeded, or when the policy no longer allows the connection.
    pub(crate) async fn relay(
        mut self,
        start: TunnelStart,
        client_io: impl AsyncRead + AsyncWrite + Send,
    ) -> Result<(), Error> {
        let TunnelStart {
            first_bytes,
            mut client,
            mut server,
        } = start;
        let (from_program, to_program) = tokio::io::split(client_io);
        let (from_host, mut to_host) = self.stream.split();
        let target = Arc::clone(&self.authorized.target);
        let watch = TunnelWatch {
            client: &self.client,
            between: self.limits.between_bytes,
            state: Mutex::new((self.authorized, Instant::now())),
        };
        watch.with_timeout(to_host.write_all(&first_bytes)).await?;
        let (up, down) = (self.limits.upload_bytes, self.limits.body_bytes);
        let up = (
            up.saturating_sub(first_bytes.len() as u64),
            OversizedPart::TunnelUpload,
        );
        let down = (down, OversizedPart::TunnelDownload);
        tokio::try_join!(
            watch.relay_one_way(
                from_program,
                to_host,
                up,
                Some(REAUTHORIZE_AFTER),
                |bytes| {
                    client
                        .check(bytes)
                        .map_err(|why| violation_error(&target, why))
                }
            ),
            watch.relay_one_way(from_host, to_program, down, None, |bytes| server
                .check(bytes)
                .map_err(|why| violation_error(&target, why))),
        )?;
        Ok(())
    }
}

/// Converts a violation of the rules of a tunnel into an error.
fn violation_error(target: &RequestTarget, why: TunnelViolation) -> Error {
    let host = host_and_port(target);
    match why {
        TunnelViolation::Malformed(why) => Error::NotTls { host, why },
        TunnelViolation::Name(Some(name)) => Error::TunnelName {
            host,
            requested: format!("`{}`", mimir_core::text::visible(&name)),
        },
        TunnelViolation::Name(None) => Error::TunnelName {
            host,
            requested: "no host (the ClientHello has no server name)".to_owned(),
        },
    }
}

fn host_and_port(target: &RequestTarget) -> String {
    format!("{}:{}", target.host(), target.port())
}

/// Enforces the limits and the policy in both directions of a tunnel.
struct TunnelWatch<'a> {
    client: &'a HttpClient,
    between: Duration,
    /// The authorization, and the time of the last data in either direction.
    state: Mutex<(AuthorizedRequest, Instant)>,
}

impl TunnelWatch<'_> {
    /// Relays bytes in one direction until its end. Authorizes the tunnel again once more than `reauthorize_after`
    /// bytes have passed.
    async fn relay_one_way(
        &self,
        mut from: impl AsyncRead + Unpin,
        mut to: impl AsyncWrite + Unpin,
        (limit, part): (u64, OversizedPart),
        mut reauthorize_after: Option<u64>,
        mut check: impl FnMut(&[u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut chunk = vec![0; CHUNK_BYTES];
        let mut relayed = 0_u64;
        loop {
            let count = self.with_timeout(from.read(&mut chunk)).await?;
            self.recheck_policy()?;
            if count == 0 {
                return self.with_timeout(to.shutdown()).await;
            }
            relayed += count as u64;
            if relayed > limit {
                return Err(Error::TooLarge { part, limit });
            }
            if reauthorize_after
                .take_if(|reauthorize_after| relayed > *reauthorize_after)
                .is_some()
            {
                self.authorize_upload().await?;
            }
            let chunk = chunk.get(..count).unwrap_or_default();
            check(chunk)?;
            self.with_timeout(to.write_all(chunk)).await?;
            self.state.lock().1 = Instant::now();
        }
    }

    /// Runs an operation to completion. Fails at the deadline, or if both directions have been silent for too long.
    async fn with_timeout<T>(&self, work: impl Future<Output = io::Result<T>>) -> Result<T, Error> {
        let mut work = pin!(work);
        loop {
            let (until, deadline, whole) = {
                let state = self.state.lock();
                let (authorized, last_data) = &*state;
                (
                    *last_data + self.between,
                    authorized.deadline,
                    authorized.whole,
                )
            };
            if let Ok(result) = timeout_at(until.min(deadline), &mut work).await {
                return result.map_err(|error| unreachable(&self.state.lock().0.target, &error));
            }
            let now = Instant::now();
            if now >= deadline {
                return Err(timed_out(RequestStage::Whole, whole));
            }
            if now >= self.state.lock().1 + self.between {
                return Err(timed_out(RequestStage::Body, self.between));
            }
        }
    }

    /// Authorizes a tunnel again after [`REAUTHORIZE_AFTER`] bytes have been sent through it. A tunnel to an unlisted
    /// host needs no second check: a person approved it when it was opened.
    async fn authorize_upload(&self) -> Result<(), Error> {
        let (target, method, permit) = {
            let state = self.state.lock();
            let authorized = &state.0;
            (
                Arc::clone(&authorized.target),
                authorized.method.clone(),
                authorized.permit,
            )
        };
        if permit == RequestPermit::Unlisted {
            return Ok(());
        }
        let current = self.client.shared.guard.current();
        let outbound = OutboundRequest {
            target: &target,
            method: &method,
            headers: &HeaderMap::new(),
            body: true,
            hop: 0,
            verdict: &current.policy.judge(&target, method.as_str()),
        };
        let authorized = self.client.authorizer.authorize(outbound).await;
        self.state.lock().1 = Instant::now();
        authorized.map(|_| ()).map_err(Error::Denied)
    }

    /// Checks that the current policy still allows the connection.
    fn recheck_policy(&self) -> Result<(), Error> {
        self.client.authorizer.reload_policy();
        self.state.lock().0.recheck_policy()
    }
}
