//! Access to the page of the current tab: commands with errors for the model, and functions that run in a script world
//! of their own, where the page cannot replace the objects that they use.

use std::future::Future;
use std::time::Duration;

use mimir_core::{ToolError, ToolErrorCode};
use serde_json::{Value, json};

use crate::browser::{Browser, BrowserState};
use crate::cdp::CdpError;
use crate::secret_entry::check_selector_after_secret;
use crate::snapshot::{NodeKey, is_ref};
use crate::tab::{PageDialog, Tab};

/// The page of the current tab.
#[derive(Clone, Copy)]
pub(crate) struct Page<'a> {
    pub(crate) browser: &'a Browser,
}

/// The end of an action on a page.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Interrupted {
    /// The page opened a dialog, and waits for its answer.
    Dialog,
    /// The action failed.
    Failed(ToolError),
}

impl From<ToolError> for Interrupted {
    fn from(error: ToolError) -> Self {
        Self::Failed(error)
    }
}

/// Converts the failure of a command to an error for the model.
pub(crate) fn page_error(error: CdpError) -> ToolError {
    match error {
        CdpError::Closed => {
            ToolError::unavailable("the browser has ended: call browser_navigate to start it again")
        }
        CdpError::Timeout(_) => ToolError::new(
            ToolErrorCode::Timeout,
            "the page does not respond: a script of it may never end, or the page may be too large or too deeply \
             nested; leave it with browser_navigate, or close it with browser_close",
        ),
        CdpError::Refused { message, .. } => {
            ToolError::execution(mimir_core::text::visible(&message))
        }
    }
}

impl<'a> Page<'a> {
    /// Returns the page of the current tab. Fails if there is no tab, or if the page has crashed.
    pub(crate) fn current(browser: &'a Browser) -> Result<Self, ToolError> {
        let state = browser.state();
        match state.current() {
            None if !browser.is_alive() => Err(page_error(CdpError::Closed)),
            None => Err(ToolError::not_found(
                "no tab is open: open a page with browser_navigate",
            )),
            Some(tab) if tab.has_crashed => Err(ToolError::execution(
                "the page has crashed: load it again with browser_navigate, or close the tab",
            )),
            Some(_) => Ok(Self { browser }),
        }
    }

    /// Applies a function to the current tab.
    pub(crate) fn with_tab<T: Default>(&self, read: impl FnOnce(&mut Tab) -> T) -> T {
        let mut state = self.browser.state();
        state.current_mut().map(read).unwrap_or_default()
    }

    /// Returns the session of the main frame.
    pub(crate) fn session(&self) -> String {
        self.with_tab(|tab| tab.session.clone())
    }

    /// Returns the open dialog.
    pub(crate) fn dialog(&self) -> Option<PageDialog> {
        self.with_tab(|tab| tab.dialog.clone())
    }

    /// Returns true if the node belongs to the main frame of the tab.
    pub(crate) fn is_in_main_frame(&self, key: &NodeKey) -> bool {
        self.with_tab(|tab| tab.session == key.session && tab.main_frame == key.frame)
    }

    /// Sends a command to the main frame.
    pub(crate) async fn send(
        &self,
        method: &'static str,
        params: Value,
    ) -> Result<Value, ToolError> {
        self.send_to(&self.session(), method, params).await
    }

    /// Sends a command to a session of the tab.
    pub(crate) async fn send_to(
        &self,
        session: &str,
        method: &'static str,
        params: Value,
    ) -> Result<Value, ToolError> {
        let result = self.browser.cdp.send(session, method, params).await;
        result.map_err(page_error)
    }

    /// Waits for an action, or until the page opens a dialog, on which most actions then wait.
    pub(crate) async fn until_dialog<T>(
        &self,
        action: impl Future<Output = Result<T, ToolError>>,
    ) -> Result<T, Interrupted> {
        let has_dialog =
            |state: &BrowserState| state.current().is_some_and(|tab| tab.dialog.is_some());
        tokio::select! {
            biased;
            result = action => Ok(result?),
            true = self.browser.wait_until(Duration::MAX, has_dialog) => Err(Interrupted::Dialog),
        }
    }

    /// Returns the id of the script world of a frame.
    async fn world(&self, session: &str, frame: &str) -> Result<u64, ToolError> {
        let key = (session.to_owned(), frame.to_owned());
        if let Some(world) = self.with_tab(|tab| tab.worlds.get(&key).copied()) {
            return Ok(world);
        }
        let params = json!({"frameId": frame, "worldName": "mimir"});
        let created = self
            .send_to(session, "Page.createIsolatedWorld", params)
            .await?;
        let world = created["executionContextId"].as_u64().unwrap_or_default();
        self.with_tab(|tab| tab.worlds.insert(key, world));
        Ok(world)
    }

