//! The shared state of a cluster, in key-value buckets of JetStream.

use crate::connection::ClusterConnection;

/// The shared state of a cluster.
#[derive(Clone)]
pub struct NatsState {
    connection: ClusterConnection,
}

impl NatsState {
    /// Creates the shared state of this cluster.
    pub fn new(connection: ClusterConnection) -> Self {
        Self { connection }
    }

    /// Returns the connection.
    pub fn connection(&self) -> &ClusterConnection {
        &self.connection
    }
}
