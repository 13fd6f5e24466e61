//! Actions on tabs, dialogs, uploads and downloads.

use std::time::Duration;

use mimir_core::{Content, ToolError};
use serde_json::json;

use crate::browser::{Browser, BrowserState, DownloadState};
use crate::page::{Page, page_error};
use crate::report::{ActionReport, download_line, tab_list};
use crate::session::ActionContext;
use crate::tool_arguments::{DialogArgs, DownloadArgs, TabsArgs, TabsOperation, UploadArgs};

/// Maximum number of files of one upload, and the maximum size of each.
const UPLOADS_MAX: usize = 20;

pub(super) async fn tabs(browser: &Browser, args: TabsArgs) -> Result<ActionReport, ToolError> {
    let target = |index: u32| {
        let state = browser.state();
        let tab = state.tabs.get(index as usize);
        tab.map(|tab| tab.target.clone()).ok_or_else(|| {
            ToolError::not_found(format!("tab {index} does not exist\n{}", tab_list(&state)))
        })
    };
    match args.action {
        TabsOperation::List => {}
        TabsOperation::New => {
            if browser.state().tabs.len() >= crate::browser::TABS_MAX {
                return Err(ToolError::limit_exceeded(format!(
                    "{} tabs are open: close one first",
                    crate::browser::TABS_MAX
                )));
            }
            browser.open_tab().await.map_err(page_error)?;
            if let Some(url) = &args.url {
                browser.navigate(url).await?;
                return Ok(ActionReport::after_action().tabs());
            }
        }
        TabsOperation::Select => {
            let index = args
                .index
                .ok_or_else(|| ToolError::invalid_input("`index` is missing"))?;
            let target = target(index)?;
            browser
                .cdp
                .post("", "Target.activateTarget", json!({"targetId": target}));
            browser.state().current = target;
            return Ok(ActionReport::after_action().tabs());
        }
        TabsOperation::Close => {
            let target = match args.index {
                Some(index) => target(index)?,
                None => browser.state().current.clone(),
            };
            let closing = browser
                .cdp
                .send("", "Target.closeTarget", json!({"targetId": target}));
            closing.await.map_err(page_error)?;
            let is_closed =
                |state: &BrowserState| state.tabs.iter().all(|tab| tab.target != target);
            browser.wait_until(Duration::from_secs(5), is_closed).await;
        }
    }
    Ok(ActionReport::default().tabs())
}

pub(super) async fn handle_dialog(
    page: &Page<'_>,
    args: DialogArgs,
) -> Result<ActionReport, ToolError> {
    let Some(dialog) = page.dialog() else {
        return Err(ToolError::not_found("no dialog is open"));
    };
    let mut params = json!({"accept": args.accept});
    if let Some(text) = args.prompt_text {
        params["promptText"] = text.into();
    }
    let count = page.with_tab(|tab| tab.dialog_count);
    let answering = async {
        page.send_to(&dialog.session, "Page.handleJavaScriptDialog", params)
            .await?;
        // The page may open the next one at once.
        let is_answered = |state: &BrowserState| {
            state
                .current()
                .is_none_or(|tab| tab.dialog.is_none() || tab.dialog_count != count)
        };
        page.browser
            .wait_until(Duration::from_secs(2), is_answered)
            .await;
        Ok(())
    };
    page.browser.act(answering).await?;
    Ok(ActionReport::after_action())
}

pub(super) async fn upload(
    page: &Page<'_>,
    args: UploadArgs,
    context: &ActionContext<'_>,
) -> Result<ActionReport, ToolError> {
    let Some(chooser) = page.with_tab(|tab| tab.file_chooser.take()) else {
        return Err(ToolError::not_found(
            "no file chooser is open: click the button that opens it first",
        ));
    };
    if args.paths.is_empty() {
        return Ok(ActionReport::after_action().result("The file chooser was cancelled."));
    }
    if args.paths.len() > UPLOADS_MAX || (args.paths.len() > 1 && !chooser.multiple) {
        let max = if chooser.multiple { UPLOADS_MAX } else { 1 };
        page.with_tab(|tab| tab.file_chooser = Some(chooser));
        return Err(ToolError::invalid_input(format!(
            "the page takes at most {max} files"
        )));
    }
    let files = match context.stage_uploads(&args.paths).await {
        Ok(files) => files,
        Err(error) => {
            page.with_tab(|tab| tab.file_chooser = Some(chooser));
            return Err(error);
        }
    };
    let params = json!({"files": files, "backendNodeId": chooser.node});
    let setting = page.send_to(&chooser.session, "DOM.setFileInputFiles", params);
    page.browser.act(page.until_dialog(setting)).await?;
    Ok(ActionReport::after_action())
}

pub(super) async fn downloads(
    browser: &Browser,
    args: DownloadArgs,
    context: &ActionContext<'_>,
) -> Result<ActionReport, ToolError> {
    let downloads = browser.state().downloads.clone();
    let Some(index) = args.index else {
        if downloads.is_empty() {
            return Ok(ActionReport::with_result("No downloads."));
        }
        let lines = (1..)
            .zip(&downloads)
            .map(|(index, one)| download_line(index, one));
        return Ok(ActionReport::with_result(
            lines.collect::<Vec<_>>().join("\n"),
        ));
    };
    let download = (index as usize)
        .checked_sub(1)
        .and_then(|index| downloads.get(index));
    let download =
        download.ok_or_else(|| ToolError::not_found(format!("download {index} does not exist")))?;
    if download.state != DownloadState::Completed {
        return Err(ToolError::execution("the download is not complete"));
    }
    let data = context.read_download(&download.id).await?;
    let line = download_line(index as usize, download);
    Ok(ActionReport::with_result(line).attach(Content::File {
        data,
        mime_type: "application/octet-stream".to_owned(),
        name: download.name.clone(),
    }))
}
