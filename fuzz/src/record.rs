//! Records of containers. An input is a record's bytes, in which the container's id may occur.

/// Checks that any bytes are either parsed as a record or rejected, and that a record is rejected if it does not match
/// its seal.
pub fn target(data: &[u8]) {
    container::fuzz::record(data);
}
