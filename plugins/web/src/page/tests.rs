use url::Url;

use super::{Page, markdown, text};

fn base() -> Url {
    Url::parse("https://site.example/docs/page.html?q=1").unwrap()
}

fn md(html: &str) -> String {
    markdown(html, &base()).text
}

#[test]
fn page_is_reduced_to_its_main_part() {
    let words = "Something worth reading. ".repeat(20);
    let page = format!(
        "<!doctype html><title> A  page\n here </title><style>p {{}}</style><body>
        <header><a href=/>Logo</a></header><nav><a href=/a>Menu</a></nav>
        <main><h1>Heading <a class=anchor href=#h>#</a></h1><p>{words}</p><footer>by us</footer></main>
        <aside>Advert</aside><script>alert(1)</script><footer>Imprint</footer>"
    );
    let Page { title, text } = markdown(&page, &base());
    assert_eq!(title.as_deref(), Some("A page here"));
    assert_eq!(text, format!("# Heading\n\n{}", words.trim()));
}

#[test]
fn page_main_part_without_words_is_ignored() {
    let text = md("<body><main><div id=app></div></main><p>What there is without scripts.</p>");
    assert_eq!(text, "What there is without scripts.");
    let article = format!("<article><p>{}</p></article>", "word ".repeat(100));
    let text = md(&format!("<body><p>before</p>{article}"));
    assert!(!text.contains("before"), "{text}");
    // With several articles, none is taken as the main part.
    let text = md(&format!("<body><p>before</p>{article}{article}"));
    assert!(text.contains("before"), "{text}");
}

