//! One of several panels at a time, picked by a row of buttons. They are radio buttons and style alone, so that it works
//! without scripts and with the arrow keys.

use std::fmt::Write as _;

use maud::{Markup, PreEscaped, html};

use super::swatch;

/// The panels with their names; of one panel only itself. `about` says what is picked, such as `Policy`.
pub(crate) fn picker(id: &str, about: &str, panels: Vec<(String, Markup)>) -> Markup {
    if panels.len() < 2 {
        return html! { @for (_, panel) in panels { div.panel.alone { (panel) } } };
    }
    html! {
        style { (PreEscaped(rules(id, panels.len()))) }
        fieldset.picker id=(id) {
            legend { (about) }
            @for (i, (name, _)) in panels.iter().enumerate() {
                input.unseen type="radio" name=(id) id=(format!("{id}-{i}")) checked[i == 0];
                label for=(format!("{id}-{i}")) { (swatch(i)) (name) }
            }
            div.panels { @for (name, panel) in panels {
                div.panel { h3 { (name) } (panel) }
            } }
        }
    }
}

/// Which panel is seen when which button is pressed.
fn rules(id: &str, panels: usize) -> String {
    let mut text = String::new();
    for i in 0..panels {
        let _ = write!(text, "#{id}-{i}:checked~.panels>:nth-child({}),", i + 1);
    }
    text.pop();
    text + "{display:block}"
}
