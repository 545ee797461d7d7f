//! The frame of a page: head, title, the answer, a list of its sections, the sections, and a foot. The one place where
//! style and script are put in.

use maud::{DOCTYPE, Markup, PreEscaped, html};

const STYLE: &str = include_str!("report.css");
const SCRIPT: &str = include_str!("report.js");
/// Nothing may be loaded from anywhere; browsers hold that.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; \
                      form-action 'none'";

/// A page.
pub(crate) struct Page {
    title: String,
    answer: String,
    sections: Vec<Section>,
    notes: Vec<String>,
}

/// A part of a page with a heading.
struct Section {
    id: &'static str,
    heading: &'static str,
    body: Markup,
}

impl Page {
    /// A page without sections. The answer is the sentence that a reader in a hurry takes away.
    pub(crate) fn new(title: impl Into<String>, answer: impl Into<String>) -> Self {
        Self { title: title.into(), answer: answer.into(), sections: Vec::new(), notes: Vec::new() }
    }

    /// Adds a section. The id is what links to it say; headings in the body begin at `h3`.
    #[must_use]
    pub(crate) fn with(mut self, id: &'static str, heading: &'static str, body: Markup) -> Self {
        self.sections.push(Section { id, heading, body });
        self
    }

    /// Adds a sentence to the foot.
    #[must_use]
    pub(crate) fn note(mut self, text: impl Into<String>) -> Self {
        self.notes.push(text.into());
        self
    }

    /// The whole page.
    pub(crate) fn into_html(self) -> String {
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta http-equiv="Content-Security-Policy" content=(POLICY);
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { "Trainyard: " (self.title) }
                    style { (PreEscaped(STYLE)) }
                }
                body {
                    a.skip href="#content" { "Skip to the content" }
                    header.top {
                        p.brand { (brand_mark()) "Trainyard" }
                        h1 { (self.title) }
                        p.answer { (self.answer) }
                        @if self.sections.len() > 1 {
                            nav.contents aria-label="On this page" {
                                ul { @for section in &self.sections {
                                    li { a href={ "#" (section.id) } { (section.heading) } }
                                } }
                            }
                        }
                    }
                    main #content tabindex="-1" {
                        @for section in self.sections {
                            section id=(section.id) aria-labelledby={ (section.id) "-heading" } {
                                h2 id={ (section.id) "-heading" } { (section.heading) }
                                (section.body)
                            }
                        }
                    }
                    footer.foot {
                        @for note in &self.notes { p { (note) } }
                        p { "Simulated by trainyard " (env!("CARGO_PKG_VERSION")) "." }
                    }
                    script { (PreEscaped(SCRIPT)) }
                }
            }
        };
        page.into_string()
    }
}

/// Three tracks that become one.
fn brand_mark() -> Markup {
    html! {
        svg.mark viewBox="0 0 24 16" aria-hidden="true" focusable="false" {
            path d="M1 2h6c5 0 5 6 10 6h6M1 8h22M1 14h6c5 0 5-6 10-6" {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_escaped_and_every_section_is_listed() {
        let page = Page::new("a < b", "x & y").with("one", "First", html! { p { "1" } });
        let text = page.with("two", "Second", html! {}).note("n").into_html();
        for part in
            ["<h1>a &lt; b</h1>", "x &amp; y", "href=\"#one\"", "href=\"#two\"", "id=\"two\"", "<p>n</p>"]
        {
            assert!(text.contains(part), "{part}");
        }
    }

    #[test]
    fn style_and_script_name_nothing_outside_and_cannot_end_early() {
        for outside in ["http:", "https:", "url(", "@import", "fetch(", "XMLHttp", "</script", "</style"] {
            let svg = "http://www.w3.org/2000/svg";
            assert!(!STYLE.contains(outside) && !SCRIPT.replace(svg, "").contains(outside), "{outside}");
        }
    }
}
