//! Root filesystems of many layers, assembled in a fixed number of mounts.

#![cfg_attr(not(test), no_std)]
