//! Ways in for the fuzz targets (`fuzz/`), in builds with the feature `fuzz`.

use alloc::vec::Vec;
use spec::resources::Resources;
use systemd::Property;

use crate::scope::properties::{of_resources, rounded};
use crate::{Error, devices};

/// `resources` as properties of a scope.
///
/// # Errors
/// Values that cannot be.
pub fn properties(
    resources: &Resources,
    unified: bool,
    idles: bool,
) -> Result<Vec<Property>, Error> {
    of_resources(&rounded(resources), unified, idles)
}

/// What the rules are for the files of v1, if those can say it.
pub fn legacy(rules: &[devices::Rule]) -> bool {
    devices::legacy::Policy::new(rules).is_ok()
}
