//! Requests to each search provider, and parsing of the responses.

use mimir_sdk::serde_json::{self, Value, json};
use mimir_sdk::{Error, Result, text};
use url::Url;

use super::settings::{Fields, Provider, Settings};
use super::{SearchResult, SearchResults};
use crate::exchange;
use crate::http::{Request, Transport};
use crate::page;

/// Maximum number of characters of a title and of a snippet: enough to choose by.
const MAX_TITLE: usize = 200;
const MAX_SNIPPET: usize = 600;

/// Queries the provider.
pub(super) fn search(
    settings: &Settings,
    transport: &impl Transport,
    query: &str,
    count: usize,
) -> Result<SearchResults> {
    let (request, results, fields) = match settings.provider {
        Provider::Brave => brave(settings, query, count)?,
        Provider::Tavily => tavily(settings, query, count)?,
        Provider::Searxng => searxng(settings, query)?,
        Provider::Template => template(settings, query, count)?,
    };
    let exchange = exchange::run(transport, request)?;
    let body = String::from_utf8_lossy(&exchange.response.body);
    check_status(exchange.response.status, &body, settings)?;
    let response: Value = serde_json::from_str(&body).map_err(|_| {
        Error::network("the search provider did not return JSON; check `webSearch.url`")
    })?;
    Ok(hits(&response, &results, &fields, count))
}

type ProviderQuery = (Request, String, Fields);

fn fields(title: &str, url: &str, snippet: &str) -> Fields {
    let owned = str::to_owned;
    Fields {
        title: owned(title),
        url: owned(url),
        snippet: owned(snippet),
    }
}

fn brave(settings: &Settings, query: &str, count: usize) -> Result<ProviderQuery> {
    let mut url = parse_url("https://api.search.brave.com/res/v1/web/search")?;
    let count = count.to_string();
    url.query_pairs_mut()
        .append_pair("q", query)
        .append_pair("count", &count);
    let request = request(settings, url, None, "X-Subscription-Token: {key}");
    let fields = fields("title", "url", "description");
    Ok((request, "web.results".to_owned(), fields))
}

fn tavily(settings: &Settings, query: &str, count: usize) -> Result<ProviderQuery> {
    let url = parse_url("https://api.tavily.com/search")?;
    let body = json!({ "query": query, "max_results": count });
    let request = request(settings, url, Some(body), "Authorization: Bearer {key}");
    let fields = fields("title", "url", "content");
    Ok((request, "results".to_owned(), fields))
}

fn searxng(settings: &Settings, query: &str) -> Result<ProviderQuery> {
    let mut url = parse_url(settings.url.as_deref().unwrap_or_default())?;
    if url.path() == "/" {
        url.set_path("/search");
    }
    url.query_pairs_mut()
        .append_pair("q", query)
        .append_pair("format", "json");
    let request = request(settings, url, None, "Authorization: Bearer {key}");
    let fields = fields("title", "url", "content");
    Ok((request, "results".to_owned(), fields))
}

fn template(settings: &Settings, query: &str, count: usize) -> Result<ProviderQuery> {
    let count = count.to_string();
    let escaped: String = url::form_urlencoded::byte_serialize(query.as_bytes()).collect();
    let url = settings.url.as_deref().unwrap_or_default();
    let url = fill_text(url, &escaped, &count);
    let body = settings.body.as_deref().map(serde_json::from_str::<Value>);
    let body = body
        .transpose()
        .map_err(|error| Error::unavailable(format_args!("webSearch.body: {error}")))?;
    let body = body.map(|body| fill_json(body, query, &count));
    let request = request(
        settings,
        parse_url(&url)?,
        body,
        "Authorization: Bearer {key}",
    );
    let results = settings.results.clone().unwrap_or_default();
    Ok((request, results, settings.fields.clone()))
}

fn fill_text(text: &str, query: &str, count: &str) -> String {
    // The query may contain `{count}`, so it is inserted last.
    text.replace("{count}", count).replace("{query}", query)
}

