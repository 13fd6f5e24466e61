//! Process-level support of `mimir serve`.

mod listener;
mod metrics;
mod streams;
mod token;

pub use listener::listen;
pub use metrics::cache_metrics;
pub use streams::StdioStreams;
pub use token::{ServeToken, load_or_create};
