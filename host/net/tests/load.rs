//! Many concurrent requests.

use crate::kit::{Site, allow_all, answer, client, fetch};

/// Eight calls that send a thousand requests open about as many connections as calls.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn load_of_eight_calls_takes_eight_connections() {
    let site = Site::respond_with(|_| answer("200 OK", "", "hello")).await;
    let client = client(allow_all());
    let calls = (0..8).map(|_| {
        let (client, url) = (client.clone(), site.url("/"));
        tokio::spawn(async move {
            for _ in 0..125 {
                assert_eq!(fetch(&client, &url).await.unwrap().body, "hello");
            }
        })
    });
    futures::future::try_join_all(calls).await.unwrap();
    assert_eq!(site.request_heads().len(), 1000);
    // The next call may miss a connection that is just being returned.
    assert!(site.connections() <= 16, "{}", site.connections());
}
