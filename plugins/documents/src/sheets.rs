//! Spreadsheets of Excel and LibreOffice, as tables.

use std::io::Cursor;

use calamine::{Data, Reader, open_workbook_auto_from_rs};

use crate::markdown::Markdown;
use crate::read::ReadError;

/// Maximum number of cells of a sheet, empty ones included.
const MAX_CELLS: usize = 1_000_000;

/// Converts a workbook to Markdown, sheet by sheet.
pub fn to_markdown(bytes: Vec<u8>) -> Result<String, ReadError> {
    let damaged = |error: calamine::Error| ReadError::Damaged(error.to_string());
    let mut workbook = open_workbook_auto_from_rs(Cursor::new(bytes)).map_err(damaged)?;
    let mut markdown = Markdown::default();
    for name in workbook.sheet_names() {
        let range = workbook.worksheet_range(&name).map_err(damaged)?;
        markdown.heading(2, &name);
        let (height, width) = range.get_size();
        if height.saturating_mul(width) > MAX_CELLS {
            return Err(ReadError::TooLarge(format!(
                "the sheet `{name}` has {height} rows and {width} columns"
            )));
        }
        if range.is_empty() {
            markdown.paragraph("(empty)");
            continue;
        }
        let rows: Vec<Vec<String>> = range
            .rows()
            .map(|row| row.iter().map(cell_text).collect())
            .collect();
        markdown.table(&rows);
        markdown.check_size()?;
    }
    Ok(markdown.finish())
}

/// Returns the text of a cell. Dates are written as ISO 8601.
fn cell_text(cell: &Data) -> String {
    match cell {
        Data::DateTime(time) if time.is_datetime() => {
            let (year, month, day, hour, minute, second, _) = time.to_ymd_hms_milli();
            let date = format!("{year:04}-{month:02}-{day:02}");
            match (time.as_f64().fract() == 0.0, time.as_f64() < 1.0) {
                (true, _) => date,
                (_, true) => format!("{hour:02}:{minute:02}:{second:02}"),
                _ => format!("{date} {hour:02}:{minute:02}:{second:02}"),
            }
        }
        Data::DateTime(duration) => {
            // A duration is a part of a day. More seconds than u64 holds become its maximum.
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "durations are positive, and the cast saturates"
            )]
            let seconds = (duration.as_f64() * 86_400.0).round() as u64;
            format!(
                "{}:{:02}:{:02}",
                seconds / 3600,
                seconds / 60 % 60,
                seconds % 60
            )
        }
        cell => cell.to_string(),
    }
}
