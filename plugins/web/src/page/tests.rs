use url::Url;

use super::{Page, markdown, text};

fn base() -> Url {
    Url::parse("https://site.example/docs/page.html?q=1").unwrap()
}

fn md(html: &str) -> String {
    markdown(html, &base()).text
}

#[test]
fn a_page_is_its_main_part() {
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
fn a_main_part_without_words_is_none() {
    let text = md("<body><main><div id=app></div></main><p>What there is without scripts.</p>");
    assert_eq!(text, "What there is without scripts.");
    let article = format!("<article><p>{}</p></article>", "word ".repeat(100));
    let text = md(&format!("<body><p>before</p>{article}"));
    assert!(!text.contains("before"), "{text}");
    // Of several, none is the page.
    let text = md(&format!("<body><p>before</p>{article}{article}"));
    assert!(text.contains("before"), "{text}");
}

#[test]
fn what_nobody_sees_is_not_told() {
    let text = md("<p>seen</p>
        <p hidden>one</p><p aria-hidden=true>two</p><p style='Display : none'>three</p>
        <div style='color:red;visibility:hidden'>four</div><p style='font-size:0'>five</p>
        <template>six</template><noscript>seven</noscript><!-- eight --><dialog>nine</dialog>
        <div role=dialog>ten</div><p style='opacity:0'>eleven</p><p style='opacity:0.9'>seen too</p>");
    assert_eq!(text, "seen\n\nseen too");
}

#[test]
fn links_and_pictures_are_whole_or_words() {
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
fn code_is_kept_as_it_is() {
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
fn lists_and_tables_stay_what_they_are() {
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
    assert!(text.contains("| a"), "{text}");
    assert!(!text.contains("Deutsch"), "{text}");
}

#[test]
fn text_has_words_and_lines_and_no_marks() {
    let html = "<h1>Title</h1><p>Some <b>bold</b>\n words, <a href=/x>a link</a>.<br>Next line</p>
        <ul><li>one</li><li>two</li></ul><table><tr><td>a</td><td>b</td></tr><tr><td>c</td></tr></table>
        <pre>  kept\n    so</pre><p>end</p>";
    assert_eq!(
        text(html, &base()).text,
        "Title\n\nSome bold words, a link.\nNext line\n\n- one\n- two\n\na\tb\nc\n\n  kept\n    so\n\nend"
    );
}

#[test]
fn a_page_may_be_nested_as_deep_as_it_likes() {
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
fn what_is_no_page_is_read_all_the_same() {
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
