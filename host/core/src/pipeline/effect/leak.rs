//! Known secrets in what a tool sends: they go out where a placeholder stands for them, and nowhere else.

use percent_encoding::percent_decode_str;
use serde_json::json;

use crate::error::{Code, ToolError};
use crate::redact::Lookout;

use super::{Effects, Egress, Inner};

/// What a tool sends as a body, looked at as it goes by.
pub struct Upload(Lookout);

impl Upload {
    /// Refuses a piece that holds a known secret, or the end of one.
    pub fn look(&mut self, piece: &[u8]) -> Result<(), ToolError> {
        match self.0.sees(piece) {
            Some(name) => Err(refusal("its body", &name)),
            None => Ok(()),
        }
    }
}

impl Effects {
    /// Looks at the body of a request; nothing if there are no secrets to look for.
    pub fn upload(&self) -> Option<Upload> {
        self.0.redactor.lookout().map(Upload)
    }
}

impl Inner {
    /// Refuses a question to the model that holds a known secret.
    pub(super) fn holds_no_secret(&self, prompt: &str) -> Result<(), ToolError> {
        let found = self
            .redactor
            .lookout()
            .and_then(|mut lookout| lookout.apart(prompt.as_bytes()));
        match found {
            Some(name) => Err(refusal("its text", &name)),
            None => Ok(()),
        }
    }

    /// Refuses a request that holds a known secret in its URL or its headers.
    pub(super) fn holds_secret(&self, egress: Egress<'_>) -> Result<(), ToolError> {
        let Some(mut lookout) = self.redactor.lookout() else {
            return Ok(());
        };
        let url = egress.target.to_string();
        // Which characters of a URL are encoded is up to its writer.
        let decoded: Vec<u8> = percent_decode_str(&url).collect();
        let spaced = decoded.iter().map(|byte| match byte {
            b'+' => b' ',
            byte => *byte,
        });
        let spaced: Vec<u8> = spaced.collect();
        for text in [url.as_bytes(), &decoded, &spaced] {
            if let Some(name) = lookout.apart(text) {
                return Err(refusal("its URL", &name));
            }
        }
        for text in egress.headers {
            if let Some(name) = lookout.apart(text) {
                return Err(refusal("a header", &name));
            }
        }
        Ok(())
    }
}

fn refusal(part: &str, name: &str) -> ToolError {
    let name = crate::text::visible(name);
    let message =
        format!("the request was not sent: {part} holds the value of the secret `{name}`");
    let way = format!(
        "declare `{name}` among the secrets of the tool, with the header and the host it is for, and send its \
         placeholder there"
    );
    ToolError::new(Code::PolicyDenied, message)
        .with_details(json!({ "kind": "secret-in-request", "secret": name }))
        .with_way_out([way])
}
