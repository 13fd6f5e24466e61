//! Word documents.

use std::collections::BTreeMap;

use crate::markdown::Markdown;
use crate::package::DocumentPackage;
use crate::read::ReadError;
use crate::xml::{self, HiddenElements, XmlElement, XmlItem};

/// Converts a Word document to Markdown.
pub fn to_markdown(mut package: DocumentPackage<'_>) -> Result<String, ReadError> {
    let styles = read_styles(package.part("word/styles.xml")?.as_deref())?;
    let numbered = read_numbered_lists(package.part("word/numbering.xml")?.as_deref())?;
    let links = xml::relationships(package.part("word/_rels/document.xml.rels")?.as_deref())?;
    let document = package.required_part("word/document.xml")?;
    let mut reader = WordReader {
        styles,
        numbered,
        links,
        ..WordReader::default()
    };
    xml::read_items(&document, |item| {
        reader.read(item);
        reader.markdown.check_size()
    })?;
    Ok(reader.markdown.finish())
}

/// Reads the names of the paragraph styles by their ids. Ids depend on the language of Word, names do not.
fn read_styles(text: Option<&str>) -> Result<BTreeMap<String, String>, ReadError> {
    let (mut styles, mut id) = (BTreeMap::new(), None);
    xml::read_items(text.unwrap_or_default(), |item| {
        if let XmlItem::Start(element) = item {
            match element.name.as_str() {
                "style" => id = element.attribute("styleId").map(str::to_owned),
                "name" => {
                    if let Some((id, name)) = id.take().zip(element.attribute("val")) {
                        styles.insert(id, name.to_lowercase());
                    }
                }
                _ => {}
            }
        }
        Ok(())
    })?;
    Ok(styles)
}

/// Reads which lists have numbers, by the id of the list.
fn read_numbered_lists(text: Option<&str>) -> Result<BTreeMap<String, bool>, ReadError> {
    let (mut formats, mut lists) = (BTreeMap::new(), BTreeMap::new());
    let (mut format_id, mut list_id) = (String::new(), String::new());
    xml::read_items(text.unwrap_or_default(), |item| {
        let XmlItem::Start(element) = item else {
            return Ok(());
        };
        let owned = |name: &str| element.attribute(name).unwrap_or_default().to_owned();
        match element.name.as_str() {
            "abstractNum" => format_id = owned("abstractNumId"),
            "numFmt" => {
                let is_numbered = owned("val") != "bullet";
                formats.entry(format_id.clone()).or_insert(is_numbered);
            }
            "num" => list_id = owned("numId"),
            "abstractNumId" => {
                let is_numbered = formats.get(&owned("val")).copied().unwrap_or(false);
                lists.insert(list_id.clone(), is_numbered);
            }
            _ => {}
        }
        Ok(())
    })?;
    Ok(lists)
}

#[derive(Default)]
struct WordReader {
    markdown: Markdown,
    styles: BTreeMap<String, String>,
    numbered: BTreeMap<String, bool>,
    links: BTreeMap<String, String>,
    paragraph: WordParagraph,
    /// Rows of the open tables, the innermost last.
    tables: Vec<Vec<Vec<String>>>,
    bold: bool,
    italic: bool,
    in_run_properties: bool,
    in_text: bool,
    /// Target of the open link, and the start of its text.
    link: Option<(String, usize)>,
    /// Content that repeats other content, or was deleted.
    hidden: HiddenElements,
}

#[derive(Default)]
struct WordParagraph {
    text: String,
    style: String,
    list: Option<String>,
    depth: usize,
    outline: Option<usize>,
}

impl WordReader {
    fn read(&mut self, item: XmlItem) {
        let is_hidden = |name: &str| matches!(name, "Fallback" | "del");
        match self.hidden.filter(item, is_hidden) {
            Some(XmlItem::Start(element)) => self.start(&element),
            Some(XmlItem::End(name)) => self.end(&name),
            Some(XmlItem::Text(text)) if self.in_text => self.push_text(&text),
            Some(XmlItem::Text(_)) | None => {}
        }
    }

