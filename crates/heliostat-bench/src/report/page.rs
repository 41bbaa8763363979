//! A page being written: no script, nothing fetched from elsewhere, light or dark as the reader
//! likes it.

const STYLE: &str = "
:root { color-scheme: light dark; --ink: #1b1b1b; --paper: #fcfcfa; --quiet: #5a5a5a;
  --line: #d5d5d0; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8e8e4; --paper: #17181a; --quiet: #a5a5a0; --line: #3a3b3e; } }
body { margin: 0 auto; max-width: 60rem; padding: 1.5rem; background: var(--paper);
  color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; margin: 0 0 .3rem; }
h2 { font-size: 1.25rem; margin: 2.4rem 0 .4rem; border-bottom: 1px solid var(--line); }
h3 { font-size: 1.05rem; margin: 1.8rem 0 .2rem; }
p, li { max-width: 46rem; }
nav a { margin-right: 1rem; }
a { color: inherit; }
pre { overflow-x: auto; font: 13px/1.45 ui-monospace, monospace; border: 1px solid var(--line);
  padding: .8rem; }
figure { margin: .6rem 0 1.6rem; }
figcaption { color: var(--quiet); font-size: .9rem; max-width: 46rem; }
svg { display: block; width: 100%; height: auto; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; font-size: .9rem; }
dt { color: var(--quiet); }
dd { margin: 0; overflow-wrap: anywhere; }
table { border-collapse: collapse; font-size: .9rem; margin: .8rem 0; }
th { text-align: left; font-weight: 600; color: var(--quiet); }
th, td { padding: .15rem 1rem .15rem 0; border-bottom: 1px solid var(--line);
  overflow-wrap: anywhere; }
.number { text-align: right; white-space: nowrap; }
summary { cursor: pointer; color: var(--quiet); }
";

/// A page of HTML. What is handed to it as text is shown as text, whatever it contains; only
/// [`Page::html`] takes markup.
#[derive(Clone, Debug)]
pub struct Page {
    html: String,
}

impl Page {
    /// A page with this title for windows and tabs, empty so far.
    #[must_use]
    pub fn new(title: &str) -> Self {
        Self::with_style(title, "")
    }

    /// The same with rules of style of its own, which may replace those of every page.
    #[must_use]
    pub fn with_style(title: &str, style: &str) -> Self {
        let title = escaped(title);
        Self {
            html: format!(
                "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
                 <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
                 <title>{title}</title>\n<style>{STYLE}{style}</style>\n</head>\n<body>\n"
            ),
        }
    }

    /// Adds markup as it is. The caller vouches for it: names from files go through [`escaped`].
    pub fn html(&mut self, markup: &str) {
        self.html.push_str(markup);
    }

    /// Adds a figure: a plot as SVG, and what it shows, which people who cannot see it hear too.
    pub fn figure(&mut self, svg: &str, caption: &str) {
        let caption = escaped(caption);
        let svg = svg.replacen(
            "<svg ",
            &format!("<svg role=\"img\" aria-label=\"{caption}\" "),
            1,
        );
        self.html.push_str(&format!(
            "<figure>\n{svg}<figcaption>{caption}</figcaption>\n</figure>\n"
        ));
    }

    /// Adds a text that keeps its lines, in letters of equal width.
    pub fn preformatted(&mut self, text: &str) {
        self.html
            .push_str(&format!("<pre>{}</pre>\n", escaped(text)));
    }

    /// Adds a list of sentences.
    pub fn sentences(&mut self, sentences: &[String]) {
        self.html.push_str("<ul>\n");
        for sentence in sentences {
            // A percent sign is not parted from its number.
            let sentence = escaped(sentence).replace(" %", "&nbsp;%");
            self.html.push_str(&format!("<li>{sentence}</li>\n"));
        }
        self.html.push_str("</ul>\n");
    }

    /// Adds a list of names and values.
    pub fn definitions(&mut self, rows: &[(&str, String)]) {
        self.html.push_str("<dl>\n");
        for (name, value) in rows {
            let (name, value) = (escaped(name), escaped(value));
            self.html
                .push_str(&format!("<dt>{name}</dt><dd>{value}</dd>\n"));
        }
        self.html.push_str("</dl>\n");
    }

    /// The page, complete.
    #[must_use]
    pub fn finish(mut self) -> String {
        self.html.push_str("</body>\n</html>\n");
        self.html
    }
}

/// `text` with what means something in HTML written out.
#[must_use]
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::Page;

    #[test]
    fn text_stays_text() {
        let mut page = Page::new("<script>");
        page.figure("<svg width=\"1\"></svg>\n", "a \"quoted\" <b>");
        page.preformatted("<i>");
        page.sentences(&["5 % & <u>".to_owned()]);
        page.definitions(&[("<s>", "<em>".to_owned())]);
        let page = page.finish();
        for markup in ["<script", "<b>", "<i>", "<u>", "<s>", "<em>"] {
            assert!(!page.contains(markup), "{markup}");
        }
        assert!(page.contains("aria-label=\"a &quot;quoted&quot; &lt;b&gt;\""));
        assert!(page.contains("<li>5&nbsp;% &amp; &lt;u&gt;</li>"));
        assert!(page.ends_with("</body>\n</html>\n"));
    }

    #[test]
    fn a_page_needs_nothing_from_elsewhere() {
        let page = Page::new("title").finish();
        assert!(!page.contains("http") && !page.contains("src=") && !page.contains("url("));
        assert!(page.contains("prefers-color-scheme: dark"));
    }
}
