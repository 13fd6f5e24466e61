//! The port to the effect gate: who is asked before a request leaves, with what it really is.

use http::{HeaderMap, Method};
use mimir_core::ToolError;
use mimir_core::backend::BoxFuture;
use mimir_core::network::{Target, Verdict};

use crate::error::Error;

/// A request that is about to be sent.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    /// Where it goes, after all redirects so far.
    pub target: &'a Target,
    /// The method that will be on the wire.
    pub method: &'a Method,
    /// Its headers, before secrets are put in.
    pub headers: &'a HeaderMap,
    /// True if it has a body.
    pub body: bool,
    /// How many redirects led here.
    pub hop: usize,
    /// What the policy says: allowed, or on no list. What it refuses is asked of nobody.
    pub verdict: &'a Verdict<'a>,
}

/// A yes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permit {
    /// As far as the policy lets it: what is on no list stays refused.
    Listed,
    /// Also if it is on no list, this time.
    Unlisted,
}

/// Asked once for every hop, before its name is looked up. The clock of the request stands still meanwhile.
pub trait Authorize: Send + Sync {
    /// Puts the policy in force that holds now, where somebody else keeps it. Called just before a request goes out: it
    /// may have waited since it was let.
    fn renew(&self) {}

    /// Lets it or says why not.
    fn authorize<'a>(&'a self, ask: Ask<'a>) -> BoxFuture<'a, Result<Permit, ToolError>>;

    /// Hears of a hop that the policy refuses, by its name, its address or because the policy has changed, and may say
    /// better why.
    fn refused<'a>(&'a self, _: &'a Target, _: &'a Method, error: Error) -> BoxFuture<'a, Error> {
        Box::pin(std::future::ready(error))
    }
}

/// No gate: the policy alone decides. For the host's own requests.
#[derive(Debug, Clone, Copy, Default)]
pub struct PolicyAlone;

impl Authorize for PolicyAlone {
    fn authorize<'a>(&'a self, _: Ask<'a>) -> BoxFuture<'a, Result<Permit, ToolError>> {
        Box::pin(std::future::ready(Ok(Permit::Listed)))
    }
}
