//! The budgets of sessions that several processes share.

use std::sync::Arc;
use std::time::Duration;

use mimir_agent::{BudgetReservation, SessionBudget, TokenUsage};
use mimir_cluster::{ClusterConnection, ConnectionOptions, NatsState};
use mimir_core::ToolErrorCode;
use mimir_core::config::{AgentBudget, TokenPrice};
use mimir_kit::NatsServer;

/// Returns the budgets of a process with a connection of its own.
async fn process(server: &NatsServer) -> SessionBudget {
    let options = ConnectionOptions {
        servers: server.url(),
        ..ConnectionOptions::default()
    };
    let connection = ClusterConnection::connect(options).await.unwrap();
    let session_budget = SessionBudget::default();
    session_budget.share(Arc::new(NatsState::new(connection)));
    session_budget
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server"]
async fn shared_budget_of_a_session_holds_for_all_processes_with_nats() {
    let server = NatsServer::start();
    let processes = [process(&server).await, process(&server).await];
    let all = AgentBudget {
        cost: Some(1.0),
        turns: 100,
        tokens: 10_000_000,
        answer_tokens: 10_000,
        ..AgentBudget::default()
    };
    // Each question costs 0.1 for its input and reserves 0.1 for its answer.
    let price = Some(TokenPrice::new(1.0, 10.0));
    let ask = |process: usize, session: &'static str| {
        processes[process].reserve_question(session, all, price, 100_000, 10_000)
    };
    let asking = (0..40).map(|number| async move { ask(number % 2, "a").await.ok() });
    let taken = futures::future::join_all(asking).await;
    let taken: Vec<BudgetReservation> = taken.into_iter().flatten().collect();
    let reserved: f64 = taken.iter().filter_map(|taken| taken.budget.cost).sum();
    assert!((0.9..=1.000_001).contains(&reserved), "{reserved}");
    let error = ask(1, "a").await.err().unwrap();
    assert_eq!(error.code, ToolErrorCode::LimitExceeded);
    assert!(ask(1, "b").await.is_ok(), "another session is limited");
    for mut reservation in taken {
        reservation.record_usage(TokenUsage::new(100_000, 0), price, Duration::ZERO);
        reservation.finish().await;
    }
    // At least five questions have cost 0.1 each.
    let mut rest = Vec::new();
    while let Ok(reservation) = ask(rest.len() % 2, "a").await {
        rest.push(reservation);
    }
    let reserved: f64 = rest.iter().filter_map(|rest| rest.budget.cost).sum();
    assert!((0.3..=0.500_001).contains(&reserved), "{reserved}");
    drop(server);
    let error = ask(0, "a").await.err().unwrap();
    assert_eq!(error.code, ToolErrorCode::Unavailable);
}
