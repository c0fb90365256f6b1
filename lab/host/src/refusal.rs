//! Errors that tell why a command refuses a request, as `report::Error` does.

/// Makes such an error from a format string and its arguments.
macro_rules! refused {
    ($($text:tt)*) => { report::Error::refused(format!($($text)*)) };
}

/// Returns such an error from a function.
macro_rules! bail {
    ($($text:tt)*) => { return Err(refused!($($text)*)) };
}
