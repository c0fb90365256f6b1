//! Records of containers. An input is a record's bytes, which may contain the id.

/// Checks that any bytes are parsed as a record or rejected, and that a record that does not match its seal is
/// rejected.
pub fn target(data: &[u8]) {
    container::fuzz::record(data);
}
