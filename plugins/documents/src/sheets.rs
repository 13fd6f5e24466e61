//! Spreadsheets of Excel and LibreOffice, as tables.

use std::io::{Cursor, Read, Seek};

use calamine::{Data, DataRef, Reader, Sheets, Xlsx, XlsxError, open_workbook_auto_from_rs};

use crate::markdown::Markdown;
use crate::read::ReadError;

/// Maximum number of cells of a sheet, empty ones included.
const MAX_CELLS: u64 = 1_000_000;

/// Converts a workbook to Markdown, sheet by sheet.
pub fn to_markdown(bytes: Vec<u8>) -> Result<String, ReadError> {
    let damaged = |error: calamine::Error| ReadError::Damaged(error.to_string());
    let mut workbook = open_workbook_auto_from_rs(Cursor::new(bytes)).map_err(damaged)?;
    let mut markdown = Markdown::default();
    for name in workbook.sheet_names() {
        if let Sheets::Xlsx(workbook) = &mut workbook {
            check_positions(workbook, &name).map_err(|error| damaged(error.into()))??;
        }
        let range = workbook.worksheet_range(&name).map_err(damaged)?;
        markdown.heading(2, &name);
        let (height, width) = range.get_size();
        check_size(&name, height as u64, width as u64)?;
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

/// Checks the size of a sheet by the positions of its cells. The library reserves memory for all cells between them.
fn check_positions<R: Read + Seek>(
    workbook: &mut Xlsx<R>,
    name: &str,
) -> Result<Result<(), ReadError>, XlsxError> {
    let mut cells = match workbook.worksheet_cells_reader(name) {
        // Such as a sheet with only a chart, which is read as empty.
        Err(XlsxError::NotAWorksheet(_)) => return Ok(Ok(())),
        cells => cells?,
    };
    let mut bounds: Option<[u32; 4]> = None;
    while let Some(cell) = cells.next_cell()? {
        if matches!(cell.get_value(), DataRef::Empty) {
            continue;
        }
        let (row, column) = cell.get_position();
        let [top, bottom, left, right] = bounds.unwrap_or([row, row, column, column]);
        bounds = Some([
            top.min(row),
            bottom.max(row),
            left.min(column),
            right.max(column),
        ]);
    }
    let size = bounds.map_or((0, 0), |[top, bottom, left, right]| {
        (u64::from(bottom - top) + 1, u64::from(right - left) + 1)
    });
    Ok(check_size(name, size.0, size.1))
}

fn check_size(name: &str, rows: u64, columns: u64) -> Result<(), ReadError> {
    if rows.saturating_mul(columns) > MAX_CELLS {
        return Err(ReadError::TooLarge(format!(
            "the sheet `{name}` has {rows} rows and {columns} columns, and at most {MAX_CELLS} cells are read; delete cells that are far from the others, or save the sheet as CSV"
        )));
    }
    Ok(())
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