#[test]
fn page_hidden_content_is_left_out() {
    let text = md("<p>seen</p>
        <p hidden>one</p><p aria-hidden=true>two</p><p style='Display : none'>three</p>
        <div style='color:red;visibility:hidden'>four</div><p style='font-size:0'>five</p>
        <template>six</template><noscript>seven</noscript><!-- eight --><dialog>nine</dialog>
        <div role=dialog>ten</div><p style='opacity:0'>eleven</p><p style='opacity:0.9'>seen too</p>");
    assert_eq!(text, "seen\n\nseen too");
    for style in [
        "font-size:0px",
        "font-size: 0.0em !important",
        "opacity:0.0",
        "opacity: 0%",
        "position:absolute; left:-9999px",
        "text-indent:-10000px",
    ] {
        let text = md(&format!("<p>seen</p><p style='{style}'>one</p>"));
        assert_eq!(text, "seen", "{style}");
    }
    for class in ["sr-only", "a screen-reader-text"] {
        let text = md(&format!("<p>seen</p><p class='{class}'>one</p>"));
        assert_eq!(text, "seen", "{class}");
    }
    for style in ["font-size:0.8em", "opacity:.5", "left:-10px", "color:red"] {
        let text = md(&format!("<p style='{style}'>seen</p>"));
        assert_eq!(text, "seen", "{style}");
    }
}

#[test]
fn page_superscripts_are_marked() {
    let page = "<p>x<sup>2</sup> e<sup>n + 1</sup> s<sup>−1</sup> 1<sup>st</sup> told<sup><a href=#n>[1]</a></sup> mimir<sup>™</sup></p>";
    let told = "x^2 e^(n + 1) s^−1 1st told[1] mimir™";
    assert_eq!(text(page, &base()).text, told);
    assert_eq!(md(page).replace('\\', ""), told);
}

#[test]
fn page_links_and_images_become_markdown_or_words() {
    let text = md("<p><a href='../up' title=t>up</a>, <a href='#here'>here</a>, <a href='javascript:x()'>do</a>,
        <a href='//other.example/x y'>other</a>, <a href=/><img src=/i.png alt=Home></a>, <a href=/gone><img src=/i.png></a>
        <img src='data:image/png;base64,AA' alt=data><img src=/no-words.png></p>");
    assert_eq!(
        text,
        "[up](https://site.example/up), here, do, [other](https://other.example/x%20y), [![Home](https://site.example/i.png)](https://site.example/),"
    );
    let based = md("<head><base href='https://cdn.example/a/'></head><a href=b>b</a>");
    assert_eq!(based, "[b](https://cdn.example/a/b)");
}

#[test]
fn page_code_is_preserved_verbatim() {
    let text = md(
        "<p>Use <code>Option&lt;<a href=/s>String</a>&gt;</code> or <code>a`b</code>.</p>
<pre class='x language-rust'><code>fn main() {\n\n\n    let tick = \"```\";   \n}\n</code></pre>
<pre>plain  text</pre>",
    );
    assert_eq!(
        text,
        "Use `Option<String>` or ``a`b``.\n\n````rust\nfn main() {\n\n\n    let tick = \"```\";   \n}\n````\n\n```\nplain  text\n```"
    );
}

#[test]
fn page_lists_and_tables_become_markdown() {
    let text = md(
        "<ul><li>one<ul><li>inner</li></ul></li><li>two</li></ul><ol><li>first</li></ol>
        <table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2 | 3</td></tr></table>
        <ul><li><a hreflang=de href=//de.example/>Deutsch</a></li></ul>",
    );
    assert!(text.starts_with("- one\n"), "{text}");
    assert!(
        text.contains("- inner") && text.contains("1. first"),
        "{text}"
    );
    assert!(
        text.contains("| a | b |\n|---|---|\n| 1 | 2 \\| 3 |"),
        "{text}"
    );
    assert!(!text.contains("Deutsch"), "{text}");
}

#[test]
fn page_tables_lose_no_cells() {
    let table = |rows: &str| md(&format!("<table>{rows}</table>"));
    for (rows, written) in [
        // Headers of columns and rows.
        (
            "<tr><td></td><th>Free</th><th>Pro</th></tr><tr><th>Price</th><td>$0</td><td>$9</td></tr>",
            "| | Free | Pro |\n|---|---|---|\n| Price | $0 | $9 |",
        ),
        (
            "<thead><tr><th>a</th><th>b</th></tr><tr><th>c</th><th>d</th></tr></thead><tr><th>e</th><td>1</td></tr>",
            "| a | b |\n|---|---|\n| c | d |\n| e | 1 |",
        ),
        // With row headers only, and without any.
        (
            "<tr><th>Born</th><td>1815</td></tr><tr><th>Died</th><td>1852</td></tr>",
            "| | |\n|---|---|\n| Born | 1815 |\n| Died | 1852 |",
        ),
        (
            "<tr><td>a</td><td>1</td></tr><tr><td>b</td><td>2</td></tr><tfoot><tr><td>c</td><td>3</td></tr></tfoot>",
            "| | |\n|---|---|\n| a | 1 |\n| b | 2 |\n| c | 3 |",
        ),
        // Cells that span columns and rows do not shift the others.
        (
            "<tr><th>a</th><th>b</th><th>c</th></tr><tr><td colspan=2>wide</td><td>3</td></tr>
             <tr><td rowspan=2>tall</td><td>1</td><td>2</td></tr><tr><td>4</td><td>5</td></tr><tr><td>6</td></tr>",
            "| a | b | c |\n|---|---|---|\n| wide | | 3 |\n| tall | 1 | 2 |\n| | 4 | 5 |\n| 6 |",
        ),
        // A cell is one line.
        (
            "<tr><th>a</th><th>b</th></tr><tr><td><p>one</p><p>two</p></td><td><pre>x | y\nz</pre></td></tr>
             <tr><td><ul><li>1</li><li>2</li></ul></td><td><table><tr><th>k</th><td>v</td></tr><tr><td>l</td><td>w</td></tr></table></td></tr>",
            "| a | b |\n|---|---|\n| one<br>two | `x \\| y`<br>`z` |\n| - 1<br>- 2 | k; v<br>l; w |",
        ),
        // A layout table is not written as a table.
        (
            "<tr><td><h2>Left</h2><p>words</p></td><td><table><tr><th>a</th><td>1</td></tr></table></td></tr>",
            "## Left\n\nwords\n\n| | |\n|---|---|\n| a | 1 |",
        ),
        ("<tr><td>alone</td></tr><tr><td>again</td></tr>", "alone\n\nagain"),
        ("<caption>Only this</caption>", "Only this"),
        ("<tr><td></td><td> </td></tr>", ""),
    ] {
        assert_eq!(table(rows), written, "{rows}");
    }
}

#[test]
fn page_table_size_is_bounded_by_its_content() {
    let rows = "<tr><td>a<td>b<td>c".repeat(3_000);
    let long = "x".repeat(100_000);
    let page = format!("<table><tr><th>1<th>2<th>3{rows}<tr><td>{long}</table>");
    let text = md(&page);
    assert!(text.len() < page.len(), "{} of {}", text.len(), page.len());
    // A page may claim any size of its cells.
    let wide = "<tr><td rowspan=65534>a<td colspan=1000>b<td>c".repeat(1_000);
    let page = format!("<table>{wide}</table>");
    let text = md(&page);
    assert_eq!(text.matches('c').count(), 1_000);
    assert!(
        text.len() < 5 * page.len(),
        "{} of {}",
        text.len(),
        page.len()
    );
}

#[test]
fn page_text_has_no_markdown_marks() {
    let html = "<h1>Title</h1><p>Some <b>bold</b>\n words, <a href=/x>a link</a>.<br>Next line</p>
        <ul><li>one</li><li>two</li></ul><table><tr><td>a</td><td>b</td></tr><tr><td>c</td></tr></table>
        <pre>  kept\n    so</pre><p>end</p>";
    assert_eq!(
        text(html, &base()).text,
        "Title\n\nSome bold words, a link.\nNext line\n\n- one\n- two\n\na\tb\nc\n\n  kept\n    so\n\nend"
    );
}

#[test]
fn page_nesting_may_be_thousands_deep() {
    let deep = 5_000;
    for (open, close) in [
        ("<div>", "</div>"),
        ("<b>", "</b>"),
        ("<ul><li>", "</li></ul>"),
    ] {
        let html = format!("{}core{}", open.repeat(deep), close.repeat(deep));
        assert!(md(&html).contains("core"), "{open}");
        assert!(text(&html, &base()).text.contains("core"), "{open}");
    }
}

#[test]
fn page_that_is_not_html_is_still_read() {
    for (html, words) in [
        ("", ""),
        ("just words", "just words"),
        ("<", "<"),
        ("a <b", "a"),
    ] {
        assert_eq!(md(html).trim_start_matches('\\'), words, "{html}");
    }
    assert_eq!(md("<title>t</title>"), "");
}
