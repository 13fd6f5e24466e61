"""Makes the documents next to this file. Needs python-docx, openpyxl, python-pptx, reportlab, odfpy and pillow."""

from datetime import date, datetime
from pathlib import Path

import docx
import openpyxl
import pptx
from odf import table, text
from odf.opendocument import OpenDocumentText
from PIL import Image
from reportlab.lib.pagesizes import A5
from reportlab.pdfgen import canvas

HERE = Path(__file__).parent


def word() -> None:
    document = docx.Document()
    document.add_heading("Quarterly report", 0)
    document.add_heading("Sales", 1)
    paragraph = document.add_paragraph("Sales rose by ")
    paragraph.add_run("12 %").bold = True
    paragraph.add_run(" in the ")
    paragraph.add_run("north").italic = True
    paragraph.add_run(".")
    document.add_paragraph("First point", style="List Bullet")
    document.add_paragraph("Inner point", style="List Bullet 2")
    document.add_paragraph("Step one", style="List Number")
    rows = document.add_table(rows=2, cols=2)
    for (row, column), value in {
        (0, 0): "Region",
        (0, 1): "Euro | total",
        (1, 0): "North",
        (1, 1): "1200",
    }.items():
        rows.cell(row, column).text = value
    document.save(HERE / "report.docx")


def sheets() -> None:
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "Orders"
    for row in [
        ["Day", "Item", "Price", "Paid"],
        [date(2026, 3, 1), "Pen", 1.5, True],
        [datetime(2026, 3, 2, 14, 30), "Book & map", 20, False],
    ]:
        sheet.append(row)
    book.create_sheet("Empty")
    book.save(HERE / "orders.xlsx")
    book = openpyxl.Workbook()
    book.active["A1"] = 1
    book.active["XFD1048576"] = 2
    book.save(HERE / "far.xlsx")


def slides() -> None:
    deck = pptx.Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[1])
    slide.shapes.title.text = "Plan"
    body = slide.placeholders[1].text_frame
    body.text = "Build"
    inner = body.add_paragraph()
    inner.text = "Test"
    inner.level = 1
    slide.notes_slide.notes_text_frame.text = "Say hello"
    second = deck.slides.add_slide(deck.slide_layouts[5])
    second.shapes.title.text = "Numbers"
    cells = second.shapes.add_table(2, 2, 0, 0, 900000, 900000).table
    for at, value in enumerate(["a", "b", "1", "2"]):
        cells.cell(at // 2, at % 2).text = value
    deck.save(HERE / "plan.pptx")


def open_document() -> None:
    document = OpenDocumentText()
    document.text.addElement(text.H(outlinelevel=1, text="Notes"))
    document.text.addElement(text.P(text="Plain text"))
    items = text.List()
    for value in ["red", "green"]:
        item = text.ListItem()
        item.addElement(text.P(text=value))
        items.addElement(item)
    document.text.addElement(items)
    rows = table.Table(name="T")
    for values in [["x", "y"], ["1", "2"]]:
        row = table.TableRow()
        for value in values:
            cell = table.TableCell()
            cell.addElement(text.P(text=value))
            row.addElement(cell)
        rows.addElement(row)
    document.text.addElement(rows)
    document.save(HERE / "notes.odt")


def pdf() -> None:
    pages = canvas.Canvas(str(HERE / "manual.pdf"), pagesize=A5, invariant=1)
    pages.setFont("Helvetica-Bold", 20)
    pages.drawString(50, 500, "User manual")
    pages.setFont("Helvetica", 11)
    pages.drawString(50, 470, "This manual explains the device.")
    pages.drawString(50, 456, "Read it before the first use.")
    pages.showPage()
    pages.setFont("Helvetica", 11)
    pages.drawString(50, 500, "The second page: café, 10 €.")
    pages.showPage()
    pages.save()


def images() -> None:
    image = Image.new("RGB", (13, 7), (200, 30, 30))
    for name in ["dot.png", "dot.jpg", "dot.gif", "dot.webp"]:
        image.save(HERE / name)
    image.save(HERE / "lossless.webp", lossless=True)


for make in [word, sheets, slides, open_document, pdf, images]:
    make()