    /// Returns the object of a node in the script world of its frame.
    async fn object(&self, key: &NodeKey) -> Result<String, ToolError> {
        let world = self.world(&key.session, &key.frame).await?;
        let params = json!({"backendNodeId": key.node, "executionContextId": world});
        let resolved = self.send_to(&key.session, "DOM.resolveNode", params).await;
        let resolved = resolved.map_err(|error| match error.code {
            ToolErrorCode::ExecutionError => gone(),
            _ => error,
        })?;
        Ok(resolved["object"]["objectId"]
            .as_str()
            .unwrap_or_default()
            .to_owned())
    }

    /// Calls a function of JavaScript with a node as `this`, in the script world of its frame, and returns its result.
    pub(crate) async fn call(
        &self,
        key: &NodeKey,
        function: &str,
        arguments: &[Value],
    ) -> Result<Value, ToolError> {
        let object = self.object(key).await?;
        let arguments: Vec<Value> = arguments
            .iter()
            .map(|value| json!({"value": value}))
            .collect();
        let params = json!({
            "objectId": object, "functionDeclaration": function, "arguments": arguments,
            "returnByValue": true, "awaitPromise": true, "userGesture": true
        });
        let result = self
            .send_to(&key.session, "Runtime.callFunctionOn", params)
            .await?;
        script_result(&result)
    }

    /// Evaluates an expression in the script world of the main frame.
    pub(crate) async fn evaluate(&self, expression: &str) -> Result<Value, ToolError> {
        let (session, frame) = self.with_tab(|tab| (tab.session.clone(), tab.main_frame.clone()));
        let world = self.world(&session, &frame).await?;
        let params = json!({
            "expression": expression, "contextId": world, "returnByValue": true, "awaitPromise": true
        });
        let result = self.send_to(&session, "Runtime.evaluate", params).await?;
        script_result(&result)
    }

    /// Finds the element that a call names: by a ref of the last snapshot, or by a selector, which must match exactly
    /// one.
    pub(crate) async fn find(&self, target: &str) -> Result<NodeKey, ToolError> {
        if is_ref(target) {
            let known = self.with_tab(|tab| tab.refs.node(target).cloned());
            return known.ok_or_else(|| {
                ToolError::not_found(format!(
                    "Ref {target} not found in the current page snapshot. Try capturing new snapshot."
                ))
            });
        }
        if self.browser.gate.has_entered_secret() {
            check_selector_after_secret(target)?;
        }
        let (session, frame) = self.with_tab(|tab| (tab.session.clone(), tab.main_frame.clone()));
        let world = self.world(&session, &frame).await?;
        let query = format!("({FIND_BY_SELECTOR})({})", Value::from(target));
        let params = json!({"expression": query, "contextId": world});
        let result = self.send_to(&session, "Runtime.evaluate", params).await?;
        if let Some(exception) = exception_text(&result) {
            return Err(ToolError::invalid_input(format!(
                "`{}` is not a valid selector: {exception}",
                mimir_core::text::visible(target)
            )));
        }
        let shown = mimir_core::text::visible(target);
        let Some(object) = result["result"]["objectId"].as_str() else {
            let count = result["result"]["value"].as_u64().unwrap_or_default();
            return Err(if count == 0 {
                ToolError::not_found(format!("\"{shown}\" does not match any elements."))
            } else {
                ToolError::invalid_input(format!(
                    "\"{shown}\" matches {count} elements: use a ref of the snapshot, or a selector that matches one"
                ))
            });
        };
        let params = json!({"objectId": object});
        let node = self.send_to(&session, "DOM.describeNode", params).await?;
        Ok(NodeKey {
            session,
            frame,
            node: node["node"]["backendNodeId"].as_i64().unwrap_or_default(),
        })
    }
}

/// Returns the only element that a selector matches, or the number of matches. `text=` finds the innermost elements that
/// contain the text.
const FIND_BY_SELECTOR: &str = include_str!("scripts/find_by_selector.js");

fn gone() -> ToolError {
    ToolError::not_found(
        "the element was removed from the page: take a new snapshot with browser_snapshot",
    )
}

/// Returns the text of an exception of a script.
pub(crate) fn exception_text(result: &Value) -> Option<String> {
    let details = &result["exceptionDetails"];
    if details.is_null() {
        return None;
    }
    let description = details["exception"]["description"].as_str();
    let text = description.or(details["exception"]["value"].as_str());
    let text = text.or(details["text"].as_str()).unwrap_or("exception");
    let first_line = text.lines().next().unwrap_or_default();
    Some(mimir_core::text::visible(mimir_core::text::prefix(
        first_line, 500,
    )))
}

fn script_result(result: &Value) -> Result<Value, ToolError> {
    match exception_text(result) {
        Some(exception) => Err(ToolError::execution(exception)),
        None => Ok(result["result"]["value"].clone()),
    }
}
