//! Actions that read the page: snapshots, searches, waiting, JavaScript and pictures.

use std::time::Duration;

use mimir_core::{Content, ToolError};
use regex::{Regex, RegexBuilder};
use serde_json::{Value, json};

use super::{TEXT_MAX, cut};
use crate::browser::file_name;
use crate::capture::find_lines;
use crate::page::{Page, exception_text};
use crate::report::{ActionReport, yaml_block};
use crate::session::ActionContext;
use crate::snapshot::OutlineOptions;
use crate::tool_arguments::{
    EvaluateArgs, FindArgs, PdfArgs, ScreenshotArgs, SnapshotArgs, WaitArgs,
};

/// Maximum time of `browser_wait_for`.
const WAIT_MAX: f64 = 30.0;

pub(super) async fn snapshot(
    page: &Page<'_>,
    args: SnapshotArgs,
) -> Result<ActionReport, ToolError> {
    let options = OutlineOptions {
        depth: args.depth.map(|depth| depth as usize),
        boxes: args.boxes.unwrap_or_default(),
    };
    let below = match &args.target {
        Some(target) => Some(page.find(target).await?),
        None => None,
    };
    let lines = page.snapshot(below.as_ref(), options).await?;
    Ok(ActionReport::with_snapshot(lines))
}

pub(super) async fn find(
    page: &Page<'_>,
    args: &FindArgs,
    context: &ActionContext<'_>,
) -> Result<ActionReport, ToolError> {
    let (pattern, shown) = match (&args.text, &args.regex) {
        (Some(text), None) => {
            let pattern = RegexBuilder::new(&regex::escape(text))
                .case_insensitive(true)
                .build();
            (
                pattern.map_err(|error| ToolError::invalid_input(error.to_string()))?,
                text,
            )
        }
        (None, Some(pattern)) => (parse_regex(pattern)?, pattern),
        _ => return Err(ToolError::invalid_input("give either `text` or `regex`")),
    };
    let lines = page.snapshot(None, OutlineOptions::default()).await?;
    // The pattern is the model's: what matches must not tell more than the result shows.
    let masked = context.masked(lines.join("\n"));
    let lines: Vec<String> = masked.lines().map(str::to_owned).collect();
    let (count, found) = find_lines(&lines, |line| pattern.is_match(line));
    let shown = mimir_core::text::visible(shown);
    Ok(ActionReport::with_result(match count {
        0 => format!("No matches for \"{shown}\"."),
        _ => format!(
            "Found {count} matches for \"{shown}\":\n{}",
            yaml_block(&found, TEXT_MAX / 2)
        ),
    }))
}

/// Reads a regular expression, or one between slashes with flags.
pub(super) fn parse_regex(pattern: &str) -> Result<Regex, ToolError> {
    let (source, flags) = match pattern
        .strip_prefix('/')
        .and_then(|rest| rest.rsplit_once('/'))
    {
        Some((source, flags)) => (source, flags),
        None => (pattern, ""),
    };
    let built = RegexBuilder::new(source)
        .case_insensitive(flags.contains('i'))
        .multi_line(flags.contains('m'))
        .size_limit(1 << 20)
        .build();
    built.map_err(|error| {
        let error = mimir_core::text::visible(&error.to_string());
        ToolError::invalid_input(format!("the regular expression is not valid: {error}"))
    })
}

