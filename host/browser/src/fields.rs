//! Fields of forms: text, selection and check boxes.

use mimir_core::ToolError;
use mimir_core::network::RequestTarget;
use serde_json::{Value, json};

use crate::page::{Interrupted, Page};
use crate::pointer::ClickKind;
use crate::snapshot::NodeKey;

/// Selects the content of a field, so that text replaces it. Returns what kind of field it is: `text`, `set` for fields
/// whose value is set at once, or a reason why it takes no text.
const SELECT_CONTENT: &str = include_str!("scripts/select_content.js");

/// Sets the value of a field that has a form of its own. Returns a reason if it does not take the value.
const SET_VALUE: &str = include_str!("scripts/set_value.js");

/// Sets the text of a field by its own setter. Returns a reason if it takes no text.
const SET_TEXT: &str = include_str!("scripts/set_text.js");

/// Selects options by value or text. Returns the options if one is missing.
const SELECT_OPTIONS: &str = include_str!("scripts/select_options.js");

/// Returns the state of a check box or radio button, or null.
const CHECKED: &str = include_str!("scripts/checked.js");

/// Returns the URL of the page that contains an element.
const PAGE_URL: &str = "function() { return this.ownerDocument.location.href }";

impl Page<'_> {
    /// Replaces the content of a field by text.
    pub(crate) async fn fill(&self, key: &NodeKey, text: &str) -> Result<(), Interrupted> {
        let params = json!({"backendNodeId": key.node});
        // A field that cannot be scrolled to, such as one in a closed part of the page, can be filled nevertheless.
        let _ = self
            .send_to(&key.session, "DOM.scrollIntoViewIfNeeded", params)
            .await;
        let kind = self
            .until_dialog(self.call(key, SELECT_CONTENT, &[]))
            .await?;
        match kind.as_str().unwrap_or_default() {
            "text" if text.is_empty() => self.until_dialog(self.press("Delete")).await,
            // The session of the field, in whose process it has the focus.
            "text" => {
                let insertion =
                    self.send_to(&key.session, "Input.insertText", json!({"text": text}));
                self.until_dialog(insertion).await.map(drop)
            }
            "set" => {
                let problem = self
                    .until_dialog(self.call(key, SET_VALUE, &[text.into()]))
                    .await?;
                match problem.as_str().unwrap_or_default() {
                    "" => Ok(()),
                    problem => Err(field_error(problem).into()),
                }
            }
            problem => Err(field_error(problem).into()),
        }
    }

    /// Sets the text of a field without the focus, which the page could move. The field gets the focus afterwards.
    pub(crate) async fn set_text(&self, key: &NodeKey, text: &str) -> Result<(), Interrupted> {
        let arguments = [text.into()];
        let setting = self.call(key, SET_TEXT, &arguments);
        let problem = self.until_dialog(setting).await?;
        match problem.as_str().unwrap_or_default() {
            "" => Ok(()),
            problem => Err(field_error(problem).into()),
        }
    }

    /// Types text into a field character by character, so that the page sees each key. The content stays.
    pub(crate) async fn type_slowly(&self, key: &NodeKey, text: &str) -> Result<(), Interrupted> {
        let kind = self
            .until_dialog(self.call(key, SELECT_CONTENT, &[]))
            .await?;
        if kind != "text" {
            return Err(field_error(kind.as_str().unwrap_or_default()).into());
        }
        for character in text.chars() {
            let pressing = async {
                match character {
                    '\n' => self.press("Enter").await,
                    character => self.press(&character.to_string()).await,
                }
            };
            self.until_dialog(pressing).await?;
        }
        Ok(())
    }

    /// Selects options of a list, by value or text. Returns the texts of the selected options.
    pub(crate) async fn select(
        &self,
        key: &NodeKey,
        values: &[String],
    ) -> Result<Vec<String>, Interrupted> {
        let result = self
            .until_dialog(self.call(key, SELECT_OPTIONS, &[json!(values)]))
            .await?;
        let texts = |list: &Value| -> Vec<String> {
            let list = list.as_array().into_iter().flatten();
            list.filter_map(|text| Some(text.as_str()?.to_owned()))
                .collect()
        };
        match result["problem"].as_str() {
            None => Ok(texts(&result["selected"])),
            Some(problem) => {
                let options = texts(&result["options"]);
                let known = if options.is_empty() {
                    String::new()
                } else {
                    format!("; it has: {}", options.join(", "))
                };
                Err(field_error(&format!("{problem}{known}")).into())
            }
        }
    }

    /// Checks or clears a check box or a radio button, by a click if its state differs.
    pub(crate) async fn set_checked(
        &self,
        key: &NodeKey,
        checked: bool,
    ) -> Result<(), Interrupted> {
        let state = self.call(key, CHECKED, &[]).await?;
        let Some(state) = state.as_bool() else {
            return Err(field_error("is not a check box or radio button").into());
        };
        if state == checked {
            return Ok(());
        }
        let point = self.ready_point(key).await?;
        self.click_at(point, ClickKind::LEFT).await?;
        let after = self.call(key, CHECKED, &[]).await?;
        if after.as_bool() == Some(!checked) {
            return Err(field_error("did not change when it was clicked").into());
        }
        Ok(())
    }

    /// Returns the address of the page that contains an element.
    pub(crate) async fn page_of(&self, key: &NodeKey) -> Result<RequestTarget, ToolError> {
        let url = self.call(key, PAGE_URL, &[]).await?;
        RequestTarget::parse(url.as_str().unwrap_or_default())
            .map_err(|error| ToolError::invalid_input(error.to_string()))
    }
}

fn field_error(problem: &str) -> ToolError {
    ToolError::invalid_input(format!(
        "the element {}",
        mimir_core::text::visible(problem)
    ))
}
