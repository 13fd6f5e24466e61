//! Conditions for entering a secret into a page, and rules that keep it from being read afterwards.
//!
//! A secret is masked wherever it appears in a result. So a model could learn it only in another form: from JavaScript
//! of its own, which is why no secret is entered while such code may be active; or from patterns that are matched
//! against the page, which is why they are matched against masked text, or refused.

use std::sync::LazyLock;

use mimir_core::ToolError;
use regex::Regex;

use crate::browser::Browser;
use crate::page::Page;
use crate::tools::PageAction;

/// The URL of the page that the browser shows in place of one that could not be loaded.
const ERROR_PAGE: &str = "chrome-error:";

/// Keys that change no text, so that they are harmless after a secret was entered.
const HARMLESS_KEYS: [&str; 6] = ["Enter", "Tab", "Shift+Tab", "Escape", "PageDown", "PageUp"];

/// Returns true if the URL is that of an error page of the browser.
pub(crate) fn is_error_page(url: &str) -> bool {
    url.starts_with(ERROR_PAGE)
}

/// Creates the error for input to an error page. A warning about a certificate could be dismissed by it.
pub(crate) fn error_page_refusal() -> ToolError {
    ToolError::execution(
        "the page could not be loaded, and the error page of the browser takes no input: open another page with browser_navigate",
    )
}

/// Fails if the action would reach an error page of the browser.
pub(crate) fn check_input(browser: &Browser, action: &PageAction) -> Result<(), ToolError> {
    let is_input = matches!(
        action,
        PageAction::Click(_)
            | PageAction::Hover(_)
            | PageAction::Drag(_)
            | PageAction::Type(_)
            | PageAction::FillForm(_)
            | PageAction::SelectOption(_)
            | PageAction::PressKey(_)
            | PageAction::FileUpload(_)
            | PageAction::Evaluate(_)
    );
    let state = browser.state();
    if is_input && state.current().is_some_and(|tab| tab.is_error_page) {
        return Err(error_page_refusal());
    }
    Ok(())
}

/// Fails if a secret must not be entered into the page: the page could not be loaded securely, or JavaScript of a model
/// may be active in it.
pub(crate) fn check_secret_entry(page: &Page<'_>) -> Result<(), ToolError> {
    let state = page.browser.state();
    let Some(tab) = state.current() else {
        return Err(error_page_refusal());
    };
    if tab.is_error_page {
        return Err(error_page_refusal());
    }
    let is_secure = tab
        .document_security
        .as_ref()
        .is_some_and(|(loader, security)| *loader == tab.loader && security == "secure");
    if tab.url.starts_with("https:") && !is_secure {
        let message = "a secret is not entered into this page: its certificate was not verified; \
                       load the page again with browser_navigate";
        return Err(ToolError::policy_denied(message));
    }
    let was_restored = tab.was_restored && state.has_run_model_script;
    if state.has_model_script || was_restored {
        let remedy = if state.tabs.len() > 1 {
            "close the other tabs, and then load the page again with browser_navigate"
        } else {
            "load the page again with browser_navigate"
        };
        return Err(ToolError::policy_denied(format!(
            "a secret is not entered into this page: code of browser_evaluate, which could read it, may be active: {remedy}"
        )));
    }
    Ok(())
}

/// Returns true if the action could change a text on the page in part, so that a secret in it is no longer masked.
pub(crate) fn could_split_secret(action: &PageAction) -> bool {
    match action {
        PageAction::PressKey(args) => !HARMLESS_KEYS
            .iter()
            .any(|key| key.eq_ignore_ascii_case(&args.key)),
        PageAction::Click(args) => args.double_click == Some(true),
        PageAction::Drag(_) => true,
        _ => false,
    }
}

/// Fails if a selector compares text or attributes of the page, whose results would reveal parts of a secret.
pub(crate) fn check_selector_after_secret(selector: &str) -> Result<(), ToolError> {
    static HARMLESS: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r#"\[(?:name|type|role|for)(?:=["']?[\w-]+["']?)?\]"#).ok());
    let rest = match &*HARMLESS {
        Some(harmless) => harmless.replace_all(selector, ""),
        None => selector.into(),
    };
    if rest.contains('[') || rest.trim_start().starts_with("text=") {
        return Err(ToolError::policy_denied(
            "a secret was entered into a page of this browser, so selectors by text and by most attributes are not \
             supported until it is closed: use a ref of browser_snapshot",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool_arguments::PressArgs;

    #[test]
    fn selectors_that_compare_text_are_refused_after_a_secret() {
        for selector in [
            "text=pw=Tr0",
            " text=x",
            "input[value^='T']",
            "[ value ^= T]",
            "a[href*=T]",
            "form:has([value$=x])",
            "[name^=x]",
        ] {
            assert!(check_selector_after_secret(selector).is_err(), "{selector}");
        }
        for selector in [
            "#pw",
            "form > button.primary:nth-child(2)",
            "input[name=pw]",
            "input[type=\"password\"]",
        ] {
            assert!(check_selector_after_secret(selector).is_ok(), "{selector}");
        }
    }

    #[test]
    fn keys_that_edit_text_could_split_a_secret() {
        let press = |key: &str| {
            could_split_secret(&PageAction::PressKey(PressArgs {
                key: key.to_owned(),
            }))
        };
        for key in ["a", "Backspace", "Control+c", "ArrowLeft", "Shift+Enter"] {
            assert!(press(key), "{key}");
        }
        for key in ["Enter", "Tab", "escape"] {
            assert!(!press(key), "{key}");
        }
    }
}