/// Fills in the strings of a JSON value. A string that is exactly `{count}` becomes a number.
fn fill_json(value: Value, query: &str, count: &str) -> Value {
    match value {
        Value::String(text) if text == "{count}" => count
            .parse::<u64>()
            .map_or(Value::String(text), Value::from),
        Value::String(text) => fill_text(&text, query, count).into(),
        Value::Array(items) => items
            .into_iter()
            .map(|item| fill_json(item, query, count))
            .collect(),
        Value::Object(members) => {
            let members = members.into_iter();
            members
                .map(|(name, item)| (name, fill_json(item, query, count)))
                .collect()
        }
        other => other,
    }
}

fn parse_url(text: &str) -> Result<Url> {
    exchange::parse(text).map_err(|error| {
        Error::unavailable(format_args!(
            "webSearch.url is not usable: {}",
            error.message()
        ))
    })
}

/// A request with the key, or its placeholder, in a header.
fn request(settings: &Settings, url: Url, body: Option<Value>, header: &str) -> Request {
    let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    let mut headers: Vec<_> = [
        ("accept", "application/json"),
        ("accept-encoding", "gzip"),
        ("user-agent", concat!("mimir/", env!("CARGO_PKG_VERSION"))),
    ]
    .map(owned)
    .to_vec();
    if let Some(key) = settings.placeholder() {
        let line = settings.header.as_deref().unwrap_or(header);
        let (name, value) = line.split_once(':').unwrap_or((line, "{key}"));
        let value = value.trim().replace("{key}", &key);
        headers.push((name.trim().to_owned(), value));
    }
    if body.is_some() {
        headers.push(owned(("content-type", "application/json")));
    }
    Request {
        method: if body.is_some() { "POST" } else { "GET" },
        url,
        headers,
        body: body.map_or_else(Vec::new, |body| body.to_string().into_bytes()),
        timeout: None,
    }
}

/// Converts an error status to an error.
fn check_status(status: u16, body: &str, settings: &Settings) -> Result<()> {
    let message = text::brief(body.trim()).into_owned();
    let key = settings.key.as_deref().unwrap_or("webSearch.key");
    match status {
        200..=299 => Ok(()),
        401 | 403 => Err(Error::unavailable(format_args!(
            "the search provider refused access ({status}); check the secret `{key}`: {message}"
        ))),
        429 => Err(Error::limit_exceeded(format_args!(
            "the search provider's rate limit is reached (429); try again later: {message}"
        ))),
        status => Err(Error::network(format_args!(
            "the search provider answered {status}: {message}"
        ))),
    }
}

fn hits(response: &Value, results: &str, fields: &Fields, count: usize) -> SearchResults {
    let items = value_at(response, results).and_then(Value::as_array);
    let all = items.into_iter().flatten().filter_map(|item| {
        let url = value_at(item, &fields.url)?.as_str()?;
        // Results that cannot be fetched are dropped.
        let url = exchange::parse(url).ok()?;
        let field_text = |path: &str, max_chars| {
            let text = value_at(item, path).and_then(Value::as_str);
            clean_text(text.unwrap_or_default(), &url, max_chars)
        };
        let title = field_text(&fields.title, MAX_TITLE);
        Some(SearchResult {
            title: if title.is_empty() {
                url.to_string()
            } else {
                title
            },
            snippet: field_text(&fields.snippet, MAX_SNIPPET),
            url: url.to_string(),
        })
    });
    SearchResults {
        results: all.take(count).collect(),
    }
}

/// The value at a path of names separated by dots.
fn value_at<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    let mut parts = path.split('.').filter(|part| !part.is_empty());
    parts.try_fold(value, |value, part| match value {
        Value::Array(items) => items.get(part.parse::<usize>().ok()?),
        value => value.get(part),
    })
}

/// A provider's text as one line without markup: some put the matched words in bold.
fn clean_text(markup: &str, base: &Url, max_chars: usize) -> String {
    let markup = match markup.contains(['<', '&']) {
        true if page::check(markup).is_ok() => page::text(markup, base).text,
        _ => markup.to_owned(),
    };
    let line = markup.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(max_chars) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}
