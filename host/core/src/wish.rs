//! What a server behind a tool wants of the client that made the call: that its person fills in a form, that its model
//! completes a text, or that it says which folders it works in.
//!
//! A backend asks by way of [`crate::call::Observer::client`], in the middle of a call that was approved, and puts
//! each wish on record first ([`crate::pipeline::Effects::wish`]).
//!
//! Never here: whether a server may wish for anything. Its settings say so, and its backend holds it to them.

use serde_json::Value;

use crate::backend::BoxFuture;
use crate::error::ToolError;

/// The kinds of wishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Want {
    /// That the person fills in a form.
    Form,
    /// That the client's model completes a text.
    Model,
    /// The folders that the client works in.
    Roots,
}

impl Want {
    /// What the protocol calls it, and the record.
    pub const fn method(self) -> &'static str {
        match self {
            Want::Form => "elicitation/create",
            Want::Model => "sampling/createMessage",
            Want::Roots => "roots/list",
        }
    }
}

/// One wish.
#[derive(Debug, Clone, PartialEq)]
pub struct Wish {
    /// What it is told from others of the same call by.
    pub name: String,
    /// What is wanted.
    pub want: Want,
    /// The parameters, in the protocol's words.
    pub params: Value,
}

/// The client that made a call, as far as it serves wishes.
pub trait Client: Send + Sync {
    /// Whether it has what this kind of wish needs.
    fn has(&self, want: Want) -> bool;
    /// Has the wishes of one moment answered, in their order and in the protocol's words.
    fn ask(&self, wishes: Vec<Wish>) -> BoxFuture<'_, Result<Vec<Value>, ToolError>>;
}
