//! Yielding inside host calls: fuel limits a guest's own computing, but not the work that the guest causes in the host.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use wasmtime::{CallHook, CallHookHandler, Result, StoreContextMut};

use crate::store_state::StoreState;

/// Time that a guest may keep the host busy without yielding: short compared with any timeout, long compared with a
/// host call.
const MAX_TIME_WITHOUT_YIELD: Duration = Duration::from_millis(10);

/// Yields when a guest calls the host and has not yielded for a while, so that deadlines, cancellations and other calls
/// are processed. Without the hook, a guest whose host calls never wait would run until its fuel is used up, and host
/// work such as copying megabytes uses no fuel.
pub(crate) struct YieldHook;

// Implemented by hand to avoid an allocation per host call, of which a tool call makes dozens.
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

/// A future that is ready at once. It is zero-sized, so boxing it does not allocate.
struct NoYield;

impl Future for NoYield {
    type Output = Result<()>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(Ok(()))
    }
}
