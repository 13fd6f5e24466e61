use std::cell::RefCell;

use mimir_sdk::serde_json::{Value, json};
use mimir_sdk::{Result, serde_json};

use super::settings::Settings;
use super::{SearchResult, WebSearch};
use crate::http::{Request, Response, Transport};

/// Records requests, and responds with this value.
struct Answers(Value, RefCell<Vec<Request>>);

impl Transport for Answers {
    fn send(&self, request: &Request) -> Result<Response> {
        self.1.borrow_mut().push(request.clone());
        Ok(Response {
            status: 200,
            headers: Vec::new(),
            body: self.0.to_string().into_bytes(),
            ..Response::default()
        })
    }
}

/// The results with these settings, and the request that was sent.
fn searched(settings: Value, answer: Value) -> (Vec<SearchResult>, Request) {
    let settings: Settings = serde_json::from_value(settings).unwrap();
    let answers = Answers(answer, RefCell::default());
    let search = WebSearch {
        query: "rust & wasm".to_owned(),
        num_results: 2,
    };
    let found = search.search(&settings, &answers).unwrap();
    let sent = answers.1.borrow()[0].clone();
    (found.value.results, sent)
}

#[test]
fn brave_request_follows_its_api() {
    let result =
        json!({"title": "T", "url": "https://a.example/", "description": "<strong>S</strong>"});
    let (hits, sent) = searched(
        json!({"provider": "brave", "key": "K"}),
        json!({"web": {"results": [result, result, result]}}),
    );
    assert_eq!(
        sent.url.as_str(),
        "https://api.search.brave.com/res/v1/web/search?q=rust+%26+wasm&count=2"
    );
    assert_eq!((sent.method, sent.body.len()), ("GET", 0));
    assert_eq!(hits.len(), 2, "no more than were asked for");
    assert_eq!(hits[0].snippet, "S");
}

#[test]
fn tavily_request_follows_its_api() {
    let result = json!({"title": "T", "url": "https://a.example/", "content": "S"});
    let (hits, sent) = searched(
        json!({"provider": "tavily", "key": "K"}),
        json!({"results": [result]}),
    );
    assert_eq!(
        (sent.method, sent.url.as_str()),
        ("POST", "https://api.tavily.com/search")
    );
    let body: Value = serde_json::from_slice(&sent.body).unwrap();
    assert_eq!(body, json!({"query": "rust & wasm", "max_results": 2}));
    assert_eq!(hits[0].title, "T");
}

#[test]
fn search_provider_malformed_results_are_skipped() {
    for answer in [
        json!(null),
        json!([]),
        json!({"web": {"results": {}}}),
        json!({"web": 1}),
    ] {
        let (hits, _) = searched(json!({"provider": "brave"}), answer);
        assert_eq!(hits, []);
    }
    let long = "word ".repeat(1000);
    let odd =
        json!([1, {}, {"url": 5}, {"url": "x"}, {"url": "http://a.example", "description": long}]);
    let (hits, _) = searched(
        json!({"provider": "brave"}),
        json!({"web": {"results": odd}}),
    );
    assert_eq!(hits.len(), 1);
    assert_eq!(hits[0].title, "http://a.example/");
    assert_eq!(hits[0].snippet.chars().count(), 601);
}
