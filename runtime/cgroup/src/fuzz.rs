//! Entry points for the fuzz targets in `fuzz/`; only in builds with the feature `fuzz`.

use alloc::vec::Vec;
use spec::resources::Resources;

use crate::scope::properties::{of_resources, rounded};
use crate::systemd::Property;
use crate::{Error, devices};

/// Converts `resources` to properties of a scope unit.
///
/// # Errors
/// If a value is invalid.
pub fn properties(
    resources: &Resources,
    unified: bool,
    idles: bool,
) -> Result<Vec<Property>, Error> {
    of_resources(&rounded(resources), unified, idles)
}

/// Returns whether the files of cgroup v1 can express the rules.
pub fn legacy(rules: &[devices::Rule]) -> bool {
    devices::legacy::Policy::new(rules).is_ok()
}
