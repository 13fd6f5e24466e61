//! Giving way inside host calls: fuel bounds what a guest computes, not what it makes the host do.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use wasmtime::{CallHook, CallHookHandler, Result, StoreContextMut};

use crate::guest::Guest;

/// How long a guest may keep the host at work without giving way. Short beside any timeout, long
/// beside a host call.
const SHIFT: Duration = Duration::from_millis(10);

/// Lets the deadline, a cancellation and other calls have their turn whenever a guest calls the host
/// and has not given way for a while. Without it, a guest that spends its time in host calls that are
/// ready at once is polled for as long as its fuel lasts, and a copy of megabytes costs it none.
pub(crate) struct GiveWay;

// Written out, because a call crosses between guest and host dozens of times: what has nothing to wait for
// allocates nothing.
impl CallHookHandler<Guest> for GiveWay {
    fn handle_call_event<'me, 'store, 'both>(
        &'me self,
        mut store: StoreContextMut<'store, Guest>,
        event: CallHook,
    ) -> Pin<Box<dyn Future<Output = Result<()>> + Send + 'both>>
    where
        'me: 'both,
        'store: 'both,
    {
        if matches!(event, CallHook::CallingHost) && store.data().gave_way.elapsed() >= SHIFT {
            return Box::pin(async move {
                tokio::task::yield_now().await;
                store.data_mut().gave_way = Instant::now();
                Ok(())
            });
        }
        Box::pin(GoOn)
    }
}

/// Nothing to wait for. It has no size, so that its box is none.
struct GoOn;

impl Future for GoOn {
    type Output = Result<()>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(Ok(()))
    }
}
