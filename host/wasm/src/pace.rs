//! Giving way inside host calls: fuel bounds what a guest computes, not what it makes the host do.

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

#[async_trait::async_trait]
impl CallHookHandler<Guest> for GiveWay {
    async fn handle_call_event(
        &self,
        mut store: StoreContextMut<'_, Guest>,
        event: CallHook,
    ) -> Result<()> {
        if matches!(event, CallHook::CallingHost) && store.data().gave_way.elapsed() >= SHIFT {
            tokio::task::yield_now().await;
            store.data_mut().gave_way = Instant::now();
        }
        Ok(())
    }
}
