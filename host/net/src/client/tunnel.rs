//! A connection that others speak over: judged like a request of the method `CONNECT`, and watched by its bytes, since
//! what they say is theirs.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::{HeaderMap, Method};
use mimir_core::network::{Target, Verdict};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};

use super::{Client, timed_out};
use crate::authorize::Ask;
use crate::connector::unreachable;
use crate::dial::dial;
use crate::error::{Error, Stage};
use crate::hold::{Hold, allowed};
use crate::limits::Limits;
use crate::resolver::addresses;

/// Bytes that are on their way at once, in each direction.
const PIECE: usize = 16 << 10;

/// What TLS begins with: a record of the handshake, of version 3.
const HELLO: [u8; 2] = [0x16, 0x03];

/// A connection to a host that was let.
pub(crate) struct Tunnel {
    stream: TcpStream,
    client: Client,
    hold: Hold,
    limits: Limits,
}

impl Client {
    /// Opens a connection to the host of `target`.
    pub(crate) async fn tunnel(&self, target: Target) -> Result<Tunnel, Error> {
        let (method, headers) = (Method::CONNECT, HeaderMap::new());
        let before = self.shared.guard.current();
        let verdict = before.policy.judge(&target, method.as_str());
        if let Verdict::Refused(refusal) = verdict {
            return Err(Error::Blocked(refusal));
        }
        let ask = Ask {
            target: &target,
            method: &method,
            headers: &headers,
            hop: 0,
            verdict: &verdict,
        };
        let permit = self.authorize.authorize(ask).await.map_err(Error::Denied)?;
        // A person may have thought for an hour.
        self.authorize.renew();
        let now = self.shared.guard.current();
        allowed(now.policy.judge(&target, method.as_str()), permit)?;
        let limit = self.limits.connect;
        let connecting = async {
            let found = addresses(&*self.shared.resolver, &now.policy, &target, limit).await?;
            let stream = dial(&found).await;
            stream.map_err(|error| unreachable(&target, &error))
        };
        let stream = timeout(limit, connecting).await;
        let stream = stream.map_err(|_| timed_out(Stage::Connect, limit))??;
        Ok(Tunnel {
            stream,
            hold: Hold {
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
    /// The first bytes of whoever is inside, which say that it speaks TLS. Nothing of the other side is handed on before
    /// that: in TLS it says nothing first. Nothing if whoever is inside has ended by then.
    pub(crate) async fn begins(
        &self,
        inside: &mut (impl AsyncRead + Unpin),
    ) -> Result<Vec<u8>, Error> {
        let limit = self.limits.first_byte;
        let mut first = vec![0; HELLO.len()];
        let mut count = 0;
        let reading = async {
            while count < first.len() {
                let rest = first.get_mut(count..).unwrap_or_default();
                match inside.read(rest).await {
                    Ok(0) | Err(_) => break,
                    Ok(more) => count += more,
                }
            }
        };
        let read = timeout(limit, reading).await;
        read.map_err(|_| timed_out(Stage::Headers, limit))?;
        first.truncate(count);
        match first.is_empty() || first == HELLO {
            true => Ok(first),
            false => Err(Error::ClearTunnel(format!(
                "{}:{}",
                self.hold.target.host(),
                self.hold.target.port()
            ))),
        }
    }

    /// Carries bytes both ways until both sides have ended, or one of the bounds: time, silence, bytes, or a policy that
    /// would not let it any more. `first` are those that were read already.
    pub(crate) async fn carry(
        mut self,
        first: Vec<u8>,
        inside: impl AsyncRead + AsyncWrite + Send,
    ) -> Result<(), Error> {
        let (from_inside, to_inside) = tokio::io::split(inside);
        let from_inside = std::io::Cursor::new(first).chain(from_inside);
        let (from_host, to_host) = self.stream.split();
        let watch = Watch {
            client: &self.client,
            between: self.limits.between_bytes,
            state: Mutex::new((self.hold, Instant::now())),
        };
        let (up, down) = (self.limits.upload_bytes, self.limits.body_bytes);
        tokio::try_join!(
            watch.way(from_inside, to_host, (up, "what is sent through a tunnel")),
            watch.way(from_host, to_inside, (down, "what comes through a tunnel")),
        )?;
        Ok(())
    }
}

/// What both ways of a tunnel are held to.
struct Watch<'a> {
    client: &'a Client,
    between: Duration,
    /// What was let, and when something last came either way.
    state: Mutex<(Hold, Instant)>,
}

impl Watch<'_> {
    /// Carries bytes one way until there are no more.
    async fn way(
        &self,
        mut from: impl AsyncRead + Unpin,
        mut to: impl AsyncWrite + Unpin,
        (limit, what): (u64, &'static str),
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
            let piece = piece.get(..count).unwrap_or_default();
            self.in_time(to.write_all(piece)).await?;
            self.lock().1 = Instant::now();
        }
    }

    /// Waits as long as either way is not silent for too long.
    async fn in_time<T>(&self, work: impl Future<Output = io::Result<T>>) -> Result<T, Error> {
        let mut work = pin!(work);
        loop {
            let (until, deadline, whole) = {
                let state = self.lock();
                let (hold, last) = &*state;
                (*last + self.between, hold.deadline, hold.whole)
            };
            if let Ok(done) = timeout_at(until.min(deadline), &mut work).await {
                return done.map_err(|error| unreachable(&self.lock().0.target, &error));
            }
            let now = Instant::now();
            if now >= deadline {
                return Err(timed_out(Stage::Whole, whole));
            }
            if now >= self.lock().1 + self.between {
                return Err(timed_out(Stage::Body, self.between));
            }
        }
    }

    /// Whether the policy that holds now would let it.
    fn judge(&self) -> Result<(), Error> {
        self.client.authorize.renew();
        self.lock().0.judge()
    }

    fn lock(&self) -> MutexGuard<'_, (Hold, Instant)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
