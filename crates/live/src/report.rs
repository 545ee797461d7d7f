//! What training programs say of their progress: lines of JSON, rows of CSV, or anything with a pattern.
