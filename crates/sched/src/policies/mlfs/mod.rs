//! Policies of MLFS: Wang, Liu and Shen, CoNEXT 2020.

mod mlfc;

pub(super) use mlfc::MLF_C;
