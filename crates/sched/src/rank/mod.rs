//! Who goes next?
