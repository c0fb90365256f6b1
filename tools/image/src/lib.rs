//! Stores images, and assembles root filesystems from their layers.

pub mod apart;
pub mod bar;
pub mod bridge;
pub mod commands;
pub mod digest;
pub mod error;
pub mod export;
pub mod import;
pub mod list;
pub mod merged;
pub mod oci;
pub mod options;
pub mod platform;
pub mod reference;
pub mod registry;
pub mod rootfs;
pub mod runtime;
pub mod source;
pub mod store;
pub mod unpack;
pub mod user;
