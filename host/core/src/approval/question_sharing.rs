//! The port to other processes in which a person may answer a question.

use crate::backend::BoxFuture;

use super::{ApprovalAnswer, Approver, Card};

/// Asks questions in other processes, too. The first answer counts.
pub trait QuestionSharing: Send + Sync {
    /// Shows the card to `approver` and in other processes, and returns the first answer. Dropping the future withdraws
    /// the question.
    fn ask<'a>(
        &'a self,
        approver: &'a dyn Approver,
        session: &'a str,
        card: &'a Card,
    ) -> BoxFuture<'a, ApprovalAnswer>;
}
