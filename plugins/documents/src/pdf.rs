//! PDF files: text by pages, with headings where letters are larger.

use std::panic;

use pdf_extract::{Document, MediaBox, OutputDev, OutputError, Transform, output_doc_page};

use crate::markdown::Markdown;
use crate::read::ReadError;

/// Maximum number of pages.
const MAX_PAGES: usize = 5_000;

/// A line is a heading if its letters are larger than usual by this factor.
const HEADING_RATIO: f64 = 1.2;

/// Letters of a main heading are larger than usual by this factor.
const MAIN_HEADING_RATIO: f64 = 1.6;

/// Maximum length of a heading in characters.
const MAX_HEADING: usize = 150;

/// Converts a PDF to Markdown, page by page.
pub fn to_markdown(bytes: &[u8]) -> Result<String, ReadError> {
    explain_panics();
    let damaged = |error: &dyn std::fmt::Display| ReadError::Damaged(error.to_string());
    let mut document = Document::load_mem(bytes).map_err(|error| damaged(&error))?;
    if document.is_encrypted() && document.decrypt("").is_err() {
        return Err(ReadError::Damaged(
            "it is encrypted with a password; save it without one".to_owned(),
        ));
    }
    let numbers: Vec<u32> = document.get_pages().into_keys().collect();
    if numbers.len() > MAX_PAGES {
        return Err(ReadError::TooLarge(format!(
            "it has {} pages, and at most {MAX_PAGES} are read",
            numbers.len()
        )));
    }
    let mut pages = Vec::with_capacity(numbers.len());
    for number in &numbers {
        let mut page = PageText::default();
        let result = output_doc_page(&document, &mut page, *number);
        page.end_line();
        page.fault = result.err().map(|error| error.to_string());
        pages.push(page);
    }
    let mut markdown = Markdown::default();
    let usual = usual_size(&pages);
    for (number, page) in numbers.iter().zip(&pages) {
        markdown.heading(2, &format!("Page {number}"));
        page.write(usual, &mut markdown);
        markdown.check_size()?;
    }
    if pages.iter().all(|page| page.lines.is_empty()) {
        markdown.paragraph(
            "(This PDF has no text. It may be scanned: convert its pages to images to see them.)",
        );
    }
    Ok(markdown.finish())
}

/// Replaces the message of a panic in the PDF library, which the host shows as the error of the call.
fn explain_panics() {
    panic::set_hook(Box::new(|_| {
        eprintln!(
            "panic: this PDF is damaged or has content that cannot be read; convert it to text with a command such as `pdftotext`, or read its bytes with `encoding: base64`"
        );
    }));
}

/// The text of a page.
#[derive(Default)]
struct PageText {
    lines: Vec<PdfLine>,
    line: String,
    /// Size of the letters of the open line, and the end of its last letter.
    size: f64,
    end: f64,
    y: f64,
    fault: Option<String>,
}

struct PdfLine {
    text: String,
    size: f64,
    y: f64,
}

impl PageText {
    fn end_line(&mut self) {
        let text = std::mem::take(&mut self.line);
        let text = text.trim_end();
        if !text.trim().is_empty() {
            self.lines.push(PdfLine {
                text: text.to_owned(),
                size: self.size,
                y: self.y,
            });
        }
        self.size = 0.0;
    }

    /// Writes the paragraphs. Lines belong together if their distance is usual for their size.
    fn write(&self, usual: f64, markdown: &mut Markdown) {
        let mut paragraph = String::new();
        let mut last: Option<&PdfLine> = None;
        for line in &self.lines {
            let continues = last.is_some_and(|last| {
                let gap = last.y - line.y;
                (last.size - line.size).abs() < 0.5 && gap > 0.0 && gap < line.size * 1.8
            });
            if !continues {
                write_block(&paragraph, last, usual, markdown);
                paragraph.clear();
            }
            if !paragraph.is_empty() {
                paragraph.push('\n');
            }
            paragraph.push_str(line.text.trim());
            last = Some(line);
        }
        write_block(&paragraph, last, usual, markdown);
        if let Some(fault) = &self.fault {
            markdown.paragraph(&format!("(The rest of this page cannot be read: {fault})"));
        }
    }
}

fn write_block(text: &str, line: Option<&PdfLine>, usual: f64, markdown: &mut Markdown) {
    let size = line.map_or(0.0, |line| line.size);
    let is_heading = size > usual * HEADING_RATIO && text.chars().count() <= MAX_HEADING;
    if is_heading {
        let level = if size > usual * MAIN_HEADING_RATIO {
            3
        } else {
            4
        };
        markdown.heading(level, text);
    } else {
        markdown.paragraph(text);
    }
}

/// Returns the size of most letters of a document.
fn usual_size(pages: &[PageText]) -> f64 {
    let lines = pages.iter().flat_map(|page| &page.lines);
    let mut sizes: Vec<(f64, usize)> = lines.map(|line| (line.size, line.text.len())).collect();
    sizes.sort_by(|a, b| a.0.total_cmp(&b.0));
    let total: usize = sizes.iter().map(|(_, letters)| letters).sum();
    let mut seen = 0;
    let usual = sizes.iter().find(|(_, letters)| {
        seen += letters;
        seen * 2 >= total
    });
    usual.map_or(f64::INFINITY, |(size, _)| *size)
}

impl OutputDev for PageText {
    fn begin_page(
        &mut self,
        _: u32,
        _: &MediaBox,
        _: Option<(f64, f64, f64, f64)>,
    ) -> Result<(), OutputError> {
        Ok(())
    }

    fn end_page(&mut self) -> Result<(), OutputError> {
        Ok(())
    }

    fn output_character(
        &mut self,
        position: &Transform,
        width: f64,
        _: f64,
        font_size: f64,
        text: &str,
    ) -> Result<(), OutputError> {
        let scale = (position.m11 * position.m22 - position.m12 * position.m21)
            .abs()
            .sqrt();
        let size = font_size * scale;
        let (x, y) = (position.m31, position.m32);
        if !self.line.is_empty() {
            let is_other_line = (y - self.y).abs() > size.max(self.size) * 0.5;
            let goes_back = x < self.end - size.max(1.0) * 2.0;
            if is_other_line || goes_back {
                self.end_line();
            } else if x > self.end + size * 2.0 {
                // Columns of a table.
                self.line.push_str("   ");
            } else if x > self.end + size * 0.15 && !self.line.ends_with(' ') {
                self.line.push(' ');
            }
        }
        self.line.push_str(text);
        self.size = self.size.max(size);
        self.end = x + width * size;
        self.y = y;
        Ok(())
    }

    fn begin_word(&mut self) -> Result<(), OutputError> {
        Ok(())
    }

    fn end_word(&mut self) -> Result<(), OutputError> {
        Ok(())
    }

    fn end_line(&mut self) -> Result<(), OutputError> {
        Ok(())
    }
}
