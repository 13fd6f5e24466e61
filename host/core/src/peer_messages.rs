//! The port to messages between the servers of clients of a deployment. A server forwards requests of clients that
//! another server has to answer, since that one holds the state of the call or of the session.

use std::sync::Arc;

use crate::backend::BoxFuture;

/// Error of a message to another server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PeerError {
    /// No server with this id is connected. The message was not delivered, and has had no effect.
    #[error("the server {0} has ended")]
    Gone(String),
    /// The server does not answer, or the connection was lost. The message may have had an effect.
    #[error("the server {node} does not answer: {text}")]
    NoAnswer {
        /// Id of the server.
        node: String,
        /// The cause.
        text: String,
    },
    /// The message cannot be sent. It has had no effect.
    #[error("the message cannot be sent to the server {node}: {text}")]
    NotSent {
        /// Id of the server.
        node: String,
        /// The cause.
        text: String,
    },
}

/// The reply to a message, which arrives in parts. Dropping it tells the other server that nothing waits for the rest.
pub trait PeerReply: Send {
    /// Returns the next part, or `None` at the end of the reply.
    fn next(&mut self) -> BoxFuture<'_, Option<Result<Vec<u8>, PeerError>>>;
}

/// Answers the messages of other servers.
pub trait PeerMessageHandler: Send + Sync {
    /// Handles a message. Dropping the future or the reply cancels the handling.
    fn handle(&self, message: Vec<u8>) -> BoxFuture<'static, Box<dyn PeerReply>>;
}

/// Messages between the servers of clients of a deployment. Only such servers can send and receive them.
pub trait PeerMessages: Send + Sync {
    /// Returns the id of this server. It changes if the deployment has given up the server while it was paused.
    fn node(&self) -> String;

    /// Returns true if this is or was the id of this server.
    fn is_own(&self, node: &str) -> bool;

    /// Returns the ids of the other servers that are alive, sorted.
    fn peers(&self) -> Vec<String>;

    /// Sends a message to another server. Returns when the server has received it.
    fn send<'a>(
        &'a self,
        node: &'a str,
        message: Vec<u8>,
    ) -> BoxFuture<'a, Result<Box<dyn PeerReply>, PeerError>>;

    /// Sets the handler of messages from other servers. Until then, they are not received.
    fn receive(&self, handler: Arc<dyn PeerMessageHandler>);
}
