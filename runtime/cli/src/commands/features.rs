//! `features`: prints the features of this build of dayfly.

use super::print;
use crate::failure::Failure;
use crate::format::features;
use crate::invocation::Invocation;

pub fn command(_: &Invocation<'_>) -> Result<(), Failure> {
    print(&features::text()?)
}
