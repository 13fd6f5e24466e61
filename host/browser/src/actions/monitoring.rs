//! Actions that show what the page has logged and requested.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mimir_core::ToolError;
use serde_json::json;

use super::cut;
use super::reading::parse_regex;
use crate::page::Page;
use crate::report::ActionReport;
use crate::session::ActionContext;
use crate::tab::{ConsoleLevel, PageRequest};
use crate::tool_arguments::{ConsoleArgs, LevelArg, RequestArgs, RequestPart, RequestsArgs};

pub(super) fn console(page: &Page<'_>, args: &ConsoleArgs) -> ActionReport {
    let level = match args.level {
        Some(LevelArg::Error) => ConsoleLevel::Error,
        Some(LevelArg::Warning) => ConsoleLevel::Warning,
        None | Some(LevelArg::Info) => ConsoleLevel::Info,
        Some(LevelArg::Debug) => ConsoleLevel::Debug,
    };
    let text = page.with_tab(|tab| {
        let (errors, warnings) = tab.console_counts();
        let page_number = tab.page_number;
        let messages = tab.console.iter().filter(|message| {
            message.level <= level && (args.all == Some(true) || message.page_number == page_number)
        });
        let lines: Vec<String> = messages
            .map(|message| {
                format!(
                    "[{}] {}",
                    message.level.as_str(),
                    mimir_core::text::visible(&message.text)
                )
            })
            .collect();
        format!(
            "Total messages: {} (Errors: {errors}, Warnings: {warnings})\n{}",
            lines.len(),
            lines.join("\n")
        )
    });
    ActionReport::with_result(cut(page, text))
}

pub(super) fn requests(
    page: &Page<'_>,
    args: &RequestsArgs,
    context: &ActionContext<'_>,
) -> Result<ActionReport, ToolError> {
    let filter = args.filter.as_deref().map(parse_regex).transpose()?;
    let lines: Vec<String> = page.with_tab(|tab| {
        let all = (1..).zip(&tab.requests);
        all.filter(|(_, request)| {
            let is_hidden = args.include_static != Some(true)
                && request.is_static()
                && request.failure.is_none()
                && request
                    .status
                    .as_ref()
                    .is_none_or(|(status, _)| *status < 400);
            !is_hidden
                && filter
                    .as_ref()
                    .is_none_or(|filter| filter.is_match(&context.masked(request.url.clone())))
        })
        .map(|(index, request): (usize, &PageRequest)| {
            let result = match (&request.failure, &request.status) {
                (Some(failure), _) => format!("[FAILED] {}", mimir_core::text::visible(failure)),
                (None, Some((status, text))) => {
                    format!("[{status}] {}", mimir_core::text::visible(text))
                }
                (None, None) => "[pending]".to_owned(),
            };
            let (method, url) = (&request.method, mimir_core::text::visible(&request.url));
            format!("{index}. [{method}] {url} => {result}")
        })
        .collect()
    });
    let text = if lines.is_empty() {
        "No requests.".to_owned()
    } else {
        lines.join("\n")
    };
    Ok(ActionReport::with_result(cut(page, text)))
}

pub(super) async fn request(
    page: &Page<'_>,
    args: &RequestArgs,
) -> Result<ActionReport, ToolError> {
    let index = (args.index as usize).checked_sub(1);
    let request = page.with_tab(|tab| tab.requests.get(index?).cloned());
    let request = request.ok_or_else(|| {
        ToolError::not_found(format!(
            "request {} does not exist: see browser_network_requests",
            args.index
        ))
    })?;
    let headers = |headers: &[(String, String)]| {
        let lines = headers.iter();
        lines
            .map(|(name, value)| format!("{name}: {value}"))
            .collect::<Vec<_>>()
            .join("\n")
    };
    let wants = |part| args.part.is_none_or(|wanted| wanted == part);
    let mut sections = Vec::new();
    if args.part.is_none() {
        let status = request
            .status
            .as_ref()
            .map(|(status, text)| format!(" => [{status}] {text}"));
        sections.push(format!(
            "{} {}{}",
            request.method,
            request.url,
            status.unwrap_or_default()
        ));
    }
    if wants(RequestPart::RequestHeaders) {
        sections.push(format!(
            "#### Request headers\n{}",
            headers(&request.request_headers)
        ));
    }
    if wants(RequestPart::RequestBody)
        && let Some(body) = &request.request_body
    {
        sections.push(format!("#### Request body\n{body}"));
    }
    if wants(RequestPart::ResponseHeaders) {
        sections.push(format!(
            "#### Response headers\n{}",
            headers(&request.response_headers)
        ));
    }
    if wants(RequestPart::ResponseBody) && request.status.is_some() {
        let params = json!({"requestId": request.id});
        let body = match page
            .send_to(&request.session, "Network.getResponseBody", params)
            .await
        {
            Ok(body) if body["base64Encoded"] == true => {
                let bytes = STANDARD.decode(body["body"].as_str().unwrap_or_default());
                format!(
                    "({} of binary data)",
                    mimir_core::text::bytes(bytes.map_or(0, |bytes| bytes.len()) as u64)
                )
            }
            Ok(body) => body["body"].as_str().unwrap_or_default().to_owned(),
            Err(_) => "(no longer available)".to_owned(),
        };
        sections.push(format!("#### Response body\n{body}"));
    }
    Ok(ActionReport::with_result(cut(page, sections.join("\n"))))
}
