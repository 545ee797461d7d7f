//! The page of a what-if. For now plain.
use crate::config::Inputs;
use crate::experiment::whatif::Answer;

/// The whole page.
pub(crate) fn whatif_page(_inputs: &Inputs, answer: &Answer) -> String {
    answer.sentences.join("\n")
}
