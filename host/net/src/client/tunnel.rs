//! A connection for a foreign program: checked like a request with the method `CONNECT`, and supervised by its bytes,
//! since its content is encrypted by the program.

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
use crate::error::{Error, RequestStage};
use crate::limits::RequestLimits;
use crate::resolver::resolve_checked;
use records::{ClientRecordFilter, ServerRecordFilter, TunnelViolation, record_filters};

mod hello;
mod records;

/// Buffer size in bytes, for each direction.
const PIECE: usize = 16 << 10;

/// Bytes that the program may send through a tunnel before that is authorized once more. Requests for pages are small; what
/// is uploaded is not.
const UNASKED: u64 = 16 << 10;

/// The first bytes of TLS: a record of the handshake, of version 3.
const HELLO: [u8; 2] = [0x16, 0x03];

/// The bytes that the client sent before anything was forwarded, and the filter for the rest.
pub(crate) struct TunnelStart {
    first: Vec<u8>,
    client: ClientRecordFilter,
    server: ServerRecordFilter,
}

/// A connection to an authorized host.
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
        let before = self.shared.guard.current();
        let verdict = before.policy.judge(&target, method.as_str());
        if let NetworkVerdict::Refused(refusal) = verdict {
            return Err(Error::Blocked(refusal));
        }
        let ask = OutboundRequest {
            target: &target,
            method: &method,
            headers: &headers,
            body: false,
            hop: 0,
            verdict: &verdict,
        };
        let permit = self.authorize.authorize(ask).await.map_err(Error::Denied)?;
        // The approval may have taken an hour.
        self.authorize.reload_policy();
        let now = self.shared.guard.current();
        check_verdict(now.policy.judge(&target, method.as_str()), permit)?;
        let limit = self.limits.connect;
        let connecting = async {
            let found =
                resolve_checked(&*self.shared.resolver, &now.policy, &target, limit).await?;
            let stream = dial(&found).await;
            stream.map_err(|error| unreachable(&target, &error))
        };
        let stream = timeout(limit, connecting).await;
        let stream = stream.map_err(|_| timed_out(RequestStage::Connect, limit))??;
        Ok(Tunnel {
            stream,
            authorized: AuthorizedRequest {
                guard: Arc::clone(&self.shared.guard),
                generation: now.generation,
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
    /// Reads the ClientHello of the client, and refuses one for another host than that of the tunnel. Forwards nothing
    /// before that: in TLS the server does not send first. Reads nothing if the client ends at once.
    pub(crate) async fn read_client_hello(
        &self,
        inside: &mut (impl AsyncRead + Unpin),
    ) -> Result<TunnelStart, Error> {
        let limit = self.limits.first_byte;
        let (client, server) = record_filters(self.authorized.target.host());
        let mut begun = TunnelStart {
            first: Vec::new(),
            client,
            server,
        };
        let reading = async {
            let mut piece = vec![0; PIECE];
            while !begun.client.has_valid_hello() {
                let count = inside.read(&mut piece).await.unwrap_or(0);
                let bytes = piece.get(..count).unwrap_or_default();
                begun.first.extend_from_slice(bytes);
                let begin = begun.first.iter().take(HELLO.len());
                if begin.clone().zip(&HELLO).any(|(one, other)| one != other) {
                    return Err(Error::ClearTunnel(host_and_port(&self.authorized.target)));
                }
                let checked = begun.client.check(bytes);
                checked.map_err(|why| violation_error(&self.authorized.target, why))?;
                if count == 0 {
                    return match begun.first.is_empty() {
                        true => Ok(()),
                        false => Err(Error::ClearTunnel(host_and_port(&self.authorized.target))),
                    };
                }
            }
            Ok(())
        };
        let read = timeout(limit, reading).await;
        read.map_err(|_| timed_out(RequestStage::Headers, limit))??;
        Ok(begun)
    }

    /// Relays bytes in both directions until both sides have ended or a bound is hit: time, silence, size, non-TLS
    /// data, or a policy that no longer allows the connection.
    pub(crate) async fn relay(
        mut self,
        begun: TunnelStart,
        inside: impl AsyncRead + AsyncWrite + Send,
    ) -> Result<(), Error> {
        let TunnelStart {
            first,
            mut client,
            mut server,
        } = begun;
        let (from_inside, to_inside) = tokio::io::split(inside);
        let (from_host, mut to_host) = self.stream.split();
        let target = Arc::clone(&self.authorized.target);
        let watch = TunnelWatch {
            client: &self.client,
            between: self.limits.between_bytes,
            state: Mutex::new((self.authorized, Instant::now())),
        };
        watch.in_time(to_host.write_all(&first)).await?;
        let (up, down) = (self.limits.upload_bytes, self.limits.body_bytes);
        let up = (
            up.saturating_sub(first.len() as u64),
            "the data sent through a tunnel",
        );
        let down = (down, "the data received through a tunnel");
        tokio::try_join!(
            watch.relay_one_way(from_inside, to_host, up, Some(UNASKED), |bytes| client
                .check(bytes)
                .map_err(|why| violation_error(&target, why))),
            watch.relay_one_way(from_host, to_inside, down, None, |bytes| server
                .check(bytes)
                .map_err(|why| violation_error(&target, why))),
        )?;
        Ok(())
    }
}

/// Returns the error for a tunnel to this host that violates its rules.
fn violation_error(target: &RequestTarget, why: TunnelViolation) -> Error {
    let host = host_and_port(target);
    match why {
        TunnelViolation::Malformed(why) => Error::NotTls { host, why },
        TunnelViolation::Name(Some(name)) => Error::TunnelName {
            host,
            asked: format!("`{}`", mimir_core::text::visible(&name)),
        },
        TunnelViolation::Name(None) => Error::TunnelName {
            host,
            asked: "no host (it has no server name)".to_owned(),
        },
    }
}

fn host_and_port(target: &RequestTarget) -> String {
    format!("{}:{}", target.host(), target.port())
}

/// The limits of both directions of a tunnel.
struct TunnelWatch<'a> {
    client: &'a HttpClient,
    between: Duration,
    /// The authorization, and the time of the last data in either direction.
    state: Mutex<(AuthorizedRequest, Instant)>,
}

impl TunnelWatch<'_> {
    /// Relays bytes in one direction until its end. Beyond `unasked` bytes it is authorized once more.
    async fn relay_one_way(
        &self,
        mut from: impl AsyncRead + Unpin,
        mut to: impl AsyncWrite + Unpin,
        (limit, what): (u64, &'static str),
        mut unasked: Option<u64>,
        mut check: impl FnMut(&[u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut piece = vec![0; PIECE];
        let mut carried = 0_u64;
        loop {
            let count = self.in_time(from.read(&mut piece)).await?;
            self.judge()?;
            if count == 0 {
                return self.in_time(to.shutdown()).await;
            }
            carried += count as u64;
            if carried > limit {
                return Err(Error::TooLarge { what, limit });
            }
            if unasked.take_if(|unasked| carried > *unasked).is_some() {
                self.authorize_upload().await?;
            }
            let piece = piece.get(..count).unwrap_or_default();
            check(piece)?;
            self.in_time(to.write_all(piece)).await?;
            self.state.lock().1 = Instant::now();
        }
    }

    /// Waits until both directions have been silent for too long.
    async fn in_time<T>(&self, work: impl Future<Output = io::Result<T>>) -> Result<T, Error> {
        let mut work = pin!(work);
        loop {
            let (until, deadline, whole) = {
                let state = self.state.lock();
                let (hold, last) = &*state;
                (*last + self.between, hold.deadline, hold.whole)
            };
            if let Ok(done) = timeout_at(until.min(deadline), &mut work).await {
                return done.map_err(|error| unreachable(&self.state.lock().0.target, &error));
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

    /// Authorizes a tunnel through which much is sent, unless a person was asked about it when it was opened.
    async fn authorize_upload(&self) -> Result<(), Error> {
        let (target, method, permit) = {
            let state = self.state.lock();
            let hold = &state.0;
            (Arc::clone(&hold.target), hold.method.clone(), hold.permit)
        };
        if permit == RequestPermit::Unlisted {
            return Ok(());
        }
        let now = self.client.shared.guard.current();
        let ask = OutboundRequest {
            target: &target,
            method: &method,
            headers: &HeaderMap::new(),
            body: true,
            hop: 0,
            verdict: &now.policy.judge(&target, method.as_str()),
        };
        let authorized = self.client.authorize.authorize(ask).await;
        self.state.lock().1 = Instant::now();
        authorized.map(|_| ()).map_err(Error::Denied)
    }

    /// Checks that the current policy allows the connection.
    fn judge(&self) -> Result<(), Error> {
        self.client.authorize.reload_policy();
        self.state.lock().0.recheck_policy()
    }
}
