//! PowerPoint presentations.

use crate::markdown::Markdown;
use crate::package::DocumentPackage;
use crate::read::ReadError;
use crate::xml::{self, XmlElement, XmlItem};

/// Converts a presentation to Markdown, slide by slide.
pub fn to_markdown(mut package: DocumentPackage<'_>) -> Result<String, ReadError> {
    let presentation = package.required_part("ppt/presentation.xml")?;
    let targets = package.part("ppt/_rels/presentation.xml.rels")?;
    let targets = xml::relationships(targets.as_deref())?;
    let mut slides = Vec::new();
    xml::read_items(&presentation, |item| {
        if let XmlItem::Start(element) = item
            && element.name == "sldId"
        {
            // The attribute `r:id` follows the attribute `id`, which has the same local name.
            let target = element
                .values("id")
                .find_map(|id| targets.get(id))
                .map(|target| resolve("ppt", target));
            slides.extend(target);
        }
        Ok(())
    })?;
    let mut markdown = Markdown::default();
    for (number, slide) in (1..).zip(slides) {
        let text = package.required_part(&slide)?;
        let reader = SlideReader::read(&text)?;
        match reader.title.trim() {
            "" => markdown.heading(2, &format!("Slide {number}")),
            title => markdown.heading(2, &format!("Slide {number}: {title}")),
        }
        reader.write(&mut markdown);
        if let Some(notes) = read_notes(&mut package, &slide)? {
            markdown.paragraph(&format!("Notes: {notes}"));
        }
        markdown.check_size()?;
    }
    Ok(markdown.finish())
}

/// Resolves the target of a relationship from a folder.
fn resolve(folder: &str, target: &str) -> String {
    if let Some(absolute) = target.strip_prefix('/') {
        return absolute.to_owned();
    }
    let mut parts: Vec<&str> = folder.split('/').collect();
    for part in target.split('/') {
        match part {
            "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Reads the notes of a slide.
fn read_notes(package: &mut DocumentPackage<'_>, slide: &str) -> Result<Option<String>, ReadError> {
    let Some((folder, name)) = slide.rsplit_once('/') else {
        return Ok(None);
    };
    let targets = package.part(&format!("{folder}/_rels/{name}.rels"))?;
    let targets = xml::relationships(targets.as_deref())?;
    let Some(notes) = targets
        .values()
        .find(|target| target.contains("notesSlide"))
    else {
        return Ok(None);
    };
    let Some(text) = package.part(&resolve(folder, notes))? else {
        return Ok(None);
    };
    let reader = SlideReader::read(&text)?;
    let body = reader.blocks.iter().filter_map(|block| match block {
        SlideBlock::Text { text, .. } => Some(text.trim()),
        SlideBlock::Table(_) => None,
    });
    let body: Vec<&str> = body.filter(|text| !text.is_empty()).collect();
    Ok((!body.is_empty()).then(|| body.join("\n")))
}

/// The text of a slide.
#[derive(Default)]
struct SlideReader {
    title: String,
    blocks: Vec<SlideBlock>,
    /// Kind of the placeholder that is read.
    placeholder: String,
    /// True if the shape is a placeholder, whose texts are lists.
    is_placeholder: bool,
    text: String,
    depth: usize,
    in_text: bool,
    table: Option<Vec<Vec<String>>>,
}

enum SlideBlock {
    Text {
        text: String,
        depth: usize,
        is_item: bool,
    },
    Table(Vec<Vec<String>>),
}

impl SlideReader {
    fn read(text: &str) -> Result<Self, ReadError> {
        let mut reader = Self::default();
        xml::read_items(text, |item| {
            match item {
                XmlItem::Start(element) => reader.start(&element),
                XmlItem::End(name) => reader.end(&name),
                XmlItem::Text(text) if reader.in_text => reader.text.push_str(&text),
                XmlItem::Text(_) => {}
            }
            Ok(())
        })?;
        Ok(reader)
    }

    fn start(&mut self, element: &XmlElement) {
        match element.name.as_str() {
            "sp" => {
                self.placeholder.clear();
                self.is_placeholder = false;
            }
            "ph" => {
                self.is_placeholder = true;
                self.placeholder = element.attribute("type").unwrap_or_default().to_owned();
            }
            "p" => {
                self.text.clear();
                self.depth = 0;
            }
            "pPr" => self.depth = element.number("lvl").unwrap_or(0),
            "br" => self.text.push('\n'),
            "t" => self.in_text = true,
            "tbl" => self.table = Some(Vec::new()),
            "tr" => {
                if let Some(table) = &mut self.table {
                    table.push(Vec::new());
                }
            }
            "tc" => {
                if let Some(row) = self.table.as_mut().and_then(|table| table.last_mut()) {
                    row.push(String::new());
                }
            }
            _ => {}
        }
    }

    fn end(&mut self, name: &str) {
        match name {
            "t" => self.in_text = false,
            "p" => self.end_paragraph(),
            "tbl" => {
                let table = self.table.take();
                self.blocks.extend(table.map(SlideBlock::Table));
            }
            _ => {}
        }
    }

    fn end_paragraph(&mut self) {
        let text = std::mem::take(&mut self.text);
        let row = self.table.as_mut().and_then(|table| table.last_mut());
        if let Some(cell) = row.and_then(|row| row.last_mut()) {
            if !cell.is_empty() {
                cell.push(' ');
            }
            cell.push_str(text.trim());
            return;
        }
        match self.placeholder.as_str() {
            "title" | "ctrTitle" => {
                if !self.title.is_empty() {
                    self.title.push(' ');
                }
                self.title.push_str(text.trim());
            }
            // The number and the date of a slide are not content.
            "sldNum" | "dt" | "ftr" => {}
            kind => self.blocks.push(SlideBlock::Text {
                text,
                depth: self.depth,
                is_item: self.is_placeholder && kind != "subTitle",
            }),
        }
    }

    fn write(&self, markdown: &mut Markdown) {
        for block in &self.blocks {
            match block {
                SlideBlock::Text {
                    text,
                    depth,
                    is_item: true,
                } => markdown.list_item(*depth, false, text),
                SlideBlock::Text { text, .. } => markdown.paragraph(text),
                SlideBlock::Table(rows) => markdown.table(rows),
            }
        }
    }
}
