//! The answer that a browser brings back, before anything is done with it; RFC 6749 section 4.1.2, RFC 9207.
//!
//! Never here: how it is received.

use std::collections::HashMap;

use mimir_core::ToolError;
use mimir_core::text::{prefix, visible};

use super::{refused, words};

/// What an answer is held to.
pub(super) struct Expected {
    pub(super) state: String,
    /// The authorization server, and whether it says in each answer that it is it.
    pub(super) issuer: String,
    pub(super) names_itself: bool,
}

/// Why an answer is not taken.
#[derive(Debug)]
pub enum Unfit {
    /// It is none to this login: whoever sent it, the one to come may be.
    Stray,
    /// It is the answer, and not one that can be used: the login is over.
    Refused(ToolError),
}

/// Bytes of an answer that are read.
const ANSWER_MOST: usize = 16 << 10;

impl Expected {
    /// The code of an answer: an address, or what of it comes behind the host.
    pub(super) fn code(&self, answer: &str) -> Result<String, Unfit> {
        let answer = answer.trim();
        if answer.len() > ANSWER_MOST {
            return Err(Unfit::Stray);
        }
        let query = answer.split_once('?').map_or("", |(_, query)| query);
        let query = query.split('#').next().unwrap_or_default();
        let mut fields: HashMap<String, String> = HashMap::new();
        for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
            // What is said twice is understood in two ways.
            if fields
                .insert(name.into_owned(), value.into_owned())
                .is_some()
            {
                return Err(Unfit::Stray);
            }
        }
        if fields.get("state") != Some(&self.state) {
            return Err(Unfit::Stray);
        }
        match fields.get("iss") {
            Some(issuer) if *issuer == self.issuer => {}
            // Whatever else it says is a stranger's.
            Some(other) => {
                return Err(Unfit::Refused(refused(format!(
                    "the answer comes from {}, and the login is at {}: its code is sent to neither",
                    visible(prefix(other, 200)),
                    visible(prefix(&self.issuer, 200))
                ))));
            }
            None if self.names_itself => {
                return Err(Unfit::Refused(refused(
                    "the answer does not say which authorization server it comes from, which this one says it always does",
                )));
            }
            None => {}
        }
        if let Some(error) = fields.get("error") {
            let more = fields.get("error_description").map_or("", String::as_str);
            let said = match more {
                "" => words(error, &[]),
                more => words(&format!("{error}: {more}"), &[]),
            };
            return Err(Unfit::Refused(refused(format!(
                "the authorization server says no: {said}"
            ))));
        }
        let code = fields.remove("code").filter(|code| !code.is_empty());
        code.ok_or_else(|| Unfit::Refused(refused("the answer has no code")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(answer: &str, names_itself: bool) -> Result<String, Unfit> {
        let expected = Expected {
            state: "right".into(),
            issuer: "https://as.example".into(),
            names_itself,
        };
        expected.code(answer)
    }

    #[test]
    fn an_answer_is_to_this_login_and_from_its_authorization_server() {
        let iss = "iss=https%3A%2F%2Fas.example";
        for good in [
            &format!("http://127.0.0.1:1/callback?code=c%2B1&state=right&{iss}"),
            &format!("/callback?{iss}&state=right&code=c%2B1#x"),
            " /callback?code=c%2B1&state=right ",
        ] {
            assert_eq!(code(good, false).unwrap(), "c+1", "{good}");
        }
        for stray in [
            "",
            "/callback",
            "/callback?code=c",
            "/callback?code=c&state=wrong",
            "/callback?code=c&state=right&state=right",
            "/callback?code=c&code=d&state=right",
            "/callback?state=wrong&error=access_denied",
            &format!("/callback?code=c&state=right&x={}", "x".repeat(20_000)),
        ] {
            assert!(matches!(code(stray, false), Err(Unfit::Stray)), "{stray}");
        }
    }

    #[test]
    fn nothing_of_a_stranger_is_told() {
        let refused = |answer: &str, names_itself| match code(answer, names_itself) {
            Err(Unfit::Refused(error)) => error.message,
            other => panic!("{answer}: {other:?}"),
        };
        for other in [
            "https%3A%2F%2Fevil.example",
            "https%3A%2F%2Fas.example%2F",
            "https%3A%2F%2FAS.example",
            "https%3A%2F%2Fas.example%3A443",
            "",
        ] {
            let answer =
                format!("/callback?error=SECRETS&error_description=CALL&state=right&iss={other}");
            let message = refused(&answer, false);
            assert!(
                !message.contains("SECRETS") && !message.contains("CALL"),
                "{message}"
            );
        }
        assert!(refused("/callback?code=c&state=right", true).contains("does not say which"));
        let said = refused(
            "/callback?error=access_denied&error_description=not%20%1b[2J&state=right",
            false,
        );
        assert!(
            said.contains("access_denied: not") && !said.contains('\u{1b}'),
            "{said}"
        );
        assert!(refused("/callback?state=right", false).contains("no code"));
    }
}