    fn start(&mut self, element: &XmlElement) {
        let value = || element.attribute("val").unwrap_or_default();
        let is_on = || !matches!(value(), "0" | "false" | "none");
        match element.name.as_str() {
            "p" => self.paragraph = WordParagraph::default(),
            "pStyle" => {
                let id = value();
                let name = self.styles.get(id).cloned();
                self.paragraph.style = name.unwrap_or_else(|| id.to_lowercase());
            }
            "outlineLvl" => self.paragraph.outline = element.number("val"),
            "ilvl" => self.paragraph.depth = element.number("val").unwrap_or(0),
            "numId" => self.paragraph.list = Some(value().to_owned()).filter(|id| id != "0"),
            "r" => (self.bold, self.italic) = (false, false),
            "rPr" => self.in_run_properties = true,
            "b" if self.in_run_properties => self.bold = is_on(),
            "i" if self.in_run_properties => self.italic = is_on(),
            "t" => self.in_text = true,
            "tab" if !self.in_run_properties => self.paragraph.text.push(' '),
            "br" | "cr" => self.paragraph.text.push('\n'),
            "hyperlink" => {
                let target = element.attribute("id").and_then(|id| self.links.get(id));
                self.link = target.map(|target| (target.clone(), self.paragraph.text.len()));
            }
            "tbl" => self.tables.push(Vec::new()),
            "tr" => {
                if let Some(table) = self.tables.last_mut() {
                    table.push(Vec::new());
                }
            }
            "tc" => {
                if let Some(row) = self.tables.last_mut().and_then(|table| table.last_mut()) {
                    row.push(String::new());
                }
            }
            _ => {}
        }
    }

    fn end(&mut self, name: &str) {
        match name {
            "p" => self.end_paragraph(),
            "rPr" => self.in_run_properties = false,
            "t" => self.in_text = false,
            "hyperlink" => {
                if let Some((target, start)) = self.link.take()
                    && let Some(text) = self.paragraph.text.get(start..).map(str::to_owned)
                    && !text.trim().is_empty()
                {
                    self.paragraph.text.truncate(start);
                    let link = format!("[{}]({target})", text.trim());
                    self.paragraph.text.push_str(&link);
                }
            }
            "tbl" => self.end_table(),
            _ => {}
        }
    }

    fn push_text(&mut self, text: &str) {
        let mark = match (self.bold, self.italic) {
            (true, true) => "***",
            (true, false) => "**",
            (false, true) => "*",
            (false, false) => "",
        };
        let is_heading = heading_level(&self.paragraph).is_some();
        let inner = text.trim();
        if mark.is_empty() || inner.is_empty() || is_heading {
            self.paragraph.text.push_str(text);
            return;
        }
        let (before, after) = text.split_once(inner).unwrap_or_default();
        let marked = format!("{before}{mark}{inner}{mark}{after}");
        self.paragraph.text.push_str(&marked);
    }

    fn end_paragraph(&mut self) {
        let paragraph = std::mem::take(&mut self.paragraph);
        // Adjacent runs with the same emphasis.
        let text = paragraph.text.replace("****", "");
        if let Some(cell) = self
            .tables
            .last_mut()
            .and_then(|table| table.last_mut())
            .and_then(|row| row.last_mut())
        {
            if !cell.is_empty() {
                cell.push(' ');
            }
            cell.push_str(text.trim());
            return;
        }
        let style = paragraph.style.as_str();
        if let Some(level) = heading_level(&paragraph) {
            self.markdown.heading(level, &text);
        } else if let Some(list) = &paragraph.list {
            let is_numbered = self.numbered.get(list).copied().unwrap_or(false);
            self.markdown.list_item(paragraph.depth, is_numbered, &text);
        } else if style.starts_with("list bullet") || style.starts_with("list number") {
            let depth = style
                .rsplit(' ')
                .next()
                .and_then(|depth| depth.parse().ok());
            let depth = depth.unwrap_or(1usize).saturating_sub(1);
            let is_numbered = style.starts_with("list number");
            self.markdown.list_item(depth, is_numbered, &text);
        } else {
            self.markdown.paragraph(&text);
        }
    }

    /// Writes the table, or its text into the cell around it.
    fn end_table(&mut self) {
        let Some(rows) = self.tables.pop() else {
            return;
        };
        let cell = self
            .tables
            .last_mut()
            .and_then(|table| table.last_mut())
            .and_then(|row| row.last_mut());
        match cell {
            None => self.markdown.table(&rows),
            Some(cell) => {
                for text in rows.iter().flatten().filter(|text| !text.is_empty()) {
                    cell.push(' ');
                    cell.push_str(text);
                }
            }
        }
    }
}

/// Returns the level of a heading. `None` for other paragraphs.
fn heading_level(paragraph: &WordParagraph) -> Option<usize> {
    let style = paragraph.style.as_str();
    if style == "title" {
        return Some(1);
    }
    let number = style.strip_prefix("heading").map(str::trim);
    let level = number.and_then(|number| number.parse::<usize>().ok());
    level.or_else(|| {
        // 9 stands for body text.
        let outline = paragraph.outline.filter(|level| *level < 9);
        outline.map(|level| level + 1)
    })
}
