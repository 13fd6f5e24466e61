//! Actions that enter something into the page.

use mimir_core::ToolError;

use crate::page::{Interrupted, Page};
use crate::pointer::ClickKind;
use crate::report::ActionReport;
use crate::secret_entry::check_secret_entry;
use crate::session::ActionContext;
use crate::snapshot::NodeKey;
use crate::tool_arguments::{ClickArgs, FieldKind, FillFormArgs, TypeArgs};

pub(super) async fn click(page: &Page<'_>, args: &ClickArgs) -> Result<ActionReport, ToolError> {
    let key = page.find(&args.target).await?;
    let kind = ClickKind {
        button: args.button.map_or("left", |button| button.as_str()),
        count: if args.double_click == Some(true) {
            2
        } else {
            1
        },
        modifiers: args.modifiers.iter().fold(0, |bits, key| bits | key.bit()),
    };
    page.browser
        .act(async {
            let point = page.ready_point(&key).await?;
            page.click_at(point, kind).await
        })
        .await?;
    Ok(ActionReport::after_action())
}

pub(super) async fn type_text(
    page: &Page<'_>,
    args: TypeArgs,
    context: &ActionContext<'_>,
) -> Result<ActionReport, ToolError> {
    let key = page.find(&args.target).await?;
    let text = match (args.text, args.secret) {
        (Some(text), None) => text,
        (None, Some(name)) => {
            if args.slowly == Some(true) {
                let message = "`slowly` is not supported with `secret`: the page could move the focus meanwhile";
                return Err(ToolError::invalid_input(message));
            }
            // The page around a frame could take the text of the frame.
            if !page.is_in_main_frame(&key) {
                let message =
                    "a secret cannot be entered into a frame: open the page of the frame itself";
                return Err(ToolError::policy_denied(message));
            }
            check_secret_entry(page)?;
            let secret = context.secret(&name, &page.page_of(&key).await?)?;
            return enter_secret(page, &key, &secret, args.submit == Some(true)).await;
        }
        _ => return Err(ToolError::invalid_input("give either `text` or `secret`")),
    };
    page.browser
        .act(async {
            if args.slowly == Some(true) {
                page.type_slowly(&key, &text).await?;
            } else {
                page.fill(&key, &text).await?;
            }
            if args.submit == Some(true) {
                page.until_dialog(page.press("Enter")).await?;
            }
            Ok(())
        })
        .await?;
    Ok(ActionReport::after_action())
}

/// Enters a secret into a field, and sends the form if that was asked for.
async fn enter_secret(
    page: &Page<'_>,
    key: &NodeKey,
    secret: &str,
    submit: bool,
) -> Result<ActionReport, ToolError> {
    page.browser
        .act(async {
            let field = (key.session.clone(), key.node);
            page.with_tab(|tab| tab.secret_fields.insert(field));
            page.set_text(key, secret).await?;
            if submit {
                page.until_dialog(page.press("Enter")).await?;
            }
            Ok(())
        })
        .await?;
    Ok(ActionReport::after_action())
}

pub(super) async fn fill_form(
    page: &Page<'_>,
    args: &FillFormArgs,
) -> Result<ActionReport, ToolError> {
    // All fields are found before the first one changes.
    let mut fields = Vec::new();
    for field in &args.fields {
        fields.push((page.find(&field.target).await?, field));
    }
    page.browser
        .act(async {
            for (key, field) in &fields {
                let filled = match field.kind {
                    FieldKind::Textbox | FieldKind::Slider => page.fill(key, &field.value).await,
                    FieldKind::Checkbox | FieldKind::Radio => match &*field.value {
                        "true" => page.set_checked(key, true).await,
                        "false" => page.set_checked(key, false).await,
                        _ => Err(
                            ToolError::invalid_input("use `true` or `false` for a check box")
                                .into(),
                        ),
                    },
                    FieldKind::Combobox => {
                        let values = [field.value.clone()];
                        page.select(key, &values).await.map(drop)
                    }
                };
                filled.map_err(|error| {
                    in_field(error, field.name.as_deref().unwrap_or(&field.target))
                })?;
            }
            Ok(())
        })
        .await?;
    Ok(ActionReport::after_action())
}

fn in_field(error: Interrupted, name: &str) -> Interrupted {
    match error {
        Interrupted::Failed(mut error) => {
            error.message = format!("{}: {}", mimir_core::text::visible(name), error.message);
            Interrupted::Failed(error)
        }
        dialog => dialog,
    }
}
