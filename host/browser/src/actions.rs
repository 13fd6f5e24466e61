//! Carries out the actions of the tools.

use mimir_core::{Content, ToolError};
use serde_json::json;

use crate::browser::Browser;
use crate::page::Page;
use crate::report::{ActionReport, modal_section};
use crate::secret_entry::check_input;
use crate::session::ActionContext;
use crate::tool_arguments::{DragArgs, SelectArgs};
use crate::tools::PageAction;

mod input;
mod monitoring;
mod reading;
mod tabs_and_files;

use input::{click, fill_form, type_text};
use monitoring::{console, request, requests};
use reading::{evaluate, find, pdf, screenshot, snapshot, wait_for};
use tabs_and_files::{downloads, handle_dialog, tabs, upload};

/// Maximum size of a result of JavaScript, a console or a list of requests, in bytes.
const TEXT_MAX: usize = 60_000;

/// Carries out an action in a running browser.
pub(crate) async fn perform(
    browser: &Browser,
    action: PageAction,
    context: &ActionContext<'_>,
) -> Result<Vec<Content>, ToolError> {
    check_input(browser, &action)?;
    let report = match action {
        PageAction::Navigate(args) => {
            browser.navigate(&args.url).await?;
            ActionReport::after_action()
        }
        PageAction::Tabs(args) => tabs(browser, args).await?,
        PageAction::HandleDialog(args) => {
            let page = Page::current(browser)?;
            handle_dialog(&page, args).await?
        }
        PageAction::FileUpload(args) => {
            let page = Page::current(browser)?;
            upload(&page, args, context).await?
        }
        PageAction::Downloads(args) => downloads(browser, args, context).await?,
        PageAction::ConsoleMessages(args) => console(&Page::current(browser)?, &args),
        PageAction::NetworkRequests(args) => requests(&Page::current(browser)?, &args, context)?,
        PageAction::NetworkRequest(args) => request(&Page::current(browser)?, &args).await?,
        action => {
            let page = Page::current(browser)?;
            // Everything else would wait for the dialog.
            if let Some(modal) = modal_section(&page).filter(|_| page.dialog().is_some()) {
                return Err(ToolError::execution(format!(
                    "a dialog of the page is open: answer it with browser_handle_dialog\n{modal}"
                )));
            }
            perform_on_page(&page, action, context).await?
        }
    };
    Ok(report.finish(&Page { browser }).await)
}

async fn perform_on_page(
    page: &Page<'_>,
    action: PageAction,
    context: &ActionContext<'_>,
) -> Result<ActionReport, ToolError> {
    let browser = page.browser;
    match action {
        PageAction::NavigateBack => go_back(page).await,
        PageAction::Snapshot(args) => snapshot(page, args).await,
        PageAction::Find(args) => find(page, &args, context).await,
        PageAction::Click(args) => click(page, &args).await,
        PageAction::Hover(args) => {
            let key = page.find(&args.target).await?;
            let hovering = async {
                let point = page.ready_point(&key).await?;
                page.until_dialog(page.move_mouse(point)).await
            };
            browser.act(hovering).await?;
            Ok(ActionReport::after_action())
        }
        PageAction::Drag(DragArgs {
            start_target,
            end_target,
            ..
        }) => {
            let (from, to) = (
                page.find(&start_target).await?,
                page.find(&end_target).await?,
            );
            browser.act(page.drag(&from, &to)).await?;
            Ok(ActionReport::after_action())
        }
        PageAction::Type(args) => type_text(page, args, context).await,
        PageAction::FillForm(args) => fill_form(page, &args).await,
        PageAction::SelectOption(SelectArgs { target, values, .. }) => {
            let key = page.find(&target).await?;
            let selected = browser.act(page.select(&key, &values)).await?;
            let selected = selected.unwrap_or_default().join(", ");
            Ok(ActionReport::after_action().result(format!("Selected {selected}")))
        }
        PageAction::PressKey(args) => {
            browser
                .act(page.until_dialog(page.press(&args.key)))
                .await?;
            Ok(ActionReport::after_action())
        }
        PageAction::WaitFor(args) => wait_for(page, &args, context).await,
        PageAction::Evaluate(args) => evaluate(page, &args).await,
        PageAction::Screenshot(args) => screenshot(page, &args, context).await,
        PageAction::PdfSave(args) => pdf(page, &args, context).await,
        PageAction::Resize(args) => {
            let size = json!({
                "width": args.width, "height": args.height, "deviceScaleFactor": 0, "mobile": false
            });
            page.send("Emulation.setDeviceMetricsOverride", size)
                .await?;
            Ok(ActionReport::after_action())
        }
        PageAction::Navigate(_)
        | PageAction::Tabs(_)
        | PageAction::HandleDialog(_)
        | PageAction::FileUpload(_)
        | PageAction::Downloads(_)
        | PageAction::ConsoleMessages(_)
        | PageAction::NetworkRequests(_)
        | PageAction::NetworkRequest(_)
        | PageAction::Close => Err(ToolError::internal("the action needs no page")),
    }
}

async fn go_back(page: &Page<'_>) -> Result<ActionReport, ToolError> {
    let history = page.send("Page.getNavigationHistory", json!({})).await?;
    let index = history["currentIndex"].as_u64().unwrap_or_default();
    let before = index
        .checked_sub(1)
        .and_then(|before| history["entries"].get(usize::try_from(before).ok()?))
        .filter(|entry| entry["url"] != "about:blank");
    let Some(entry) = before else {
        return Err(ToolError::not_found("the tab shows its first page"));
    };
    let going = page.send(
        "Page.navigateToHistoryEntry",
        json!({"entryId": entry["id"]}),
    );
    page.browser.act(page.until_dialog(going)).await?;
    Ok(ActionReport::after_action())
}

/// Cuts off a long text of a page, and says so. Secrets are hidden first: a part of one would not be masked.
fn cut(page: &Page<'_>, mut text: String) -> String {
    page.browser.gate.hide_entered_secrets(&mut text);
    let short = mimir_core::text::prefix_bytes(&text, TEXT_MAX.min(text.len()));
    if short.len() < text.len() {
        format!(
            "{short}\n(cut off after {} of {} bytes)",
            short.len(),
            text.len()
        )
    } else {
        text
    }
}
