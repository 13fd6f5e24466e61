//! Texts and presentations of LibreOffice.

use crate::markdown::Markdown;
use crate::package::DocumentPackage;
use crate::read::ReadError;
use crate::xml::{self, HiddenElements, XmlElement, XmlItem};

/// Maximum number of spaces or columns that one element stands for.
const MAX_REPEATED: usize = 1_000;

/// Converts a document to Markdown.
pub fn to_markdown(mut package: DocumentPackage<'_>) -> Result<String, ReadError> {
    let content = package.required_part("content.xml")?;
    let mut reader = OpenDocumentReader::default();
    xml::read_items(&content, |item| {
        reader.read(item);
        reader.markdown.check_size()
    })?;
    Ok(reader.markdown.finish())
}

#[derive(Default)]
struct OpenDocumentReader {
    markdown: Markdown,
    text: String,
    /// Level of the open heading.
    heading: Option<usize>,
    /// Nesting of paragraphs, which contain other ones in frames.
    paragraphs: usize,
    lists: usize,
    tables: Vec<Vec<Vec<String>>>,
    slides: usize,
    /// Target of the open link, and the start of its text.
    link: Option<(String, usize)>,
    hidden: HiddenElements,
}

impl OpenDocumentReader {
    fn read(&mut self, item: XmlItem) {
        let is_hidden = |name: &str| {
            matches!(
                name,
                "annotation" | "tracked-changes" | "note" | "automatic-styles"
            )
        };
        match self.hidden.filter(item, is_hidden) {
            Some(XmlItem::Start(element)) => self.start(&element),
            Some(XmlItem::End(name)) => self.end(&name),
            Some(XmlItem::Text(text)) if self.paragraphs > 0 => self.text.push_str(&text),
            Some(XmlItem::Text(_)) | None => {}
        }
    }

    fn start(&mut self, element: &XmlElement) {
        match element.name.as_str() {
            "h" => {
                self.heading = Some(element.number("outline-level").unwrap_or(1));
                self.start_paragraph();
            }
            "p" => self.start_paragraph(),
            "list" => self.lists += 1,
            "s" => {
                let count = element.number("c").unwrap_or(1).min(MAX_REPEATED);
                self.text.push_str(&" ".repeat(count));
            }
            "tab" => self.text.push(' '),
            "line-break" => self.text.push('\n'),
            "a" => {
                let target = element.attribute("href");
                self.link = target.map(|target| (target.to_owned(), self.text.len()));
            }
            "page" => {
                self.slides += 1;
                self.markdown.heading(2, &format!("Slide {}", self.slides));
            }
            "table" => self.tables.push(Vec::new()),
            "table-row" => {
                if let Some(table) = self.tables.last_mut() {
                    table.push(Vec::new());
                }
            }
            "table-cell" | "covered-table-cell" => {
                let count = element.number("number-columns-repeated").unwrap_or(1);
                if let Some(row) = self.tables.last_mut().and_then(|table| table.last_mut()) {
                    let count = count.min(MAX_REPEATED);
                    row.extend(std::iter::repeat_n(String::new(), count));
                }
            }
            _ => {}
        }
    }

    fn start_paragraph(&mut self) {
        if self.paragraphs == 0 {
            self.text.clear();
        }
        self.paragraphs += 1;
    }

    fn end(&mut self, name: &str) {
        match name {
            "h" | "p" => {
                self.paragraphs = self.paragraphs.saturating_sub(1);
                if self.paragraphs == 0 {
                    self.end_paragraph();
                } else {
                    self.text.push(' ');
                }
            }
            "list" => self.lists = self.lists.saturating_sub(1),
            "a" => {
                if let Some((target, start)) = self.link.take()
                    && let Some(text) = self.text.get(start..).map(str::to_owned)
                    && !text.trim().is_empty()
                {
                    self.text.truncate(start);
                    self.text.push_str(&format!("[{}]({target})", text.trim()));
                }
            }
            "table" => {
                if let Some(rows) = self.tables.pop() {
                    self.markdown.table(&rows);
                }
            }
            _ => {}
        }
    }

    fn end_paragraph(&mut self) {
        let text = std::mem::take(&mut self.text);
        let heading = self.heading.take();
        let row = self.tables.last_mut().and_then(|table| table.last_mut());
        if let Some(cell) = row.and_then(|row| row.last_mut()) {
            if !cell.is_empty() {
                cell.push(' ');
            }
            cell.push_str(text.trim());
        } else if let Some(level) = heading {
            self.markdown.heading(level, &text);
        } else if self.lists > 0 {
            self.markdown.list_item(self.lists - 1, false, &text);
        } else {
            self.markdown.paragraph(&text);
        }
    }
}
