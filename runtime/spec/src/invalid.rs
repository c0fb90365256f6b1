//! Errors of validating a configuration.

use alloc::string::String;
use core::fmt;

/// The reason why a configuration is invalid. Where runc reports the same error, its message is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Invalid {
    /// An invalid name in `linux.netDevices`, which a test build may let pass.
    NetDeviceName(String),
    /// Any other reason: the whole message.
    Text(String),
}

/// Returns an [`Invalid`] with a formatted message.
macro_rules! invalid {
    ($($text:tt)*) => {
        $crate::invalid::Invalid::Text(alloc::fmt::format(format_args!($($text)*)))
    };
}
pub(crate) use invalid;

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NetDeviceName(name) => write!(f, "invalid network device name {name:?}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

impl core::error::Error for Invalid {}
