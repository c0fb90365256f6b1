//! Keeps images, and assembles root filesystems from their layers.

pub mod options;
pub mod rootfs;