pub(super) async fn wait_for(
    page: &Page<'_>,
    args: &WaitArgs,
    context: &ActionContext<'_>,
) -> Result<ActionReport, ToolError> {
    if args.time.is_none() && args.text.is_none() && args.text_gone.is_none() {
        return Err(ToolError::invalid_input(
            "give `time`, `text` or `textGone`",
        ));
    }
    let limit = args.time.unwrap_or(WAIT_MAX).clamp(0.0, WAIT_MAX);
    let limit = Duration::from_secs_f64(limit);
    if args.text.is_none() && args.text_gone.is_none() {
        tokio::time::sleep(limit).await;
        return Ok(ActionReport::after_action().result("Waited"));
    }
    let deadline = tokio::time::Instant::now() + limit;
    for (text, is_wanted) in [(&args.text_gone, false), (&args.text, true)] {
        let Some(text) = text else { continue };
        let wanted = normalized(text);
        while masked_text(page, context).await?.contains(&wanted) != is_wanted {
            if tokio::time::Instant::now() >= deadline {
                let state = if is_wanted {
                    "did not appear"
                } else {
                    "did not disappear"
                };
                return Err(ToolError::new(
                    mimir_core::ToolErrorCode::Timeout,
                    format!(
                        "the text \"{}\" {state} within {} s",
                        mimir_core::text::visible(text),
                        limit.as_secs()
                    ),
                ));
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    let shown = args.text.as_ref().or(args.text_gone.as_ref());
    let shown = shown
        .map(|text| mimir_core::text::visible(text))
        .unwrap_or_default();
    Ok(ActionReport::after_action().result(format!("Waited for {shown}")))
}

/// Returns the visible text of the page and of the frames that it may read.
const VISIBLE_TEXT: &str = include_str!("../scripts/visible_text.js");

/// Maximum length of the visible text in UTF-16 code units, as in the script, and the length of its end that is left
/// out if it was cut: it could be a part of a secret, which is not masked.
const VISIBLE_TEXT_MAX: usize = 1_000_000;
const CUT_END: usize = 4096;

/// Returns the visible text of the page, masked and normalized: the text to search for is the model's.
async fn masked_text(page: &Page<'_>, context: &ActionContext<'_>) -> Result<String, ToolError> {
    let text = page.evaluate(&format!("({VISIBLE_TEXT})()")).await?;
    let text = text.as_str().unwrap_or_default();
    let is_cut = text.encode_utf16().count() >= VISIBLE_TEXT_MAX;
    let mut text = context.masked(text.to_owned());
    if is_cut {
        let kept = text.chars().count().saturating_sub(CUT_END);
        text = mimir_core::text::prefix(&text, kept).to_owned();
    }
    Ok(normalized(&text))
}

/// Returns a text in lower case and with single spaces.
fn normalized(text: &str) -> String {
    let mut normalized = String::with_capacity(text.len());
    let mut was_space = false;
    for character in text.chars() {
        let is_space = character.is_whitespace();
        if is_space && !was_space {
            normalized.push(' ');
        } else if !is_space {
            normalized.extend(character.to_lowercase());
        }
        was_space = is_space;
    }
    normalized
}

pub(super) async fn evaluate(
    page: &Page<'_>,
    args: &EvaluateArgs,
) -> Result<ActionReport, ToolError> {
    page.browser.state().record_model_script();
    let function = args.function.trim();
    let result = match &args.target {
        // In the world of the page, since the code may use its variables.
        None => {
            let is_function = function.starts_with('(')
                || function.starts_with("async")
                || function.starts_with("function")
                || function.contains("=>");
            let expression = if is_function {
                format!("({function})()")
            } else {
                function.to_owned()
            };
            let params = json!({
                "expression": expression, "returnByValue": true, "awaitPromise": true, "userGesture": true
            });
            page.browser
                .act(page.until_dialog(page.send("Runtime.evaluate", params)))
                .await?
        }
        Some(target) => {
            let key = page.find(target).await?;
            let node = json!({"backendNodeId": key.node});
            let resolved = page.send_to(&key.session, "DOM.resolveNode", node).await?;
            let object = &resolved["object"]["objectId"];
            let params = json!({
                "objectId": object, "functionDeclaration": format!("function(element) {{ return ({function})(element) }}"),
                "arguments": [{"objectId": object}], "returnByValue": true, "awaitPromise": true
            });
            let calling = page.send_to(&key.session, "Runtime.callFunctionOn", params);
            page.browser.act(page.until_dialog(calling)).await?
        }
    };
    // A dialog interrupted it.
    let Some(result) = result else {
        return Ok(ActionReport::after_action());
    };
    if let Some(exception) = exception_text(&result) {
        return Err(ToolError::execution(exception));
    }
    let value = &result["result"];
    let text = match &value["value"] {
        Value::Null => value["description"].as_str().unwrap_or("null").to_owned(),
        value => serde_json::to_string_pretty(value).unwrap_or_default(),
    };
    let text = if value["type"] == "undefined" {
        "undefined".to_owned()
    } else {
        text
    };
    Ok(ActionReport::with_result(cut(page, text)))
}

pub(super) async fn screenshot(
    page: &Page<'_>,
    args: &ScreenshotArgs,
    context: &ActionContext<'_>,
) -> Result<ActionReport, ToolError> {
    let format = args.format.map_or("png", |format| format.as_str());
    let full_page = args.full_page.unwrap_or_default();
    let of = match &args.target {
        Some(_) if full_page => {
            return Err(ToolError::invalid_input(
                "`fullPage` cannot be used with `target`",
            ));
        }
        Some(target) => Some(page.find(target).await?),
        None => None,
    };
    let data = page.screenshot(format, of.as_ref(), full_page).await?;
    let what = match (&of, full_page) {
        (Some(_), _) => "the element",
        (None, true) => "the full page",
        (None, false) => "the viewport",
    };
    let mut result = format!("Screenshot of {what}");
    if let Some(path) = &args.filename {
        result = format!("{result}, {}", context.save_file(path, &data).await);
    }
    Ok(ActionReport::with_result(result).attach(Content::Image {
        data,
        mime_type: format!("image/{format}"),
    }))
}

pub(super) async fn pdf(
    page: &Page<'_>,
    args: &PdfArgs,
    context: &ActionContext<'_>,
) -> Result<ActionReport, ToolError> {
    let data = page.pdf().await?;
    let size = mimir_core::text::bytes(data.len() as u64);
    let name = match &args.filename {
        Some(path) => file_name(path.rsplit(['/', '\\']).next().unwrap_or_default()),
        None => "page.pdf".to_owned(),
    };
    let mut result = format!("PDF of the page, {size}, as a file of this result");
    if let Some(path) = &args.filename {
        result = format!("{result}, {}", context.save_file(path, &data).await);
    }
    Ok(ActionReport::with_result(result).attach(Content::File {
        data,
        mime_type: "application/pdf".to_owned(),
        name,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_ignores_case_and_spaces() {
        assert_eq!(normalized("Ready \n at  LAST"), "ready at last");
    }

    #[test]
    fn regex_takes_flags_between_slashes() {
        assert!(parse_regex("/error/i").unwrap().is_match("An ERROR"));
        assert!(!parse_regex("error").unwrap().is_match("An ERROR"));
        assert!(parse_regex("/a/b").unwrap().is_match("a"));
        assert!(parse_regex("(").is_err());
    }
}
