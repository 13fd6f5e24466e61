//! `web_fetch` and `web_search`.
//!
//! `http` sends one request, `exchange` follows redirects and unpacks what comes, `charset` makes text of bytes and
//! `page` what a reader wants of HTML. `fetch` and `search` are the tools.
//!
//! Never here: rules about which addresses may be reached. The host judges each request, every hop of a redirect too,
//! and the key of a search provider never gets here.

mod charset;
mod exchange;
mod fetch;
mod http;
pub mod page;
mod search;

pub use fetch::{Fetched, Form, Format, Method, WebFetch};
pub use search::{Hit, Hits, WebSearch};

mimir_sdk::export!(WebSearch; assessed WebFetch);
