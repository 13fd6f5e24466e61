//! Many requests at a time.

use crate::kit::{Site, answer, client, fetch, lax};

/// A thousand requests by eight calls: as many connections as calls, and none more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_requests_by_eight_calls_take_eight_connections() {
    let site = Site::says(|_| answer("200 OK", "", "hello")).await;
    let client = client(lax());
    let calls = (0..8).map(|_| {
        let (client, url) = (client.clone(), site.url("/"));
        tokio::spawn(async move {
            for _ in 0..125 {
                assert_eq!(fetch(&client, &url).await.unwrap().body, "hello");
            }
        })
    });
    futures::future::try_join_all(calls).await.unwrap();
    assert_eq!(site.heads().len(), 1000);
    // One that is just being given back may be missed by the next call.
    assert!(site.connections() <= 16, "{}", site.connections());
}
