//! The page of a sweep. For now plain.
use crate::experiment::sweep::Swept;

/// The whole page.
pub(crate) fn sweep_page(swept: &Swept) -> String {
    super::sweep::sweep_text(&swept.compared)
}
