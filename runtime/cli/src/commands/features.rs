//! `features`: prints what dayfly can do.

use super::print;
use crate::failure::Failure;
use crate::format::features;

pub fn command() -> Result<(), Failure> {
    print(&features::text()?)
}
