//! The harness itself: faults that do nothing would prove nothing.

use serde_json::json;

use super::*;

/// Waits until a server can be reached.
fn await_server(cluster: &ClusterDeployment, index: usize) {
    let deadline = Instant::now() + SETTLE_TIMEOUT;
    while let Err(error) = cluster.nats_server(index) {
        assert!(Instant::now() < deadline, "{error}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
#[ignore = "needs nats-server and network namespaces: .ci/cluster"]
fn harness_cut_off_machine_cannot_be_reached_and_comes_back() {
    let plan = ClusterPlan {
        fronts: 0,
        workers: 0,
        ..ClusterPlan::default()
    };
    let network = network(plan.servers);
    if network == ClusterNetwork::Loopback {
        return;
    }
    let mut cluster = ClusterDeployment::start(&plan, network).unwrap();
    let mut nats = cluster.nats_server(0).unwrap();
    let stream =
        json!({"name": "TEST", "subjects": ["test.>"], "storage": "file", "num_replicas": 3});
    nats.api("STREAM.CREATE.TEST", &stream).unwrap();
    nats.await_streams(SETTLE_TIMEOUT).unwrap();
    let mut publish = |text: &str| {
        // A server learns of a new stream from the others.
        let answer = (0..100)
            .find_map(|_| {
                let answer = nats.request("test.x", text.as_bytes());
                if answer.is_err() {
                    std::thread::sleep(std::time::Duration::from_millis(100));
                }
                answer.ok()
            })
            .unwrap();
        let text = String::from_utf8_lossy(&answer.payload).into_owned();
        assert!(text.contains("\"seq\""), "{text}");
    };
    publish("before");
    network.set_connected(3, false).unwrap();
    assert!(cluster.nats_server(2).is_err(), "machine 3 is not cut off");
    // Two of three go on, once they have noticed.
    publish("without machine 3");
    network.set_connected(3, true).unwrap();
    cluster.servers[1].kill();
    await_server(&cluster, 2);
    publish("without machine 2");
    cluster.start_all().unwrap();
    nats.await_streams(SETTLE_TIMEOUT).unwrap();
    let texts: Vec<_> = nats.stream_messages("TEST").unwrap();
    assert_eq!(texts.len(), 3, "{texts:?}");
    cluster.servers[0].pause();
    assert!(cluster.nats_server(0).is_err(), "server 1 is not paused");
    cluster.servers[0].resume();
    await_server(&cluster, 0);
}
