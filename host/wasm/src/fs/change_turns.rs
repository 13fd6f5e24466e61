//! Turns of the operations that change files, for guests whose operations run concurrently.

use std::sync::Arc;

use tokio::sync::Mutex;
use wasmtime_wasi::p2::bindings::filesystem::types::ErrorCode;

use super::refusal::FsFault;

/// The turns of one store: one operation runs at a time.
#[derive(Debug, Clone, Default)]
pub(super) struct ChangeTurns(Arc<Mutex<()>>);

impl ChangeTurns {
    /// Runs an operation alone. If the returned future is dropped while it waits for its turn, nothing happens; after
    /// that, the operation continues to its end.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        operation: impl Future<Output = Result<T, FsFault>> + Send + 'static,
    ) -> Result<T, FsFault> {
        let turn = Arc::clone(&self.0).lock_owned().await;
        let task = tokio::spawn(async move {
            let _turn = turn;
            operation.await
        });
        task.await.unwrap_or_else(|_| Err(ErrorCode::Io.into()))
    }

    /// Returns an error while an operation runs, for functions that cannot wait.
    pub(super) fn check_free(&self) -> Result<(), FsFault> {
        match self.0.try_lock() {
            Ok(_) => Ok(()),
            Err(_) => Err(ErrorCode::Busy.into()),
        }
    }

    /// Waits for the operation in progress. Operations that wait for their turn must have been dropped, or must still be
    /// polled: each of them gets its turn first.
    pub(super) fn ended(&self) -> impl Future<Output = ()> + use<> {
        let turns = Arc::clone(&self.0);
        async move {
            drop(turns.lock().await);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn turns_run_one_operation_at_a_time_and_to_its_end() {
        let turns = ChangeTurns::default();
        let (running, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let operation = || {
            let (running, ended) = (Arc::clone(&running), Arc::clone(&ended));
            async move {
                assert_eq!(running.fetch_add(1, Ordering::SeqCst), 0);
                for _ in 0..10 {
                    tokio::task::yield_now().await;
                }
                running.fetch_sub(1, Ordering::SeqCst);
                ended.fetch_add(1, Ordering::SeqCst);
                Ok(())
            }
        };
        let (first, second) = tokio::join!(turns.run(operation()), turns.run(operation()));
        assert!(first.is_ok() && second.is_ok());
        let mut cancelled = Box::pin(turns.run(operation()));
        assert!(futures::poll!(&mut cancelled).is_pending());
        assert!(turns.check_free().is_err());
        drop(cancelled);
        turns.ended().await;
        assert_eq!(ended.load(Ordering::SeqCst), 3);
        assert!(turns.check_free().is_ok());
        // The second one is dropped while it waits for its turn.
        let mut cancelled = [
            Box::pin(turns.run(operation())),
            Box::pin(turns.run(operation())),
        ];
        for run in &mut cancelled {
            assert!(futures::poll!(run).is_pending());
        }
        let all_ended = turns.ended();
        drop(cancelled);
        all_ended.await;
        assert_eq!(ended.load(Ordering::SeqCst), 4);
    }
}
