//! `features`: prints what dayfly can do.

use super::print;
use crate::failure::Failure;
use crate::format::features;
use crate::invocation::Invocation;

pub fn command(_: &Invocation<'_>) -> Result<(), Failure> {
    print(&features::text()?)
}
