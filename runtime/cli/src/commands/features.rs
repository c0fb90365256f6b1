//! `features`: prints dayfly's features.

use super::print;
use crate::failure::Failure;
use crate::format::features;
use crate::invocation::Invocation;

pub fn command(_: &Invocation<'_>) -> Result<(), Failure> {
    print(&features::text()?)
}
