//! The standard output. `print!` panics when nobody reads it any more, or when the disk is full.

use std::fmt;
use std::io::{self, Write};

/// What a shell reports of a program that died of SIGPIPE.
const NOBODY_READS: i32 = 128 + 13;

/// As `print!`, by [`write()`].
#[macro_export]
macro_rules! say {
    ($($text:tt)*) => { $crate::say::write(format_args!($($text)*)) };
}

/// As `println!`, by [`write()`].
#[macro_export]
macro_rules! sayln {
    () => { $crate::say::write(format_args!("\n")) };
    ($($text:tt)*) => { $crate::say::write(format_args!("{}\n", format_args!($($text)*))) };
}

/// Writes to the standard output. If that can't be done, the program ends: without a word where nobody reads
/// (`dayfly cgroup ls | head`), else with the reason. So what is told of changes is told before they are made.
pub fn write(text: fmt::Arguments<'_>) {
    let mut out = io::stdout().lock();
    let Err(error) = out.write_fmt(text) else { return };
    if error.kind() == io::ErrorKind::BrokenPipe {
        std::process::exit(NOBODY_READS);
    }
    let error = crate::Error::system("write", "the standard output", error);
    let _ = writeln!(io::stderr(), "dayfly: {error}");
    std::process::exit(1);
}
