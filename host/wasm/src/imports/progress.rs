//! `mimir:tool/progress`.

use mimir_core::call::CallProgress;
use mimir_core::text;

use crate::bindings::progress::Host;
use crate::store_state::StoreState;

/// Maximum length of a report's message in characters: about one line of a terminal.
const MAX_MESSAGE: usize = 200;

impl Host for StoreState {
    async fn report(
        &mut self,
        done: u64,
        total: Option<u64>,
        message: Option<String>,
    ) -> wasmtime::Result<()> {
        if self.progress_reports_left > 0 {
            self.progress_reports_left -= 1;
            let message = message.map(|message| text::visible(text::prefix(&message, MAX_MESSAGE)));
            self.observer.progress(CallProgress {
                done,
                total,
                message,
            });
        }
        Ok(())
    }
}
