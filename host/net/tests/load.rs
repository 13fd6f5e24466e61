//! Many requests at the same time.

use crate::kit::{Site, answer, client, fetch, lax};

/// A thousand requests by eight calls open as many connections as calls, and no more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn load_of_eight_calls_takes_eight_connections() {
    let site = Site::responding(|_| answer("200 OK", "", "hello")).await;
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
    // A connection that is just being returned may be missed by the next call.
    assert!(site.connections() <= 16, "{}", site.connections());
}
