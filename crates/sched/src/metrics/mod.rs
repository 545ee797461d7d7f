//! Folds.
