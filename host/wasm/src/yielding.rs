//! Yielding inside host calls: fuel limits a guest's own computing, not the work that it causes in the host.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use wasmtime::{CallHook, CallHookHandler, Result, StoreContextMut};

use crate::store_state::StoreState;

/// Time that a guest may keep the host busy without yielding. Short compared with any timeout, long compared with a
/// host call.
const MAX_TIME_WITHOUT_YIELD: Duration = Duration::from_millis(10);

/// Yields when a guest calls the host and has not yielded for a while, so that its deadline, a cancellation and other
/// calls are processed. Otherwise a guest whose host calls are always ready at once would run until its fuel is used
/// up, and work of the host, such as copying megabytes, uses none.
pub(crate) struct YieldHook;

// Implemented by hand, because a call crosses between guest and host dozens of times: without anything to wait for, it
// allocates nothing.
impl CallHookHandler<StoreState> for YieldHook {
    fn handle_call_event<'me, 'store, 'both>(
        &'me self,
        mut store: StoreContextMut<'store, StoreState>,
        event: CallHook,
    ) -> Pin<Box<dyn Future<Output = Result<()>> + Send + 'both>>
    where
        'me: 'both,
        'store: 'both,
    {
        if matches!(event, CallHook::CallingHost)
            && store.data().last_yield.elapsed() >= MAX_TIME_WITHOUT_YIELD
        {
            return Box::pin(async move {
                tokio::task::yield_now().await;
                store.data_mut().last_yield = Instant::now();
                Ok(())
            });
        }
        Box::pin(NoYield)
    }
}

/// A future that is ready at once. It has no size, so boxing it does not allocate.
struct NoYield;

impl Future for NoYield {
    type Output = Result<()>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(Ok(()))
    }
}
