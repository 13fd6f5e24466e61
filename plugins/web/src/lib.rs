//! `web_fetch` and `web_search`.
//!
//! `http` sends one request, `exchange` follows redirects and decompresses the body, `charset` decodes text and `page`
//! converts HTML for a reader. `fetch` and `search` are the tools.
//!
//! Out of scope: rules about allowed addresses. The host checks each request, including every redirect. The key of a
//! search provider never reaches this plugin.

mod charset;
mod exchange;
mod fetch;
mod http;
pub mod page;
mod search;

pub use fetch::{Fetched, Form, Format, Method, WebFetch};
pub use search::{SearchResult, SearchResults, WebSearch};

mimir_sdk::export!(WebSearch; assessed WebFetch);
